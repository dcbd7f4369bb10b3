//! Landlock, feature by feature. A rule counts once it has refused something
//! that was possible before.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use confine::Pid;
use confine::sys::host::{
    Rights, landlock_errata, landlock_knows, landlock_knows_thread_sync, within_landlock,
};
use rustix::io::Errno;

use super::Feature;
use super::cause::Surroundings;
use super::errno::named;
use super::feature::error;
use super::host::Subject;
use crate::launch::{LANDLOCK_OLDEST, LANDLOCK_OLDEST_KERNEL};

/// What was tried, by name, and what the kernel said.
type Attempts = Vec<(&'static str, io::Result<()>)>;

/// A kind of rule, and the ABI that it came with.
struct Rule {
    name: &'static str,
    since: i32,
    kernel: &'static str,
    rights: Rights,
}

const FILES: Rule =
    Rule { name: "landlock-files", since: 1, kernel: "5.13", rights: Rights::READ_DIRECTORY };
const NETWORK: Rule = Rule {
    name: "landlock-network",
    since: 4,
    kernel: "6.7",
    rights: Rights {
        network: Rights::BIND_TCP.network | Rights::CONNECT_TCP.network,
        ..Rights::BIND_TCP
    },
};
const SIGNALS: Rule =
    Rule { name: "landlock-signals", since: 6, kernel: "6.12", rights: Rights::SIGNAL };
const ABSTRACT_UNIX: Rule = Rule {
    name: "landlock-abstract-unix",
    since: 6,
    kernel: "6.12",
    rights: Rights::ABSTRACT_UNIX,
};
const UNIX_PATHS: Rule =
    Rule { name: "landlock-unix-paths", since: 9, kernel: "7.1", rights: Rights::RESOLVE_UNIX };
const THREAD_SYNC: (&str, i32, &str) = ("landlock-thread-sync", 8, "7.0");

/// Every feature of Landlock. `other` is another process of this user, outside
/// every domain that is made here.
pub(super) fn examine(subject: &Subject<'_>, other: io::Result<Pid>) -> Vec<Feature> {
    let limit = subject.landlock_limit;
    let around = &subject.around;
    let abi = confine::sys::landlock_abi().map(|abi| limit.map_or(abi, |limit| abi.min(limit)));
    let mut features = vec![
        version(&abi, limit.is_some(), around),
        errata(landlock_errata(), abi.as_ref().copied().unwrap_or_default()),
        tried(&FILES, limit, around, || {
            vec![("reading a directory", std::fs::read_dir("/").map(drop))]
        }),
    ];
    features.push(
        match TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|l| l.local_addr().map(|address| (l, address)))
        {
            Ok((_listener, address)) => tried(&NETWORK, limit, around, || {
                let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                vec![
                    ("TCP bind", bound.map(drop)),
                    ("TCP connect", TcpStream::connect(address).map(drop)),
                ]
            }),
            Err(e) => no_control(&NETWORK, "listening on the loopback", &e),
        },
    );
    features.push(match other {
        Ok(pid) => tried(&SIGNALS, limit, around, || {
            let sent = rustix::process::test_kill_process(pid.into());
            vec![("a signal to another process", sent.map_err(io::Error::from))]
        }),
        Err(e) => no_control(&SIGNALS, "another process", &e),
    });
    features.push(abstract_unix(limit, around));
    features.push(unix_paths(limit, around));
    features.push(thread_sync(limit, landlock_knows_thread_sync));
    features
}

/// Tries `operation` outside, then in a domain that refuses it.
fn tried(
    rule: &Rule,
    limit: Option<i32>,
    around: &Surroundings,
    operation: impl Fn() -> Attempts + Sync,
) -> Feature {
    let within = if limit.is_some_and(|limit| limit < rule.since) {
        // What a kernel of that ABI answers.
        Err(error(Errno::INVAL))
    } else {
        landlock_knows(rule.rights).and_then(|()| within_landlock(rule.rights, &operation))
    };
    judge(rule, &operation(), within, around)
}

/// What the attempts outside (`control`) and within a domain say.
fn judge(
    rule: &Rule,
    control: &Attempts,
    within: io::Result<Attempts>,
    around: &Surroundings,
) -> Feature {
    let within = match within {
        Ok(within) => within,
        Err(e) => return unknown_to_kernel(rule.name, rule.since, rule.kernel, &e, around),
    };
    if let Some((what, Err(e))) = control.iter().find(|(_, result)| result.is_err()) {
        return Feature::unknown(
            rule.name,
            format!("{what} fails without a rule, too ({}): nothing is shown", named(e)),
        );
    }
    let is_refused = |result: &io::Result<()>| {
        let errno = result.as_ref().err().and_then(Errno::from_io_error);
        matches!(errno, Some(Errno::ACCESS | Errno::PERM))
    };
    let all: Vec<&str> = within.iter().map(|(what, _)| *what).collect();
    match within.iter().find(|(_, result)| !is_refused(result)) {
        None => Feature::enforced(rule.name, format!("{}: refused by a rule", all.join(" and "))),
        Some((what, Ok(()))) => {
            Feature::missing(rule.name, format!("{what} is let through by a rule that refuses it"))
                .advise("use another kernel, and tell who made this one")
        }
        Some((what, Err(e))) => Feature::unknown(
            rule.name,
            format!("{what} fails with {}, which is no refusal", named(e)),
        ),
    }
}

fn unknown_to_kernel(
    name: &str,
    since: i32,
    kernel: &str,
    e: &io::Error,
    around: &Surroundings,
) -> Feature {
    let is_old = matches!(Errno::from_io_error(e), Some(Errno::INVAL | Errno::TOOBIG));
    if is_old {
        let reason = format!("this kernel does not know it ({})", named(e));
        let advice = if since > LANDLOCK_OLDEST {
            format!("no tier needs it; Linux {kernel} (ABI {since}) has it")
        } else {
            format!("use Linux {LANDLOCK_OLDEST_KERNEL} or newer (this came with Linux {kernel})")
        };
        return Feature::missing(name, reason).advise(advice);
    }
    let refusal = refusal(e, around);
    Feature::missing(name, refusal.0).advise(refusal.1)
}

/// Why Landlock as a whole is not to be had.
fn refusal(e: &io::Error, around: &Surroundings) -> (String, String) {
    const CALL: &str = "landlock_create_ruleset(2)";
    if Errno::from_io_error(e) == Some(Errno::OPNOTSUPP) {
        return (
            format!("{CALL}: EOPNOTSUPP: Landlock is not enabled"),
            "add landlock to lsm= on the kernel's command line".into(),
        );
    }
    let refusal = around.refusal(CALL, e);
    (refusal.reason, refusal.advice)
}

fn version(abi: &io::Result<i32>, is_lowered: bool, around: &Surroundings) -> Feature {
    const NAME: &str = "landlock";
    let lowered = if is_lowered { ", lowered by PADDOCK_TEST_LANDLOCK_ABI" } else { "" };
    let needed = format!("use Linux {LANDLOCK_OLDEST_KERNEL} or newer");
    match abi {
        Ok(abi) if *abi >= LANDLOCK_OLDEST => {
            Feature::enforced(NAME, format!("ABI {abi}{lowered}"))
        }
        Ok(abi) if *abi >= 1 => Feature::partial(
            NAME,
            format!("ABI {abi}{lowered}; every tier needs ABI {LANDLOCK_OLDEST}"),
        )
        .advise(needed),
        Ok(abi) => Feature::missing(NAME, format!("ABI {abi}{lowered}")).advise(needed),
        Err(e) => {
            let (reason, advice) = refusal(e, around);
            Feature::missing(NAME, reason).advise(advice)
        }
    }
}

/// The known faults, and the ABI that each is of (Linux documentation, "Landlock:
/// unprivileged access control", section "Landlock errata").
const ERRATA: [(u32, i32, &str); 3] = [
    (1, 4, "TCP rules on sockets that are not TCP"),
    (2, 6, "signals between threads of one process"),
    (3, 1, "directories moved out of a mount"),
];

fn errata(fixed: io::Result<u32>, abi: i32) -> Feature {
    const NAME: &str = "landlock-errata";
    let fixed = match fixed {
        Ok(fixed) => fixed,
        Err(e) if Errno::from_io_error(&e) == Some(Errno::INVAL) => {
            return Feature::unknown(NAME, "this kernel does not tell (EINVAL)")
                .advise("no tier needs it; Linux 6.15 and newer tell");
        }
        Err(e) => return Feature::unknown(NAME, format!("this kernel does not tell ({e})")),
    };
    let open: Vec<String> = ERRATA
        .iter()
        .filter(|(number, since, _)| *since <= abi && fixed & (1 << (number - 1)) == 0)
        .map(|(number, _, what)| format!("{number} ({what})"))
        .collect();
    if open.is_empty() {
        return Feature::enforced(NAME, format!("all that are known are fixed ({fixed:#x})"));
    }
    Feature::partial(NAME, format!("not fixed: {}", open.join(", ")))
        .advise("install the newest update of this kernel")
}

fn no_control(rule: &Rule, what: &str, e: &io::Error) -> Feature {
    Feature::unknown(rule.name, format!("{what} is not to be had ({}): nothing is shown", named(e)))
}

fn abstract_unix(limit: Option<i32>, around: &Surroundings) -> Feature {
    let name = format!("paddock-doctor-{}", std::process::id());
    let listening = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixListener::bind_addr(&address).map(|socket| (socket, address)));
    match listening {
        Ok((_socket, address)) => tried(&ABSTRACT_UNIX, limit, around, || {
            vec![("an abstract UNIX connect", UnixStream::connect_addr(&address).map(drop))]
        }),
        Err(e) => no_control(&ABSTRACT_UNIX, "an abstract UNIX socket", &e),
    }
}

fn unix_paths(limit: Option<i32>, around: &Surroundings) -> Feature {
    let path = std::env::temp_dir().join(format!("paddock-doctor-{}.sock", std::process::id()));
    // Only where the kernel knows the rule is a socket made to try it on.
    if let Err(e) = landlock_knows(UNIX_PATHS.rights) {
        return judge(&UNIX_PATHS, &Vec::new(), Err(e), around);
    }
    match UnixListener::bind(&path) {
        Ok(_socket) => {
            let feature = tried(&UNIX_PATHS, limit, around, || connect(&path));
            let _ = std::fs::remove_file(&path);
            feature
        }
        Err(e) => no_control(&UNIX_PATHS, "a socket in the temporary directory", &e),
    }
}

fn connect(path: &Path) -> Attempts {
    vec![("a UNIX connect by path", UnixStream::connect(path).map(drop))]
}

fn thread_sync(limit: Option<i32>, ask: impl FnOnce() -> io::Result<()>) -> Feature {
    let (name, since, kernel) = THREAD_SYNC;
    let known =
        if limit.is_some_and(|limit| limit < since) { Err(error(Errno::INVAL)) } else { ask() };
    match known {
        Ok(()) => Feature::enforced(name, "this kernel knows LANDLOCK_RESTRICT_SELF_TSYNC"),
        Err(e) => unknown_to_kernel(name, since, kernel, &e, &Surroundings::default()),
    }
}

#[cfg(test)]
mod tests;
