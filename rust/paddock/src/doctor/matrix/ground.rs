//! What the survey tries to reach: decoys on the host, gone with this.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use confine::Pid;
use confine::pidfd::PidFd;
use confine::sys::{SpawnSetup, prepare_spawn};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::error::Error;
use crate::files::open_plain;
use crate::keeper::remove_tree;
use crate::launch::{Directories, LaunchId, Paths, Plan, private_directory};

/// Sockets that act for whoever connects. The decoys have shorter names, so that they
/// fit where a launch's own do.
const SERVICES: [&str; 15] = [
    "herdr.sock",
    "tmux/default",
    "bus",
    "systemd/private",
    "ssh-agent.sock",
    "gnupg/S.gpg-agent",
    "docker.sock",
    "podman/podman.sock",
    "containerd/containerd.sock",
    "libvirt/libvirt-sock",
    "X11-unix/X0",
    "wayland-0",
    "pipewire-0",
    "keyring/control",
    "system_bus_socket",
];

/// The decoys, and where they are.
pub(super) struct Ground {
    /// In the runtime directory: nothing of it is granted to anybody.
    root: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) secret: PathBuf,
    /// On the workspace's own file system, beside it.
    pub(super) beside: PathBuf,
    /// What both are in.
    temporary: PathBuf,
    /// By the name of what each stands for.
    pub(super) services: Vec<(&'static str, PathBuf)>,
    /// A socket of the host's in the workspace, which every layer sees.
    pub(super) in_workspace: PathBuf,
    pub(super) abstract_name: Vec<u8>,
    pub(super) tcp: SocketAddr,
    /// Another port, of no name's.
    pub(super) tcp_other: SocketAddr,
    pub(super) tcp_v6: Option<SocketAddr>,
    /// An address of another interface than loopback, where there is one.
    pub(super) tcp_elsewhere: Option<SocketAddr>,
    pub(super) udp: SocketAddr,
    /// A terminal of the person's.
    pub(super) terminal: PathBuf,
    /// A process of the host's.
    pub(super) process: Pid,
    child: Child,
    handle: PidFd,
    over: Arc<AtomicBool>,
    held: Vec<OwnedFd>,
    /// While this process lives nobody else removes them.
    _lock: File,
}

/// What the decoys' directories are called, before the part that is random.
const NAME: &str = "paddock-doctor-";
/// In the runtime directory's: who holds this lock uses the decoys.
const LOCK: &str = "lock";
/// In the runtime directory's: a link to the other directory.
const OTHER: &str = "temporary";

/// Removes the decoys of doctors that did not live to do it. Nobody may begin to
/// make some meanwhile.
fn sweep(runtime: &Path) {
    for entry in std::fs::read_dir(runtime).into_iter().flatten().flatten() {
        let root = entry.path();
        if !entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()) {
            continue;
        }
        let lock = open_plain(File::options().write(true), &root.join(LOCK));
        let is_abandoned = match lock {
            Ok(lock) => lock.try_lock().is_ok(),
            // Directory and lock are made in one turn: a removal was cut short.
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_abandoned {
            continue;
        }
        let other = std::fs::read_link(root.join(OTHER)).ok();
        // A link of another name is not one of ours.
        if let Some(other) = other.filter(|other| other.file_name() == root.file_name()) {
            let _ = remove_tree(&other);
        }
        let _ = remove_tree(&root);
    }
}

fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(directory)
}

/// Makes the first directory of the decoys and takes its lock, one doctor after the
/// other.
fn start(runtime: &Path, root: &Path) -> std::io::Result<File> {
    let turn = File::open(runtime)?;
    turn.lock()?;
    sweep(runtime);
    make_private(root)?;
    let lock = File::create_new(root.join(LOCK))?;
    lock.try_lock()?;
    Ok(lock)
}

/// The host's own address towards others; nothing is sent to find it.
fn own_address() -> Option<IpAddr> {
    // TEST-NET-1 (RFC 5737): connecting a datagram socket only picks a route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

impl Ground {
    /// Makes them.
    ///
    /// # Errors
    /// What cannot be made.
    pub(super) fn prepare(warden: &Path, directories: &Directories) -> Result<Self, Error> {
        private_directory(&directories.runtime)?;
        let named = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let temporary = named.unwrap_or_else(|| "/tmp".into());
        let writable = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        if let Err(e) = rustix::fs::access(&temporary, writable) {
            let reason = format!("no workspace for the doctor can be made there (TMPDIR): {e}");
            return Err(Error::DirectoryUnusable { path: temporary, reason });
        }
        let failed = |e: std::io::Error| Error::DirectoryUnusable {
            path: directories.runtime.clone(),
            reason: format!("the doctor's decoys cannot be made: {e}"),
        };
        let id = LaunchId::random().map_err(failed)?;
        let name = format!("{NAME}{}", id.as_str());
        let temporary = temporary.join(&name);
        let root = directories.runtime.join(&name);
        let made = start(&directories.runtime, &root)
            .and_then(|lock| Self::make(&root, &temporary, warden, lock));
        if made.is_err() {
            for directory in [&temporary, &root] {
                let _ = std::fs::remove_dir_all(directory);
            }
        }
        made.map_err(failed)
    }

    fn make(root: &Path, temporary: &Path, warden: &Path, lock: File) -> std::io::Result<Self> {
        std::os::unix::fs::symlink(temporary, root.join(OTHER))?;
        let home = root.join("home");
        let (workspace, outside) = (temporary.join("workspace"), temporary.join("outside"));
        [temporary, &home, &workspace, &outside].into_iter().try_for_each(make_private)?;
        let beside = outside.join("secret");
        std::fs::write(&beside, "a decoy\n")?;
        let secret = home.join("secret");
        std::fs::write(&secret, "a decoy\n")?;
        let mut held = Vec::new();
        let named = |(at, name)| (name, root.join(format!("s{at}")));
        let services: Vec<(&str, PathBuf)> = SERVICES.into_iter().enumerate().map(named).collect();
        for (_, service) in &services {
            held.push(UnixListener::bind(service)?.into());
        }
        let in_workspace = workspace.join("service");
        held.push(UnixListener::bind(&in_workspace)?.into());
        let abstract_name = root.as_os_str().as_encoded_bytes().to_vec();
        let address = {
            use std::os::linux::net::SocketAddrExt;
            std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name)?
        };
        held.push(UnixListener::bind_addr(&address)?.into());
        let mut tcp = |at: SocketAddr| -> std::io::Result<SocketAddr> {
            let listener = TcpListener::bind(at)?;
            let address = listener.local_addr()?;
            held.push(listener.into());
            Ok(address)
        };
        let v4 = tcp(([127, 0, 0, 1], 0).into())?;
        let other = tcp(([127, 0, 0, 1], 0).into())?;
        let v6 = tcp((std::net::Ipv6Addr::LOCALHOST, 0).into()).ok();
        let elsewhere = own_address().and_then(|ip| tcp((ip, 0).into()).ok());
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let udp_address = udp.local_addr()?;
        held.push(udp.into());
        let terminal = pseudo_terminal(&mut held)?;
        let mut command = Command::new(warden);
        command.arg("canary").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let setup =
            SpawnSetup { dies_with_parent: true, close_from: Some(3), ..SpawnSetup::default() };
        prepare_spawn(&mut command, setup);
        let child = command.spawn()?;
        let process = Pid::new(child.id().cast_signed()).ok_or(std::io::ErrorKind::InvalidData)?;
        let handle = PidFd::open(process)?;
        Ok(Self {
            root: root.to_owned(),
            workspace,
            secret,
            beside,
            temporary: temporary.to_owned(),
            services,
            in_workspace,
            abstract_name,
            tcp: v4,
            tcp_other: other,
            tcp_v6: v6,
            tcp_elsewhere: elsewhere,
            udp: udp_address,
            terminal,
            process,
            child,
            handle,
            over: Arc::new(AtomicBool::new(false)),
            held,
            _lock: lock,
        })
    }

    /// What nothing else here is called.
    pub(super) fn name(&self) -> &str {
        self.root.file_name().and_then(|name| name.to_str()).unwrap_or(NAME)
    }

    /// Adds what lies in the launch's own directories, once those are there.
    ///
    /// # Errors
    /// What cannot be made.
    pub(super) fn complete(&mut self, plan: &Plan) -> std::io::Result<()> {
        let paths = &plan.paths;
        if let Some(address) = self.tcp_elsewhere {
            // Taken by another: then that row has no control.
            let granted = TcpListener::bind((address.ip(), plan.ports.guard));
            self.held.extend(granted.map(OwnedFd::from));
        }
        self.held.push(UnixListener::bind(in_pen(paths))?.into());
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let packets = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let address = SocketAddrUnix::new(in_pen(paths).with_added_extension("s"))?;
        rustix::net::bind(&packets, &address)?;
        rustix::net::listen(&packets, 16)?;
        self.held.push(packets);
        let foreign = UnixListener::bind(foreign(paths))?;
        foreign.set_nonblocking(true)?;
        let datagrams = UnixDatagram::bind(in_pen(paths).with_added_extension("r"))?;
        datagrams.set_nonblocking(true)?;
        std::fs::create_dir(paths.link_folder().join("sub"))?;
        // Who is called over and over needs one that accepts: a full backlog would hold
        // up the next.
        let over = self.over.clone();
        std::thread::Builder::new().name("callee".into()).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                while foreign.accept().is_ok() {}
                while datagrams.recv(&mut [0; 16]).is_ok() {}
                std::thread::sleep(Duration::from_millis(2));
            }
        })?;
        Ok(())
    }
}

/// Sockets that the pen lets through and the sandboxes in it must not.
pub(super) fn in_pen(paths: &Paths) -> PathBuf {
    paths.canaries_in_pen().join("service")
}

/// Somebody else's socket in the one folder where the server may bind.
pub(super) fn foreign(paths: &Paths) -> PathBuf {
    paths.link_folder().join("foreign")
}

fn pseudo_terminal(held: &mut Vec<OwnedFd>) -> std::io::Result<PathBuf> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    held.push(master);
    Ok(std::ffi::OsStr::from_bytes(name.as_bytes()).into())
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A survey ends all children of this process: the number may be another's.
        let _ = self.handle.signal(Signal::KILL);
        let _ = self.child.wait();
        // By the one the other is found, should this be cut short.
        for directory in [&self.temporary, &self.root] {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoys_are_swept_once_their_doctor_is_gone_and_nothing_else_is() {
        let (runtime, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let decoys = |name: &str, other: &str| {
            let root = runtime.path().join(name);
            let other = elsewhere.path().join(other);
            std::fs::create_dir_all(&root).unwrap();
            std::fs::create_dir_all(other.join("workspace")).unwrap();
            std::os::unix::fs::symlink(&other, root.join(OTHER)).unwrap();
            (File::create(root.join(LOCK)).unwrap(), root, other)
        };
        let (held, used, used_other) = decoys("paddock-doctor-used", "paddock-doctor-used");
        held.try_lock().unwrap();
        let (_, gone, gone_other) = decoys("paddock-doctor-gone", "paddock-doctor-gone");
        let (_, cut, cut_other) = decoys("paddock-doctor-cut", "paddock-doctor-cut");
        std::fs::remove_file(cut.join(LOCK)).unwrap();
        let (_, odd, odd_other) = decoys("paddock-doctor-odd", "home");
        let (_, launch, _) = decoys("bcdfghjklmnp", "bcdfghjklmnp");
        sweep(runtime.path());
        assert!(used.exists() && used_other.exists() && launch.exists());
        assert!(!gone.exists() && !gone_other.exists());
        assert!(!cut.exists() && !cut_other.exists());
        assert!(!odd.exists() && odd_other.exists(), "not where a link leads by another name");
    }
}
