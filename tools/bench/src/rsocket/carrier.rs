//! What carries RSocket's frames between a client and its socket: nothing, WebSocket, HTTP/2, or both.
//!
//! Invariant: frames go out in the order they were given, and not before the carrier is open.

use std::io;
use std::sync::Arc;

use super::frame::LENGTH_BYTES;
use super::http2::Http2;
use super::walk::{Framing, Hear, Walker};
use crate::args::RsocketTransport;
use crate::clients::carrier::Place;
use crate::clients::counters::broken;
use crate::clients::http;
use crate::clients::websocket;
use crate::stomp::websocket::{append, mask_for};

/// The state of one connection below RSocket.
#[derive(Debug)]
pub(super) struct Carrier {
    transport: RsocketTransport,
    walker: Walker,
    http2: Option<Box<Http2>>,
    /// The head of the answer to an upgrade, as far as it has come; none once it has.
    head: Option<Vec<u8>>,
    /// Frames given before the carrier was open.
    early: Vec<u8>,
    masks: u64,
    /// What is to be written to the socket.
    pub out: Vec<u8>,
}

impl Carrier {
    pub(super) fn new(transport: RsocketTransport, place: &Arc<Place>) -> Carrier {
        let (mut out, mut http2, mut head) = (Vec::new(), None, None);
        let framing = match transport {
            RsocketTransport::Tcp | RsocketTransport::H2 => Framing::Lengths,
            RsocketTransport::Ws | RsocketTransport::WsH2 => Framing::Messages,
        };
        match transport {
            RsocketTransport::Tcp => {}
            RsocketTransport::Ws => {
                let (path, authority) = (&place.path, &place.authority);
                let request = format!(
                    "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
                );
                out.extend_from_slice(request.as_bytes());
                head = Some(Vec::new());
            }
            RsocketTransport::H2 => http2 = Some(Http2::new(place, false, &mut out)),
            RsocketTransport::WsH2 => http2 = Some(Http2::new(place, true, &mut out)),
        }
        Carrier {
            transport,
            walker: Walker::new(framing),
            http2: http2.map(Box::new),
            head,
            early: Vec::new(),
            masks: 0,
            out,
        }
    }

    /// Whether frames flow.
    pub(super) fn is_open(&self) -> bool {
        self.head.is_none() && self.http2.as_ref().is_none_or(|http2| http2.is_open())
    }

    /// Goes on with what was read.
    pub(super) fn read<H: Hear>(&mut self, bytes: &[u8], hear: &mut H) -> io::Result<()> {
        match &mut self.http2 {
            Some(http2) => {
                let walker = &mut self.walker;
                http2.feed(bytes, &mut self.out, |data| walker.feed(data, hear))?;
            }
            None if self.head.is_some() => {
                if let Some(rest) = self.upgrade(bytes)? {
                    self.walker.feed(&rest, hear)?;
                }
            }
            None => self.walker.feed(bytes, hear)?,
        }
        if !self.walker.replies.is_empty() {
            let replies = std::mem::take(&mut self.walker.replies);
            self.body(&replies);
        }
        if !self.early.is_empty() && self.is_open() {
            let early = std::mem::take(&mut self.early);
            self.frames(&early);
        }
        self.pump();
        Ok(())
    }

    /// Sends frames that have their lengths in front.
    pub(super) fn send(&mut self, frames: &[u8]) {
        if self.is_open() {
            self.frames(frames);
            self.pump();
        } else {
            self.early.extend_from_slice(frames);
        }
    }

    fn frames(&mut self, mut frames: &[u8]) {
        if matches!(self.transport, RsocketTransport::Tcp | RsocketTransport::H2) {
            return self.body(frames);
        }
        while let [a, b, c, rest @ ..] = frames {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            debug_assert!(
                rest.len() >= length,
                "{LENGTH_BYTES} bytes of length stand before a frame"
            );
            let (frame, next) = rest.split_at(length.min(rest.len()));
            self.masks += 1;
            let out = self.http2.as_mut().map_or(&mut self.out, |http2| &mut http2.pending);
            append(out, websocket::BINARY, frame, mask_for(self.masks));
            frames = next;
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        let out = self.http2.as_mut().map_or(&mut self.out, |http2| &mut http2.pending);
        out.extend_from_slice(bytes);
    }

    fn pump(&mut self) {
        if let Some(http2) = &mut self.http2 {
            http2.pump(&mut self.out);
        }
    }

    /// The answer to the upgrade; what stands behind it once it is whole.
    fn upgrade(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let head = self.head.get_or_insert_default();
        head.extend_from_slice(bytes);
        let Some(answer) = http::head(head)? else { return Ok(None) };
        if answer.status != 101 {
            let text = format!("the server answered the WebSocket upgrade with {}", answer.status);
            return Err(broken(&text));
        }
        let rest = head.split_off(answer.bytes);
        self.head = None;
        Ok(Some(rest))
    }
}
