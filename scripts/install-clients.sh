#!/usr/bin/env bash
# Installs the package managers and runtimes that the tests try the guard with into the
# user's cache, as scripts/clients pins them, from the npm registry and PyPI; prints their
# directory, the only line on stdout. Its name is a sum of the pins, and a directory with
# that name is always complete: a second run does nothing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

pins=$root/scripts/clients
sum=$(cat "$pins"/{package-lock.json,requirements.txt} | sha256sum | cut -c 1-12)
installed=$cache/clients/$sum

[[ $(uname -sm) == 'Linux x86_64' ]] || die "the pins are for Linux on x86_64, this is $(uname -sm)"
mkdir -p -- "$cache/clients"
exec {lock}>"$cache/clients/.lock"
flock "$lock"
if [[ -d $installed ]]; then
    printf '%s\n' "$installed"
    exit
fi

for program in npm python3; do
    has "$program" || die "$program was not found: install it, then type: $0"
done
temporary=$cache/clients/.tmp
scratch+=("$temporary")
rm -rf -- "$temporary"
mkdir -- "$temporary"
cp -- "$pins"/package*.json "$temporary"
say 'installing bun, go, node, pnpm, uv and yarn (about 600 MB)'
(cd -- "$temporary" && npm ci --ignore-scripts --no-audit --no-fund) >&2 ||
    die 'npm ci failed, its messages are above; next: npm ping'
python3 -m pip install --disable-pip-version-check --quiet --require-hashes --no-deps \
    --only-binary :all: --target "$temporary/python" --requirement "$pins/requirements.txt" >&2 ||
    die 'pip failed, its messages are above; without python3 -m pip: apt-get install python3-pip'
mv -T -- "$temporary" "$installed"
printf '%s\n' "$installed"
