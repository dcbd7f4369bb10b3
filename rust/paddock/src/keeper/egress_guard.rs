//! The guard in the keeper: accepts on the pen's own loopback, from outside.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use egress::{Guard, Record, Recorder, Resolver, SystemResolver};
use tokio::sync::oneshot;

use super::grants::GuardHandle;
use super::tally::Tally;
use crate::launch::{PROXY_USER, Proxy, with_port};
use crate::state::Ledger;

/// Who turns names into addresses.
pub(super) enum Names {
    OfTheHost,
    Surveyed(Arc<SurveyedEgress>),
}

/// Names with known addresses, for the doctor: nothing is asked of the network, and
/// every question is kept, as is what the guard decided about each request.
pub(crate) struct SurveyedEgress {
    known: Vec<(String, IpAddr)>,
    asked: Mutex<Vec<String>>,
    records: Mutex<Vec<Record>>,
}

impl SurveyedEgress {
    pub(crate) fn new(known: Vec<(String, IpAddr)>) -> Self {
        Self { known, asked: Mutex::default(), records: Mutex::default() }
    }

    /// The names that were looked up, as often as they were.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the guard decided about each request, in their order.
    pub(crate) fn decided(&self) -> Vec<Record> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().filter(|record| record.event == egress::Event::Decided).cloned().collect()
    }

    fn keep(&self, record: Record) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

impl Resolver for SurveyedEgress {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        let known = self.known.iter().filter(|(known, _)| known == name);
        let found: Vec<IpAddr> = known.map(|(_, address)| *address).collect();
        if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }
}

/// The running guard; dropping it cuts every connection.
pub(super) struct RunningGuard {
    stop: oneshot::Sender<()>,
    ended: Receiver<()>,
}

impl RunningGuard {
    /// Cuts every connection and waits for the last records, but not for long:
    /// without it a few are missing.
    pub(super) fn end(self) {
        const LIMIT: Duration = Duration::from_secs(1);
        drop(self.stop);
        let _ = self.ended.recv_timeout(LIMIT);
    }
}

/// Serves `listener` on a thread of its own, by the hosts of `handle`.
pub(super) fn start(
    listener: TcpListener,
    handle: &GuardHandle,
    proxy: &Proxy,
    names: Names,
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
) -> io::Result<RunningGuard> {
    let policy = handle.policy().map_err(io::Error::other)?;
    listener.set_nonblocking(true)?;
    let (stop, stopped) = oneshot::channel();
    let (runs, ended): (Sender<()>, _) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let surveyed = match &names {
        Names::OfTheHost => None,
        Names::Surveyed(egress) => Some(egress.clone()),
    };
    let (handle, secret) = (handle.clone(), proxy.secret.clone());
    std::thread::Builder::new().name("guard".into()).spawn(move || {
        // Gone with the thread.
        let _runs = runs;
        let recorder: Recorder = Arc::new(move |record: Record| {
            tally.egress(&record);
            if let Ok(details) = serde_json::to_value(&record) {
                ledger.add_from_outside("egress", serde_json::json!({ "egress": details }));
            }
            if let Some(surveyed) = &surveyed {
                surveyed.keep(record);
            }
        });
        let stopped = async { drop(stopped.await) };
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            match names {
                Names::OfTheHost => {
                    let guard = Guard::new(policy, SystemResolver::new(), recorder);
                    serve(guard, secret, &handle, listener, stopped).await;
                }
                Names::Surveyed(names) => {
                    let guard = Guard::new(policy, names, recorder);
                    serve(guard, secret, &handle, listener, stopped).await;
                }
            }
        });
        // A look-up that hangs must not keep the keeper.
        runtime.shutdown_timeout(Duration::ZERO);
    })?;
    Ok(RunningGuard { stop, ended })
}

async fn serve<R: Resolver>(
    guard: Guard<R>,
    secret: Option<String>,
    handle: &GuardHandle,
    listener: tokio::net::TcpListener,
    stopped: impl Future<Output = ()>,
) {
    // A host alone means both of the usual ports; what is granted once, 443.
    let guard = guard.with_hint(|host, port| match port {
        443 => format!("next: paddock ask host {host}"),
        port => format!("next: paddock ask host {}", with_port(host, port)),
    });
    let guard = match secret {
        Some(secret) => guard.with_secret(PROXY_USER, &secret),
        None => guard,
    };
    let guard = Arc::new(guard);
    handle.attach(guard.clone());
    guard.run(listener, stopped).await;
}
