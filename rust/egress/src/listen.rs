//! The accept loop.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{Guard, Resolver};

/// How long to wait when a connection cannot be accepted: most likely there are
/// too many open descriptors, and some have to be closed first.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Where connections come from.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        TcpListener::poll_accept(self, cx).map_ok(|(stream, _)| {
            // Slower without it, but not wrong.
            let _ = stream.set_nodelay(true);
            stream
        })
    }
}

impl<R: Resolver> Guard<R> {
    /// Serves the connections of a listener until `shutdown` completes; then
    /// cuts all tunnels that are open and returns.
    ///
    /// Errors of the listener are survived. Connections beyond the limit of the
    /// guard wait in the backlog of the listener.
    pub async fn run(self: Arc<Self>, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        self.accept_from(&listener, shutdown).await;
    }

    async fn accept_from<A: Accept>(
        self: Arc<Self>,
        listener: &A,
        shutdown: impl Future<Output = ()>,
    ) {
        let mut shutdown = pin!(shutdown);
        let mut served = JoinSet::new();
        loop {
            let next = async {
                let slot = self.slot().await;
                let accepted = std::future::poll_fn(|cx| listener.poll_accept(cx)).await;
                if accepted.as_ref().is_err_and(is_about_the_listener) {
                    tokio::time::sleep(BACK_OFF).await;
                }
                accepted.ok().map(|stream| (slot, stream))
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = served.join_next() => {}
                accepted = next => if let Some((slot, stream)) = accepted {
                    let guard = Arc::clone(&self);
                    served.spawn(async move { guard.serve_in(slot, stream).await });
                },
            }
        }
        served.shutdown().await;
    }
}

/// Whether the next attempt would fail, too.
fn is_about_the_listener(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::IpAddr;
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::sync::oneshot;

    use super::*;
    use crate::Policy;

    struct Nowhere;

    impl Resolver for Nowhere {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(Vec::new())
        }
    }

    /// Gives what it has, then nothing more.
    struct Scripted(Mutex<VecDeque<io::Result<DuplexStream>>>);

    impl Accept for Scripted {
        type Stream = DuplexStream;

        fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<DuplexStream>> {
            match self.0.lock().unwrap().pop_front() {
                Some(next) => Poll::Ready(next),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn accept_errors_are_survived() {
        const EMFILE: i32 = 24;
        let (mut client, stream) = tokio::io::duplex(1024);
        let (_idle, idle) = tokio::io::duplex(1024);
        let listener = Scripted(Mutex::new(VecDeque::from([
            Ok(idle),
            Err(io::ErrorKind::ConnectionAborted.into()),
            Err(io::Error::from_raw_os_error(EMFILE)),
            Err(io::Error::from_raw_os_error(EMFILE)),
            Ok(stream),
        ])));
        let guard = Arc::new(Guard::new(Policy::default(), Nowhere, Arc::new(|_| ())));
        let (stop, stopped) = oneshot::channel::<()>();
        let run = guard.accept_from(&listener, async { drop(stopped.await) });
        let ask = async {
            let start = tokio::time::Instant::now();
            client.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.unwrap();
            let mut reply = String::new();
            client.read_to_string(&mut reply).await.unwrap();
            stop.send(()).unwrap();
            (reply, start.elapsed())
        };
        let ((), (reply, waited)) = tokio::join!(run, ask);
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
        assert_eq!(waited.as_millis(), 2 * BACK_OFF.as_millis());
    }
}
