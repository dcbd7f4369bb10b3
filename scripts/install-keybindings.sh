#!/usr/bin/env bash
# usage: scripts/install-keybindings.sh
#
# Adds Paddock's chords to herdr's configuration: prefix+shift+a starts an agent,
# prefix+shift+b goes on with the agent in fresh sandboxes, prefix+shift+s opens a shell,
# prefix+shift+o shows the sandboxes. What is in the file stays, and a chord that is taken does, too.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
'') ;;
--help | -h)
    help
    exit
    ;;
*) die "unknown argument: $1; type: $0 --help" ;;
esac

for paddock in "$root/bin/paddock" "$target/release/paddock" "$target/debug/paddock" "$(type -P paddock || true)"; do
    [[ ! -x $paddock ]] || exec "$paddock" herdr install-keybindings
done
die "paddock is not built yet; type: cargo build --release"
