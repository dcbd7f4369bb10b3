//! What allows a connection, for as long as it is open.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::Policy;
use crate::once::TakenBack;
use crate::target::Target;

/// The policy that a connection needs.
pub(crate) struct Permit {
    policy: watch::Receiver<Arc<Policy>>,
    target: Target,
    address: IpAddr,
    /// It needs none: it was granted for itself, until that is taken back.
    once: Option<TakenBack>,
}

impl Permit {
    /// A permit for a connection to `address`, that `policy` or, with `once`, a
    /// grant for this one request allowed.
    pub(crate) fn new(
        policy: watch::Receiver<Arc<Policy>>,
        target: Target,
        address: IpAddr,
        once: Option<TakenBack>,
    ) -> Self {
        Self { policy, target, address, once }
    }

    /// Waits until the policy of the day does not allow the connection any more, or
    /// what was granted for itself was taken back.
    pub(crate) async fn revoked(&mut self) {
        let Self { policy, target, address, once } = self;
        let forbids = |policy: &Arc<Policy>| !policy.permits(&target.host, target.port, *address);
        let is_revoked = match once {
            Some(taken_back) => taken_back.wait_for(|taken_back| *taken_back).await.is_ok(),
            None => policy.wait_for(forbids).await.is_ok(),
        };
        if !is_revoked {
            // Nothing can change it for want of a guard.
            std::future::pending::<()>().await;
        }
    }
}
