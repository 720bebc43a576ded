//! The native protocol as a client sees it that holds values: with the current value first, and with
//! deltas if it is to have them.
//!
//! The time of an update is looked up in what was published by topic and version. Most clients skip over data;
//! witnesses keep every value, apply every delta and compare with what was published. Invariant: every
//! version of every topic is looked at, so nothing is left out unnoticed, and a delta to anything but
//! the version before ends the client.

use std::io;
use std::sync::Arc;

use crate::clients::counters::{Counters, broken};
use crate::clients::delta;
use crate::clients::native::{ANNOUNCED, CODEC, Cursor, DELTA, Heard, UPDATES};
use crate::clients::publications::Publications;

/// What clients of values are to be.
#[derive(Debug, Clone)]
pub struct ValuesSpec {
    /// What has been published. The topics are numbers behind the last slash of their path, and each
    /// was published once when the client subscribed.
    pub publications: Arc<Publications>,
    /// The codec of the deltas they ask for, if they do.
    pub codec: Option<u8>,
}

/// What a client has read so far.
#[derive(Debug)]
pub struct Reader {
    spec: ValuesSpec,
    /// Bytes of the UPDATES message being read that are still to come.
    message_left: usize,
    /// Bytes of the data being skipped.
    data_left: usize,
    topics: Box<[Topic]>,
    /// The values, if it is a witness.
    values: Option<Box<[Vec<u8>]>>,
    spare: Vec<u8>,
    /// What else the server has said.
    pub heard: Heard,
}

/// One subscription.
#[derive(Debug, Clone, Copy)]
struct Topic {
    number: u32,
    /// The lowest bits of the version that publication 0 made.
    first: u16,
    /// The lowest bits of the last version.
    last: u16,
    is_known: bool,
}

impl Reader {
    /// A reader that subscribes to these paths. Only deltas of our own codec can be witnessed.
    pub fn new(spec: &ValuesSpec, paths: &[String], is_witness: bool) -> Reader {
        let number = |path: &String| {
            let digits = path.rsplit('/').next().unwrap_or_default();
            digits.parse().unwrap_or(u32::MAX)
        };
        let is_witness = is_witness && is_known(spec.codec);
        let topic = |path| Topic { number: number(path), first: 0, last: 0, is_known: false };
        Reader {
            spec: spec.clone(),
            message_left: 0,
            data_left: 0,
            topics: paths.iter().map(topic).collect(),
            values: is_witness.then(|| vec![Vec::new(); paths.len()].into()),
            spare: Vec::new(),
            heard: Heard::default(),
        }
    }

    /// The codec of the deltas it asks for.
    pub fn codec(&self) -> Option<u8> {
        self.spec.codec
    }

    /// Walks bytes; what is not consumed has to come again with more behind it.
    ///
    /// # Errors
    /// When the server speaks nonsense, refuses something or closes.
    pub fn walk(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let skipped = self.data_left.min(bytes.len() - at);
            at += skipped;
            self.data_left -= skipped;
            self.message_left -= skipped;
            let rest = bytes.get(at..).unwrap_or_default();
            let taken = match (self.data_left, self.message_left) {
                (0, 0) => self.message(rest, counters)?,
                (0, _) => self.entry(rest, counters)?,
                _ => 0,
            };
            match taken {
                0 => return Ok(at),
                taken => at += taken,
            }
        }
    }

    fn message(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut cursor = Cursor { bytes, at: 0 };
        let Some((kind, length)) = cursor.header() else { return Ok(0) };
        if kind != UPDATES {
            return self.heard.message(bytes);
        }
        self.message_left = length;
        counters.batches += 1;
        Ok(cursor.at)
    }

    /// One entry of UPDATES, for a witness with its data; zero if more bytes are needed.
    fn entry(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut cursor = Cursor { bytes, at: 0 };
        let Some((flags, id, version, length)) = cursor.entry() else { return Ok(0) };
        let head = cursor.at;
        let is_delta = flags & DELTA != 0;
        let data = match &self.values {
            None => None,
            Some(_) => match bytes.get(head..head + length) {
                None => return Ok(0),
                data => data,
            },
        };
        let topic = self.topics.get_mut(id).filter(|_| flags & ANNOUNCED == 0);
        let topic = topic.ok_or_else(|| broken("an update of a topic that was not asked for"))?;
        if head + length > self.message_left || (is_delta && self.spec.codec.is_none()) {
            return Err(broken("an update is not as it was asked for"));
        }
        let step = (version as u16).wrapping_sub(topic.last);
        if !topic.is_known {
            (topic.is_known, topic.first) = (true, version as u16);
        } else if is_delta && step != 1 {
            return Err(broken("a delta to a version that was not sent"));
        } else {
            counters.skipped += u64::from(step.wrapping_sub(1));
        }
        topic.last = version as u16;
        let number = topic.last.wrapping_sub(topic.first);
        let known = *topic;
        let due = self.spec.publications.due_unix_ns(known.number as usize, number);
        counters.untimed += u64::from(due.is_none());
        counters.deltas += u64::from(is_delta);
        counters.message(due.unwrap_or_default(), length);
        if let Some(data) = data {
            self.witness(id, data, is_delta, counters)?;
        }
        let taken = if data.is_some() { head + length } else { head };
        self.data_left = head + length - taken;
        self.message_left -= taken;
        Ok(taken)
    }

    /// Makes the value and compares it with what was published.
    fn witness(
        &mut self,
        id: usize,
        data: &[u8],
        is_delta: bool,
        counters: &mut Counters,
    ) -> io::Result<()> {
        let known = self.values.as_mut().and_then(|values| values.get_mut(id));
        let (Some(value), Some(topic)) = (known, self.topics.get(id)) else { return Ok(()) };
        if is_delta {
            delta::apply(value, data, &mut self.spare)
                .ok_or_else(|| broken("a delta cannot be applied"))?;
            std::mem::swap(value, &mut self.spare);
        } else {
            value.clear();
            value.extend_from_slice(data);
        }
        let number = topic.last.wrapping_sub(topic.first);
        counters.witnessed += 1;
        let is_right = self.spec.publications.is_right(topic.number as usize, number, value);
        counters.wrong += u64::from(!is_right);
        Ok(())
    }
}

/// Whether witnesses can apply what that codec makes.
fn is_known(codec: Option<u8>) -> bool {
    codec.is_none_or(|codec| codec == CODEC)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::counters::unix_ns;

    /// UPDATES of one entry of subscription 1.
    fn update(flags: u8, version: u16, data: &[u8]) -> Vec<u8> {
        let [low, high] = version.to_le_bytes();
        let head = [UPDATES, 5 + data.len() as u8, flags, 1, low, high, data.len() as u8];
        [&head[..], data].concat()
    }

    fn publications(values: &[&[u8]]) -> Arc<Publications> {
        let publications = Publications::new(8);
        for (number, value) in values.iter().enumerate() {
            publications.note(7, number as u16, unix_ns(), value);
        }
        Arc::new(publications)
    }

    fn reader(publications: &Arc<Publications>, deltas: bool, is_witness: bool) -> Reader {
        let codec = deltas.then_some(CODEC);
        let spec = ValuesSpec { publications: Arc::clone(publications), codec };
        Reader::new(&spec, &["fx/3".to_owned(), "fx/7".to_owned()], is_witness)
    }

    #[test]
    fn values_are_followed_through_deltas_in_any_pieces() {
        let publications = publications(&[b"price 1.0845!", b"price 1.0846!", b"x", b"price 9!"]);
        let wire = [
            update(1, 65_535, b"price 1.0845!"),
            update(1 | DELTA, 0, b"\x0b\x01\x056"),
            update(1, 2, b"price 9!"),
        ]
        .concat();
        for is_witness in [true, false] {
            for step in [1, 3, 20, 100] {
                let mut reader = reader(&publications, true, is_witness);
                let (mut counters, mut kept) = (Counters::idle(), Vec::new());
                for piece in wire.chunks(step) {
                    kept.extend_from_slice(piece);
                    let taken = reader.walk(&kept, &mut counters).unwrap();
                    kept.drain(..taken);
                }
                assert!(kept.is_empty(), "{step}");
                assert_eq!((counters.received, counters.skipped, counters.deltas), (3, 1, 1));
                assert_eq!((counters.body_bytes, counters.untimed, counters.wrong), (25, 0, 0));
                assert_eq!(counters.witnessed, if is_witness { 3 } else { 0 });
            }
        }
    }

    #[test]
    fn a_wrong_value_is_counted() {
        let publications = publications(&[b"one", b"two"]);
        let mut reader = reader(&publications, false, true);
        let mut counters = Counters::idle();
        let wire = [update(1, 9, b"one"), update(1, 10, b"owt")].concat();
        reader.walk(&wire, &mut counters).unwrap();
        assert_eq!((counters.witnessed, counters.wrong), (2, 1));
    }

    #[test]
    fn a_delta_out_of_place_is_an_error() {
        let publications = publications(&[b"one", b"two"]);
        for (deltas, version) in [(true, 11), (false, 10)] {
            let mut reader = reader(&publications, deltas, true);
            let wire = [update(1, 9, b"one"), update(1 | DELTA, version, b"\x03\x00")].concat();
            assert!(reader.walk(&wire, &mut Counters::idle()).is_err());
        }
    }
}
