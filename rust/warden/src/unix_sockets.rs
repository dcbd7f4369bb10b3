//! What mediation of AF_UNIX cannot hold against threads that change an address
//! while it is looked at: the kernel's own rule about paths, and a filter that
//! lets nobody have a socket to name an address with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use confine::sys::numbers;
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::UnixLimit;

/// From here on for this process, and all that it starts.
pub(crate) fn limit(limit: &UnixLimit) -> anyhow::Result<()> {
    match limit {
        UnixLimit::ReachableBeneath(paths) => {
            restrict(&PathRules::reaching(paths)).context("Landlock's rule about UNIX sockets")
        }
        UnixLimit::NoSockets => refuse_sockets(),
    }
}

/// Refuses AF_UNIX sockets with `EACCES`, and pairs of those that need no
/// connection: each of such a pair can send to any socket there is, while one of
/// a connected pair stays what it is (`EISCONN`, `connect(2)`). The family and
/// the type are in registers, which no other thread can change. Calls of 32-bit
/// programs end the caller: the filter is of one architecture. Sockets that are
/// open stay open: the warden's own to the gate.
fn refuse_sockets() -> anyhow::Result<()> {
    let is = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let is_unix = || is(0, SeccompCmpOp::Eq, numbers::AF_UNIX);
    let has_type = |wanted| is(1, SeccompCmpOp::MaskedEq(numbers::SOCKET_TYPE_MASK), wanted);
    let mut rules = BTreeMap::new();
    for number in numbers::SOCKET {
        rules.insert(*number, vec![SeccompRule::new(vec![is_unix()?])?]);
    }
    for number in numbers::SOCKETPAIR {
        let of_type = |wanted| -> anyhow::Result<_> {
            Ok(SeccompRule::new(vec![is_unix()?, has_type(wanted)?])?)
        };
        let [datagram, raw] = numbers::CONNECTIONLESS.map(of_type);
        rules.insert(*number, vec![datagram?, raw?]);
    }
    let refused = SeccompAction::Errno(numbers::EACCES);
    let target = std::env::consts::ARCH.try_into().context("no filter for this architecture")?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?).context("seccomp")
}

/// A Landlock ruleset about paths: what it handles is refused but where a rule
/// allows it.
#[derive(Debug, PartialEq, Eq)]
struct PathRules {
    handled: BitFlags<AccessFs>,
    allowed: Vec<(PathBuf, BitFlags<AccessFs>)>,
}

impl PathRules {
    /// Sockets are found beneath `paths` alone, and where the domain made them
    /// itself (`LANDLOCK_ACCESS_FS_RESOLVE_UNIX`, ABI 9, kernel commit "landlock:
    /// Control pathname UNIX domain socket resolution by path"; the hook is where
    /// the kernel looks its own copy of the address up).
    fn reaching(paths: &[PathBuf]) -> Self {
        let sockets = paths.iter().map(|path| (path.clone(), AccessFs::ResolveUnix.into()));
        // Every ruleset about files refuses to move files between directories,
        // whether it handles that or not (`landlock(7)`, `LANDLOCK_ACCESS_FS_REFER`):
        // handled and allowed everywhere it is left to the sandbox around.
        let moving = (PathBuf::from("/"), AccessFs::Refer.into());
        Self {
            handled: AccessFs::ResolveUnix | AccessFs::Refer,
            allowed: std::iter::once(moving).chain(sockets).collect(),
        }
    }
}

/// Puts the calling thread into a domain with these rules, below the one that it
/// is in: what it starts is in that domain, and its witness queries stay right.
/// What the kernel does not know is an error, never left out.
fn restrict(rules: &PathRules) -> anyhow::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rules.handled)?
        .create()?;
    for (path, access) in &rules.allowed {
        ruleset = ruleset.add_rule(PathBeneath::new(open(path)?, *access))?;
    }
    let status = ruleset.restrict_self()?;
    anyhow::ensure!(status.ruleset == RulesetStatus::FullyEnforced, "{:?}", status.ruleset);
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<PathFd> {
    PathFd::new(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests;
