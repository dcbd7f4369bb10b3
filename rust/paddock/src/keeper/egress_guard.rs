//! The guard in the keeper: accepts on the pen's own loopback, from outside.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use egress::{Guard, Policy, Record, Recorder, SystemResolver};
use tokio::sync::oneshot;

use crate::state::Ledger;

/// The running guard; dropping it cuts every connection.
pub(super) struct RunningGuard {
    stop: Option<oneshot::Sender<()>>,
}

/// Serves `listener` on a thread of its own.
pub(super) fn start(
    listener: TcpListener,
    policy: Policy,
    ledger: Arc<Ledger>,
) -> std::io::Result<RunningGuard> {
    listener.set_nonblocking(true)?;
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("guard".into()).spawn(move || {
        let recorder: Recorder = Arc::new(move |record: Record| {
            if let Ok(details) = serde_json::to_value(&record) {
                ledger.add_from_outside("egress", serde_json::json!({ "egress": details }));
            }
        });
        let guard = Arc::new(Guard::new(policy, SystemResolver::new(), recorder));
        runtime.block_on(async move {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                guard.run(listener, async { drop(stopped.await) }).await;
            }
        });
        // A look-up that hangs must not keep the keeper.
        runtime.shutdown_timeout(Duration::ZERO);
    })?;
    Ok(RunningGuard { stop: Some(stop) })
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}
