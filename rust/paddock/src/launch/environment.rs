//! What the agent's halves and the layers find in their environment: made from
//! nothing, so that what is not named here is not there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::gate::herdr::OwnPane;

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

/// Variables that name a proxy; programs look for one or the other.
const NAMES_OF_PROXY: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
];

/// Who the guard's secret belongs to.
pub(crate) const PROXY_USER: &str = "paddock";

/// The guard, as the server's programs find it.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// What it wants to hear, where others could reach its port.
    pub(crate) secret: Option<String>,
}

impl Proxy {
    /// The name and the secret, as HTTP has them (RFC 7617).
    pub(crate) fn user(&self) -> Option<String> {
        self.secret.as_ref().map(|secret| format!("{PROXY_USER}:{secret}"))
    }

    fn url(&self) -> String {
        let user = self.user().map(|user| user + "@").unwrap_or_default();
        format!("http://{user}127.0.0.1:{}", self.port)
    }
}

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

/// For an agent's half. In `paddock` lies what of Paddock there is inside, and in
/// `toolchains` what the person granted and has in the search path.
pub(super) fn for_agent(
    home: &Path,
    temporary: &Path,
    program: &Path,
    paddock: &Path,
    toolchains: &[PathBuf],
) -> Variables {
    let mut variables: Variables = from_caller(&FROM_CALLER);
    let mut path = OsString::from(paddock);
    path.push(":");
    if let Some(directory) = program.parent().filter(|d| !is_on_search_path(d)) {
        path.push(directory);
        path.push(":");
    }
    for directory in toolchains.iter().filter(|d| !is_on_search_path(d)) {
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

/// So that programs find the gate; and those that speak to herdr find it there, where
/// the keeper has a pane of herdr's to speak for.
pub(super) fn for_gate(gate: &Path, pane: Option<&OwnPane>) -> Variables {
    let mut variables: Variables = vec![(warden::GATE_VARIABLE.into(), gate.into())];
    if let Some(pane) = pane {
        variables.push(("HERDR_ENV".into(), "1".into()));
        variables.push(("HERDR_PANE_ID".into(), pane.pane_id().into()));
        variables.push(("HERDR_SOCKET_PATH".into(), gate.into()));
    }
    variables
}

/// For the server half, whose programs may fetch: where the guard is, and what git does
/// about SSH. `warden` is what Paddock runs inside.
pub(super) fn way_out(proxy: &Proxy, warden: &Path, ssh: bool) -> Variables {
    [for_proxy(proxy), super::ssh::variables(warden, ssh)].concat()
}

/// So that programs find the guard. Where a program reads what is set for another, it has
/// no variable of its own here: `test/tests/clients` tries each.
fn for_proxy(proxy: &Proxy) -> Variables {
    let url = proxy.url();
    let mut variables: Variables =
        NAMES_OF_PROXY.iter().map(|name| (name.into(), url.clone().into())).collect();
    // Since Node 22.21 and 24.0; an older one's own clients know no proxy.
    variables.push(("NODE_USE_ENV_PROXY".into(), "1".into()));
    // A line on standard error at each start of Java is the price: it reads no other
    // variable silently, and finds no way out without. It cannot present the secret.
    let port = proxy.port;
    let java = format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={port} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={port}"
    );
    variables.push(("JAVA_TOOL_OPTIONS".into(), java.into()));
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
