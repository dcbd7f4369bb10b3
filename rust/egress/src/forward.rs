//! A plain HTTP request, sent on over a connection of its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::hop;
use crate::permit::Permit;
use crate::record::Entry;
use crate::refusal::Failure;
use crate::target::Target;
use crate::traffic::{Counted, IDLE, Traffic};

/// The longest head of a reply, and what is held of its body, in bytes.
const MAX_REPLY_BUFFER: usize = 64 * 1024;
/// How long the head of the reply may take from the last byte of the request that
/// the upstream took. A model that runs on a slow machine may think for minutes.
const FIRST_BYTE_DEADLINE: Duration = Duration::from_mins(5);

/// The body of a reply: one of the guard's own, or the upstream's as it comes.
pub(crate) type ReplyBody = Either<Full<Bytes>, Incoming>;

/// How asking the upstream ended, once it has: with a reply, or why without.
type Outcome = Arc<OnceLock<Result<(), (&'static str, String)>>>;

/// The connection to the upstream for as long as one request takes. Its record
/// is handed over when it is dropped.
pub(crate) struct Exchange {
    connection: Pin<Box<Connection<TokioIo<Counted<TcpStream>>, Incoming>>>,
    outcome: Outcome,
    permit: Permit,
    entry: Entry,
}

/// Asks the upstream of an [`Exchange`].
pub(crate) struct Asker {
    sender: SendRequest<Incoming>,
    traffic: Arc<Traffic>,
    outcome: Outcome,
}

impl Exchange {
    /// Prepares one request on `stream`; `entry` is for its end.
    pub(crate) async fn start(
        stream: TcpStream,
        permit: Permit,
        mut entry: Entry,
    ) -> Result<(Asker, Self), Failure> {
        let traffic = entry.traffic();
        let stream = TokioIo::new(Counted::new(stream, Arc::clone(&traffic)));
        match Builder::new().max_buf_size(MAX_REPLY_BUFFER).handshake(stream).await {
            Ok((sender, connection)) => {
                let outcome = Outcome::default();
                let asker = Asker { sender, traffic, outcome: Arc::clone(&outcome) };
                Ok((asker, Self { connection: Box::pin(connection), outcome, permit, entry }))
            }
            Err(error) => {
                let failure = Failure::Reply(error);
                entry.note(failure.code(), failure.to_string());
                Err(failure)
            }
        }
    }

    /// Moves the bytes to and from the upstream while `client` serves the client,
    /// until that or the permit has ended. What it is made of asks the [`Asker`].
    pub(crate) async fn beside(mut self, client: impl Future<Output = hyper::Result<()>>) {
        let traffic = self.entry.traffic();
        let upstream = async {
            // Its end, good or bad, shows in the reply.
            let _ = self.connection.await;
            std::future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            biased;
            () = self.permit.revoked() => return self.entry.revoked(),
            () = traffic.idle(IDLE) => return self.entry.idle(),
            never = upstream => match never {},
            ended = client => ended,
        };
        match (self.outcome.get(), ended) {
            (Some(Err((code, message))), _) => self.entry.note(code, message.clone()),
            (Some(Ok(())), Ok(())) => {
                self.entry.note("finished", "the reply was passed on".to_owned());
            }
            (Some(Ok(())), Err(error)) => {
                self.entry.note("broken", format!("the reply broke: {error}"));
            }
            (None, _) => {
                self.entry.note("abandoned", "the client left before the reply".to_owned());
            }
        }
    }
}

impl Asker {
    /// Sends the request, which is for `target`, and waits for the head of the
    /// reply. The [`Exchange`] must be moving at the same time.
    pub(crate) async fn ask(
        mut self,
        request: Request<Incoming>,
        target: &Target,
    ) -> Result<Response<ReplyBody>, Failure> {
        let is_head = request.method() == Method::HEAD;
        let asking = self.sender.send_request(outgoing(request, target));
        let reply = tokio::select! {
            reply = asking => match reply {
                Ok(reply) if reply.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    Err(Failure::Switched)
                }
                Ok(reply) => Ok(incoming(reply, is_head)),
                Err(error) => Err(Failure::Reply(error)),
            },
            () = self.traffic.unasked(FIRST_BYTE_DEADLINE) => Err(Failure::FirstByteTimeout),
        };
        let outcome = reply.as_ref().map(|_| ()).map_err(|f| (f.code(), f.to_string()));
        // It is set here alone, and once.
        let _ = self.outcome.set(outcome);
        reply
    }
}

/// The request in the form that the upstream gets.
fn outgoing(request: Request<Incoming>, target: &Target) -> Request<Incoming> {
    let (mut parts, body) = request.into_parts();
    parts.uri = match parts.uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    };
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    hop::clean_request(&mut parts.headers, &body, target.host_header());
    Request::from_parts(parts, body)
}

/// The reply in the form that the client gets.
fn incoming(reply: Response<Incoming>, is_to_head: bool) -> Response<ReplyBody> {
    let (mut parts, body) = reply.into_parts();
    parts.version = Version::HTTP_11;
    // The upstream's own words for the status are in there.
    parts.extensions.clear();
    hop::clean_reply(&mut parts.headers, is_to_head);
    Response::from_parts(parts, Either::Right(body))
}
