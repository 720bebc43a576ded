//! A bare copying STOMP forwarder: parse, re-frame, copy, and nothing a server has to do besides.
//!
//! It is the upper bound the topic cells are measured against, and the tests' stand-in for a
//! server. STOMP over TCP or WebSocket on one port. One thread, no storage, no limits but one: while a subscriber's output is high, no
//! producer is read. Not for use as a server. Invariant: a message is copied whole or not at all.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use tiderace_websocket::{Decoder, Role};

use crate::args::ForwarderArgs;
use crate::forwarder::frame::{Frame, decimal};
use crate::forwarder::peer::{Peer, each_frame, each_frame_in_messages};

mod frame;
mod peer;

/// Runs a forwarder in the foreground and prints where it listens.
///
/// # Errors
/// A sentence when the address cannot be used.
pub fn run(args: &ForwarderArgs) -> anyhow::Result<()> {
    let forwarder = Forwarder::bind(&args.listen)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", forwarder.address()?)?;
    out.flush()?;
    drop(out);
    let end = (args.seconds > 0).then(|| Instant::now() + Duration::from_secs(args.seconds));
    forwarder.serve(move || end.is_some_and(|end| Instant::now() >= end))
}

/// A bound forwarder.
#[derive(Debug)]
pub struct Forwarder {
    listener: TcpListener,
}

impl Forwarder {
    /// Binds an address.
    ///
    /// # Errors
    /// A sentence when the address cannot be used.
    pub fn bind(address: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| {
            format!("cannot listen on {address}: is it taken? Use port 0 for any free one")
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `is_over`, asked several times a second.
    ///
    /// # Errors
    /// Those of the poller.
    pub fn serve(self, is_over: impl Fn() -> bool) -> anyhow::Result<()> {
        let mut poll = Poll::new()?;
        let file = self.listener.as_raw_fd();
        poll.registry().register(&mut SourceFd(&file), LISTENER, Interest::READABLE)?;
        let (mut events, mut exchange) = (Events::with_capacity(1024), Exchange::default());
        let mut buffer = vec![0; READ_BYTES];
        while !is_over() {
            let has_ready = exchange.peers.iter().flatten().any(|peer| peer.is_readable);
            let idle = !has_ready || exchange.is_full();
            let timeout = if idle { POLL_TIMEOUT } else { Duration::ZERO };
            match poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                if event.token() == LISTENER {
                    exchange.accept(&self.listener, poll.registry());
                } else if let Some(Some(peer)) = exchange.peers.get_mut(event.token().0) {
                    peer.is_readable |= event.is_readable();
                    peer.is_writable |= event.is_writable();
                }
            }
            exchange.turn(&mut buffer);
        }
        Ok(())
    }
}

/// All connections and subscriptions.
#[derive(Debug, Default)]
struct Exchange {
    peers: Vec<Option<Peer>>,
    destinations: HashMap<Vec<u8>, Destination>,
    messages: u64,
}

#[derive(Debug, Default)]
struct Destination {
    is_queue: bool,
    /// Connection and subscription id.
    subscribers: Vec<(usize, Vec<u8>)>,
    next: usize,
}

impl Exchange {
    fn accept(&mut self, listener: &TcpListener, registry: &Registry) {
        while let Ok((stream, _)) = listener.accept() {
            let index = self.peers.len();
            let (file, interest) = (stream.as_raw_fd(), Interest::READABLE | Interest::WRITABLE);
            let _ = stream.set_nodelay(true);
            let registered = registry.register(&mut SourceFd(&file), Token(index), interest);
            if stream.set_nonblocking(true).is_err() || registered.is_err() {
                continue;
            }
            self.peers.push(Some(Peer::new(stream)));
        }
    }

    fn is_full(&self) -> bool {
        self.peers.iter().flatten().any(Peer::is_full)
    }

    /// Reads every ready connection once, then writes what that led to.
    fn turn(&mut self, buffer: &mut [u8]) {
        let subscribers = self.destinations.values().map(|entry| entry.subscribers.len()).max();
        // What is read is written once for each subscriber: many of them need a small bite.
        let bite = (BITE_BYTES / subscribers.unwrap_or(1).max(1)).max(BITE_BYTES_MIN);
        let ready: Vec<usize> = (0..self.peers.len())
            .filter(|index| matches!(self.peers.get(*index), Some(Some(peer)) if peer.is_readable))
            .collect();
        for index in ready {
            if self.is_full() {
                break;
            }
            self.read(index, buffer, bite);
        }
        for slot in &mut self.peers {
            if slot.as_mut().is_some_and(|peer| peer.write().is_err()) {
                *slot = None;
            }
        }
    }

    fn read(&mut self, index: usize, buffer: &mut [u8], bite: usize) {
        let Some(peer) = self.peers.get_mut(index).and_then(Option::as_mut) else { return };
        if !peer.is_readable {
            return;
        }
        let bytes = match peer.read(buffer, bite) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(_) => return self.close(index),
        };
        let input = buffer.get_mut(..bytes).unwrap_or_default();
        let start = peer.upgrade(input);
        let rest = input.get_mut(start..).unwrap_or_default();
        let done = match peer.take_decoder() {
            None => Ok(each_frame(rest, |frame| self.handle(index, frame))),
            Some(mut decoder) => {
                // Answers need the connection to know what it speaks.
                peer.put_decoder(Decoder::new(Role::Server));
                let done =
                    each_frame_in_messages(&mut decoder, rest, |frame| self.handle(index, frame));
                if let Some(Some(peer)) = self.peers.get_mut(index) {
                    peer.put_decoder(decoder);
                }
                done
            }
        };
        match (done, self.peers.get_mut(index)) {
            (Ok(done), Some(Some(peer))) => peer.hold(rest.get(done..).unwrap_or_default()),
            _ => self.close(index),
        }
    }

    fn handle(&mut self, index: usize, frame: &Frame<'_>) {
        match frame.command {
            b"SEND" => self.forward(frame),
            b"CONNECT" | b"STOMP" => self.answer(index, &[b"CONNECTED\nversion:1.2\n\n\0"]),
            b"SUBSCRIBE" => {
                let entry = self.destinations.entry(frame.destination.to_vec()).or_default();
                entry.is_queue = frame.destination.starts_with(b"/queue/");
                entry.subscribers.push((index, frame.id.to_vec()));
            }
            _ => {}
        }
        if !frame.receipt.is_empty() {
            self.answer(index, &[b"RECEIPT\nreceipt-id:", frame.receipt, b"\n\n\0"]);
        }
    }

    fn answer(&mut self, index: usize, pieces: &[&[u8]]) {
        if let Some(Some(peer)) = self.peers.get_mut(index) {
            peer.push(pieces);
        }
    }

    fn forward(&mut self, frame: &Frame<'_>) {
        let Some(destination) = self.destinations.get_mut(frame.destination) else {
            return;
        };
        self.messages += 1;
        let chosen = match (destination.is_queue, destination.subscribers.len()) {
            (_, 0) => return,
            (true, count) => {
                destination.next = (destination.next + 1) % count;
                destination.subscribers.get(destination.next..=destination.next)
            }
            (false, _) => Some(destination.subscribers.as_slice()),
        };
        let (mut number, mut length) = ([0; 20], [0; 20]);
        let number = decimal(self.messages, &mut number);
        let length = decimal(frame.body.len() as u64, &mut length);
        for (index, id) in chosen.unwrap_or_default() {
            let Some(Some(peer)) = self.peers.get_mut(*index) else {
                continue;
            };
            peer.push(&[
                b"MESSAGE\nsubscription:".as_slice(),
                id,
                b"\nmessage-id:",
                number,
                b"\ndestination:",
                frame.destination,
                b"\ncontent-length:",
                length,
                b"\n\n",
                frame.body,
                b"\0",
            ]);
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(slot) = self.peers.get_mut(index) {
            *slot = None;
        }
        for destination in self.destinations.values_mut() {
            destination.subscribers.retain(|(peer, _)| *peer != index);
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
/// The largest frame, and room beside it.
const READ_BYTES: usize = 4 * 1024 * 1024;
const BITE_BYTES: usize = 1024 * 1024;
const BITE_BYTES_MIN: usize = 32 * 1024;
const POLL_TIMEOUT: Duration = Duration::from_millis(10);
