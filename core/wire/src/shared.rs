//! A run on its way to the subscribers of one shard, with the wire encodings already made of it.

use std::cell::{OnceCell, RefCell};
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

/// A run and its encodings; lives on one shard and is shared there by reference.
#[derive(Debug)]
pub struct SharedRun {
    run: Arc<Run>,
    previous: Option<Arc<Run>>,
    encodings: RefCell<Vec<Encoding>>,
    /// The run's memory as something to be sent in pieces, once somebody has asked for it.
    data: OnceCell<Bytes>,
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
        SharedRun { run, previous, encodings: RefCell::new(Vec::new()), data: OnceCell::new() }
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
        let data = self.data.get_or_init(|| Bytes::from_owner(Data(self.run.clone())));
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
        if let Some(known) =
            encodings.iter().find(|known| known.form == key.form && *known.variant == *key.variant)
        {
            return Some(known.block.clone());
        }
        if encodings.len() == ENCODINGS_PER_RUN_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(room);
        encode(&mut bytes);
        let block = Bytes::from(bytes);
        if encodings.is_empty() {
            // Mostly there is no other.
            encodings.reserve_exact(1);
        }
        encodings.push(Encoding {
            form: key.form,
            variant: key.variant.into(),
            block: block.clone(),
        });
        Some(block)
    }
}
