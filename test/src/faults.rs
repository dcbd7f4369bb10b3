//! What the tests of faults share: a process that must not be touched, and
//! programs that do something wrong.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::Value;

use crate::host::{Host, paddock};

/// A process of the same user that belongs to no launch, however much it says
/// so. Ended when dropped.
pub struct Bystander(Child);

impl Bystander {
    /// Starts one.
    pub fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        for (name, value) in [
            ("PADDOCK_LAUNCH", "bcdfghjkmnpq"),
            ("PADDOCK_LAYER", "server"),
            ("NONO_CAP_FILE", "/tmp/.nono-0123456789abcdef.json"),
        ] {
            command.env(name, value);
        }
        Self(command.spawn().expect("sleep"))
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Whether it still runs.
    pub fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program that does something wrong.
///
/// # Panics
/// When it has not been built.
pub fn fault() -> PathBuf {
    let path = paddock().with_file_name("paddock-fault");
    assert!(path.is_file(), "paddock-fault is built; scripts/test.sh builds it");
    path
}

/// Puts the program `from` at `to`: a link where that can be, since nono is
/// large.
pub fn place(from: &Path, to: &Path) -> PathBuf {
    std::fs::create_dir_all(to.parent().expect("a parent")).expect("directories");
    std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop)).expect("a program");
    to.to_owned()
}

/// Hands a descriptor to the `paddock-fault hold` at `socket`; without one it lets go of
/// all that it holds.
///
/// # Panics
/// When nobody is there.
pub fn hand_in(socket: &Path, descriptor: Option<BorrowedFd<'_>>) {
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(socket).expect("it listens");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptors) = descriptor.as_ref().map(std::slice::from_ref) {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    rustix::net::sendmsg(&sender, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::NOSIGNAL)
        .expect("it takes it");
}

/// Events of that name in the newest launch's ledger.
pub fn events(host: &Host, name: &str) -> Vec<Value> {
    host.ledger().into_iter().filter(|line| line["event"] == name).collect()
}

/// The processes that play the parts of the newest launch, by name, as its
/// record has them.
pub fn parts(host: &Host) -> Vec<(String, i32)> {
    let records = host.records();
    let parts = records.last().and_then(|record| record["parts"].as_array().cloned());
    let part = |part: &Value| {
        let pid = i32::try_from(part["process"]["pid"].as_i64()?).ok()?;
        Some((part["name"].as_str()?.to_owned(), pid))
    };
    parts.iter().flatten().filter_map(part).collect()
}
