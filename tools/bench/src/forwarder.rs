//! A bare copying STOMP forwarder: parse, re-frame, copy, and nothing a server has to do besides.
//!
//! It is the upper bound the topic cells are measured against, and the tests' stand-in for a
//! server. One thread, no storage, no limits but one: while a subscriber's output is high, no
//! producer is read. Not for use as a server. Invariant: a message is copied whole or not at all.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use memchr::memchr;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

use crate::args::ForwarderArgs;

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

#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    tail: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    is_readable: bool,
    is_writable: bool,
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
            self.peers.push(Some(Peer {
                stream,
                tail: Vec::new(),
                out: Vec::new(),
                written: 0,
                is_readable: true,
                is_writable: true,
            }));
        }
    }

    fn is_full(&self) -> bool {
        self.peers.iter().flatten().any(|peer| peer.out.len() - peer.written > OUT_BYTES_HIGH)
    }

    /// Reads every ready connection once, then writes what that led to.
    fn turn(&mut self, buffer: &mut [u8]) {
        for index in 0..self.peers.len() {
            if self.is_full() {
                break;
            }
            self.read(index, buffer);
        }
        for slot in &mut self.peers {
            if slot.as_mut().is_some_and(|peer| peer.write().is_err()) {
                *slot = None;
            }
        }
    }

    fn read(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(peer) = self.peers.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if !peer.is_readable {
            return;
        }
        let held = peer.tail.len();
        let Some((front, room)) =
            buffer.split_at_mut_checked(held).filter(|(_, room)| !room.is_empty())
        else {
            return self.close(index);
        };
        let read = match peer.stream.read(room) {
            Ok(0) => return self.close(index),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                peer.is_readable = false;
                return;
            }
            Err(_) => return self.close(index),
        };
        front.copy_from_slice(&peer.tail);
        let input = buffer.get(..held + read).unwrap_or_default();
        let mut at = 0;
        while let Some(frame) = input.get(at..).and_then(Frame::parse) {
            self.handle(index, &frame);
            at += frame.length;
        }
        if let Some(Some(peer)) = self.peers.get_mut(index) {
            peer.tail.clear();
            peer.tail.extend_from_slice(input.get(at..).unwrap_or_default());
        }
    }

    fn handle(&mut self, index: usize, frame: &Frame<'_>) {
        match frame.command {
            b"SEND" => self.forward(frame),
            b"CONNECT" | b"STOMP" => self.answer(index, b"CONNECTED\nversion:1.2\n\n\0"),
            b"SUBSCRIBE" => {
                let entry = self.destinations.entry(frame.destination.to_vec()).or_default();
                entry.is_queue = frame.destination.starts_with(b"/queue/");
                entry.subscribers.push((index, frame.id.to_vec()));
            }
            _ => {}
        }
        if !frame.receipt.is_empty() {
            self.answer(index, &[b"RECEIPT\nreceipt-id:", frame.receipt, b"\n\n\0"].concat());
        }
    }

    fn answer(&mut self, index: usize, bytes: &[u8]) {
        if let Some(Some(peer)) = self.peers.get_mut(index) {
            peer.out.extend_from_slice(bytes);
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
            for piece in [
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
            ] {
                peer.out.extend_from_slice(piece);
            }
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

impl Peer {
    fn write(&mut self) -> io::Result<()> {
        while self.is_writable && self.written < self.out.len() {
            match self.stream.write(self.out.get(self.written..).unwrap_or_default()) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) => return Err(error),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > OUT_BYTES_HIGH {
            self.out.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }
}

/// The parts of a client's frame the forwarder needs.
#[derive(Debug, Default)]
struct Frame<'a> {
    command: &'a [u8],
    destination: &'a [u8],
    id: &'a [u8],
    receipt: &'a [u8],
    body: &'a [u8],
    length: usize,
}

impl<'a> Frame<'a> {
    fn parse(input: &'a [u8]) -> Option<Self> {
        let start = input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let (mut frame, mut at, mut content_length) = (Self::default(), start, None);
        loop {
            let rest = input.get(at..)?;
            let line = rest.get(..memchr(b'\n', rest)?)?;
            at += line.len() + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if frame.command.is_empty() {
                frame.command = line;
                continue;
            }
            if line.is_empty() {
                break;
            }
            let colon = memchr(b':', line)?;
            let value = line.get(colon + 1..)?;
            match line.get(..colon)? {
                b"destination" => frame.destination = value,
                b"id" => frame.id = value,
                b"receipt" => frame.receipt = value,
                b"content-length" => content_length = std::str::from_utf8(value).ok()?.parse().ok(),
                _ => {}
            }
        }
        let rest = input.get(at..)?;
        let body_bytes: usize = match content_length {
            Some(length) => length,
            None => memchr(0, rest)?,
        };
        (rest.get(body_bytes)? == &0).then_some(())?;
        frame.body = rest.get(..body_bytes)?;
        frame.length = at + body_bytes + 1;
        Some(frame)
    }
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return digits.get(at..).unwrap_or_default();
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const READ_BYTES: usize = 2 * 1024 * 1024;
const OUT_BYTES_HIGH: usize = 1024 * 1024;
const POLL_TIMEOUT: Duration = Duration::from_millis(10);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frame_needs_all_its_bytes() {
        let text = b"\nSEND\ndestination:/topic/a\nreceipt:7\ncontent-length:2\n\n\0x\0";
        for end in 0..text.len() {
            assert!(Frame::parse(text.get(..end).unwrap()).is_none(), "{end}");
        }
        let frame = Frame::parse(text).unwrap();
        assert_eq!(
            (frame.command, frame.body, frame.receipt),
            (&b"SEND"[..], &b"\0x"[..], &b"7"[..])
        );
        assert_eq!(frame.length, text.len());
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(0, &mut [0; 20]), b"0");
        assert_eq!(decimal(u64::MAX, &mut [0; 20]), u64::MAX.to_string().as_bytes());
    }
}
