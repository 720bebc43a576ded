//! A client of Server-Sent Events: it comes back with the id of the last event.
//!
//! Invariant: a message whose version was there before is told as repeated, as the id stands on the last event of a batch alone.

use std::collections::HashMap;
use std::io;

use serde_json::Value;

use super::speech::{Change, Message, Speech, Told};
use crate::clients::counters::broken;

/// A client of Server-Sent Events.
#[derive(Debug)]
pub(super) struct Events {
    /// By topic: the last version, once there was one.
    topics: HashMap<String, u64>,
    last_id: String,
    has_head: bool,
    /// Bytes of the chunk that are to come, without the line behind it.
    chunk: Option<usize>,
    text: Vec<u8>,
}

impl Events {
    /// One that listens to these topics.
    pub(super) fn new(topics: &[String]) -> Events {
        Events {
            topics: topics.iter().map(|topic| (topic.clone(), 0)).collect(),
            last_id: String::new(),
            has_head: false,
            chunk: None,
            text: Vec::new(),
        }
    }
}

impl Speech for Events {
    fn open(&mut self, authority: &str, out: &mut Vec<u8>) {
        (self.has_head, self.chunk) = (false, None);
        self.text.clear();
        let topics: Vec<String> =
            self.topics.keys().map(|topic| format!("topic={topic}")).collect();
        let last = match self.last_id.as_str() {
            "" => String::new(),
            id => format!("Last-Event-ID: {id}\r\n"),
        };
        let request = format!(
            "GET /events?{}&envelope=true HTTP/1.1\r\nHost: {authority}\r\nAccept: text/event-stream\r\n{last}\r\n",
            topics.join("&")
        );
        out.extend_from_slice(request.as_bytes());
    }

    fn take(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> io::Result<usize> {
        let mut at = 0;
        if !self.has_head {
            let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return Ok(0) };
            if !input.starts_with(b"HTTP/1.1 200 ") {
                return Err(broken(&format!("the server says {}", input.escape_ascii())));
            }
            self.has_head = true;
            at = end + 4;
        }
        while let Some(taken) = self.chunk(input.get(at..).unwrap_or_default())? {
            at += taken;
        }
        while let Some(end) = memchr::memmem::find(&self.text, b"\n\n") {
            let event: Vec<u8> = self.text.drain(..end + 2).collect();
            self.event(&String::from_utf8_lossy(&event), tell)?;
        }
        Ok(at)
    }

    fn change(&mut self, from: &str, to: &str, _out: &mut Vec<u8>) -> Change {
        self.topics.remove(from);
        self.topics.insert(to.to_owned(), 0);
        // Another stream begins anew.
        self.last_id.clear();
        self.topics.values_mut().for_each(|last| *last = 0);
        Change::Reconnect
    }
}

impl Events {
    /// Takes part of a chunk; `None` if more is needed.
    fn chunk(&mut self, input: &[u8]) -> io::Result<Option<usize>> {
        let Some(left) = self.chunk else {
            let Some(end) = memchr::memmem::find(input, b"\r\n") else { return Ok(None) };
            let line = String::from_utf8_lossy(input.get(..end).unwrap_or_default()).into_owned();
            let size = usize::from_str_radix(line.trim(), 16);
            let size = size.map_err(|_| broken(&format!("no chunk begins with {line:?}")))?;
            if size == 0 {
                return Err(broken("the stream has ended"));
            }
            self.chunk = Some(size);
            return Ok(Some(end + 2));
        };
        if left > 0 {
            let part = input.get(..left.min(input.len())).unwrap_or_default();
            self.text.extend_from_slice(part);
            self.chunk = Some(left - part.len());
            return Ok(Some(part.len()).filter(|taken| *taken > 0));
        }
        if input.len() < 2 {
            return Ok(None);
        }
        self.chunk = None;
        Ok(Some(2))
    }

    fn event(&mut self, event: &str, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        let data = field("data: ").unwrap_or_default();
        match field("event: ") {
            Some("ready" | "recovered") => tell(Told::Ready),
            Some("gap") => {
                tell(Told::Gap(None));
                tell(Told::Ready);
            }
            Some(_) => return Err(broken(&format!("the server says {event}"))),
            None if data.is_empty() => {}
            None => self.message(data, tell)?,
        }
        if let Some(id) = field("id: ") {
            id.clone_into(&mut self.last_id);
        }
        Ok(())
    }

    fn message(&mut self, data: &str, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let message: Value = serde_json::from_str(data)
            .map_err(|error| broken(&format!("no JSON: {error}: {data}")))?;
        let topic = message["topic"].as_str().unwrap_or_default();
        let version = message["version"].as_u64().unwrap_or_default();
        let is_repeated = match self.topics.get_mut(topic) {
            Some(last) => version <= std::mem::replace(last, version.max(*last)),
            None => false,
        };
        if message["removed"] == true {
            tell(Told::Removed(topic));
            return Ok(());
        }
        tell(Told::Value(Message { topic, version, value: &message["value"], is_repeated }));
        Ok(())
    }
}
