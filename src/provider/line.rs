//! One HTTP/1.1 connection, kept going by whoever waits on it.
//!
//! It has no task of its own: dropping it, or the call that holds it, closes the socket at that moment, whatever was under way.
//! A server that answers and hangs up before it has read the whole request is heard all the same.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};

use super::body::Chain;
use crate::limits;
use crate::rt;

/// An open connection.
pub(super) struct Line {
    sender: http1::SendRequest<Chain>,
    wheels: Wheels,
}

/// What moves bytes between the socket and the exchange; none once the connection is over. Its failure reaches whoever waits.
struct Wheels(Option<Pin<Box<dyn Future<Output = hyper::Result<()>>>>>);

impl Line {
    /// Speaks HTTP over a socket.
    pub(super) async fn open<S>(stream: S) -> hyper::Result<Line>
    where
        rt::hyper::Io<S>: Read + Write + Unpin + 'static,
    {
        let socket = Socket { io: rt::hyper::Io::new(stream), write_closed: false };
        let (sender, wheels) = http1::Builder::new().max_buf_size(limits::RESPONSE_HEAD_BYTES_MAX).handshake(socket).await?;
        Ok(Line { sender, wheels: Wheels(Some(Box::pin(wheels))) })
    }

    /// Whether a kept connection takes another request. One that was closed meanwhile does not, nor one that still sends the
    /// body of a request that was answered early.
    pub(super) async fn is_ready(&mut self) -> bool {
        let ready = self.wheels.turn(self.sender.ready());
        matches!(rt::timeout(Duration::from_millis(limits::SETTLE_MS), ready).await, Ok(Ok(())))
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(&mut self, request: Request<Chain>) -> hyper::Result<Response<Incoming>> {
        let answer = self.sender.send_request(request);
        self.wheels.turn(answer).await
    }

    /// The next frame of an answer's body.
    pub(super) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        self.wheels.turn(poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await
    }
}

impl Wheels {
    /// Waits for something that only this connection can bring about.
    async fn turn<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.0.as_mut().is_some_and(|wheels| wheels.as_mut().poll(cx).is_ready()) {
                self.0 = None;
            }
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// A socket that goes on reading when the peer takes nothing more. Without it, hyper would report the failed write in place of
/// an answer that lies in the receive buffer already. What is written after that goes nowhere; if there is no answer, reading
/// finds the end of the connection.
struct Socket<S> {
    io: S,
    write_closed: bool,
}

impl<S> Socket<S> {
    fn written(&mut self, done: io::Result<usize>, bytes: usize) -> io::Result<usize> {
        self.write_closed = done.as_ref().is_err_and(|error| is_hang_up(error.kind()));
        if self.write_closed { Ok(bytes) } else { done }
    }
}

impl<S: Read + Unpin> Read for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<S: Write + Unpin> Write for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.write_closed {
            return Poll::Ready(Ok(buf.len()));
        }
        let done = ready!(Pin::new(&mut self.io).poll_write(cx, buf));
        Poll::Ready(self.written(done, buf.len()))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        if self.write_closed {
            return Poll::Ready(Ok(bytes));
        }
        let done = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs));
        Poll::Ready(self.written(done, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_closed {
            return Poll::Ready(Ok(()));
        }
        let done = ready!(Pin::new(&mut self.io).poll_flush(cx)).map(|()| 0);
        Poll::Ready(self.written(done, 0).map(drop))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Whether an error says that the peer closed the connection.
pub(super) fn is_hang_up(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(kind, ConnectionReset | BrokenPipe | ConnectionAborted | NotConnected)
}
