//! A run on its way to the subscribers of one shard, with the wire encodings already made of it.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::limits::ENCODINGS_PER_RUN_MAX;
use tiderace_base::{CountedBlock, Memory, MemoryUse, prefetch};

use crate::{Message, OutQueue, Root, Run};

/// Names one wire form of a run: subscribers whose keys are equal get the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingKey<'a> {
    /// Protocol, version and framing; protocols take distinct values ([`EncodingKey::form`]).
    pub form: u32,
    /// What else goes into the bytes, such as the subscription's id.
    pub variant: &'a [u8],
}

impl EncodingKey<'_> {
    /// Packs a form from a protocol's letter, its version and a framing's id.
    pub const fn form(protocol: u8, version: u8, framing: u8) -> u32 {
        (protocol as u32) << 16 | (version as u32) << 8 | framing as u32
    }
}

/// One wire form of a run, and those made after it: mostly none. Takes one line of a cache too.
#[derive(Debug)]
struct Encoding {
    form: u32,
    variant: Box<[u8]>,
    block: Bytes,
    next: Option<Box<Encoding>>,
}

const _: () = assert!(size_of::<Encoding>() <= 64, "one cache line");

impl Encoding {
    fn is(&self, key: EncodingKey<'_>) -> bool {
        // Asked about before it is compared: an empty variant has no address, and where the library's
        // vectorised comparison reads nothing from nowhere, processors take a long detour.
        let nothing = self.variant.is_empty() && key.variant.is_empty();
        self.form == key.form && (nothing || *self.variant == *key.variant)
    }
}

/// A run and its encodings; lives on one shard and is shared there by reference.
///
/// Every delivery looks at it anew, long after it was made; so it takes one line of a cache, and what
/// few runs have stands elsewhere.
#[derive(Debug)]
pub struct SharedRun {
    run: Arc<Run>,
    previous: Option<Arc<Run>>,
    encodings: RefCell<Option<Box<Encoding>>>,
    rare: OnceCell<Box<Rare>>,
    /// Where the run and its encodings count, if they do.
    memory: Option<Rc<Memory>>,
}

impl Drop for SharedRun {
    fn drop(&mut self) {
        let Some(memory) = &self.memory else { return };
        let is_renamed = self.rare.get().is_some_and(|rare| rare.is_renamed);
        let mut bytes = if is_renamed { self.run.bytes_beside() } else { self.run.bytes() };
        let mut next = self.encodings.get_mut().as_deref();
        while let Some(encoding) = next {
            bytes +=
                if encoding.block.len() < COUNTED_BLOCK_BYTES { encoding.block.len() } else { 0 };
            next = encoding.next.as_deref();
        }
        memory.refund(MemoryUse::Backlogs, bytes);
    }
}

/// Blocks of this size count by themselves: a socket may take long to take them, longer than the run
/// lives that they were made of.
const COUNTED_BLOCK_BYTES: usize = 128 * 1024;

const _: () = assert!(size_of::<SharedRun>() <= 64 - 2 * size_of::<usize>(), "one cache line");

/// What few runs have.
#[derive(Debug, Default)]
struct Rare {
    /// The run's memory as something to be sent in pieces, once somebody has asked for it.
    data: OnceCell<Bytes>,
    /// The number of the oldest message in it, if its value was put together of several.
    merged_from: Option<u64>,
    /// What was merged into messages of it last.
    merge: RefCell<Option<Merge>>,
    /// The same under the name by which sessions of a virtual host know its destination.
    renamed: OnceCell<Option<Rc<SharedRun>>>,
    /// Whether it is such a one, whose messages count elsewhere.
    is_renamed: bool,
}

/// Messages that were merged, and what they gave.
#[derive(Debug)]
struct Merge {
    /// The run of the older ones. Weak: it may long be gone when this run still waits.
    older: Weak<SharedRun>,
    parts: MergedParts,
    result: Option<Rc<SharedRun>>,
}

/// Which messages of an older run and of a newer one are merged: the first and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedParts {
    /// Of the older one.
    pub older: (u32, u32),
    /// Of the newer one.
    pub newer: (u32, u32),
}

/// Keeps a run as long as a piece of its memory is to be sent.
struct Data(Arc<Run>);

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self.0.data()
    }
}

impl SharedRun {
    /// Wraps a run.
    pub fn new(run: Arc<Run>) -> SharedRun {
        SharedRun::after(run, None)
    }

    /// Wraps a run of a topic together with the one before it.
    pub fn after(run: Arc<Run>, previous: Option<Arc<Run>>) -> SharedRun {
        let previous =
            previous.filter(|previous| previous.version() + previous.len() as u64 == run.version());
        let (encodings, rare) = (RefCell::new(None), OnceCell::new());
        SharedRun { run, previous, encodings, rare, memory: None }
    }

    /// Wraps a run of one message whose value was put together of several; `from` is the number of the
    /// oldest.
    pub fn merged(run: Arc<Run>, from: u64) -> SharedRun {
        let rare = Box::new(Rare { merged_from: Some(from), ..Rare::default() });
        let encodings = RefCell::new(None);
        SharedRun { run, previous: None, encodings, rare: OnceCell::from(rare), memory: None }
    }

    /// The run and its encodings count in that budget for as long as this lives.
    #[must_use]
    pub fn counted(mut self, memory: &Rc<Memory>) -> SharedRun {
        debug_assert!(self.memory.is_none() && self.encodings.get_mut().is_none(), "counts once");
        memory.charge(MemoryUse::Backlogs, self.run.bytes());
        self.memory = Some(memory.clone());
        self
    }

    /// Whether its value was put together of several. Then it is nothing that the next value of the
    /// topic could be a difference to, although it has the number of a version.
    pub fn is_merged(&self) -> bool {
        self.merged_from().is_some()
    }

    /// The number of the oldest message in its value, if that was put together of several.
    pub fn merged_from(&self) -> Option<u64> {
        self.rare.get()?.merged_from
    }

    /// What messages of an older run and of this one give together, made now unless it was what was
    /// asked for last: sessions that fell behind together share it, and its encodings.
    pub fn merged_with(
        &self,
        older: &Rc<SharedRun>,
        parts: MergedParts,
        make: impl FnOnce() -> Option<SharedRun>,
    ) -> Option<Rc<SharedRun>> {
        let weak = Rc::downgrade(older);
        let mut last = self.rare.get_or_init(Box::default).merge.borrow_mut();
        if let Some(known) = last.as_ref()
            && known.parts == parts
            && known.older.ptr_eq(&weak)
        {
            return known.result.clone();
        }
        let counted = |made: SharedRun| match &self.memory {
            Some(memory) => made.counted(memory),
            None => made,
        };
        let result = make().map(counted).map(Rc::new);
        *last = Some(Merge { older: weak, parts, result: result.clone() });
        result
    }

    /// The same under the name by which a session of a virtual host knows its destination, with encodings of its
    /// own; absent if it has no other name. Made once: a destination belongs to one host.
    pub fn renamed(&self, root: &Root) -> Option<Rc<SharedRun>> {
        if !root.holds(&self.run.destination().path) {
            return None;
        }
        let rare = self.rare.get_or_init(Box::default);
        let made = rare.renamed.get_or_init(|| {
            let path = root.without(&self.run.destination().path)?;
            let run = Arc::new(self.run.renamed(path, Bytes::from_owner(Data(self.run.clone()))));
            if let Some(memory) = &self.memory {
                memory.charge(MemoryUse::Backlogs, run.bytes_beside());
            }
            let rare = Rare { merged_from: rare.merged_from, is_renamed: true, ..Rare::default() };
            Some(Rc::new(SharedRun {
                run,
                previous: self.previous.clone(),
                encodings: RefCell::new(None),
                rare: OnceCell::from(Box::new(rare)),
                memory: self.memory.clone(),
            }))
        });
        made.clone()
    }

    /// The message of its topic just before the run's first, if it is known: what the first is a
    /// change of. It is known only where some subscription wants deltas.
    pub fn previous(&self) -> Option<Message<'_>> {
        let previous = self.previous.as_ref()?;
        previous.message(previous.len().checked_sub(1)?)
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The run, to be kept.
    pub fn run_arc(&self) -> &Arc<Run> {
        &self.run
    }

    /// The body of the message at that place, sharing the run's memory: for bodies too large to be
    /// copied.
    pub fn body_bytes(&self, index: usize) -> Option<Bytes> {
        if let Some(body) = self.run.body_in_file() {
            return (index == 0).then(|| body.clone());
        }
        let body = self.run.message(index)?.body;
        let data = &self.rare.get_or_init(Box::default).data;
        let data = data.get_or_init(|| match &self.memory {
            Some(memory) if self.run.data().len() >= COUNTED_BLOCK_BYTES => {
                Bytes::from_owner(CountedBlock::new(Data(self.run.clone()), memory))
            }
            _ => Bytes::from_owner(Data(self.run.clone())),
        });
        Some(data.slice_ref(body))
    }

    /// Asks memory for what says where the bytes are of which [`SharedRun::expect_bytes`] speaks.
    pub fn expect(&self) {
        prefetch(&*self.run);
        if let Ok(encodings) = self.encodings.try_borrow()
            && let Some(first) = encodings.as_deref()
        {
            prefetch(first);
        }
    }

    /// Asks memory for the bytes that will soon be written for somebody: those of the wire form made
    /// first, or of a message if there is none yet.
    pub fn expect_bytes(&self, index: usize) {
        if let Ok(encodings) = self.encodings.try_borrow()
            && let Some(first) = encodings.as_deref()
        {
            prefetch(&*first.block);
        } else if let Some(message) = self.run.message(index) {
            prefetch(message.properties);
            prefetch(message.body);
        }
    }

    /// Appends the whole run in one wire form to what is to be written, encoded now if it is asked for
    /// the first time. False when too many forms are kept already: then the caller encodes for itself
    /// alone.
    pub fn write_encoded(
        &self,
        key: EncodingKey<'_>,
        queue: &mut OutQueue,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.with_encoded(key, self.usual_room(), encode, |block| queue.share_of(block)).is_some()
    }

    /// The same as something to keep.
    pub fn encoded(
        &self,
        key: EncodingKey<'_>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Bytes> {
        self.with_encoded(key, self.usual_room(), encode, Bytes::clone)
    }

    /// The same for a form that takes about `room` bytes.
    pub fn encoded_within(
        &self,
        key: EncodingKey<'_>,
        room: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Bytes> {
        self.with_encoded(key, room, encode, Bytes::clone)
    }

    fn usual_room(&self) -> usize {
        self.run.bytes() + self.run.len() * 96
    }

    fn with_encoded<T>(
        &self,
        key: EncodingKey<'_>,
        room: usize,
        encode: impl FnOnce(&mut Vec<u8>),
        take: impl FnOnce(&Bytes) -> T,
    ) -> Option<T> {
        let mut encodings = self.encodings.borrow_mut();
        let (mut place, mut forms) = (&mut *encodings, 0);
        while let Some(known) = place {
            if known.is(key) {
                return Some(take(&known.block));
            }
            forms += 1;
            place = &mut known.next;
        }
        if forms == ENCODINGS_PER_RUN_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(room);
        encode(&mut bytes);
        // Without room to spare, the block needs no record beside it until somebody keeps it as well.
        let block = match &self.memory {
            Some(memory) if bytes.len() >= COUNTED_BLOCK_BYTES => {
                bytes.shrink_to_fit();
                Bytes::from_owner(CountedBlock::new(bytes, memory))
            }
            memory => {
                if let Some(memory) = memory {
                    memory.charge(MemoryUse::Backlogs, bytes.len());
                }
                Bytes::from(bytes.into_boxed_slice())
            }
        };
        let taken = take(&block);
        let variant = key.variant.into();
        *place = Some(Box::new(Encoding { form: key.form, variant, block, next: None }));
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tiderace_base::Time;
    use tiderace_base::limits::COPY_BYTES_MAX;
    use tiderace_topics::Path;

    use super::*;
    use crate::{Destination, Kind, Meta, RunBuilder};

    fn shared() -> SharedRun {
        let path = Path::parse("fx/a").unwrap();
        let destination = Destination { kind: Kind::Topic, path };
        let mut builder = RunBuilder::new(destination, Time::default());
        builder.finish(b"body", Meta::default());
        SharedRun::new(Arc::new(builder.build()))
    }

    fn key(variant: &[u8]) -> EncodingKey<'_> {
        EncodingKey { form: EncodingKey::form(b'T', 0, 0), variant }
    }

    #[test]
    fn a_wire_form_is_made_once_and_written_for_all_who_want_it() {
        let shared = shared();
        for bytes in [1, COPY_BYTES_MAX - 1, COPY_BYTES_MAX] {
            let variant = bytes.to_string();
            let mut made = 0;
            for _ in 0..3 {
                let mut queue = OutQueue::new();
                queue.tail().extend_from_slice(b"before ");
                let write = |out: &mut Vec<u8>| {
                    made += 1;
                    out.resize(bytes, b'x');
                };
                assert!(shared.write_encoded(key(variant.as_bytes()), &mut queue, write));
                queue.tail().push(b'!');
                let expected = [b"before ", &*vec![b'x'; bytes], b"!"].concat();
                assert!(queue.take_bytes() == expected, "{bytes}");
                shared.expect();
                shared.expect_bytes(0);
            }
            assert_eq!(made, 1, "{bytes}");
        }
    }

    #[test]
    fn a_run_of_a_host_has_a_name_and_encodings_of_its_own_there_and_counts_once() {
        let memory = Rc::new(Memory::new(1 << 20));
        let path = Path::parse("@shop/fx/a").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::default());
        builder.properties().extend_from_slice(b"k:v\n");
        builder.finish(&[b'x'; 5000], Meta::default());
        let mut run = builder.build();
        run.number(tiderace_base::ShardId(3), 7);
        run.set_version(5);
        let shared = Rc::new(SharedRun::new(Arc::new(run)).counted(&memory));
        let used = memory.used();
        assert!(shared.renamed(&Root::of("bank")).is_none());
        let renamed = shared.renamed(&Root::of("shop")).unwrap();
        assert_eq!(renamed.run().destination().path.as_str(), "fx/a");
        assert_eq!(shared.run().destination().path.as_str(), "@shop/fx/a");
        let of = |shared: &SharedRun| {
            let run = shared.run();
            let message = run.message(0).unwrap();
            let texts = (message.properties.to_vec(), message.body.to_vec());
            (run.home(), run.first(), run.version(), run.bytes_of(0, 1), texts)
        };
        assert_eq!(of(&renamed), of(&shared));
        assert!(Rc::ptr_eq(&renamed, &shared.renamed(&Root::of("shop")).unwrap()));
        assert!(memory.used() - used < 1000, "its bytes are there once");
        let name = |shared: &SharedRun| {
            let text = shared.run().destination().path.as_str().to_owned();
            shared.encoded(key(b""), |out| out.extend_from_slice(text.as_bytes())).unwrap()
        };
        assert_eq!((name(&shared), name(&renamed)), ("@shop/fx/a".into(), "fx/a".into()));
        drop((shared, renamed));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn beyond_the_limit_of_forms_everybody_encodes_for_himself() {
        let shared = shared();
        let mut queue = OutQueue::new();
        for form in 0..ENCODINGS_PER_RUN_MAX {
            let write = |out: &mut Vec<u8>| out.push(b'y');
            assert!(shared.write_encoded(key(&[form as u8]), &mut queue, write));
        }
        let one_more = key(&[ENCODINGS_PER_RUN_MAX as u8]);
        assert!(!shared.write_encoded(one_more, &mut queue, |_| panic!("it would not be kept")));
        assert_eq!(queue.take_bytes(), vec![b'y'; ENCODINGS_PER_RUN_MAX]);
    }

    #[test]
    fn a_run_and_its_wire_forms_count_once_and_as_long_as_they_live() {
        let memory = Rc::new(Memory::new(1 << 20));
        let shared = Rc::new(shared().counted(&memory));
        let run = shared.run().bytes();
        let (first, second) = (shared.clone(), shared.clone());
        assert_eq!(memory.used_for(MemoryUse::Backlogs), run);
        let small = |form: &SharedRun| form.encoded(key(b"s"), |out| out.resize(1000, b'x'));
        let large =
            |form: &SharedRun| form.encoded(key(b"l"), |out| out.resize(COUNTED_BLOCK_BYTES, b'x'));
        for of in [&first, &second] {
            let _ = (small(of), large(of));
            assert_eq!(memory.used(), run + 1000 + COUNTED_BLOCK_BYTES);
        }
        let on_its_way = large(&first).unwrap();
        drop((shared, first, second));
        assert_eq!(memory.used(), COUNTED_BLOCK_BYTES, "a socket has not taken it yet");
        drop(on_its_way);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn an_encoding_may_be_expected_while_it_is_made() {
        let shared = shared();
        let block = shared.encoded(key(b""), |out| {
            shared.expect();
            shared.expect_bytes(0);
            out.push(b'z');
        });
        assert_eq!(block.unwrap(), "z");
    }
}
