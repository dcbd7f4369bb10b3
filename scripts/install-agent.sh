#!/usr/bin/env bash
# Installs a pinned agent from the npm registry into the user's cache and prints the path of
# its program, the only line on stdout. The version is part of the directory's name, and a
# directory with that name is always complete: a second run does nothing.
set -euo pipefail

say() { printf 'install-agent: %s\n' "$*" >&2; }
die() {
    say "$1"
    shift
    local line
    for line in "$@"; do printf '    %s\n' "$line" >&2; done
    exit 1
}

# What is pinned: name, package, version, the program below node_modules and its sha256, what
# the package takes in MB. The program of a native package is all there is to it; the program
# of a package of scripts only begins it, so those have the integrity of the whole, too.
agents_pinned=(
    "codex    @openai/codex                 0.171.0 vendor/x86_64-unknown-linux-musl/bin/codex
        b76a027d6b210f9a8da7aaf321dd235c700f0ef7a794d4a5314b9af6c134f0f0 430"
    "opencode opencode-ai                   1.18.33 opencode-linux-x64/bin/opencode
        0abbb7c32ab0294c0a7bfa2705f9ff0df5dce5ab721d1f00cccfe393f2a11427 360"
    "claude   @anthropic-ai/claude-code     2.1.332 claude-code-linux-x64/claude
        a2df1f41bb00250992926420d0063f89b127cb81abdd284dbefb80c50ff1d026 390"
    "goose    @aaif/goose-binary-linux-x64  1.52.0  goose-binary-linux-x64/bin/goose
        6588bd326d97f6d3c868b9d1267c4d23b56d7a477ddb9b3748640c7982d4398b 290"
    "copilot  @github/copilot               1.0.102 copilot-linux-x64/copilot
        b673fa072f7e9ec6d01dcef14ae22807beba4bcaa945f1d8c1518ec464cec9fd 190"
    "qwen     @qwen-code/qwen-code          0.24.4  qwen-code/cli-entry.js
        68cb29eb7ccc936d78ece5564ef55cae41a55b630e6657dc417c1f2e561cf4c9 150
        sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg=="
    "gemini   @google/gemini-cli            0.61.0  gemini-cli/bundle/gemini.js
        0b6e283ae88682b0e27e8ef85a608ab74807a1513dc0c053e5aa80d5b80b29ab 100
        sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ=="
)
name='' names=''
for pinned in "${agents_pinned[@]}"; do
    read -r -d '' agent package version program sha256 megabytes integrity <<<"$pinned" || true
    names+=" $agent"
    if [[ $# -eq 1 && $agent == "$1" ]]; then
        name=$agent-$version
        break
    fi
done
[[ -n $name ]] || die "usage: ${0##*/} AGENT" "agents:$names"

case ${XDG_CACHE_HOME:-} in
/*) cache=$XDG_CACHE_HOME ;;
*) cache=${HOME:+$HOME/.cache} ;;
esac
[[ -n $cache ]] || die 'there is no cache directory' 'set HOME, or XDG_CACHE_HOME to an absolute path'
agents=$cache/paddock/agents
installed=$agents/$name

# The path below node_modules depends on the npm version; the end of it does not.
executable_in() {
    [[ -d $1 ]] || return 0
    find "$1" -type f -path "*/$program" -perm -u=x -print -quit
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
for needed in npm flock sha256sum; do
    command -v "$needed" >/dev/null || die "$needed was not found" \
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

say "installing $package $version (about $megabytes MB)"
(cd -- "$temporary" && npm install --no-global --ignore-scripts --include=optional \
    --no-audit --no-fund --save-exact --package-lock "$package@$version") >&2 ||
    die "npm install $package@$version failed, its messages are above" \
        'check that npm reaches its registry (npm ping) and that the disk has 1 GB free'

executable=$(executable_in "$temporary")
[[ -n $executable ]] || die "$package $version came without $program" \
    'it is an optional dependency: check that npm config get omit does not say optional'
say 'checking the executable against its pinned sha256'
printf '%s  %s\n' "$sha256" "$executable" | sha256sum --check --status ||
    die "$executable does not have the pinned sha256" \
        "expected $sha256" \
        'the registry served something else: do not use it, and tell whoever maintains the pin'
if [[ -n $integrity ]]; then
    # npm has compared what it was served with what it wrote down here.
    grep -qF "\"integrity\": \"$integrity\"" "$temporary/package-lock.json" ||
        die "$package $version does not have the pinned integrity" \
            "expected $integrity" \
            'the registry served something else: do not use it, and tell whoever maintains the pin'
fi

# Only a damaged installation can still be here: one without the executable.
rm -rf -- "$installed"
mv -T -- "$temporary" "$installed"
say "installed $name"
finish_if_installed
die "$installed has no $program"
