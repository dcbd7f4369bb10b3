#!/bin/sh
# usage: scripts/install-binary.sh
#
# Puts Paddock's two programs, paddock and paddock-warden, in bin/ beside the plugin's
# manifest. herdr runs it when it installs the plugin; run again it repairs what is missing.
#
#   PADDOCK_BINARY=FILE     a built paddock, with paddock-warden beside it, instead of a build;
#                           each must have the sha256 that is published for it: in the file
#                           FILE.sha256 beside it, or in
#   PADDOCK_BINARY_SHA256   that of paddock
#   PADDOCK_WARDEN_SHA256   that of paddock-warden
#
# Nothing is downloaded. What is there is replaced only by what is whole and verified.
# Exit status: 0 both are there, 1 not; the last line then says what to type next.
set -eu

say() { printf 'install-binary: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
self="sh $root/scripts/install-binary.sh"
bin=$root/bin
umask 022
mkdir -p "$bin"
# What a run that was killed left behind, an hour ago or longer.
! command -v find >/dev/null ||
    find "$bin" -maxdepth 1 -name '.new.*' -type d -mmin +60 -exec rm -rf {} +
new=$(mktemp -d "$bin/.new.XXXXXX") || die "$bin cannot be written; make it yours, then type: $self"
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM

# The sha256 that is published for a file: 64 digits at the start of the first line.
published() { # FILE GIVEN
    digest=$2
    if [ -z "$digest" ] && [ -f "$1.sha256" ]; then
        read -r digest _ <"$1.sha256" || [ -n "$digest" ] || digest=
    fi
    printf '%s' "$digest" | tr -d '\r' | tr 'A-F' 'a-f'
}

take() { # FILE NAME GIVEN VARIABLE
    [ -f "$1" ] || die "$1 is missing; put $2 there, or unset PADDOCK_BINARY to build, then type: $self"
    wanted=$(published "$1" "$3")
    case $wanted in
    '' | *[!0-9a-f]*) die "no sha256 is published for $1: write it to $1.sha256 or set $4, then type: $self" ;;
    esac
    # What is hashed is the copy: nobody else's to change any more.
    cp -- "$1" "$new/$2"
    found=$(sha256sum <"$new/$2" | cut -d ' ' -f 1)
    [ "$found" = "$wanted" ] || die "$1 is not what was published: its sha256 is $found, not $wanted;" \
        "get it again, then type: $self"
    say "$2 matches its sha256"
}

if [ -n "${PADDOCK_BINARY:-}" ]; then
    take "$PADDOCK_BINARY" paddock "${PADDOCK_BINARY_SHA256:-}" PADDOCK_BINARY_SHA256
    take "$(dirname -- "$PADDOCK_BINARY")/paddock-warden" paddock-warden "${PADDOCK_WARDEN_SHA256:-}" \
        PADDOCK_WARDEN_SHA256
else
    # herdr's server may have been started without it in PATH.
    PATH=$PATH:${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin
    command -v cargo >/dev/null || die "cargo was not found, and PADDOCK_BINARY names no built program:" \
        "install Rust (https://www.rust-lang.org/tools/install), then type: $self"
    say "building Paddock with $(cargo --version); this takes some minutes"
    target=${CARGO_TARGET_DIR:-$root/target}
    (cd "$root" && CARGO_TARGET_DIR=$target cargo build --release --locked -p paddock) ||
        die "the build failed, its messages are above; to try again type: $self"
    for name in paddock paddock-warden; do
        cp -- "$target/release/$name" "$new/$name" || die "the build made no $name; to try again type: $self"
    done
fi

chmod 755 "$new/paddock" "$new/paddock-warden"
"$new/paddock" --version >/dev/null ||
    die "that paddock does not run on this host; to build one type: unset PADDOCK_BINARY; $self"

# Each takes its place whole. The first is of no use without the other, and the launcher
# wants both.
for name in paddock-warden paddock; do
    [ ! -d "$bin/$name" ] || die "$bin/$name is a directory: move it away, then type: $self"
done
for name in paddock-warden paddock; do
    mv -f "$new/$name" "$bin/$name"
done
say "paddock and paddock-warden are in $bin"
say "next: herdr plugin link $root, if herdr does not know it yet; then: $bin/paddock herdr install-keybindings"
