//! The watch: a pass at once, and then for as long as the launch lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use confine::escape::escape_short;
use serde_json::json;

use super::answer::LastPass;
use super::calls::Desk;
use super::events::Event;
use super::report::Report;
use super::verifier::{Depth, Verifier};
use crate::launch::VerifySettings;

/// A pass that is asked for and does not come.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Requests to the watching thread.
enum Request {
    Look(SyncSender<Option<Arc<Report>>>),
    /// Make no pass until resumed; answers when the current one is over.
    Pause(SyncSender<()>),
    Resume,
}

/// The watching thread; dropping it ends it.
pub(super) struct Watch {
    requests: Sender<Request>,
    /// A pass that is under way while the launch is taken down sees it fall
    /// apart. That says nothing about how it was, so it is dropped.
    is_over: Arc<AtomicBool>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// A handle for others to ask for a pass.
#[derive(Clone)]
pub(super) struct WatchHandle(Sender<Request>);

impl Watch {
    pub(super) fn start(
        desk: Arc<Desk>,
        events: Sender<Event>,
        settings: VerifySettings,
        last_pass: LastPass,
    ) -> std::io::Result<Self> {
        let interval = settings.every.get();
        let (requests, received) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        std::thread::Builder::new().name("watch".into()).spawn(move || {
            let mut watcher = Watcher {
                verifier: Verifier::new(desk.roster.clone(), settings.turns()),
                desk,
                events,
                last_pass,
                last_in_turn: None,
                failing: None,
                over,
            };
            let mut paused = false;
            // While the launch is suspended everything in it is stopped, and
            // would be taken for held: no pass then, whoever asks for one.
            let mut waiting = Vec::new();
            let mut next = Instant::now() + interval;
            loop {
                let request = if paused {
                    received.recv().map_err(|_| RecvTimeoutError::Disconnected)
                } else {
                    received.recv_timeout(next.saturating_duration_since(Instant::now()))
                };
                match request {
                    Ok(Request::Look(reply)) if paused => waiting.push(reply),
                    Ok(Request::Look(reply)) => {
                        let _ = reply.send(watcher.look(Depth::Everything));
                    }
                    Ok(Request::Pause(reply)) => {
                        paused = true;
                        let _ = reply.send(());
                    }
                    Ok(Request::Resume) => {
                        paused = false;
                        watcher.verifier.was_suspended();
                        next = Instant::now();
                        for reply in waiting.drain(..) {
                            let _ = reply.send(watcher.look(Depth::Everything));
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        watcher.look(Depth::InTurn);
                        next = Instant::now() + interval;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                // A handle may outlive the watch and keep the channel open.
                if watcher.over.load(Ordering::SeqCst) {
                    return;
                }
            }
        })?;
        Ok(Self { requests, is_over })
    }

    /// Makes a pass over everything now.
    pub(super) fn look_now(&self) -> Option<Arc<Report>> {
        self.handle().look_now()
    }

    pub(super) fn handle(&self) -> WatchHandle {
        WatchHandle(self.requests.clone())
    }

    /// Holds the watch, once no pass is under way.
    pub(super) fn pause(&self) {
        let (reply, answer) = sync_channel(1);
        if self.requests.send(Request::Pause(reply)).is_ok() {
            let _ = answer.recv_timeout(ANSWER_LIMIT);
        }
    }

    pub(super) fn resume(&self) {
        let _ = self.requests.send(Request::Resume);
    }
}

impl WatchHandle {
    pub(super) fn look_now(&self) -> Option<Arc<Report>> {
        let (reply, answer) = sync_channel(1);
        self.0.send(Request::Look(reply)).ok()?;
        answer.recv_timeout(ANSWER_LIMIT).ok().flatten()
    }
}

struct Watcher {
    verifier: Verifier,
    desk: Arc<Desk>,
    events: Sender<Event>,
    /// For those who ask how the launch stands.
    last_pass: LastPass,
    /// What the last pass took that looked at what was due.
    last_in_turn: Option<Duration>,
    /// What was wrong last time, so that each change is told once.
    failing: Option<String>,
    /// The launch is being taken down.
    over: Arc<AtomicBool>,
}

impl Watcher {
    /// Makes a pass and tells of a change; `None` once the watch is over.
    fn look(&mut self, depth: Depth) -> Option<Arc<Report>> {
        let found = self.verifier.pass(depth);
        if self.over.load(Ordering::SeqCst) {
            return None;
        }
        let mut report = match found {
            Ok(report) => report,
            Err(error) => {
                // What cannot be read is not confirmed.
                let failure = error.to_string();
                self.desk.ledger.add_from_outside("pass-failed", json!({ "error": failure }));
                Report { failure: Some(failure), ..Report::default() }
            }
        };
        if depth == Depth::InTurn && !report.tasks.is_empty() {
            self.last_in_turn = Some(report.took);
        }
        report.last_in_turn = self.last_in_turn;
        self.desk.show_report(&report);
        let report = Arc::new(report);
        let failing = (!report.holds()).then(|| describe_failure(&report));
        let is_change = failing != self.failing;
        self.last_pass.set(Arc::clone(&report), is_change && failing.is_some());
        if is_change {
            self.desk.ledger.add(
                "verdict",
                json!({ "holds": failing.is_none(), "what": failing, "tasks": report.tasks.len() }),
            );
            if failing.is_some() {
                let _ = self.events.send(Event::Violation(Arc::clone(&report)));
            }
            self.failing = failing;
        }
        Some(report)
    }
}

/// The failure of a report, in one line for a person.
pub(super) fn describe_failure(report: &Report) -> String {
    let Some(task) = report.first_failure() else {
        return report.failure.as_ref().map_or_else(
            || "no task of the launch could be read".into(),
            |why| format!("the launch could not be looked at: {why}"),
        );
    };
    let reasons: Vec<String> = task.verdict.reasons().iter().map(ToString::to_string).collect();
    let layer = task.role.layer().map_or(String::new(), |layer| format!(" in the {layer} layer"));
    format!(
        "process {} ({}, {}{}) is {}: {}",
        task.process,
        escape_short(&task.command(), 80),
        task.role.name(),
        layer,
        task.verdict.name(),
        reasons.join("; ")
    )
}
