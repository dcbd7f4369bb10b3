//! The plan of a launch: every layer's arguments, grants, ports and variable
//! names. Making it changes nothing on the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use confine::Layer;
use serde_json::json;

use super::agent_program::{agent_program, load_agent};
use super::directories::check_socket_path;
use super::environment::{self, Proxy};
use super::form::{self, Form};
use super::granted::Kept;
use super::half::{AgentHalf, Client, Halves, Made};
use super::homes::private_home;
use super::paths::Paths;
use super::ports::{self, HeldPorts, Ports};
use super::programs::Search;
use super::shared::{self, SharedState};
use super::shell::Shell;
use super::toolchains::Toolchains;
use super::{
    AgainstRaces, Config, Directories, Found, GitSettings, KeptOfGit, LaunchId, OnProgramChange,
    OnViolation, Programs, ProjectFile, Tier, VerifySettings, Workspace, sockets,
};
use crate::agent::{self, Agent, LinkKind, Values, Version};
use crate::error::Error;
use crate::gate::herdr::OwnPane;
use warden::Link;

/// What the person asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) agent: Option<String>,
    pub(crate) workspace: Option<PathBuf>,
    /// That workspace is one of an earlier launch: nothing on the way to it may lead
    /// elsewhere by now.
    pub(crate) is_recorded: bool,
    pub(crate) tier: Option<Tier>,
    /// The launch that this one goes on with or is beside, and its tier.
    pub(crate) recorded: Option<(LaunchId, Tier)>,
    /// What of the agent; a pair, where it is one and nothing is said.
    pub(crate) form: Option<Form>,
    /// It is to go on where its last conversation ended.
    pub(crate) resume: bool,
    pub(crate) arguments: Vec<OsString>,
}

/// Everything that is decided before anything is started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) id: LaunchId,
    pub(crate) form: Form,
    pub(crate) agent: Agent,
    /// The agent's own.
    pub(crate) program: Found,
    /// The shell that is started in its place.
    pub(crate) shell: Option<Found>,
    pub(crate) programs: Programs,
    pub(crate) workspace: Workspace,
    pub(crate) tier: Tier,
    pub(crate) against_races: AgainstRaces,
    pub(crate) on_violation: OnViolation,
    /// How often the keeper looks at it.
    pub(crate) verify: VerifySettings,
    /// What is done when a program is not the one that was recorded.
    pub(crate) on_program_change: OnProgramChange,
    /// The project's file, where one tightens the configuration.
    pub(crate) project: Option<ProjectFile>,
    pub(crate) paths: Paths,
    pub(crate) ports: Ports,
    pub(crate) held_ports: HeldPorts,
    /// Directories of the launch's own `/tmp` in which the agent's server makes sockets
    /// as it likes, and its client connects to any.
    pub(crate) sockets: Vec<PathBuf>,
    pub(crate) hosts: Vec<String>,
    pub(crate) exceptions: BTreeMap<String, String>,
    /// What runs under the server's policy: the agent's server, its one process, or a
    /// shell.
    pub(crate) server: AgentHalf,
    /// What has the terminal, in a sandbox of its own; else the server has it.
    pub(crate) client: Option<Client>,
    /// The launch's password, random; in no argument and no record.
    pub(crate) password: String,
    pub(crate) proxy: Proxy,
    /// Paths that the person grants this agent's server, by the configuration.
    pub(super) granted: Vec<Grant>,
    /// What the agent's file has all of its sandboxes read, and whether that is a file.
    pub(super) read: Vec<(PathBuf, bool)>,
    /// What agents may do with the hooks and settings of a repository.
    pub(crate) git_settings: GitSettings,
    /// What the veil keeps read-only of the workspace's own.
    pub(crate) kept_of_git: KeptOfGit,
    /// Directories of the person's that the agent works in, by the person's choice.
    pub(crate) shared: Vec<SharedState>,
}

impl Plan {
    /// Decides everything.
    ///
    /// # Errors
    /// Whatever of the request, the configuration or the host does not do.
    pub(crate) fn make(
        request: &Request,
        config: &Config,
        directories: &Directories,
    ) -> Result<Self, Error> {
        if rustix::process::geteuid().is_root() {
            return Err(Error::Root);
        }
        let name = request.agent.as_deref().or(config.agent.as_deref()).unwrap_or(agent::STANDIN);
        let agent = load_agent(name, config, directories)?;
        let (workspace, config) = if request.form == Some(Form::Login) {
            at_home(&agent, config, directories)?
        } else {
            in_workspace(request, config, directories)?
        };
        let config = &config;
        let chosen = form::choose(&agent, request, &workspace)?;
        let form = chosen.form;
        let tier =
            config.tier_of(request.tier, request.recorded.as_ref().map(|(_, tier)| *tier))?;
        let against_races = AgainstRaces::find(tier, config.unix_of(name));
        refuse_without_sockets(&chosen, against_races, name)?;
        let mut values = Values::default();
        let sockets = sockets::shared(&agent, &chosen, tier, &values)?;
        check_landlock()?;
        check_proc(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())?;
        let search = Search { config, directories, workspace: Some(workspace.root.clone()) };
        let programs = Programs::find(&search, tier.has_veil())?;

        let (id, paths) = new_paths(directories)?;
        check_own_directories(directories, tier)?;
        let settings = config.agents.get(name);
        let program = agent_program(&agent, &programs.paddock, settings)?;
        let kept = Kept::new(directories, &programs, &program);
        let granted = kept.grants(config, name, directories)?;
        let read = kept.reads_of(&agent, directories)?;
        let git_settings = config.git.settings;
        let kept_of_git = KeptOfGit::of(&workspace, tier, git_settings, &granted);
        let on_the_way = granted.iter().map(|grant| &grant.path);
        let on_the_way = on_the_way.chain(read.iter().map(|(path, _)| path));
        sockets::refuse_over(&sockets, on_the_way.chain([&workspace.root]), &agent)?;
        let (ports, held_ports) = ports::choose(tier)?;
        let password = random_password()?;
        set_values(&mut values, &program, &programs, ports, &paths, &workspace, &password);
        // In a network of the launch's own nobody else reaches the guard.
        let secret = if tier.isolates_network() { None } else { Some(random_password()?) };
        let proxy = Proxy { port: ports.guard, secret };
        let way_out = environment::way_out(&proxy, &programs.warden.path, config.egress.ssh);
        let pane = pane_of(&agent, form);
        let toolchains = Toolchains::find(&granted, &directories.home);
        let halves = Halves {
            agent: &agent,
            values: &values,
            data: &directories.data,
            paths: &paths,
            program: &program,
            tier,
            way_out: &way_out,
            toolchains: &toolchains,
            port: ports.server,
            sockets: &sockets,
            pane: pane.as_ref(),
        };
        let own = settings.map_or(&[][..], |settings| &settings.arguments);
        let choose_shell = || {
            let readable: Vec<&Path> = granted.iter().map(|grant| grant.path.as_path()).collect();
            Shell::choose(config, std::env::var_os("SHELL").as_deref(), &readable)
        };
        let Made { mut server, mut client, shell } =
            halves.all(&chosen, request, own, choose_shell)?;

        let shared = if settings.is_some_and(|settings| settings.state.is_shared()) {
            shared::share(&agent, tier, &directories.home, &kept, &mut server, client.as_mut())?
        } else {
            Vec::new()
        };
        let hosts = config.hosts_of(name, &hosts_of_file(&agent, form))?;
        super::hosts::policy(&hosts, &config.egress.exceptions)?;
        Ok(Self {
            id,
            form,
            shell,
            exceptions: config.egress.exceptions.clone(),
            on_violation: config.on_violation,
            verify: config.verify,
            on_program_change: config.pins.on_program_change,
            project: config.project.clone(),
            agent,
            program,
            programs,
            workspace,
            tier,
            against_races,
            paths,
            ports,
            held_ports,
            sockets,
            hosts,
            server,
            client,
            password,
            proxy,
            granted,
            read,
            git_settings,
            kept_of_git,
            shared,
        })
    }

    /// Directories of the person's that the agent may change, beside its workspace, and
    /// whose content the same agent acts on when it is started without Paddock.
    pub(crate) fn shared_directories(&self) -> Vec<&Path> {
        let mut own: Vec<&Path> = self.shared.iter().map(|shared| shared.own.as_path()).collect();
        own.dedup();
        own
    }

    /// Has the launch reach the configuration's hosts alone, and not the agent's.
    ///
    /// # Errors
    /// When one of them is no host.
    pub(crate) fn narrow_hosts(&mut self, config: &Config) -> Result<(), Error> {
        self.hosts.clone_from(&config.egress.hosts);
        super::hosts::policy(&self.hosts, &config.egress.exceptions).map(drop)
    }

    /// The sandboxes in the pen.
    pub(crate) fn inner_layers(&self) -> &'static [Layer] {
        if self.client.is_some() { &[Layer::Server, Layer::Client] } else { &[Layer::Server] }
    }

    /// The sandbox of whoever has the terminal: its end is the launch's.
    pub(crate) fn terminal_layer(&self) -> Layer {
        if self.client.is_some() { Layer::Client } else { Layer::Server }
    }

    /// What runs in a sandbox, in a word.
    pub(crate) fn part(&self, layer: Layer) -> &'static str {
        match (layer, self.form) {
            (Layer::Client, _) => "client",
            (_, Form::Pair) => "server",
            (_, Form::Solo) => "process",
            (_, Form::Shell) => "shell",
            (_, Form::Login) => "sign-in",
        }
    }

    /// Where client and server meet.
    pub(crate) fn link(&self) -> Option<&Link> {
        self.client.as_ref().map(|client| &client.link)
    }

    /// The pane of herdr's that the agent has. A shell is no agent, nor is a sign-in.
    pub(crate) fn pane(&self) -> Option<OwnPane> {
        pane_of(&self.agent, self.form)
    }

    /// Where the kernel's rule about sockets lets the half in `layer` reach: what
    /// the server listens at itself is of its own domain.
    pub(crate) fn reachable_sockets(&self, layer: Layer) -> Vec<PathBuf> {
        let mut paths = vec![self.paths.gate()];
        if layer == Layer::Client && self.link().and_then(Link::socket).is_some() {
            paths.push(self.paths.link_folder());
        }
        if layer == Layer::Client {
            paths.extend_from_slice(&self.sockets);
        }
        paths
    }

    /// The environment of a layer's nono.
    pub(crate) fn nono_environment(&self, layer: &str) -> Vec<(OsString, OsString)> {
        environment::for_nono(&self.paths.nono(layer))
    }

    /// For programs in the sandboxes: what each may do, by its name.
    pub(crate) fn grants_for_agent(&self) -> serde_json::Value {
        let of_layer = |layer: &str| {
            let own = || self.grants().into_iter().filter(move |grant| grant.layer == layer);
            let paths = |access: Access| -> Vec<String> {
                let granted = own().filter(|grant| grant.access == access);
                granted.map(|grant| grant.path.to_string_lossy().into_owned()).collect()
            };
            json!({
                "launch": self.id.as_str(), "agent": self.agent.file.name,
                "tier": self.tier.name(), "sandbox": layer,
                "workspace": self.workspace.root.to_string_lossy(),
                "reads": paths(Access::Read), "writes": paths(Access::ReadWrite),
            })
        };
        let layers = self.inner_layers().iter().map(ToString::to_string);
        layers.map(|layer| (layer.clone(), of_layer(&layer))).collect()
    }

    /// For people and scripts: what would be started. Values of variables are
    /// left out, so no secret is in it.
    pub(crate) fn describe(&self) -> serde_json::Value {
        let words = |argv: &[OsString]| -> Vec<String> {
            argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let part = |half: &AgentHalf| {
            let set = half.environment.iter().map(|(n, _)| n.to_string_lossy().into_owned());
            let mut names: Vec<String> =
                set.chain(half.password_variable.iter().cloned()).collect();
            names.sort();
            names.dedup();
            json!({ "argv": words(&half.argv), "environment": names, "home": text(&half.home) })
        };
        json!({
            "schema": 1,
            "launch": self.id.as_str(),
            "agent": self.agent.file.name,
            "form": self.form.name(),
            "agentSource": self.agent.source.as_ref().map_or("shipped".into(), |p| text(p)),
            "tier": self.tier.name(),
            "unixRace": self.against_races.to_string(),
            "workspace": text(&self.workspace.root),
            "program": text(&self.program.path),
            "version": self.agent.version.as_ref().map(Version::text),
            "knownToWork": self.agent.is_known_to_work(),
            "extends": self.agent.extends(),
            "processes": self.agent.file.processes,
            "layers": {
                "veil": self.tier.has_veil().then(|| words(&self.veil_argv(None))),
                "pen": words(&self.pen_argv()),
                "server": words(&self.server_argv()),
                "client": self.client.as_ref().map(|client| words(&self.client_argv(client))),
            },
            "agentServer": part(&self.server),
            "agentClient": self.client.as_ref().map(|client| part(&client.half)),
            "grants": self.grants().iter().map(|g| json!({
                "layer": g.layer, "access": g.access.name(), "path": text(&g.path),
            })).collect::<Vec<_>>(),
            "git": self.describe_git(),
            "sockets": self.sockets.iter().map(|path| text(path)).collect::<Vec<_>>(),
            "shared": self.shared.iter().map(|shared| json!({
                "layer": shared.layer, "path": text(&shared.own), "at": text(&shared.at),
            })).collect::<Vec<_>>(),
            "ports": { "server": self.ports.server, "guard": self.ports.guard },
            "hosts": self.hosts,
            "exceptions": self.exceptions,
            "projectFile": self.project.as_ref().map(|project| json!({
                "path": text(&project.path),
                "tightens": project.lines.keys().collect::<Vec<_>>(),
            })),
        })
    }
}

/// A workspace, and the configuration that is in force there.
type Ground = (Workspace, Config);

fn in_workspace(
    request: &Request,
    config: &Config,
    directories: &Directories,
) -> Result<Ground, Error> {
    let workspace = Workspace::find(request.workspace.as_deref(), directories)?;
    if request.is_recorded {
        workspace.refuse_another_than(request.workspace.as_deref())?;
    }
    let config = config.in_workspace(&workspace.root, directories)?;
    Ok((workspace, config))
}

/// The values that an agent file's templates have beside those of one half.
fn set_values(
    values: &mut Values,
    program: &Found,
    programs: &Programs,
    ports: Ports,
    paths: &Paths,
    workspace: &Workspace,
    password: &str,
) {
    values.set("paddock", &programs.paddock.path);
    values.set("program", &program.path);
    values.set("port", ports.server.to_string());
    values.set("link", paths.link_socket());
    values.set("workspace", &workspace.root);
    values.set("password-sha256", crate::files::sha256(password.as_bytes()));
}

/// A launch's id, and where it keeps its things.
fn new_paths(directories: &Directories) -> Result<(LaunchId, Paths), Error> {
    let id = LaunchId::random().map_err(|e| Error::DirectoryUnusable {
        path: PathBuf::from("/dev/urandom"),
        reason: e.to_string(),
    })?;
    let paths = Paths::of(&id, directories);
    paths.longest_sockets().iter().try_for_each(|socket| check_socket_path(socket))?;
    Ok((id, paths))
}

/// Refuses halves that meet at a socket where nobody can make one.
fn refuse_without_sockets(
    chosen: &form::Chosen<'_>,
    against_races: AgainstRaces,
    agent: &str,
) -> Result<(), Error> {
    let meet_at_one = chosen.client.is_some_and(|(_, link)| link.kind != LinkKind::Tcp);
    if against_races.strict && meet_at_one {
        return Err(Error::UnixLink { agent: agent.to_owned() });
    }
    Ok(())
}

/// For a sign-in, which is about no project: none has a part in it, and none a say.
fn at_home(agent: &Agent, config: &Config, directories: &Directories) -> Result<Ground, Error> {
    let root = private_home(&directories.data, agent, "server");
    let workspace = Workspace { root, git: super::git::Repository::default() };
    Ok((workspace, config.in_no_workspace(directories)?))
}

/// The hosts of the agent file, and for a sign-in those that it has for that.
fn hosts_of_file(agent: &Agent, form: Form) -> Vec<String> {
    let login = agent.file.login.iter().filter(|_| form == Form::Login);
    let hosts = agent.file.hosts.iter().chain(login.flat_map(|login| &login.hosts));
    hosts.cloned().collect()
}

/// The pane of herdr's that an agent has; neither a shell nor a sign-in is one.
fn pane_of(agent: &Agent, form: Form) -> Option<OwnPane> {
    let kind = agent.file.herdr_kind();
    if form.is_agent() { OwnPane::of_this_process(kind) } else { None }
}

/// Landlock's signal and abstract-socket scopes came with ABI 6 (Linux 6.12,
/// kernel commit "landlock: Add signal scoping").
pub(crate) const LANDLOCK_OLDEST: i32 = 6;
/// The first kernel that has it.
pub(crate) const LANDLOCK_OLDEST_KERNEL: &str = "6.12";

/// Tests lower the kernel's answer, to see what is said then; it cannot be raised.
pub(crate) fn lowered_landlock_abi() -> Option<i32> {
    std::env::var("PADDOCK_TEST_LANDLOCK_ABI").ok().and_then(|v| v.parse().ok())
}

fn check_landlock() -> Result<(), Error> {
    let needed = format!("ABI {LANDLOCK_OLDEST} (Linux {LANDLOCK_OLDEST_KERNEL})");
    let lowered = lowered_landlock_abi();
    match confine::sys::landlock_abi().map(|abi| lowered.map_or(abi, |l| abi.min(l))) {
        Ok(abi) if abi >= LANDLOCK_OLDEST => Ok(()),
        Ok(abi) if abi < 1 => Err(Error::Landlock { found: "missing".into(), needed }),
        Ok(abi) => Err(Error::Landlock { found: format!("ABI {abi}"), needed }),
        Err(e) => Err(Error::Landlock { found: format!("not available ({e})"), needed }),
    }
}

/// Where `/proc` hides what one may not look into (`hidepid`, `proc(5)`), what is
/// there and what has ended look the same. `mountinfo` is that of this process
/// (`proc_pid_mountinfo(5)`).
fn check_proc(mountinfo: &[u8]) -> Result<(), Error> {
    let text = String::from_utf8_lossy(mountinfo);
    // What was mounted last lies on top.
    let last = text.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = last.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    let hides = options.split(',').find(|option| {
        option.starts_with("hidepid=") && !matches!(*option, "hidepid=0" | "hidepid=off")
    });
    match (last, hides) {
        (None, _) => Err(Error::Proc { what: "not mounted".into() }),
        (_, Some(option)) => Err(Error::Proc { what: format!("mounted with {option}") }),
        (Some(_), None) => Ok(()),
    }
}

/// 256 random bits in hexadecimal.
fn random_password() -> Result<String, Error> {
    use std::io::Read;
    let mut bytes = [0u8; 32];
    std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).map_err(
        |e| Error::DirectoryUnusable { path: PathBuf::from("/dev/urandom"), reason: e.to_string() },
    )?;
    Ok(crate::files::hex(&bytes))
}

/// How a layer may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl Access {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        }
    }
}

/// Whether Paddock's own directories can be granted and seen inside.
fn check_own_directories(directories: &Directories, tier: Tier) -> Result<(), Error> {
    // nono takes a path with a comma for a list of paths.
    for own in [&directories.state, &directories.data, &directories.runtime] {
        if own.as_os_str().as_encoded_bytes().contains(&b',') {
            let reason = "its path has a comma, which nono takes for a separator".into();
            return Err(Error::DirectoryUnusable { path: own.clone(), reason });
        }
    }
    // What the veil replaces cannot hold what has to be seen inside.
    for own in [&directories.state, &directories.data] {
        if tier.has_veil() && own.starts_with("/tmp") {
            return Err(Error::DirectoryUnusable {
                path: own.clone(),
                reason: "it is below /tmp, which the veil makes private to the launch".into(),
            });
        }
    }
    Ok(())
}

/// One path that a layer grants, beside what its profile grants always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) layer: &'static str,
    pub(crate) access: Access,
    pub(crate) path: PathBuf,
    pub(crate) is_file: bool,
}

/// The directory that holds a program with its companions, where that is a package's own:
/// `.../node_modules/.../vendor/TARGET` around `bin/program`, else the whole package
/// `.../node_modules/NAME` or `.../node_modules/@SCOPE/NAME`. Of a program in `~/.local/bin`
/// the directory above would be everybody's.
pub(crate) fn program_tree(program: &Path) -> Option<PathBuf> {
    let directory = program.parent()?;
    let is_modules = |path: &&Path| path.ends_with("node_modules");
    let modules = directory.ancestors().find(is_modules)?;
    let below = directory.strip_prefix(modules).ok()?;
    let mut parts = below.iter();
    let name = parts.next()?;
    let package = match parts.next() {
        Some(scoped) if name.as_bytes().starts_with(b"@") => modules.join(name).join(scoped),
        None if name.as_bytes().starts_with(b"@") => return None,
        _ => modules.join(name),
    };
    let around_bin = directory.parent().filter(|tree| {
        directory.ends_with("bin") && *tree != modules && tree.starts_with(&package)
    });
    Some(around_bin.map_or(package, Path::to_owned))
}

#[cfg(test)]
mod tests;
