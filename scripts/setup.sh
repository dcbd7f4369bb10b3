#!/usr/bin/env bash
# usage: scripts/setup.sh [--no-build]
#
# Makes sure of what Paddock needs, and builds it; a second run finds all of it and ends
# at once. As root it installs system packages, otherwise it names the command that does.
#
#   Rust, a C compiler, bubblewrap 0.8 or newer
#   nono 0.81 or newer: PADDOCK_NONO, PATH, or a build of its own in the user's cache
#
# --no-build leaves out the build of Paddock itself.
# Exit status: 0 all there, 1 failed; the last line then says what to type next.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

bubblewrap_version=0.8.0

check_rust() {
    local need have
    need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    has cargo || die "cargo was not found: install Rust $need or newer with rustup" \
        "(https://www.rust-lang.org/tools/install), then type: $0"
    have=$(version_of cargo)
    at_least "$need" "$have" || die "Rust ${have:-without a default toolchain} is too old:" \
        "$need or newer is needed; type: rustup update stable && rustup default stable"
}

install_system_packages() {
    local packages=() compiler=(gcc) command=
    if has apt-get; then
        command='apt-get update && apt-get install -y' compiler=(gcc libc6-dev)
    elif has dnf; then
        command='dnf install -y'
    elif has pacman; then
        command='pacman -Sy --noconfirm'
    elif has apk; then
        command='apk add' compiler=(gcc musl-dev)
    fi
    at_least "$bubblewrap_version" "$(version_of bwrap)" || packages+=(bubblewrap)
    has cc || packages+=("${compiler[@]}")
    ((${#packages[@]})) || return 0

    [[ -n $command ]] || die "missing or too old: ${packages[*]}; install them (bubblewrap" \
        "$bubblewrap_version or newer), then type: $0"
    command+=" ${packages[*]}"
    ((EUID == 0)) || die "missing or too old: ${packages[*]}; as root type: $command"
    say "$command"
    DEBIAN_FRONTEND=noninteractive sh -c "$command" >&2 ||
        die "that failed, its messages are above; to try again type: $command"
    at_least "$bubblewrap_version" "$(version_of bwrap)" ||
        die "this system's bubblewrap is $(version_of bwrap): put $bubblewrap_version or newer" \
            "first in PATH, then type: $0"
}

# The published lock file of this version names a dependency that is missing, hence not
# --locked. What a killed build leaves is used by the next one.
build_nono() {
    local work=$cache/nono-build lock
    mkdir -p "$work"
    exec {lock}>"$cache/nono-build.lock"
    if ! flock -n "$lock"; then
        say "another set-up is building nono, waiting for it"
        flock "$lock"
    fi
    if at_least "$nono_version" "$(version_of "$own_nono")"; then return; fi

    say "building nono $nono_version into $cache, once; this takes 10 to 20 minutes"
    say "its log is $work/log"
    rm -rf "$work/out"
    # Measured: against the crate's own settings (opt-level 3) a build takes 7.5 instead of
    # 10.5 minutes on two cores, and nono starts no slower: 41 ms against 45 ms. It copies
    # its executable at every start, so a small one counts for more than a well optimised one.
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_STRIP=symbols \
        cargo install nono-cli --version "$nono_version" --no-default-features --no-track \
        --root "$work/out" --target-dir "$work/target" 2>&1 {lock}>&- | tee "$work/log" >&2 ||
        die "building nono failed, see $work/log; to try again type: $0"
    rm -rf "$cache/nono-$nono_version"
    mv "$work/out" "$cache/nono-$nono_version"
    rm -rf "$work"
}

build_paddock() {
    local changed=new
    if [[ -x $target/release/paddock ]]; then
        changed=$(find rust profiles Cargo.toml Cargo.lock -newer "$target/release/paddock" -print -quit)
    fi
    [[ -z $changed ]] || cargo build --release -p paddock ||
        die "building paddock failed; to try again type: cargo build --release -p paddock"
}

build=1
for argument; do
    case $argument in
    --no-build) build= ;;
    --help | -h)
        help
        exit
        ;;
    *) die "unknown argument: $argument; type: $0 --help" ;;
    esac
done

cd "$root"
check_rust
install_system_packages
nono=$(find_nono) || {
    build_nono
    nono=$own_nono
}
[[ -z $build ]] || build_paddock

say "cargo $(version_of cargo): $(type -P cargo)"
say "bubblewrap $(version_of bwrap): $(type -P bwrap)"
say "nono $(version_of "$nono"): $nono"
# Paddock takes the first nono there is, and does not look past one that is too old.
first=${PADDOCK_NONO:-$(type -P nono || true)}
[[ -z $first || $first == "$nono" ]] || say "for paddock to use it, type: export PADDOCK_NONO=$nono"
[[ -z $build ]] || say "paddock: $target/release/paddock"
