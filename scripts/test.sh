#!/usr/bin/env bash
# usage: scripts/test.sh [--all] [FILTER...]
#
# Sets up what the tests need and runs every test, or those whose names contain a FILTER.
# Started as root, it builds as root and runs the tests as the user paddock-test, from a
# staged copy of the repository; with apt-get it installs the programs that tests start.
# The last line says `N passed, N failed, N skipped`.
#
# --all runs the tests that are slow, too (PADDOCK_TEST_ALL=1), and installs the agents that
# only they need.
# PADDOCK_TEST_STRICT=1 turns tests that cannot run here from skipped into failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

filters=()
for argument; do
    case $argument in
    --all) export PADDOCK_TEST_ALL=1 ;;
    --help | -h)
        help
        exit
        ;;
    -*) die "unknown argument: $argument; type: $0 --help" ;;
    *) filters+=("$argument") ;;
    esac
done

# Each executable that cargo builds, behind the directory of its package: tests=true for
# test executables, false for programs.
executables() { # TESTS CARGO-ARGUMENT...
    local tests=$1
    shift
    cargo "$@" --message-format=json-render-diagnostics |
        grep "\"overflow_checks\":[a-z]*,\"test\":$tests}" |
        sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"executable":"\([^"]*\)".*|\1\t\2|p' | sort
}

# The programs that tests start in sandboxes, each with its package for apt-get. They are
# looked for where every user has them.
test_programs=(bash:bash curl:curl fish:fish gdb:gdb git:git javac:default-jdk-headless
    node:nodejs npm:npm openssl:openssl perl:perl pip3:python3-pip python3:python3
    ssh-agent:openssh-client strace:strace tmux:tmux zsh:zsh)

install_test_programs() {
    local pair packages=() missing=() command
    for pair in "${test_programs[@]}"; do
        [[ -z $(PATH=/usr/local/bin:/usr/bin:/bin type -P "${pair%:*}") ]] || continue
        missing+=("${pair%:*}") packages+=("${pair#*:}")
    done
    ((${#packages[@]})) || return 0
    command="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    if ((EUID == 0)) && has apt-get; then
        say "$command"
        if DEBIAN_FRONTEND=noninteractive sh -c "$command" >&2; then return; fi
        say "that failed, its messages are above"
    fi
    say "tests that need these programs do not run: ${missing[*]}"
}

link_or_copy() { cp -RLl "$@" 2>/dev/null || cp -RL "$@"; }

cd "$root"
scripts/setup.sh --no-build
install_test_programs
nono=$(find_nono)
# The agents that there are to test with, and behind each its program.
agents=()
wanted_agents=(codex opencode claude)
[[ -z ${PADDOCK_TEST_ALL:-} ]] || wanted_agents+=(goose copilot qwen gemini)
if ! has npm; then
    say "without npm there is no agent to test with: install Node.js to have them"
    wanted_agents=()
fi
for agent in "${wanted_agents[@]}"; do
    if program=$(scripts/install-agent.sh "$agent"); then
        agents+=("$agent=$program")
    else
        say "without $agent, for the reason above, the tests that need it do not run"
    fi
done
clients=
if ! has npm || ! has python3; then
    say "without npm and python3 there are few clients to try the guard with"
elif ! clients=$(scripts/install-clients.sh); then
    say "without those clients, for the reason above, the tests that need them do not run"
fi
rust=$(rustc --print sysroot)

programs=$(executables false build --workspace --bins)
tests=$(executables true test --workspace --no-run)

if ((EUID == 0)); then
    become_test_user "$nono"
    nono=$user_nono agents=("${agents[@]/"=$cache"/"=$user_cache"}")
    mkdir -p "$stage/target/debug/deps" "$stage/bin"
    cut -f 2 <<<"$programs" | xargs -I '{}' cp '{}' "$stage/target/debug/"
    cut -f 2 <<<"$tests" | xargs -I '{}' cp '{}' "$stage/target/debug/deps/"
    # root's own that the user can read: links where they can be, which cost nothing.
    mkdir -p "$stage/rust/bin" "$stage/rust/lib"
    link_or_copy "$rust"/bin/{cargo,rustc} "$stage/rust/bin"
    link_or_copy "$rust"/lib/lib*.so* "$stage/rust/lib"
    rust=$stage/rust
    if [[ -n $clients ]]; then
        link_or_copy "$clients" "$stage/clients"
        clients=$stage/clients
    fi
    if [[ -n ${HERDR_BIN:-} ]]; then
        install "$HERDR_BIN" "$stage/bin/herdr"
        HERDR_BIN=$stage/bin/herdr
    fi
    staged_target=$stage/target
else
    as_user=(env) stage=$root staged_target=$target
fi
environment=(PADDOCK_TEST_BIN="$staged_target/debug/paddock" PADDOCK_TEST_STAGE="$stage"
    PADDOCK_NONO="$nono" PADDOCK_TEST_RUST="$rust")
[[ -z $clients ]] || environment+=(PADDOCK_TEST_CLIENTS="$clients")
for agent in "${agents[@]}"; do
    name=${agent%%=*}
    environment+=("PADDOCK_TEST_${name^^}=${agent#*=}")
done
for name in CI PADDOCK_TEST_ALL PADDOCK_TEST_STRICT HERDR_BIN RUST_BACKTRACE; do
    [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
done

logs=$(mktemp -d)
scratch+=("$logs")
failed=()
# Runs one test executable; what fails without a result of its own counts as one failure.
run_tests() { # NAME COMMAND...
    local name=$1 log status=0
    shift
    log=$(mktemp "$logs/XXXXXX")
    printf '\n== %s\n' "$name"
    timeout --foreground --kill-after=30 1500 "$@" </dev/null 2>&1 |
        timeout --foreground 1600 tee "$log" || status=$?
    ((status)) || return 0
    failed+=("$name (status $status)")
    grep -q '^test result: FAILED' "$log" || echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored;' >>"$log"
}

while IFS=$'\t' read -r -u 3 package executable; do
    name=${package#"$root"/}/$(basename -- "$executable")
    directory=$stage/${package#"$root"/}
    cd "$directory"
    run_tests "$name" "${as_user[@]}" "${environment[@]}" CARGO_MANIFEST_DIR="$directory" \
        "$staged_target/debug/deps/$(basename -- "$executable")" --show-output "${filters[@]}"
done 3<<<"$tests"
cd "$root"
run_tests 'doc tests' cargo test --doc --workspace -- --show-output "${filters[@]}"

echo
for name in "${failed[@]}"; do echo "failed: $name"; done
# A test that skips itself passes for the test harness.
cat "$logs"/* | awk '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    /^SKIPPED: / || / \.\.\. SKIPPED: / { passed--; skipped++ }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
((${#failed[@]} == 0))
