//! The responder for load tests: payloads come back.
//!
//! All streams of a session tick together, by one deadline: what a session sends in a tick goes out in
//! one piece. Without an interval there are no ticks: a block is filled whenever the connection has taken
//! the last one. Relies on the table of streams. Invariants: without demand a tick is dropped; a stream
//! that a block had no room for comes first in the next; a client that does not read is sent nothing more.

use tiderace_base::Time;
use tiderace_wire::Output;

use super::streams::{Stream, Streams};
use super::writer::Writer;
use crate::frame::Frame;
use crate::limits::ECHO_BLOCK_BYTES;
use crate::options::EchoOptions;

/// Sends what is due; says when to tick again.
pub(super) fn tick(
    options: &EchoOptions,
    due: Time,
    now: Time,
    streams: &mut Streams,
    writer: &mut Writer,
    output: &mut Output<'_>,
) -> Time {
    // What was sent before has not been taken: the client does not read.
    if output.queue.len() < ECHO_BLOCK_BYTES {
        let most = output.queue.len() + options.bytes_max;
        if round(streams, most, 0, writer, output).is_none() {
            return Time::NEVER;
        }
    }
    // From the moment it was due, so that the rate is as it should be.
    let next = due + options.interval;
    if next > now { next } else { now + options.interval }
}

/// As much as there is demand for, until so many bytes wait; whether there may be more.
pub(super) fn poll_write(
    bytes_max: usize,
    streams: &mut Streams,
    writer: &mut Writer,
    output: &mut Output<'_>,
) -> bool {
    // One item each. What room that leaves is shared by those who want more: few of many streams would
    // cost a walk through all of them for each item.
    let mut share = 0;
    while output.queue.len() < bytes_max {
        let count = round(streams, bytes_max, share, writer, output).unwrap_or_default();
        if count == 0 {
            return false;
        }
        share = bytes_max.saturating_sub(output.queue.len()) / count;
    }
    true
}

/// One item for each stream that wants one, or as many as have `share` bytes, from the stream on at
/// which the last round stopped for want of room. Says how many streams were sent something, or nothing
/// if there is no stream.
fn round(
    streams: &mut Streams,
    bytes_max: usize,
    share: usize,
    writer: &mut Writer,
    output: &mut Output<'_>,
) -> Option<usize> {
    let mut count = None;
    streams.each_in_turn(|id, stream| {
        let Stream::Echo(echo) = stream else { return true };
        let count = count.get_or_insert(0);
        let before = output.queue.len();
        if before > bytes_max {
            return false;
        }
        *count += usize::from(echo.demand > 0);
        while echo.demand > 0 {
            echo.demand -= 1;
            writer.send(Frame::item(id, echo.payload(), false), output);
            if output.queue.len() - before >= share {
                break;
            }
        }
        true
    });
    count
}
