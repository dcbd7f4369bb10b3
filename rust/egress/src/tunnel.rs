//! An open tunnel: bytes copied both ways.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use crate::record::Entry;
use crate::traffic::Counted;

/// A tunnel that has been promised to the client. Its record is handed over
/// when it is dropped.
pub(crate) struct Tunnel {
    upgrade: OnUpgrade,
    stream: Counted<TcpStream>,
    entry: Entry,
}

impl Tunnel {
    /// The tunnel between the client's connection, once that is free, and
    /// `stream`; `entry` is for its end.
    pub(crate) fn new(upgrade: OnUpgrade, stream: TcpStream, entry: Entry) -> Self {
        let stream = Counted::new(stream, entry.traffic());
        Self { upgrade, stream, entry }
    }

    /// Copies both ways until both sides have ended; each side may end its half
    /// before the other.
    pub(crate) async fn relay(mut self) {
        let ended = match self.upgrade.await {
            Ok(client) => copy_bidirectional(&mut TokioIo::new(client), &mut self.stream)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match ended {
            Ok(_) => self.entry.note("finished", "both sides ended the tunnel".to_owned()),
            Err(error) => self.entry.note("broken", format!("the tunnel broke: {error}")),
        }
    }
}
