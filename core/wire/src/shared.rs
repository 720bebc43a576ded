//! A run on its way to the subscribers of one shard, with the wire encodings already made of it.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::limits::ENCODINGS_PER_RUN_MAX;

use crate::{Message, Run};

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

#[derive(Debug)]
struct Encoding {
    form: u32,
    variant: Box<[u8]>,
    block: Bytes,
}

impl Encoding {
    fn is(&self, key: EncodingKey<'_>) -> bool {
        self.form == key.form && *self.variant == *key.variant
    }
}

/// The wire forms made of a run: mostly there is one.
#[derive(Debug)]
struct Encodings {
    first: Encoding,
    others: Vec<Encoding>,
}

/// A run and its encodings; lives on one shard and is shared there by reference.
///
/// Every delivery looks at it anew, long after it was made; so it takes one line of a cache, and what
/// few runs have stands elsewhere.
#[derive(Debug)]
pub struct SharedRun {
    run: Arc<Run>,
    previous: Option<Arc<Run>>,
    encodings: RefCell<Option<Box<Encodings>>>,
    rare: OnceCell<Box<Rare>>,
}

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
        SharedRun { run, previous, encodings: RefCell::new(None), rare: OnceCell::new() }
    }

    /// Wraps a run of one message whose value was put together of several; `from` is the number of the
    /// oldest.
    pub fn merged(run: Arc<Run>, from: u64) -> SharedRun {
        let rare = Box::new(Rare { merged_from: Some(from), ..Rare::default() });
        SharedRun { rare: OnceCell::from(rare), ..SharedRun::new(run) }
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
        let result = make().map(Rc::new);
        *last = Some(Merge { older: weak, parts, result: result.clone() });
        result
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
        let body = self.run.message(index)?.body;
        let data = &self.rare.get_or_init(Box::default).data;
        let data = data.get_or_init(|| Bytes::from_owner(Data(self.run.clone())));
        Some(data.slice_ref(body))
    }

    /// The whole run in one wire form, encoded now if it is asked for the first time. `None` when
    /// too many forms are kept already: then the caller encodes for itself alone.
    pub fn encoded(
        &self,
        key: EncodingKey<'_>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Bytes> {
        self.encoded_within(key, self.run.bytes() + self.run.len() * 96, encode)
    }

    /// The same for a form that takes about `room` bytes.
    pub fn encoded_within(
        &self,
        key: EncodingKey<'_>,
        room: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Bytes> {
        let mut encodings = self.encodings.borrow_mut();
        if let Some(known) = encodings.as_deref() {
            let found = [&known.first].into_iter().chain(&known.others).find(|one| one.is(key));
            if let Some(found) = found {
                return Some(found.block.clone());
            }
            if known.others.len() + 1 == ENCODINGS_PER_RUN_MAX {
                return None;
            }
        }
        let mut bytes = Vec::with_capacity(room);
        encode(&mut bytes);
        let block = Bytes::from(bytes);
        let made = Encoding { form: key.form, variant: key.variant.into(), block: block.clone() };
        match encodings.as_deref_mut() {
            Some(known) => known.others.push(made),
            None => *encodings = Some(Box::new(Encodings { first: made, others: Vec::new() })),
        }
        Some(block)
    }
}
