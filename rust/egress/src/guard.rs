//! The proxy: one client connection, one request, at most one upstream.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::credential::Credential;
use crate::dial::{addresses, connect};
use crate::forward::ReplyBody;
use crate::once::OnceGrants;
use crate::opened::{Open, Opened};
use crate::permit::Permit;
use crate::record::Entry;
use crate::refusal::Denial;
use crate::target::Target;
use crate::{Decision, Host, Policy, Recorder, Refusal, Resolver, Route, reply};

/// How long a client may take to send the head of its request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The longest request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Client connections that are served at once; the others wait.
const MAX_CONNECTIONS: usize = 1024;

/// The egress filter: an HTTP proxy that serves `CONNECT`, and plain requests
/// for `http://` URLs, for the hosts and ports of its [`Policy`] alone.
///
/// A plain request goes to the host and port of its URL, over a connection of
/// its own, as a request for the path with a `Host` header made from the URL;
/// one `Host` header that contradicts is overwritten, two are refused. Headers
/// that are for one connection alone are removed both ways, and lengths are
/// written anew. No `Via` is added: it would tell about the sandbox.
///
/// Replies of its own: 403 refused; 405 for `TRACE`; 407 without the secret; 502
/// if the host could not be resolved or reached or gave no valid reply, 504 if
/// not in time. The body of a denial is text, `refused: <reason>: <message>` or
/// `failed: <reason>: <message>`, and a line with a hint where there is one.
///
/// A connection serves one request; a client that ends its half of it before the
/// reply to a plain request has left. At most 1024 are served at once, each with
/// up to two open descriptors, and some 20 KB of memory before its request is there,
/// 6 KB as a tunnel that is idle, or 40 KB while it waits for a reply. What a side of
/// a tunnel does not take fills 32 KiB, and then nothing more is read from the other.
/// A request head may take 10 seconds and 16 KiB, the head of a reply 5 minutes from
/// the last byte of the request and 64 KiB. After 30 minutes without a byte either
/// way a connection is cut.
pub struct Guard<R> {
    policy: watch::Sender<Arc<Policy>>,
    once: Mutex<OnceGrants>,
    resolver: R,
    recorder: Recorder,
    credential: Option<Credential>,
    hint: Option<Hint>,
    slots: Arc<Semaphore>,
    requests: AtomicU64,
}

/// Makes the line that follows a refusal.
type Hint = Box<dyn Fn(&Host, u16) -> String + Send + Sync>;

impl<R: Resolver> Guard<R> {
    /// Makes a guard. The recorder gets one record for each request and another
    /// one for the end of each that was allowed.
    pub fn new(policy: Policy, resolver: R, recorder: Recorder) -> Self {
        Self {
            policy: watch::Sender::new(Arc::new(policy)),
            once: Mutex::default(),
            resolver,
            recorder,
            credential: None,
            hint: None,
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            requests: AtomicU64::new(0),
        }
    }

    /// Serves only requests that present this user name and secret, as `Basic`
    /// proxy authentication; others are answered with 407.
    #[must_use]
    pub fn with_secret(mut self, user: &str, secret: &str) -> Self {
        self.credential = Some(Credential::new(user, secret));
        self
    }

    /// Tells a client whose host or port is not allowed what it can do about it:
    /// `hint` makes a line of text from both, which follows the reason.
    #[must_use]
    pub fn with_hint(
        mut self,
        hint: impl Fn(&Host, u16) -> String + Send + Sync + 'static,
    ) -> Self {
        self.hint = Some(Box::new(hint));
        self
    }

    /// Replaces the policy, at once: for the requests from now on, and for the
    /// connections that are open. Those that the new one would not allow, to
    /// their host, port and address, are cut and recorded as `revoked`; only what
    /// [`grant_once`](Self::grant_once) allowed stays open until its end, or until
    /// [`revoke_once`](Self::revoke_once).
    pub fn set_policy(&self, policy: Policy) {
        self.policy.send_replace(Arc::new(policy));
    }

    /// Allows one request to this host and port that the policy would refuse for
    /// either; where the host may be is checked as for any other. What comes of
    /// that request does not matter: the next one needs another grant.
    pub fn grant_once(&self, host: Host, port: u16) {
        lock(&self.once).grant(Target { host, port });
    }

    /// Takes back what [`grant_once`](Self::grant_once) allowed to this host and port:
    /// unused grants are gone, and what is open is cut and recorded as `revoked`.
    /// Tells whether there was anything.
    pub fn revoke_once(&self, host: &Host, port: u16) -> bool {
        lock(&self.once).take_back(&Target { host: host.clone(), port })
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
        let (opened, handed_over) = Opened::new();
        let service = service_fn(|request| {
            // Not in the future: hyper may drop that before it was polled.
            let mut entry = self.entry();
            let target = Target::read(&request, &mut entry);
            let known = match &self.credential {
                Some(credential) => credential.check(request.headers()),
                None => Ok(()),
            };
            let target = known.and(target);
            Box::pin(self.answer(request, target, entry, &opened))
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut serving = pin!(serving);
        // Both, and the tunnel, run here and not in tasks of their own, so that
        // they end with this future. In boxes, so that a connection that has not
        // got as far takes no memory for them.
        let ended = tokio::select! {
            biased;
            Ok(exchange) = handed_over => {
                return Box::pin(exchange.beside(serving)).await;
            }
            ended = &mut serving => ended,
        };
        if let Err(error) = ended {
            self.note_unreadable(&error);
        }
        if let Some(tunnel) = opened.tunnel() {
            Box::pin(tunnel.relay()).await;
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        target: Result<Target, Refusal>,
        entry: Entry,
        opened: &Opened,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let reply = match target {
            Ok(target) => match Box::pin(self.open(&target)).await {
                Ok(open) => {
                    let closing = entry.allow(open.address, open.reason);
                    Box::pin(opened.serve(request, &target, open, closing)).await
                }
                Err(denial) => {
                    let hint = self.hint(&target, &denial);
                    entry.deny(&denial);
                    reply::drain(request).await;
                    reply::denied(&denial, hint.as_deref())
                }
            },
            Err(refusal) => {
                let denial = refusal.into();
                entry.deny(&denial);
                reply::drain(request).await;
                reply::denied(&denial, None)
            }
        };
        Ok(reply)
    }

    /// What the client can do about a denial, if there is something.
    fn hint(&self, target: &Target, denial: &Denial) -> Option<String> {
        let hint = self.hint.as_ref()?;
        matches!(
            denial,
            Denial::Refused(Refusal::HostNotAllowed { .. } | Refusal::PortNotAllowed { .. })
        )
        .then(|| hint(&target.host, target.port))
    }

    /// Decides about a target and connects to it.
    async fn open(&self, target: &Target) -> Result<Open, Denial> {
        let Target { host, port } = target;
        let mut policies = self.policy.subscribe();
        let policy = Arc::clone(&policies.borrow_and_update());
        let listed = policy.route(host, *port);
        let is_missing =
            matches!(listed, Err(Refusal::HostNotAllowed { .. } | Refusal::PortNotAllowed { .. }));
        let once = if is_missing { lock(&self.once).take(target) } else { None };
        let route = if once.is_some() { policy.way(host)? } else { listed? };
        let reason = match route {
            _ if once.is_some() => "granted-once",
            Route::Resolve(_) | Route::Literal(_) => "allow-list",
            Route::Exception(_) | Route::Within(..) => "exception",
        };
        let addresses = addresses(&self.resolver, route).await?;
        let (stream, address) = connect(&addresses, *port, TcpStream::connect).await?;
        // What does not matter to whether the tunnel works may fail.
        let _ = stream.set_nodelay(true);
        let permit = Permit::new(policies, target.clone(), address, once);
        Ok(Open { stream, address, reason, permit })
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
