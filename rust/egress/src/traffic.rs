//! The bytes that pass to and from an upstream, counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// How long a connection may be open with no byte in it, either way.
pub(crate) const IDLE: Duration = Duration::from_mins(30);

/// How much has passed, and when the last of it.
#[derive(Debug)]
pub(crate) struct Traffic {
    since: Instant,
    sent: Passed,
    received: Passed,
}

/// Bytes in one direction.
#[derive(Debug, Default)]
struct Passed {
    bytes: AtomicU64,
    /// When the last ones passed: milliseconds since the start.
    last: AtomicU64,
}

impl Passed {
    fn add(&self, bytes: usize, since: Instant) {
        let now = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
    }

    fn last(&self) -> Duration {
        Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

impl Traffic {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), sent: Passed::default(), received: Passed::default() }
    }

    /// Bytes that the upstream took.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that came from the upstream.
    pub(crate) fn received(&self) -> u64 {
        self.received.bytes.load(Ordering::Relaxed)
    }

    /// Waits until for `limit` no byte has passed, either way.
    pub(crate) async fn idle(&self, limit: Duration) {
        self.quiet(limit, || self.sent.last().max(self.received.last())).await;
    }

    /// Waits until for `limit` the upstream has taken no byte.
    pub(crate) async fn unasked(&self, limit: Duration) {
        self.quiet(limit, || self.sent.last()).await;
    }

    async fn quiet(&self, limit: Duration, last: impl Fn() -> Duration) {
        loop {
            let end = self.since + last() + limit;
            if Instant::now() >= end {
                return;
            }
            sleep_until(end).await;
        }
    }
}

/// A stream whose bytes are counted.
pub(crate) struct Counted<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S, traffic: Arc<Traffic>) -> Self {
        Self { stream, traffic }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        self.traffic.received.add(read, self.traffic.since);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.traffic.sent.add(written, self.traffic.since);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
