//! Connections into the pen's network, for a person's own `paddock port`.
//!
//! The pen's warden makes sockets there, unconnected; the keeper connects one, to the
//! loopback of that network, and hands it to whoever asked at its own socket on the
//! host. Bytes do not pass through the keeper, and nothing inside takes part: whatever
//! listens in the pen sees a connection from its own loopback.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use confine::Layer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{connect, sockopt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Keeper;
use super::roster::Roster;
use crate::state::Ledger;
use warden::{Channel, Link};

/// So many ports are forwarded at a time, each on a thread of its own.
const MOST_FORWARDS: usize = 16;
/// For a connection on a loopback to be there: longer is a queue that is full.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long whoever asked may not take what it asked for.
const SEND_LIMIT: Duration = Duration::from_secs(2);

/// Asks for one connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Dial {}

/// What came of it; the connection travels along.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Dialled {
    /// Why there is none.
    pub(crate) error: Option<String>,
}

/// Who forwards ports of one launch.
#[derive(Clone)]
pub(super) struct Forwarder {
    roster: Arc<Roster>,
    ledger: Arc<Ledger>,
    /// None in the tier whose ports are the host's.
    taken: Option<Taken>,
    open: Arc<AtomicUsize>,
}

/// Ports of the launch that are not the agent's tools'.
#[derive(Clone, Copy)]
struct Taken {
    guard: u16,
    /// Of an agent whose client meets its server at one.
    server: Option<u16>,
}

impl Taken {
    fn of(guard: u16, link: Option<&Link>) -> Self {
        Self { guard, server: link.and_then(Link::port) }
    }
}

/// A forward that counts as open for as long as this lives.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Forwarder {
    pub(super) fn new(keeper: &Keeper<'_>) -> Self {
        let plan = keeper.plan;
        let taken = Taken::of(plan.ports.guard, plan.link());
        Self {
            roster: keeper.roster.clone(),
            ledger: keeper.ledger.clone(),
            taken: plan.tier.isolates_network().then_some(taken),
            open: Arc::default(),
        }
    }

    /// Whether `port` may be forwarded, or why not.
    fn check(&self, port: u16) -> Result<(), String> {
        let Some(taken) = self.taken else {
            return Err(format!(
                "in the ported tier a launch has no network of its own: what listens there listens \
                 on the host's 127.0.0.1:{port} already"
            ));
        };
        match port {
            0 => Err("0 is no port".into()),
            _ if port == taken.guard => Err("that port is Paddock's own, the guard's".into()),
            _ if Some(port) == taken.server => Err("that port is the agent's own".into()),
            _ => Ok(()),
        }
    }

    /// Serves one `paddock port` on a thread of its own, for as long as it stays.
    ///
    /// # Errors
    /// Why not; it has not been told.
    pub(super) fn serve(
        &self,
        stream: UnixStream,
        port: u16,
        listens: SocketAddr,
    ) -> Result<(), (UnixStream, String)> {
        if let Err(why) = self.check(port) {
            return Err((stream, why));
        }
        if self.open.fetch_add(1, Ordering::AcqRel) >= MOST_FORWARDS {
            self.open.fetch_sub(1, Ordering::AcqRel);
            return Err((stream, format!("{MOST_FORWARDS} ports are forwarded already")));
        }
        let open = Open(self.open.clone());
        // Handed over only once there is a thread that takes it.
        let (hand, handed) = std::sync::mpsc::sync_channel(1);
        let forwarder = self.clone();
        let thread = std::thread::Builder::new().name("forward".into()).spawn(move || {
            let _open = open;
            if let Ok(stream) = handed.recv() {
                forwarder.forward(stream, port, listens);
            }
        });
        match thread {
            Ok(_) => {
                // Its receiver lives until it has received.
                let _ = hand.send(stream);
                Ok(())
            }
            Err(e) => Err((stream, format!("no thread can be started for it: {e}"))),
        }
    }

    fn forward(&self, stream: UnixStream, port: u16, listens: SocketAddr) {
        let listens = listens.to_string();
        self.ledger.add("port-opened", json!({ "port": port, "listens": listens }));
        super::control::respond(&stream, &json!({ "ok": true }));
        let channel = Channel::new(stream);
        let (mut connections, mut failed) = (0u64, 0u64);
        if channel.set_patience(SEND_LIMIT).is_ok() {
            while channel.receive::<Dial>().is_ok() {
                let told = match self.dial(port) {
                    Ok(socket) => {
                        connections += 1;
                        channel.send(&Dialled { error: None }, &[socket.as_fd()])
                    }
                    Err(e) => {
                        failed += 1;
                        channel.send(&Dialled { error: Some(e.to_string()) }, &[])
                    }
                };
                if told.is_err() {
                    break;
                }
            }
        }
        let details = json!({
            "port": port, "listens": listens, "connections": connections, "failed": failed,
        });
        self.ledger.add("port-closed", details);
    }

    /// A connection to `port` of the pen's loopback: IPv4's, else IPv6's.
    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        let gone = || io::Error::other("the pen's warden is gone");
        // One that has not shown that it is in a network of its own makes none.
        let warden = self.roster.warden(Layer::Pen).filter(|warden| warden.is_proved());
        let warden = warden.ok_or_else(gone)?;
        let addresses: [SocketAddr; 2] =
            [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
        let mut refused = None;
        for (socket, address) in warden.make_sockets()?.into_iter().zip(addresses) {
            match connect_within(&socket, address) {
                Ok(()) => return Ok(socket),
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        Err(refused.unwrap_or_else(gone))
    }
}

/// Connects without waiting for longer than a loopback takes, and leaves the socket as
/// one that waits.
fn connect_within(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    match connect(socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let limit = Timespec::try_from(CONNECT_LIMIT).map_err(io::Error::other)?;
            let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
            if poll(&mut waiting, Some(&limit))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(socket)??;
        }
        Err(e) => return Err(e.into()),
    }
    Ok(rustix::io::ioctl_fionbio(socket, false)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    use super::*;

    #[test]
    fn the_port_at_which_an_agents_halves_meet_is_taken_whatever_they_speak() {
        let server = |link: &Link| Taken::of(4601, Some(link)).server;
        assert_eq!(server(&Link::Tcp(4600)), Some(4600));
        assert_eq!(server(&Link::Http(4600, "/ready".into())), Some(4600));
        assert_eq!(server(&Link::Unix("/l/s".into())), None);
        assert_eq!(Taken::of(4601, None).server, None);
    }

    fn forwarder(taken: Option<Taken>) -> Forwarder {
        let file = confine::proc::executable(confine::Pid::of_self()).unwrap();
        let pid = confine::Pid::of_self();
        let keeper = confine::ProcessId { pid, start: confine::StartTime(1) };
        let ledger = Ledger::below(std::path::Path::new("/nonexistent"));
        Forwarder {
            roster: Arc::new(Roster::new(keeper, 0, file, file, None)),
            ledger: Arc::new(ledger),
            taken,
            open: Arc::default(),
        }
    }

    #[test]
    fn a_ports_own_and_paddocks_are_not_forwarded() {
        let own = forwarder(Some(Taken { server: Some(4600), guard: 4601 }));
        let alone = forwarder(Some(Taken { server: None, guard: 4601 }));
        assert_eq!(alone.check(4600), Ok(()));
        assert_eq!(own.check(3000), Ok(()));
        for port in [0, 4600, 4601] {
            assert!(own.check(port).is_err(), "{port}");
        }
        let hosts = forwarder(None).check(3000).unwrap_err();
        assert!(hosts.contains("127.0.0.1:3000 already"), "{hosts}");
    }

    #[test]
    fn who_listens_is_reached_and_who_does_not_is_told_at_once() {
        let socket = || {
            let flags = SocketFlags::CLOEXEC;
            socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connected = socket();
        connect_within(&connected, address).unwrap();
        assert!(listener.accept().is_ok());
        drop(listener);
        let refused = connect_within(&socket(), address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
