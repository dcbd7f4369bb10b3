#!/usr/bin/env bash
# usage: scripts/run.sh [ARGUMENT...]
#
# Sets Paddock up and runs it. With arguments: `paddock run ARGUMENT...`. Without: a
# demonstration, in a temporary workspace, of what a launched agent can do and cannot.
# Started as root, it runs Paddock as the user paddock-test.
set -euo pipefail

# shellcheck disable=SC2016
# What the demonstration runs in place of an agent, in the workspace.
demonstration='
failed=0
echo "--- write and read a file in the workspace"
echo "hello from inside" >hello.txt && cat hello.txt || failed=1
echo "--- read a file beside the workspace"
if cat ../secret.txt; then echo "NOT REFUSED"; failed=1; else echo "refused"; fi
echo "--- ask the guard for a host that is not allowed"
answer=$(bash -c "exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}
    printf \"CONNECT elsewhere.invalid:443 HTTP/1.1\r\n\r\n\" >&3
    sed -n \"1p; /^refused/p; /^next/p\" <&3")
echo "$answer"
case $answer in *403*) ;; *) echo "NOT REFUSED"; failed=1 ;; esac
exit $failed
'

# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    help
    exit
fi
"$root/scripts/setup.sh"
nono=$(find_nono)
paddock=$target/release/paddock
as_user=(env)
if ((EUID == 0)); then
    say "paddock refuses to run as root: running it as the user paddock-test"
    become_test_user "$nono"
    install -D -t "$stage/target/release" "$paddock" "$paddock-warden"
    paddock=$stage/target/release/paddock nono=$user_nono
fi
run=("${as_user[@]}" PADDOCK_NONO="$nono" "$paddock" run)

if (($#)); then
    if ((EUID == 0)); then
        "${as_user[@]}" test -w . || die "paddock-test may not write $PWD; change to a directory it" \
            "may write, or as a plain user type: $0 $*"
        status=0
        "${run[@]}" "$@" || status=$?
        exit "$status"
    fi
    exec "${run[@]}" "$@"
fi

directory=$(mktemp -d "${TMPDIR:-/tmp}/paddock-demo.XXXXXX")
scratch+=("$directory")
mkdir "$directory/workspace"
echo "a secret" >"$directory/secret.txt"
((EUID != 0)) || chown -R paddock-test: "$directory"
cd "$directory/workspace"
echo "outside, $directory/secret.txt can be read: $(cat "$directory/secret.txt")"
# Pins of its own: what another build's demonstration recorded says nothing about this one.
"${as_user[@]}" mkdir -p "${user_cache:-$cache}"
state=$("${as_user[@]}" mktemp -d "${user_cache:-$cache}/demo.XXXXXX")
scratch+=("$state")
run=("${as_user[@]}" XDG_STATE_HOME="$state" PADDOCK_NONO="$nono" "$paddock" run)
status=0
"${run[@]}" standin --workspace "$directory/workspace" -- -c "$demonstration" || status=$?
if ((status)); then
    die "the demonstration ended with status $status; next: $paddock info --programs"
fi
echo "outside, $directory/workspace/hello.txt says: $(cat "$directory/workspace/hello.txt")"
