//! A server of small packages for the clients of registries, on the test host's
//! loopback: HTTP and HTTPS on one port, files of a directory, and a list of every
//! request that arrived.

mod packages;
mod serve;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

/// The name that the server has inside.
pub const NAME: &str = "registry.test";

/// What stands for `scheme://name:port` in the files that are served.
pub const BASE: &str = "@BASE@";

/// The running server; gone with its files when dropped.
pub struct Registry {
    files: TempDir,
    port: u16,
    authority: String,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registry {
    /// Serves an empty directory.
    pub fn start() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (tls, authority) = certified();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let one =
            serve::Site { root: files.path().to_owned(), port, tls, requests: requests.clone() };
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || one.serve(&listener, &stopped));
        Self { files, port, authority, requests, stop, thread: Some(thread) }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory whose files it serves.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The certificate of who vouches for it, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Has it serve `text` at `path`.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.files.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Every request so far: `SCHEME METHOD TARGET STATUS`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // It waits for a connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A certificate for [`NAME`], and that of the authority that made it.
fn certified() -> (Arc<ServerConfig>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let make = |options: &str| {
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 7";
        let mut command = Command::new("openssl");
        command.current_dir(directory.path()).args(words.split(' ')).args(options.split(' '));
        let made = command.output().expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    make("-subj /CN=authority -keyout authority.key -out authority.pem");
    make(&format!(
        "-subj /CN={NAME} -addext subjectAltName=DNS:{NAME} -addext basicConstraints=CA:FALSE \
         -CA authority.pem -CAkey authority.key -keyout server.key -out server.pem"
    ));
    let path = |name: &str| directory.path().join(name);
    let certificate = CertificateDer::from_pem_file(path("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(path("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key that fits");
    let authority = std::fs::read_to_string(path("authority.pem")).expect("a certificate");
    (Arc::new(config), authority)
}
