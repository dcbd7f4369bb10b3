//! Everything that is decided before anything is started: where, with which
//! programs, behind which layers. The result is a [`Plan`]; `--dry-run` prints
//! it and nothing else happens.

mod agent_check;
mod agent_program;
mod agent_reads;
mod agent_version;
mod ask;
mod config;
mod config_edit;
mod directories;
mod environment;
mod form;
mod git;
mod granted;
mod half;
mod homes;
mod hosts;
mod id;
mod layers;
mod paths;
mod plan;
mod ports;
mod programs;
mod shared;
mod shell;
mod sockets;
mod ssh;
mod tier;
mod toolchains;
mod unix;
mod versions;
mod workspace;

pub(crate) use agent_check::{Problem, check_agent};
pub(crate) use agent_program::{agent_program, find_named_agent, load_agent};
pub(crate) use agent_version::{VersionFrom, version_of};
pub(crate) use ask::{Answer, ask};
pub(crate) use config::{
    Config, EgressProfile, HerdrSettings, HostRow, OnProgramChange, OnViolation, OpenIn, Origin,
    ProjectFile, Row, Sources, VerifySettings, nearest,
};
#[cfg(test)]
pub(crate) use config::{KEYS, Project};
pub(crate) use config_edit::{add_for_agent, lock as lock_beside};
pub(crate) use directories::{Directories, LONGEST_SOCKET_PATH, LOOK, private_directory, real};
pub(crate) use environment::{PROXY_USER, Proxy};
pub(crate) use form::Form;
pub(crate) use git::{GitRules, GitSettings, Kept as KeptOfGit, check_mounts};
pub(crate) use granted::Kept;
pub(crate) use half::{AgentHalf, Client};
pub(crate) use homes::{make_holder_of_homes, make_private_home, private_home};
pub(crate) use hosts::{canonical_host, host_and_ports, policy, with_port};
pub(crate) use id::LaunchId;
pub(crate) use paths::Paths;
pub(crate) use plan::{
    Access, LANDLOCK_OLDEST, LANDLOCK_OLDEST_KERNEL, Plan, Request, lowered_landlock_abi,
    program_tree,
};
pub(crate) use programs::{Found, NONO_KNOWN, Programs, Search, find_self, find_warden};
pub(crate) use shared::StateMode;
pub(crate) use sockets::on_host;
pub(crate) use tier::Tier;
pub(crate) use unix::{AgainstRaces, UnixMode};
pub(crate) use versions::Stamp;
pub(crate) use workspace::Workspace;
