//! The proxy: one client connection, one request, at most one tunnel.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dial::{addresses, connect};
use crate::record::Entry;
use crate::refusal::Denial;
use crate::target::Target;
use crate::tunnel::Upstream;
use crate::{Decision, Policy, Recorder, Refusal, Resolver, Route};

/// How long a client may take to send the head of its request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The longest request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Client connections that are served at once; the others wait.
const MAX_CONNECTIONS: usize = 1024;

/// The egress filter: an HTTP proxy that serves `CONNECT`, for the hosts and
/// ports of its [`Policy`] alone.
///
/// Replies: 200 and the tunnel; 403 refused; 405 for other methods; 502 if the
/// host could not be resolved or reached. The body of a denial is one line of
/// text, `refused: <reason>: <message>` or `failed: <reason>: <message>`.
///
/// A connection serves one request. At most 1024 are served at once, each with
/// up to two open descriptors.
pub struct Guard<R> {
    policy: RwLock<Arc<Policy>>,
    resolver: R,
    recorder: Recorder,
    slots: Arc<Semaphore>,
    requests: AtomicU64,
}

/// What a request leaves behind for the time after its reply.
type Opened = (OnUpgrade, Upstream<TcpStream>);

/// A connection to an allowed target.
struct Open {
    stream: TcpStream,
    address: IpAddr,
    /// Why it was allowed.
    reason: &'static str,
}

impl<R: Resolver> Guard<R> {
    /// Makes a guard. The recorder gets one record for each request and another
    /// one for the end of each tunnel.
    pub fn new(policy: Policy, resolver: R, recorder: Recorder) -> Self {
        Self {
            policy: RwLock::new(Arc::new(policy)),
            resolver,
            recorder,
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            requests: AtomicU64::new(0),
        }
    }

    /// Replaces the policy for the requests from now on. Tunnels that are open
    /// stay open.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Serves one client connection; returns when it and its tunnel have ended.
    ///
    /// Waits for a free place first. When the returned future is dropped, the
    /// tunnel is cut, and recorded as such.
    pub async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let slot = self.slot().await;
        self.serve_in(slot, stream).await;
    }

    /// Waits until one more connection may be served.
    pub(crate) async fn slot(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => slot,
            // Only a closed semaphore fails, and nothing closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Serves one client connection in a place that stays taken until the end.
    pub(crate) async fn serve_in<S>(&self, _slot: OwnedSemaphorePermit, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = Mutex::new(None);
        let service = service_fn(|request| {
            // Not in the future: hyper may drop that before it was polled.
            let mut entry = self.entry();
            let target = Target::read(&request, &mut entry);
            self.answer(request, target, entry, &opened)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            self.note_unreadable(&error);
        }
        // The tunnel runs here and not in a task of its own, so that it ends
        // with this future.
        let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((upgrade, upstream)) = opened {
            match upgrade.await {
                Ok(client) => upstream.relay(TokioIo::new(client)).await,
                Err(error) => upstream.broken(&error),
            }
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        target: Result<Target, Refusal>,
        entry: Entry,
        opened: &Mutex<Option<Opened>>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let outcome = match target {
            Ok(target) => self.open(target).await,
            Err(refusal) => Err(refusal.into()),
        };
        let reply = match outcome {
            Ok(Open { stream, address, reason }) => {
                let upstream = Upstream::new(stream, entry.allow(address, reason));
                let tunnel = (hyper::upgrade::on(request), upstream);
                *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
                Response::new(Full::default())
            }
            Err(denial) => {
                let reply = denied(&denial);
                entry.deny(&denial);
                reply
            }
        };
        Ok(reply)
    }

    /// Decides about a target and connects to it.
    async fn open(&self, Target { host, port }: Target) -> Result<Open, Denial> {
        let policy = Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner));
        let route = policy.route(&host, port)?;
        let reason = match route {
            Route::Resolve(_) | Route::Literal(_) => "allow-list",
            Route::Exception(_) => "exception",
        };
        let addresses = addresses(&self.resolver, route).await?;
        let (stream, address) = connect(&addresses, port, TcpStream::connect).await?;
        // What does not matter to whether the tunnel works may fail.
        let _ = stream.set_nodelay(true);
        Ok(Open { stream, address, reason })
    }

    /// Records a connection that ended before there was a request to answer.
    fn note_unreadable(&self, error: &hyper::Error) {
        let (decision, reason) = if error.is_parse() {
            (Decision::Refused, "malformed-request")
        } else if error.is_timeout() {
            (Decision::Failed, "head-timeout")
        } else {
            // The client left: it asked for nothing, or the request has a
            // record already.
            return;
        };
        let mut entry = self.entry();
        entry.record.decision = decision;
        entry.note(reason, format!("no request could be read: {error}"));
    }

    fn entry(&self) -> Entry {
        Entry::new(&self.recorder, self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

fn denied(denial: &Denial) -> Response<Full<Bytes>> {
    let (status, verdict) = match denial {
        Denial::Refused(Refusal::Method) => (StatusCode::METHOD_NOT_ALLOWED, "refused"),
        Denial::Refused(_) => (StatusCode::FORBIDDEN, "refused"),
        Denial::Failed(_) => (StatusCode::BAD_GATEWAY, "failed"),
    };
    let text = format!("{verdict}: {}: {denial}\n", denial.code());
    let mut reply = Response::new(Full::from(text));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("CONNECT"));
    }
    reply
}
