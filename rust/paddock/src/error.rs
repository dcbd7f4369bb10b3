//! What can go wrong, each with what the person can do about it.

use std::path::PathBuf;

use confine::Layer;

use crate::launch::{LaunchId, Tier};
use crate::output::{quoted, shown};

/// Paddock's exit statuses beside the agent's own.
pub(crate) mod status {
    /// `paddock doctor`: the tier cannot be reached, or something got through.
    pub(crate) const DOCTOR_FOUND: u8 = 1;
    /// Paddock failed; no agent ran, or its end is not known.
    pub(crate) const FAILED: u8 = warden::FAILED;
    /// The agent was stopped, or not started, because it is not confined.
    pub(crate) const UNCONFINED: u8 = 126;
    /// The agent's program was not found.
    pub(crate) const NOT_FOUND: u8 = warden::NOT_FOUND;
}

/// Every error that a person can meet, in alphabetical order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the agent file {} is not usable: {reason}", shown(path))]
    AgentFile { path: PathBuf, reason: String },
    #[error("the program of agent {agent} was not found (looked for {names})")]
    AgentProgram { agent: String, names: String },
    #[error("there is no agent {name:?}; known: {known}")]
    AgentUnknown { name: String, known: String },
    #[error("{program} at {} cannot be used: {reason}", shown(path))]
    BadProgram { program: &'static str, path: PathBuf, reason: String },
    #[error("there is no private home of an agent {agent:?}; those there are: {known}")]
    CachesUnknown { agent: String, known: String },
    #[error("nothing was removed: there is nobody to ask")]
    CachesUnconfirmed,
    #[error("the configuration {} is not usable: {reason}", shown(path))]
    Configuration { path: PathBuf, reason: String },
    #[error("the directory {} is not private: {reason}", shown(path))]
    DirectoryNotPrivate { path: PathBuf, reason: &'static str, remedy: &'static str },
    #[error("the directory {} cannot be used: {reason}", shown(path))]
    DirectoryUnusable { path: PathBuf, reason: String },
    #[error("the agent {agent} has no {form} form")]
    FormMissing { agent: String, form: &'static str },
    #[error("nothing was granted: {reason}")]
    Grant { reason: String },
    #[error("granted for this launch, not kept: {reason}")]
    GrantNotKept { reason: String },
    #[error("the allowed hosts are not usable: {reason}")]
    Hosts { reason: String },
    #[error("nothing was copied for {agent}: {reason}")]
    Import { agent: String, reason: String },
    #[error("several launches match {prefix:?}: {matches}")]
    LaunchAmbiguous { prefix: String, matches: String },
    #[error("there is no agent and no launch {name:?}; known agents: {known}")]
    LaunchOrAgentUnknown { name: String, known: String },
    #[error("launch {launch} still runs: there is nothing to go on with yet")]
    LaunchRuns { launch: LaunchId },
    #[error("there is no launch {prefix:?}")]
    LaunchUnknown { prefix: String },
    #[error("there has been no launch")]
    LaunchesNever,
    #[error("no launch is running")]
    LaunchesNone,
    #[error("several launches are running: {ids}")]
    LaunchesSeveral { ids: String, advice: &'static str },
    #[error("Landlock on this kernel is {found}; {needed} is needed")]
    Landlock { found: String, needed: String },
    #[error("the {layer} layer did not start: {reason}{log}")]
    LayerStart { layer: &'static str, reason: String, log: String },
    #[error("the ledger {} cannot be read: {reason}", shown(path))]
    Ledger { path: PathBuf, reason: String },
    #[error("{program} was not found (looked for {looked})")]
    MissingProgram { program: &'static str, looked: String, install: &'static str },
    #[error("namespaces for the {tier} tier are not to be had: {reason}")]
    NoNamespaces { tier: &'static str, reason: String, setting: String },
    #[error("the agent {agent} has no way to go on where it ended")]
    NoResume { agent: String },
    #[error("the overlay needs a terminal")]
    NoTerminal,
    #[error("no thread can be started for {what}: {reason}")]
    NoThread { what: &'static str, reason: String },
    #[error("there is no launch to go on with: {reason}")]
    NothingToResume { reason: String, advice: String },
    #[error("the output cannot be written: {reason}")]
    Output { reason: String },
    #[error("this process had children before it became paddock: {processes}")]
    OtherChildren { processes: String },
    #[error("port {port} is not forwarded: {reason}")]
    Port { port: u16, reason: String, advice: String },
    #[error("/proc is {what}: what is there and what has ended cannot be told apart")]
    Proc { what: String },
    #[error("what was recorded in {} is not usable: {reason}", shown(path))]
    PinFile { path: PathBuf, reason: String, accept: String },
    #[error("pin-mismatch: {agent} ({tier}) is not as it was recorded{what}")]
    PinMismatch { agent: String, tier: Tier, what: String, accept: String },
    #[error(
        "pin-mismatch: the shipped profiles/{file} is not the pinned one: pinned {pinned}, found {found}"
    )]
    PinShipped { file: String, pinned: String, found: String },
    #[error("nono cannot tell what it makes of the {layer} policy: {reason}")]
    PinUnresolved { layer: &'static str, reason: String },
    #[error("the project file {} is not usable: {reason}", shown(path))]
    ProjectFile { path: PathBuf, reason: String },
    #[error(
        "the project file {} wants tier {wanted} or better, and {asked} was asked for",
        shown(path)
    )]
    ProjectTier { path: PathBuf, asked: Tier, wanted: Tier },
    #[error("the project file {} may only tighten: {what}", shown(path))]
    ProjectWidens { path: PathBuf, what: String, persons: PathBuf },
    #[error("{program} {found} at {} is too old; {needed} or newer is needed", shown(path))]
    ProgramTooOld {
        program: &'static str,
        path: PathBuf,
        found: String,
        needed: &'static str,
        install: &'static str,
    },
    #[error("the record {} cannot be used: {reason}", shown(path))]
    Record { path: PathBuf, reason: String, keeper: Option<confine::Pid> },
    #[error("paddock does not run as root")]
    Root,
    #[error("the self-test of the {layer} layer failed: {what}")]
    SelfTest { layer: Layer, what: String },
    #[error(
        "the halves of agent {agent} meet at sockets in {}, which in the {tier} tier is this host's own: \
         an agent that listens there outside of every sandbox would be in reach",
        shown(path)
    )]
    SharedSockets { agent: String, path: PathBuf, tier: Tier, has_solo: bool },
    #[error("the agent {agent} cannot work with your own state: {reason}")]
    SharedState { agent: String, reason: String, advice: String },
    #[error("the shell {} cannot be used: {reason}", shown(path))]
    Shell { path: PathBuf, reason: String },
    #[error("the path {} is too long for a socket by {excess} bytes", shown(path))]
    SocketPath { path: PathBuf, excess: usize },
    #[error("the agent's {half} could not be started: {reason}")]
    StartAgent { half: &'static str, reason: String, not_found: bool },
    #[error("the record {} has schema version {found}; this paddock knows {known}", shown(path))]
    StateVersion { path: PathBuf, found: u64, known: u32 },
    #[error("stopped by {by}")]
    Stopped { by: String, status: u8 },
    #[error("the agent was stopped: {what}")]
    Unconfined { what: String },
    #[error(
        "the client of agent {agent} meets its server at an AF_UNIX socket, and unix = \"strict\" lets it have none"
    )]
    UnixLink { agent: String },
    #[error("the workspace {} cannot be used: {reason}", shown(path))]
    Workspace { path: PathBuf, reason: String },
}

impl Error {
    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::AgentProgram { .. } | Self::StartAgent { not_found: true, .. } => {
                status::NOT_FOUND
            }
            Self::Stopped { status, .. } => *status,
            Self::SelfTest { .. } | Self::Unconfined { .. } => status::UNCONFINED,
            _ => status::FAILED,
        }
    }

    fn advice_on_pins_and_projects(&self) -> Option<String> {
        Some(match self {
            Self::PinFile { path, accept, .. } => {
                format!("see what it is: ls -l {}; {accept} records anew", quoted(&shown(path)))
            }
            Self::PinMismatch { accept, .. } => format!("{accept}, if that is meant to be so"),
            Self::PinShipped { .. } => "build and install paddock again".into(),
            Self::PinUnresolved { .. } => {
                "correct the agent's policy; paddock info --programs shows which nono was asked"
                    .into()
            }
            Self::ProjectFile { path, .. } => {
                format!("correct or remove it; see what it is: ls -l {}", quoted(&shown(path)))
            }
            Self::ProjectTier { asked, .. } => {
                format!("leave out --tier {asked}, or remove `tier` from that file")
            }
            Self::ProjectWidens { persons, .. } => format!(
                "remove it there; if you want it, write it into your own configuration, {}",
                shown(persons)
            ),
            _ => return None,
        })
    }

    /// What to do next, in words or as the command to type.
    pub(crate) fn advice(&self) -> Option<String> {
        Some(match self {
            Self::AgentFile { .. } | Self::Configuration { .. } => {
                "correct the file, then try again".into()
            }
            Self::AgentProgram { agent, .. } => format!(
                "install it, or name it: in the configuration, [agents.{agent}] program = \"/path\""
            ),
            Self::AgentUnknown { .. } => "paddock agents lists them".into(),
            Self::CachesUnknown { .. } => {
                "paddock prune --caches --dry-run shows what is there".into()
            }
            Self::CachesUnconfirmed => "say --yes, or --dry-run to see what is there".into(),
            Self::DirectoryNotPrivate { path, remedy, .. } => {
                format!("{remedy} {}", quoted(&shown(path)))
            }
            Self::DirectoryUnusable { .. } => {
                "paddock info --paths shows every directory in use".into()
            }
            Self::FormMissing { agent, .. } => format!("paddock run {agent} starts it as it is"),
            Self::Grant { .. } => {
                "paddock grant --help shows how; paddock list, the launches".into()
            }
            Self::GrantNotKept { .. } => {
                "correct the configuration, then grant it again, or write it there yourself".into()
            }
            Self::Hosts { .. } => {
                "correct `hosts` and `exceptions` in the configuration or agent file".into()
            }
            Self::Import { .. } => "paddock import --help shows how".into(),
            Self::LaunchAmbiguous { .. } | Self::LaunchUnknown { .. } | Self::LaunchesNone => {
                "paddock list shows the launches".into()
            }
            Self::LaunchOrAgentUnknown { .. } => "paddock list; paddock agents".into(),
            Self::LaunchRuns { launch } => {
                format!("paddock stop {launch}, then: paddock resume {launch}")
            }
            Self::LaunchesNever => "paddock run starts one".into(),
            Self::LaunchesSeveral { advice, .. } => (*advice).into(),
            Self::Landlock { .. } => {
                "use a kernel with Landlock enabled (lsm=landlock,... on its command line)".into()
            }
            Self::LayerStart { .. } => "paddock info --programs shows what was run".into(),
            Self::Ledger { path, .. } => format!("see what it is: ls -l {}", quoted(&shown(path))),
            Self::MissingProgram { install, .. } | Self::ProgramTooOld { install, .. } => {
                (*install).into()
            }
            Self::NoResume { agent } => format!("paddock run {agent} starts it afresh"),
            Self::NothingToResume { advice, .. }
            | Self::Port { advice, .. }
            | Self::SharedState { advice, .. } => advice.clone(),
            Self::NoTerminal => "paddock status prints the same in lines".into(),
            Self::NoThread { .. } => "ulimit -u shows how many you may have".into(),
            // Every other tier is made of them.
            Self::NoNamespaces { setting, .. } => {
                format!("{setting}; or choose a lesser tier: paddock run --tier ported")
            }
            Self::OtherChildren { .. } => {
                "start paddock without exec, so that they are not taken for the agent's".into()
            }
            Self::Proc { .. } => "as root type: mount -o remount,hidepid=0 /proc".into(),
            Self::Record { keeper: Some(keeper), .. } => {
                format!("kill {keeper} ends its keeper, and the launch with it")
            }
            Self::Record { path, keeper: None, .. } => {
                format!("it has no keeper; rm -r {}", quoted(&shown(path.parent().unwrap_or(path))))
            }
            Self::PinFile { .. }
            | Self::PinMismatch { .. }
            | Self::PinShipped { .. }
            | Self::PinUnresolved { .. }
            | Self::ProjectFile { .. }
            | Self::ProjectTier { .. }
            | Self::ProjectWidens { .. } => return self.advice_on_pins_and_projects(),
            Self::Root => "run it as the user whose files the agent may work on".into(),
            Self::SharedSockets { agent, has_solo: true, .. } => format!(
                "paddock run --solo {agent} starts it as one process; or choose the tier that has a \
                 /tmp of the launch's own: paddock run --tier sealed {agent}"
            ),
            Self::SharedSockets { agent, .. } => format!("paddock run --tier sealed {agent}"),
            Self::Shell { .. } => "name another in the configuration: shell = \"/bin/sh\"".into(),
            Self::SocketPath { .. } => "set XDG_RUNTIME_DIR to a shorter path".into(),
            Self::StateVersion { .. } => "use the paddock that wrote it, or remove the file".into(),
            Self::UnixLink { agent } => format!(
                "in the configuration: [agents.{agent}] unix = \"mediated\"; paddock run --solo \
                 {agent} has one process, where its agent file has [solo]; of an agent of your own \
                 the halves can meet at a port instead (link.kind = \"tcp\")"
            ),
            Self::Workspace { .. } => "paddock run --workspace DIR names another".into(),
            Self::BadProgram { .. } => {
                "paddock info --programs shows which programs are used, and from where".into()
            }
            Self::Output { .. }
            | Self::SelfTest { .. }
            | Self::StartAgent { .. }
            | Self::Stopped { .. }
            | Self::Unconfined { .. } => {
                return None;
            }
        })
    }
}
