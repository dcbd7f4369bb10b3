//! What is told about each request.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::Host;
use crate::refusal::Denial;
use crate::traffic::Traffic;

/// Takes the records. It is called from within the runtime: it must not block
/// for long, and must not panic.
pub type Recorder = Arc<dyn Fn(Record) + Send + Sync>;

/// The longest text that is recorded of a host that is not one, in characters.
const MAX_RAW_HOST: usize = 255;

/// One fact about one request.
///
/// Each request has exactly one record with [`Event::Decided`]; one that was
/// allowed has a second one with [`Event::Closed`] for its end, also when it was
/// cut. No field holds unescaped bytes of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Which of its two moments the record is about.
    pub event: Event,
    /// Counts the requests of one guard; both records of one have the same.
    pub request: u64,
    /// The host in canonical form ([`Host`]). If it has none, what was sent in
    /// its place, escaped and cut; empty if there was nothing to read.
    pub host: String,
    /// The port that was asked for, if one could be read.
    pub port: Option<u16>,
    /// Allowed: the address that is connected to. Refused: the address that was
    /// refused, if that was the reason. Failed: the address that was tried last.
    pub address: Option<IpAddr>,
    /// What the guard decided.
    pub decision: Decision,
    /// Why, as a word that does not change: kebab-case.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
    /// Bytes that the upstream took: of the tunnel, or of the request that was
    /// sent on, its head included.
    pub sent: u64,
    /// Bytes that came back from the upstream.
    pub received: u64,
}

/// The moment that a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The upstream was connected to, or will not be.
    Decided,
    /// The tunnel or the forwarded request has ended; the byte counts are final.
    Closed,
}

/// What the guard decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The client got its connection.
    Allowed,
    /// The guard would not.
    Refused,
    /// The guard could not, or the client left.
    Failed,
}

/// A record in the making. It is handed to the recorder when it is dropped, so
/// that a request leaves one whichever way it ends.
pub(crate) struct Entry {
    pub(crate) record: Record,
    traffic: Arc<Traffic>,
    recorder: Recorder,
}

impl Entry {
    /// The entry of a request about which nothing is known yet.
    pub(crate) fn new(recorder: &Recorder, request: u64) -> Self {
        let record = Record {
            event: Event::Decided,
            request,
            host: String::new(),
            port: None,
            address: None,
            decision: Decision::Failed,
            reason: "abandoned",
            message: "the request ended before it was decided".to_owned(),
            sent: 0,
            received: 0,
        };
        Self { record, traffic: Arc::new(Traffic::new()), recorder: Arc::clone(recorder) }
    }

    /// Where the bytes that belong to the request are counted.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Notes what is asked for: the host in canonical form if it has one.
    pub(crate) fn asked(&mut self, raw: &str, host: Option<&Host>, port: Option<u16>) {
        self.record.host = match host {
            Some(host) => host.to_string(),
            None => raw.escape_default().take(MAX_RAW_HOST).collect(),
        };
        self.record.port = port;
    }

    /// The request gets no connection.
    pub(crate) fn deny(mut self, denial: &Denial) {
        self.record.decision = match denial {
            Denial::Refused(_) => Decision::Refused,
            Denial::Failed(_) => Decision::Failed,
        };
        self.record.address = denial.address();
        self.note(denial.code(), denial.to_string());
    }

    /// The request gets a connection to this address; the entry that is returned is
    /// for its end.
    pub(crate) fn allow(mut self, address: IpAddr, reason: &'static str) -> Self {
        self.record.decision = Decision::Allowed;
        self.record.address = Some(address);
        self.note(reason, format!("connected to {address}"));

        let mut closing = Self {
            record: self.record.clone(),
            traffic: self.traffic(),
            recorder: Arc::clone(&self.recorder),
        };
        closing.record.event = Event::Closed;
        closing.note("aborted", "the connection was cut by the guard".to_owned());
        closing
    }

    /// The connection was cut because the policy changed.
    pub(crate) fn revoked(&mut self) {
        self.note("revoked", "the policy does not allow the connection any more".to_owned());
    }

    /// The connection was cut because nothing had passed for long.
    pub(crate) fn idle(&mut self) {
        self.note("idle", "no byte had passed for half an hour".to_owned());
    }

    /// Sets the reason.
    pub(crate) fn note(&mut self, reason: &'static str, message: String) {
        self.record.reason = reason;
        self.record.message = message;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.record.sent = self.traffic.sent();
        self.record.received = self.traffic.received();
        (self.recorder)(self.record.clone());
    }
}
