//! The ports of a launch.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

use super::Tier;
use crate::error::Error;

/// Ports on the pen's loopback (on the host's in the ported tier).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// The agent's server.
    pub(crate) server: u16,
    /// The guard, the server sandbox's proxy.
    pub(crate) guard: u16,
}

/// Keeps ports of the host for whoever will listen on them. A socket that is
/// bound with `SO_REUSEADDR` and does not listen is in nobody's way who binds
/// that very port with the same option, as servers do; but the kernel gives the
/// port to nobody who takes any (`socket(7)`, `ip(7)`).
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldPorts {
    server: Arc<Mutex<Option<OwnedFd>>>,
    _guard: Arc<Option<OwnedFd>>,
}

impl HeldPorts {
    /// Gives up the agent's port, right before the agent starts: not every
    /// program has heard of the option.
    pub(crate) fn release_server(&self) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// In a network of its own every port is free. On the host's loopback the
/// kernel chooses both.
pub(super) fn choose(tier: Tier) -> Result<(Ports, HeldPorts), Error> {
    if tier.isolates_network() {
        let ports = Ports { server: 4600, guard: 4601 };
        return Ok((ports, HeldPorts::default()));
    }
    hold_both().map_err(|e| Error::LayerStart {
        layer: "pen",
        reason: format!("no free port on loopback: {e}"),
        log: String::new(),
    })
}

fn hold_both() -> std::io::Result<(Ports, HeldPorts)> {
    let ((server, held), (guard, other)) = (hold()?, hold()?);
    let held =
        HeldPorts { server: Arc::new(Mutex::new(Some(held))), _guard: Arc::new(Some(other)) };
    Ok((Ports { server, guard }, held))
}

fn hold() -> std::io::Result<(u16, OwnedFd)> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let bound = SocketAddrV4::try_from(getsockname(&socket)?)?;
    Ok((bound.port(), socket))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_held_port_is_free_for_who_names_it_and_for_nobody_else() {
        let (port, held) = hold().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        drop(listener);
        let others: Vec<_> = (0..500).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port));
        drop(held);
    }
}
