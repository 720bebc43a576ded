//! Streams, and messages of one of them as a record has them.
//!
//! Relies on nothing. Below the kinds of records, which have both.

/// A stream in the log. Not given to another while the log knows anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl StreamId {
    const VOLATILE: u64 = 1 << 63;

    /// A stream whose messages need not survive: they are in the log to be read back while it is open. Needs no
    /// declaration. `number` is that of no other volatile stream; bit 63 of it does not count.
    pub fn volatile(number: u64) -> StreamId {
        StreamId(number | StreamId::VOLATILE)
    }

    /// Whether the next opening knows nothing of the stream.
    pub fn is_volatile(self) -> bool {
        self.0 & StreamId::VOLATILE != 0
    }
}

/// Consecutive messages of a stream in one encoded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put<'a> {
    /// Whose messages.
    pub stream: StreamId,
    /// The number of the first; a record with the same number takes this one's place.
    pub sequence: u64,
    /// How many messages; at least 1.
    pub count: u32,
    /// The version of the last.
    pub version: u64,
    /// Messages of the stream below this number are not needed once this record is in the log.
    /// 0 keeps all; [`Put::sequence`] keeps none.
    pub keep_from: u64,
    /// The messages, encoded.
    pub bytes: &'a [u8],
    /// Of a single message, its body, if that lies in a file.
    pub body: Option<Body>,
}

/// The body of a message that lies in a file beside the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// The file's number, also in its name.
    pub file: u64,
    /// Where in the file the body begins.
    pub offset: u64,
    /// Bytes of the body.
    pub length: u64,
    /// The CRC-32C of these bytes.
    pub checksum: u32,
}

impl Put<'_> {
    /// The number of the last message.
    pub fn last(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.count).saturating_sub(1))
    }
}
