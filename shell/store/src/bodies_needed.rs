//! Which records have bodies in files beside the log, and how often each file is needed.
//!
//! A part of the index. Invariants: a file is needed as long as a record names it; one that no record names any more is
//! given once to who removes it.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::record::{Body, StreamId};

/// Bodies that lie in files.
#[derive(Debug, Default)]
pub(crate) struct BodiesNeeded {
    of_records: HashMap<(StreamId, u64), Body, RandomState>,
    files: HashMap<u64, File, RandomState>,
    /// Bytes of all files.
    bytes: u64,
    unneeded: Vec<u64>,
}

/// What is known of a file.
#[derive(Debug, Default)]
struct File {
    records: u64,
    /// Where the last of its bodies ends.
    bytes: u64,
}

impl BodiesNeeded {
    /// The body of the record with that number.
    pub(crate) fn get(&self, stream: StreamId, sequence: u64) -> Option<Body> {
        self.of_records.get(&(stream, sequence)).copied()
    }

    /// A record with that number is there, with its body if that lies in a file; or is gone.
    pub(crate) fn put(&mut self, stream: StreamId, sequence: u64, body: Option<Body>) {
        // The usual case by far.
        if body.is_none() && self.of_records.is_empty() {
            return;
        }
        let old = match body {
            Some(body) => {
                let file = self.files.entry(body.file).or_default();
                file.records += 1;
                let end = file.bytes.max(body.offset.saturating_add(body.length));
                self.bytes = self.bytes.saturating_add(end - file.bytes);
                file.bytes = end;
                self.of_records.insert((stream, sequence), body)
            }
            None => self.of_records.remove(&(stream, sequence)),
        };
        let Some(Body { file: number, .. }) = old else { return };
        let Some(file) = self.files.get_mut(&number) else { return };
        file.records -= 1;
        if file.records == 0 {
            self.bytes = self.bytes.saturating_sub(file.bytes);
            self.files.remove(&number);
            self.unneeded.push(number);
        }
    }

    /// Whether some record names a file.
    pub(crate) fn needs(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    /// Bytes of all files that are needed, each once.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many files are needed.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// The files that are needed, and their bytes, in no order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.iter().map(|(number, file)| (*number, file.bytes))
    }

    /// The records with bodies, in no order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (StreamId, u64, Body)> {
        self.of_records.iter().map(|((stream, sequence), body)| (*stream, *sequence, *body))
    }

    /// Files that no record has named any more since this was asked last; one may be named again since.
    pub(crate) fn take_unneeded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unneeded)
    }
}
