//! Which namespaces a task is in (`namespaces(7)`).

use std::io;

use rustix::fs::{Mode, OFlags, open, readlinkat};

use super::proc_path;
use crate::Pid;

/// One namespace: the inode of its `nsfs` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(pub u64);

/// The namespaces of a task that a sandbox layer may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespaces {
    /// User namespace.
    pub user: Namespace,
    /// Mount namespace.
    pub mount: Namespace,
    /// Network namespace.
    pub network: Namespace,
    /// Pid namespace of the task itself.
    pub pid: Namespace,
    /// System V IPC and POSIX message queues.
    pub ipc: Namespace,
}

impl Namespaces {
    /// Those of `pid`.
    ///
    /// # Errors
    /// `EACCES` where the reader may not look (`PTRACE_MODE_READ`), `ENOENT`
    /// when the process is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        // The links say as much as what they lead to, at a third of the cost: no
        // file of the namespace has to be made.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(proc_path(pid, "ns"), flags, Mode::empty())?;
        let mut buffer = Vec::with_capacity(64);
        let mut one = |kind: &str| -> io::Result<Namespace> {
            let link = readlinkat(&directory, kind, std::mem::take(&mut buffer))?;
            let number = parse(kind, link.to_bytes());
            buffer = link.into_bytes();
            number.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        Ok(Self {
            user: one("user")?,
            mount: one("mnt")?,
            network: one("net")?,
            pid: one("pid")?,
            ipc: one("ipc")?,
        })
    }
}

/// Whether `pid` is in another user namespace than the caller, by its map of users
/// (`/proc/P/uid_map`, `user_namespaces(7)`): it is shown as seen from the reader,
/// and a map of everything is only the reader's own to have.
///
/// # Errors
/// `ENOENT` when the process is gone.
pub fn maps_users_otherwise(pid: Pid) -> io::Result<bool> {
    let own = std::fs::read("/proc/self/uid_map")?;
    Ok(std::fs::read(proc_path(pid, "uid_map"))? != own)
}

/// A link of the form `KIND:[INODE]`.
fn parse(kind: &str, link: &[u8]) -> Option<Namespace> {
    let inode = link.strip_prefix(kind.as_bytes())?.strip_prefix(b":[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inode).ok()?.parse().ok().map(Namespace)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_link_names_the_file_it_leads_to() {
        let mine = Namespaces::of(Pid::of_self()).unwrap();
        let inode = |kind: &str| std::fs::metadata(format!("/proc/self/ns/{kind}")).unwrap().ino();
        assert_eq!(mine.user.0, inode("user"));
        assert_eq!(mine.mount.0, inode("mnt"));
        assert_eq!(mine.network.0, inode("net"));
        assert_eq!(mine.pid.0, inode("pid"));
        assert_eq!(mine.ipc.0, inode("ipc"));
    }

    #[test]
    fn what_is_no_such_link_is_no_namespace() {
        assert_eq!(parse("net", b"net:[4026531840]"), Some(Namespace(4_026_531_840)));
        for link in [&b"mnt:[1]"[..], b"net:[]", b"net:[1", b"net:[x]", b"/net:[1]", b""] {
            assert_eq!(parse("net", link), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_namespace_or_none(link: Vec<u8>, inode: u64) {
            let _ = parse("net", &link);
            let link = format!("net:[{inode}]");
            proptest::prop_assert_eq!(parse("net", link.as_bytes()), Some(Namespace(inode)));
            proptest::prop_assert_eq!(parse("mnt", link.as_bytes()), None);
        }
    }
}
