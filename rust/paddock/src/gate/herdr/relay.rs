//! The way from the launch to herdr: one thread, which tells herdr the newest and
//! nothing that is older. herdr's own loop, which draws, does what it is told, so
//! it is not told often; and nobody inside waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::client::HerdrClient;
use super::{Decision, Message, Note, OwnPane, Record, answer, decide, release_of, report_of};

/// Between two things that herdr is told.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest before something is tried again that herdr did not answer to.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long the end of a launch waits for what herdr is being told.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Tells herdr about the own pane.
pub(crate) struct Relay {
    own: OwnPane,
    shared: Arc<Shared>,
}

struct Shared {
    client: HerdrClient,
    note: Note,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be told next: the newest that there was.
    waiting: Option<Message>,
    is_sending: bool,
    /// Something was sent: herdr may show it.
    has_told: bool,
    is_closed: bool,
}

impl Relay {
    /// Starts its thread.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(crate) fn start(
        own: OwnPane,
        client: HerdrClient,
        note: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { client, note: Box::new(note), state, changed });
        let worker = shared.clone();
        std::thread::Builder::new().name("herdr".into()).spawn(move || worker.work())?;
        Ok(Self { own, shared })
    }

    /// Answers a request line of herdr's protocol at once, and sees to it that herdr
    /// is told what is to be passed on.
    pub(crate) fn answer(&self, line: &[u8]) -> (Vec<u8>, Record) {
        match decide(line, &self.own) {
            Decision::Reply { line, record } => (line, record),
            Decision::Forward { message, answer, record } => {
                self.shared.take(message);
                (answer, record)
            }
        }
    }

    /// Tells herdr the agent's state, as the agent says it by the gate's own protocol.
    pub(crate) fn report(&self, state: &str, message: Option<&str>) {
        self.shared.take(report_of(&self.own, state, message));
    }

    /// The agent has ended: takes off the pane whatever was told, and tells nothing
    /// more. Waits for herdr, but not for long.
    pub(crate) fn close(&self) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.is_closed = true;
        state.waiting = None;
        shared.changed.notify_all();
        let waited = shared.changed.wait_timeout_while(state, END_LIMIT, |state| state.is_sending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_told = state.has_told;
        drop(state);
        if has_told {
            let message = release_of(&self.own);
            shared.tell(&message, &mut String::new());
        }
    }
}

impl Shared {
    /// In the place of whatever waits.
    fn take(&self, message: Message) {
        let mut state = self.lock();
        if !state.is_closed {
            state.waiting = Some(message);
            self.changed.notify_all();
        }
    }

    /// To the end of the launch.
    fn work(&self) {
        let mut pause = PAUSE;
        let mut last_failure = String::new();
        while let Some(message) = self.next() {
            let is_told = self.tell(&message, &mut last_failure);
            pause = if is_told { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            self.told(message, is_told);
            self.rest(pause);
        }
    }

    /// Waits for something to tell; nothing when there will be no more.
    fn next(&self) -> Option<Message> {
        let state = self.lock();
        let is_idle = |state: &mut State| state.waiting.is_none() && !state.is_closed;
        let waited = self.changed.wait_while(state, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let message = state.waiting.take();
        state.is_sending = message.is_some();
        state.has_told |= state.is_sending;
        message
    }

    /// Whether herdr answered. That it did not is written down once.
    fn tell(&self, message: &Message, last_failure: &mut String) -> bool {
        let (said, is_told) = match self.client.send(&message.line) {
            Ok(reply) => (answer::said(&reply), true),
            Err(why) => (why.to_string(), false),
        };
        if is_told || said != *last_failure {
            (self.note)(&message.what, &said);
        }
        *last_failure = if is_told { String::new() } else { said };
        is_told
    }

    /// What herdr did not answer to waits again, where nothing newer does.
    fn told(&self, message: Message, is_told: bool) {
        let mut state = self.lock();
        state.is_sending = false;
        if !is_told && !state.is_closed && state.waiting.is_none() {
            state.waiting = Some(message);
        }
        self.changed.notify_all();
    }

    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut state = self.lock();
        while !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
