//! From a connection to the upstream to a reply, and to what goes on after it.

use std::net::IpAddr;
use std::sync::Mutex;

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::forward::{Exchange, ReplyBody};
use crate::guard::lock;
use crate::permit::Permit;
use crate::record::Entry;
use crate::refusal::Failure;
use crate::reply;
use crate::target::Target;
use crate::tunnel::Tunnel;

/// A connection to an allowed target.
pub(crate) struct Open {
    pub(crate) stream: TcpStream,
    pub(crate) address: IpAddr,
    /// Why it was allowed.
    pub(crate) reason: &'static str,
    pub(crate) permit: Permit,
}

/// What a request leaves for those who serve its connection.
pub(crate) struct Opened {
    /// For the time after the reply.
    tunnel: Mutex<Option<Tunnel>>,
    /// Takes what must run beside the reply.
    exchange: Mutex<Option<oneshot::Sender<Exchange>>>,
}

impl Opened {
    /// Nothing yet; the receiver gets what must run beside the reply.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Exchange>) {
        let (exchange, handed_over) = oneshot::channel();
        (Self { tunnel: Mutex::default(), exchange: Mutex::new(Some(exchange)) }, handed_over)
    }

    /// The tunnel that was promised.
    pub(crate) fn tunnel(&self) -> Option<Tunnel> {
        lock(&self.tunnel).take()
    }

    /// The reply to a request whose target is connected to.
    pub(crate) async fn serve(
        &self,
        request: Request<Incoming>,
        target: &Target,
        open: Open,
        entry: Entry,
    ) -> Response<ReplyBody> {
        if request.method() == Method::CONNECT {
            let client = hyper::upgrade::on(request);
            let tunnel = Tunnel::new(client, open.stream, open.permit, entry);
            *lock(&self.tunnel) = Some(tunnel);
            return reply::opened();
        }
        let reply = self.forward(request, target, open, entry).await;
        reply.unwrap_or_else(|failure| reply::denied(&failure.into(), None))
    }

    /// Sends a request on; gives the reply as soon as it begins.
    async fn forward(
        &self,
        request: Request<Incoming>,
        target: &Target,
        open: Open,
        entry: Entry,
    ) -> Result<Response<ReplyBody>, Failure> {
        let (asker, exchange) = Exchange::start(open.stream, open.permit, entry).await?;
        let hand_over = lock(&self.exchange).take();
        // There is one request to a connection, and the other end lives as long.
        if let Some(hand_over) = hand_over {
            let _ = hand_over.send(exchange);
        }
        asker.ask(request, target).await
    }
}
