//! From an allowed host to a connection: resolve once, check everything,
//! connect to what was checked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::refusal::{Denial, Failure};
use crate::{Refusal, Resolver, Route, check};

/// How long a name may take to resolve.
const RESOLVE_DEADLINE: Duration = Duration::from_secs(5);
/// The longest answer that is looked at, in addresses: no service has more.
const MAX_ANSWER: usize = 256;
/// How many of them are tried.
const MAX_TRIED: usize = 64;
/// How long all attempts to connect may take together.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// The addresses that may be connected to. Asks the resolver at most once.
pub(crate) async fn addresses<R: Resolver>(
    resolver: &R,
    route: Route<'_>,
) -> Result<Vec<IpAddr>, Denial> {
    let (name, place) = match route {
        Route::Resolve(name) => (name, None),
        Route::Within(name, place) => (name, Some(place)),
        Route::Literal(address) => {
            refuse_own(address)?;
            return Ok(vec![address]);
        }
        Route::Exception(address) => return Ok(vec![address]),
    };
    let mut found = timeout(RESOLVE_DEADLINE, resolver.resolve(name))
        .await
        .map_err(|_| Failure::ResolveTimeout)?
        .map_err(Failure::Resolve)?;
    if found.is_empty() {
        return Err(Failure::NoAddress.into());
    }
    if found.len() > MAX_ANSWER {
        return Err(Refusal::TooManyAddresses { count: found.len() }.into());
    }
    for &address in &found {
        if !place.is_some_and(|place| place.contains(address)) {
            check(address)?;
            refuse_own(address)?;
        }
    }
    found.truncate(MAX_TRIED);
    Ok(found)
}

/// Refuses an address of this host's own: what listens here is behind no firewall
/// to whom connects from here.
fn refuse_own(address: IpAddr) -> Result<(), Denial> {
    let own = is_own(address).map_err(|error| Failure::Connect { address, error })?;
    if own { Err(Refusal::OwnAddress { address }.into()) } else { Ok(()) }
}

/// Whether this host has the address: it would be reached from itself. Nothing is
/// sent, a datagram socket's connect(2) only chooses the way (udp(7)).
fn is_own(address: IpAddr) -> io::Result<bool> {
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = match UdpSocket::bind((any, 0)) {
        Ok(socket) => socket,
        // A host without IPv6 has no such address.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
            return Ok(false);
        }
        Err(e) => return Err(e),
    };
    // Where there is no way, a stream will find none either.
    Ok(socket.connect((address, 443)).is_ok() && socket.local_addr()?.ip() == address)
}

/// Connects to the first address that answers, with `dial`.
pub(crate) async fn connect<S, F, D>(
    addresses: &[IpAddr],
    port: u16,
    dial: D,
) -> Result<(S, IpAddr), Failure>
where
    F: Future<Output = io::Result<S>>,
    D: Fn(SocketAddr) -> F,
{
    let deadline = Instant::now() + CONNECT_DEADLINE;
    let mut failure = Failure::NoAddress;
    for (&address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
        // An equal share of the time that is left: one address that swallows
        // everything must not keep the others from being tried.
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        let attempt = dial(SocketAddr::new(address, port));
        failure = match timeout_at(Instant::now() + share, attempt).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => Failure::Connect { address, error },
            Err(_) => Failure::ConnectTimeout { address },
        };
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// Gives its answers one after the other, then none.
    struct Script(Mutex<VecDeque<Vec<IpAddr>>>);

    impl Resolver for Script {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let answer = self.0.lock().unwrap().pop_front();
            answer.ok_or_else(|| io::Error::other("asked once too often"))
        }
    }

    fn script(answers: &[&[&str]]) -> Script {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        Script(Mutex::new(answers.iter().map(parse).collect()))
    }

    #[tokio::test]
    async fn the_checked_addresses_are_the_ones_connected_to() {
        // A name that is public when it is checked and local a moment later.
        let rebinding = script(&[&["8.8.8.8", "2606:4700::1111"], &["127.0.0.1"]]);
        let checked = addresses(&rebinding, Route::Resolve("rebind.example")).await.unwrap();
        let dialled = Mutex::new(Vec::new());
        let (stream, address) = connect(&checked, 443, |to: SocketAddr| {
            dialled.lock().unwrap().push(to.to_string());
            async move { if to.is_ipv6() { Ok("stream") } else { Err(io::Error::other("no")) } }
        })
        .await
        .unwrap();
        assert_eq!(stream, "stream");
        assert_eq!(address, "2606:4700::1111".parse::<IpAddr>().unwrap());
        assert_eq!(*dialled.lock().unwrap(), ["8.8.8.8:443", "[2606:4700::1111]:443"]);
        assert_eq!(rebinding.0.lock().unwrap().len(), 1, "resolved more than once");
    }

    #[tokio::test]
    async fn one_bad_address_refuses_all() {
        for (answer, refused) in [
            (&["127.0.0.1"][..], Some("127.0.0.1")),
            (&["8.8.8.8", "10.0.0.1"], Some("10.0.0.1")),
            (&["2606:4700::1111", "::ffff:10.0.0.1", "8.8.8.8"], Some("::ffff:10.0.0.1")),
            (&["8.8.8.8", "1.1.1.1"], None),
        ] {
            let found = addresses(&script(&[answer]), Route::Resolve("a.example")).await;
            let address = found.err().and_then(|denial| denial.address());
            assert_eq!(address, refused.map(|text| text.parse().unwrap()), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn a_network_excepts_its_own_addresses_alone() {
        let route = Route::Within("a.lan", "10.0.0.0/8".parse().unwrap());
        for (answer, refused) in [
            (&["10.1.2.3"][..], None),
            (&["10.1.2.3", "8.8.8.8", "::ffff:10.9.9.9"], None),
            (&["10.1.2.3", "127.0.0.1"], Some("127.0.0.1")),
            (&["192.168.0.1", "10.1.2.3"], Some("192.168.0.1")),
            (&["64:ff9b::10.1.2.3"], Some("64:ff9b::a01:203")),
        ] {
            let found = addresses(&script(&[answer]), route).await;
            let address = found.err().and_then(|denial| denial.address());
            assert_eq!(address, refused.map(|text| text.parse().unwrap()), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn literals_and_exceptions_are_not_resolved() {
        let address = "10.0.0.1".parse().unwrap();
        for route in [Route::Literal(address), Route::Exception(address)] {
            assert_eq!(addresses(&script(&[]), route).await.unwrap(), [address]);
        }
    }

    #[tokio::test]
    async fn an_address_of_the_host_itself_is_refused_unless_it_is_excepted() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let literal = addresses(&script(&[]), Route::Literal(own)).await.unwrap_err();
        assert_eq!((literal.code(), literal.address()), ("own-address", Some(own)));
        assert_eq!(addresses(&script(&[]), Route::Exception(own)).await.unwrap(), [own]);
        assert!(!is_own(IpAddr::from([8, 8, 8, 8])).unwrap());
    }

    #[tokio::test]
    async fn all_of_an_answer_is_checked_and_not_all_of_it_tried() {
        let public = |count| vec![IpAddr::from([8, 8, 8, 8]); count];
        let mut local = public(255);
        local.push(IpAddr::from([127, 0, 0, 1]));
        for (answer, result) in [
            (public(64), Ok(64)),
            (public(256), Ok(64)),
            (public(257), Err("too-many-addresses")),
            (local, Err("special-address")),
        ] {
            let count = answer.len();
            let resolver = Script(Mutex::new([answer].into()));
            let found = addresses(&resolver, Route::Resolve("a.example")).await;
            let found = found.map(|found| found.len()).map_err(|denial| denial.code());
            assert_eq!(found, result, "{count}");
        }
    }

    #[tokio::test]
    async fn failures_are_told_apart() {
        let none = addresses(&script(&[&[]]), Route::Resolve("a.example")).await.unwrap_err();
        assert_eq!(none.code(), "no-address");
        let error = addresses(&script(&[]), Route::Resolve("a.example")).await.unwrap_err();
        assert_eq!(error.code(), "resolve-failed");
        let address = ["8.8.8.8".parse().unwrap()];
        let refused = connect(&address, 1, |_| async {
            Err::<(), _>(io::ErrorKind::ConnectionRefused.into())
        });
        assert_eq!(refused.await.unwrap_err().code(), "connect-failed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_leaves_time_for_the_next() {
        let start = Instant::now();
        let silent: [IpAddr; 2] = ["8.8.8.8".parse().unwrap(), "1.1.1.1".parse().unwrap()];
        let second = connect(&silent, 443, |to: SocketAddr| async move {
            if to.ip() == silent[0] { std::future::pending().await } else { Ok(()) }
        });
        assert_eq!(second.await.unwrap().1, silent[1]);
        assert_eq!(start.elapsed().as_secs(), CONNECT_DEADLINE.as_secs() / 2);

        let start = Instant::now();
        let none = connect(&silent, 443, |_| std::future::pending::<io::Result<()>>()).await;
        assert_eq!(none.unwrap_err().code(), "connect-timeout");
        assert_eq!(start.elapsed().as_secs(), CONNECT_DEADLINE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_resolver_is_given_up() {
        struct Silent;
        impl Resolver for Silent {
            async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
                std::future::pending().await
            }
        }
        let start = Instant::now();
        let denial = addresses(&Silent, Route::Resolve("a.example")).await.unwrap_err();
        assert_eq!(denial.code(), "resolve-timeout");
        assert_eq!(start.elapsed().as_secs(), RESOLVE_DEADLINE.as_secs());
    }
}
