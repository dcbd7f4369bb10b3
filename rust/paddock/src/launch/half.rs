//! What of an agent is started in each sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::agent_program::unusable;
use super::environment;
use super::form::Chosen;
use super::homes::private_home;
use super::shell::Shell;
use super::toolchains::Toolchains;
use super::{Form, Found, Paths, Request, Tier, sockets};
use crate::agent::{Agent, Half, HomeOf, LinkKind, Values, stays_below};
use crate::error::Error;
use crate::gate::herdr::OwnPane;
use crate::output::shown;
use warden::Link;

type Variables = Vec<(OsString, OsString)>;

/// One half of the agent, or its one process, ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct AgentHalf {
    pub(crate) argv: Vec<OsString>,
    pub(crate) environment: Variables,
    pub(crate) home: PathBuf,
    /// To be made before it starts, below the home.
    pub(crate) directories: Vec<PathBuf>,
    /// To be written before it starts where nothing is, below the home.
    pub(crate) seeds: Vec<(PathBuf, OsString)>,
    pub(crate) password_variable: Option<String>,
}

/// The agent's client, and where it meets its server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) half: AgentHalf,
    pub(crate) link: Link,
    /// How long it waits for the server.
    pub(crate) patience: std::time::Duration,
}

/// What is started in the sandboxes of one form.
pub(super) struct Made {
    pub(super) server: AgentHalf,
    pub(super) client: Option<Client>,
    /// The program of a shell.
    pub(super) shell: Option<Found>,
}

/// Where the arguments come from.
enum Line<'a> {
    /// The agent file's, and the person's after them: of the configuration, of this time.
    Fresh(&'a [String], &'a [OsString]),
    /// Those with which the agent goes on, and the person's after them.
    Resumed(&'a [String], &'a [OsString]),
    /// Not from the agent file.
    Given(Vec<OsString>),
}

/// What the halves of one launch have in common.
pub(super) struct Halves<'a> {
    pub(super) agent: &'a Agent,
    pub(super) values: &'a Values,
    /// Where private homes are.
    pub(super) data: &'a Path,
    pub(super) paths: &'a Paths,
    pub(super) program: &'a Found,
    pub(super) tier: Tier,
    /// For who has a way out.
    pub(super) way_out: &'a [(OsString, OsString)],
    pub(super) toolchains: &'a Toolchains,
    /// The server's, where it listens on one.
    pub(super) port: u16,
    /// Where it makes sockets as it likes.
    pub(super) sockets: &'a [PathBuf],
    pub(super) pane: Option<&'a OwnPane>,
}

impl Halves<'_> {
    /// What is started, as is asked for. `own` are arguments that the person has for
    /// the agent at each start.
    ///
    /// # Errors
    /// As [`Halves::make`], and when there is no shell.
    pub(super) fn all(
        &self,
        chosen: &Chosen<'_>,
        request: &Request,
        own: &[String],
        choose_shell: impl FnOnce() -> Result<Shell, Error>,
    ) -> Result<Made, Error> {
        let arguments = request.arguments.as_slice();
        let asked_for = if request.resume {
            Line::Resumed(own, arguments)
        } else {
            Line::Fresh(own, arguments)
        };
        let agent = self.agent.called();
        let under_server_policy = chosen.server.as_ref();
        match (chosen.form, chosen.client) {
            (Form::Shell, _) => {
                let shell = choose_shell()?;
                let argv = Line::Given(shell.argv(agent, arguments));
                let mut server = self.make("server", under_server_policy, argv)?;
                server.environment.retain(|(name, _)| !Shell::is_refused(name));
                server.environment.extend(shell.variables(agent));
                // There is nobody to show it to.
                server.password_variable = None;
                Ok(Made { server, client: None, shell: Some(shell.found) })
            }
            (Form::Login, _) => {
                // What a person has for the agent at each start is not for this program.
                let line = Line::Fresh(&[], arguments);
                let server = self.make("server", under_server_policy, line)?;
                Ok(Made { server, client: None, shell: None })
            }
            (_, None) => {
                let server = self.make("server", under_server_policy, asked_for)?;
                Ok(Made { server, client: None, shell: None })
            }
            (_, Some((settings, link))) => {
                let mut server = self.make("server", under_server_policy, Line::Fresh(&[], &[]))?;
                let mut half = self.make("client", settings, asked_for)?;
                if link.kind == LinkKind::Stdio {
                    let socket = self.paths.link_socket().into_os_string();
                    half.environment.push((warden::LINK_VARIABLE.into(), socket));
                    for half in [&mut server, &mut half] {
                        half.password_variable = Some(warden::PASSWORD_VARIABLE.to_owned());
                    }
                }
                let patience = std::time::Duration::from_secs(link.patience);
                let meets = match (link.kind, &link.ready) {
                    (LinkKind::Unix, _) => Link::Unix(self.paths.link_socket()),
                    (LinkKind::Stdio, _) => Link::Stdio(self.paths.link_socket()),
                    (LinkKind::Tcp, None) => Link::Tcp(self.port),
                    (LinkKind::Tcp, Some(path)) => Link::Http(self.port, path.clone()),
                    (LinkKind::Own, _) => {
                        let at = link.at.as_deref().unwrap_or_default();
                        sockets::own_link(at, self.sockets, self.values)
                            .map_err(|reason| unusable(self.agent, reason))?
                    }
                };
                Ok(Made {
                    server,
                    client: Some(Client { half, link: meets, patience }),
                    shell: None,
                })
            }
        }
    }

    /// What runs in the sandbox `sandbox` (`server` or `client`), as `settings` say.
    ///
    /// # Errors
    /// When the agent file is not usable, or the agent cannot go on.
    fn make(
        &self,
        sandbox: &'static str,
        settings: &Half,
        line: Line<'_>,
    ) -> Result<AgentHalf, Error> {
        let agent = self.agent;
        let whose = match settings.home {
            Some(HomeOf::Server) => "server",
            None => sandbox,
        };
        let home = private_home(self.data, agent, whose);
        // The server's temporary directory is /tmp itself where the veil makes
        // /tmp private; programs that have /tmp wired in find it there.
        let temporary = if self.tier.has_veil() && sandbox == "server" {
            PathBuf::from("/tmp")
        } else {
            self.paths.temporary(sandbox)
        };
        let mut values = self.values.clone();
        values.set("home", &home);
        values.set("temporary", &temporary);
        let is_bridged =
            agent.file.pair.as_ref().is_some_and(|pair| pair.link.kind == LinkKind::Stdio);
        if is_bridged && sandbox == "client" {
            values.set("bridge", self.paths.bridge());
        }
        let argv = argv(agent, settings, line, &values)?;
        // Only the server is granted paths.
        let toolchains = if sandbox == "server" { self.toolchains } else { &Toolchains::default() };
        let mut variables = environment::for_agent(
            &home,
            &temporary,
            &self.program.path,
            &self.paths.programs(),
            &toolchains.search_path,
        );
        variables.extend_from_slice(&toolchains.variables);
        variables.extend(environment::for_gate(&self.paths.gate(), self.pane));
        if sandbox == "server" {
            variables.extend_from_slice(self.way_out);
        }
        if let Some((_, reason)) = problems_of(settings).into_iter().next() {
            return Err(unusable(agent, reason));
        }
        variables.extend(environment::from_caller(&settings.pass));
        for (name, template) in &settings.set {
            let value = values.fill(template).map_err(|reason| unusable(agent, reason))?;
            variables.push((name.into(), value));
        }
        let is_dropped = |name: &OsString| settings.drop.iter().any(|drop| name == drop.as_str());
        variables.retain(|(name, _)| !is_dropped(name));
        let seeds =
            settings.seed.iter().map(|seed| Ok((seed.path.clone(), values.fill(&seed.text)?)));
        let seeds: Result<_, String> = seeds.collect();
        Ok(AgentHalf {
            argv,
            environment: variables,
            directories: settings.directories.clone(),
            seeds: seeds.map_err(|reason| unusable(agent, reason))?,
            home,
            password_variable: settings.password_variable.clone(),
        })
    }
}

/// What of a half's values no launch may have: the steps to the key, and why.
pub(super) fn problems_of(settings: &Half) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut add = |steps: &[&str], what: String| {
        found.push((steps.iter().map(|step| (*step).to_owned()).collect(), what));
    };
    let password = settings.password_variable.as_ref();
    let forbidden = |name: &String| {
        let reason = || format!("the variable {name} may not be passed to an agent");
        environment::is_forbidden(name).then(reason)
    };
    for name in &settings.pass {
        if let Some(reason) = forbidden(name) {
            add(&["pass"], reason);
        }
    }
    for name in settings.set.keys() {
        if let Some(reason) = forbidden(name) {
            add(&["set", name], reason);
        }
    }
    if let Some(name) = password {
        if let Some(reason) = forbidden(name) {
            add(&["password-variable"], reason);
        }
        if settings.drop.contains(name) {
            add(&["drop"], format!("the variable {name} carries the password"));
        }
    }
    for path in &settings.directories {
        below_home(path).err().into_iter().for_each(|reason| add(&["directories"], reason));
    }
    for seed in &settings.seed {
        below_home(&seed.path).err().into_iter().for_each(|reason| add(&["seed"], reason));
    }
    found
}

/// Refuses a path that leads out of a home, or is the home.
fn below_home(path: &Path) -> Result<(), String> {
    if stays_below(path) {
        Ok(())
    } else {
        Err(format!("{} is not a path below the home", shown(path)))
    }
}

fn argv(
    agent: &Agent,
    settings: &Half,
    line: Line<'_>,
    values: &Values,
) -> Result<Vec<OsString>, Error> {
    let (template, own, rest) = match line {
        Line::Given(argv) => return Ok(argv),
        Line::Resumed(own, arguments) => {
            let none = || Error::NoResume { agent: agent.called().to_owned() };
            (settings.resume.as_ref().ok_or_else(none)?, own, arguments)
        }
        Line::Fresh(own, arguments) => {
            let form = arguments.first().and_then(|a| settings.when.get(a.to_str()?));
            match form {
                Some(form) => (form, own, &arguments[1..]),
                None => (&settings.argv, own, arguments),
            }
        }
    };
    let filled = template.iter().map(|template| values.fill(template));
    let mut argv: Vec<_> =
        filled.collect::<Result<_, _>>().map_err(|reason| unusable(agent, reason))?;
    argv.extend(own.iter().map(OsString::from));
    argv.extend(rest.iter().cloned());
    Ok(argv)
}
