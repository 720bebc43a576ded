//! What a store should hold, kept in the simplest way, and made-up batches that change it.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_store::{
    Batch, Declaration, LoadRequest, Loaded, Mark, Put, Recovered, RecoveredMessages, StreamId,
    StreamKind,
};

use super::Numbers;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Messages {
    pub(crate) count: u32,
    pub(crate) version: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) gone: BTreeSet<u64>,
}

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
        Messages { count, version, bytes: messages.bytes.to_vec(), gone }
    }
}

/// All that a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) values: BTreeMap<String, Vec<u8>>,
}

impl Model {
    /// What has survived, in the model's form.
    pub(crate) fn of(recovered: &Recovered) -> Model {
        let mut model = Model::default();
        for stream in &recovered.streams {
            let messages = &stream.messages;
            let messages = messages.iter().map(|it| (it.sequence, Messages::of(it)));
            let stream_model = Stream {
                kind: stream.kind,
                path: stream.path.to_string(),
                spec: stream.spec.to_vec(),
                mark: stream.mark,
                messages: messages.collect(),
            };
            model.streams.insert(stream.stream, stream_model);
        }
        model.values = recovered
            .values
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_vec()))
            .collect();
        model
    }

    /// Asks for messages of one of the streams, or of none.
    pub(crate) fn load_request(&self, numbers: &mut Numbers) -> LoadRequest {
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        let at = numbers.below(streams.len() as u64 + 1) as usize;
        let stream = streams.get(at).copied().unwrap_or(StreamId(1_000_000));
        let mark = self.streams.get(&stream).map_or(5, |stream| stream.mark.sequence);
        let first = numbers.below(mark + 2);
        let last = if numbers.chance(50) { u64::MAX } else { first + numbers.below(8) };
        let bytes_max = numbers.below(400) as usize;
        LoadRequest { ticket: numbers.next(), stream, first, last, bytes_max }
    }

    /// Whether that is what a store that holds this answers; `seed` is for the message. What is damaged must be in
    /// its place.
    pub(crate) fn check_loaded(&self, request: &LoadRequest, loaded: &Loaded, seed: u64) {
        assert_eq!((loaded.ticket, loaded.stream), (request.ticket, request.stream));
        let stream = self.streams.get(&request.stream);
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
        let mut batch = Batch::new();
        for _ in 0..1 + numbers.below(4) {
            self.record(numbers, &next_stream, &mut batch);
        }
        batch
    }

    fn record(
        &mut self,
        numbers: &mut Numbers,
        next_stream: &impl Fn() -> StreamId,
        batch: &mut Batch,
    ) {
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        if streams.len() < 2 || (streams.len() < 8 && numbers.chance(10)) {
            return self.declare(next_stream(), numbers, batch);
        }
        let stream = streams[numbers.below(streams.len() as u64) as usize];
        let mark = self.streams[&stream].mark.sequence;
        match numbers.below(100) {
            0..60 => self.put(stream, numbers, batch),
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

    fn put(&mut self, id: StreamId, numbers: &mut Numbers, batch: &mut Batch) {
        let stream = &self.streams[&id];
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
        let put = Put { stream: id, sequence, count, version, keep_from, bytes: &bytes };
        batch.put(&put).unwrap();
        if keep_from > 0 {
            self.settle(id, 0, keep_from - 1);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.messages.insert(sequence, Messages { count, version, bytes, gone: BTreeSet::new() });
        let last = sequence + u64::from(count) - 1;
        if last >= stream.mark.sequence {
            stream.mark = Mark { sequence: last, version };
        }
    }

    fn settle(&mut self, id: StreamId, first: u64, last: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.messages.retain(|sequence, messages| {
            let numbers = *sequence..sequence + u64::from(messages.count);
            messages.gone.extend(numbers.filter(|number| (first..=last).contains(number)));
            messages.gone.len() < messages.count as usize
        });
    }
}

/// Mostly short, sometimes longer than a segment of the tests.
pub(crate) fn bytes(numbers: &mut Numbers) -> Vec<u8> {
    let length = if numbers.chance(2) { 1500 } else { numbers.below(60) };
    (0..length).map(|_| numbers.next() as u8).collect()
}
