#!/usr/bin/env bash
# Installs a pinned agent from the npm registry into the user's cache and prints the path
# of its native executable, the only line on stdout. The version is part of the directory's
# name, and a directory with that name is always complete: a second run does nothing.
set -euo pipefail

say() { printf 'install-agent: %s\n' "$*" >&2; }
die() {
    say "$1"
    shift
    local line
    for line in "$@"; do printf '    %s\n' "$line" >&2; done
    exit 1
}
usage() { die "usage: ${0##*/} AGENT" 'agents: codex'; }

[[ $# -eq 1 ]] || usage
case $1 in
codex)
    package=@openai/codex
    version=0.171.0
    native=vendor/x86_64-unknown-linux-musl/bin/codex
    sha256=b76a027d6b210f9a8da7aaf321dd235c700f0ef7a794d4a5314b9af6c134f0f0
    ;;
*) usage ;;
esac

case ${XDG_CACHE_HOME:-} in
/*) cache=$XDG_CACHE_HOME ;;
*) cache=${HOME:+$HOME/.cache} ;;
esac
[[ -n $cache ]] || die 'there is no cache directory' 'set HOME, or XDG_CACHE_HOME to an absolute path'
agents=$cache/paddock/agents
name=$1-$version
installed=$agents/$name

# The path below node_modules depends on the npm version; the end of it does not.
executable_in() {
    [[ -d $1 ]] || return 0
    find "$1" -type f -path "*/$native" -perm -u=x -print -quit
}
finish_if_installed() {
    local executable
    executable=$(executable_in "$installed")
    [[ -n $executable ]] || return 0
    printf '%s\n' "$executable"
    exit 0
}

finish_if_installed

[[ $(uname -sm) == 'Linux x86_64' ]] ||
    die "$1 $version is pinned for Linux on x86_64, this is $(uname -sm)"
for program in npm flock sha256sum; do
    command -v "$program" >/dev/null || die "$program was not found" \
        "install it (npm comes with Node.js, flock with util-linux, sha256sum with coreutils)" \
        'and run this again'
done
mkdir -p -- "$agents" || die "$agents cannot be created" 'set XDG_CACHE_HOME to a writable directory'

exec {lock}>"$agents/.$name.lock"
if ! flock --nonblock "$lock"; then
    say "another run is installing $name, waiting for it"
    flock "$lock"
fi
finish_if_installed

# Whoever holds the lock owns every temporary sibling: remove what a killed run left.
trap 'rm -rf -- "$agents/.$name.tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
temporary=$agents/.$name.tmp
rm -rf -- "$temporary"
mkdir -- "$temporary"
printf '{"private":true}\n' >"$temporary/package.json"

say "installing $package $version (about 430 MB)"
(cd -- "$temporary" && npm install --no-global --ignore-scripts --include=optional \
    --no-audit --no-fund --save-exact "$package@$version") >&2 ||
    die "npm install $package@$version failed, its messages are above" \
        'check that npm reaches its registry (npm ping) and that the disk has 1 GB free'

executable=$(executable_in "$temporary")
[[ -n $executable ]] || die "$package $version came without $native" \
    'it is an optional dependency: check that npm config get omit does not say optional'
say 'checking the executable against its pinned sha256'
printf '%s  %s\n' "$sha256" "$executable" | sha256sum --check --status ||
    die "$executable does not have the pinned sha256" \
        "expected $sha256" \
        'the registry served something else: do not use it, and tell whoever maintains the pin'

# Only a damaged installation can still be here: one without the executable.
rm -rf -- "$installed"
mv -T -- "$temporary" "$installed"
say "installed $name"
finish_if_installed
die "$installed has no $native"
