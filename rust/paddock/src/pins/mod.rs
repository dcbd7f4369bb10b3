//! Pins: what an agent may do, and which programs do it, was recorded at its
//! first launch and is compared at every later one.
//!
//! Policies come from their authors as text and from nono resolved ([`facts`]);
//! only what is resolved counts. nono is asked, and a program is read, only when
//! what it depends on is not in the state in which it was recorded.

mod compare;
mod facts;
mod program;
mod resolve;
mod shipped;
mod store;
mod words;

use facts::Facts;
use serde_json::Value;

use crate::agent::{self, Agent};
use crate::error::Error;
use crate::files::sha256;
use crate::launch::{
    Config, Directories, Found, OnProgramChange, Plan, Programs, Search, Tier, agent_program,
    load_agent,
};
use compare::Change;
pub(crate) use program::PinnedProgram;
use store::PinnedPolicy;
pub(crate) use store::{Pins, file};
pub(crate) use words::{details, hashes};

/// What an agent file grants by itself is compared like a layer's policy.
const ADAPTER: &str = "agent";

/// What is pinned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) tier: Tier,
    pub(crate) programs: &'a Programs,
    /// The agent's own program.
    pub(crate) program: &'a Found,
}

impl<'a> From<&'a Plan> for Subject<'a> {
    fn from(plan: &'a Plan) -> Self {
        Self {
            agent: &plan.agent,
            tier: plan.tier,
            programs: &plan.programs,
            program: &plan.program,
        }
    }
}

/// A policy that is not the recorded one.
#[derive(Clone, Debug)]
pub(crate) struct PolicyChange {
    pub(crate) layer: &'static str,
    pub(crate) was: String,
    pub(crate) is: String,
    pub(crate) changes: Vec<Change>,
}

/// A program that is not the recorded one.
#[derive(Clone, Debug)]
pub(crate) struct ProgramChange {
    pub(crate) name: &'static str,
    pub(crate) was: PinnedProgram,
    pub(crate) is: PinnedProgram,
}

/// The present state beside the recorded one.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) recorded: Option<Pins>,
    pub(crate) present: Pins,
    pub(crate) policies: Vec<PolicyChange>,
    pub(crate) programs: Vec<ProgramChange>,
}

/// How the present state stands to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinState {
    NotRecorded,
    Same,
    /// A launch says so and goes on.
    Changed,
    /// A launch does not start.
    Refused,
}

impl PinState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotRecorded => "not-recorded",
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Refused => "refused",
        }
    }
}

/// What a launch found.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// All as recorded.
    Same,
    /// The first launch.
    First(Value),
    /// The person is told.
    Changed { notices: Vec<String>, details: Value },
}

/// What a launch found, and what it records once its layers stand: a program that
/// builds none is not worth remembering.
#[derive(Debug)]
pub(crate) struct Pinning {
    pub(crate) outcome: Outcome,
    /// Of the agent's own program.
    pub(crate) agent_sha256: Option<String>,
    to_record: Option<Comparison>,
}

impl Pinning {
    /// Of a survey, which records nothing.
    pub(crate) const NONE: Self =
        Self { outcome: Outcome::Same, agent_sha256: None, to_record: None };

    /// Records the present state where it is not the recorded one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn record(&self, directories: &Directories) -> Result<(), Error> {
        self.to_record.as_ref().map_or(Ok(()), |comparison| comparison.record(directories))
    }
}

impl Comparison {
    /// Compares `subject` with what is recorded of it, and changes nothing.
    ///
    /// # Errors
    /// When a shipped file is not the pinned one, or something cannot be looked at.
    pub(crate) fn make(
        subject: Subject<'_>,
        directories: &Directories,
        recorded: Option<Pins>,
    ) -> Result<Self, Error> {
        shipped::check(subject.agent)?;
        let mut present = Pins::new(subject.agent.called(), subject.tier);
        let mut programs = Vec::new();
        for (name, found) in named_programs(subject) {
            let known = recorded.as_ref().and_then(|pins| pins.programs.get(name));
            let now = program::look(name, found, known)?;
            if let Some(was) = known.filter(|was| was.sha256 != now.sha256) {
                programs.push(ProgramChange { name, was: was.clone(), is: now.clone() });
            }
            present.programs.insert(name.into(), now);
        }
        add_policies(&mut present, subject, directories, recorded.as_ref())?;
        let policies = recorded.as_ref().map_or(Vec::new(), |was| differences(was, &present));
        Ok(Self { recorded, present, policies, programs })
    }

    /// Compares what the agent `name` would run here in `tier` with what is
    /// recorded; with `anew` a record that cannot be used counts as none.
    ///
    /// # Errors
    /// As [`Comparison::make`], and when agent or programs are not to be had.
    pub(crate) fn of_named(
        name: &str,
        tier: Tier,
        config: &Config,
        directories: &Directories,
        anew: bool,
    ) -> Result<Self, Error> {
        let agent = load_agent(name, config, directories)?;
        let programs = Programs::find(&Search::here(config, directories), tier.has_veil())?;
        let program = agent_program(&agent, &programs.paddock, config.agents.get(name))?;
        let subject = Subject { agent: &agent, tier, programs: &programs, program: &program };
        let recorded = match Pins::load(directories, name, tier) {
            // One of another version is not ours to replace.
            Err(Error::PinFile { .. }) if anew => None,
            loaded => loaded?,
        };
        Self::make(subject, directories, recorded)
    }

    /// What a launch would do about it.
    pub(crate) fn state(&self, on_program_change: OnProgramChange) -> PinState {
        let refuses_program =
            on_program_change == OnProgramChange::Refuse && !self.programs.is_empty();
        match &self.recorded {
            None => PinState::NotRecorded,
            Some(_) if self.widens() || refuses_program => PinState::Refused,
            Some(_) if self.is_same() => PinState::Same,
            Some(_) => PinState::Changed,
        }
    }

    /// Whether the agent may do what it could not.
    pub(crate) fn widens(&self) -> bool {
        self.policies.iter().flat_map(|policy| &policy.changes).any(|change| change.widens)
    }

    /// Whether anything is told of it.
    pub(crate) fn is_same(&self) -> bool {
        self.policies.is_empty() && self.programs.is_empty()
    }

    /// Records the present state.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn record(&self, directories: &Directories) -> Result<(), Error> {
        self.present.store(directories)
    }
}

/// Before a launch: goes on with the first state and the same, says what changed and
/// refuses what widened.
///
/// # Errors
/// [`Error::PinMismatch`], or whatever keeps the pins from being compared.
pub(crate) fn at_launch(
    subject: Subject<'_>,
    directories: &Directories,
    on_program_change: OnProgramChange,
) -> Result<Pinning, Error> {
    let (agent, tier) = (subject.agent.called(), subject.tier);
    let recorded = Pins::load(directories, agent, tier)?;
    let comparison = Comparison::make(subject, directories, recorded)?;
    if comparison.state(on_program_change) == PinState::Refused {
        return Err(Error::PinMismatch {
            agent: agent.to_owned(),
            tier,
            what: words::list(&comparison),
            accept: accept_command(agent, tier),
        });
    }
    let outcome = match comparison.recorded {
        None => Outcome::First(hashes(&comparison.present)),
        Some(_) if comparison.is_same() => Outcome::Same,
        Some(_) => Outcome::Changed {
            notices: words::notices(agent, &comparison),
            details: words::details(&comparison),
        },
    };
    // Another state of the same file is not worth a word, but is remembered.
    let is_other = comparison.recorded.as_ref() != Some(&comparison.present);
    let agent_sha256 = comparison.present.programs.get("agent").map(|agent| agent.sha256.clone());
    Ok(Pinning { outcome, agent_sha256, to_record: is_other.then_some(comparison) })
}

/// Agents and tiers of which something is recorded, and `first` before them.
pub(crate) fn recorded_names(
    first: (&str, Tier),
    directories: &Directories,
) -> Vec<(String, Tier)> {
    let mut found = vec![(first.0.to_owned(), first.1)];
    let mut names = agent::known_agents(&directories.agents());
    names.sort();
    for name in names {
        for tier in [Tier::Sealed, Tier::Isolated, Tier::Ported] {
            let is_recorded = std::fs::symlink_metadata(file(directories, &name, tier)).is_ok();
            if is_recorded && (name.as_str(), tier) != first {
                found.push((name.clone(), tier));
            }
        }
    }
    found
}

/// The command that records the present state.
pub(crate) fn accept_command(agent: &str, tier: Tier) -> String {
    let tier = if tier == Tier::default() { String::new() } else { format!(" --tier {tier}") };
    format!("paddock pin --accept {agent}{tier}")
}

fn named_programs(subject: Subject<'_>) -> Vec<(&'static str, &Found)> {
    let mut programs = vec![("nono", &subject.programs.nono), ("agent", subject.program)];
    programs.extend(subject.programs.bwrap.as_ref().map(|bwrap| ("bwrap", bwrap)));
    programs
}

/// Adds the policies as they are now: from what is recorded where neither their
/// text nor nono changed, else from nono.
fn add_policies(
    present: &mut Pins,
    subject: Subject<'_>,
    directories: &Directories,
    recorded: Option<&Pins>,
) -> Result<(), Error> {
    let profiles = &subject.agent.profiles;
    let sha = |pins: &Pins| pins.programs.get("nono").map(|nono| nono.sha256.clone());
    let same_nono = recorded.filter(|was| sha(was) == sha(present));
    let mut unknown = Vec::new();
    for (layer, text) in profiles.all() {
        let hash = sha256(text.as_bytes());
        let known = same_nono.and_then(|was| was.policies.get(layer));
        match known.filter(|known| known.text == hash) {
            Some(known) => {
                present.policies.insert(layer.into(), known.clone());
            }
            None => unknown.push((layer, text)),
        }
    }
    if !unknown.is_empty() {
        let directory = directories.pins();
        for (layer, facts) in resolve::resolve(&subject.programs.nono, &unknown, &directory)? {
            let text = unknown.iter().find(|(name, _)| *name == layer).map_or("", |(_, text)| text);
            present.policies.insert(layer.into(), pinned(text, facts));
        }
    }
    let granted =
        pinned(&subject.agent.adapter, Facts::of_adapter(subject.agent, &subject.program.path));
    present.policies.insert(ADAPTER.into(), granted);
    Ok(())
}

fn pinned(text: &str, facts: Facts) -> PinnedPolicy {
    PinnedPolicy { text: sha256(text.as_bytes()), resolved: facts.hash(), facts }
}

fn differences(was: &Pins, is: &Pins) -> Vec<PolicyChange> {
    let mut found = Vec::new();
    for layer in ["pen", "server", "client", ADAPTER] {
        let empty = PinnedPolicy {
            text: String::new(),
            resolved: "nothing".into(),
            facts: Facts::default(),
        };
        let old = was.policies.get(layer).unwrap_or(&empty);
        let new = is.policies.get(layer).unwrap_or(&empty);
        if old.resolved == new.resolved {
            continue;
        }
        let changes = compare::compare(&old.facts, &new.facts);
        if !changes.is_empty() {
            let (was, is) = (old.resolved.clone(), new.resolved.clone());
            found.push(PolicyChange { layer, was, is, changes });
        }
    }
    found
}
