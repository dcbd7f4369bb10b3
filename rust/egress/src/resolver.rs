//! From a name to its addresses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Turns a name into addresses.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of a name, in the order in which they should be tried.
    ///
    /// The name is canonical (lower case, no final dot), on the allow list, and
    /// meant as it stands: no search domain may be added to it. The guard asks
    /// once for each request and waits for five seconds.
    ///
    /// # Errors
    ///
    /// The name does not exist or could not be looked up. The text of the error
    /// goes into a [`Record`](crate::Record) and into the reply.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

impl<T: Resolver> Resolver for Arc<T> {
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send {
        T::resolve(self, name)
    }
}

/// The resolver of the operating system (`getaddrinfo`).
///
/// It asks for the name with a final dot: the network's search domains cannot
/// turn an allowed name into another one. As a consequence entries of the local
/// hosts file do not match; an exception in the [`Policy`](crate::Policy) does
/// what they would do.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

/// Lookups at once. Each occupies a thread of the runtime's blocking pool, also
/// when nobody waits for it any longer; the pool is for others, too.
const MAX_LOOKUPS: usize = 64;

impl SystemResolver {
    /// Makes a resolver; its clones share a limit on simultaneous lookups.
    pub fn new() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let slot = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let absolute = format!("{name}.");
        // A task of its own keeps the slot until the thread is free again, also
        // when the caller gives up.
        let lookup = tokio::spawn(async move {
            let found = tokio::net::lookup_host((absolute, 0)).await;
            drop(slot);
            found.map(|addresses| addresses.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}
