//! From a name to its addresses.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use resolv_conf::Config;
use tokio::sync::Semaphore;

/// Turns a name into addresses.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of a name, in the order in which they should be tried.
    ///
    /// The name is canonical (lower case, no final dot), on the allow list, and
    /// meant as it stands: no search domain may be added to it. The guard asks
    /// once for each request and waits for five seconds. It checks all of the
    /// addresses, refuses more than 256, and tries the first 64.
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

/// Asks the name servers of the system over DNS.
///
/// They are those of `/etc/resolv.conf`, resolv.conf(5), which is read for each
/// look-up; of its options only `timeout` and `edns0` are followed. Names
/// are asked for as they stand: there are no search domains, no hosts file and no
/// other source of names, and an exception in the [`Policy`](crate::Policy) does
/// what those would do. Nothing is remembered from one look-up to the next.
/// Addresses of both families are asked for; of a chain of aliases at most eight
/// are followed that the name server did not follow itself.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    configuration: PathBuf,
    /// Where name servers listen.
    port: u16,
    lookups: Arc<Semaphore>,
}

/// resolv.conf(5).
const CONFIGURATION: &str = "/etc/resolv.conf";
/// The port of name servers, RFC 1035.
const DNS_PORT: u16 = 53;
/// Lookups at once. Each has a few sockets; descriptors are for others, too.
const MAX_LOOKUPS: usize = 64;
/// As many as the C library asks, `MAXNS` of resolv.conf(5).
const MAX_SERVERS: usize = 3;
/// The longest wait for one answer: a second try fits into the guard's patience.
const ANSWER_DEADLINE: Duration = Duration::from_secs(2);
/// What follows a first try that was not answered.
const RETRIES: usize = 1;

impl SystemResolver {
    /// Makes a resolver; its clones share a limit on simultaneous lookups.
    pub fn new() -> Self {
        Self::configured(CONFIGURATION.into(), DNS_PORT)
    }

    fn configured(configuration: PathBuf, port: u16) -> Self {
        Self { configuration, port, lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    /// A resolver for one look-up, of the name servers of the moment.
    fn once(&self) -> io::Result<TokioResolver> {
        // A line that cannot be read is skipped, as the C library does.
        let (configured, _) = Config::parse_with_errors(&std::fs::read(&self.configuration)?);
        let servers = configured.nameservers.iter().map(|server| {
            let mut server = NameServerConfig::udp_and_tcp(server.into());
            server.connections.iter_mut().for_each(|connection| connection.port = self.port);
            server
        });
        let servers: Vec<_> = servers.take(MAX_SERVERS).collect();
        if servers.is_empty() {
            return Err(io::Error::other("the system has no name servers"));
        }
        let configuration = ResolverConfig::from_name_servers(servers);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(configuration, provider);
        let options = builder.options_mut();
        let timeout = Duration::from_secs(configured.timeout.into());
        options.timeout = timeout.clamp(Duration::from_secs(1), ANSWER_DEADLINE);
        options.attempts = RETRIES;
        options.edns0 = configured.edns0;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.cache_size = 0;
        builder.build().map_err(io::Error::other)
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let _slot = self.lookups.acquire().await.map_err(io::Error::other)?;
        let absolute = Name::from_ascii(format!("{name}.")).map_err(io::Error::other)?;
        match self.once()?.lookup_ip(absolute).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) if error.is_nx_domain() => {
                Err(io::Error::new(io::ErrorKind::NotFound, "there is no such name"))
            }
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            // What a name server said may be in there.
            Err(error) => Err(io::Error::other(error.to_string().escape_debug().to_string())),
        }
    }
}

#[cfg(test)]
mod tests;
