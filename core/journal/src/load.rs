//! What is asked of the store while it is open, and what it answers.

use bytes::Bytes;

/// Messages of a stream that are to be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLoad {
    /// By this the answer is known.
    pub ticket: u64,
    /// Whose messages.
    pub stream: u64,
    /// A stream with other versions, if its messages are wanted too, each at its place among those of the first.
    pub beside: Option<u64>,
    /// The version of the first that is wanted.
    pub first: u64,
    /// The version of the last.
    pub last: u64,
    /// Bytes that the answer may have; it has one record at least, however large that is.
    pub bytes_max: usize,
}

/// What the store has answered to a [`StoreLoad`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreLoaded {
    /// The ticket of what was asked.
    pub ticket: u64,
    /// What is there, in the order of its versions; the first may begin before, and the last end behind what was asked for.
    pub records: Vec<LoadedRecord>,
    /// What should be there and cannot be read.
    pub damaged: Vec<DamagedRecord>,
    /// The first version that was not looked for, because the answer is as large as it may be.
    pub next: Option<u64>,
}

/// Consecutive messages, as they were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedRecord {
    /// The version of the first.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// Those that are not needed any more: first and last version of each stretch, rising and apart.
    pub gone: Vec<(u64, u64)>,
    /// The messages, in the form of the room that restores them.
    pub bytes: Vec<u8>,
    /// Of a single message, its body, if that lies in a file.
    pub body: Option<Bytes>,
}

/// Consecutive messages that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The version of the first.
    pub first: u64,
    /// How many there were.
    pub count: u32,
    /// As in [`LoadedRecord::gone`].
    pub gone: Vec<(u64, u64)>,
}
