//! The bytes of an open tunnel, copied and counted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use crate::record::Entry;

/// The upstream end of a tunnel. Counts what passes; its record is handed over
/// when it is dropped.
pub(crate) struct Upstream<S> {
    stream: S,
    entry: Entry,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Upstream<S> {
    pub(crate) fn new(stream: S, entry: Entry) -> Self {
        Self { stream, entry }
    }

    /// Copies both ways until both sides have ended; each side may end its half
    /// before the other.
    pub(crate) async fn relay<C: AsyncRead + AsyncWrite + Unpin>(mut self, mut client: C) {
        match copy_bidirectional(&mut client, &mut self).await {
            Ok(_) => self.entry.note("finished", "both sides ended the tunnel".to_owned()),
            Err(error) => self.broken(&error),
        }
    }

    /// Ends the tunnel because of an error.
    pub(crate) fn broken(mut self, error: &dyn std::error::Error) {
        self.entry.note("broken", format!("the tunnel broke: {error}"));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Upstream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.entry.record.received += (buf.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Upstream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.entry.record.sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
