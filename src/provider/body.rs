//! A request body that is a chain of shared chunks: its size is known, and nothing is copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The chunks that are still to be sent.
pub(super) struct Chain {
    chunks: VecDeque<Bytes>,
    bytes: u64,
}

impl Chain {
    pub(super) fn new(chunks: &[Bytes]) -> Chain {
        let chunks: VecDeque<Bytes> = chunks.iter().filter(|c| !c.is_empty()).cloned().collect();
        let bytes = chunks.iter().map(|c| c.len() as u64).sum();
        Chain { chunks, bytes }
    }
}

impl Body for Chain {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.chunks.pop_front();
        self.bytes -= next.as_ref().map_or(0, |c| c.len() as u64);
        Poll::Ready(next.map(|c| Ok(Frame::data(c))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
