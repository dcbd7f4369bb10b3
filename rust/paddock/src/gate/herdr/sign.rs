//! The sign on the launch's pane: that the agent is sandboxed, and whether that is
//! verified now. It is the keeper's own word, under a source that no report from
//! inside has, over connections of a thread of its own: what an agent causes can
//! neither change nor delay it. herdr takes it off by itself when nobody renews it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client::HerdrClient;
use super::{Message, Note, OwnPane, answer, request_line};

/// The plugin's, as herdr's manifest names it.
const SOURCE: &str = "plugin:paddock";
/// Between two things that herdr is told.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest before something is tried again that herdr did not answer to.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often herdr is told the same again.
const RENEWAL: Duration = Duration::from_secs(4);
/// How long herdr shows it without.
const LIFE: Duration = Duration::from_secs(10);
/// The same while the launch is suspended, and with it the keeper.
const LIFE_SUSPENDED: Duration = Duration::from_hours(1);
/// For how long a pass that held counts. The next is due within two seconds, whatever
/// is configured.
const FRESH: Duration = Duration::from_secs(5);
/// How long a suspension or the end of a launch waits for herdr.
const WAIT_LIMIT: Duration = Duration::from_secs(1);

/// What the sign says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// Every task was found confined.
    Confined,
    /// A task was found not to be.
    Unconfined,
    /// It could not be told of every task.
    Unknown,
    /// Nothing of the launch runs.
    Suspended,
}

impl Standing {
    /// For the token `verdict`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Unconfined => "unconfined",
            Self::Unknown => "unknown",
            Self::Suspended => "suspended",
        }
    }

    /// Behind the agent's name, in the sandboxes of a tier.
    fn words(self, tier: &str) -> String {
        match self {
            Self::Confined if tier == "sealed" => "sandboxed".into(),
            // Less than all is not passed over in silence.
            Self::Confined => format!("sandboxed: {tier}"),
            Self::Unconfined => "NOT CONFINED".into(),
            Self::Unknown => "unverified".into(),
            Self::Suspended => "suspended".into(),
        }
    }

    fn life(self) -> Duration {
        if self == Self::Suspended { LIFE_SUSPENDED } else { LIFE }
    }
}

/// Keeps the sign as the launch is.
pub(crate) struct Sign {
    shared: Arc<Shared>,
}

struct Shared {
    own: OwnPane,
    tier: &'static str,
    client: HerdrClient,
    note: Note,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest, and when it was found so.
    standing: Option<(Standing, Instant)>,
    /// herdr answered to this.
    told: Option<Standing>,
    is_sending: bool,
    /// Something was sent: herdr may show it.
    has_told: bool,
    is_closed: bool,
}

impl State {
    /// What there is to tell. That all is well has to be found again and again.
    fn standing(&self) -> Option<Standing> {
        let (standing, found) = self.standing?;
        let is_old = standing == Standing::Confined && found.elapsed() >= FRESH;
        Some(if is_old { Standing::Unknown } else { standing })
    }

    /// When that changes by itself.
    fn old_at(&self) -> Option<Instant> {
        let (standing, found) = self.standing?;
        let old = found + FRESH;
        (standing == Standing::Confined && old > Instant::now()).then_some(old)
    }
}

impl Sign {
    /// Starts its thread. herdr shows nothing yet.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(crate) fn start(
        own: OwnPane,
        tier: &'static str,
        client: HerdrClient,
        note: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let note = Box::new(note);
        let shared = Arc::new(Shared { own, tier, client, note, state, changed });
        let worker = shared.clone();
        std::thread::Builder::new().name("herdr-sign".into()).spawn(move || worker.work())?;
        Ok(Self { shared })
    }

    /// From now on this is how it stands. To be said again for as long as it does.
    pub(crate) fn show(&self, standing: Standing) {
        let mut state = self.shared.lock();
        state.standing = Some((standing, Instant::now()));
        if state.told != Some(standing) {
            self.shared.changed.notify_all();
        }
    }

    /// The same, and waits until herdr shows it, but not for long.
    pub(crate) fn show_now(&self, standing: Standing) {
        self.show(standing);
        let shared = &self.shared;
        let is_awaited = |state: &mut State| state.told != Some(standing) && !state.is_closed;
        let _ = shared.changed.wait_timeout_while(shared.lock(), WAIT_LIMIT, is_awaited);
    }

    /// The launch has ended: takes the sign down, and waits for that, but not for long.
    pub(crate) fn close(&self) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.is_closed = true;
        shared.changed.notify_all();
        let waited = shared.changed.wait_timeout_while(state, WAIT_LIMIT, |s| s.is_sending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_told = state.has_told;
        drop(state);
        if has_told {
            shared.tell(&shared.taken_down(), &mut None);
        }
    }
}

impl Shared {
    /// To the end of the launch.
    fn work(&self) {
        let mut last_said = None;
        let mut pause = PAUSE;
        let mut renewal = Instant::now();
        while let Some(standing) = self.next(renewal) {
            let is_told = self.tell(&self.sign(standing), &mut last_said);
            pause = if is_told { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            let mut state = self.lock();
            state.is_sending = false;
            state.told = is_told.then_some(standing);
            self.changed.notify_all();
            renewal = Instant::now() + if is_told { RENEWAL } else { pause };
            let until = Instant::now() + pause;
            while !state.is_closed && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Waits for something new to tell, or until what herdr knows is to be renewed;
    /// nothing when there will be no more.
    fn next(&self, renewal: Instant) -> Option<Standing> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let now = Instant::now();
            if let Some(standing) = state.standing()
                && (state.told != Some(standing) || now >= renewal)
            {
                state.is_sending = true;
                state.has_told = true;
                return Some(standing);
            }
            state = if state.standing.is_none() {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let until = state.old_at().map_or(renewal, |old| old.min(renewal));
                let left = until.saturating_duration_since(now);
                let waited = self.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Whether herdr answered. The same again is not written down again.
    fn tell(&self, message: &Message, last: &mut Option<(String, String)>) -> bool {
        let (said, is_told) = match self.client.send(&message.line) {
            Ok(reply) => (answer::said(&reply), true),
            Err(why) => (why.to_string(), false),
        };
        let new = Some((message.what.clone(), said));
        if *last != new
            && let Some((what, said)) = &new
        {
            (self.note)(what, said);
        }
        *last = new;
        is_told
    }

    fn sign(&self, standing: Standing) -> Message {
        let name = standing.name();
        let display = format!("{} [{}]", self.own.agent(), standing.words(self.tier));
        let mut params = self.params();
        params["display_agent"] = display.into();
        // That a launch before it does not run any more, as the plugin says after a
        // restart of herdr.
        params["clear_title"] = true.into();
        params["tokens"] = json!({ "sandbox": self.tier, "verdict": name });
        params["ttl_ms"] = json!(u64::try_from(standing.life().as_millis()).unwrap_or(1));
        Message { what: name.into(), line: request_line("pane.report_metadata", &params) }
    }

    fn taken_down(&self) -> Message {
        let mut params = self.params();
        params["clear_display_agent"] = true.into();
        params["tokens"] = json!({ "sandbox": null, "verdict": null });
        Message { what: "no sign".into(), line: request_line("pane.report_metadata", &params) }
    }

    fn params(&self) -> Value {
        json!({ "pane_id": self.own.pane_id(), "source": SOURCE })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
