//! The memory that `h2` reads and writes instead of a socket.
//!
//! A connection's bytes lie here only while it is driven, so idle connections have no buffers of ours.
//! They lie in the thread's own storage because `h2` keeps the stream it is given to itself. Invariant:
//! outside of [`exchange`] there is nothing here, so nothing can reach another connection.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

thread_local! {
    static DESK: RefCell<Desk> = const { RefCell::new(Desk::new()) };
}

/// One connection's bytes while it is driven.
#[derive(Debug)]
struct Desk {
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
    /// How long the output may grow.
    output_max: usize,
}

impl Desk {
    const fn new() -> Desk {
        Desk { input: Vec::new(), taken: 0, output: Vec::new(), output_max: 0 }
    }
}

/// Calls with `input` to be read and `output` to be appended to until it is `output_max` long; says how
/// many bytes were read.
pub(crate) fn exchange<T>(
    input: &[u8],
    output: &mut Vec<u8>,
    output_max: usize,
    call: impl FnOnce() -> T,
) -> (usize, T) {
    DESK.with_borrow_mut(|desk| {
        desk.input.clear();
        desk.input.extend_from_slice(input);
        desk.taken = 0;
        desk.output = std::mem::take(output);
        desk.output_max = output_max;
    });
    let result = call();
    DESK.with_borrow_mut(|desk| {
        *output = std::mem::take(&mut desk.output);
        desk.input.clear();
        desk.output_max = 0;
        (std::mem::take(&mut desk.taken), result)
    })
}

/// What stands for the socket.
#[derive(Debug)]
pub(crate) struct Memory;

impl AsyncRead for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        DESK.with_borrow_mut(|desk| {
            let rest = desk.input.get(desk.taken..).unwrap_or_default();
            let part = rest.get(..buffer.remaining()).unwrap_or(rest);
            if part.is_empty() {
                return Poll::Pending;
            }
            buffer.put_slice(part);
            desk.taken += part.len();
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        DESK.with_borrow_mut(|desk| {
            let before = desk.output.len();
            for slice in slices {
                let room = desk.output_max.saturating_sub(desk.output.len());
                desk.output.extend_from_slice(slice.get(..room).unwrap_or(slice));
            }
            match desk.output.len() - before {
                0 => Poll::Pending,
                count => Poll::Ready(Ok(count)),
            }
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
