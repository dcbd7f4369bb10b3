//! The operations, and what each place has to do with them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use confine::Pid;
use warden::{AttemptKind, Link};

use super::ground::{Ground, foreign, in_pen};
use super::proxied::{self, Proxied};
use crate::launch::{Paths, Plan, Tier};

/// Where an operation is tried, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Outside,
    Veil,
    Pen,
    Server,
    Client,
}

pub(crate) const PLACES: [Place; 5] =
    [Place::Outside, Place::Veil, Place::Pen, Place::Server, Place::Client];

/// What has to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Works,
    Refused,
    /// It is shown; either is right.
    Either,
}

use Expected::{Either, Refused, Works};

/// In the veil, the pen, the server and the client.
type Expectations = [Expected; 4];

/// Of the host alone.
const HOST: Expectations = [Refused; 4];
/// The outer layers let it through, so that the inner ones are tested.
const IN_PEN: Expectations = [Works, Works, Refused, Refused];
/// For the two sandboxes it must be refused; further out it does no harm.
const INNER: Expectations = [Either, Either, Refused, Refused];
/// The veil shares the host's network and sees its own processes.
const FROM_PEN: Expectations = [Either, Refused, Refused, Refused];
const SHOWN: Expectations = [Either; 4];
const SERVERS: Expectations = [Works, Works, Works, Refused];

/// One operation.
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) expected: Expectations,
    /// It asks the guard for something.
    pub(crate) proxied: Option<Proxied>,
    /// In each place; the process that is meant is another one in each.
    kind: Box<dyn Fn(Place, Pid) -> AttemptKind>,
}

impl Row {
    /// What to try in `place`, where `process` is one outside of it.
    pub(crate) fn attempt(&self, place: Place, process: Pid) -> AttemptKind {
        (self.kind)(place, process)
    }

    pub(crate) fn expected_in(&self, place: Place) -> Expected {
        match place {
            Place::Outside => Works,
            Place::Veil => self.expected[0],
            Place::Pen => self.expected[1],
            Place::Server => self.expected[2],
            Place::Client => self.expected[3],
        }
    }
}

/// Collects rows.
struct Rows {
    rows: Vec<Row>,
    group: &'static str,
}

impl Rows {
    fn add(&mut self, name: impl Into<String>, expected: Expectations, kind: AttemptKind) {
        self.by_place(name, expected, move |_, _| kind.clone());
    }

    fn by_place(
        &mut self,
        name: impl Into<String>,
        expected: Expectations,
        kind: impl Fn(Place, Pid) -> AttemptKind + 'static,
    ) {
        let (group, name) = (self.group, name.into());
        self.rows.push(Row { group, name, expected, proxied: None, kind: Box::new(kind) });
    }
}

/// All of them.
pub(crate) fn rows(ground: &Ground, plan: &Plan, home: &Path) -> Vec<Row> {
    let (paths, tier) = (&plan.paths, plan.tier);
    let mut rows = Rows { rows: Vec::new(), group: "" };
    link_folder(&mut rows, plan);
    unix_sockets(&mut rows, ground, paths, plan);
    network(&mut rows, ground, plan, tier);
    files(&mut rows, ground, tier, home);
    processes(&mut rows, ground, tier);
    terminal(&mut rows, ground, tier);
    rows.rows
}

fn link_folder(rows: &mut Rows, plan: &Plan) {
    use AttemptKind::{AcceptCaller, BindSocket, ConnectStream, CreateFile};
    rows.group = "the server's one folder";
    let paths = &plan.paths;
    let (folder, other) = (paths.link_folder(), paths.canaries_in_pen());
    // A server that listens on a port has no such folder; that of another is behind a
    // veil not the host's.
    let (own, deeper, is_private) = match plan.link() {
        Some(Link::Unix(_) | Link::Stdio(_)) => (SERVERS, IN_PEN, plan.tier.has_veil()),
        Some(Link::Tcp(_) | Link::Http(..) | Link::Own(_)) | None => (INNER, INNER, false),
    };
    rows.add("make a file in it", own, CreateFile(folder.join("new")));
    rows.add("make a file in another folder", HOST, CreateFile(other.join("new")));
    rows.add("bind the server's socket in it", own, BindSocket(paths.link_socket()));
    rows.add("bind another socket in it", deeper, BindSocket(folder.join("other")));
    rows.add("bind in another folder", HOST, BindSocket(other.join("own")));
    let in_folder = if is_private { INNER } else { deeper };
    rows.add("bind in a folder inside it", in_folder, BindSocket(folder.join("sub/own")));
    let accept = AcceptCaller(paths.link_socket());
    rows.add("accept a caller there and know who it is", own, accept);
    // Without a veil the client may connect to any there: but for the server nobody
    // inside makes one.
    let foreigns = if is_private { HOST } else { [deeper[0], deeper[1], deeper[2], Either] };
    rows.add("connect to a foreign socket in it", foreigns, ConnectStream(foreign(paths)));
}

fn unix_sockets(rows: &mut Rows, ground: &Ground, paths: &Paths, plan: &Plan) {
    use AttemptKind::{
        AcceptCaller, BindSocket, ConnectAbstract, ConnectSeqpacket, ConnectStream, PassDescriptor,
        RaceToConnect, SendDatagram, SendMessage, SendMessages, SocketPair,
    };
    let tier = plan.tier;
    rows.group = "AF_UNIX";
    let service = in_pen(paths);
    // One that is read, so that its queue does not fill.
    let datagram = service.with_added_extension("r");
    rows.add("stream", IN_PEN, ConnectStream(service.clone()));
    rows.add("datagram, sendto", IN_PEN, SendDatagram(datagram.clone()));
    rows.add("datagram, sendmsg", IN_PEN, SendMessage(datagram.clone()));
    rows.add("datagram, sendmmsg", IN_PEN, SendMessages(datagram));
    rows.add("seqpacket", IN_PEN, ConnectSeqpacket(service.with_added_extension("s")));
    let name = ConnectAbstract(ground.abstract_name.clone());
    rows.add("abstract", FROM_PEN, name);
    rows.add("a pair of sockets", [Works, Works, Works, Either], SocketPair);
    rows.add("a descriptor through a pair", [Works, Works, Works, Either], PassDescriptor);
    for (name, path) in &ground.services {
        rows.add(format!("a service at {name}"), host_only(tier), ConnectStream(path.clone()));
    }
    for (name, path) in real_services() {
        rows.add(format!("the real {name}"), host_only(tier), ConnectStream(path));
    }
    let workspace = &ground.workspace;
    rows.add(
        "one of the host in the workspace",
        IN_PEN,
        ConnectStream(ground.in_workspace.clone()),
    );
    rows.add("bind one in the workspace", IN_PEN, BindSocket(workspace.join("own")));
    let own = format!("/tmp/{}-own", ground.name());
    // Behind a veil /tmp is the launch's own.
    let is_own = plan.allows_sockets_in_tmp();
    let binds = if is_own { [Either, Either, Works, Refused] } else { INNER };
    rows.add("bind one in /tmp", binds, BindSocket(own.clone().into()));
    rows.add("bind one there and accept a caller", binds, AcceptCaller(own.into()));
    if let Some((_, forbidden)) = ground.services.first() {
        let race = |forbidden: &Path| RaceToConnect(forbidden.into(), paths.link_socket(), 300);
        // Where mediation alone stands there, it can lose; as behind a veil for what
        // that lets through.
        let without_veil = if plan.against_races.hold_without_veil() { INNER } else { SHOWN };
        let expected = if plan.against_races.veil { HOST } else { without_veil };
        rows.add("two threads race the address, 0.3 s", expected, race(forbidden));
        rows.add("the same to one in the workspace", without_veil, race(&ground.in_workspace));
    }
}

/// Without a veil the pen lets some of it through: the sandboxes in it refuse.
fn host_only(tier: Tier) -> Expectations {
    if tier.has_veil() { HOST } else { INNER }
}

/// Sockets of this user's session that are there.
fn real_services() -> Vec<(String, PathBuf)> {
    let named = [("SSH_AUTH_SOCK", "SSH agent"), ("HERDR_SOCKET_PATH", "herdr")];
    let mut found: Vec<(String, PathBuf)> = named
        .iter()
        .filter_map(|(variable, name)| {
            Some(((*name).to_owned(), PathBuf::from(std::env::var_os(variable)?)))
        })
        .collect();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    for name in ["bus", "systemd/private", "gnupg/S.gpg-agent", "wayland-0", "pipewire-0"] {
        found.extend(runtime.iter().map(|directory| (name.to_owned(), directory.join(name))));
    }
    for path in ["/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0"] {
        found.push((path.to_owned(), PathBuf::from(path)));
    }
    found.retain(|(_, path)| path.exists());
    found
}

fn network(rows: &mut Rows, ground: &Ground, plan: &Plan, tier: Tier) {
    use AttemptKind::{
        ConnectNotation, ConnectTcp, FastOpen, IoUring, ListenTcp, Netlink, OpenUdp, RawSocket,
        SendUdp, SocketBy32BitCall, SocketByX32Call, Vsock,
    };
    rows.group = "network";
    let host = FROM_PEN;
    let port = ground.tcp.port();
    rows.add("a port of the host", host, ConnectTcp(ground.tcp));
    for notation in ["localhost", "127.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let name = format!("the same as {notation}");
        rows.add(name, host, ConnectNotation(format!("{notation}:{port}")));
    }
    if let Some(address) = ground.tcp_v6 {
        rows.add("a port of the host by IPv6", host, ConnectTcp(address));
    }
    if let Some(address) = ground.tcp_elsewhere {
        rows.add("a port on another interface", host, ConnectTcp(address));
        // Landlock knows ports and no addresses.
        let granted = SocketAddr::new(address.ip(), plan.ports.guard);
        let expected = if tier.isolates_network() { host } else { SHOWN };
        rows.add("a granted port on another interface", expected, ConnectTcp(granted));
    }
    rows.add("the same by sending (MSG_FASTOPEN)", INNER, FastOpen(port));
    // In a network of its own nobody is there but the launch.
    let listens = if tier.isolates_network() { SERVERS } else { INNER };
    rows.add("listen on a port and connect to it", listens, ListenTcp);
    rows.add("make a UDP socket", INNER, OpenUdp);
    rows.add("send by UDP to the host", host, SendUdp(ground.udp));
    rows.add("make a raw socket", INNER, RawSocket);
    rows.add("make a netlink socket", INNER, Netlink);
    rows.add("make a vsock socket", INNER, Vsock);
    rows.add("set up io_uring", INNER, IoUring);
    rows.add("a socket by 32-bit calls", INNER, SocketBy32BitCall);
    rows.add("a socket by x32 calls", INNER, SocketByX32Call);
    proxy(rows, ground, plan);
}

/// The guard is the server's proxy, and nobody else's. The control is a port of the
/// host: the row of the allowed name shows that the guard leads there.
fn proxy(rows: &mut Rows, ground: &Ground, plan: &Plan) {
    rows.group = "through the guard";
    let control = ground.tcp;
    for asked in proxied::all(ground.tcp.port(), ground.tcp_other.port()) {
        let in_server = if asked.allowed { Works } else { Refused };
        let (port, user) = (plan.proxy.port, plan.proxy.user());
        let target = asked.target();
        let expected = [Either, Either, in_server, Refused];
        rows.by_place(asked.operation, expected, move |place, _| match place {
            Place::Outside => AttemptKind::ConnectTcp(control),
            _ => AttemptKind::Tunnel { port, user: user.clone(), target: target.clone() },
        });
        if let Some(row) = rows.rows.last_mut() {
            row.proxied = Some(asked);
        }
    }
}

fn files(rows: &mut Rows, ground: &Ground, tier: Tier, home: &Path) {
    use AttemptKind::{
        ChangeMode, ChangeOwner, ChangeRoot, ChangeTimes, CreateFile, HardLink, ListDirectory,
        MemoryFile, Mount, OpenDevice, PivotRoot, ReadFile, ReadThroughPlace, ReadThroughRoot,
        Rename, SetAttribute, WriteFile,
    };
    rows.group = "files";
    let (secret, workspace) = (&ground.secret, &ground.workspace);
    let beside = secret.with_file_name("new");
    rows.add("make one in the workspace", SERVERS, CreateFile(workspace.join("new")));
    rows.add("read one outside", HOST, ReadFile(secret.clone()));
    rows.add("write one outside", HOST, WriteFile(secret.clone()));
    rows.add("make one outside", HOST, CreateFile(beside));
    if let Some(directory) = secret.parent() {
        rows.add("list a directory outside", HOST, ListDirectory(directory.into()));
    }
    for path in secrets(home) {
        rows.add(format!("read ~/{}", path.display()), HOST, ReadFile(home.join(path)));
    }
    rows.add("through a mere place (O_PATH)", HOST, ReadThroughPlace(secret.clone()));
    rows.add("through /proc/self/root", HOST, ReadThroughRoot(secret.clone()));
    rows.add(
        "a second name for one beside it",
        HOST,
        HardLink(ground.beside.clone(), workspace.join("link")),
    );
    rows.add(
        "move one from beside it",
        HOST,
        Rename(ground.beside.clone(), workspace.join("moved")),
    );
    // Landlock does not see these; the veil's mounts refuse them.
    let unseen = if tier.has_veil() { HOST } else { SHOWN };
    rows.add("change its mode", unseen, ChangeMode(secret.clone()));
    rows.add("change its group", unseen, ChangeOwner(secret.clone()));
    rows.add("change its times", unseen, ChangeTimes(secret.clone()));
    rows.add("set an attribute", unseen, SetAttribute(secret.clone()));
    for device in ["/dev/fuse", "/dev/kvm", "/dev/net/tun"] {
        if Path::new(device).exists() {
            rows.add(format!("open {device}"), HOST, OpenDevice(device.into()));
        }
    }
    rows.add("mount, in own namespaces", INNER, Mount(workspace.clone()));
    rows.add("pivot the root, in own namespaces", INNER, PivotRoot(workspace.clone()));
    rows.add("another root, in an own namespace", SHOWN, ChangeRoot);
    rows.add(
        "set the host's core pattern",
        HOST,
        WriteFile("/proc/sys/kernel/core_pattern".into()),
    );
    rows.add("a file in memory", [Works; 4], MemoryFile);
}

/// Files with keys, of those that agents look for, that are there.
fn secrets(home: &Path) -> Vec<&'static Path> {
    [
        ".ssh/id_ed25519",
        ".ssh/id_rsa",
        ".ssh/config",
        ".aws/credentials",
        ".netrc",
        ".gnupg/pubring.kbx",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".kube/config",
        ".npmrc",
        ".bash_history",
        ".codex/auth.json",
        ".claude/.credentials.json",
    ]
    .iter()
    .map(Path::new)
    .filter(|path| home.join(path).is_file())
    .collect()
}

fn processes(rows: &mut Rows, ground: &Ground, tier: Tier) {
    use AttemptKind::{
        Affinity, Keyring, Limit, NewPrivileges, Priority, ReadMemory, ReadProcess, SharedMemory,
        Signal, SignalByPidfd, TakeDescriptor, Trace, UserNamespace,
    };
    rows.group = "processes";
    // Numbers of the host mean nothing in a veil.
    rows.add("signal one of the host by its number", FROM_PEN, Signal(ground.process));
    let outside = FROM_PEN;
    rows.by_place("signal one outside the layer", outside, |_, pid| Signal(pid));
    rows.by_place("the same by pidfd", outside, |_, pid| SignalByPidfd(pid));
    rows.by_place("trace it", outside, |_, pid| Trace(pid));
    rows.by_place("read its memory", outside, |_, pid| ReadMemory(pid));
    rows.by_place("take a descriptor of it", outside, |_, pid| TakeDescriptor(pid));
    for file in ["environ", "mem", "maps", "exe"] {
        let name = format!("read its {file}");
        rows.by_place(name, outside, move |_, pid| ReadProcess(pid, file.into()));
    }
    let line = if tier.has_veil() { FROM_PEN } else { SHOWN };
    let process = ground.process;
    rows.by_place("read the command line of one of the host", line, move |_, _| {
        ReadProcess(process, "cmdline".into())
    });
    rows.by_place("lower its limits", INNER, |_, pid| Limit(pid));
    rows.by_place("change its priority", INNER, |_, pid| Priority(pid));
    rows.by_place("change its affinity", SHOWN, |_, pid| Affinity(pid));
    rows.add("privileges of a setuid program", HOST, NewPrivileges);
    rows.add("make a user namespace", SHOWN, UserNamespace);
    rows.add("use a keyring", INNER, Keyring);
    let shared = if tier.isolates_network() { SHOWN } else { INNER };
    rows.add("System V shared memory", shared, SharedMemory);
}

fn terminal(rows: &mut Rows, ground: &Ground, tier: Tier) {
    use AttemptKind::{OpenDevice, OpenTerminal, PasteIntoConsole, PushInput};
    rows.group = "terminal";
    let outside = FROM_PEN;
    // The pen lets the client's nono make one.
    let opened = OpenDevice(ground.terminal.clone());
    rows.add("open one of the host", host_only(tier), opened);
    rows.add("have nono ask the person", outside, OpenTerminal);
    rows.add("push input (TIOCSTI)", outside, PushInput);
    rows.add("paste on a console (TIOCLINUX)", outside, PasteIntoConsole);
}
