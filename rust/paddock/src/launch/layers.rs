//! The argument lists of the layers. Every path that a layer grants comes from
//! [`Plan::grants`]; the veil shows exactly what the pen is granted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use confine::Layer;

use super::GitSettings;
use super::half::Client;
use super::plan::{Access, Grant, Plan, program_tree};
use warden::Link;

/// Parts of the system that exist inside the veil, read-only. What is a link on
/// the host (`/bin` on merged systems) is the same link inside.
const SYSTEM: [&str; 10] =
    ["/usr", "/etc", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/nix", "/gnu"];

impl Plan {
    /// What each layer grants beside what its profile always does. The pen's
    /// are the union of the inner ones, and what nono itself needs there.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let mut grants = Vec::new();
        self.grant_server(&mut grants);
        if let Some(client) = &self.client {
            self.grant_client(client, &mut grants);
        }
        let mut pen: Vec<Grant> =
            grants.iter().map(|grant| Grant { layer: "pen", ..grant.clone() }).collect();
        let mut add = |access, path: PathBuf, is_file| {
            pen.push(Grant { layer: "pen", access, path, is_file });
        };
        add(Access::Read, self.programs.nono.path.clone(), true);
        add(Access::Read, self.paths.inside.join("profiles"), false);
        add(Access::Read, self.paths.canaries_in_pen(), false);
        for layer in self.inner_layers() {
            add(Access::ReadWrite, self.paths.nono(&layer.to_string()), false);
        }
        pen.sort_by(|a, b| {
            a.path.cmp(&b.path).then(a.access.name().cmp(b.access.name()).reverse())
        });
        pen.dedup_by(|later, earlier| later.path == earlier.path);
        grants.extend(pen);
        grants
    }

    /// The directories of the host that the server may write.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        let is_hosts = |path: &Path| !self.tier.has_veil() || !self.is_made_by_veil(path);
        let own = self.grants().into_iter().filter(|grant| grant.layer == "server");
        let writable = own.filter(|grant| grant.access == Access::ReadWrite);
        let writable = writable.map(|grant| grant.path).filter(|path| is_hosts(path));
        writable.chain(self.shared_directories().into_iter().map(Path::to_owned)).collect()
    }

    /// What the veil has of its own and not from this host.
    fn is_made_by_veil(&self, path: &Path) -> bool {
        ["/tmp", "/dev/shm", "/dev/pts"].iter().any(|made| path == Path::new(made))
            || self.sockets.iter().any(|own| path == own)
    }

    /// All that one of the layers may write, also where links lead to: the kernel shows
    /// paths without any.
    pub(crate) fn places_to_write(&self) -> Vec<PathBuf> {
        let grants = self.grants().into_iter().filter(|grant| grant.access == Access::ReadWrite);
        grants
            .flat_map(|grant| [grant.path.canonicalize().ok(), Some(grant.path)])
            .flatten()
            .collect()
    }

    fn grant_server(&self, grants: &mut Vec<Grant>) {
        let mut add = |access, path: PathBuf, is_file| {
            grants.push(Grant { layer: "server", access, path, is_file });
        };
        add(Access::ReadWrite, self.workspace.root.clone(), false);
        if let Some(git) = &self.workspace.git.linked {
            if self.git_settings == GitSettings::Writable {
                add(Access::ReadWrite, git.common.clone(), false);
            } else {
                add(Access::Read, git.common.clone(), false);
                for path in &git.writable {
                    add(Access::ReadWrite, path.clone(), false);
                }
            }
        }
        add(Access::ReadWrite, self.server.home.clone(), false);
        if self.tier.has_veil() {
            // Private to the launch: the veil makes all of them. The host's own
            // hold other programs' memory and other terminals.
            add(Access::ReadWrite, PathBuf::from("/tmp"), false);
            add(Access::ReadWrite, PathBuf::from("/dev/shm"), false);
            add(Access::ReadWrite, PathBuf::from("/dev/pts"), false);
        } else {
            add(Access::ReadWrite, self.paths.temporary("server"), false);
        }
        if self.link().and_then(Link::socket).is_some() {
            add(Access::ReadWrite, self.paths.link_folder(), false);
        }
        for directory in &self.sockets {
            add(Access::ReadWrite, directory.clone(), false);
        }
        for (path, is_file) in self.program_grants() {
            add(Access::Read, path, is_file);
        }
        for granted in &self.granted {
            add(granted.access, granted.path.clone(), granted.is_file);
        }
    }

    fn grant_client(&self, client: &Client, grants: &mut Vec<Grant>) {
        let mut add = |access, path: PathBuf, is_file| {
            grants.push(Grant { layer: "client", access, path, is_file });
        };
        add(Access::Read, self.workspace.root.clone(), false);
        add(Access::ReadWrite, client.half.home.clone(), false);
        add(Access::ReadWrite, self.paths.temporary("client"), false);
        for directory in &self.sockets {
            add(Access::ReadWrite, directory.clone(), false);
        }
        for (path, is_file) in self.program_grants() {
            add(Access::Read, path, is_file);
        }
    }

    /// The agent's program, the wardens', and what its file names.
    fn program_grants(&self) -> Vec<(PathBuf, bool)> {
        let program = match program_tree(&self.program.path) {
            Some(tree) => (tree, false),
            None => (self.program.path.clone(), true),
        };
        let mut grants = vec![(self.programs.warden.path.clone(), true), program];
        grants.extend_from_slice(&self.read);
        grants
    }

    /// The whole command of the outermost layer: the veil around the pen, or
    /// the pen alone. `status` is the descriptor on which bubblewrap reports.
    pub(crate) fn outermost_argv(&self, status: Option<i32>) -> Vec<OsString> {
        let mut argv = if self.tier.has_veil() { self.veil_argv(status) } else { Vec::new() };
        argv.extend(self.pen_argv());
        argv
    }

    /// bubblewrap: a pid and a mount namespace in which only system files, the
    /// grants and the launch directory exist.
    pub(crate) fn veil_argv(&self, status: Option<i32>) -> Vec<OsString> {
        let bwrap = self.programs.bwrap.as_ref().map_or("bwrap".into(), |b| b.path.clone());
        let mut argv = Arguments(vec![bwrap.into()]);
        argv.words(&["--unshare-pid", "--die-with-parent"]);
        if let Some(descriptor) = status {
            argv.words(&["--json-status-fd", &descriptor.to_string()]);
        }
        for path in SYSTEM {
            argv.system(Path::new(path));
        }
        argv.words(&["--proc", "/proc", "--dev", "/dev"]);
        argv.path("--bind", &self.paths.temporary("server"), Path::new("/tmp"));
        let mut shown: Vec<Grant> =
            self.grants().into_iter().filter(|grant| grant.layer == "pen").collect();
        let inside = &self.paths.inside;
        shown.push(Grant {
            layer: "pen",
            access: Access::Read,
            path: inside.clone(),
            is_file: false,
        });
        shown.push(Grant {
            layer: "pen",
            access: Access::ReadWrite,
            path: self.paths.nono("pen"),
            is_file: false,
        });
        shown.extend(self.kept_of_git.mounts().map(|(access, path)| Grant {
            layer: "pen",
            access,
            path: path.clone(),
            is_file: false,
        }));
        // A directory before what lies in it, so that the narrower rule wins.
        shown.sort_by(|a, b| a.path.cmp(&b.path));
        for grant in shown {
            let made_by_veil = self.is_made_by_veil(&grant.path);
            let is_system = SYSTEM.iter().any(|system| grant.path.starts_with(system));
            if grant.path == self.paths.link_folder() {
                // Of the launch alone: on the host nobody finds the socket in it.
                argv.words(&["--perms", "0700"]);
                argv.option("--tmpfs", &grant.path);
            } else if !made_by_veil && !is_system {
                let option = match grant.access {
                    Access::Read => "--ro-bind",
                    Access::ReadWrite => "--bind",
                };
                argv.path(option, &grant.path, &grant.path);
            }
        }
        // What grants the home grants what is mounted in it.
        for shared in &self.shared {
            argv.path("--bind", &shared.own, &shared.at);
        }
        argv.words(&["--remount-ro", "/"]);
        argv.words(&["--chdir"]);
        argv.0.push(self.workspace.root.clone().into());
        argv.words(&["--"]);
        argv.0
    }

    /// nono for the pen.
    pub(crate) fn pen_argv(&self) -> Vec<OsString> {
        let mut argv = self.nono_argv("pen");
        if self.tier.isolates_network() {
            argv.words(&["--isolate", "net,loopback,ipc,uts"]);
        } else {
            let server = self.link().and_then(Link::port);
            for port in server.into_iter().chain([self.ports.guard]) {
                argv.words(&["--open-port", &port.to_string()]);
            }
        }
        self.with_warden(argv, Layer::Pen)
    }

    /// nono for the server sandbox, to be started in the pen.
    pub(crate) fn server_argv(&self) -> Vec<OsString> {
        let mut argv = self.nono_argv("server");
        self.allow_sockets(&mut argv);
        match self.link() {
            Some(Link::Unix(socket) | Link::Stdio(socket)) => {
                argv.option("--allow-unix-socket-bind", socket);
            }
            // Its tools can connect to it, too: with --block-net nono 0.81 lets nothing
            // listen at a --listen-port.
            Some(Link::Tcp(port) | Link::Http(port, _)) => {
                argv.words(&["--open-port", &port.to_string()]);
            }
            Some(Link::Own(_)) | None => {}
        }
        for directory in &self.sockets {
            argv.option("--allow-unix-socket-subtree-bind", directory);
        }
        if self.allows_sockets_in_tmp() {
            argv.option("--allow-unix-socket-subtree-bind", Path::new("/tmp"));
        }
        // The guard decides about names and addresses, and tells whoever it refuses why.
        argv.words(&["--open-port", &self.ports.guard.to_string()]);
        if !self.tier.isolates_network() {
            // Nothing but these ports, on whatever address has them. In a network of
            // its own there is nothing else to reach, and tools listen where they like.
            argv.words(&["--block-net"]);
        }
        self.with_warden(argv, Layer::Server)
    }

    /// Whether the server's programs may make and reach sockets in `/tmp`: behind a veil
    /// it is the launch's own, on a mount of its own, so that no other socket can be
    /// moved or linked there. Where something of the host's is shown below it, a socket in
    /// that would be in reach, too.
    pub(crate) fn allows_sockets_in_tmp(&self) -> bool {
        let tmp = Path::new("/tmp");
        let is_hosts = |path: &Path| {
            path.starts_with(tmp) && path != tmp && !self.sockets.iter().any(|own| own == path)
        };
        self.tier.has_veil()
            && !self.against_races.strict
            && !self.grants().iter().any(|grant| is_hosts(&grant.path))
    }

    /// nono for the client sandbox, to be started in the pen.
    pub(crate) fn client_argv(&self, client: &Client) -> Vec<OsString> {
        let mut argv = self.nono_argv("client");
        self.allow_sockets(&mut argv);
        match &client.link {
            // nono 0.81 forgets a single socket that is not there yet. Only the server
            // can make one in this folder, and only that one.
            Link::Unix(_) | Link::Stdio(_) => {
                argv.option("--allow-unix-socket-dir", &self.paths.link_folder());
            }
            Link::Tcp(port) | Link::Http(port, _) => {
                argv.words(&["--open-port", &port.to_string()]);
            }
            Link::Own(_) => {}
        }
        for directory in &self.sockets {
            argv.option("--allow-unix-socket-subtree", directory);
        }
        self.with_warden(argv, Layer::Client)
    }

    /// The gate; and what the self-test reaches until the kernel's rule is there.
    fn allow_sockets(&self, argv: &mut Arguments) {
        argv.option("--allow-unix-socket", &self.paths.gate());
        if self.against_races.kernel_rule {
            argv.option("--allow-unix-socket", &self.paths.mediated_canary());
        }
    }

    fn nono_argv(&self, layer: &'static str) -> Arguments {
        let mut argv = Arguments(vec![self.programs.nono.path.clone().into()]);
        argv.words(&["run", "--silent", "--no-audit", "--no-rollback"]);
        argv.option("--profile", &self.paths.profile(layer));
        argv.option("--workdir", &self.workspace.root);
        for grant in self.grants().into_iter().filter(|grant| grant.layer == layer) {
            let option = match (grant.access, grant.is_file) {
                (Access::Read, false) => "--read",
                (Access::Read, true) => "--read-file",
                (Access::ReadWrite, false) => "--allow",
                (Access::ReadWrite, true) => "--allow-file",
            };
            argv.option(option, &grant.path);
        }
        argv
    }

    fn with_warden(&self, mut argv: Arguments, layer: Layer) -> Vec<OsString> {
        argv.words(&["--"]);
        argv.0.push(self.programs.warden.path.clone().into());
        argv.words(&[&layer.to_string()]);
        argv.option("--gate", &self.paths.gate());
        argv.0
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn option(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into()]);
    }

    fn path(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.extend([option.into(), from.into(), to.into()]);
    }

    fn system(&mut self, path: &Path) {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                if let Ok(target) = std::fs::read_link(path) {
                    self.0.extend(["--symlink".into(), target.into(), path.into()]);
                }
            }
            Ok(metadata) if metadata.is_dir() => self.path("--ro-bind", path, path),
            _ => {}
        }
    }
}
