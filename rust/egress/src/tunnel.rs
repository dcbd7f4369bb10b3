//! An open tunnel: bytes copied both ways.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::permit::Permit;
use crate::record::Entry;
use crate::relay::relay;
use crate::traffic::{Counted, IDLE};

/// A tunnel that has been promised to the client. Its record is handed over
/// when it is dropped.
pub(crate) struct Tunnel {
    upgrade: OnUpgrade,
    stream: Counted<TcpStream>,
    permit: Permit,
    entry: Entry,
}

impl Tunnel {
    /// The tunnel between the client's connection, once that is free, and
    /// `stream`; `entry` is for its end.
    pub(crate) fn new(upgrade: OnUpgrade, stream: TcpStream, permit: Permit, entry: Entry) -> Self {
        let stream = Counted::new(stream, entry.traffic());
        Self { upgrade, stream, permit, entry }
    }

    /// Copies both ways until both sides have ended, the permit has, or for long
    /// nothing has passed; each side may end its half before the other.
    pub(crate) async fn relay(self) {
        let Self { upgrade, mut stream, mut permit, mut entry } = self;
        let copying = async {
            let client = upgrade.await.map_err(|error| error.to_string())?;
            let copied = relay(&mut TokioIo::new(client), &mut stream).await;
            copied.map_err(|error| error.to_string())
        };
        let traffic = entry.traffic();
        tokio::select! {
            biased;
            () = permit.revoked() => entry.revoked(),
            () = traffic.idle(IDLE) => entry.idle(),
            ended = copying => match ended {
                Ok(()) => entry.note("finished", "both sides ended the tunnel".to_owned()),
                Err(error) => entry.note("broken", format!("the tunnel broke: {error}")),
            },
        }
    }
}
