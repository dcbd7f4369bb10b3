//! Where a launch keeps its things.

use std::path::PathBuf;

use super::{Directories, LaunchId};

/// Where a launch keeps its things.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The launch directory, on the host only.
    pub(crate) launch: PathBuf,
    /// The part of it that exists inside, at the same path.
    pub(crate) inside: PathBuf,
    /// The record, the ledger and the temporary files.
    pub(crate) state: PathBuf,
}

impl Paths {
    /// Those of the launch `id`.
    pub(crate) fn of(id: &LaunchId, directories: &Directories) -> Self {
        let launch = directories.runtime.join(id.as_str());
        Self { inside: launch.join("in"), launch, state: directories.launches().join(id.as_str()) }
    }
    /// Those of its sockets that have the longest paths.
    pub(crate) fn longest_sockets(&self) -> [PathBuf; 2] {
        [self.link_socket(), self.canaries_in_pen().join("seqpacket.sock")]
    }
    pub(crate) fn gate(&self) -> PathBuf {
        self.inside.join("gate.sock")
    }
    pub(crate) fn control(&self) -> PathBuf {
        self.launch.join("control.sock")
    }
    /// The one folder in which the server may make a socket.
    pub(crate) fn link_folder(&self) -> PathBuf {
        self.inside.join("link")
    }
    /// The one socket there that the server may bind.
    pub(crate) fn link_socket(&self) -> PathBuf {
        self.link_folder().join("agent.sock")
    }
    /// Where `paddock` is found inside.
    pub(crate) fn programs(&self) -> PathBuf {
        self.inside.join("bin")
    }
    /// What the client of a server on standard input and output starts in its place.
    pub(crate) fn bridge(&self) -> PathBuf {
        self.programs().join("paddock-bridge")
    }
    pub(crate) fn profile(&self, layer: &str) -> PathBuf {
        self.inside.join(format!("profiles/{layer}.json"))
    }
    /// nono's own directories in a layer.
    pub(crate) fn nono(&self, layer: &str) -> PathBuf {
        self.inside.join(format!("nono/{layer}"))
    }
    /// Canaries that the pen lets through and the inner sandboxes must not.
    pub(crate) fn canaries_in_pen(&self) -> PathBuf {
        self.inside.join("canary/pen")
    }
    /// One of these, which mediation in the sandboxes lets through, and the
    /// kernel's rule about sockets must not.
    pub(crate) fn mediated_canary(&self) -> PathBuf {
        self.canaries_in_pen().join("mediated.sock")
    }
    /// Canaries that the veil lets through and the pen must not.
    pub(crate) fn canaries_in_veil(&self) -> PathBuf {
        self.inside.join("canary/veil")
    }
    /// The launch's private temporary directory.
    pub(crate) fn temporary(&self, half: &str) -> PathBuf {
        self.state.join(format!("tmp-{half}"))
    }
}
