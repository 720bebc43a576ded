//! Whether the streams of a batch are declared, looked at before it is written.
//!
//! Relies on `index`. A batch that declares a stream may have been refused for lack of room while later ones
//! were already on their way; messages of a stream that nobody can name would be lost at the next start, so
//! they are refused too. Invariant: no message gets into the log before its stream.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::batch::Batch;
use crate::frame::{FRAME_HEADER_BYTES, split};
use crate::index::Index;
use crate::record::{Record, StreamId};

/// The streams that are declared in the log or by batches that come before.
pub(crate) struct Declared<'a> {
    index: &'a Index,
    /// What the batches of this group change, and so far whether the stream is there.
    changes: HashMap<StreamId, bool, RandomState>,
}

impl<'a> Declared<'a> {
    pub(crate) fn new(index: &'a Index) -> Declared<'a> {
        Declared { index, changes: HashMap::default() }
    }

    /// Whether all messages of the batch belong to streams that are declared. If so, what it declares counts
    /// for the batches behind it.
    pub(crate) fn allows(&mut self, batch: &Batch) -> bool {
        let mut changes: Vec<(StreamId, bool)> = Vec::new();
        let mut frames = batch.frames();
        while let Some((frame, rest)) = split(frames) {
            frames = rest;
            match frame.get(FRAME_HEADER_BYTES..).and_then(Record::decode) {
                Some(Record::Declare(declaration)) => changes.push((declaration.stream, true)),
                Some(Record::Drop { stream }) => changes.push((stream, false)),
                // What does not survive needs no name.
                Some(Record::Put(put)) if put.stream.is_volatile() => {}
                Some(Record::Put(put)) if !self.is_declared(put.stream, &changes) => return false,
                Some(Record::PutShared(shared)) if !shared.is_volatile() => {
                    let mut owners = shared.owners.iter();
                    if !owners.all(|(stream, _)| self.is_declared(stream, &changes)) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        self.changes.extend(changes);
        true
    }

    fn is_declared(&self, id: StreamId, changes: &[(StreamId, bool)]) -> bool {
        // Newest first; most batches declare nothing, or what they put next.
        if let Some((_, is_there)) = changes.iter().rev().find(|(stream, _)| *stream == id) {
            return *is_there;
        }
        match self.changes.get(&id) {
            Some(is_there) => *is_there,
            None => self.index.stream(id).is_some_and(|stream| !stream.declaration.is_none()),
        }
    }
}
