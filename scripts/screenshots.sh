#!/usr/bin/env bash
# usage: scripts/screenshots.sh
#
# Makes the pictures in docs/guide/overlay.md again: starts real launches of the stand-in,
# runs the overlay on a pseudo-terminal and writes down what it draws. Started as root, it
# does so as the user paddock-test.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

if (($#)); then
    help
    exit
fi
cd "$root"
scripts/setup.sh --no-build
nono=$(find_nono)
cargo build --workspace --bins
binaries=$target/debug
if ((EUID == 0)); then
    become_test_user "$nono"
    install -D -t "$stage/bin" "$target"/debug/{paddock,paddock-warden,paddock-probe,paddock-pictures}
    binaries=$stage/bin nono=$user_nono
else
    as_user=(env)
fi
pictures=$("${as_user[@]}" mktemp -d "${user_cache:-${TMPDIR:-/tmp}}/pictures.XXXXXX")
scratch+=("$pictures")
"${as_user[@]}" PADDOCK_TEST_BIN="$binaries/paddock" PADDOCK_NONO="$nono" \
    "$binaries/paddock-pictures" "$pictures" </dev/null
for picture in overlay overlay-ledger overlay-small; do
    "${as_user[@]}" cat "$pictures/$picture.svg" >"docs/guide/$picture.svg"
done
say "docs/guide/overlay*.svg are made anew"
