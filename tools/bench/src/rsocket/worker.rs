//! A thread of clients: polls their sockets, reads them in turn, opens streams on schedule and sends what is due.
//!
//! Invariant: no client keeps another waiting for longer than one budget of reads, and what several streams of a
//! client have to say at a time goes out in one write.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::client::Client;
use super::load::{Load, Pulse, Random, Turn};
use super::wheel::Wheel;
use crate::clients::Counters;
use crate::stomp::shared::Shared;

/// What a worker does until it is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Waits until all are connected, and stops by itself then.
    Connect,
    /// Goes on, and has opened so many streams at that time.
    Load {
        /// When the first is opened, ns.
        begin_ns: u64,
        /// When the last is, ns.
        end_ns: u64,
        /// Streams of this worker then.
        streams: usize,
    },
}

/// Clients of one thread.
#[derive(Debug)]
pub(super) struct Worker {
    pub clients: Vec<Client>,
    /// Streams opened so far, dealt to the clients in turn.
    begun: usize,
    said: Vec<u8>,
    random: Random,
    wheel: Wheel,
    due: Vec<u64>,
    dirty: Vec<usize>,
    next_keepalives_ns: u64,
}

impl Worker {
    pub(super) fn new(load: &Load, number: usize, now_ns: u64) -> Worker {
        Worker {
            clients: Vec::new(),
            begun: 0,
            said: Vec::new(),
            random: Random::new(load.payload, 0x5eed_0000 + number as u64),
            wheel: Wheel::new(load.interval_us, now_ns / 1_000),
            due: Vec::new(),
            dirty: Vec::new(),
            next_keepalives_ns: 0,
        }
    }

    /// Does its task; call on a thread of its own.
    ///
    /// # Errors
    /// Only when the poller fails: a client's own failure is counted instead.
    pub(super) fn run(
        &mut self,
        task: Task,
        (load, pulse): (&Load, &Pulse),
        counters: &mut Counters,
        shared: &Arc<Shared>,
    ) -> io::Result<()> {
        shared.register_thread("requesting");
        let mut poll = Poll::new()?;
        for (index, client) in self.clients.iter().enumerate().filter(|(_, it)| !it.is_broken) {
            client.stream.set_nonblocking(true)?;
            let (file, interest) =
                (client.stream.as_raw_fd(), Interest::READABLE | Interest::WRITABLE);
            poll.registry().register(&mut SourceFd(&file), Token(index), interest)?;
        }
        let mut work = Work { load, pulse, counters, shared };
        let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; READ_BYTES]);
        let mut ready: VecDeque<usize> = VecDeque::new();
        let begun = self.begun;
        while !shared.is_stopped() && (task != Task::Connect || !self.is_connected()) {
            let timeout = if ready.is_empty() { self.timeout(task, load) } else { Duration::ZERO };
            match poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                let index = event.token().0;
                let Some(client) = self.clients.get_mut(index) else { continue };
                if event.is_writable() && !client.is_broken && client.write().is_err() {
                    // It shows when it is read.
                }
                if event.is_readable() && !std::mem::replace(&mut client.is_queued, true) {
                    ready.push_back(index);
                }
            }
            for _ in 0..ready.len() {
                let Some(index) = ready.pop_front() else { break };
                if self.read(index, &mut buffer, &mut work) {
                    ready.push_back(index);
                }
            }
            self.begin_streams(task, begun, &mut work);
            self.send_due(&mut work);
            self.keep_alive(&mut work);
        }
        self.clients.iter_mut().for_each(|client| client.is_queued = false);
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.clients.iter().all(|client| client.is_broken || client.is_open())
    }

    /// How long nothing needs to be done without bytes.
    fn timeout(&self, task: Task, load: &Load) -> Duration {
        let sends = load.mode != crate::args::RsocketMode::Stream && load.interval_us > 0;
        match task {
            Task::Load { streams, .. } if sends || self.begun < streams => BEAT,
            _ => CALM,
        }
    }

    /// Reads a client up to a budget; true when there may be more.
    fn read(&mut self, index: usize, buffer: &mut [u8], work: &mut Work<'_>) -> bool {
        let Some(client) = self.clients.get_mut(index) else { return false };
        client.is_queued = false;
        if client.is_broken {
            return false;
        }
        let clock = work.shared.clock;
        for _ in 0..READS_PER_TURN {
            let before = work.counters.received;
            let mut turn = Turn {
                load: work.load,
                now_ns: clock.now_ns(),
                counters: &mut *work.counters,
                said: &mut self.said,
                random: &mut self.random,
                wheel: &mut self.wheel,
                pulse: work.pulse,
            };
            let outcome = client.read(buffer, || clock.now_ns(), &mut turn);
            let received = work.counters.received - before;
            work.shared.received.fetch_add(received, Relaxed);
            work.pulse.received.fetch_add(received, Relaxed);
            if let Some(text) = client.session.complaint() {
                work.shared.fail(text);
            }
            match outcome {
                Ok(outcome) => {
                    work.shared.received_bytes.fetch_add(outcome.bytes as u64, Relaxed);
                    if !outcome.has_more {
                        return false;
                    }
                }
                Err(error) => {
                    work.lost(client, &error);
                    self.said.clear();
                    return false;
                }
            }
        }
        client.is_queued = true;
        true
    }

    /// Opens the streams whose time has come, one client after the other.
    fn begin_streams(&mut self, task: Task, before: usize, work: &mut Work<'_>) {
        let Task::Load { begin_ns, end_ns, streams } = task else { return };
        let now_ns = work.shared.clock.now_ns();
        let wanted = scheduled((before, streams), (begin_ns, end_ns), now_ns);
        let clients = self.clients.len().max(1);
        let most = self.begun + STREAMS_PER_TURN;
        while self.begun < wanted.min(most) {
            let index = self.begun % clients;
            self.begun += 1;
            self.with(index, now_ns, work, |client, turn| client.session.begin(turn));
        }
        self.flush(work);
    }

    /// Lets the streams send whose message is due.
    fn send_due(&mut self, work: &mut Work<'_>) {
        let now_ns = work.shared.clock.now_ns();
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take(now_ns / 1_000, &mut due);
        for what in due.drain(..) {
            let (index, slot) = ((what >> 32) as usize, (what & 0xffff_ffff) as usize);
            self.with(index, now_ns, work, |client, turn| client.session.due(slot, turn));
        }
        self.due = due;
        self.flush(work);
    }

    /// Lets a client say something; what it said goes out with the next flush.
    fn with(
        &mut self,
        index: usize,
        now_ns: u64,
        work: &mut Work<'_>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>),
    ) {
        let Some(client) = self.clients.get_mut(index).filter(|client| !client.is_broken) else {
            return;
        };
        let mut turn = Turn {
            load: work.load,
            now_ns,
            counters: &mut *work.counters,
            said: &mut self.said,
            random: &mut self.random,
            wheel: &mut self.wheel,
            pulse: work.pulse,
        };
        act(client, &mut turn);
        if !turn.said.is_empty() {
            client.say(&mut turn);
            self.dirty.push(index);
        }
    }

    fn flush(&mut self, work: &mut Work<'_>) {
        for index in self.dirty.drain(..) {
            let Some(client) = self.clients.get_mut(index) else { continue };
            if let Err(error) = client.write() {
                work.lost(client, &error);
            }
        }
    }

    fn keep_alive(&mut self, work: &mut Work<'_>) {
        let now_ns = work.shared.clock.now_ns();
        if now_ns < self.next_keepalives_ns {
            return;
        }
        self.next_keepalives_ns = now_ns + KEEPALIVES_NS;
        for client in &mut self.clients {
            if let Err(error) = client.keep_alive(now_ns) {
                work.lost(client, &error);
            }
        }
    }
}

/// What a worker works with.
struct Work<'a> {
    load: &'a Load,
    pulse: &'a Pulse,
    counters: &'a mut Counters,
    shared: &'a Arc<Shared>,
}

impl Work<'_> {
    fn lost(&self, client: &mut Client, error: &io::Error) {
        if !std::mem::replace(&mut client.is_broken, true) {
            self.shared.fail(format!("a connection was lost: {error}"));
            self.pulse.ended(client.session.open());
            self.pulse.connections.fetch_sub(1, Relaxed);
        }
    }
}

/// How many streams there are to be at a time, between two numbers and two times.
fn scheduled((from, to): (usize, usize), (begin_ns, end_ns): (u64, u64), now_ns: u64) -> usize {
    if now_ns >= end_ns || to <= from {
        return to;
    }
    let passed = u128::from(now_ns.saturating_sub(begin_ns));
    let share = (to - from) as u128 * passed / u128::from((end_ns - begin_ns).max(1));
    from + usize::try_from(share).unwrap_or(0)
}

const READ_BYTES: usize = 256 * 1024;
const READS_PER_TURN: usize = 2;
/// Streams that are opened before sockets are looked at again.
const STREAMS_PER_TURN: usize = 512;
/// How often schedules are looked at.
const BEAT: Duration = Duration::from_millis(1);
const CALM: Duration = Duration::from_millis(20);
const KEEPALIVES_NS: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_opened_evenly() {
        let at = |now| scheduled((100, 300), (1_000, 2_000), now);
        assert_eq!((at(0), at(1_000), at(1_500), at(1_999)), (100, 100, 200, 299));
        assert_eq!((at(2_000), at(9_000)), (300, 300));
        assert_eq!(scheduled((0, 7), (5, 5), 5), 7);
    }
}
