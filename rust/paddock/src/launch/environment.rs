//! What the agent's halves and the layers find in their environment: made from
//! nothing, so that what is not named here is not there.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The caller's variables that say how to speak and draw, and nothing else.
const FROM_CALLER: [&str; 14] = [
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "NO_COLOR",
    "TERM",
    "TZ",
    "USER",
];

/// What nono sets in a sandbox for its proxy, to be passed on to the agent.
pub(super) const FROM_PROXY: [&str; 5] =
    ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NODE_USE_ENV_PROXY"];

const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Prefixes that an agent file may not ask for: handles on the host, and what
/// would change a layer.
const NEVER: [&str; 16] = [
    "BASH_ENV",
    "DBUS_",
    "DISPLAY",
    "DOCKER_",
    "GPG_",
    "HERDR_",
    "LD_",
    "NONO_",
    "PADDOCK_NONO",
    "PADDOCK_BWRAP",
    "SSH_",
    "STY",
    "TMUX",
    "WAYLAND_",
    "XAUTHORITY",
    "XDG_",
];

/// Whether a variable may never reach an agent from its caller.
pub(super) fn is_forbidden(name: &str) -> bool {
    NEVER.iter().any(|prefix| name.starts_with(prefix))
}

type Variables = Vec<(OsString, OsString)>;

/// For an agent's half.
pub(super) fn for_agent(home: &Path, temporary: &Path, program: &Path) -> Variables {
    let mut variables: Variables = from_caller(&FROM_CALLER);
    let mut path = OsString::new();
    if let Some(directory) = program.parent().filter(|d| !is_on_search_path(d)) {
        path.push(directory);
        path.push(":");
    }
    path.push(SEARCH_PATH);
    variables.push(("PATH".into(), path));
    variables.push(("HOME".into(), home.into()));
    variables.push(("TMPDIR".into(), temporary.into()));
    variables.push(("SHELL".into(), "/bin/sh".into()));
    // Client and server meet on loopback: never by way of a proxy.
    for name in ["NO_PROXY", "no_proxy"] {
        variables.push((name.into(), "127.0.0.1,localhost,::1".into()));
    }
    variables
}

/// For a layer's nono: its own directories, and nothing that could widen its
/// policy.
pub(super) fn for_nono(state: &Path) -> Variables {
    let mut variables: Variables = from_caller(&["LANG", "TERM"]);
    // The last one for a link that nono makes when it has a terminal: without
    // it the link goes to /tmp, which is writable in no pen but the veil's.
    for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        variables.push((name.into(), state.into()));
    }
    // nono copies its own 50 MB into TMPDIR at each start, for a feature that
    // is not used here, and leaves them there when it is killed. Where there is
    // no such directory it goes without.
    variables.push(("TMPDIR".into(), state.join("none").into()));
    variables.push(("PATH".into(), SEARCH_PATH.into()));
    variables.push(("NONO_NO_UPDATE_CHECK".into(), "1".into()));
    variables.push(("NONO_NO_PACK_UPDATE_HINTS".into(), "1".into()));
    variables
}

/// The caller's values of `names`, where set.
pub(super) fn from_caller<S: AsRef<OsStr>>(names: &[S]) -> Variables {
    names
        .iter()
        .filter_map(|name| Some((name.as_ref().to_owned(), std::env::var_os(name)?)))
        .collect()
}

fn is_on_search_path(directory: &Path) -> bool {
    SEARCH_PATH.split(':').any(|entry| Path::new(entry) == directory)
}
