//! The steps of a start, from the outside in. Nothing of the agent runs before
//! the last of them.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use confine::proc::Namespaces;
use confine::{Layer, Pid, ProcessId};
use serde_json::json;
use signal_hook::consts::SIGCHLD;

use super::canaries::{Canaries, evaluate};
use super::events::Event;
use super::gatehouse::{Knock, Place, identify};
use super::roster::Warden;
use super::{Keeper, egress_guard, spawn, stdio, verifier, watch};
use crate::error::Error;
use crate::launch::{AgentHalf, Client};
use crate::state::{Part, PenNamespaces, Phase};
use warden::{Attempt, ChildLabel, Link, Program, Proving, ToKeeper, ToWarden};

/// Longer than a slow machine under load needs for one layer.
const LAYER_LIMIT: Duration = Duration::from_secs(20);

/// The outermost layer, started.
pub(super) struct Outermost {
    /// Where bubblewrap tells of the first process in the veil.
    status: Option<spawn::StatusReader>,
}

impl Keeper<'_> {
    /// The veil and in it the pen's nono; without a veil the pen's nono alone.
    pub(super) fn start_outermost(&mut self) -> Result<Outermost, Error> {
        let layer = if self.plan.tier.has_veil() { "veil" } else { "pen" };
        let failed = |keeper: &Self, e: std::io::Error| keeper.layer_failed(layer, &e.to_string());
        let status = if self.plan.tier.has_veil() {
            Some(spawn::StatusPipe::open().map_err(|e| failed(self, e))?)
        } else {
            None
        };
        let argv = self.plan.outermost_argv(status.as_ref().map(spawn::StatusPipe::number));
        let log = self.log.descriptor().map_err(|e| failed(self, e))?;
        let started = spawn::start_layer(
            &argv,
            &self.plan.nono_environment("pen"),
            &self.plan.workspace.root,
            log,
        )
        .map_err(|e| failed(self, e))?;
        let status = status.map(spawn::StatusPipe::into_reader);
        if status.is_some() {
            self.roster.edit().veil = vec![started];
        } else {
            self.roster.edit().supervisors.insert(Layer::Pen, started);
        }
        Ok(Outermost { status })
    }

    /// Learns who the first process in the veil is, and writes it down.
    pub(super) fn know_outermost(&mut self, outermost: Outermost) -> Result<(), Error> {
        if let Some(status) = outermost.status {
            let first = status
                .first_process(LAYER_LIMIT)
                .map_err(|_| self.layer_failed("veil", "bubblewrap ended"))?;
            let start = confine::proc::start_time(first)
                .map_err(|e| self.layer_failed("veil", &e.to_string()))?;
            self.roster.edit().veil.push(ProcessId { pid: first, start });
        }
        self.keep_record()
    }

    /// The pen's warden is to prove the pen, by these attempts.
    pub(super) fn admit_pen(&mut self, canaries: &Canaries) -> Result<Vec<Attempt>, Error> {
        let entries = self.roster.entries();
        let place = match (entries.init(), entries.supervisors.get(&Layer::Pen)) {
            (Some(init), _) => Place::BelowChildOf(init),
            (None, Some(supervisor)) => Place::Below(*supervisor),
            (None, None) => return Err(self.layer_failed("pen", "it has no supervisor")),
        };
        let knock = self.wait_for_knock(&[Layer::Pen])?;
        self.admit(knock, place)?;
        // A process outside the pen, as numbered inside: the first of the veil,
        // else the keeper itself.
        let target = if self.plan.tier.has_veil() { Pid::new(1) } else { Some(Pid::of_self()) };
        self.ask_for_proof(Layer::Pen, canaries, target)
    }

    /// The pen's warden is to make the socket on which the guard accepts.
    pub(super) fn ask_for_guards_socket(&self) -> Result<(), Error> {
        self.tell(Layer::Pen, &ToWarden::Listen { port: self.plan.ports.guard }, &[])
    }

    /// The guard accepts on a socket in the pen's network.
    pub(super) fn start_guard(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + LAYER_LIMIT;
        // The inner wardens may be heard first, each on a thread of its own;
        // they are needed later.
        let mut put_off = Vec::new();
        let listener = loop {
            match self.start_event(deadline, "pen")? {
                Event::FromWarden {
                    layer: Layer::Pen,
                    message: ToKeeper::Listening,
                    mut descriptors,
                } => break descriptors.pop(),
                Event::FromWarden { message: ToKeeper::ListenFailed { error }, .. } => {
                    let reason = format!("no port for the guard: {error}");
                    return Err(self.layer_failed("pen", &reason));
                }
                event @ (Event::Knock(_)
                | Event::FromWarden { message: ToKeeper::Started { .. }, .. }) => {
                    put_off.push(event);
                }
                other => self.handle_at_start(other)?,
            }
        };
        for event in put_off {
            let _ = self.events.sender.send(event);
        }
        let listener = listener
            .map(TcpListener::from)
            .ok_or_else(|| self.layer_failed("pen", "the guard's socket did not arrive"))?;
        let names = match &self.survey {
            Some(survey) => egress_guard::Names::Surveyed(survey.egress.clone()),
            None => egress_guard::Names::OfTheHost,
        };
        let (proxy, ledger) = (&self.plan.proxy, self.ledger.clone());
        let tally = self.desk.tally.clone();
        let guard = egress_guard::start(listener, &self.desk.guard, proxy, names, ledger, tally)
            .map_err(|e| self.layer_failed("pen", &format!("the guard does not start: {e}")))?;
        self.guard = Some(guard);
        Ok(())
    }

    /// The inner nonos, side by side.
    pub(super) fn start_inner(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let server = (ChildLabel::Server, "server", plan.server_argv());
        let client = plan.client.as_ref();
        let client = client.map(|c| (ChildLabel::Client, "client", plan.client_argv(c)));
        for (label, layer, argv) in [server].into_iter().chain(client) {
            let program = Program {
                label,
                argv,
                stdio: true,
                ..self.program(self.plan.nono_environment(layer))
            };
            let has_terminal = label == label_of(plan.terminal_layer());
            let is_shown = has_terminal && self.survey.is_none();
            let stdio = if is_shown {
                stdio::for_sandbox().map(|(handed, relay)| {
                    self.relay = relay;
                    handed
                })
            } else {
                self.silent_stdio()
            };
            let stdio = stdio.map_err(|e| self.layer_failed(layer, &e.to_string()))?;
            let borrowed: Vec<_> = stdio.iter().map(AsFd::as_fd).collect();
            self.tell(Layer::Pen, &ToWarden::Start(Box::new(program)), &borrowed)?;
        }
        Ok(())
    }

    /// A process for the inner self-tests to fail to reach.
    fn start_canary(&self) -> Result<(), Error> {
        let warden = self.plan.programs.warden.path.clone();
        let canary = Program {
            label: ChildLabel::Canary,
            argv: vec![warden.into(), "canary".into()],
            ..self.program(Vec::new())
        };
        self.tell(Layer::Pen, &ToWarden::Start(Box::new(canary)), &[])
    }

    /// The inner wardens, in the order in which they come, prove their layers.
    pub(super) fn admit_inner(&mut self, canaries: &Canaries) -> Result<(), Error> {
        let mut started: Vec<(ChildLabel, Pid)> = Vec::new();
        let mut knocks: Vec<Knock> = Vec::new();
        let mut refusals: Vec<(Layer, String)> = Vec::new();
        let mut has_canary = false;
        let mut to_prove = self.plan.inner_layers().to_vec();
        let pen = self.roster.warden(Layer::Pen).map(|warden| warden.process);
        let pen = pen.ok_or_else(|| self.layer_failed("pen", "its warden is gone"))?;
        let deadline = Instant::now() + LAYER_LIMIT;
        while !to_prove.is_empty() {
            let event = self.start_event(deadline, "server or client");
            match event.map_err(|e| explained(e, &refusals))? {
                Event::Knock(knock) if to_prove.contains(&knock.layer) => {
                    // Not before: it would take time from the nonos that start.
                    if !std::mem::replace(&mut has_canary, true) {
                        self.start_canary()?;
                    }
                    knocks.push(knock);
                }
                Event::FromWarden {
                    layer: Layer::Pen,
                    message: ToKeeper::Started { label, pid },
                    ..
                } => started.push((label, pid)),
                other => self.handle_at_start(other).map_err(|e| explained(e, &refusals))?,
            }
            let Some(target) = id_of(&started, ChildLabel::Canary) else { continue };
            // Those whose supervisor is known; both can be, by one event.
            let is_known = |knock: &mut Knock| id_of(&started, label_of(knock.layer)).is_some();
            for knock in knocks.extract_if(.., is_known).collect::<Vec<_>>() {
                let layer = knock.layer;
                let Some(as_inside) = id_of(&started, label_of(layer)) else { continue };
                if !to_prove.contains(&layer) {
                    self.send_away(&knock, "its layer has a warden already");
                    continue;
                }
                let place = Place::BelowChildAs { parent: pen, as_inside };
                // One that is not the warden leaves the place to the one that is.
                if let Some(why) = self.try_admit(knock, place)? {
                    refusals.push((layer, why));
                    continue;
                }
                let attempts = self.ask_for_proof(layer, canaries, Some(target))?;
                self.hear_proof(layer, &attempts)?;
                to_prove.retain(|l| *l != layer);
            }
        }
        let kill = rustix::process::Signal::KILL.as_raw();
        self.tell(Layer::Pen, &ToWarden::Signal { label: ChildLabel::Canary, signal: kill }, &[])
    }

    /// The process that the self-tests failed to reach has no place in the launch.
    fn wait_for_canarys_end(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + LAYER_LIMIT;
        loop {
            match self.start_event(deadline, "pen")? {
                Event::FromWarden {
                    layer: Layer::Pen,
                    message: ToKeeper::Ended { label: ChildLabel::Canary, .. },
                    ..
                } => return Ok(()),
                other => self.handle_at_start(other)?,
            }
        }
    }

    /// From here on every task is looked at, for as long as the launch lives;
    /// and it must look right before the agent's first instruction. Tells how many
    /// tasks did.
    pub(super) fn start_watch(&mut self) -> Result<usize, Error> {
        let tier = self.plan.tier;
        let entries = self.roster.entries();
        let expectation = verifier::expectation(&entries, &self.roster, self.plan)
            .map_err(|e| self.layer_failed("pen", &format!("it cannot be read: {e}")))?;
        self.record.namespaces =
            tier.isolates_network().then(|| PenNamespaces::of(&expectation.inside));
        {
            let mut entries = self.roster.edit();
            entries.expectation = Some(expectation);
            entries.server_port = self.plan.client.as_ref().map(|_| self.plan.ports.server);
        }
        self.wait_for_canarys_end()?;
        let watch = watch::Watch::start(
            self.desk.clone(),
            self.events.sender.clone(),
            self.plan.verify,
            self.last_pass.clone(),
        )
        .map_err(|e| self.layer_failed("pen", &format!("no thread for the watch: {e}")))?;
        let report = watch
            .look_now()
            .ok_or_else(|| self.layer_failed("pen", "the first pass did not finish"))?;
        *self.shared_watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(watch.handle());
        self.watch = Some(watch);
        if !report.holds() {
            return Err(Error::Unconfined { what: watch::describe_failure(&report) });
        }
        Ok(report.tasks.len())
    }

    /// Server and client at once; the client waits until the server answers. One
    /// process alone has no one to wait for.
    pub(super) fn start_agent(&mut self, confirmed: usize) -> Result<(), Error> {
        let server = ToWarden::Start(Box::new(self.server_program()));
        self.plan.held_ports.release_server();
        match &self.plan.client {
            None => {
                self.note_verified(confirmed);
                self.tell(Layer::Server, &server, &[])?;
            }
            Some(client) => {
                self.tell(Layer::Server, &server, &[])?;
                // While the server starts, and before the client draws.
                self.note_verified(confirmed);
                let client = ToWarden::Start(Box::new(self.waiting_client(client)));
                self.tell(Layer::Client, &client, &[])?;
            }
        }
        // Until this is on the disk the record has the outermost part, from which
        // all others descend.
        self.record.phase = Phase::Running;
        self.keep_record()
    }

    fn note_verified(&self, confirmed: usize) {
        self.ledger.add("verified", json!({ "tasks": confirmed }));
        self.notices.verified(self.plan, confirmed);
    }

    /// The server itself; or what offers it, where it is started for who connects.
    fn server_program(&self) -> Program {
        let program = self.agent_program(&self.plan.server);
        match self.plan.link() {
            Some(link @ Link::Stdio(_)) => self.behind_the_link("offer", link, program),
            _ => program,
        }
    }

    fn waiting_client(&self, client: &Client) -> Program {
        self.behind_the_link("await", &client.link, self.agent_program(&client.half))
    }

    /// Has the warden's program start it.
    fn behind_the_link(&self, how: &str, link: &Link, mut program: Program) -> Program {
        let warden = self.plan.programs.warden.path.clone();
        let words = [warden.into(), how.into(), "--link".into(), link.to_argument(), "--".into()];
        program.argv.splice(0..0, words);
        program
    }

    fn agent_program(&self, half: &AgentHalf) -> Program {
        let mut environment = half.environment.clone();
        if let Some(name) = &half.password_variable {
            environment.push((name.into(), self.plan.password.clone().into()));
        }
        let checked = self.plan.shell.as_ref().unwrap_or(&self.plan.program);
        Program {
            argv: half.argv.clone(),
            expected: Some((checked.path.clone(), checked.file.device, checked.file.inode)),
            ..self.program(environment)
        }
    }

    fn program(&self, environment: Vec<(std::ffi::OsString, std::ffi::OsString)>) -> Program {
        Program {
            label: ChildLabel::Agent,
            argv: Vec::new(),
            environment,
            directory: self.plan.workspace.root.clone(),
            stdio: false,
            expected: None,
        }
    }

    /// For a layer without a terminal: nothing to read, output to the log.
    fn silent_stdio(&self) -> std::io::Result<[OwnedFd; 3]> {
        let null = std::fs::File::open("/dev/null")?;
        Ok([null.into(), self.log.descriptor()?, self.log.descriptor()?])
    }

    /// Admits the caller, or fails the start.
    fn admit(&mut self, knock: Knock, place: Place) -> Result<(), Error> {
        let layer = knock.layer;
        match self.try_admit(knock, place)? {
            None => Ok(()),
            Some(why) => {
                let what = refused(&why) + &self.log.tail();
                Err(Error::SelfTest { layer, what })
            }
        }
    }

    /// Admits the caller, or tells why not.
    fn try_admit(&mut self, knock: Knock, place: Place) -> Result<Option<String>, Error> {
        let layer = knock.layer;
        let supervisor = match identify(&knock, place, &self.roster) {
            Ok(supervisor) => supervisor,
            Err(why) => {
                self.send_away(&knock, &why);
                return Ok(Some(why));
            }
        };
        let Knock { process, channel, admit, .. } = knock;
        let warden = Arc::new(Warden::new(layer, process.id(), channel));
        {
            let mut entries = self.roster.edit();
            entries.supervisors.insert(layer, supervisor);
            entries.wardens.insert(layer, warden.clone());
        }
        self.ledger.add("warden", json!({ "layer": layer, "process": process.id() }));
        admit
            .send(Some(warden))
            .map_err(|_| self.layer_failed(&layer.to_string(), "the gate is gone"))?;
        Ok(None)
    }

    /// A layer that its nono did not isolate shares namespaces with the host.
    /// Looked at while its warden can be looked into by everybody: later only
    /// the owner of a user namespace around it may, and here there may be none.
    fn check_namespaces(&self, layer: Layer) -> Result<(), Error> {
        let tier = self.plan.tier;
        if !tier.isolates_network() {
            return Ok(());
        }
        let failed = |what: String| Error::SelfTest { layer, what };
        let unreadable = |e: std::io::Error| failed(format!("its namespaces cannot be read: {e}"));
        let warden = self.roster.warden(layer).ok_or_else(|| failed("it has no warden".into()))?;
        let host = Namespaces::of(Pid::of_self()).map_err(unreadable)?;
        let inside = Namespaces::of(warden.process.pid).map_err(unreadable)?;
        let shared = [
            ("network", true, inside.network == host.network),
            ("ipc", true, inside.ipc == host.ipc),
            ("mount", tier.has_veil(), inside.mount == host.mount),
            ("pid", tier.has_veil(), inside.pid == host.pid),
        ];
        match shared.iter().find(|(_, must_differ, same)| *must_differ && *same) {
            Some((kind, ..)) => Err(failed(format!(
                "it is in the host's {kind} namespace; in the {tier} tier it must have its own"
            ))),
            None => Ok(()),
        }
    }

    /// Has the warden of a layer test it, by these attempts.
    fn ask_for_proof(
        &self,
        layer: Layer,
        canaries: &Canaries,
        target: Option<Pid>,
    ) -> Result<Vec<Attempt>, Error> {
        self.check_namespaces(layer)?;
        let mut attempts = canaries.for_layer(layer, target);
        attempts.extend(Canaries::about_sockets(layer, self.plan));
        let limits = canaries.limits_of(layer, self.plan);
        let shares_ipc = !self.plan.tier.isolates_network();
        let survey = self.survey.as_ref().map_or_else(Vec::new, |s| (s.attempts)(layer, target));
        let limited = limits.iter().flat_map(|added| &added.attempts);
        let all = attempts.iter().chain(limited).cloned().collect();
        let proving = Proving { attempts, shares_ipc, limits, survey };
        self.tell(layer, &ToWarden::Prove(Box::new(proving)), &[])?;
        Ok(all)
    }

    /// The outcome of a layer's self-test.
    pub(super) fn hear_proof(&mut self, layer: Layer, attempts: &[Attempt]) -> Result<(), Error> {
        let deadline = Instant::now() + LAYER_LIMIT;
        // Other messages may come first; they are needed later.
        let mut put_off = Vec::new();
        let (outcomes, surveyed) = loop {
            match self.start_event(deadline, &layer.to_string())? {
                Event::FromWarden {
                    layer: from,
                    message: ToKeeper::Proof { outcomes, surveyed },
                    ..
                } if from == layer => {
                    break (outcomes, surveyed);
                }
                event @ (Event::Knock(_) | Event::FromWarden { .. }) => put_off.push(event),
                other => self.handle_at_start(other)?,
            }
        };
        for event in put_off {
            let _ = self.events.sender.send(event);
        }
        if let Some(survey) = &mut self.survey {
            survey.observed.insert(layer, surveyed);
        }
        let result = evaluate(layer, attempts, &outcomes);
        if result.is_ok()
            && let Some(warden) = self.roster.warden(layer)
        {
            warden.has_proved_its_layer();
        }
        self.ledger.add(
            "self-test",
            json!({ "layer": layer, "attempts": attempts.len(), "holds": result.is_ok() }),
        );
        result
    }

    fn wait_for_knock(&mut self, layers: &[Layer]) -> Result<Knock, Error> {
        let deadline = Instant::now() + LAYER_LIMIT;
        loop {
            match self.start_event(deadline, "pen")? {
                Event::Knock(knock) if layers.contains(&knock.layer) => return Ok(knock),
                other => self.handle_at_start(other)?,
            }
        }
    }

    /// The next event of a start; a layer that has ended will send none.
    fn start_event(&mut self, deadline: Instant, layer: &str) -> Result<Event, Error> {
        loop {
            if Instant::now() >= deadline {
                let reason = format!("nothing was heard of it for {} s", LAYER_LIMIT.as_secs());
                return Err(self.layer_failed(layer, &reason));
            }
            let step = deadline.min(Instant::now() + Duration::from_millis(100));
            match self.next_event(Some(step))? {
                // The keeper's only child so far is the outermost layer; a survey's
                // decoy ends by itself only when somebody ends it.
                Some(Event::Signal(SIGCHLD)) if super::stop::reap_children() > 0 => {
                    return Err(self.layer_failed(layer, "it ended"));
                }
                Some(Event::Signal(SIGCHLD)) | None => {}
                Some(event) => return Ok(event),
            }
        }
    }

    fn handle_at_start(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::FromWarden { message: ToKeeper::StartFailed { label, error, .. }, .. } => {
                Err(self.layer_failed(label_name(label), &error))
            }
            Event::FromWarden {
                layer: Layer::Pen,
                message:
                    ToKeeper::Ended { label: label @ (ChildLabel::Server | ChildLabel::Client), status },
                ..
            } => {
                let reason = format!("nono ended (status {})", status.code());
                Err(self.layer_failed(label_name(label), &reason))
            }
            Event::FromWarden { .. } => Ok(()),
            Event::WardenLost { layer, why } => {
                Err(self.layer_failed(&layer.to_string(), &format!("its warden is lost: {why}")))
            }
            other => self.handle(other),
        }
    }

    pub(super) fn tell(
        &self,
        layer: Layer,
        message: &ToWarden,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let gone = |why: String| self.layer_failed(&layer.to_string(), &why);
        let warden = self.roster.warden(layer).ok_or_else(|| gone("it has no warden".into()))?;
        warden.channel.send(message, descriptors).map_err(|e| gone(e.to_string()))
    }

    fn keep_record(&mut self) -> Result<(), Error> {
        let entries = self.roster.entries();
        let mut parts = Vec::new();
        for (name, process) in ["veil", "veil-init"].iter().zip(&entries.veil) {
            parts.push(Part { name: (*name).to_owned(), process: *process });
        }
        for (layer, process) in &entries.supervisors {
            parts.push(Part { name: format!("{layer}-supervisor"), process: *process });
        }
        for (layer, warden) in &entries.wardens {
            parts.push(Part { name: format!("{layer}-warden"), process: warden.process });
        }
        parts.sort_by_key(|part| part.process.pid);
        self.record.parts = parts;
        self.record.store(&self.lock)
    }
}

fn refused(why: &str) -> String {
    format!("its warden was refused at the gate: {why}")
}

/// A layer whose warden was refused ends, but that is not why.
fn explained(error: Error, refusals: &[(Layer, String)]) -> Error {
    let Error::LayerStart { layer: name, .. } = &error else {
        return error;
    };
    match refusals.iter().find(|(layer, _)| layer.to_string() == *name) {
        Some((layer, why)) => Error::SelfTest { layer: *layer, what: refused(why) },
        None => error,
    }
}

fn id_of(started: &[(ChildLabel, Pid)], label: ChildLabel) -> Option<Pid> {
    started.iter().find(|(l, _)| *l == label).map(|(_, pid)| *pid)
}

pub(super) fn label_of(layer: Layer) -> ChildLabel {
    if layer == Layer::Client { ChildLabel::Client } else { ChildLabel::Server }
}

fn label_name(label: ChildLabel) -> &'static str {
    match label {
        ChildLabel::Server => "server",
        ChildLabel::Client => "client",
        ChildLabel::Agent => "agent",
        ChildLabel::Canary => "pen",
    }
}
