//! In which order records may stand in the portable form: values, then each stream with its messages.
//!
//! A file comes from anywhere, so nothing is taken from it that no export writes: what is checked here need not be
//! checked by a server that reads the store. Relies on `record`. Invariant: only a `Put` is joined with the record behind it,
//! which is the `Settle` of what is gone of it, so what waits to be committed is bounded.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::HashMap;

use crate::portable::BODY_PART_BYTES_MAX;
use crate::record::{Body, Put, Record, StreamId};

/// Streams have lower numbers. The store gives out one after another, so it does not come near.
const STREAMS_END: u64 = 1 << 62;

/// What has been read so far, as far as it matters for what may come.
#[derive(Debug, Default)]
pub(crate) struct Order {
    name: Option<Box<str>>,
    stream: Option<Known>,
    /// First and last message of the record that a `Settle` must follow.
    joined: Option<(u64, u64)>,
    /// Bodies that lie in files, by their numbers here, which rise from 1.
    bodies: HashMap<u64, Body>,
    /// Bytes of the body of the record before that are yet to come.
    body_left: u64,
}

/// The stream that was declared last.
#[derive(Clone, Copy, Debug)]
struct Known {
    stream: StreamId,
    /// The highest number that a message of it may have.
    mark: u64,
    /// The number of its last message so far.
    last: Option<u64>,
}

impl Order {
    /// Takes the next record, and whether it is joined with the one behind it. Says how many messages are gone with it.
    ///
    /// # Errors
    /// What is wrong with the record, if no export writes it there.
    pub(crate) fn check(&mut self, record: &Record<'_>, more: bool) -> Result<u64, &'static str> {
        if let Some((first, last)) = self.joined.take() {
            return match record {
                Record::Settle { stream, ranges }
                    if !more && self.stream.is_some_and(|known| known.stream == *stream) =>
                {
                    gone(ranges.iter(), first, last)
                }
                _ => Err("what is gone of the messages before should be here"),
            };
        }
        if self.body_left > 0 {
            return match record {
                Record::BodyPart { bytes } if !more => self.body_part(bytes).map(|()| 0),
                _ => Err("a part of the body of the message before should be here"),
            };
        }
        if more && !matches!(record, Record::Put(_)) {
            return Err("it is joined with the next record");
        }
        match record {
            Record::Set { .. } if self.stream.is_some() => Err("a value behind a stream"),
            Record::Set { name, .. } => {
                if self.name.as_deref().is_some_and(|before| before >= *name) {
                    return Err("a value whose name does not come behind that of the one before");
                }
                self.name = Some((*name).into());
                Ok(0)
            }
            Record::Declare(declaration) => {
                let (stream, mark) = (declaration.stream, declaration.mark.sequence);
                let before = self.stream.map_or(0, |known| known.stream.0);
                if stream.0 <= before || stream.0 >= STREAMS_END {
                    return Err("the number of a stream does not rise, or is too high");
                }
                self.stream = Some(Known { stream, mark, last: None });
                Ok(0)
            }
            Record::Put(put) => self.put(put, more).map(|()| 0),
            _ => Err("it is of a kind that is not exported"),
        }
    }

    /// Takes the end.
    ///
    /// # Errors
    /// When there should be more.
    pub(crate) fn finish(&self) -> Result<(), &'static str> {
        match self.joined {
            None if self.body_left > 0 => Err("the rest of a body should be here"),
            None => Ok(()),
            Some(_) => Err("what is gone of the messages before should be here"),
        }
    }

    fn body_part(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let left = self.body_left.checked_sub(bytes.len() as u64);
        let is_part = (1..=BODY_PART_BYTES_MAX).contains(&bytes.len());
        self.body_left = left.filter(|_| is_part).ok_or("a part of a body of a wrong length")?;
        Ok(())
    }

    /// Whether all of the body of the record before has come.
    pub(crate) fn is_body_whole(&self) -> bool {
        self.body_left == 0
    }

    fn put(&mut self, put: &Put<'_>, more: bool) -> Result<(), &'static str> {
        let known = self.stream.as_mut().filter(|known| known.stream == put.stream);
        let known = known.ok_or("messages of a stream that was not declared just before")?;
        let behind = u64::from(put.count).checked_sub(1);
        let last = behind.and_then(|behind| put.sequence.checked_add(behind));
        let last = last.filter(|last| *last <= known.mark);
        let last = last.ok_or("messages behind the last one of their stream")?;
        if known.last.is_some_and(|before| put.sequence <= before) {
            return Err("messages whose numbers do not rise");
        }
        if put.keep_from != 0 {
            return Err("messages that take others away");
        }
        if let Some(body) = put.body {
            if more {
                return Err("a message with a body in a file of which something is gone");
            }
            let next = self.bodies.len() as u64 + 1;
            let is_known = self.bodies.get(&body.file) == Some(&body);
            if !is_known && body.file != next || body.offset != 0 || body.length == 0 {
                return Err("a body that is neither the next one nor one from before");
            }
            if !is_known {
                self.bodies.insert(next, body);
                self.body_left = body.length;
            }
        }
        known.last = Some(last);
        self.joined = more.then_some((put.sequence, last));
        Ok(())
    }
}

/// How many messages ranges have, which must lie between two numbers, rising and apart, and leave something there.
fn gone(
    ranges: impl Iterator<Item = (u64, u64)>,
    first: u64,
    last: u64,
) -> Result<u64, &'static str> {
    let wrong = "what is gone are not messages of the record before, in their order";
    let (mut next, mut count) = (first, 0u64);
    for (from, to) in ranges {
        if from < next || from > to || to > last {
            return Err(wrong);
        }
        count += to - from + 1;
        next = to.saturating_add(2);
    }
    if count == 0 || count > last - first { Err(wrong) } else { Ok(count) }
}
