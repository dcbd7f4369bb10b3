#!/usr/bin/env bash
# usage: scripts/bench.sh [PART...]
#
# Measures Paddock against the figures it has to reach and prints a table; ends with 1 when
# one is missed. Parts: start, passes, escape, stop, typing, doctor, egress, gate, overlay;
# without any, all of them. Wants a quiet machine and takes some minutes. Started as root,
# it measures as the user paddock-test.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    help
    exit
fi
cd "$root"
scripts/setup.sh
nono=$(find_nono)
cargo build --release -p paddock-test --bin bench
if ((EUID == 0)); then
    become_test_user "$nono"
    install -D -t "$stage/target/release" "$target"/release/{paddock,paddock-warden,bench}
    binaries=$stage/target/release nono=$user_nono
    # Sockets of a logged-in user are in memory. Where /run is not, make it so.
    if [[ $(stat -f -c %T /run) != tmpfs ]]; then
        runtime=$(mktemp -d /run/paddock-bench.XXXXXX)
        trap 'umount "$runtime" || true; rm -rf -- "$runtime" "${scratch[@]}"' EXIT
        mount -t tmpfs -o "mode=0700,uid=$(id -u paddock-test)" tmpfs "$runtime" ||
            die "no file system in memory can be mounted on $runtime: measure as a plain user"
        as_user+=(XDG_RUNTIME_DIR="$runtime")
    fi
else
    as_user=(env) binaries=$target/release
fi
status=0
"${as_user[@]}" PADDOCK_TEST_BIN="$binaries/paddock" PADDOCK_NONO="$nono" \
    "$binaries/bench" "$@" </dev/null || status=$?
exit "$status"
