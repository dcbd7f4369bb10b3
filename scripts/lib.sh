# shellcheck shell=bash disable=SC2034
# What the scripts beside this file share; sourced, never run.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
target=${CARGO_TARGET_DIR:-target}
[[ $target == /* ]] || target=$root/$target
cache=${XDG_CACHE_HOME:-$HOME/.cache}/paddock
nono_version=0.81.0
own_nono=$cache/nono-$nono_version/bin/nono
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

say() { printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2; }
die() {
    say "$@"
    exit 1
}
has() { type -P "$1" >/dev/null; }
# The comment at the top of the running script is its help.
help() { sed -n '2,/^[^#]/ { s/^# \{0,1\}//p; }' "$0"; }

# The second word of `PROGRAM --version`, empty when it does not answer.
version_of() { "$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }' || true; }
at_least() { [[ -n $2 ]] && printf '%s\n' "$1" "$2" | sort -c -V 2>/dev/null; }

# Prints the first nono that is new enough, and says which ones are not.
find_nono() {
    local candidate candidates version
    candidates=("${PADDOCK_NONO:-}" "$(type -P nono || true)")
    [[ ! -e $own_nono ]] || candidates+=("$own_nono")
    for candidate in "${candidates[@]}"; do
        [[ -n $candidate ]] || continue
        version=$(version_of "$candidate")
        if at_least "$nono_version" "$version"; then
            printf '%s\n' "$candidate"
            return
        fi
        say "$candidate is not used: version ${version:-unknown}, $nono_version or newer is needed"
    done
    return 1
}

# Everything that has to go when the script ends.
scratch=()
trap 'rm -rf -- "${scratch[@]}"' EXIT

# Paddock refuses to run as root, so root runs it as a user made for that. Makes the user,
# gives it a copy of nono and of the agents in the cache of who runs the script, and stages
# the repository where it can read it. Sets:
#   stage                    the staged repository, without target/
#   as_user                  a command that runs its arguments as that user; NAME=VALUE first
#   user_cache, user_nono    that user's $cache and $own_nono
become_test_user() { # NONO
    local user=paddock-test home runtime agent copy
    has setpriv || die "setpriv was not found: install util-linux, then type: $0"
    if ! id -u "$user" >/dev/null 2>&1; then
        say "making the system user $user"
        if has useradd; then
            useradd --system --user-group --create-home --shell /bin/sh "$user"
        else
            addgroup -S "$user"
            adduser -S -D -G "$user" -s /bin/sh "$user"
        fi
    fi
    home=$(getent passwd "$user" | cut -d: -f6)
    user_cache=$home/.cache/paddock
    user_nono=$user_cache/nono-$nono_version/bin/nono

    stage=$(mktemp -d "/var/lib/$user.XXXXXX")
    runtime=$(mktemp -d "/run/$user.XXXXXX")
    scratch+=("$stage" "$runtime")
    chown "$user" "$runtime"
    as_user=(env -i HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/sh
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        LANG="${LANG:-C.UTF-8}" TERM="${TERM:-dumb}" XDG_RUNTIME_DIR="$runtime"
        setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all env)

    tar -C "$root" --exclude=./target --exclude=./.git -cf - . |
        tar -C "$stage" --no-same-owner -xf -
    chmod -R u=rwX,go=rX "$stage"

    # The user itself writes these, so that root follows no link the user could have made.
    if ! "${as_user[@]}" cmp -s - "$user_nono" <"$1"; then
        # shellcheck disable=SC2016
        "${as_user[@]}" sh -ec \
            'mkdir -p "${1%/*}"; cat >"$1.new"; chmod 755 "$1.new"; mv "$1.new" "$1"' \
            sh "$user_nono" <"$1"
    fi
    for agent in "$cache"/agents/*/; do
        copy=$user_cache/agents/$(basename -- "$agent")
        if [[ -d $agent ]] && ! "${as_user[@]}" test -d "$copy"; then
            # shellcheck disable=SC2016
            tar -C "$agent" -cf - . | "${as_user[@]}" sh -ec \
                'rm -rf "$1.new"; mkdir -p "$1.new"; tar -C "$1.new" -xf -; mv "$1.new" "$1"' \
                sh "$copy"
        fi
    done
}
