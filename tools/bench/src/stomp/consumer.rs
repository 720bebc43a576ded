//! The consuming thread: reads large blocks from all its sockets and tallies what is in them.
//!
//! Lives on its own thread. Invariant: no connection keeps another waiting for longer than one
//! budget of reads.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::args::AckMode;
use crate::stomp::connect::Link;
use crate::stomp::counters::{Acknowledgements, ConnectionCounters, Counters};
use crate::stomp::shared::Shared;
use crate::stomp::websocket;

/// One consuming connection.
#[derive(Debug)]
pub struct Consumer {
    link: Link,
    /// Next expected number, by producer.
    expected: Vec<u64>,
    acknowledgements: Option<Acknowledgements>,
    /// Bytes being written.
    out: Vec<u8>,
    is_queued: bool,
    is_dead: bool,
}

impl Consumer {
    /// A consumer on a subscribed link.
    pub fn new(link: Link, producers: usize, ack: AckMode) -> Self {
        let acknowledgements = (ack != AckMode::Auto)
            .then(|| Acknowledgements { is_cumulative: ack == AckMode::Client, out: Vec::new() });
        Self {
            link,
            expected: vec![0; producers],
            acknowledgements,
            out: Vec::new(),
            is_queued: false,
            is_dead: false,
        }
    }

    /// Reads up to a budget; true when there may be more.
    fn read(&mut self, buffer: &mut [u8], counters: &mut Counters, shared: &Arc<Shared>) -> bool {
        for _ in 0..READS_PER_TURN {
            let received = counters.received;
            let read = {
                let mut sink = ConnectionCounters {
                    counters: &mut *counters,
                    expected: &mut self.expected,
                    acknowledgements: self.acknowledgements.as_mut(),
                    shared,
                };
                self.link.inbound.read(&mut self.link.stream, buffer, &mut sink)
            };
            shared.received.fetch_add(counters.received - received, Relaxed);
            match read {
                Ok((0, _)) => return self.die(shared, "the server closed it"),
                Ok((bytes, full)) => {
                    shared.received_bytes.fetch_add(bytes as u64, Relaxed);
                    self.write();
                    // A short read has emptied the socket; the next bytes raise a new event.
                    if !full {
                        return false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.die(shared, &error.to_string()),
            }
        }
        true
    }

    /// Writes acknowledgements and pongs; a broken socket shows itself when read.
    fn write(&mut self) {
        let replies = self.link.inbound.deframer.as_mut().map(|deframer| &mut deframer.replies);
        let has_replies = replies.as_ref().is_some_and(|replies| !replies.is_empty());
        let has_acknowledgements =
            self.acknowledgements.as_ref().is_some_and(|pending| !pending.out.is_empty());
        if self.out.is_empty() && !has_replies && !has_acknowledgements {
            return;
        }
        if self.out.is_empty() {
            let is_websocket = replies.is_some();
            if let Some(replies) = replies {
                self.out.append(replies);
            }
            if let Some(pending) = self.acknowledgements.as_mut().filter(|_| has_acknowledgements) {
                if is_websocket {
                    websocket::append_text(&mut self.out, &pending.out, websocket::mask_for(2));
                    pending.out.clear();
                } else {
                    self.out.append(&mut pending.out);
                }
            }
        }
        if let Ok(written) = self.link.stream.write(&self.out) {
            self.out.drain(..written);
        }
    }

    fn die(&mut self, shared: &Shared, reason: &str) -> bool {
        if !self.is_dead && !shared.is_stopped() {
            shared.fail(format!("a consumer lost its connection: {reason}"));
        }
        self.is_dead = true;
        false
    }
}

/// Runs consumers until told to stop; call on a thread of its own.
///
/// # Errors
/// Only when the poller fails: a consumer's own failure is counted instead.
pub fn run(
    mut consumers: Vec<Consumer>,
    mut counters: Counters,
    shared: &Arc<Shared>,
) -> io::Result<Counters> {
    shared.register_thread("consuming");
    let mut poll = Poll::new()?;
    for (index, consumer) in consumers.iter().enumerate() {
        consumer.link.stream.set_nonblocking(true)?;
        let file = consumer.link.stream.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut SourceFd(&file), Token(index), interest)?;
    }
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; READ_BYTES]);
    let mut ready: VecDeque<usize> = VecDeque::new();
    while !shared.is_stopped() {
        let timeout = if ready.is_empty() { POLL_TIMEOUT } else { Duration::ZERO };
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let index = event.token().0;
            let Some(consumer) = consumers.get_mut(index) else {
                continue;
            };
            if event.is_writable() {
                consumer.write();
            }
            if event.is_readable() && !consumer.is_queued {
                consumer.is_queued = true;
                ready.push_back(index);
            }
        }
        for _ in 0..ready.len() {
            let Some(index) = ready.pop_front() else {
                break;
            };
            let Some(consumer) = consumers.get_mut(index) else {
                continue;
            };
            consumer.is_queued = consumer.read(&mut buffer, &mut counters, shared);
            if consumer.is_queued {
                ready.push_back(index);
            }
        }
    }
    Ok(counters)
}

const READ_BYTES: usize = 256 * 1024;
/// 1 MiB, then the next connection.
const READS_PER_TURN: usize = 4;
const POLL_TIMEOUT: Duration = Duration::from_millis(20);
