//! What carries a client's messages: a WebSocket, bare or with Engine.IO inside, or Engine.IO's long
//! polling over one kept-alive connection.
//!
//! A polling client has one request under way at a time: what it has to say goes before it listens
//! again. Invariant: a carrier never has two requests under way, and never one without an answer due.

use std::io;

use crate::clients::counters::{Counters, broken};
use crate::clients::engineio::{self, Asked, PayloadReader};
use crate::clients::language::Language;
use crate::clients::{http, websocket};

/// A carrier to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A bare WebSocket.
    WebSocket,
    /// A WebSocket with Engine.IO 4 inside.
    EngineWebSocket,
    /// Engine.IO's long polling, of that revision.
    Polling(u8),
}

/// Where to go, and by which path.
#[derive(Debug, Clone)]
pub struct Place {
    /// The Host field.
    pub authority: String,
    /// Path of the WebSocket or of Engine.IO.
    pub path: String,
    /// The WebSocket subprotocol, if one is asked for.
    pub subprotocol: Option<&'static str>,
}

/// One client's carrier.
#[derive(Debug)]
pub struct Carrier {
    transport: Transport,
    place: std::sync::Arc<Place>,
    state: State,
    /// Whether messages may be sent.
    pub is_open: bool,
    /// Bytes to be written.
    pub out: Vec<u8>,
}

#[derive(Debug)]
enum State {
    WebSocket {
        is_upgraded: bool,
        /// Opcode of the frame being read, and how much of it is to come.
        frame: Option<(u8, usize)>,
    },
    Polling(Box<Polling>),
}

#[derive(Debug, Default)]
struct Polling {
    revision: u8,
    /// The request that listens.
    get: Vec<u8>,
    /// What follows the path and its question mark in every request of the session.
    query: String,
    /// What the next POST will say.
    post: Vec<u8>,
    /// Whether that has binary packets.
    is_binary: bool,
    under_way: Option<Request>,
    /// Bytes of the body being read that are to come.
    body: Option<usize>,
    reader: PayloadReader,
    /// Messages counted when the answer began.
    received_before: u64,
    next_beat_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Open,
    Get,
    Post,
}

impl Carrier {
    /// A carrier with its first request to be written.
    pub fn new(transport: Transport, place: std::sync::Arc<Place>) -> Carrier {
        let mut out = Vec::new();
        let Place { authority, path, subprotocol } = &*place;
        let state = match transport {
            Transport::WebSocket | Transport::EngineWebSocket => {
                let query = match transport {
                    Transport::EngineWebSocket => "?EIO=4&transport=websocket",
                    _ => "",
                };
                let chosen = subprotocol
                    .map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"))
                    .unwrap_or_default();
                out.extend_from_slice(
                    format!(
                        "GET {path}{query} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
                         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGlkZXJhY2UtYmVuY2gtMA==\r\n{chosen}\r\n"
                    )
                    .as_bytes(),
                );
                State::WebSocket { is_upgraded: false, frame: None }
            }
            Transport::Polling(revision) => {
                out.extend_from_slice(
                    format!(
                        "GET {path}?EIO={revision}&transport=polling HTTP/1.1\r\nHost: {authority}\r\n\r\n"
                    )
                    .as_bytes(),
                );
                let under_way = Some(Request::Open);
                State::Polling(Box::new(Polling { revision, under_way, ..Polling::default() }))
            }
        };
        Carrier { transport, place, state, is_open: false, out }
    }

    /// Sends a message, or keeps it for the next POST.
    pub fn send(&mut self, message: &[u8], is_text: bool) {
        match &mut self.state {
            State::WebSocket { .. } => match (self.transport, is_text) {
                (Transport::EngineWebSocket, true) => {
                    let packet = [b"4", message].concat();
                    websocket::frame(&mut self.out, websocket::TEXT, &packet);
                }
                (_, true) => websocket::frame(&mut self.out, websocket::TEXT, message),
                (_, false) => websocket::frame(&mut self.out, websocket::BINARY, message),
            },
            State::Polling(polling) => {
                polling.is_binary |= !is_text;
                engineio::message(&mut polling.post, polling.revision, is_text, message);
            }
        }
    }

    /// Walks what was read; what is not consumed has to come again with more behind it.
    ///
    /// # Errors
    /// When the server speaks nonsense or closes.
    pub fn walk(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        language: &mut Language,
        counters: &mut Counters,
    ) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let taken = match &self.state {
                State::WebSocket { .. } => self.walk_frames(rest, language, counters)?,
                State::Polling(_) => self.walk_answers(rest, now_ns, language, counters)?,
            };
            match taken {
                None => return Ok(at),
                Some(taken) => at += taken,
            }
        }
    }

    /// Goes on with what is to be said or heard, if nothing is under way.
    pub fn proceed(&mut self) {
        let State::Polling(polling) = &mut self.state else { return };
        if polling.under_way.is_some() || !self.is_open {
            return;
        }
        if polling.post.is_empty() {
            self.out.extend_from_slice(&polling.get);
            polling.under_way = Some(Request::Get);
            return;
        }
        let Place { authority, path, .. } = &*self.place;
        let (query, length) = (&polling.query, polling.post.len());
        let kind = match polling.revision {
            3 if polling.is_binary => "application/octet-stream",
            _ => "text/plain;charset=UTF-8",
        };
        self.out.extend_from_slice(
            format!(
                "POST {path}?{query} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: {kind}\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
            .as_bytes(),
        );
        self.out.append(&mut polling.post);
        polling.is_binary = false;
        polling.under_way = Some(Request::Post);
    }

    /// One head or one part of a frame; `None` if more bytes are needed.
    fn walk_frames(
        &mut self,
        bytes: &[u8],
        language: &mut Language,
        counters: &mut Counters,
    ) -> io::Result<Option<usize>> {
        let State::WebSocket { is_upgraded, frame } = &mut self.state else { return Ok(None) };
        if !*is_upgraded {
            let Some(head) = http::head(bytes)? else { return Ok(None) };
            if head.status != 101 {
                return Err(broken(&format!("the upgrade was answered with {}", head.status)));
            }
            *is_upgraded = true;
            self.is_open = self.transport == Transport::WebSocket;
            return Ok(Some(head.bytes));
        }
        let Some((opcode, left)) = *frame else {
            let Some(head) = websocket::head(bytes)? else { return Ok(None) };
            // A control frame without payload is over with its head.
            *frame = (head.payload > 0 || head.opcode >= websocket::CLOSE)
                .then_some((head.opcode, head.payload));
            return Ok(Some(head.bytes));
        };
        let part = bytes.get(..left.min(bytes.len())).unwrap_or_default();
        let is_end = part.len() == left;
        let is_engine_text =
            self.transport == Transport::EngineWebSocket && opcode == websocket::TEXT;
        let taken = match opcode {
            _ if is_engine_text && !is_end => 0,
            _ if is_engine_text => {
                match part.split_first() {
                    Some((b'0', _)) => self.is_open = true,
                    Some((b'1', _)) => return Err(broken("the server closed the session")),
                    Some((b'2', _)) => websocket::frame(&mut self.out, websocket::TEXT, b"3"),
                    Some((b'4', message)) => {
                        language.walk(message, true, counters)?;
                    }
                    _ => {}
                }
                left
            }
            websocket::PING if is_end => {
                websocket::frame(&mut self.out, websocket::PONG, part);
                left
            }
            websocket::CLOSE if is_end => {
                let reason = part.get(2..).unwrap_or_default().escape_ascii();
                return Err(broken(&format!("the server closed the WebSocket: {reason}")));
            }
            websocket::PING | websocket::CLOSE => 0,
            websocket::PONG => part.len(),
            _ => language.walk(part, is_end, counters)?,
        };
        if is_end && taken < left {
            return Err(broken("a frame ends within a message"));
        }
        *frame = (taken < left).then_some((opcode, left - taken));
        Ok((taken > 0 || left == 0).then_some(taken))
    }

    /// One head or part of a body; `None` if more bytes are needed.
    fn walk_answers(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        language: &mut Language,
        counters: &mut Counters,
    ) -> io::Result<Option<usize>> {
        let State::Polling(polling) = &mut self.state else { return Ok(None) };
        let Some(request) = polling.under_way else {
            return if bytes.is_empty() {
                Ok(None)
            } else {
                Err(broken("an answer to no request"))
            };
        };
        let Some(left) = polling.body else {
            let Some(head) = http::head(bytes)? else { return Ok(None) };
            if head.status != 200 {
                return Err(broken(&format!("a poll was answered with {}", head.status)));
            }
            polling.body = Some(head.body);
            polling.received_before = counters.received;
            return Ok(Some(head.bytes));
        };
        let part = bytes.get(..left.min(bytes.len())).unwrap_or_default();
        let is_end = part.len() == left;
        let mut asked = Asked::default();
        let taken = match request {
            Request::Get => {
                let (revision, reader) = (polling.revision, &mut polling.reader);
                reader.walk(revision, part, is_end, language, counters, &mut asked)?
            }
            Request::Open if is_end => {
                let id = engineio::session_id(part)
                    .ok_or_else(|| broken("the open packet names no session"))?;
                polling.open(&id, &self.place);
                self.is_open = true;
                left
            }
            Request::Open => 0,
            Request::Post => part.len(),
        };
        let beats = polling.revision == 3 && now_ns >= polling.next_beat_ns && is_end;
        if asked.pong || (beats && request != Request::Open) {
            polling.next_beat_ns = now_ns + BEAT_NS;
            engineio::heart_beat(&mut polling.post, polling.revision);
        }
        if taken < left {
            if is_end {
                return Err(broken("an answer ends within a packet"));
            }
            polling.body = Some(left - taken);
            return Ok((taken > 0).then_some(taken));
        }
        if request == Request::Get && counters.received > polling.received_before {
            counters.polls += 1;
        }
        (polling.body, polling.under_way) = (None, None);
        Ok(Some(taken))
    }
}

impl Polling {
    fn open(&mut self, id: &str, place: &Place) {
        let Place { authority, path, .. } = place;
        self.query = format!("EIO={}&transport=polling&sid={id}", self.revision);
        let query = &self.query;
        self.get = format!("GET {path}?{query} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes();
    }
}

/// How often a client of revision 3 pings, while something comes: well within the usual interval.
const BEAT_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::clients::language::Speech;

    fn carrier(transport: Transport) -> Carrier {
        let place = Place { authority: "a".into(), path: "/p/".into(), subprotocol: None };
        Carrier::new(transport, Arc::new(place))
    }

    /// Feeds bytes in pieces, keeping what was not consumed.
    fn feed(carrier: &mut Carrier, language: &mut Language, counters: &mut Counters, wire: &[u8]) {
        let mut kept = Vec::new();
        for piece in wire.chunks(5) {
            kept.extend_from_slice(piece);
            let taken = carrier.walk(&kept, 1, language, counters).unwrap();
            kept.drain(..taken);
            carrier.proceed();
        }
        assert!(kept.is_empty());
    }

    fn sent(carrier: &mut Carrier) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut carrier.out)).into_owned()
    }

    #[test]
    fn a_polling_client_speaks_before_it_listens_again() {
        let mut carrier = carrier(Transport::Polling(4));
        let (mut language, mut counters) = (Language::new(Speech::SocketIo, 1), Counters::idle());
        assert!(sent(&mut carrier).starts_with("GET /p/?EIO=4&transport=polling HTTP/1.1\r\n"));
        let open = "0{\"sid\":\"abc\"}";
        let answer = |body: &str| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        carrier.walk(&answer(open), 1, &mut language, &mut counters).unwrap();
        assert!(carrier.is_open);
        carrier.send(b"0", true);
        carrier.proceed();
        let post = sent(&mut carrier);
        assert!(post.starts_with("POST /p/?EIO=4&transport=polling&sid=abc HTTP/1.1"), "{post}");
        assert!(post.ends_with("\r\n\r\n40"), "{post}");
        feed(&mut carrier, &mut language, &mut counters, &answer("ok"));
        assert!(sent(&mut carrier).starts_with("GET /p/?EIO=4&transport=polling&sid=abc "));
        let events = "40{\"sid\":\"x\"}\x1e42[\"message\",\"18e9b6b7a0c0de00\"]\x1e2";
        feed(&mut carrier, &mut language, &mut counters, &answer(events));
        assert!(language.is_greeted());
        assert_eq!((counters.received, counters.polls), (1, 1));
        assert!(sent(&mut carrier).ends_with("\r\n\r\n3"));
    }

    #[test]
    fn a_websocket_is_upgraded_and_answers_pings() {
        for transport in [Transport::WebSocket, Transport::EngineWebSocket] {
            let mut carrier = carrier(transport);
            let (mut language, mut counters) =
                (Language::new(Speech::SocketIo, 1), Counters::idle());
            let mut wire = b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x89\x00".to_vec();
            let engine = transport == Transport::EngineWebSocket;
            let texts: &[&str] = match engine {
                true => &["0{}", "2", "42[\"m\",\"18e9b6b7a0c0de00\"]"],
                false => &["2[\"m\",\"18e9b6b7a0c0de00\"]"],
            };
            for text in texts {
                wire.extend_from_slice(&[0x81, text.len() as u8]);
                wire.extend_from_slice(text.as_bytes());
            }
            let _ = sent(&mut carrier);
            feed(&mut carrier, &mut language, &mut counters, &wire);
            assert!(carrier.is_open);
            assert_eq!(counters.received, 1);
            let frames = std::mem::take(&mut carrier.out);
            assert_eq!(frames.first(), Some(&0x8a));
            assert_eq!(frames.len(), if engine { 6 + 7 } else { 6 });
        }
    }
}
