//! The command line.

mod agents;
mod config;
mod herdr;
mod how;
mod import;
mod login;
mod port;
mod prune;
mod resume;
mod shell;
pub(crate) mod status;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::doctor::Probe;
use crate::launch::Tier;
use crate::standin::Standin;
pub(crate) use agents::{Agents, AgentsCommand, CheckAgent, ListAgents, ShowAgent};
pub(crate) use config::{Config, ConfigCommand, Show};
pub(crate) use herdr::{Action, Entry, Herdr, PaneKind};
pub(crate) use how::How;
pub(crate) use import::Import;
pub(crate) use login::Login;
pub(crate) use port::Port;
pub(crate) use prune::Prune;
pub(crate) use resume::Resume;
pub(crate) use shell::Shell;

/// Runs coding agents in nested nono sandboxes and verifies from outside that
/// they are confined.
#[derive(Debug, Parser)]
#[command(
    name = "paddock",
    version,
    after_help = "Examples:\n  paddock run codex                 the agent in this git worktree\n  \
        paddock run codex -- exec \"fix the tests\"\n  paddock run --dry-run codex       what would be started\n  \
        paddock verify                    is the running agent confined?\n  paddock stop --all\n\n\
        Exit status of run: the agent's own; 125 Paddock failed, 126 the agent is not confined \
        and was stopped, 127 the agent was not found."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Launch an agent and stay with it
    Run(Run),
    /// Go on with a launch that has ended, in a fresh one
    Resume(Resume),
    /// Work in an agent's sandbox yourself: a shell with what its server may do
    Shell(Shell),
    /// Sign in to an agent's service, once, inside its sandbox
    Login(Login),
    /// Copy your own configuration of an agent into its private home, once
    Import(Import),
    /// Look at every process of a launch now
    #[command(
        visible_alias = "verify-sandbox",
        after_help = "Examples:\n  paddock verify                    the launch that runs\n  \
            paddock verify --all --json\n\n\
            Exit status: 0 every task is confirmed, 126 one is not, 125 it could not be told."
    )]
    Verify(Which),
    /// End a launch, every process of it
    #[command(
        after_help = "Examples:\n  paddock stop                      the launch that runs\n  \
            paddock stop bcdf                 the launch whose id starts so\n  paddock stop --all"
    )]
    Stop(Which),
    /// List launches
    List(Output),
    /// Remove the records and ledgers of launches that are over
    Prune(Prune),
    /// Show how every launch stands, in a line each
    Status(status::Status),
    /// Show every launch, live, and act on it
    Overlay(status::Overlay),
    /// Show what happened in a launch
    Log(Log),
    /// Show a launch, or what Paddock would use here
    Info(Info),
    /// Answer what an agent asks for: a host, now; a path, with later launches
    #[command(
        after_help = "Examples:\n  paddock grant bcdf                          what does it ask for?\n  \
            paddock grant bcdf host api.example.com     for as long as the launch lives\n  \
            paddock grant bcdf host db.example.com:5432 --once\n  \
            paddock grant bcdf host api.example.com --deny\n  \
            paddock grant bcdf path ~/notes --always    for the agent's later launches\n\n\
            Exit status: 0 done, 125 not so."
    )]
    Grant(Grant),
    /// Find out what this host can do, and which tier it can reach
    Doctor(Doctor),
    /// Try something in a process of its own; started by doctor
    #[command(subcommand, hide = true)]
    DoctorProbe(Probe),
    /// Show what is recorded of an agent's policy and programs, and what differs
    #[command(
        after_help = "Examples:\n  paddock pin codex                 is all as it was recorded?\n  \
            paddock pin --accept codex        record what is there now\n\n\
            Exit status: 0, or 125 when a launch would be refused."
    )]
    Pin(Pin),
    /// What herdr's keys and events start: Paddock as its plugin
    Herdr(Herdr),
    /// Reach what listens in a launch, as an agent's development server, from this host
    Port(Port),
    /// Show the configuration
    Config(Config),
    /// List the agents, show the file of one, or check one of your own
    Agents(Agents),
    /// The stand-in agent, for first use and tests
    #[command(subcommand)]
    Standin(Standin),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  paddock run\n  paddock run codex --workspace ~/src/app\n  \
    paddock run codex -- exec \"run the tests\"\n  paddock run --dry-run --json codex")]
pub(crate) struct Run {
    /// The agent [default: the configured one, else standin]
    pub(crate) agent: Option<String>,
    /// The directory it may write [default: the git worktree around this one, else this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// How much must be in force [default: sealed]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<Tier>,
    /// The agent as one process, where it can also be two
    #[arg(long)]
    pub(crate) solo: bool,
    #[command(flatten)]
    pub(crate) how: How,
    /// Arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The launch, or the start of its id [default: the only one that runs]
    pub(crate) launch: Option<String>,
    /// All launches
    #[arg(long, conflicts_with = "launch")]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock doctor                    the host, then every escape in every layer\n  \
    paddock doctor codex              the same in that agent's sandboxes\n  \
    paddock doctor --quick            the host alone\n  paddock doctor --tier isolated --json\n\n\
    Exit status: 0 the tier can be reached and nothing got through, 1 not so, 125 Paddock failed."
)]
pub(crate) struct Doctor {
    /// The agent whose policies are tried [default: the configured one, else standin]
    pub(crate) agent: Option<String>,
    /// Only look at the host, and start no sandbox
    #[arg(long, conflicts_with = "profile")]
    pub(crate) quick: bool,
    /// The tier to examine [default: the configured one, else sealed]
    #[arg(long)]
    pub(crate) tier: Option<Tier>,
    /// A nono profile of your own, in place of the server's
    #[arg(long)]
    pub(crate) profile: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// The agent [default: the configured one, else standin]
    pub(crate) agent: Option<String>,
    /// The tier [default: the configured one, else sealed]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<Tier>,
    /// Record what is there now
    #[arg(long)]
    pub(crate) accept: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock log                       the launch that runs, else the newest one\n  \
    paddock log --follow bcdf         and what happens from now on, to its end\n  \
    paddock log --hosts               where its bytes went, and what was refused\n  \
    paddock log --obeyed              what it left that git, builds or editors will run\n  \
    paddock log --json | jq -c 'select(.event == \"verdict\")'"
)]
pub(crate) struct Log {
    /// The launch, or the start of its id [default: the only one that runs, else the newest]
    pub(crate) launch: Option<String>,
    /// Go on with what happens, until the launch has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Sum up per host: connections, refusals and bytes
    #[arg(long, conflicts_with = "follow")]
    pub(crate) hosts: bool,
    /// List what it changed that is obeyed outside of the sandbox: hooks, settings, builds
    #[arg(long, conflicts_with_all = ["follow", "hosts"])]
    pub(crate) obeyed: bool,
    /// Print JSON: the lines as they are, or with --hosts or --obeyed one object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Grant {
    /// The launch, or the start of its id
    pub(crate) launch: String,
    /// What is granted [default: show what is asked for]
    #[arg(value_enum, requires = "what")]
    pub(crate) kind: Option<GrantKind>,
    /// The host, as name or name:port, or the path
    pub(crate) what: Option<PathBuf>,
    /// A host, for one connection
    #[arg(long, conflicts_with_all = ["for_launch", "always", "deny", "revoke"])]
    pub(crate) once: bool,
    /// A host, for as long as the launch lives [default]
    #[arg(long = "launch", id = "for_launch", conflicts_with_all = ["always", "deny", "revoke"])]
    pub(crate) for_launch: bool,
    /// For later launches of the agent, too; of a path, for those alone [its default]
    #[arg(long, conflicts_with_all = ["deny", "revoke"])]
    pub(crate) always: bool,
    /// Not at all
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) deny: bool,
    /// Take a host back, and cut its connections
    #[arg(long)]
    pub(crate) revoke: bool,
    /// A path, to write there, too
    #[arg(long)]
    pub(crate) write: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GrantKind {
    Host,
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock info                      the launch that runs, else the programs\n  \
    paddock info --programs           is everything there that a launch needs?\n  paddock info --paths --json"
)]
pub(crate) struct Info {
    /// The launch, or the start of its id
    pub(crate) launch: Option<String>,
    /// Which programs are used, and where they were found
    #[arg(long, conflicts_with = "launch")]
    pub(crate) programs: bool,
    /// Which directories are used
    #[arg(long, conflicts_with = "launch")]
    pub(crate) paths: bool,
    /// Which agents are known
    #[arg(long, conflicts_with = "launch")]
    pub(crate) agents: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
