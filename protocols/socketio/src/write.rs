//! Packets to clients: written piece by piece, framed with what is attached.
//!
//! Relies on the framing of the connection. Invariant: a packet that announces attachments is
//! followed by exactly these, with nothing in between.

use tiderace_base::Close;
use tiderace_value::append_text;
use tiderace_wire::{Framing, properties};

use crate::body::Shown;

/// The text of one packet on its way.
#[derive(Debug, Default)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// A packet of that type in that namespace.
    pub(crate) fn new(kind: u8, namespace: &str, ack: Option<u64>) -> Text {
        let mut text = Text(Vec::with_capacity(96));
        text.begin(kind, 0, namespace, ack);
        text
    }

    /// An event with so many attachments, up to the name.
    pub(crate) fn event(attachments: usize, namespace: &str, ack: Option<u64>, name: &str) -> Text {
        let mut text = Text(Vec::with_capacity(128));
        text.begin_event(attachments, namespace, ack, name);
        text
    }

    /// The same at the end of what is there.
    pub(crate) fn begin_event(
        &mut self,
        attachments: usize,
        namespace: &str,
        ack: Option<u64>,
        name: &str,
    ) {
        self.begin(if attachments > 0 { b'5' } else { b'2' }, attachments, namespace, ack);
        self.0.push(b'[');
        self.text(name);
    }

    /// An answer that says `ok` and so far nothing else.
    pub(crate) fn answer(attachments: usize, namespace: &str, id: u64, ok: bool) -> Text {
        let mut text = Text(Vec::with_capacity(64));
        text.begin(if attachments > 0 { b'6' } else { b'3' }, attachments, namespace, Some(id));
        text.raw(if ok { "[{\"ok\":true" } else { "[{\"ok\":false" });
        text
    }

    fn begin(&mut self, kind: u8, attachments: usize, namespace: &str, ack: Option<u64>) {
        self.0.push(kind);
        if attachments > 0 {
            self.number(attachments as u64);
            self.0.push(b'-');
        }
        if namespace != "/" {
            self.raw(namespace);
            self.0.push(b',');
        }
        if let Some(id) = ack {
            self.number(id);
        }
    }

    /// Appends JSON or part of it.
    pub(crate) fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    /// Ends an object that has members with those of the object that is written.
    pub(crate) fn members(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        write(&mut self.0);
        match self.0.get_mut(start..) {
            Some([brace, _, _, ..]) => *brace = b',',
            _ => {
                self.0.truncate(start);
                self.0.push(b'}');
            }
        }
    }

    /// Appends a string.
    pub(crate) fn text(&mut self, text: &str) {
        append_text(&mut self.0, text);
    }

    /// Appends a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.raw(itoa::Buffer::new().format(number));
    }

    /// Appends the value of a body.
    pub(crate) fn value(&mut self, shown: &Shown<'_>) {
        shown.append(&mut self.0);
    }

    /// Appends `,"code":…,"message":…`.
    pub(crate) fn problem(&mut self, close: &Close) {
        self.raw(",\"code\":");
        self.text(close.code.slug());
        self.raw(",\"message\":");
        self.text(&close.reason);
        if let Some(addresses) = &close.addresses {
            for (place, address) in addresses.iter().enumerate() {
                self.raw(if place == 0 { ",\"addresses\":[" } else { "," });
                self.text(address);
            }
            self.raw("]");
        }
    }

    /// Appends `,"name":"value"` of each property but the type, which the value shows, and those
    /// that are said otherwise.
    pub(crate) fn properties(&mut self, block: &[u8], hidden: &[&str]) {
        for (name, value) in properties::raw(block) {
            let name = properties::decode(name);
            if name == "content-type" || hidden.contains(&&*name) {
                continue;
            }
            self.0.push(b',');
            self.text(&name);
            self.0.push(b':');
            self.text(&properties::decode(value));
        }
    }

    /// The text.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The text so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes text behind other bytes, without a place of its own.
    pub(crate) fn behind(out: &mut Vec<u8>, write: impl FnOnce(&mut Text)) {
        let mut text = Text(std::mem::take(out));
        write(&mut text);
        *out = text.0;
    }

    /// Appends a packet written where it goes, and its attachments, framed.
    pub(crate) fn framed(
        attachments: &[&[u8]],
        framing: Framing,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Text),
    ) {
        let start = framing.open(true, out);
        Text::behind(out, write);
        framing.close(start, true, out);
        attach(attachments, framing, out);
    }

    /// Appends the packet and its attachments, framed.
    pub(crate) fn write(&self, attachments: &[&[u8]], framing: Framing, out: &mut Vec<u8>) {
        framing.write(&self.0, true, out);
        attach(attachments, framing, out);
    }
}

fn attach(attachments: &[&[u8]], framing: Framing, out: &mut Vec<u8>) {
    for attachment in attachments {
        framing.write(attachment, false, out);
    }
}
