//! One connection of the forwarder: its socket, its input so far, its output so far.
//!
//! Speaks STOMP over TCP, or over WebSocket once a request to upgrade has come. Invariant: output
//! is a sequence of whole frames.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use tiderace_websocket::{Decoder, Event, Limits, Opcode, Role, handshake, write_header};

use crate::forwarder::frame::Frame;

/// One connection.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    tail: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// Present once upgraded.
    decoder: Option<Decoder>,
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
}

impl Peer {
    /// A fresh connection.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            tail: Vec::new(),
            out: Vec::new(),
            written: 0,
            decoder: None,
            is_readable: true,
            is_writable: true,
        }
    }

    /// Whether so much output waits that no more should be made.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() - self.written > OUT_BYTES_HIGH
    }

    /// Appends one frame given in pieces.
    pub(super) fn push(&mut self, pieces: &[&[u8]]) {
        if self.decoder.is_some() {
            let bytes = pieces.iter().map(|piece| piece.len()).sum();
            write_header(&mut self.out, Opcode::Text, bytes, None);
        }
        for piece in pieces {
            self.out.extend_from_slice(piece);
        }
    }

    /// Reads at most `bite` bytes into `buffer`, after what was held back; the bytes to look at, or `None` when
    /// there is nothing new.
    pub(super) fn read(&mut self, buffer: &mut [u8], bite: usize) -> io::Result<Option<usize>> {
        let held = self.tail.len();
        let (front, room) = match buffer.split_at_mut_checked(held) {
            Some((front, room)) if !room.is_empty() => (front, room),
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        let bite = bite.min(room.len());
        let read = match self.stream.read(room.get_mut(..bite).unwrap_or_default()) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        front.copy_from_slice(&self.tail);
        Ok(Some(held + read))
    }

    /// Keeps what could not be handled yet.
    pub(super) fn hold(&mut self, rest: &[u8]) {
        self.tail.clear();
        self.tail.extend_from_slice(rest);
    }

    /// Answers a request to upgrade at the start of `input`; the bytes it took, 0 for none.
    pub(super) fn upgrade(&mut self, input: &[u8]) -> usize {
        if self.decoder.is_some() || !input.starts_with(b"GET ") {
            return 0;
        }
        let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return 0 };
        let head = String::from_utf8_lossy(input.get(..end).unwrap_or_default());
        let key = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
        });
        let accept = handshake::accept_key(key.unwrap_or_default().as_bytes());
        self.push(&[
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Protocol: v12.stomp\r\nSec-WebSocket-Accept: ",
            &accept,
            b"\r\n\r\n",
        ]);
        self.decoder = Some(Decoder::new(Role::Server));
        end + 4
    }

    /// The decoder, to be put back with [`Self::put_decoder`].
    pub(super) fn take_decoder(&mut self) -> Option<Decoder> {
        self.decoder.take()
    }

    /// See [`Self::take_decoder`].
    pub(super) fn put_decoder(&mut self, decoder: Decoder) {
        self.decoder = Some(decoder);
    }

    /// Writes what can be written.
    pub(super) fn write(&mut self) -> io::Result<()> {
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

/// Shows every whole STOMP frame in `input` to `handle`; returns the bytes done with.
pub(super) fn each_frame(input: &[u8], mut handle: impl FnMut(&Frame<'_>)) -> usize {
    let mut at = 0;
    while let Some(frame) = input.get(at..).and_then(Frame::parse) {
        handle(&frame);
        at += frame.length;
    }
    at
}

/// The same for STOMP in WebSocket messages, whole frames in each.
pub(super) fn each_frame_in_messages(
    decoder: &mut Decoder,
    input: &mut [u8],
    mut handle: impl FnMut(&Frame<'_>),
) -> io::Result<usize> {
    let (limits, mut at) = (Limits::default(), 0);
    while let Some(rest) = input.get_mut(at..).filter(|rest| !rest.is_empty()) {
        let decoded = decoder.decode(&limits, rest).map_err(io::Error::other)?;
        at += decoded.consumed;
        match decoded.event {
            Event::Incomplete { .. } => break,
            Event::Message { payload, .. } => {
                each_frame(payload, &mut handle);
            }
            Event::Reassembled { payload, .. } => {
                each_frame(&payload, &mut handle);
            }
            Event::Close { .. } => return Err(ErrorKind::ConnectionAborted.into()),
            _ => {}
        }
    }
    Ok(at)
}

const OUT_BYTES_HIGH: usize = 1024 * 1024;
