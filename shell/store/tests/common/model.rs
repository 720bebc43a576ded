//! What a store should hold, kept in the simplest way, and made-up batches that change it.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_store::{
    Batch, Body, Declaration, Disk, LoadRequest, Loaded, Mark, Put, Recovered, RecoveredMessages,
    Store, StoredRange, StreamId, StreamKind,
};

use super::Numbers;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Messages {
    pub(crate) count: u32,
    pub(crate) version: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) gone: BTreeSet<u64>,
    pub(crate) body: Option<Body>,
}

/// Makes the file of a body.
type MakeBody<'a> = &'a mut dyn FnMut(&[u8]) -> Option<Body>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) kind: StreamKind,
    pub(crate) path: String,
    pub(crate) spec: Vec<u8>,
    pub(crate) mark: Mark,
    pub(crate) messages: BTreeMap<u64, Messages>,
}

impl Messages {
    fn of(messages: &RecoveredMessages) -> Messages {
        let gone = messages.gone.iter().flat_map(|(first, last)| *first..=*last).collect();
        let RecoveredMessages { count, version, .. } = *messages;
        let body = messages.body.as_ref().map(|body| body.place);
        Messages { count, version, bytes: messages.bytes.to_vec(), gone, body }
    }
}

/// All that a store holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) values: BTreeMap<String, Vec<u8>>,
    /// Streams that are not there any more when the store is opened again.
    pub(crate) volatile: BTreeMap<StreamId, Stream>,
}

impl PartialEq for Model {
    /// Of what survives.
    fn eq(&self, other: &Model) -> bool {
        (&self.streams, &self.values) == (&other.streams, &other.values)
    }
}

impl Eq for Model {}

impl Model {
    /// What has survived, in the model's form; `None` if some of it cannot be read.
    pub(crate) fn of<D: Disk>(store: &mut Store<D>, recovered: &Recovered) -> Option<Model> {
        let mut model = Model::default();
        for stream in &recovered.streams {
            let messages: BTreeMap<u64, Messages> = match stream.kind {
                StreamKind::Topic => {
                    let messages = stream.messages.iter();
                    messages.map(|it| (it.sequence, Messages::of(it))).collect()
                }
                StreamKind::Queue => load_all(store, stream.stream)?,
            };
            if stream.kind == StreamKind::Queue {
                check_stored(&stream.stored, &messages);
            }
            let stream_model = Stream {
                kind: stream.kind,
                path: stream.path.to_string(),
                spec: stream.spec.to_vec(),
                mark: stream.mark,
                messages,
            };
            model.streams.insert(stream.stream, stream_model);
        }
        model.values = recovered
            .values
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_vec()))
            .collect();
        Some(model)
    }

    /// Asks for messages of one of the streams, or of none.
    pub(crate) fn load_request(&self, numbers: &mut Numbers) -> LoadRequest {
        let all = self.streams.keys().chain(self.volatile.keys());
        let streams: Vec<StreamId> = all.copied().collect();
        let at = numbers.below(streams.len() as u64 + 1) as usize;
        let stream = streams.get(at).copied().unwrap_or(StreamId(1_000_000));
        let mark = self.get(stream).map_or(5, |stream| stream.mark.sequence);
        let first = numbers.below(mark + 2);
        let last = if numbers.chance(50) { u64::MAX } else { first + numbers.below(8) };
        let bytes_max = numbers.below(400) as usize;
        LoadRequest { ticket: numbers.next(), stream, beside: None, first, last, bytes_max }
    }

    /// Whether that is what a store that holds this answers; `seed` is for the message. What is damaged must be in
    /// its place.
    pub(crate) fn check_loaded(&self, request: &LoadRequest, loaded: &Loaded, seed: u64) {
        assert_eq!((loaded.ticket, loaded.stream), (request.ticket, request.stream));
        let stream = self.get(request.stream);
        let wanted = stream.into_iter().flat_map(|stream| &stream.messages);
        let mut wanted = wanted.filter(|(sequence, messages)| {
            **sequence <= request.last && **sequence + u64::from(messages.count) > request.first
        });
        let mut messages = loaded.messages.iter().peekable();
        let mut damaged = loaded.damaged.iter().peekable();
        let mut bytes = 0;
        while messages.peek().is_some() || damaged.peek().is_some() {
            let (sequence, expected) = wanted.next().unwrap_or_else(|| panic!("seed {seed}: more"));
            if damaged.next_if(|damaged| damaged.sequence == *sequence).is_some() {
                continue;
            }
            let found = messages.next().unwrap();
            assert_eq!(
                (found.sequence, Messages::of(found)),
                (*sequence, expected.clone()),
                "seed {seed}"
            );
            bytes += found.bytes.len();
        }
        assert!(bytes <= request.bytes_max || loaded.messages.len() == 1, "seed {seed}");
        let next = wanted.next().map(|(sequence, _)| (*sequence).max(request.first));
        assert_eq!(loaded.next, next, "seed {seed}: {request:?}");
    }

    fn get(&self, stream: StreamId) -> Option<&Stream> {
        self.streams.get(&stream).or_else(|| self.volatile.get(&stream))
    }

    fn get_mut(&mut self, stream: StreamId) -> Option<&mut Stream> {
        match stream.is_volatile() {
            true => self.volatile.get_mut(&stream),
            false => self.streams.get_mut(&stream),
        }
    }

    /// What differs, for the message of a failed test.
    pub(crate) fn difference(&self, found: &Model) -> String {
        let mut text = String::new();
        let ids: BTreeSet<StreamId> =
            self.streams.keys().chain(found.streams.keys()).copied().collect();
        for id in ids {
            let (expected, found) = (self.streams.get(&id), found.streams.get(&id));
            if expected != found {
                text += &format!("{id:?}\n  expected {expected:?}\n  found    {found:?}\n");
            }
        }
        if self.values != found.values {
            text += &format!("expected {:?}\nfound    {:?}\n", self.values, found.values);
        }
        text
    }

    /// Makes up a batch and does to the model what it will do to the store.
    pub(crate) fn batch(
        &mut self,
        numbers: &mut Numbers,
        next_stream: impl Fn() -> StreamId,
    ) -> Batch {
        self.batch_with_bodies(numbers, next_stream, &mut |_| None)
    }

    /// The same with bodies in files for some messages, as far as files can be made.
    pub(crate) fn batch_with_bodies(
        &mut self,
        numbers: &mut Numbers,
        next_stream: impl Fn() -> StreamId,
        make_body: MakeBody<'_>,
    ) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..1 + numbers.below(4) {
            self.record(numbers, &next_stream, make_body, &mut batch);
        }
        batch
    }

    /// The numbers of the files that bodies lie in.
    pub(crate) fn body_files(&self) -> BTreeSet<u64> {
        let messages = self.streams.values().flat_map(|stream| stream.messages.values());
        messages.filter_map(|messages| Some(messages.body?.file)).collect()
    }

    fn record(
        &mut self,
        numbers: &mut Numbers,
        next_stream: &impl Fn() -> StreamId,
        make_body: MakeBody<'_>,
        batch: &mut Batch,
    ) {
        if numbers.chance(12) {
            return self.volatile_record(numbers, next_stream, batch);
        }
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        if streams.len() < 2 || (streams.len() < 8 && numbers.chance(10)) {
            return self.declare(next_stream(), numbers, batch);
        }
        let stream = streams[numbers.below(streams.len() as u64) as usize];
        let mark = self.streams[&stream].mark.sequence;
        match numbers.below(100) {
            0..42 => self.put(stream, numbers, make_body, batch),
            42..60 => self.put_shared(&streams, numbers, batch),
            60..68 => {
                let up_to = mark.saturating_sub(numbers.below(6));
                batch.trim(stream, up_to).unwrap();
                self.settle(stream, 0, up_to);
            }
            68..80 => {
                let first = 1 + numbers.below(mark + 1);
                let last = first + numbers.below(3);
                batch.settle(stream, &[(first, last), (last + 2, last + 2)]).unwrap();
                self.settle(stream, first, last);
                self.settle(stream, last + 2, last + 2);
                for _ in 0..numbers.below(3) {
                    let stream = streams[numbers.below(streams.len() as u64) as usize];
                    batch.settle(stream, &[(last, last + 1)]).unwrap();
                    self.settle(stream, last, last + 1);
                }
            }
            80..84 => {
                batch.drop_stream(stream).unwrap();
                self.streams.remove(&stream);
            }
            84..88 => self.declare(stream, numbers, batch),
            88..96 => {
                let name = format!("name-{}", numbers.below(4));
                let value = bytes(numbers);
                batch.set(&name, &value).unwrap();
                self.values.insert(name, value);
            }
            _ => {
                let name = format!("name-{}", numbers.below(4));
                batch.unset(&name).unwrap();
                self.values.remove(&name);
            }
        }
    }

    /// A record of a stream that does not survive.
    pub(crate) fn volatile_record(
        &mut self,
        numbers: &mut Numbers,
        next_stream: &impl Fn() -> StreamId,
        batch: &mut Batch,
    ) {
        let streams: Vec<StreamId> = self.volatile.keys().copied().collect();
        if streams.len() < 2 {
            let id = StreamId::volatile(next_stream().0);
            let (kind, path, spec) = (StreamKind::Queue, String::new(), Vec::new());
            let (mark, messages) = (Mark::default(), BTreeMap::new());
            self.volatile.insert(id, Stream { kind, path, spec, mark, messages });
            return self.put(id, numbers, &mut |_| None, batch);
        }
        let stream = streams[numbers.below(2) as usize];
        match numbers.below(10) {
            0..5 => self.put(stream, numbers, &mut |_| None, batch),
            5..7 => self.put_shared(&streams, numbers, batch),
            7..9 => {
                let first = 1 + numbers.below(self.volatile[&stream].mark.sequence + 1);
                batch.settle(stream, &[(first, first + 1)]).unwrap();
                self.settle(stream, first, first + 1);
            }
            _ => {
                batch.drop_stream(stream).unwrap();
                self.volatile.remove(&stream);
            }
        }
    }

    fn declare(&mut self, id: StreamId, numbers: &mut Numbers, batch: &mut Batch) {
        let kind = if numbers.chance(50) { StreamKind::Topic } else { StreamKind::Queue };
        let (path, spec) = (format!("path/{}", id.0), bytes(numbers));
        let mark = self.streams.get(&id).map_or(Mark::default(), |stream| stream.mark);
        let declaration = Declaration { stream: id, kind, mark, path: &path, spec: &spec };
        batch.declare(&declaration).unwrap();
        let stream = self.streams.entry(id).or_insert(Stream {
            kind,
            path: path.clone(),
            spec: Vec::new(),
            mark,
            messages: BTreeMap::new(),
        });
        (stream.kind, stream.path, stream.spec) = (kind, path, spec);
    }

    /// A file that a message has already.
    fn known_body(&self, numbers: &mut Numbers) -> Option<Body> {
        let messages = self.streams.values().flat_map(|stream| stream.messages.values());
        let known: Vec<Body> = messages.filter_map(|messages| messages.body).collect();
        let at = numbers.below(known.len() as u64 + 1) as usize;
        known.get(at).copied()
    }

    fn put(
        &mut self,
        id: StreamId,
        numbers: &mut Numbers,
        make_body: MakeBody<'_>,
        batch: &mut Batch,
    ) {
        let known = if numbers.chance(30) { self.known_body(numbers) } else { None };
        let stream = self.get(id).unwrap();
        let again = numbers.chance(15).then(|| stream.messages.iter().next_back()).flatten();
        let (sequence, count) = match again {
            Some((sequence, messages)) => (*sequence, messages.count),
            None => (stream.mark.sequence + 1, 1 + numbers.below(3) as u32),
        };
        let keep_from = match numbers.below(3) {
            0 => 0,
            1 => sequence,
            _ => sequence.saturating_sub(3),
        };
        let (version, bytes) = (numbers.below(1000), bytes(numbers));
        let may_have = count == 1 && !id.is_volatile() && numbers.chance(30);
        // Where there are none, what is asked for stays the same.
        let body = match known.filter(|_| may_have) {
            Some(known) => make_body(&[]).map(|_| known),
            None if may_have => make_body(&bytes),
            None => None,
        };
        let put = Put { stream: id, sequence, count, version, keep_from, bytes: &bytes, body };
        batch.put(&put).unwrap();
        if keep_from > 0 {
            self.settle(id, 0, keep_from - 1);
        }
        let Some(stream) = self.get_mut(id) else { return };
        let gone = BTreeSet::new();
        stream.messages.insert(sequence, Messages { count, version, bytes, gone, body });
        let last = sequence + u64::from(count) - 1;
        if last >= stream.mark.sequence {
            stream.mark = Mark { sequence: last, version };
        }
    }

    /// Some of these streams get the same messages, each behind its last.
    fn put_shared(&mut self, streams: &[StreamId], numbers: &mut Numbers, batch: &mut Batch) {
        let mut owners: Vec<(StreamId, u64)> = Vec::new();
        for stream in streams {
            if numbers.chance(70) || owners.is_empty() {
                let sequence = self.get(*stream).unwrap().mark.sequence + 1 + numbers.below(2);
                owners.push((*stream, sequence));
            }
        }
        let (count, bytes) = (1 + numbers.below(3) as u32, bytes(numbers));
        batch.put_shared(&owners, count, &bytes).unwrap();
        for (stream, sequence) in owners {
            let version = sequence + u64::from(count) - 1;
            let stream = self.get_mut(stream).unwrap();
            let (bytes, gone) = (bytes.clone(), BTreeSet::new());
            stream.messages.insert(sequence, Messages { count, version, bytes, gone, body: None });
            stream.mark = Mark { sequence: version, version };
        }
    }

    fn settle(&mut self, id: StreamId, first: u64, last: u64) {
        let Some(stream) = self.get_mut(id) else { return };
        stream.messages.retain(|sequence, messages| {
            let numbers = *sequence..sequence + u64::from(messages.count);
            messages.gone.extend(numbers.filter(|number| (first..=last).contains(number)));
            messages.gone.len() < messages.count as usize
        });
    }
}

/// All messages of a stream; `None` if some cannot be read.
fn load_all<D: Disk>(store: &mut Store<D>, stream: StreamId) -> Option<BTreeMap<u64, Messages>> {
    let (mut found, mut next) = (BTreeMap::new(), Some(0));
    while let Some(first) = next {
        let (ticket, last, bytes_max) = (0, u64::MAX, usize::MAX);
        let loaded =
            store.load(&LoadRequest { ticket, stream, beside: None, first, last, bytes_max });
        if !loaded.damaged.is_empty() || loaded.delayed.is_some() {
            return None;
        }
        assert!(loaded.next.is_none_or(|next| next > first));
        found.extend(loaded.messages.iter().map(|it| (it.sequence, Messages::of(it))));
        next = loaded.next;
    }
    Some(found)
}

/// The ranges are the messages that are there, and as few as possible.
fn check_stored(stored: &[StoredRange], messages: &BTreeMap<u64, Messages>) {
    let numbers = stored.iter().flat_map(|range| range.first..=range.last);
    let expected = messages.iter().flat_map(|(sequence, messages)| {
        let numbers = *sequence..sequence + u64::from(messages.count);
        numbers.filter(|number| !messages.gone.contains(number))
    });
    assert!(numbers.eq(expected), "{stored:?} {messages:?}");
    assert!(stored.windows(2).all(|pair| pair[0].last + 1 < pair[1].first), "{stored:?}");
}

/// Mostly short, sometimes longer than a segment of the tests.
pub(crate) fn bytes(numbers: &mut Numbers) -> Vec<u8> {
    let length = if numbers.chance(2) { 1500 } else { numbers.below(60) };
    (0..length).map(|_| numbers.next() as u8).collect()
}
