//! Bytes copied both ways between two streams.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read at once. A thread has one buffer for all its streams: one that is idle
/// takes no memory, and one that is busy few system calls.
const CHUNK: usize = 32 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into_boxed_slice());
}

/// Copies until both sides have ended; each may end its half before the other.
///
/// # Errors
/// The first of either side.
pub(crate) async fn relay<A, B>(a: &mut A, b: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Half::default(), Half::default());
    std::future::poll_fn(|cx| {
        let there = there.poll(cx, Pin::new(&mut *a), Pin::new(&mut *b))?;
        let back = back.poll(cx, Pin::new(&mut *b), Pin::new(&mut *a))?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// One direction.
#[derive(Default)]
struct Half {
    /// What was read and is not written yet, from `written` on.
    left: Vec<u8>,
    written: usize,
    has_ended: bool,
    is_shut: bool,
}

impl Half {
    fn poll<R: AsyncRead, W: AsyncWrite>(
        &mut self,
        cx: &mut Context<'_>,
        mut from: Pin<&mut R>,
        mut to: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        while !self.is_shut {
            while let Some(rest) = self.left.get(self.written..).filter(|rest| !rest.is_empty()) {
                self.written += ready!(write(cx, to.as_mut(), rest))?;
            }
            (self.left, self.written) = (Vec::new(), 0);
            if self.has_ended {
                ready!(to.as_mut().poll_shutdown(cx))?;
                self.is_shut = true;
                break;
            }
            ready!(self.pass_on(cx, from.as_mut(), to.as_mut()))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, writes as much as goes at once, and keeps the rest.
    fn pass_on<R: AsyncRead, W: AsyncWrite>(
        &mut self,
        cx: &mut Context<'_>,
        from: Pin<&mut R>,
        to: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(from.poll_read(cx, &mut buffer))?;
            let read = buffer.filled();
            if read.is_empty() {
                self.has_ended = true;
                return Poll::Ready(Ok(()));
            }
            let written = match write(cx, to, read) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.left.extend_from_slice(&read[written..]);
            Poll::Ready(Ok(()))
        })
    }
}

/// Nothing written of something is an error: it would be tried for ever.
fn write<W: AsyncWrite>(
    cx: &mut Context<'_>,
    to: Pin<&mut W>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    match ready!(to.poll_write(cx, bytes)) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Both ends of a relay between pipes that hold so many bytes.
    fn pipes(room: usize) -> (DuplexStream, DuplexStream, impl Future<Output = io::Result<()>>) {
        let ((left, mut a), (mut b, right)) = (duplex(room), duplex(room));
        (left, right, async move { relay(&mut a, &mut b).await })
    }

    #[tokio::test]
    async fn all_of_it_arrives_both_ways_however_little_room_there_is() {
        let bytes: Vec<u8> = (0..3 * CHUNK + 7).map(|n| u8::try_from(n % 251).unwrap()).collect();
        for room in [1, 1000, CHUNK - 1, 4 * CHUNK] {
            let (left, right, relay) = pipes(room);
            let end = |stream: DuplexStream| async {
                let (mut from, mut to) = tokio::io::split(stream);
                let mut arrived = Vec::new();
                let send = async {
                    to.write_all(&bytes).await.unwrap();
                    to.shutdown().await.unwrap();
                };
                tokio::join!(send, async { from.read_to_end(&mut arrived).await.unwrap() });
                arrived
            };
            let (relayed, at_left, at_right) = tokio::join!(relay, end(left), end(right));
            relayed.unwrap();
            assert!(at_left == bytes && at_right == bytes, "{room}");
        }
    }

    #[tokio::test]
    async fn one_half_may_end_before_the_other() {
        let (mut left, mut right, relay) = pipes(100);
        let talk = async {
            left.write_all(b"question").await.unwrap();
            left.shutdown().await.unwrap();
            let mut question = Vec::new();
            right.read_to_end(&mut question).await.unwrap();
            right.write_all(b"answer").await.unwrap();
            drop(right);
            let mut answer = Vec::new();
            left.read_to_end(&mut answer).await.unwrap();
            (question, answer)
        };
        let (relayed, (question, answer)) = tokio::join!(relay, talk);
        relayed.unwrap();
        assert_eq!((&question[..], &answer[..]), (&b"question"[..], &b"answer"[..]));
    }

    #[tokio::test]
    async fn who_is_gone_ends_it() {
        let (mut left, right, relay) = pipes(100);
        drop(right);
        let (relayed, _) = tokio::join!(relay, left.write_all(b"anybody?"));
        assert!(relayed.is_err());
    }
}
