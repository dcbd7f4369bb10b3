//! The socket that a server listens on.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::address::Address;

/// A listening socket; a Unix one is removed from the file system when dropped.
pub(super) struct Listener {
    socket: OwnedFd,
    address: Address,
    file: Option<SocketFile>,
}

/// Why a server cannot listen where it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenError {
    /// The path is taken by something that no server left behind.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The path is taken by another user's socket.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Somebody listens there already.
    #[error("another server listens on {}", .0.display())]
    InUse(PathBuf),
    /// A socket is there, and whether anybody listens on it cannot be found out.
    #[error("cannot tell whether another server listens on {}: {}", .0.display(), .1)]
    Unsure(PathBuf, io::Error),
    /// The kernel refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for ListenError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl Listener {
    /// Listens on `address`. The Unix socket is for its owner only, and replaces one that
    /// a server of the same user left behind.
    pub(super) fn bind(address: &Address) -> Result<Self, ListenError> {
        match address {
            Address::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)?;
                listener.set_nonblocking(true)?;
                let address = Address::Tcp(listener.local_addr()?);
                Ok(Self { socket: listener.into(), address, file: None })
            }
            Address::Unix(path) => {
                remove_stale(path)?;
                let name = SocketAddrUnix::new(path.as_path())?;
                let socket = unix_socket()?;
                rustix::net::bind(&socket, &name)?;
                let file = Some(SocketFile::at(path)?);
                let listener = Self { socket, address: address.clone(), file };
                // Nobody can connect before `listen`, so nobody can before the mode is set.
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
                rustix::net::listen(&listener.socket, 128)?;
                Ok(listener)
            }
        }
    }

    /// Where it listens, with the port that the kernel chose if it was left to it.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Takes the next connection, or fails with `WouldBlock`.
    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        Ok(rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}

/// A socket in the file system, known by more than its name.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) })
    }

    /// Removes it unless something else has taken its name. A sandbox may not allow that;
    /// the next server then finds it stale.
    fn remove(self) {
        if Self::at(&self.path).is_ok_and(|now| now.identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that nobody listens on any more. Anything else in the way is an error.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(ListenError::Foreign(path.to_owned()));
    }
    match rustix::net::connect(&unix_socket()?, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        // Not blocking: a full queue is `AGAIN`, and somebody's.
        Ok(()) | Err(Errno::AGAIN) => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(ListenError::Unsure(path.to_owned(), error.into())),
    }
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn in_new_directory() -> (tempfile::TempDir, PathBuf, Address) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let address = Address::Unix(path.clone());
        (directory, path, address)
    }

    #[test]
    fn a_socket_is_for_its_owner_and_goes_with_its_listener() {
        let (_directory, path, address) = in_new_directory();
        let listener = Listener::bind(&address).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let (_directory, path, address) = in_new_directory();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&address).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(listener);
    }

    #[test]
    fn a_socket_in_use_is_left_alone() {
        let (_directory, path, address) = in_new_directory();
        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(Listener::bind(&address), Err(ListenError::InUse(_))));
        UnixStream::connect(&path).unwrap();
        drop(other);
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let (_directory, path, address) = in_new_directory();
        fs::write(&path, "kept").unwrap();
        assert!(matches!(Listener::bind(&address), Err(ListenError::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn what_took_the_name_later_is_not_removed() {
        let (_directory, path, address) = in_new_directory();
        let listener = Listener::bind(&address).unwrap();
        fs::rename(&path, path.with_extension("moved")).unwrap();
        fs::write(&path, "kept").unwrap();
        drop(listener);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
