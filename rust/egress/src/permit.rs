//! What allows a connection, for as long as it is open.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::Policy;
use crate::target::Target;

/// The policy that a connection needs.
pub(crate) struct Permit {
    policy: watch::Receiver<Arc<Policy>>,
    target: Target,
    address: IpAddr,
    /// It needs none: it was granted for itself.
    once: bool,
}

impl Permit {
    /// A permit for a connection to `address`, that `policy` or, with `once`, a
    /// grant for this one request allowed.
    pub(crate) fn new(
        policy: watch::Receiver<Arc<Policy>>,
        target: Target,
        address: IpAddr,
        once: bool,
    ) -> Self {
        Self { policy, target, address, once }
    }

    /// Waits until the policy of the day does not allow the connection any more.
    pub(crate) async fn revoked(&mut self) {
        let Self { policy, target, address, once } = self;
        let forbids = |policy: &Arc<Policy>| !policy.permits(&target.host, target.port, *address);
        if *once || policy.wait_for(forbids).await.is_err() {
            // Nothing can change it; in the second case for want of a guard.
            std::future::pending::<()>().await;
        }
    }
}
