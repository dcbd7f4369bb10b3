//! What programs in the sandboxes ask of the gate: who asks is established anew for
//! every request, a rule of the agent's must allow it, and all of it is written down.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use confine::Layer;
use confine::escape::escape_short;
use confine::pidfd::PidFd;
use serde_json::{Value, json};
use warden::{Answer, Call, Channel, ChannelError};

use super::asking::{asked_path, is_answer};
use super::caller::{Caller, Expected, Hashes, Refusal, judge, look};
use super::gatehouse::{not_the_caller, of_caller};
use super::grants::{GuardHandle, Revoked};
use super::herdr_desk::open_ways;
use super::questions::{Questions, Reply, Scope, Wanted};
use super::roster::Roster;
use super::rules::{AgentProgram, allow};
use super::tally::Tally;
use crate::agent::{GateRule, RequestKind};
use crate::error::Error;
use crate::gate::herdr::{Relay, Sign};
use crate::launch::Plan;
use crate::launch::canonical_host;
use crate::notices::Notices;
use crate::pins::Pinning;
use crate::state::Ledger;

/// Between two things that are told to the person.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest text that is told, in characters.
const MOST_TEXT: usize = 200;

/// All that a call needs of the launch.
pub(super) struct Desk {
    pub(super) roster: Arc<Roster>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) notices: Notices,
    rules: Vec<GateRule>,
    agent: AgentProgram,
    /// What the launch may write, by every name: code from there is not the system's.
    writable: Vec<PathBuf>,
    /// What `grants` answers, but for the hosts.
    grants: Value,
    pub(super) launch: String,
    pub(super) questions: Questions,
    pub(super) guard: GuardHandle,
    pub(super) tally: Arc<Tally>,
    /// To herdr, where the keeper is in a pane of it.
    pub(super) herdr: Option<(Relay, Sign)>,
    hashes: Hashes,
    /// When the person was told something last.
    last_told: Mutex<Option<Instant>>,
}

impl Desk {
    pub(super) fn new(
        plan: &Plan,
        pinned: &Pinning,
        roster: Arc<Roster>,
        ledger: Arc<Ledger>,
        notices: Notices,
    ) -> Result<Self, Error> {
        let herdr = open_ways(plan, &ledger)?;
        let (file, sha256) = (plan.program.file, pinned.agent_sha256.clone());
        Ok(Self {
            roster,
            ledger,
            notices,
            rules: plan.agent.file.gate.clone(),
            agent: AgentProgram { file, sha256 },
            writable: plan.places_to_write(),
            grants: plan.grants_for_agent(),
            launch: plan.id.as_str().to_owned(),
            questions: Questions::default(),
            guard: GuardHandle::new(&plan.hosts, &plan.exceptions),
            tally: Arc::default(),
            herdr,
            hashes: Hashes::default(),
            last_told: Mutex::default(),
        })
    }

    /// Serves a caller that speaks the gate's protocol, request after request.
    pub(super) fn serve(&self, channel: &Channel, process: &PidFd, first: Call) {
        let mut call = first;
        loop {
            let answer = self.answer(process, &call);
            if channel.send(&answer, &[]).is_err() {
                return;
            }
            match channel.receive_within::<warden::ToKeeper>(of_caller(process)) {
                Ok((warden::ToKeeper::Call { call: next, .. }, _)) => call = next,
                Err(ChannelError::OtherWriter) => {
                    let refusal = not_the_caller();
                    let details = json!({ "caller": process.id(), "why": refusal.to_string() });
                    self.ledger.add_from_outside("gate-refused", details);
                    self.tally.sent_away();
                    let _ = channel.send(&Answer::from(refusal), &[]);
                    return;
                }
                _ => return,
            }
        }
    }

    fn answer(&self, process: &PidFd, call: &Call) -> Answer {
        let kind = match call {
            Call::Grants => RequestKind::Grants,
            Call::Report { .. } => RequestKind::Report,
            Call::Notify { .. } => RequestKind::Notify,
            Call::RequestHost { .. } | Call::RequestPath { .. } => RequestKind::Request,
        };
        match self.admit(process, kind) {
            Err(refusal) => refusal.into(),
            Ok(caller) => self.do_it(process, call, &caller),
        }
    }

    /// Who calls, if that is allowed to ask for such a thing; written down either way.
    pub(super) fn admit(&self, process: &PidFd, kind: RequestKind) -> Result<Caller, Refusal> {
        let caller = match self.identify(process) {
            Ok(caller) => caller,
            Err(refusal) => {
                self.note(kind, &json!({ "process": process.id() }), Some(&refusal));
                return Err(refusal);
            }
        };
        let allowed = allow(&self.rules, &caller, kind, &self.agent);
        self.note(kind, &caller.to_json(), allowed.as_ref().err());
        allowed.map(|()| caller)
    }

    fn identify(&self, process: &PidFd) -> Result<Caller, Refusal> {
        let evidence = look(process, &self.roster, &self.hashes, &self.writable)?;
        let entries = self.roster.entries();
        let Some(filters) = entries.expectation.as_ref().map(|expectation| expectation.filters)
        else {
            return Err(Refusal::new("early", "no agent runs yet"));
        };
        let agent = |layer| self.roster.agent(layer);
        let expected = Expected { uid: self.roster.uid, filters, agent: &agent };
        judge(&evidence, &expected)
    }

    fn note(&self, kind: RequestKind, caller: &Value, refusal: Option<&Refusal>) {
        let details = json!({
            "request": kind, "caller": caller,
            "refused": refusal.map(|refusal| json!({ "code": refusal.code, "why": refusal.why })),
        });
        self.ledger.add_from_outside("gate-call", details);
        self.tally.gate_call(kind, refusal.is_some());
    }

    fn do_it(&self, process: &PidFd, call: &Call, caller: &Caller) -> Answer {
        match call {
            Call::Grants => {
                let mut result = self.grants[caller.layer.to_string()].clone();
                // The client's sandbox lets it reach the agent's server alone.
                let reaches = caller.layer == Layer::Server;
                result["hosts"] = json!(if reaches { self.guard.hosts() } else { Vec::new() });
                result["ask"] = "paddock ask host NAME".into();
                Answer::Done { result }
            }
            Call::Report { state, message } => self.report(state, message.as_deref()),
            Call::Notify { title, body } => {
                if !self.may_tell() {
                    return too_often();
                }
                let body = body.as_deref().map(|body| format!(": {}", shown(body)));
                let text = format!("{}{}", shown(title), body.unwrap_or_default());
                self.ledger.add_from_outside("notify", json!({ "text": text }));
                self.notices.agent_says(&text);
                Answer::Done { result: Value::Null }
            }
            Call::RequestHost { host, reason, wait } => match canonical_host(host) {
                Ok(host) => self.ask(process, &Wanted::Host(host), reason.as_deref(), *wait),
                Err(why) => Answer::Refused { code: "bad-host".into(), why },
            },
            Call::RequestPath { path, write, reason, wait } => match asked_path(path) {
                Ok(path) => {
                    let wanted = Wanted::Path { path, write: *write };
                    self.ask(process, &wanted, reason.as_deref(), *wait)
                }
                Err(why) => Answer::Refused { code: "bad-path".into(), why },
            },
        }
    }

    fn report(&self, state: &str, message: Option<&str>) -> Answer {
        const STATES: [&str; 4] = ["working", "blocked", "idle", "done"];
        if !STATES.contains(&state) {
            let why = format!("a state is one of {}", STATES.join(", "));
            return Answer::Refused { code: "bad-state".into(), why };
        }
        let message = message.map(shown);
        let details = json!({ "state": state, "message": message });
        self.ledger.add_from_outside("report", details);
        if let Some((relay, _)) = &self.herdr {
            relay.report(state, message.as_deref());
        }
        Answer::Done { result: Value::Null }
    }

    /// A person grants something: whoever asked for it is told, and how many did.
    pub(super) fn grant(&self, wanted: &Wanted, scope: Scope) -> Result<usize, String> {
        if let Wanted::Host(host) = wanted {
            self.guard.grant(host, scope)?;
        }
        let details = json!({ "wanted": wanted, "scope": scope });
        self.ledger.add("granted", details);
        Ok(self.questions.answer(|asked| is_answer(wanted, scope, asked), Reply::Granted(scope)))
    }

    /// A person does not.
    pub(super) fn deny(&self, wanted: &Wanted) -> usize {
        self.ledger.add("denied", json!({ "wanted": wanted }));
        self.questions.answer(|asked| asked == wanted, Reply::Denied)
    }

    /// A person takes a host back.
    pub(super) fn revoke(&self, host: &str) -> Result<Revoked, String> {
        let revoked = self.guard.revoke(host)?;
        self.ledger.add("revoked", json!({ "host": host, "wasGranted": revoked.was_granted }));
        Ok(revoked)
    }

    /// The questions that wait.
    pub(super) fn waiting(&self) -> Value {
        let waiting = self.questions.waiting();
        waiting
            .iter()
            .map(|(number, wanted)| json!({ "number": number, "wanted": wanted }))
            .collect()
    }

    /// Not too often: the person has one screen.
    pub(super) fn may_tell(&self) -> bool {
        let mut last = self.last_told.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| last.elapsed() >= PAUSE);
        if may {
            *last = Some(Instant::now());
        }
        may
    }
}

pub(super) fn too_often() -> Answer {
    Answer::Refused { code: "too-often".into(), why: "wait a moment".into() }
}

/// A caller's text, without what draws, cut.
pub(super) fn shown(text: &str) -> String {
    escape_short(text.as_bytes(), MOST_TEXT).to_string()
}
