//! What is lost with a record that cannot be read, for those who have to make up for it.
//!
//! Relies on `record`. Invariant: what is said for certain comes from bytes whose checksum fits.

use std::fmt;

use crate::record::{Record, StreamId};

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
            Record::Declare(declaration) => LostRecord::Declaration { stream: declaration.stream },
            Record::Trim { stream, .. } | Record::Settle { stream, .. } => {
                LostRecord::Settled { stream: *stream }
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

    /// The stream that it concerns.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            LostRecord::Messages { stream, .. }
            | LostRecord::Declaration { stream }
            | LostRecord::Settled { stream }
            | LostRecord::Dropped { stream } => Some(*stream),
            LostRecord::Value { .. } | LostRecord::Own => None,
            LostRecord::Perhaps(record) => record.stream(),
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
            LostRecord::Dropped { stream } => {
                write!(f, "that stream {} is gone, which may be there again", stream.0)
            }
            LostRecord::Value { name } => write!(f, "a change of the value {name:?}"),
            LostRecord::Own => f.write_str("nothing but a mark of the log itself"),
            LostRecord::Perhaps(record) => write!(f, "probably {record}"),
        }
    }
}
