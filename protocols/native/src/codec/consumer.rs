//! CONSUMER: what an edge says of its own consumers of queues, beside what every client may say.

use tiderace_wire::write_varint;

use super::{CodecError, Reader};

/// CONSUMER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerMessage {
    /// It may be given so many messages more.
    Grant {
        /// The subscription.
        subscription: u32,
        /// How many; not 0.
        messages: u64,
    },
    /// Messages were not handed to it, and it is to end behind this.
    Release {
        /// The subscription.
        subscription: u32,
        /// Who numbered them.
        home: u16,
        /// Stretches of numbers, both ends included.
        ranges: Vec<(u64, u64)>,
    },
    /// It was lost.
    Lost {
        /// The request.
        request: u32,
        /// The subscription.
        subscription: u32,
    },
}

impl ConsumerMessage {
    pub(super) fn read(from: &mut Reader<'_>) -> Result<ConsumerMessage, CodecError> {
        let (what, subscription) = (from.byte()?, from.number()?);
        Ok(match what {
            0 => match from.varint()? {
                0 => return Err(CodecError::OutOfRange),
                messages => ConsumerMessage::Grant { subscription, messages },
            },
            1 => {
                let (home, ranges) = (from.number()?, read_ranges(from)?);
                ConsumerMessage::Release { subscription, home, ranges }
            }
            2 => ConsumerMessage::Lost { subscription, request: from.number()? },
            _ => return Err(CodecError::UnknownValue),
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut begin = |what, subscription: u32| {
            out.push(what);
            write_varint(out, u64::from(subscription));
        };
        match self {
            ConsumerMessage::Grant { subscription, messages } => {
                begin(0, *subscription);
                write_varint(out, *messages);
            }
            ConsumerMessage::Release { subscription, home, ranges } => {
                begin(1, *subscription);
                write_varint(out, u64::from(*home));
                write_ranges(ranges, out);
            }
            ConsumerMessage::Lost { subscription, request } => {
                begin(2, *subscription);
                write_varint(out, u64::from(*request));
            }
        }
    }
}

/// Stretches of numbers.
pub(super) fn read_ranges(from: &mut Reader<'_>) -> Result<Vec<(u64, u64)>, CodecError> {
    let mut ranges = Vec::new();
    for _ in 0..from.number::<usize>()? {
        let (first, more) = (from.varint()?, from.varint()?);
        ranges.push((first, first.checked_add(more).ok_or(CodecError::OutOfRange)?));
    }
    Ok(ranges)
}

pub(super) fn write_ranges(ranges: &[(u64, u64)], out: &mut Vec<u8>) {
    write_varint(out, ranges.len() as u64);
    for (first, last) in ranges {
        write_varint(out, *first);
        write_varint(out, last - first);
    }
}
