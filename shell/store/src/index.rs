//! Which records of the log are still needed, and where they lie.
//!
//! Relies on `streams`, `messages`, `ranges`, `shared_records` and `bodies_needed`. The index is what the log says when it is read from its oldest segment
//! to its newest; applying a record once more at a later place (as cleaning does with what is needed) changes
//! places and nothing else. Invariant: each record that is needed has one place here, each byte whose place
//! is given up is reported once, and the sum of places is the live bytes.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bodies_needed::BodiesNeeded;
use crate::messages::{Message, Place};
use crate::ranges::Gone;
use crate::record::{Body, Declaration, Mark, Put, Record, StreamId};
use crate::shared::PutShared;
use crate::shared_records::SharedRecords;
use crate::streams::{Stream, Streams};

/// Everything that is needed.
#[derive(Debug, Default)]
pub(crate) struct Index {
    streams: Streams,
    values: HashMap<Box<str>, Place, RandomState>,
    /// Records of which some messages are not needed any more.
    partly: HashMap<(StreamId, u64), Gone, RandomState>,
    /// Records of several streams, and bytes of those of queues.
    shared: SharedRecords,
    /// Bodies that lie in files.
    bodies: BodiesNeeded,
}

impl Index {
    /// Takes a record in that lies at `place`; says the places of records that are not needed any more,
    /// which may be the record's own. Of a record that several streams have, a part is given up with each.
    pub(crate) fn apply(
        &mut self,
        record: &Record<'_>,
        place: Place,
        dead: &mut impl FnMut(Place),
    ) {
        match record {
            Record::Declare(declaration) => self.declare(declaration, place, dead),
            Record::Put(put) => self.put(put, place, dead),
            Record::PutShared(shared) => self.put_shared(shared, place, dead),
            Record::Trim { stream, up_to } => {
                self.settle(*stream, 0, *up_to, dead);
                dead(place);
            }
            Record::Settle { stream, ranges } => {
                for (first, last) in ranges.iter() {
                    self.settle(*stream, first, last, dead);
                }
                dead(place);
            }
            Record::SettleMany { stretches } => {
                for (stream, first, last) in stretches.iter() {
                    self.settle(stream, first, last, dead);
                }
                dead(place);
            }
            Record::Drop { stream } => {
                self.drop_stream(*stream, dead);
                dead(place);
            }
            Record::Set { name, value: _ } => {
                let old = match self.values.get_mut(*name) {
                    Some(old) => Some(std::mem::replace(old, place)),
                    None => self.values.insert((*name).into(), place),
                };
                old.into_iter().for_each(dead);
            }
            Record::Unset { name } => {
                self.values.remove(*name).into_iter().for_each(&mut *dead);
                dead(place);
            }
            Record::Mark { .. }
            | Record::End { .. }
            | Record::Summary { .. }
            | Record::Removed { .. }
            | Record::BodyPart { .. } => dead(place),
        }
    }

    /// Whether the record at `place` is needed, or a newer one has taken its place.
    pub(crate) fn needs(&self, record: &Record<'_>, place: Place) -> bool {
        match record {
            Record::Declare(declaration) => self
                .streams
                .get(declaration.stream)
                .is_some_and(|stream| stream.declaration == place),
            Record::Put(put) => self.has_at(put.stream, put.sequence, place),
            Record::PutShared(shared) => self.owners_at(shared, place).next().is_some(),
            Record::Set { name, .. } => self.values.get(*name) == Some(&place),
            _ => false,
        }
    }

    /// Whether a stream has the messages from that number on at that place.
    fn has_at(&self, stream: StreamId, sequence: u64, place: Place) -> bool {
        let message = self.streams.get(stream).and_then(|it| it.messages.find(sequence));
        message.is_some_and(|message| message.place == place)
    }

    /// The streams that need a record which lies at a place, with the number of the first message there.
    pub(crate) fn owners_at(
        &self,
        shared: &PutShared<'_>,
        place: Place,
    ) -> impl Iterator<Item = (StreamId, u64)> {
        let owners = shared.owners.iter();
        owners.filter(move |(stream, sequence)| self.has_at(*stream, *sequence, place))
    }

    /// Whether what lies at a place was written for several streams.
    pub(crate) fn is_shared(&self, place: Place) -> bool {
        self.shared.are_at(place)
    }

    /// Bytes of a record as if one stream had it alone.
    pub(crate) fn bytes_alone(&self, place: Place) -> u32 {
        self.shared.bytes_alone(place)
    }

    /// The stream, if there is one.
    pub(crate) fn stream(&self, stream: StreamId) -> Option<&Stream> {
        self.streams.get(stream)
    }

    /// All streams, in no order.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.streams.iter()
    }

    /// All named values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, Place)> {
        self.values.iter().map(|(name, place)| (&**name, *place))
    }

    /// The messages of the record with that number that are not needed any more, as first and last of each range.
    pub(crate) fn gone(&self, stream: StreamId, sequence: u64) -> Vec<(u64, u64)> {
        let gone = self.partly.get(&(stream, sequence));
        gone.map(|gone| gone.ranges(sequence)).unwrap_or_default()
    }

    /// How many streams there are.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Bytes of the records of messages of queues, volatile ones too.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.shared.queue_bytes()
    }

    /// Which bodies are needed, and their files.
    pub(crate) fn bodies(&self) -> &BodiesNeeded {
        &self.bodies
    }

    /// The same, to take what is not needed any more.
    pub(crate) fn bodies_mut(&mut self) -> &mut BodiesNeeded {
        &mut self.bodies
    }

    /// The body of the record with that number, if that lies in a file.
    pub(crate) fn body(&self, stream: StreamId, sequence: u64) -> Option<Body> {
        self.bodies.get(stream, sequence)
    }

    fn declare(
        &mut self,
        declaration: &Declaration<'_>,
        place: Place,
        dead: &mut impl FnMut(Place),
    ) {
        let stream = self.streams.get_or_insert(declaration.stream);
        let old = std::mem::replace(&mut stream.declaration, place);
        if stream.kind != declaration.kind {
            // Its messages may lie before it in the log.
            let (before, places) = (stream.is_queue(), stream.messages.iter().map(|it| it.place));
            stream.kind = declaration.kind;
            if before != stream.is_queue() {
                self.shared.set_queue(places, stream.is_queue());
                let numbers = stream.messages.iter().map(|it| it.sequence);
                self.bodies.set_queue(declaration.stream, numbers, stream.is_queue());
            }
        }
        if !old.is_none() {
            dead(old);
        }
        stream.advance(declaration.mark);
    }

    fn put(&mut self, put: &Put<'_>, place: Place, dead: &mut impl FnMut(Place)) {
        if put.keep_from > 0 {
            self.settle(put.stream, 0, put.keep_from - 1, dead);
        }
        let stream = self.streams.get_or_insert(put.stream);
        let message = Message { sequence: put.sequence, count: put.count, place };
        let is_queue = stream.is_queue();
        if is_queue {
            self.shared.note_own(place);
        }
        self.insert(put.stream, message, put.version, dead);
        self.bodies.put((put.stream, is_queue), put.sequence, put.body);
    }

    fn put_shared(&mut self, put: &PutShared<'_>, place: Place, dead: &mut impl FnMut(Place)) {
        let streams = put.owners.iter().count() as u32;
        self.shared.insert(place, streams, put.owners.bytes());
        for (stream, sequence) in put.owners.iter() {
            let message = Message { sequence, count: put.count, place };
            self.insert(stream, message, message.last(), dead);
            self.bodies.put((stream, false), sequence, None);
        }
    }

    /// A stream has messages, in the place of those with the same number.
    fn insert(
        &mut self,
        id: StreamId,
        message: Message,
        version: u64,
        dead: &mut impl FnMut(Place),
    ) {
        let stream = self.streams.get_or_insert(id);
        if let Some(old) = stream.messages.insert(message) {
            self.partly.remove(&(id, message.sequence));
            dead(self.shared.release(old.place, stream.is_queue()));
        }
        stream.advance(Mark { sequence: message.last(), version });
    }

    /// The messages from `first` to `last` are not needed any more.
    fn settle(&mut self, id: StreamId, first: u64, last: u64, dead: &mut impl FnMut(Place)) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        // The usual case by far: the values of topics take each other's place one by one.
        if stream.messages.first().is_none_or(|message| message.sequence > last) {
            return;
        }
        for message in stream.messages.overlapping(first, last) {
            let (low, high) = (first.max(message.sequence), last.min(message.last()));
            let whole = low == message.sequence && high == message.last();
            if !whole {
                let (sequence, count) = (message.sequence, message.count);
                let gone = self.partly.entry((id, sequence)).or_insert_with(|| Gone::none(count));
                // Distances in a record fit its count.
                gone.add(count, (low - sequence) as u32, (high - sequence) as u32);
                if !gone.is_all(count) {
                    continue;
                }
            }
            stream.messages.remove(message.sequence);
            self.partly.remove(&(id, message.sequence));
            self.bodies.put((id, false), message.sequence, None);
            dead(self.shared.release(message.place, stream.is_queue()));
        }
    }

    fn drop_stream(&mut self, id: StreamId, dead: &mut impl FnMut(Place)) {
        let Some(stream) = self.streams.remove(id) else { return };
        if !stream.declaration.is_none() {
            dead(stream.declaration);
        }
        for message in stream.messages.iter() {
            self.partly.remove(&(id, message.sequence));
            self.bodies.put((id, false), message.sequence, None);
            dead(self.shared.release(message.place, stream.is_queue()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::StreamKind;
    use crate::shared::Owners;

    fn place(offset: u32) -> Place {
        Place { segment: 1, offset, bytes: 10 }
    }

    fn put(sequence: u64, count: u32, keep_from: u64) -> Record<'static> {
        let stream = StreamId(1);
        Record::Put(Put {
            stream,
            sequence,
            count,
            version: sequence,
            keep_from,
            bytes: b"",
            body: None,
        })
    }

    fn apply(index: &mut Index, record: Record<'_>, at: u32) -> Vec<u32> {
        let mut dead = Vec::new();
        index.apply(&record, place(at), &mut |place| dead.push(place.offset));
        dead
    }

    #[test]
    fn newer_values_take_the_place_of_older_ones() {
        let mut index = Index::default();
        assert_eq!(apply(&mut index, put(1, 1, 1), 1), []);
        assert_eq!(apply(&mut index, put(2, 1, 2), 2), [1]);
        assert_eq!(apply(&mut index, put(3, 1, 0), 3), []);
        assert!(index.needs(&put(2, 1, 2), place(2)));
        assert!(!index.needs(&put(1, 1, 1), place(1)));
        assert_eq!(apply(&mut index, Record::Drop { stream: StreamId(1) }, 4), [2, 3, 4]);
        assert_eq!(index.stream_count(), 0);
    }

    #[test]
    fn a_run_is_needed_until_its_last_message_is_gone() {
        let mut index = Index::default();
        apply(&mut index, put(1, 10, 0), 1);
        assert_eq!(apply(&mut index, Record::Trim { stream: StreamId(1), up_to: 4 }, 2), [2]);
        assert_eq!(index.gone(StreamId(1), 1), [(1, 4)]);
        let mut ranges = Vec::new();
        crate::record::encode_settle(StreamId(1), [(6, 6), (8, 20)], &mut ranges);
        assert_eq!(apply(&mut index, Record::decode(&ranges).unwrap(), 3), [3]);
        assert_eq!(apply(&mut index, Record::Trim { stream: StreamId(1), up_to: 7 }, 4), [1, 4]);
        assert_eq!(index.gone(StreamId(1), 1), []);
        assert_eq!(index.stream(StreamId(1)).unwrap().mark.sequence, 10);
    }

    #[test]
    fn what_several_streams_have_is_needed_until_the_last_has_done_with_it() {
        let mut index = Index::default();
        let declare = |number| {
            let (stream, kind, mark) = (StreamId(number), StreamKind::Queue, Mark::default());
            Record::Declare(Declaration { stream, kind, mark, path: "a", spec: b"" })
        };
        let mut list = Vec::new();
        crate::shared::encode_owners((1..=4).map(|it| (StreamId(it), it * 10)), &mut list);
        let shared = PutShared { owners: Owners::of(&list), count: 2, bytes: b"" };
        let at = |offset| Place { segment: 1, offset, bytes: 100 };
        let mut given_up = Vec::new();
        let mut apply = |index: &mut Index, record, offset| {
            index.apply(&record, at(offset), &mut |place| {
                given_up.push((place.offset, place.bytes))
            });
            std::mem::take(&mut given_up)
        };
        apply(&mut index, Record::PutShared(shared), 1);
        for stream in 1..=4 {
            apply(&mut index, declare(stream), 10 + stream as u32);
        }
        assert_eq!(index.queue_bytes(), 100, "once, wherever the declarations lie");
        assert_eq!(index.bytes_alone(at(1)), 94);
        let trim = |stream, up_to| Record::Trim { stream: StreamId(stream), up_to };
        assert_eq!(apply(&mut index, trim(1, 10), 20), [(20, 100)], "one of two messages");
        assert_eq!(apply(&mut index, trim(1, 11), 21), [(1, 2), (21, 100)]);
        assert_eq!(apply(&mut index, Record::Drop { stream: StreamId(3) }, 22).len(), 3);
        assert_eq!(index.queue_bytes(), 96);
        assert!(index.owners_at(&shared, at(1)).eq([(StreamId(2), 20), (StreamId(4), 40)]));
        // A copy for those that are left.
        let mut list = Vec::new();
        crate::shared::encode_owners(index.owners_at(&shared, at(1)), &mut list);
        let copy = PutShared { owners: Owners::of(&list), ..shared };
        let dead = apply(&mut index, Record::PutShared(copy), 30);
        assert_eq!(
            dead.iter().map(|(at, bytes)| (*at == 1, bytes)).collect::<Vec<_>>(),
            [(true, &2), (true, &94)]
        );
        assert!(!index.needs(&Record::PutShared(shared), at(1)) && !index.is_shared(at(1)));
        apply(&mut index, trim(2, 21), 31);
        assert_eq!(apply(&mut index, trim(4, 41), 32)[0].0, 30);
        assert_eq!((index.queue_bytes(), index.is_shared(at(30))), (0, false));
    }

    #[test]
    fn bytes_of_queues_are_those_of_their_messages() {
        let mut index = Index::default();
        let declare = |kind, path| {
            let (stream, mark) = (StreamId(1), Mark::default());
            Record::Declare(Declaration { stream, kind, mark, path, spec: b"" })
        };
        // Cleaning may have put the declaration behind the messages.
        apply(&mut index, put(1, 10, 0), 1);
        assert_eq!(index.queue_bytes(), 0);
        apply(&mut index, declare(StreamKind::Queue, "a"), 2);
        assert_eq!(index.queue_bytes(), 10);
        apply(&mut index, put(11, 1, 0), 3);
        apply(&mut index, put(11, 1, 0), 4);
        assert_eq!(index.queue_bytes(), 20, "a copy takes the place of what it copies");
        apply(&mut index, Record::Trim { stream: StreamId(1), up_to: 9 }, 5);
        assert_eq!(index.queue_bytes(), 20);
        apply(&mut index, Record::Trim { stream: StreamId(1), up_to: 10 }, 6);
        assert_eq!(index.queue_bytes(), 10);
        apply(&mut index, declare(StreamKind::Topic, "a"), 7);
        assert_eq!(index.queue_bytes(), 0);
        apply(&mut index, declare(StreamKind::Queue, "a"), 8);
        apply(&mut index, Record::Drop { stream: StreamId(1) }, 9);
        assert_eq!(index.queue_bytes(), 0);
        let stream = StreamId::volatile(7);
        let (count, version, keep_from, bytes, body) = (1, 1, 0, &b""[..], None);
        let volatile = Put { stream, sequence: 1, count, version, keep_from, bytes, body };
        apply(&mut index, Record::Put(volatile), 10);
        assert_eq!(index.queue_bytes(), 10);
        apply(&mut index, Record::Trim { stream, up_to: 1 }, 11);
        assert_eq!(index.queue_bytes(), 0);
    }

    #[test]
    fn files_are_needed_as_long_as_a_record_names_them() {
        let mut index = Index::default();
        let body = |stream, sequence, keep_from, file| {
            let body = Some(Body { file, offset: 5, length: 100, checksum: 1 });
            let (stream, bytes) = (StreamId(stream), &b""[..]);
            Record::Put(Put { stream, sequence, count: 1, version: 1, keep_from, bytes, body })
        };
        apply(&mut index, body(1, 1, 0, 7), 1);
        apply(&mut index, body(2, 9, 0, 7), 2);
        apply(&mut index, body(1, 2, 0, 8), 3);
        assert_eq!(index.bodies().bytes(), 210);
        // Copied forward.
        apply(&mut index, body(1, 1, 0, 7), 4);
        apply(&mut index, body(1, 2, 0, 8), 5);
        assert_eq!(index.bodies_mut().take_unneeded(), []);
        apply(&mut index, Record::Trim { stream: StreamId(1), up_to: 1 }, 6);
        assert_eq!(index.bodies_mut().take_unneeded(), []);
        assert!(index.bodies().needs(7) && index.body(StreamId(2), 9).is_some());
        apply(&mut index, Record::Drop { stream: StreamId(2) }, 7);
        assert_eq!(index.bodies_mut().take_unneeded(), [7]);
        assert!(!index.bodies().needs(7) && index.bodies().bytes() == 105);
        apply(&mut index, body(1, 3, 3, 9), 8);
        assert_eq!(index.bodies_mut().take_unneeded(), [8]);
        apply(&mut index, put(3, 1, 0), 9);
        assert_eq!(index.bodies_mut().take_unneeded(), [9]);
        assert_eq!(index.bodies().bytes(), 0);
        // Those of queues count as such once, also if the declaration comes later.
        let declare = |stream, kind| {
            let (stream, mark) = (StreamId(stream), Mark::default());
            Record::Declare(Declaration { stream, kind, mark, path: "a", spec: b"" })
        };
        for (stream, sequence, file) in [(1, 4, 10), (2, 1, 10), (2, 2, 10), (3, 2, 11)] {
            apply(&mut index, body(stream, sequence, 0, file), 10);
        }
        assert_eq!((index.bodies().bytes(), index.bodies().queue_bytes()), (210, 0));
        apply(&mut index, declare(2, StreamKind::Queue), 20);
        assert_eq!(index.bodies().queue_bytes(), 105);
        apply(&mut index, body(4, 1, 0, 12), 21);
        apply(&mut index, declare(4, StreamKind::Queue), 22);
        apply(&mut index, body(4, 2, 0, 13), 23);
        // Copied forward.
        apply(&mut index, body(4, 1, 0, 12), 24);
        assert_eq!((index.bodies().bytes(), index.bodies().queue_bytes()), (420, 315));
        apply(&mut index, declare(4, StreamKind::Topic), 25);
        assert_eq!(index.bodies().queue_bytes(), 105);
        apply(&mut index, Record::Trim { stream: StreamId(2), up_to: 1 }, 26);
        assert_eq!(index.bodies().queue_bytes(), 105);
        apply(&mut index, Record::Drop { stream: StreamId(2) }, 27);
        assert_eq!((index.bodies().bytes(), index.bodies().queue_bytes()), (420, 0));
    }

    #[test]
    fn a_record_copied_forward_changes_its_place_alone() {
        let mut index = Index::default();
        apply(&mut index, put(1, 1, 0), 1);
        apply(&mut index, put(2, 1, 0), 2);
        assert_eq!(apply(&mut index, put(1, 1, 0), 3), [1]);
        assert!(index.needs(&put(1, 1, 0), place(3)));
        assert_eq!(index.stream(StreamId(1)).unwrap().mark.sequence, 2);
        assert_eq!(apply(&mut index, Record::Set { name: "a", value: b"" }, 4), []);
        assert_eq!(apply(&mut index, Record::Set { name: "a", value: b"" }, 5), [4]);
        assert_eq!(apply(&mut index, Record::Unset { name: "a" }, 6), [5, 6]);
    }
}
