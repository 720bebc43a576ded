//! Runs: consecutive messages of one publisher to one destination in one immutable buffer.
//!
//! Costs that other servers pay per message (a reference count, a queue entry, a mailbox slot, an
//! index lookup) are paid here once per run. A run of one message is the ordinary case at low rates.

use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::limits::APART_BYTES_MIN;
use tiderace_base::{ShardId, SharedCharge, Time};
use tiderace_filter::{Properties, Value};
use tiderace_topics::Path;

use crate::flags::{Flags, Meta};
use crate::run_origin::Origin;
use crate::{Destination, EndPrincipal, Kind, Traced, properties};

mod buffer;
mod builder;
mod calling;
mod naming;
mod traced;
mod upstream_numbers;

use buffer::Buffer;
pub use buffer::SharedBytes;
pub use builder::RunBuilder;
pub use upstream_numbers::UpstreamNumbers;

/// Where one message lies in its run's buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    properties: u32,
    body: u32,
    flags: Flags,
}

/// Where the messages of a run lie.
#[derive(Clone, Debug)]
enum Entries {
    /// One message that ends where the buffer ends: as nearly all are that topics retain.
    One {
        properties: u32,
        flags: Flags,
    },
    Many(Box<[Entry]>),
}

impl Entries {
    fn of(entries: Vec<Entry>) -> Entries {
        match entries.as_slice() {
            [one] => Entries::One { properties: one.properties, flags: one.flags },
            _ => Entries::Many(entries.into()),
        }
    }
}

/// Consecutive messages to one destination. Immutable once its home shard has numbered it.
#[derive(Clone, Debug)]
pub struct Run {
    destination: Destination,
    origin: Origin,
    first: u64,
    version: u64,
    published: Time,
    data: Buffer,
    entries: Entries,
    rare: Option<Box<Rare>>,
}

/// What few runs have.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// The body of the only message, if that lies in a file; in the buffer it has none then.
    file: Option<Bytes>,
    /// The numbers that another node gave it.
    upstream: Option<UpstreamNumbers>,
    /// Who calls with it.
    caller: Option<Arc<EndPrincipal>>,
    /// Its messages that are traced.
    traced: Option<Arc<Traced>>,
}

// With the two counts of an `Arc`, 112 bytes: what allocators give for anything over 96.
const _: () = assert!(size_of::<Run>() <= 96, "every retained value has one");

/// One message of a run, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its number: unique and rising among all messages of the same home shard.
    pub sequence: u64,
    /// Its properties in the form of [`properties`].
    pub properties: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
    /// Marks.
    pub flags: Flags,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

impl Run {
    /// Where its messages were sent.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The shard that numbered it.
    pub fn home(&self) -> ShardId {
        self.origin.home()
    }

    /// The number of its first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The version of its topic that its first message made: successive messages of a topic have
    /// successive versions. Zero for other kinds of destination.
    #[inline]
    pub fn version(&self) -> u64 {
        if self.origin.0 & Origin::IN_QUEUE == 0 { self.version } else { 0 }
    }

    /// The version of its first message in its queue: successive messages of a queue have successive versions,
    /// in this life of the server and later ones. Zero for other kinds of destination.
    #[inline]
    pub fn queue_version(&self) -> u64 {
        if self.origin.0 & Origin::IN_QUEUE == 0 { 0 } else { self.version }
    }

    /// Whether its queue keeps it in the store.
    #[inline]
    pub fn is_stored(&self) -> bool {
        self.origin.0 & Origin::IS_STORED != 0
    }

    /// The version of the topic's message before the first of these, if it is not one less: numbers are
    /// left out when the server starts anew and when a topic that was forgotten comes back. Zero if no
    /// earlier message is known.
    pub fn follows(&self) -> Option<u64> {
        let unused = Some(self.origin.unused()).filter(|unused| *unused > 0)?;
        Some((self.version - 1).saturating_sub(unused))
    }

    /// The same of the message at that place, for clients that are told versions one by one; absent also
    /// where no earlier message is known.
    pub fn follows_at(&self, index: usize) -> Option<u64> {
        self.follows().filter(|version| index == 0 && *version > 0)
    }

    /// Whether the message at that place is its topic's current value: its publisher or the topic's
    /// specification says so, and it removes nothing.
    pub fn is_value(&self, index: usize) -> bool {
        let always = self.origin.0 & Origin::IS_VALUE != 0;
        self.entry(index).is_some_and(|entry| {
            (always || entry.flags.contains(Flags::RETAIN))
                && !entry.flags.contains(Flags::RETAIN_REMOVE)
        })
    }

    /// When the publisher's bytes were read.
    pub fn published(&self) -> Time {
        self.published
    }

    /// How many messages it holds; never zero.
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::One { .. } => 1,
            Entries::Many(entries) => entries.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes it keeps in memory, with those of a buffer that it shares; not those of a body in a file.
    pub fn bytes(&self) -> usize {
        let rare = self.rare.as_ref().map_or(0, |rare| rare.bytes());
        self.data.len() + rare + self.bytes_beside()
    }

    /// Bytes that it keeps in memory beside a buffer that it shares.
    pub fn bytes_beside(&self) -> usize {
        let entries = match &self.entries {
            Entries::One { .. } => 0,
            Entries::Many(entries) => size_of_val(&**entries),
        };
        entries + size_of::<Run>()
    }

    /// Makes its buffer one that others may have as well, by [`Run::shared_with`]: it counts by itself from then on, as
    /// `charge` says, which is given its bytes.
    pub fn share(&mut self, charge: impl FnOnce(usize) -> SharedCharge) {
        self.data.share(charge);
    }

    /// The buffer that it shares with others, if it does.
    #[inline]
    pub fn shared(&self) -> Option<&Arc<SharedBytes>> {
        self.data.shared()
    }

    /// The same messages for another destination, not yet numbered.
    pub fn shared_with(&self, destination: Destination) -> Run {
        let (origin, first, version) = (Origin::default(), 0, 0);
        let mut run = Run { destination, origin, first, version, ..self.clone() };
        run.set_upstream(None);
        run
    }

    /// The body of its only message, if that lies in a file.
    #[inline]
    pub fn body_in_file(&self) -> Option<&Bytes> {
        self.rare.as_ref()?.file.as_ref()
    }

    /// The numbers that it has where it comes from, if that is another node.
    #[inline]
    pub fn upstream(&self) -> Option<&UpstreamNumbers> {
        self.rare.as_ref()?.upstream.as_ref()
    }

    /// Whether it is one message that is too large to be copied for who gets it.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.len() == 1 && (self.bytes_of(0, 1) >= APART_BYTES_MIN || self.body_in_file().is_some())
    }

    /// Bytes that a message takes in memory as a run of its own, its body with it; see [`Run::bytes`].
    pub fn bytes_alone(message: &Message<'_>) -> usize {
        let stamp = if message.expires_ms.is_some() { STAMP_BYTES as usize } else { 0 };
        stamp + message.properties.len() + message.body.len() + size_of::<Run>()
    }

    /// Bytes of messages `from..to` in memory, properties and bodies.
    #[inline]
    pub fn bytes_of(&self, from: usize, to: usize) -> usize {
        self.start_of(to).saturating_sub(self.start_of(from))
    }

    /// Where the message at that place begins; behind the last, where the buffer ends.
    #[inline]
    fn start_of(&self, index: usize) -> usize {
        let start = match &self.entries {
            Entries::Many(entries) => entries.get(index).map(|entry| entry.start),
            Entries::One { flags, .. } if index == 0 => Some(stamp_bytes(*flags)),
            Entries::One { .. } => None,
        };
        start.map_or(self.data.len(), |start| start as usize)
    }

    /// Where the message at that place lies.
    fn entry(&self, index: usize) -> Option<Entry> {
        match &self.entries {
            Entries::Many(entries) => entries.get(index).copied(),
            Entries::One { properties, flags } if index == 0 => {
                let start = stamp_bytes(*flags);
                let body = (self.data.len() as u32).checked_sub(start)?.checked_sub(*properties)?;
                Some(Entry { start, properties: *properties, body, flags: *flags })
            }
            Entries::One { .. } => None,
        }
    }

    /// The message at that place.
    #[inline]
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        let entry = self.entry(index)?;
        let start = entry.start as usize;
        let middle = start + entry.properties as usize;
        let end = middle + entry.body as usize;
        let expires_ms = if entry.flags.contains(Flags::EXPIRES) {
            let stamp = self.data.get(start.checked_sub(8)?..start)?;
            Some(u64::from_le_bytes(stamp.try_into().ok()?))
        } else {
            None
        };
        Some(Message {
            sequence: self.first + index as u64,
            properties: self.data.get(start..middle)?,
            body: match &self.rare {
                None => self.data.get(middle..end)?,
                Some(rare) => rare.body(self.data.get(middle..end)?),
            },
            flags: entry.flags,
            expires_ms,
        })
    }

    /// Its messages in order.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        (0..self.len()).filter_map(|index| self.message(index))
    }

    /// Properties and bodies of all its messages, as they lie in memory; without a body in a file.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Whether any message carries all these marks.
    pub fn any(&self, flags: Flags) -> bool {
        match &self.entries {
            Entries::One { flags: known, .. } => known.contains(flags),
            Entries::Many(entries) => entries.iter().any(|entry| entry.flags.contains(flags)),
        }
    }

    /// The marks that any of its messages carries.
    #[inline]
    pub fn marks(&self) -> Flags {
        match &self.entries {
            Entries::One { flags, .. } => *flags,
            Entries::Many(entries) => {
                entries.iter().fold(Flags::NONE, |marks, entry| marks | entry.flags)
            }
        }
    }

    /// The priority of its first message, of 0 to 9. All messages of a run for a queue have the same.
    pub fn priority(&self) -> u8 {
        self.entry(0).map_or(Flags::NONE, |entry| entry.flags).priority()
    }

    /// Numbers the run; done once, by its home shard, before it is shared.
    pub fn number(&mut self, home: ShardId, first: u64) {
        self.origin = self.origin.with_home(home);
        self.first = first;
    }

    /// Says which numbers another node gave it, or that none did; done before it is shared.
    pub fn set_upstream(&mut self, upstream: Option<UpstreamNumbers>) {
        match &mut self.rare {
            Some(rare) if upstream.is_some() || rare.has_more() => rare.upstream = upstream,
            _ => {
                let rare = |upstream| Rare { upstream: Some(upstream), ..Rare::default() };
                self.rare = upstream.map(rare).map(Box::new);
            }
        }
    }

    /// Sends it to the destination of another kind that has the same path; done before it is numbered.
    pub fn set_kind(&mut self, kind: Kind) {
        self.destination.kind = kind;
    }

    /// Gives its first message a version; done together with numbering.
    pub fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Gives its first message a version in its queue; done together with numbering.
    pub fn set_queue_version(&mut self, version: u64) {
        self.version = version;
        self.origin.0 |= Origin::IN_QUEUE;
    }

    /// Says that its queue keeps it in the store.
    pub fn set_stored(&mut self) {
        self.origin.0 |= Origin::IS_STORED;
    }

    /// Says which version the topic's message before had, if that is lower than one less; after the
    /// version is set.
    pub fn set_follows(&mut self, before: u64) {
        let unused = self.version.saturating_sub(1).saturating_sub(before);
        self.origin = self.origin.with_unused(unused);
    }

    /// Says that the topic keeps each of its messages as its value.
    pub fn set_values(&mut self) {
        self.origin.0 |= Origin::IS_VALUE;
    }

    /// Gives a copy of one message of another run that message's numbers and marks.
    pub fn number_as(&mut self, run: &Run, index: usize) {
        self.origin = if index == 0 { run.origin } else { run.origin.with_unused(0) };
        self.first = run.first + index as u64;
        self.version = run.version + index as u64;
        self.set_upstream(run.upstream().map(|numbers| numbers.at(index, run.len())));
    }

    /// Makes it name its destination by the text that is kept there, and not by another of its own.
    pub fn share_path(&mut self, path: &Path) {
        if !self.destination.path.is_same(path) && self.destination.path == *path {
            self.destination.path = path.clone();
        }
    }

    /// A run of one message, for what the server itself sends.
    pub fn single(
        destination: Destination,
        published: Time,
        properties: &[u8],
        body: &[u8],
        meta: Meta,
    ) -> Run {
        let mut builder = RunBuilder::new(destination, published);
        let meta = meta.with_escapes(properties);
        let stamp = if meta.expires_ms.is_some() { STAMP_BYTES as usize } else { 0 };
        builder.data.reserve_exact(stamp + properties.len() + body.len());
        builder.properties().extend_from_slice(properties);
        builder.finish(body, meta);
        builder.build()
    }

    /// The same with its body in memory, if that lies in a file.
    pub fn into_memory(self) -> Run {
        match (self.body_in_file().is_some(), self.message(0)) {
            (true, Some(Message { properties, body, flags, expires_ms, .. })) => {
                let (destination, meta) = (self.destination.clone(), Meta { flags, expires_ms });
                let mut run = Run::single(destination, self.published, properties, body, meta);
                run.number_as(&self, 0);
                run
            }
            _ => self,
        }
    }

    /// A copy of one message of this run, of just the size, with its numbers: it does not keep the others in memory. A
    /// body in a file is not copied.
    pub fn copy_of(&self, message: &Message<'_>) -> Run {
        let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
        let destination = self.destination.clone();
        let mut copy = match self.body_in_file() {
            Some(body) => {
                let mut builder = RunBuilder::new(destination, self.published);
                builder.properties().extend_from_slice(message.properties);
                builder.finish_in_file(body.clone(), meta);
                builder.build()
            }
            None => {
                Run::single(destination, self.published, message.properties, message.body, meta)
            }
        };
        copy.number_as(self, (message.sequence - self.first) as usize);
        copy
    }

    /// The same of a body that is nobody else's: its buffer becomes the run's, so a large value that was
    /// just made is not copied into a second buffer as large. It is copied after all if it has an expiry
    /// date, or if its buffer has much room to spare, which would be kept and counted nowhere.
    pub fn single_owned(
        destination: Destination,
        published: Time,
        properties: &[u8],
        mut body: Vec<u8>,
        meta: Meta,
    ) -> Run {
        let spare = (body.capacity() - body.len()).saturating_sub(properties.len());
        if meta.expires_ms.is_some() || spare > SPARE_BYTES_MAX.max(body.len() / SPARE_PART) {
            return Run::single(destination, published, properties, &body, meta);
        }
        body.reserve_exact(properties.len());
        body.extend_from_slice(properties);
        body.rotate_right(properties.len());
        let mut builder = RunBuilder::new(destination, published);
        builder.data = body;
        builder.end_with(0, properties.len(), meta.with_escapes(properties).flags.without_stamp());
        builder.build()
    }
}

impl Message<'_> {
    /// Whether its time is over.
    pub fn is_expired(&self, wall_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires| expires <= wall_ms)
    }
}

impl Properties for Message<'_> {
    fn property(&self, name: &str) -> Option<Value<'_>> {
        properties::find(self.properties, name).map(Value::String)
    }

    fn lookup_price(&self) -> u32 {
        8 + self.properties.len() as u32 / 16
    }
}

impl Rare {
    /// Apart from [`Run::message`], which is asked for every message.
    #[cold]
    fn body<'a>(&'a self, in_memory: &'a [u8]) -> &'a [u8] {
        self.file.as_deref().unwrap_or(in_memory)
    }
}

/// An expiry date before the properties.
const STAMP_BYTES: u32 = 8;

/// What lies before the properties of a message alone in its run.
fn stamp_bytes(flags: Flags) -> u32 {
    if flags.contains(Flags::EXPIRES) { STAMP_BYTES } else { 0 }
}

/// Bytes that a run of one message may leave unused.
const SPARE_BYTES_MAX: usize = 64;
/// The part of a large body, as a divisor, that its buffer may leave unused: what an allocator loses by rounding.
const SPARE_PART: usize = 8;

#[cfg(test)]
mod tests;
