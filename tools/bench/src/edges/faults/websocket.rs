//! WebSocket as the clients of the faults need it: the handshake, whole messages, pings.
//!
//! Invariant: a message is given on once it is whole.

use std::io;

use crate::clients::counters::broken;
use crate::clients::{http, websocket};

/// A client's side of one connection after the other.
#[derive(Debug)]
pub(super) struct WebSocket {
    path: &'static str,
    subprotocol: Option<&'static str>,
    is_open: bool,
    /// The frames of the message that has not ended.
    fragments: Vec<u8>,
}

/// What has come.
pub(super) enum Got<'a> {
    /// The handshake is done.
    Opened,
    /// A whole message.
    Message(&'a [u8]),
}

impl WebSocket {
    pub(super) fn new(path: &'static str, subprotocol: Option<&'static str>) -> WebSocket {
        WebSocket { path, subprotocol, is_open: false, fragments: Vec::new() }
    }

    /// Asks for a WebSocket on a new connection.
    pub(super) fn open(&mut self, authority: &str, out: &mut Vec<u8>) {
        self.is_open = false;
        self.fragments.clear();
        let path = self.path;
        let protocol = self.subprotocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
            protocol.unwrap_or_default()
        );
        out.extend_from_slice(request.as_bytes());
    }

    /// Walks what has come; how much of it is done with.
    ///
    /// # Errors
    /// When the server refuses, closes or breaks the protocol, and those of what is called.
    pub(super) fn walk(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Got<'_>, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut at = 0;
        if !self.is_open {
            let Some(head) = http::head(input)? else { return Ok(0) };
            if head.status != 101 {
                return Err(broken(&format!("the server answers {} to a WebSocket", head.status)));
            }
            self.is_open = true;
            at = head.bytes;
            on(Got::Opened, out)?;
        }
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(head) = websocket::head(rest)? else { return Ok(at) };
            let Some(payload) = rest.get(head.bytes..head.bytes + head.payload) else {
                return Ok(at);
            };
            at += head.bytes + head.payload;
            match head.opcode {
                websocket::PING => websocket::frame(out, websocket::PONG, payload),
                websocket::PONG => {}
                websocket::CLOSE => return Err(closed(payload)),
                _ if head.is_last && self.fragments.is_empty() => on(Got::Message(payload), out)?,
                _ => {
                    self.fragments.extend_from_slice(payload);
                    if head.is_last {
                        on(Got::Message(&std::mem::take(&mut self.fragments)), out)?;
                    }
                }
            }
        }
    }
}

fn closed(payload: &[u8]) -> io::Error {
    let reason = payload.get(2..).unwrap_or_default();
    broken(&format!("the server closes: {}", String::from_utf8_lossy(reason)))
}
