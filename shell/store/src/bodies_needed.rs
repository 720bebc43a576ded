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
    of_records: HashMap<(StreamId, u64), Named, RandomState>,
    files: HashMap<u64, File, RandomState>,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes of those that messages of queues need.
    queue_bytes: u64,
    unneeded: Vec<u64>,
}

/// What a record names.
#[derive(Clone, Copy, Debug)]
struct Named {
    body: Body,
    /// It is a message of a queue.
    is_queue: bool,
}

/// What is known of a file.
#[derive(Debug, Default)]
struct File {
    records: u64,
    /// Those of messages of queues.
    of_queues: u64,
    /// Where the last of its bodies ends.
    bytes: u64,
}

impl BodiesNeeded {
    /// The body of the record with that number.
    pub(crate) fn get(&self, stream: StreamId, sequence: u64) -> Option<Body> {
        self.of_records.get(&(stream, sequence)).map(|named| named.body)
    }

    /// A record with that number is there, of a queue or not, with its body if that lies in a file; or is gone.
    pub(crate) fn put(
        &mut self,
        (stream, is_queue): (StreamId, bool),
        sequence: u64,
        body: Option<Body>,
    ) {
        // The usual case by far.
        if body.is_none() && self.of_records.is_empty() {
            return;
        }
        let old = match body {
            Some(body) => {
                let file = self.files.entry(body.file).or_default();
                file.records += 1;
                let end = file.bytes.max(body.offset.saturating_add(body.length));
                let more = end - file.bytes;
                self.bytes = self.bytes.saturating_add(more);
                if file.of_queues > 0 {
                    self.queue_bytes = self.queue_bytes.saturating_add(more);
                }
                file.bytes = end;
                self.count_of_queue(body.file, is_queue, true);
                self.of_records.insert((stream, sequence), Named { body, is_queue })
            }
            None => self.of_records.remove(&(stream, sequence)),
        };
        let Some(Named { body: Body { file: number, .. }, is_queue }) = old else { return };
        self.count_of_queue(number, is_queue, false);
        let Some(file) = self.files.get_mut(&number) else { return };
        file.records -= 1;
        if file.records == 0 {
            self.bytes = self.bytes.saturating_sub(file.bytes);
            self.files.remove(&number);
            self.unneeded.push(number);
        }
    }

    /// A stream with records of these numbers has become a queue, or is none any more.
    pub(crate) fn set_queue(
        &mut self,
        stream: StreamId,
        sequences: impl Iterator<Item = u64>,
        is_queue: bool,
    ) {
        if self.of_records.is_empty() {
            return;
        }
        for sequence in sequences {
            let Some(named) = self.of_records.get_mut(&(stream, sequence)) else { continue };
            let (number, before) = (named.body.file, named.is_queue);
            named.is_queue = is_queue;
            self.count_of_queue(number, is_queue, true);
            self.count_of_queue(number, before, false);
        }
    }

    /// A file has one more or one less record of a queue, if it is of one.
    fn count_of_queue(&mut self, number: u64, is_queue: bool, is_more: bool) {
        let Some(file) = self.files.get_mut(&number).filter(|_| is_queue) else { return };
        match is_more {
            true => {
                file.of_queues += 1;
                if file.of_queues == 1 {
                    self.queue_bytes = self.queue_bytes.saturating_add(file.bytes);
                }
            }
            false => {
                file.of_queues -= 1;
                if file.of_queues == 0 {
                    self.queue_bytes = self.queue_bytes.saturating_sub(file.bytes);
                }
            }
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

    /// Bytes of those that messages of queues need, each once, also if others need it.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.queue_bytes
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
        self.of_records.iter().map(|((stream, sequence), it)| (*stream, *sequence, it.body))
    }

    /// Files that no record has named any more since this was asked last; one may be named again since.
    pub(crate) fn take_unneeded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unneeded)
    }
}
