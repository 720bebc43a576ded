//! Differences between the messages of a run, made once per codec and shared by all sessions of the
//! shard, whatever their protocol.
//!
//! Relies on the run knowing what came before it, and on sessions to know what their client was sent.
//! Invariant: a difference is to the body of the version just before, and smaller than its own.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Delivery, EncodingKey, SharedRun, SubscriptionKey};

/// Makes a difference of two values: appends it, or says `false` if it would be no shorter than the
/// limit.
pub type EncodeDelta = fn(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool;

/// The differences of one run that a receiver can use.
#[derive(Debug, Default)]
pub struct Deltas {
    /// Where the difference of each message begins and the last one ends, in four bytes each; then
    /// the differences, empty where there is none.
    block: Bytes,
    /// The first message whose difference may be used.
    from: usize,
}

impl Deltas {
    /// The difference of the message at that place of the run, if it is to be sent by one.
    #[inline]
    pub fn of(&self, index: usize) -> Option<&[u8]> {
        if self.block.is_empty() || index < self.from {
            return None;
        }
        let place = |index: usize| {
            let bytes = self.block.get(index * PLACE_BYTES..)?.first_chunk::<PLACE_BYTES>()?;
            Some(u32::from_le_bytes(*bytes) as usize)
        };
        self.block.get(place(index)?..place(index + 1)?).filter(|delta| !delta.is_empty())
    }
}

impl Delivery<'_> {
    /// What may be sent by differences of a codec, made now if they are asked for the first time; none
    /// of bodies with more than `bytes_max`. `is_next` says whether the client was sent what precedes
    /// the delivery: otherwise its first message is sent whole.
    pub fn deltas(
        &self,
        codec: u8,
        encode: EncodeDelta,
        bytes_max: usize,
        is_next: bool,
    ) -> Deltas {
        let from = if is_next { self.from } else { self.from + 1 };
        if from >= self.to {
            return Deltas::default();
        }
        let key = EncodingKey { form: EncodingKey::form(LETTER, codec, 0), variant: b"" };
        let room = (self.run.run().len() + 1) * (PLACE_BYTES + USUAL_BYTES);
        let write = |out: &mut Vec<u8>| write(self.run, encode, bytes_max, out);
        let block = self.run.encoded_within(key, room, write);
        Deltas { block: block.unwrap_or_default(), from }
    }
}

/// What a client was sent last: by subscription and path, the version that comes next.
#[derive(Debug, Default)]
pub struct Bases {
    next: BTreeMap<SubscriptionKey, BTreeMap<Box<str>, u64>>,
    count: usize,
}

impl Bases {
    /// Notes what a delivery sends; says whether the client was sent what precedes it. Topics beyond
    /// the limit are not noted, so that their values are sent whole.
    pub fn advance(&mut self, delivery: &Delivery<'_>) -> bool {
        let run = delivery.run.run();
        let path = run.destination().path.as_str();
        let first = run.version() + delivery.from as u64;
        let next = delivery.next_version();
        let topics = self.next.entry(delivery.key).or_default();
        if let Some(known) = topics.get_mut(path) {
            return std::mem::replace(known, next) == first;
        }
        if self.count < BASES_MAX {
            self.count += 1;
            topics.insert(path.into(), next);
        }
        false
    }

    /// Forgets a subscription that has ended.
    pub fn remove(&mut self, key: SubscriptionKey) {
        self.count -= self.next.remove(&key).map_or(0, |topics| topics.len());
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }
}

/// Writes the block of a run's differences.
fn write(run: &SharedRun, encode: EncodeDelta, bytes_max: usize, out: &mut Vec<u8>) {
    out.resize((run.run().len() + 1) * PLACE_BYTES, 0);
    let mut before = run.previous();
    for (index, message) in run.run().messages().enumerate() {
        note_place(index, out);
        if let Some(before) = before
            && (BYTES_MIN..=bytes_max).contains(&message.body.len())
            && before.body.len() <= bytes_max
        {
            encode(before.body, message.body, out, message.body.len());
        }
        before = Some(message);
    }
    note_place(run.run().len(), out);
}

fn note_place(index: usize, out: &mut [u8]) {
    let place = (out.len() as u32).to_le_bytes();
    if let Some(slot) = out.get_mut(index * PLACE_BYTES..(index + 1) * PLACE_BYTES) {
        slot.copy_from_slice(&place);
    }
}

/// The letter of differences among wire forms.
const LETTER: u8 = b'D';
/// Bodies below this are not worth a difference.
const BYTES_MIN: usize = 16;
const PLACE_BYTES: usize = 4;
/// What most differences take at most.
const USUAL_BYTES: usize = 60;
/// Topics of one session that are noted.
const BASES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use tiderace_base::{ShardId, Time};
    use tiderace_topics::Path;

    use super::*;
    use crate::{Destination, Kind, Meta, Run, RunBuilder};

    fn run(version: u64, bodies: &[&str], previous: Option<&SharedRun>) -> SharedRun {
        let path = Path::parse("fx/a").unwrap();
        let destination = Destination { kind: Kind::Topic, path };
        let mut builder = RunBuilder::new(destination, Time::default());
        for body in bodies {
            builder.finish(body.as_bytes(), Meta::default());
        }
        let mut run: Run = builder.build();
        run.number(ShardId(0), version);
        run.set_version(version);
        SharedRun::after(Arc::new(run), previous.map(|known| known.run_arc().clone()))
    }

    fn delivery(run: &SharedRun, key: u32, from: usize) -> Delivery<'_> {
        let key = SubscriptionKey(key);
        let to = run.run().len();
        Delivery { key, run, from, to, redeliveries: 0, reached: 0, exchange: None }
    }

    /// A difference that is the new value's last byte.
    fn last(_: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool {
        out.extend(new.last());
        limit > 1
    }

    #[test]
    fn a_message_has_a_difference_if_the_one_before_was_sent() {
        let value = |digit| format!("a value of some length {digit}");
        let first = run(1, &[&value(1), &value(2)], None);
        let second = run(3, &[&value(3), "short", &value(4)], Some(&first));
        let of = |run: &SharedRun, is_next, most| {
            let deltas = delivery(run, 0, 0).deltas(1, last, most, is_next);
            (0..run.run().len()).map(|at| deltas.of(at).map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        // What precedes the first run is not known.
        assert_eq!(of(&first, true, 99), [None, Some(b"2".to_vec())]);
        let four = Some(b"4".to_vec());
        assert_eq!(of(&second, true, 99), [Some(b"3".to_vec()), None, four.clone()]);
        assert_eq!(of(&second, false, 99), [None, None, four]);
        let long = run(6, &[&value(5)], Some(&second));
        assert_eq!(of(&long, true, 20), [None]);
        assert!(delivery(&long, 0, 0).deltas(2, last, 20, false).of(9).is_none());
    }

    #[test]
    fn bases_are_what_was_sent_last() {
        let (first, second) = (run(1, &["a", "b"], None), run(3, &["c"], None));
        let mut bases = Bases::default();
        assert!(!bases.advance(&delivery(&first, 7, 0)));
        assert!(bases.advance(&delivery(&second, 7, 0)));
        assert!(!bases.advance(&delivery(&second, 7, 0)), "the same again is no continuation");
        assert!(!bases.advance(&delivery(&second, 8, 0)), "another subscription");
        assert!(!bases.advance(&delivery(&first, 7, 1)));
        assert!(bases.advance(&delivery(&second, 7, 0)));
        bases.remove(SubscriptionKey(7));
        assert!(!bases.advance(&delivery(&second, 7, 0)) && !bases.is_empty());
    }
}
