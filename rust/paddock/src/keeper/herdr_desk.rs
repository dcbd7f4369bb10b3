//! The desk for those who speak herdr's protocol, and what herdr is told.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use confine::pidfd::PidFd;
use serde_json::json;
use warden::receive_piece;

use super::calls::Desk;
use super::gatehouse::not_the_caller;
use crate::agent::RequestKind;
use crate::error::Error;
use crate::gate::herdr::{
    HerdrClient, MOST_REQUEST_BYTES, Outcome, OwnPane, Record, Relay, read_line_by, turn_away,
};
use crate::state::Ledger;

/// The way to the herdr that this process has a pane of, if it has.
pub(super) fn open_relay(
    pane: Option<OwnPane>,
    ledger: &Arc<Ledger>,
) -> Result<Option<Relay>, Error> {
    let Some(pane) = pane else { return Ok(None) };
    let (client, ledger) = (HerdrClient::new(pane.socket()), ledger.clone());
    let note = move |told: &str, said: &str| {
        ledger.add_from_outside("herdr", json!({ "report": told, "said": said }));
    };
    let relay = Relay::start(pane, client, note);
    relay.map(Some).map_err(|e| Error::NoThread { what: "herdr", reason: e.to_string() })
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
        match &self.relay {
            Some(relay) => {
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
        if let Some(relay) = &self.relay {
            relay.close();
        }
    }
}
