//! `paddock herdr`: what herdr starts.

use clap::{Args, Subcommand};

/// One of the plugin's entry points.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock herdr start-agent         the agent, beside the focused pane\n  \
    paddock herdr stop                the launch of this pane\n\n\
    The first line of output is HERDR_SANDBOX_RESULT: and a JSON object.\n\
    Exit status: 0 done, 125 not so."
)]
pub(crate) struct Herdr {
    #[command(subcommand)]
    pub(crate) entry: Entry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Entry {
    #[command(flatten)]
    Action(Action),
    /// Act on what herdr tells of; started by it
    #[command(hide = true)]
    Event,
    /// Look at what a restart of herdr left; started by it
    #[command(hide = true)]
    Startup,
    /// The program of a pane; started by herdr
    #[command(hide = true)]
    Pane {
        #[arg(value_enum)]
        kind: PaneKind,
    },
}

/// What can be bound to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Action {
    /// Find out what this host can do, and try every escape
    Doctor,
    /// Bind the usual keys in herdr's configuration
    InstallKeybindings,
    /// Launch the agent in a pane beside the focused one
    StartAgent,
    /// Go on with the agent's conversation, in fresh sandboxes
    Reconnect,
    /// Open a shell under the agent's policy
    OpenShell,
    /// End the launch
    Stop,
    /// Show the launch
    Info,
    /// Look at every process of the launch now
    VerifySandbox,
    /// Remove what is known of launches that have ended
    PruneMappings,
    /// Show the launches, and what they do
    Sandboxes,
    /// List the launches
    ListSandboxes,
    /// Take the launch from its pane
    ForgetMapping,
}

impl Action {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 12] = [
        Self::Doctor,
        Self::InstallKeybindings,
        Self::StartAgent,
        Self::Reconnect,
        Self::OpenShell,
        Self::Stop,
        Self::Info,
        Self::VerifySandbox,
        Self::PruneMappings,
        Self::Sandboxes,
        Self::ListSandboxes,
        Self::ForgetMapping,
    ];

    /// Its id in the manifest.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Doctor => "doctor",
            Self::InstallKeybindings => "install-keybindings",
            Self::StartAgent => "start-agent",
            Self::Reconnect => "reconnect",
            Self::OpenShell => "open-shell",
            Self::Stop => "stop",
            Self::Info => "info",
            Self::VerifySandbox => "verify-sandbox",
            Self::PruneMappings => "prune-mappings",
            Self::Sandboxes => "sandboxes",
            Self::ListSandboxes => "list-sandboxes",
            Self::ForgetMapping => "forget-mapping",
        }
    }
}

/// What a pane runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PaneKind {
    /// `paddock run`
    Agent,
    /// `paddock resume`
    Resume,
    /// `paddock shell`
    Shell,
    /// `paddock overlay`
    Sandboxes,
    /// What an action has to say
    Message,
    /// Why the program before it ended
    Held,
}

impl PaneKind {
    /// Its id in the manifest, and on the command line.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Resume => "resume",
            Self::Shell => "shell",
            Self::Sandboxes => "sandboxes",
            Self::Message => "message",
            Self::Held => "held",
        }
    }
}
