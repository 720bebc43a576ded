//! Runs: consecutive messages of one publisher to one destination in one immutable buffer.
//!
//! Costs that other servers pay per message (a reference count, a queue entry, a mailbox slot, an
//! index lookup) are paid here once per run. A run of one message is the ordinary case at low rates.

use tiderace_base::limits::{RUN_BYTES_TARGET, RUN_MESSAGES_MAX};
use tiderace_base::{ShardId, Time};
use tiderace_filter::{Properties, Value};
use tiderace_topics::Path;

use crate::flags::{Flags, Meta};
use crate::{Destination, properties};

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

/// What a home says of a run besides its numbers, in eight bytes: which shard it is (16 bits), whether
/// the topic keeps every message as its value, whether the versions are those of a queue, whether the queue
/// keeps it in the store (one bit each), and how many versions lie unused between the topic's message before
/// and the first of these (the rest).
#[derive(Clone, Copy, Debug, Default)]
struct Origin(u64);

impl Origin {
    const HOME: u64 = 0xffff;
    const IS_VALUE: u64 = 1 << 16;
    const IN_QUEUE: u64 = 1 << 17;
    const IS_STORED: u64 = 1 << 18;
    const UNUSED_SHIFT: u32 = 19;
    const MARKS: u64 = Origin::IS_VALUE | Origin::IN_QUEUE | Origin::IS_STORED;

    fn home(self) -> ShardId {
        ShardId((self.0 & Origin::HOME) as u16)
    }

    fn unused(self) -> u64 {
        self.0 >> Origin::UNUSED_SHIFT
    }

    fn with_home(self, home: ShardId) -> Origin {
        Origin(self.0 & !Origin::HOME | u64::from(home.0))
    }

    fn with_unused(self, unused: u64) -> Origin {
        let most = u64::MAX >> Origin::UNUSED_SHIFT;
        let rest = self.0 & (Origin::HOME | Origin::MARKS);
        Origin(rest | unused.min(most) << Origin::UNUSED_SHIFT)
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
    data: Box<[u8]>,
    entries: Entries,
}

const _: () = assert!(size_of::<Run>() <= 88, "every retained value has one");

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

    /// Bytes it keeps in memory.
    pub fn bytes(&self) -> usize {
        let entries = match &self.entries {
            Entries::One { .. } => 0,
            Entries::Many(entries) => size_of_val(&**entries),
        };
        self.data.len() + entries + size_of::<Run>()
    }

    /// Bytes that a message takes in memory as a run of its own; see [`Run::bytes`].
    pub fn bytes_alone(message: &Message<'_>) -> usize {
        let stamp = if message.expires_ms.is_some() { STAMP_BYTES as usize } else { 0 };
        stamp + message.properties.len() + message.body.len() + size_of::<Run>()
    }

    /// Bytes of messages `from..to`, properties and bodies.
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
            body: self.data.get(middle..end)?,
            flags: entry.flags,
            expires_ms,
        })
    }

    /// Its messages in order.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        (0..self.len()).filter_map(|index| self.message(index))
    }

    /// Properties and bodies of all its messages, as they lie in memory.
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

    /// Numbers the run; done once, by its home shard, before it is shared.
    pub fn number(&mut self, home: ShardId, first: u64) {
        self.origin = self.origin.with_home(home);
        self.first = first;
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

/// An expiry date before the properties.
const STAMP_BYTES: u32 = 8;

/// What lies before the properties of a message alone in its run.
fn stamp_bytes(flags: Flags) -> u32 {
    if flags.contains(Flags::EXPIRES) { STAMP_BYTES } else { 0 }
}

/// Collects the messages of a run.
#[derive(Debug)]
pub struct RunBuilder {
    destination: Destination,
    published: Time,
    data: Vec<u8>,
    entries: Vec<Entry>,
    /// Where the message being built begins.
    start: usize,
}

impl RunBuilder {
    /// Begins a run.
    pub fn new(destination: Destination, published: Time) -> RunBuilder {
        RunBuilder { destination, published, data: Vec::new(), entries: Vec::new(), start: 0 }
    }

    /// Where it goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Whether another message still fits.
    pub fn has_room(&self) -> bool {
        self.data.len() < RUN_BYTES_TARGET && self.entries.len() < RUN_MESSAGES_MAX
    }

    /// Whether it holds no finished message.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Begins a message, forgetting one begun but not finished; properties are appended here, in
    /// the form of [`properties`]. What is already in the buffer must stay.
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
    fn end_with(&mut self, start: usize, properties: usize, flags: Flags) {
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
            data: self.data.into(),
            entries: Entries::of(self.entries),
        }
    }
}

/// Bytes that a run of one message may leave unused.
const SPARE_BYTES_MAX: usize = 64;
/// The part of a large body, as a divisor, that its buffer may leave unused beside: no more than an allocator
/// loses by rounding.
const SPARE_PART: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn a_body_that_is_taken_over_gives_the_same_run() {
        let destination = || Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
        let long = "k:v\\n".repeat(200);
        for properties in ["", "k:v\n", "k:\\c\n", &long] {
            for (flags, expires_ms) in
                [(Flags::RETAIN, None), (Flags::from_bits(u16::MAX), None), (Flags::NONE, Some(7))]
            {
                for (length, spare) in [(0, 0), (11, 0), (11, 2_000), (70, 58), (100_000, 10_000)] {
                    let meta = Meta { flags, expires_ms };
                    let mut body = Vec::with_capacity(length + spare);
                    body.resize(length, b'x');
                    let buffer = body.as_ptr();
                    let properties = properties.as_bytes();
                    let copied = Run::single(destination(), Time::ZERO, properties, &body, meta);
                    let taken =
                        Run::single_owned(destination(), Time::ZERO, properties, body, meta);
                    assert_eq!(format!("{taken:?}"), format!("{copied:?}"));
                    if length == 100_000 && expires_ms.is_none() {
                        assert_eq!(taken.data.as_ptr(), buffer, "nothing is copied");
                    }
                    if spare == 2_000 {
                        assert_ne!(
                            taken.data.as_ptr(),
                            buffer,
                            "nothing is kept that is not counted"
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn gives_back_what_was_put_in(
            rows in proptest::collection::vec(
                (".{0,20}", proptest::collection::vec(any::<u8>(), 0..50), any::<Option<u64>>(), any::<bool>()), 1..20),
            marks in 0u16..64,
            before in 0u64..7_000,
        ) {
            let destination = Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
            let mut builder = RunBuilder::new(destination, Time::ZERO);
            for (text, body, expires_ms, abandoned) in &rows {
                if *abandoned {
                    builder.properties().extend_from_slice(b"never finished");
                }
                properties::append(builder.properties(), "k", text);
                builder.finish(body, Meta { flags: Flags::RETAIN | Flags::from_bits(marks), expires_ms: *expires_ms });
            }
            let mut run = builder.build();
            run.number(ShardId(3), 100);
            run.set_version(7_000);
            prop_assert_eq!(run.follows(), None);
            run.set_follows(before);
            prop_assert_eq!(run.follows(), Some(before).filter(|before| *before < 6_999));
            prop_assert_eq!(run.home(), ShardId(3));
            let mut copy = Run::single(run.destination().clone(), Time::ZERO, b"", b"x", Meta::default());
            copy.number_as(&run, 0);
            prop_assert_eq!((copy.first(), copy.version(), copy.follows()), (100, 7_000, run.follows()));
            prop_assert!(!copy.is_value(0));
            run.set_values();
            copy.number_as(&run, 3);
            prop_assert_eq!((copy.first(), copy.version(), copy.follows()), (103, 7_003, None));
            prop_assert!(copy.is_value(0));
            run.share_path(&Path::parse("a").unwrap());
            prop_assert_eq!(run.len(), rows.len());
            for (index, (message, row)) in run.messages().zip(&rows).enumerate() {
                let found = properties::find(message.properties, "k");
                prop_assert_eq!(found.as_deref(), Some(&*row.0));
                prop_assert_eq!(message.body, &row.1[..]);
                prop_assert_eq!(message.expires_ms, row.2);
                prop_assert_eq!(message.sequence, 100 + index as u64);
                prop_assert!(message.flags.contains(Flags::RETAIN));
            }
            let total: usize = (0..rows.len()).map(|at| run.bytes_of(at, at + 1)).sum();
            prop_assert!(total <= run.bytes());
            prop_assert_eq!(run.bytes_of(0, rows.len()), total);
            let run = std::sync::Arc::new(run);
            let shared = crate::SharedRun::new(run.clone());
            for (index, row) in rows.iter().enumerate() {
                let body = shared.body_bytes(index).unwrap();
                prop_assert_eq!(&body[..], &row.1[..]);
                let own = run.message(index).unwrap().body;
                prop_assert!(own.is_empty() || own.as_ptr() == body.as_ptr(), "nothing is copied");
            }
            prop_assert_eq!(shared.body_bytes(rows.len()), None);
        }
    }
}
