//! A client of Socket.IO 5: it comes back by connection state recovery, and where the server does not know it by subscribing anew
//! behind the offset of its last message.
//!
//! Invariant: an offset is sent back only with the private id that it came under.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use serde_json::{Value, json};

use super::speech::{Change, Message, Speech, Told};
use super::websocket::{Got, WebSocket};
use crate::clients::counters::broken;
use crate::clients::websocket::{TEXT, frame};

/// A client of Socket.IO.
#[derive(Debug)]
pub(super) struct SocketIo {
    socket: WebSocket,
    conversation: Conversation,
}

#[derive(Debug, Default)]
struct Conversation {
    /// By topic: the last version, once there was one.
    topics: HashMap<String, Option<u64>>,
    pid: Option<String>,
    offset: Option<String>,
    next_ack: u64,
    /// The requests by which it goes on where it was, whose answers say whether anything is missing.
    goes_on: Range<u64>,
    /// Acknowledgements that have not come.
    pending: u64,
}

impl SocketIo {
    /// One that subscribes to these topics.
    pub(super) fn new(topics: &[String]) -> SocketIo {
        let topics = topics.iter().map(|topic| (topic.clone(), None)).collect();
        let socket = WebSocket::new("/socket.io/?EIO=4&transport=websocket", None);
        SocketIo { socket, conversation: Conversation { topics, ..Conversation::default() } }
    }
}

impl Speech for SocketIo {
    fn open(&mut self, authority: &str, out: &mut Vec<u8>) {
        self.conversation.pending = 0;
        self.socket.open(authority, out);
    }

    fn take(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> io::Result<usize> {
        let SocketIo { socket, conversation } = self;
        socket.walk(input, out, &mut |got, out| match got {
            Got::Opened => Ok(()),
            Got::Message(message) => conversation.take(message, out, tell),
        })
    }

    fn change(&mut self, from: &str, to: &str, out: &mut Vec<u8>) -> Change {
        let conversation = &mut self.conversation;
        conversation.topics.remove(from);
        conversation.topics.insert(to.to_owned(), None);
        conversation.emit(&json!(["unsubscribe", from]), out);
        conversation.subscribe(to, None, None, out);
        Change::Asked
    }
}

impl Conversation {
    fn take(
        &mut self,
        message: &[u8],
        out: &mut Vec<u8>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> io::Result<()> {
        match message {
            [b'0', ..] => self.connect(out),
            [b'2'] => frame(out, TEXT, b"3"),
            [b'4', b'0', rest @ ..] => self.connected(&parsed(rest)?, out, tell),
            [b'4', b'2', rest @ ..] => return self.event(&parsed(rest)?, tell),
            [b'4', b'3', rest @ ..] => return self.acknowledged(rest, tell),
            _ => return Err(broken(&format!("the server says {}", message.escape_ascii()))),
        }
        Ok(())
    }

    fn connect(&mut self, out: &mut Vec<u8>) {
        let known = match (&self.pid, &self.offset) {
            (Some(pid), Some(offset)) => json!({ "pid": pid, "offset": offset }).to_string(),
            (Some(pid), None) => json!({ "pid": pid }).to_string(),
            (None, _) => String::new(),
        };
        frame(out, TEXT, format!("40{known}").as_bytes());
    }

    fn connected(&mut self, answer: &Value, out: &mut Vec<u8>, tell: &mut dyn FnMut(Told<'_>)) {
        let pid = answer["pid"].as_str().map(str::to_owned);
        if pid.is_some() && pid == self.pid {
            tell(Told::Ready);
            return;
        }
        let is_anew = self.pid.is_some();
        self.pid = pid;
        let since = self.offset.take();
        if is_anew && since.is_none() {
            tell(Told::Gap(None));
        }
        let first = self.next_ack;
        let topics: Vec<_> = self.topics.iter().map(|(name, last)| (name.clone(), *last)).collect();
        for (topic, last) in topics {
            self.subscribe(&topic, last, since.as_deref(), out);
        }
        self.goes_on = if is_anew { first..self.next_ack } else { 0..0 };
    }

    fn subscribe(
        &mut self,
        topic: &str,
        last: Option<u64>,
        since: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let options = match since {
            Some(since) if last.is_some() => json!({ "recoverable": true, "since": since }),
            _ => json!({ "recoverable": true, "snapshot": true }),
        };
        self.emit(&json!(["subscribe", topic, options]), out);
    }

    fn emit(&mut self, event: &Value, out: &mut Vec<u8>) {
        let ack = self.next_ack;
        self.next_ack += 1;
        self.pending += 1;
        frame(out, TEXT, format!("42{ack}{event}").as_bytes());
    }

    fn acknowledged(&mut self, rest: &[u8], tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let answer = parsed(rest.get(digits..).unwrap_or_default())?;
        if answer[0]["ok"] != true {
            return Err(broken(&format!("the server says {answer}")));
        }
        let digits = std::str::from_utf8(rest.get(..digits).unwrap_or_default());
        let ack = digits.ok().and_then(|digits| digits.parse().ok());
        if ack.is_some_and(|ack| self.goes_on.contains(&ack)) && answer[0]["recovered"] != true {
            tell(Told::Gap(None));
        }
        self.pending = self.pending.saturating_sub(1);
        if self.pending == 0 {
            tell(Told::Ready);
        }
        Ok(())
    }

    fn event(&mut self, event: &Value, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let (Some("message"), Some(topic)) = (event[0].as_str(), event[1].as_str()) else {
            return Err(broken(&format!("the server says {event}")));
        };
        if let Some(offset) = event[4].as_str() {
            self.offset = Some(offset.to_owned());
        }
        let version = event[3]["version"].as_u64().unwrap_or_default();
        // What was under way when a subscription ended.
        let Some(last) = self.topics.get_mut(topic) else { return Ok(()) };
        *last = Some(version);
        if event[3]["removed"] == true {
            tell(Told::Removed(topic));
            return Ok(());
        }
        tell(Told::Value(Message { topic, version, value: &event[2], is_repeated: false }));
        Ok(())
    }
}

fn parsed(text: &[u8]) -> io::Result<Value> {
    serde_json::from_slice(text).map_err(|error| broken(&format!("no JSON: {error}")))
}
