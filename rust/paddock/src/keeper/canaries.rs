//! What the self-tests try to reach. The keeper first shows, from outside, that
//! each can be reached at all; a canary lies where the outer layers let it
//! through, so that each layer is tested by itself.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use confine::{Layer, Pid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::stage::write_new;
use crate::agent::blocks_network;
use crate::error::Error;
use crate::launch::{Paths, Plan};
use crate::output::shown;
use warden::observe;
use warden::{AddedLimit, Attempt, AttemptKind, Expected, Observation, Outcome, UnixLimit};

/// The canaries of one launch; they live as long as this does.
pub(super) struct Canaries {
    /// On the host only.
    hidden_file: PathBuf,
    hidden_socket: PathBuf,
    /// In the veil, not granted to the pen.
    veil_file: PathBuf,
    veil_new_file: PathBuf,
    /// Granted to the pen, not to the sandboxes in it.
    pen_file: PathBuf,
    stream: PathBuf,
    datagram: PathBuf,
    seqpacket: PathBuf,
    /// Granted to all, where the kernel's rule about sockets is to be shown.
    mediated: Option<PathBuf>,
    abstract_name: Vec<u8>,
    port: SocketAddr,
    /// The host itself lets a process of this user make an `io_uring`.
    host_has_io_uring: bool,
    /// The host itself lets a connection be opened by sending.
    host_has_fast_open: bool,
    /// The host itself takes the calls of 32-bit programs.
    host_has_32_bit_calls: bool,
    has_veil: bool,
    isolates_network: bool,
    server_listens: bool,
    is_strict: bool,
    _sockets: (UnixListener, UnixListener, UnixDatagram, OwnedFd, UnixListener, TcpListener),
    _mediated: Option<UnixListener>,
}

impl Canaries {
    /// Plants them and shows that each answers from outside.
    pub(super) fn plant(plan: &Plan) -> Result<Self, Error> {
        let paths: &Paths = &plan.paths;
        let hidden_file = paths.launch.join("canary");
        let veil_file = paths.canaries_in_veil().join("file");
        let pen_file = paths.canaries_in_pen().join("file");
        for path in [&hidden_file, &veil_file, &pen_file] {
            write_new(path, b"canary\n")?;
        }
        let hidden_socket = paths.launch.join("canary.sock");
        let in_pen = |name: &str| paths.canaries_in_pen().join(name);
        let (stream, datagram, seqpacket) =
            (in_pen("stream.sock"), in_pen("datagram.sock"), in_pen("seqpacket.sock"));
        let abstract_name = format!("paddock-canary-{}", plan.id).into_bytes();
        let sockets = (|| {
            use std::os::linux::net::SocketAddrExt;
            let name = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name)?;
            std::io::Result::Ok((
                UnixListener::bind(&hidden_socket)?,
                UnixListener::bind(&stream)?,
                UnixDatagram::bind(&datagram)?,
                listen_seqpacket(&seqpacket)?,
                UnixListener::bind_addr(&name)?,
                TcpListener::bind("127.0.0.1:0")?,
            ))
        })()
        .map_err(|e| Error::DirectoryUnusable {
            path: paths.inside.clone(),
            reason: format!("a canary socket cannot be made: {e}"),
        })?;
        let mediated = plan.against_races.kernel_rule.then(|| paths.mediated_canary());
        let listening = mediated.as_ref().map(UnixListener::bind).transpose().map_err(|e| {
            let reason = format!("a canary socket cannot be made: {e}");
            Error::DirectoryUnusable { path: paths.inside.clone(), reason }
        })?;
        let port = sockets.5.local_addr().map_err(|e| Error::DirectoryUnusable {
            path: paths.inside.clone(),
            reason: e.to_string(),
        })?;
        let canaries = Self {
            hidden_file,
            hidden_socket,
            veil_new_file: paths.canaries_in_veil().join("new"),
            veil_file,
            pen_file,
            stream,
            datagram,
            seqpacket,
            mediated,
            abstract_name,
            port,
            host_has_fast_open: observe(&AttemptKind::FastOpen(port.port())) == Observation::Worked,
            host_has_io_uring: observe(&AttemptKind::IoUring) == Observation::Worked,
            host_has_32_bit_calls: observe(&AttemptKind::SocketBy32BitCall) == Observation::Worked,
            has_veil: plan.tier.has_veil(),
            isolates_network: plan.tier.isolates_network(),
            server_listens: plan.tier.isolates_network()
                && !blocks_network(&plan.agent.profiles.server),
            is_strict: plan.against_races.strict,
            _sockets: sockets,
            _mediated: listening,
        };
        canaries.show_that_each_answers(plan)?;
        Ok(canaries)
    }

    /// The controls. A canary that does not answer from outside would make its
    /// silence inside prove nothing.
    fn show_that_each_answers(&self, plan: &Plan) -> Result<(), Error> {
        let limited = self.limits_of(Layer::Server, plan).into_iter().flat_map(|l| l.attempts);
        let everything = self
            .for_layer(Layer::Pen, None)
            .into_iter()
            .chain(self.for_layer(Layer::Server, None))
            .chain(limited);
        for attempt in everything {
            if let Observation::Failed(error) = observe(&attempt.kind) {
                return Err(Error::SelfTest {
                    layer: Layer::Pen,
                    what: format!(
                        "control: \"{}\" does not work outside either ({})",
                        attempt.name,
                        std::io::Error::from_raw_os_error(error)
                    ),
                });
            }
        }
        Ok(())
    }

    /// What the warden of `layer` has to try. `target` is a process outside the
    /// layer, numbered as inside.
    pub(super) fn for_layer(&self, layer: Layer, target: Option<Pid>) -> Vec<Attempt> {
        use AttemptKind::{
            ConnectAbstract, ConnectSeqpacket, ConnectStream, ConnectTcp, CreateFile, FastOpen,
            IoUring, Limit, ListenTcp, OpenUdp, ReadFile, ReadMemory, SendDatagram, Signal,
            SignalGroup, Trace, UnixSocket,
        };
        let in_pen = if layer == Layer::Pen { Expected::Works } else { Expected::Refused };
        let mut attempts = Vec::new();
        let mut add = |name: &str, kind, expected| {
            attempts.push(Attempt { name: name.to_owned(), kind, expected });
        };
        let refused = Expected::Refused;
        add("read a file outside the grants", ReadFile(self.veil_file.clone()), refused);
        add("make a file outside the grants", CreateFile(self.veil_new_file.clone()), refused);
        add("read a file of the host", ReadFile(self.hidden_file.clone()), refused);
        if self.has_veil || layer != Layer::Pen {
            add(
                "connect to a socket of the host",
                ConnectStream(self.hidden_socket.clone()),
                refused,
            );
        }
        add("read a file granted to the pen alone", ReadFile(self.pen_file.clone()), in_pen);
        add("connect to a stream socket", ConnectStream(self.stream.clone()), in_pen);
        add("send to a datagram socket", SendDatagram(self.datagram.clone()), in_pen);
        add("connect to a seqpacket socket", ConnectSeqpacket(self.seqpacket.clone()), in_pen);
        add("connect to an abstract socket", ConnectAbstract(self.abstract_name.clone()), refused);
        add("connect to a port of the host", ConnectTcp(self.port), refused);
        // In a network of its own the pen alone says what sockets there are, and the
        // server listens where it likes, if its own policy does not block the network;
        // else the host's ports are not its own.
        let listens = match layer {
            Layer::Pen if self.isolates_network => Expected::Works,
            Layer::Server if self.server_listens => Expected::Works,
            _ => refused,
        };
        add("listen on a port and connect to it", ListenTcp, listens);
        add("open a UDP socket", OpenUdp, refused);
        if layer != Layer::Pen && self.host_has_fast_open {
            add("open a connection by sending", FastOpen(self.port.port()), refused);
        }
        if self.host_has_io_uring {
            add("set up io_uring", IoUring, refused);
        }
        if layer == Layer::Pen
            && !self.has_veil
            && let Some(group) = confine::sys::own_process_group()
        {
            // The pen's warden is to end everything in its reach one day.
            add("signal the processes of a group outside", SignalGroup(group), refused);
        }
        if let Some(target) = target {
            add("signal a process outside", Signal(target), refused);
            add("trace a process outside", Trace(target), refused);
            add("read the memory of a process outside", ReadMemory(target), refused);
            if layer != Layer::Pen {
                add("change a limit of a process outside", Limit(target), refused);
            }
        }
        if layer != Layer::Pen {
            // The controls of what the limits refuse.
            if let Some(path) = &self.mediated {
                let connect = ConnectStream(path.clone());
                add("connect where mediation lets it", connect, Expected::Works);
            }
            if self.is_strict {
                add("make an AF_UNIX socket while it may", UnixSocket, Expected::Works);
            }
        }
        attempts
    }

    /// What the warden of `layer` has to try about the launch's own `/tmp`, and the
    /// directories in it in which the server makes sockets as it likes. The control of
    /// what is refused is that the pen's warden may.
    pub(super) fn about_sockets(layer: Layer, plan: &Plan) -> Vec<Attempt> {
        use AttemptKind::BindSocket;
        let in_pen = if layer == Layer::Pen { Expected::Works } else { Expected::Refused };
        let servers = if layer == Layer::Client { Expected::Refused } else { Expected::Works };
        let mut attempts = Vec::new();
        let mut add = |name: &str, directory: &Path, expected| {
            let kind = BindSocket(directory.join(format!("paddock-canary-{layer}")));
            let name = format!("{name} {}", shown(directory));
            attempts.push(Attempt { name, kind, expected });
        };
        for directory in &plan.sockets {
            add("make a socket in", directory, servers);
        }
        if plan.tier.has_veil() {
            let in_tmp = if plan.allows_sockets_in_tmp() { servers } else { in_pen };
            add("make a socket in", Path::new("/tmp"), in_tmp);
        }
        attempts
    }

    /// What the warden of `layer` is to add against races on the mediation, and to
    /// try once it has.
    pub(super) fn limits_of(&self, layer: Layer, plan: &Plan) -> Vec<AddedLimit> {
        use AttemptKind::{ConnectStream, DatagramPair, SocketBy32BitCall, SocketPair, UnixSocket};
        if layer == Layer::Pen {
            return Vec::new();
        }
        let attempt = |name: &str, kind, expected| Attempt { name: name.into(), kind, expected };
        let mut limits = Vec::new();
        if let Some(path) = &self.mediated {
            let name = "connect where only the kernel's rule refuses it";
            limits.push(AddedLimit {
                limit: UnixLimit::ReachableBeneath(plan.reachable_sockets(layer)),
                attempts: vec![attempt(name, ConnectStream(path.clone()), Expected::Refused)],
            });
        }
        if self.is_strict {
            let refused = |name, kind| attempt(name, kind, Expected::Refused);
            let mut attempts = vec![
                refused("make an AF_UNIX socket", UnixSocket),
                refused("make a pair of AF_UNIX datagram sockets", DatagramPair),
            ];
            if self.host_has_32_bit_calls {
                attempts.push(refused("make an AF_UNIX socket by 32-bit calls", SocketBy32BitCall));
            }
            if layer == Layer::Server {
                let name = "make a pair of connected AF_UNIX sockets";
                attempts.push(attempt(name, SocketPair, Expected::Works));
            }
            limits.push(AddedLimit { limit: UnixLimit::NoSockets, attempts });
        }
        limits
    }
}

/// Compares what a warden observed with what its layer must do.
///
/// # Errors
/// The first difference, in words.
pub(super) fn evaluate(
    layer: Layer,
    attempts: &[Attempt],
    outcomes: &[Outcome],
) -> Result<(), Error> {
    let failed = |what: String| Err(Error::SelfTest { layer, what });
    for attempt in attempts {
        let mut of_this = outcomes.iter().filter(|outcome| outcome.name == attempt.name);
        let (Some(outcome), None) = (of_this.next(), of_this.next()) else {
            return failed(format!("\"{}\" was not tried", attempt.name));
        };
        let gone = Observation::Failed(rustix::io::Errno::SRCH.raw_os_error());
        match (attempt.expected, outcome.observed) {
            (Expected::Refused, observed) if observed == gone => {
                return failed(format!("control: \"{}\" found nobody to reach", attempt.name));
            }
            (Expected::Refused, Observation::Failed(_))
            | (Expected::Works, Observation::Worked) => {}
            (Expected::Refused, Observation::Worked) => {
                return failed(format!("\"{}\" worked, but must be refused", attempt.name));
            }
            (Expected::Works, Observation::Failed(error)) => {
                return failed(format!(
                    "control: \"{}\" must work here, so that the sandboxes inside are tested by \
                     themselves, but failed: {}",
                    attempt.name,
                    std::io::Error::from_raw_os_error(error)
                ));
            }
        }
    }
    Ok(())
}

fn listen_seqpacket(path: &Path) -> std::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(expected: Expected) -> Attempt {
        Attempt { name: "x".into(), kind: AttemptKind::IoUring, expected }
    }

    fn outcome(observed: Observation) -> Outcome {
        Outcome { name: "x".into(), observed }
    }

    #[test]
    fn a_self_test_holds_only_when_everything_was_tried_and_is_as_expected() {
        let judge = |expected, outcomes: &[Outcome]| {
            evaluate(Layer::Server, &[attempt(expected)], outcomes).is_ok()
        };
        let worked = outcome(Observation::Worked);
        let failed = outcome(Observation::Failed(1));
        assert!(judge(Expected::Refused, std::slice::from_ref(&failed)));
        assert!(judge(Expected::Works, std::slice::from_ref(&worked)));
        assert!(!judge(Expected::Refused, std::slice::from_ref(&worked)));
        assert!(!judge(Expected::Works, std::slice::from_ref(&failed)));
        assert!(!judge(Expected::Refused, &[]));
        assert!(!judge(Expected::Refused, &[failed.clone(), worked]));
    }
}
