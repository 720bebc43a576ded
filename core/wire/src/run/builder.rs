//! Collecting the messages of a run.
//!
//! Relies on the form in which a run keeps them. Invariant: a message whose body lies in a file is alone in its run.

use bytes::Bytes;
use tiderace_base::Time;
use tiderace_base::limits::{RUN_BYTES_TARGET, RUN_MESSAGES_MAX};

use super::{Buffer, Entries, Entry, Message, Rare, Run, SPARE_BYTES_MAX, STAMP_BYTES};
use crate::Destination;
use crate::flags::{Flags, Meta};
use crate::run_origin::Origin;

/// Collects the messages of a run.
#[derive(Debug)]
pub struct RunBuilder {
    destination: Destination,
    published: Time,
    pub(super) data: Vec<u8>,
    entries: Vec<Entry>,
    /// Where the message being built begins.
    start: usize,
    /// With the body of its only message, if that lies in a file: apart, for builders are moved with every message.
    rare: Option<Box<Rare>>,
}

impl RunBuilder {
    /// Begins a run.
    pub fn new(destination: Destination, published: Time) -> RunBuilder {
        let (data, entries) = (Vec::new(), Vec::new());
        RunBuilder { destination, published, data, entries, start: 0, rare: None }
    }

    /// Where it goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Whether another message still fits.
    pub fn has_room(&self) -> bool {
        self.data.len() < RUN_BYTES_TARGET
            && self.entries.len() < RUN_MESSAGES_MAX
            && self.rare.is_none()
    }

    /// Whether it holds no finished message.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Begins a message, forgetting one begun but not finished; properties are appended here, in
    /// the form of [`Properties`](crate::properties). What is already in the buffer must stay.
    pub fn properties(&mut self) -> &mut Vec<u8> {
        self.data.truncate(self.start);
        &mut self.data
    }

    /// Whether one of these marks is on the message that was finished last, and another message would not have it, or
    /// the other way round.
    #[inline]
    pub fn differs(&self, flags: Flags, marks: Flags) -> bool {
        self.entries.last().is_some_and(|last| last.flags.differs(flags, marks))
    }

    /// The properties of the message begun, which is begun no more.
    pub(crate) fn take_begun(&mut self) -> Vec<u8> {
        self.data.split_off(self.start)
    }

    /// Ends the message begun, which is the only one, with a body that stays in its file.
    pub fn finish_in_file(&mut self, body: Bytes, meta: Meta) {
        debug_assert!(self.entries.is_empty(), "it is a run of its own");
        self.finish(&[], meta);
        self.rare = Some(Box::new(Rare { file: Some(body), ..Rare::default() }));
    }

    /// Ends the message begun with the body of a message: see [`RunBuilder::takes`].
    pub fn finish_as(&mut self, run: &Run, message: &Message<'_>, meta: Meta) {
        match run.body_in_file() {
            Some(body) => self.finish_in_file(body.clone(), meta),
            None => self.finish(message.body, meta),
        }
    }

    /// Whether another message fits that is one of this run: one whose body lies in a file is a run of its own.
    pub fn takes(&self, run: &Run) -> bool {
        self.has_room() && (self.entries.is_empty() || run.body_in_file().is_none())
    }

    /// Ends the message begun.
    pub fn finish(&mut self, body: &[u8], meta: Meta) {
        let mut start = self.start;
        let mut flags = meta.flags.without_stamp();
        if let Some(expires) = meta.expires_ms {
            // Rare, so it pays by moving its own properties instead of every message paying a field.
            let properties = self.data.split_off(start);
            self.data.extend_from_slice(&expires.to_le_bytes());
            self.data.extend_from_slice(&properties);
            start += STAMP_BYTES as usize;
            flags = flags | Flags::EXPIRES;
        }
        let properties = self.data.len() - start;
        self.data.extend_from_slice(body);
        self.end_with(start, properties, flags);
    }

    /// Ends a message whose bytes are all in the buffer, the properties first.
    pub(super) fn end_with(&mut self, start: usize, properties: usize, flags: Flags) {
        let body = self.data.len() - start - properties;
        self.entries.push(Entry {
            start: start as u32,
            properties: properties as u32,
            body: body as u32,
            flags,
        });
        self.start = self.data.len();
    }

    /// The run, not yet numbered.
    pub fn build(mut self) -> Run {
        self.data.truncate(self.start);
        // A message alone may be kept for long as its topic's value.
        if self.entries.len() == 1 && self.data.capacity() - self.data.len() > SPARE_BYTES_MAX {
            self.data.shrink_to_fit();
        }
        Run {
            destination: self.destination,
            origin: Origin::default(),
            first: 0,
            version: 0,
            published: self.published,
            data: Buffer::Own(self.data.into()),
            entries: Entries::of(self.entries),
            rare: self.rare,
        }
    }
}
