#!/bin/sh
# usage: scripts/paddock.sh ENTRY...
#
# What herdr starts: becomes `paddock herdr ENTRY...`. Where the program is missing it says
# so in the form of a result, and how to repair it; in a pane it waits for an Enter.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 125
for program in "$root/bin/paddock" "$root/target/release/paddock" "$root/target/debug/paddock"; do
    if [ -x "$program" ] && [ -x "${program%/*}/paddock-warden" ]; then
        exec "$program" herdr "$@"
    fi
done

json() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }
message="Paddock's programs are missing in $root"
next="sh $root/scripts/install-binary.sh"
printf 'HERDR_SANDBOX_RESULT: {"schemaVersion":1,"plugin":"paddock","action":"%s","ok":false,"errorKind":"not-found","message":"%s","next":"%s"}\n' \
    "$(json "$1")" "$(json "$message")" "$(json "$next")"
printf '%s\n  next: %s\n' "$message" "$next"
case $1 in
pane)
    printf 'Enter closes this pane '
    read -r _
    ;;
event | startup) ;;
*)
    # Nobody sees what an action prints.
    if [ -n "$HERDR_BIN_PATH" ] && [ -n "$HERDR_PLUGIN_CONTEXT_JSON" ]; then
        herdr=${HERDR_BIN_PATH% (deleted)}
        timeout 5 "$herdr" notification show "Paddock: $1 failed" --body "$message; type: $next" \
            </dev/null 2>/dev/null | grep -q '"shown":true' ||
            timeout 5 "$herdr" plugin pane open --plugin paddock --entrypoint message --focus \
                </dev/null >/dev/null 2>&1
    fi
    ;;
esac
exit 125
