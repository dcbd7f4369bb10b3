//! The keeper: one launch, from its first directory to its last survivor.
//!
//! [`run`] is the launch as one page, in the order in which things happen. The
//! steps are in [`start`], the watch in [`watch`], the end in [`stop`].

mod ancestry;
mod answer;
mod asking;
mod caller;
mod calls;
mod canaries;
mod control;
mod descriptors;
mod egress_guard;
mod events;
mod failure;
mod forward;
mod gatehouse;
mod grants;
mod herdr_desk;
mod home;
mod log;
mod obeyed;
mod pins;
mod prune;
mod questions;
mod reach;
mod report;
mod roster;
mod rules;
mod spawn;
mod stage;
mod start;
mod stdio;
mod stop;
mod survey;
mod suspend;
mod sweep;
mod tally;
mod terminal;
mod verifier;
mod watch;
mod witnesses;

use std::sync::Arc;
use std::time::{Duration, Instant};

use confine::{Layer, ProcessId};
use serde_json::json;

use crate::error::{Error, status};
use crate::gate::herdr::OwnPane;
use crate::launch::{Directories, OnViolation, Plan};
use crate::notices::Notices;
use crate::pins::Pinning;
use crate::state::{HerdrPane, KeeperLock, Ledger, Record};
use events::Event;
use gatehouse::Knock;
use report::Report;
use roster::Roster;
use warden::{ChildLabel, ChildStatus, ToKeeper, ToWarden};

pub(crate) use answer::{Asked, Details, Failure, HostSums, Status, Task};
#[cfg(test)]
pub(crate) use answer::{BlockedCounts, GateCalls, Reason};
pub(crate) use control::{Request, ask_keeper, open_forward};
pub(crate) use egress_guard::SurveyedEgress;
pub(crate) use events::Events;
pub(crate) use forward::{Dial, Dialled};
pub(crate) use prune::{Prune, PruneOutcome, Pruned, prune_ended, remove_leftovers};
pub(crate) use questions::{Scope, Wanted};
pub(crate) use stage::remove_tree;
pub(crate) use stop::{end_processes, members_left};
pub(crate) use survey::{Surveyed, survey};
pub(crate) use sweep::{REPORT, sweep_abandoned};

/// How long nono gets to give the terminal back once the agent has ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// A launch under way.
struct Keeper<'a> {
    plan: &'a Plan,
    pinned: &'a Pinning,
    roster: Arc<Roster>,
    ledger: Arc<Ledger>,
    notices: Notices,
    record: Record,
    lock: KeeperLock,
    events: Events,
    terminal: terminal::Terminal,
    /// Between the terminal and the sandbox that has it, where nono puts nothing there.
    relay: Option<stdio::Relay>,
    log: log::LayerLog,
    watch: Option<watch::Watch>,
    /// Lives until nobody inside could take what it cuts for the whole of it.
    guard: Option<egress_guard::RunningGuard>,
    /// Serves what programs in the sandboxes ask for.
    desk: Arc<calls::Desk>,
    shared_watch: control::SharedWatch,
    last_pass: answer::LastPass,
    /// How long the launch has been suspended so far.
    suspended: Duration,
    /// What else the wardens are to try.
    survey: Option<survey::Survey>,
    /// The first process of whoever has the terminal, as the host numbers it.
    foreground: Option<confine::Pid>,
    /// What there was before the agent.
    began: Option<crate::obeyed::Began>,
}

/// Runs one launch to its end and returns the exit status.
///
/// # Errors
/// When it could not be started, or the agent was stopped.
pub(crate) fn run(
    plan: &Plan,
    directories: &Directories,
    notices: Notices,
    pinned: &Pinning,
) -> Result<u8, Error> {
    refuse_other_children()?;
    spawn::allow_many_descriptors();
    let events = Events::listen()?;
    sweep_abandoned(directories);
    let stage = stage::Stage::set(plan, directories)?;
    let mut keeper = Keeper::open(plan, pinned, notices, events)?;
    let outcome = keeper.live(directories);
    let survivors = keeper.stop();
    if survivors == 0 {
        drop(stage);
    } else {
        // What is left could put links in the way of who removes things here.
        std::mem::forget(stage);
    }
    keeper.close(outcome, survivors)
}

/// Whatever descends from the keeper is the launch, and is ended with it. A
/// shell that has jobs and then becomes paddock by `exec` leaves them to it.
pub(crate) fn refuse_other_children() -> Result<(), Error> {
    stop::reap_children();
    let others = stop::descendants(confine::Pid::of_self());
    if others.is_empty() {
        return Ok(());
    }
    let processes: Vec<String> = others.iter().map(|process| process.pid.to_string()).collect();
    Err(Error::OtherChildren { processes: processes.join(", ") })
}

impl Keeper<'_> {
    /// The launch between its first directory and its end.
    fn live(&mut self, directories: &Directories) -> Result<u8, Error> {
        self.build()?;
        let confirmed = self.start_watch()?;
        self.record_pins(directories)?;
        self.remember_what_is_obeyed(directories);
        self.start_agent(confirmed)?;
        let ended = self.wait_for_end()?;
        self.last_look()?;
        self.say_farewell(ended);
        Ok(ended.code())
    }

    /// Every layer, each proved by its warden; nothing of the agent runs yet.
    fn build(&mut self) -> Result<(), Error> {
        gatehouse::open(&self.plan.paths.gate(), self.events.sender.clone(), self.desk.clone())
            .map_err(|e| Error::DirectoryUnusable {
                path: self.plan.paths.gate(),
                reason: e.to_string(),
            })?;
        let veil = self.start_outermost();
        // While the layers start.
        self.ledger.add("start", self.plan.describe());
        self.note_pins();
        self.note_sockets_in_reach();
        let veil = veil?;
        let canaries = canaries::Canaries::plant(self.plan)?;
        control::open(self)?;
        self.know_outermost(veil)?;
        let attempts = self.admit_pen(&canaries)?;
        // The pen's warden does one after the other, and what takes long can
        // begin while its proof is looked at: nothing of the agent is in it.
        self.start_inner()?;
        self.ask_for_guards_socket()?;
        self.hear_proof(Layer::Pen, &attempts)?;
        self.check_what_the_veil_keeps()?;
        self.start_guard()?;
        self.admit_inner(&canaries)
    }

    /// Waits for the end of whoever has the terminal, and does what is asked meanwhile.
    fn wait_for_end(&mut self) -> Result<ChildStatus, Error> {
        let start = Instant::now();
        let plan = self.plan;
        let mut patience = plan.client.as_ref().map(|client| client.patience);
        loop {
            let deadline = patience.map(|patience| start + patience + self.suspended);
            match self.next_event(deadline)? {
                Some(Event::FromWarden {
                    layer,
                    message: ToKeeper::Ended { label: ChildLabel::Agent, status },
                    ..
                }) if layer == plan.terminal_layer() => return Ok(status),
                Some(event) => self.handle(event)?,
                None if self.client_still_waits() => {
                    let seconds = patience.unwrap_or_default().as_secs();
                    return Err(Error::StartAgent {
                        half: "server",
                        reason: format!("it did not answer within {seconds} s{}", self.log.tail()),
                        not_found: false,
                    });
                }
                None => patience = None,
            }
        }
    }

    /// What can happen at any time once the agent runs.
    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Violation(report) => self.on_violation(&report)?,
            Event::Signal(signal) => self.on_signal(signal)?,
            Event::StopRequested => {
                return Err(Error::Stopped { by: "paddock stop".into(), status: 143 });
            }
            Event::Knock(knock) => self.send_away(&knock, "its layer has a warden already"),
            Event::Refused { caller, why } => self.note_refusal(caller, &why),
            Event::WardenLost { layer, why } => {
                let what = format!("the warden of the {layer} sandbox is lost: {why}");
                return Err(Error::Unconfined { what });
            }
            Event::FromWarden { layer, message, .. } => self.on_message(layer, message)?,
        }
        Ok(())
    }

    fn on_message(&mut self, layer: Layer, message: ToKeeper) -> Result<(), Error> {
        match (layer, message) {
            (layer, ToKeeper::Suspended { label: ChildLabel::Agent })
                if layer == self.plan.terminal_layer() =>
            {
                self.foreground_stopped();
                Ok(())
            }
            (
                Layer::Pen,
                ToKeeper::Ended {
                    label: label @ (ChildLabel::Server | ChildLabel::Client),
                    status,
                },
            ) => {
                if let Some(lost) = self.lost_warden() {
                    return Err(lost);
                }
                let layer = if label == ChildLabel::Client { Layer::Client } else { Layer::Server };
                let what = format!("nono of the {layer} sandbox ended (status {})", status.code());
                Err(Error::Unconfined { what })
            }
            (Layer::Server, ToKeeper::Ended { label: ChildLabel::Agent, status }) => {
                let details = json!({ "half": "server", "status": status.code() });
                self.ledger.add("agent-ended", details);
                if self.client_still_waits() {
                    return Err(Error::StartAgent {
                        half: "server",
                        reason: format!("it ended (status {}){}", status.code(), self.log.tail()),
                        not_found: false,
                    });
                }
                self.notices.warn(&format!(
                    "the agent's server ended (status {}){}",
                    status.code(),
                    self.log.tail()
                ));
                Ok(())
            }
            (layer, ToKeeper::Started { label: ChildLabel::Agent, .. }) => {
                let agent = self.roster.agent(layer);
                if layer == self.plan.terminal_layer() {
                    self.foreground = agent.map(|agent| agent.pid);
                }
                self.ledger.add("agent-started", json!({ "half": layer }));
                Ok(())
            }
            (layer, ToKeeper::StartFailed { label: ChildLabel::Agent, error, not_found }) => {
                let half = self.plan.part(layer);
                Err(Error::StartAgent { half, reason: error + &self.log.tail(), not_found })
            }
            _ => Ok(()),
        }
    }

    /// Whether the client's process is still the one that waits for the server:
    /// `paddock-warden await`, before any program of the agent's.
    fn client_still_waits(&self) -> bool {
        let has_client = self.plan.client.is_some();
        has_client
            && self.foreground.is_none_or(|client| {
                confine::proc::command_line(client).split(|b| *b == 0).nth(1) == Some(b"await")
            })
    }

    /// The first cause, where a warden has ended: what it had below it is out of
    /// place then, and its nono ends, and either may be noticed before.
    fn lost_warden(&self) -> Option<Error> {
        let entries = self.roster.entries();
        let mut wardens = entries.wardens.values();
        let lost = wardens.find(|w| confine::proc::has_ended(w.process).unwrap_or(false))?;
        let what = format!("the warden of the {} sandbox is lost: it ended", lost.layer);
        Some(Error::Unconfined { what })
    }

    fn on_violation(&mut self, report: &Report) -> Result<(), Error> {
        if let Some(lost) = self.lost_warden() {
            return Err(lost);
        }
        let what = watch::describe_failure(report);
        // Where a violation does not end the launch, there can be any number.
        let details = json!({ "what": what, "report": control::report_json(report) });
        self.ledger.add_from_outside("violation", details);
        match self.plan.on_violation {
            OnViolation::Stop => Err(Error::Unconfined { what }),
            OnViolation::Warn => {
                self.notices.warn(&format!("not confined: {what}"));
                Ok(())
            }
        }
    }

    /// A pass over everything before the agent's end is believed.
    fn last_look(&mut self) -> Result<(), Error> {
        let Some(report) = self.watch.as_ref().and_then(watch::Watch::look_now) else {
            return Err(Error::Unconfined { what: "the last pass did not finish".into() });
        };
        if report.holds() { Ok(()) } else { self.on_violation(&report) }
    }

    /// Lets the terminal's nono write what is left, restore the terminal and end.
    fn say_farewell(&mut self, ended: ChildStatus) {
        self.watch = None;
        let terminal = self.plan.terminal_layer();
        if let Some(warden) = self.roster.warden(terminal) {
            let _ = warden.channel.send(&ToWarden::Exit { status: ended.code() }, &[]);
        }
        let deadline = Instant::now() + FAREWELL;
        while let Ok(Some(event)) = self.next_event(Some(deadline)) {
            if let Event::FromWarden {
                layer: Layer::Pen,
                message: ToKeeper::Ended { label, .. },
                ..
            } = event
                && label == start::label_of(terminal)
            {
                break;
            }
        }
    }

    /// Ends every process of the launch and gives the terminal back.
    fn stop(&mut self) -> usize {
        self.watch = None;
        let survivors = stop::end_launch(&self.roster);
        if let Some(relay) = self.relay.take() {
            relay.finish();
        }
        self.log.settle();
        self.terminal.restore();
        self.desk.release_pane();
        survivors
    }

    /// Writes down how it ended.
    fn close(mut self, outcome: Result<u8, Error>, survivors: usize) -> Result<u8, Error> {
        let (code, reason) = match &outcome {
            Ok(code) => (*code, None),
            Err(error) => (error.status(), Some(error.to_string())),
        };
        self.record.end(code, reason.clone());
        if survivors == 0 {
            // Nobody is in them any more, and the next launch may get their numbers.
            self.record.namespaces = None;
        }
        let stored = self.record.store(&self.lock);
        if let Some(guard) = self.guard.take() {
            guard.end();
        }
        self.tell_what_is_obeyed();
        let details = json!({ "status": code, "reason": reason, "survivors": survivors });
        self.ledger.add("stop", details);
        if survivors > 0 {
            self.notices.warn(&format!(
                "{survivors} processes of the launch could not be ended; paddock verify {} lists them",
                self.plan.id
            ));
            outcome?;
            return Ok(status::FAILED);
        }
        let code = outcome?;
        stored?;
        self.notices.ended(self.plan, code);
        Ok(code)
    }

    /// The next event; `None` at the deadline.
    fn next_event(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, Error> {
        use std::sync::mpsc::RecvTimeoutError;
        let received = match deadline {
            None => self.events.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.events.receiver.recv_timeout(left)
            }
        };
        match received {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::Unconfined { what: "the keeper's own threads are gone".into() })
            }
        }
    }

    fn note_refusal(&self, caller: Option<ProcessId>, why: &str) {
        self.ledger.add_from_outside("gate-refused", json!({ "caller": caller, "why": why }));
        self.desk.tally.sent_away();
    }

    fn send_away(&self, knock: &Knock, why: &str) {
        let _ = knock.admit.send(None);
        self.note_refusal(Some(knock.process.id()), why);
    }
}

impl<'a> Keeper<'a> {
    /// Becomes the keeper of the launch: takes the lock, writes the first record.
    fn open(
        plan: &'a Plan,
        pinned: &'a Pinning,
        notices: Notices,
        events: Events,
    ) -> Result<Self, Error> {
        let unusable = |e: std::io::Error| Error::DirectoryUnusable {
            path: plan.paths.state.clone(),
            reason: e.to_string(),
        };
        let lock = KeeperLock::take(&plan.paths.state)
            .map_err(unusable)?
            .ok_or_else(|| unusable(std::io::Error::other("another keeper has this launch")))?;
        let pid = confine::Pid::of_self();
        let keeper = ProcessId { pid, start: confine::proc::start_time(pid).map_err(unusable)? };
        let mut record = Record::new(
            plan.id.clone(),
            plan.agent.called().to_owned(),
            plan.tier,
            plan.workspace.root.clone(),
            plan.paths.launch.clone(),
            keeper,
        );
        record.form = plan.form;
        let homes = &plan.agent.file.name;
        record.homes = (homes != plan.agent.called()).then(|| homes.clone());
        record.shared = plan.shared_directories().into_iter().map(Into::into).collect();
        record.pane = OwnPane::of_this_process(plan.agent.file.herdr_kind())
            .map(|pane| HerdrPane { socket: pane.socket().into(), pane_id: pane.pane_id().into() });
        record.store(&lock)?;
        let ledger = Ledger::below(&plan.paths.state);
        if let Err(e) = ledger.open() {
            notices.warn(&format!("the ledger cannot be written, and what happens is lost: {e}"));
        }
        let roster = Roster::new(
            keeper,
            rustix::process::getuid().as_raw(),
            plan.programs.warden.file,
            plan.programs.nono.file,
            plan.programs.bwrap.as_ref().map(|found| found.file),
        );
        spawn::become_subreaper().map_err(unusable)?;
        let (roster, ledger) = (Arc::new(roster), Arc::new(ledger));
        let desk = calls::Desk::new(plan, pinned, roster.clone(), ledger.clone(), notices)?;
        Ok(Self {
            plan,
            pinned,
            desk: Arc::new(desk),
            roster,
            ledger,
            notices,
            record,
            lock,
            events,
            terminal: terminal::Terminal::remember(),
            relay: None,
            log: log::LayerLog::open(&plan.paths.state.join("layers.log")).map_err(unusable)?,
            watch: None,
            guard: None,
            shared_watch: control::SharedWatch::default(),
            last_pass: answer::LastPass::default(),
            suspended: Duration::ZERO,
            survey: None,
            foreground: None,
            began: None,
        })
    }
}
