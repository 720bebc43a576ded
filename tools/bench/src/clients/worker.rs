//! A worker: polls its clients' sockets, reads them in turn and counts.
//!
//! Lives on its own thread. Invariant: no client keeps another waiting for longer than one budget of
//! reads.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::clients::client::{Client, Outcome, Step};
use crate::clients::counters::Counters;
use crate::stomp::shared::Shared;

/// When a worker is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// When all its clients listen, or are broken.
    Complete,
    /// When it is told to stop.
    Stopped,
}

/// Runs clients until the goal is reached; call on a thread of its own.
///
/// # Errors
/// Only when the poller fails: a client's own failure is counted instead.
pub fn run(
    clients: &mut [Client],
    counters: &mut Counters,
    shared: &Arc<Shared>,
    goal: Goal,
) -> io::Result<()> {
    shared.register_thread("consuming");
    let mut poll = Poll::new()?;
    let mut open = 0;
    for (index, client) in clients.iter_mut().enumerate() {
        if client.step == Step::Broken {
            continue;
        }
        client.stream.set_nonblocking(true)?;
        let file = client.stream.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut SourceFd(&file), Token(index), interest)?;
        open += usize::from(client.step != Step::Complete);
    }
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; READ_BYTES]);
    let mut ready: VecDeque<usize> = VecDeque::new();
    while !shared.is_stopped() && (goal == Goal::Stopped || open > 0) {
        let timeout = if ready.is_empty() { POLL_TIMEOUT } else { Duration::ZERO };
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let index = event.token().0;
            let Some(client) = clients.get_mut(index) else { continue };
            if event.is_writable() && client.write().is_err() {
                // It shows when it is read.
            }
            if event.is_readable() && !std::mem::replace(&mut client.is_queued, true) {
                ready.push_back(index);
            }
        }
        for _ in 0..ready.len() {
            let Some(index) = ready.pop_front() else { break };
            let Some(client) = clients.get_mut(index) else { continue };
            client.is_queued = false;
            let was_open = client.step < Step::Complete;
            if turn(client, &mut buffer, counters, shared) {
                client.is_queued = true;
                ready.push_back(index);
            }
            open -= usize::from(was_open && client.step >= Step::Complete);
        }
        if ready.is_empty() {
            std::thread::sleep(REST);
        }
    }
    for client in clients {
        client.is_queued = false;
    }
    Ok(())
}

/// Reads up to a budget; true when there may be more.
fn turn(client: &mut Client, buffer: &mut [u8], counters: &mut Counters, shared: &Shared) -> bool {
    if client.step == Step::Broken {
        return false;
    }
    for _ in 0..READS_PER_TURN {
        let received = counters.received;
        let outcome = client.read(buffer, || shared.clock.now_ns(), counters);
        shared.received.fetch_add(counters.received - received, Relaxed);
        match outcome {
            Ok(Outcome::More(bytes)) => {
                shared.received_bytes.fetch_add(bytes as u64, Relaxed);
            }
            Ok(Outcome::Empty(bytes)) => {
                shared.received_bytes.fetch_add(bytes as u64, Relaxed);
                return false;
            }
            Err(error) => {
                if !shared.is_stopped() {
                    shared.fail(format!("a client was lost: {error}"));
                }
                client.step = Step::Broken;
                return false;
            }
        }
    }
    true
}

const READ_BYTES: usize = 256 * 1024;
const READS_PER_TURN: usize = 2;
const POLL_TIMEOUT: Duration = Duration::from_millis(20);
/// Between two looks at the sockets. Clients elsewhere are not woken by the server's own sends; here
/// each send would wake this thread, on the server's bill and for one message. What arrives meanwhile
/// is measured as late as it is read.
const REST: Duration = Duration::from_millis(1);
