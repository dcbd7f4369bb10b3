//! From evidence to verdict: one pure function.

use std::fmt;
use std::time::Duration;

use crate::evidence::{Evidence, Layer, ProgramCheck, Role};
use crate::proc::{Namespaces, State};
use crate::witness::Testimony;

/// What the evidence shows about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every check that applies was made and held.
    Confined,
    /// Part of what builds the sandbox, outside it by design, and the program
    /// that was recorded: bubblewrap and the pen's nono.
    Builder,
    /// At least one check failed.
    Unconfined(Vec<Reason>),
    /// No check failed, but one could not be made. Treated as unconfined.
    Unknown(Vec<Reason>),
}

impl Verdict {
    /// Whether the launch may go on with this task in it.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Confined | Self::Builder)
    }

    /// The verdict's name, as shown and in the JSON output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Builder => "builder",
            Self::Unconfined(_) => "unconfined",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why it does not hold.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Confined | Self::Builder => &[],
            Self::Unconfined(reasons) | Self::Unknown(reasons) => reasons,
        }
    }
}

/// Why a task is not confirmed to be confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It descends from nothing that belongs in the launch.
    NoPlace,
    /// The kernel lets the witness see tasks of its domain, and refused this one.
    NotInDomain(Layer),
    /// `no_new_privs` is not set.
    NewPrivileges,
    /// The seccomp mode is not "filter".
    NoSeccomp,
    /// Fewer filters apply than to the layer's warden.
    FewerFilters {
        /// Those that apply.
        has: u32,
        /// Those that the warden has.
        wants: u32,
    },
    /// A user id is another user's.
    OtherUser(u32),
    /// It holds capabilities.
    Capabilities(u64),
    /// It is in a namespace of the host that the layer has left; which.
    HostNamespace(&'static str),
    /// It is traced from outside its layer.
    Traced(i32),
    /// Its program is not the one that was recorded.
    OtherProgram,
    /// It is stopped: a witness that cannot answer.
    Stopped,
    /// The witness did not answer in time.
    NoTestimony(Layer),
    /// The witness was told something unexpected.
    UnclearTestimony(Layer),
    /// The kernel does not count seccomp filters (before Linux 5.9).
    FiltersNotCounted,
    /// The namespaces could not be read.
    NamespacesUnreadable,
    /// The program could not be read.
    ProgramUnreadable,
    /// It holds something open that leads outside; said by the descriptor check.
    Holds(String),
    /// What it holds open could not be read.
    DescriptorsUnreadable,
}

impl Reason {
    /// A stable word for the reason, for the JSON output.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPlace => "no-place",
            Self::NotInDomain(_) => "not-in-domain",
            Self::NewPrivileges => "new-privileges",
            Self::NoSeccomp => "no-seccomp",
            Self::FewerFilters { .. } => "fewer-filters",
            Self::OtherUser(_) => "other-user",
            Self::Capabilities(_) => "capabilities",
            Self::HostNamespace(_) => "host-namespace",
            Self::Traced(_) => "traced",
            Self::OtherProgram => "other-program",
            Self::Stopped => "stopped",
            Self::NoTestimony(_) => "no-testimony",
            Self::UnclearTestimony(_) => "unclear-testimony",
            Self::FiltersNotCounted => "filters-not-counted",
            Self::NamespacesUnreadable => "namespaces-unreadable",
            Self::ProgramUnreadable => "program-unreadable",
            Self::Holds(_) => "holds-outside",
            Self::DescriptorsUnreadable => "descriptors-unreadable",
        }
    }

    /// Whether the reason says that a check could not be made, rather than that
    /// it failed.
    pub fn is_ignorance(&self) -> bool {
        matches!(
            self,
            Self::NoTestimony(_)
                | Self::UnclearTestimony(_)
                | Self::FiltersNotCounted
                | Self::NamespacesUnreadable
                | Self::ProgramUnreadable
                | Self::DescriptorsUnreadable
                | Self::Stopped
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace => f.write_str("descends from no warden of this launch"),
            Self::NotInDomain(layer) => {
                write!(f, "the kernel says it is not in the Landlock domain of the {layer} sandbox")
            }
            Self::NewPrivileges => f.write_str("no_new_privs is not set"),
            Self::NoSeccomp => f.write_str("no seccomp filter applies"),
            Self::FewerFilters { has, wants } => {
                write!(f, "{has} seccomp filters apply, its sandbox has {wants}")
            }
            Self::OtherUser(uid) => write!(f, "runs as user id {uid}"),
            Self::Capabilities(set) => write!(f, "holds capabilities {set:#x}"),
            Self::HostNamespace(kind) => write!(f, "is in the host's {kind} namespace"),
            Self::Traced(pid) => write!(f, "is traced by process {pid} from outside its sandbox"),
            Self::OtherProgram => f.write_str("runs another program than the one recorded"),
            Self::Stopped => f.write_str("is stopped, so it cannot bear witness"),
            Self::NoTestimony(layer) => {
                write!(f, "the warden of the {layer} sandbox did not answer in time")
            }
            Self::UnclearTestimony(layer) => {
                write!(f, "the warden of the {layer} sandbox got no clear answer from the kernel")
            }
            Self::FiltersNotCounted => {
                f.write_str("this kernel does not count seccomp filters (Linux 5.9 does)")
            }
            Self::NamespacesUnreadable => f.write_str("its namespaces cannot be read"),
            Self::ProgramUnreadable => f.write_str("its program cannot be read"),
            Self::Holds(what) => write!(f, "holds open {what}, which is outside its grants"),
            Self::DescriptorsUnreadable => f.write_str("what it holds open cannot be read"),
        }
    }
}

/// What must be true of every task of a launch; recorded when it started.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The user who launched.
    pub uid: u32,
    /// Filters that apply to each layer's warden, and so to all below it.
    pub filters: LayerFilters,
    /// The namespaces of the pen's warden.
    pub inside: Namespaces,
    /// The namespaces of the host.
    pub host: Namespaces,
    /// The tier has an own network namespace.
    pub network_isolated: bool,
    /// The tier has a veil: own pid and mount namespaces.
    pub veiled: bool,
}

/// Seccomp filters per layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerFilters {
    /// The pen's warden.
    pub pen: u32,
    /// The server's warden.
    pub server: u32,
    /// The client's warden.
    pub client: u32,
}

impl LayerFilters {
    /// Filters of `layer`'s warden.
    pub fn of(self, layer: Layer) -> u32 {
        match layer {
            Layer::Pen => self.pen,
            Layer::Server => self.server,
            Layer::Client => self.client,
        }
    }
}

/// How long an agent's task may be one that nobody but root can look into. A program of
/// the system that its user may run and not read makes its process so (`sudo` on
/// some systems; `ptrace(2)`, and `would_dump` in the kernel's `fs/exec.c`). It is
/// below its warden and as restricted as everything there, and soon ends.
pub const UNREADABLE_LIMIT: Duration = Duration::from_secs(2);

/// Judges one task.
///
/// Monotone in the evidence: a failed check is never outweighed by another that
/// held, and a check that could not be made never counts as one that did.
pub fn judge(evidence: &Evidence, expectation: &Expectation) -> Verdict {
    let mut reasons = Vec::new();
    let status = &evidence.status;
    if status.state == State::Dead {
        return Verdict::Confined;
    }
    if let Some(uid) = status.uids.iter().find(|uid| **uid != expectation.uid) {
        reasons.push(Reason::OtherUser(*uid));
    }
    if let Some(tracer) = status.tracer
        && !evidence.tracer_is_inside
    {
        reasons.push(Reason::Traced(tracer.get()));
    }
    match evidence.program {
        ProgramCheck::Same | ProgramCheck::NotAsked => {}
        ProgramCheck::Different => reasons.push(Reason::OtherProgram),
        ProgramCheck::Unreadable => reasons.push(Reason::ProgramUnreadable),
    }
    // Which sandbox's rules apply. An inner supervisor stands one layer up: in
    // the pen, outside the sandbox that it supervises.
    let layer = match evidence.role {
        Role::Veil | Role::Supervisor(Layer::Pen) => {
            return conclude(reasons, Verdict::Builder);
        }
        Role::Supervisor(_) => Layer::Pen,
        Role::Warden(layer) | Role::Agent(layer) => layer,
        Role::Stray => {
            reasons.push(Reason::NoPlace);
            Layer::Pen
        }
    };
    if matches!(evidence.role, Role::Warden(_))
        && matches!(status.state, State::Stopped | State::TracedStop)
    {
        reasons.push(Reason::Stopped);
    }
    judge_restrictions(evidence, expectation, layer, &mut reasons);
    judge_domain(evidence, layer, &mut reasons);
    judge_namespaces(evidence, expectation, &mut reasons);
    conclude(reasons, Verdict::Confined)
}

/// What cannot be undone once it is set: `no_new_privs` and seccomp filters.
fn judge_restrictions(
    evidence: &Evidence,
    expectation: &Expectation,
    layer: Layer,
    reasons: &mut Vec<Reason>,
) {
    let status = &evidence.status;
    if !status.no_new_privs {
        reasons.push(Reason::NewPrivileges);
    }
    if status.seccomp_mode == 2 {
        let wants = expectation.filters.of(layer);
        match status.seccomp_filters {
            Some(has) if has >= wants => {}
            Some(has) => reasons.push(Reason::FewerFilters { has, wants }),
            None => reasons.push(Reason::FiltersNotCounted),
        }
    } else {
        reasons.push(Reason::NoSeccomp);
    }
}

/// The kernel's answer to the layer's witness. A task that is not dumpable is
/// opaque to every witness; then descent and restrictions, which are inherited
/// and cannot be undone, must hold by themselves.
fn judge_domain(evidence: &Evidence, layer: Layer, reasons: &mut Vec<Reason>) {
    match evidence.testimony {
        Some(Testimony::Inside) => {}
        Some(Testimony::Refused) if !evidence.dumpable => {}
        Some(Testimony::Refused) => reasons.push(Reason::NotInDomain(layer)),
        // The verifier leaves out tasks that have ended; of one that has not,
        // this is no answer.
        Some(Testimony::Gone | Testimony::Unclear) => reasons.push(Reason::UnclearTestimony(layer)),
        // A warden is asked about itself by its registration, and is opaque.
        None if matches!(evidence.role, Role::Warden(_)) && !evidence.dumpable => {}
        None => reasons.push(Reason::NoTestimony(layer)),
    }
}

fn judge_namespaces(evidence: &Evidence, expectation: &Expectation, reasons: &mut Vec<Reason>) {
    let host = &expectation.host;
    let inside = &expectation.inside;
    let capabilities = evidence.status.capabilities;
    let Some(namespaces) = &evidence.namespaces else {
        if capabilities != 0 && !evidence.maps_users_otherwise {
            reasons.push(Reason::Capabilities(capabilities));
        }
        // Without any namespace of its own the launch has nothing to compare.
        let must_differ = expectation.network_isolated || expectation.veiled;
        let may_still_end =
            matches!(evidence.role, Role::Agent(_)) && evidence.unreadable_for < UNREADABLE_LIMIT;
        if must_differ && !may_still_end {
            reasons.push(Reason::NamespacesUnreadable);
        }
        return;
    };
    if expectation.network_isolated {
        if namespaces.network == host.network {
            reasons.push(Reason::HostNamespace("network"));
        }
        if namespaces.ipc == host.ipc {
            reasons.push(Reason::HostNamespace("ipc"));
        }
    }
    if expectation.veiled {
        if namespaces.mount == host.mount {
            reasons.push(Reason::HostNamespace("mount"));
        }
        if namespaces.pid == host.pid {
            reasons.push(Reason::HostNamespace("pid"));
        }
    }
    // In a user namespace that it made itself a task holds every capability
    // over nothing but that namespace; anywhere else it must hold none.
    let own_user_namespace = namespaces.user != host.user && namespaces.user != inside.user;
    if capabilities != 0 && !own_user_namespace {
        reasons.push(Reason::Capabilities(capabilities));
    }
}

fn conclude(reasons: Vec<Reason>, otherwise: Verdict) -> Verdict {
    if reasons.is_empty() {
        otherwise
    } else if reasons.iter().all(Reason::is_ignorance) {
        Verdict::Unknown(reasons)
    } else {
        Verdict::Unconfined(reasons)
    }
}

#[cfg(test)]
mod tests;
