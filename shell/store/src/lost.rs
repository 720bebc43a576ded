//! What is lost with a record that cannot be read, for those who have to make up for it.
//!
//! Relies on `record`. Invariant: what is said for certain comes from bytes whose checksum fits.

use std::fmt;

use crate::record::{Record, StreamId};

/// Streams of a record that are named in a sentence.
const NAMED_MAX: usize = 4;

/// What a record of the log was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostRecord {
    /// Messages.
    Messages {
        /// Whose.
        stream: StreamId,
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// Messages that several streams have.
    Shared {
        /// Whose, and the number of the first there.
        owners: Box<[(StreamId, u64)]>,
        /// How many they are.
        count: u32,
    },
    /// What a stream is.
    Declaration {
        /// Which.
        stream: StreamId,
    },
    /// That messages of a stream were consumed or trimmed: they may come again.
    Settled {
        /// Whose.
        stream: StreamId,
    },
    /// The same of messages of several streams.
    SettledMany {
        /// Whose, rising.
        streams: Box<[StreamId]>,
    },
    /// That a stream is gone: it may be there again.
    Dropped {
        /// Which.
        stream: StreamId,
    },
    /// A named value, or that there is none.
    Value {
        /// Its name.
        name: Box<str>,
    },
    /// Something that the log says of itself.
    Own,
    /// The record itself says so, as far as it can be read.
    Perhaps(Box<LostRecord>),
}

impl LostRecord {
    /// What that record is.
    pub fn of(record: &Record<'_>) -> LostRecord {
        match record {
            Record::Put(put) => {
                let (stream, first, last) = (put.stream, put.sequence, put.last());
                LostRecord::Messages { stream, first, last }
            }
            Record::PutShared(shared) => {
                LostRecord::Shared { owners: shared.owners.iter().collect(), count: shared.count }
            }
            Record::Declare(declaration) => LostRecord::Declaration { stream: declaration.stream },
            Record::Trim { stream, .. } | Record::Settle { stream, .. } => {
                LostRecord::Settled { stream: *stream }
            }
            Record::SettleMany { stretches } => {
                let mut streams: Vec<_> = stretches.iter().map(|(stream, ..)| stream).collect();
                streams.sort_unstable();
                streams.dedup();
                LostRecord::SettledMany { streams: streams.into() }
            }
            Record::Drop { stream } => LostRecord::Dropped { stream: *stream },
            Record::Set { name, .. } | Record::Unset { name } => {
                LostRecord::Value { name: (*name).into() }
            }
            Record::Mark { .. }
            | Record::End { .. }
            | Record::Summary { .. }
            | Record::Removed { .. }
            | Record::BodyPart { .. } => LostRecord::Own,
        }
    }

    /// The streams that it concerns, rising.
    pub fn streams(&self) -> Vec<StreamId> {
        match self {
            LostRecord::Messages { stream, .. }
            | LostRecord::Declaration { stream }
            | LostRecord::Settled { stream }
            | LostRecord::Dropped { stream } => vec![*stream],
            LostRecord::Shared { owners, .. } => owners.iter().map(|(stream, _)| *stream).collect(),
            LostRecord::SettledMany { streams } => streams.to_vec(),
            LostRecord::Value { .. } | LostRecord::Own => Vec::new(),
            LostRecord::Perhaps(record) => record.streams(),
        }
    }
}

impl fmt::Display for LostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LostRecord::Messages { stream: StreamId(stream), first, last } if first == last => {
                write!(f, "message {first} of stream {stream}")
            }
            LostRecord::Messages { stream: StreamId(stream), first, last } => {
                write!(f, "messages {first} to {last} of stream {stream}")
            }
            LostRecord::Shared { owners, count } => {
                let streams = owners.len();
                write!(f, "{count} messages that {streams} streams have in common")?;
                for (at, (StreamId(stream), first)) in owners.iter().take(NAMED_MAX).enumerate() {
                    let before = if at == 0 { ": from" } else { "," };
                    write!(f, "{before} message {first} of stream {stream}")?;
                }
                match streams.saturating_sub(NAMED_MAX) {
                    0 => Ok(()),
                    more => write!(f, ", and of {more} more"),
                }
            }
            LostRecord::Declaration { stream } => {
                write!(f, "the declaration of stream {}", stream.0)
            }
            LostRecord::Settled { stream } => {
                write!(
                    f,
                    "that messages of stream {} were consumed, which may come again",
                    stream.0
                )
            }
            LostRecord::SettledMany { streams } => write!(
                f,
                "that messages of {} streams were consumed, which may come again",
                streams.len()
            ),
            LostRecord::Dropped { stream } => {
                write!(f, "that stream {} is gone, which may be there again", stream.0)
            }
            LostRecord::Value { name } => write!(f, "a change of the value {name:?}"),
            LostRecord::Own => f.write_str("nothing but a mark of the log itself"),
            LostRecord::Perhaps(record) => write!(f, "probably {record}"),
        }
    }
}
