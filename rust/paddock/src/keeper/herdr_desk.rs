//! The desk for those who speak herdr's protocol, and what herdr is told.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use confine::Verdict;
use confine::pidfd::PidFd;
use serde_json::json;
use warden::receive_piece;

use super::calls::Desk;
use super::gatehouse::not_the_caller;
use super::report::Report;
use crate::agent::RequestKind;
use crate::error::Error;
use crate::gate::herdr::{
    HerdrClient, MOST_REQUEST_BYTES, Outcome, Record, Relay, Sign, Standing, read_line_by,
    turn_away,
};
use crate::launch::Plan;
use crate::state::Ledger;

/// The two ways to the herdr that this process has a pane of, if it has: for what the
/// agent says of itself, and for what the keeper found.
pub(super) fn open_ways(plan: &Plan, ledger: &Arc<Ledger>) -> Result<Option<(Relay, Sign)>, Error> {
    let Some(pane) = plan.pane() else { return Ok(None) };
    let note = |what: &'static str| {
        let ledger = ledger.clone();
        move |told: &str, said: &str| {
            ledger.add_from_outside("herdr", json!({ what: told, "said": said }));
        }
    };
    let failed = |e: std::io::Error| Error::NoThread { what: "herdr", reason: e.to_string() };
    let client = || HerdrClient::new(pane.socket());
    let sign = Sign::start(pane.clone(), plan.tier.name(), client(), note("sign"));
    let sign = sign.map_err(failed)?;
    let relay = Relay::start(pane.clone(), client(), note("report")).map_err(failed)?;
    Ok(Some((relay, sign)))
}

impl Desk {
    /// Serves a caller that speaks herdr's protocol: one request, as herdr does. Who
    /// asks is established when the request is there, so that it is who is served.
    ///
    /// # Errors
    /// Why there is no request: it did not end in time, or at all. herdr does not
    /// answer to that, either.
    pub(super) fn serve_herdr(
        &self,
        stream: &UnixStream,
        process: &PidFd,
        deadline: Instant,
    ) -> Result<(), String> {
        let caller = process.id().pid;
        let mut is_all_its_own = true;
        let receive = |buffer: &mut [u8]| {
            // Descriptors that somebody sends along are closed.
            let (read, writer) = receive_piece(stream.as_fd(), buffer, &mut Vec::new())?;
            is_all_its_own &= read == 0 || writer == Some(caller);
            Ok(read)
        };
        let line = read_line_by(stream, MOST_REQUEST_BYTES, deadline, receive)
            .map_err(|e| format!("its request in herdr's protocol did not end: {}", e.kind()))?;
        let (answer, record) = if is_all_its_own {
            self.answer_herdr(&line, process)
        } else {
            turn_away(&line, &not_the_caller().to_string())
        };
        let details = json!({ "herdr": record, "process": process.id() });
        self.ledger.add_from_outside("herdr", details);
        let _ = (&*stream).write_all(&answer);
        Ok(())
    }

    fn answer_herdr(&self, line: &[u8], process: &PidFd) -> (Vec<u8>, Record) {
        if let Err(refusal) = self.admit(process, RequestKind::Herdr) {
            return turn_away(line, &refusal.to_string());
        }
        match &self.herdr {
            Some((relay, _)) => {
                let (answer, record) = relay.answer(line);
                if record.outcome == Outcome::Refused {
                    self.tally.sent_away();
                }
                (answer, record)
            }
            None => turn_away(line, "paddock was not started in a pane of herdr's"),
        }
    }

    /// The agent has ended: what herdr shows of it goes.
    pub(super) fn release_pane(&self) {
        if let Some((relay, sign)) = &self.herdr {
            sign.close();
            relay.close();
        }
    }

    /// A pass of the watch is over: herdr shows what it found.
    pub(super) fn show_report(&self, report: &Report) {
        if let Some((_, sign)) = &self.herdr {
            sign.show(standing(report));
        }
    }

    /// Everything is stopped, and so will be who could tell herdr of it.
    pub(super) fn show_suspension(&self) {
        if let Some((_, sign)) = &self.herdr {
            sign.show_now(Standing::Suspended);
        }
    }
}

/// What a pass found, taken together.
pub(super) fn standing(report: &Report) -> Standing {
    match report.first_failure() {
        _ if report.holds() => Standing::Confined,
        Some(task) if matches!(task.verdict, Verdict::Unconfined(_)) => Standing::Unconfined,
        _ => Standing::Unknown,
    }
}
