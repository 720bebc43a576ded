//! What the store is told when a persistent topic changes.
//!
//! Relies on `topic` and `series` for what a topic keeps. Invariant: a topic's stream holds its
//! value and what its specification keeps, and nothing else for longer than until the next record.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_journal::{RecordSubject, StoreRecord};
use tiderace_wire::{Destination, Flags, Kind, Meta, Run};

use super::Durability;
use super::codec::{Circumstances, Description, encode};
use crate::broker::Broker;
use crate::home::series::Kept;
use crate::publisher::Publisher;
use crate::runs::copy_of;
use crate::runs::keeps;
use crate::topic::Topic;

impl Broker {
    /// A persistent topic is there, or has become something else.
    pub(crate) fn declare(&mut self, now: Now, key: Key) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let Some(topic) = self.directory.get_mut(key).filter(|topic| topic.spec.persistent) else {
            return;
        };
        let Some(home) = topic.home.as_mut() else { return };
        durable.reserve_numbers(self.home.next_number());
        let stream = match home.stream() {
            Some(stream) => stream,
            None => {
                let stream = durable.streams.create();
                home.set_stream(stream);
                stream
            }
        };
        let record = StoreRecord::Declare {
            stream,
            path: topic.path.clone(),
            description: describe(now, topic),
            version: topic.home.as_ref().map_or(0, |home| home.last_version()),
        };
        durable.journal.append(record, RecordSubject::Topic(key, stream));
    }

    /// A run of a persistent topic has been numbered, and is its value or kept by now. Gives the
    /// record that its confirmation waits for; also if the run adds nothing, for what it confirms
    /// may be what an earlier record says.
    pub(crate) fn journal_append(
        &mut self,
        now: Now,
        key: Key,
        run: &Arc<Run>,
        publisher: &Publisher<'_>,
    ) -> u64 {
        let Some(durable) = self.durable.as_deref_mut() else { return 0 };
        durable.reserve_numbers(self.home.next_number());
        self.write_messages(now, key, run, publisher);
        self.last_record()
    }

    fn write_messages(&mut self, now: Now, key: Key, run: &Arc<Run>, publisher: &Publisher<'_>) {
        let Some(topic) = self.directory.get(key) else { return };
        let Some(home) = topic.home.as_ref() else { return };
        let (keeps, removes) = (keeps(&topic.spec), run.any(Flags::RETAIN_REMOVE));
        let decides = topic.spec.retain || topic.spec.series || removes || run.any(Flags::RETAIN);
        let nothing_to_remove = removes && home.stream().is_none() && home.value().is_none();
        if !(keeps || decides) || nothing_to_remove {
            return;
        }
        if home.stream().is_none() {
            self.declare(now, key);
        }
        let Some(home) = self.directory.get(key).and_then(|topic| topic.home.as_ref()) else {
            return;
        };
        let Some(stream) = home.stream() else { return };
        let about = Circumstances {
            time_ms: now.wall_ms,
            author: publisher.name.filter(|_| keeps).cloned(),
            amends: publisher.amends,
            is_value_alone: !keeps,
            follows: None,
        };
        let last = run.version() + run.len() as u64 - 1;
        if keeps && removes && run.len() > 1 {
            return self.write_apart(key, stream, run, &about);
        }
        let record = match home.value() {
            _ if keeps => put(stream, run, home.first_kept().unwrap_or(run.version()), &about),
            Some(value) => put(stream, value, value.version(), &about),
            None => StoreRecord::Trim { stream, up_to: last },
        };
        if let Some(durable) = self.durable.as_deref_mut() {
            durable.journal.append(record, RecordSubject::Topic(key, stream));
        }
    }

    /// Each message of a run for itself, as they are kept: so each has the same place whenever it
    /// is said.
    fn write_apart(&mut self, key: Key, stream: u64, run: &Run, about: &Circumstances) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let home = self.directory.get(key).and_then(|topic| topic.home.as_ref());
        let from = home.and_then(|home| home.first_kept()).unwrap_or(run.version());
        for message in run.messages() {
            let record = put(stream, &copy_of(run, &message), from, about);
            durable.journal.append(record, RecordSubject::Topic(key, stream));
        }
    }

    /// Some of what a topic kept, or its value, has become too old; `before` was the first version.
    pub(crate) fn write_trim(&mut self, key: Key, before: Option<u64>) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let home = self.directory.get(key).and_then(|topic| topic.home.as_ref());
        let Some((home, stream)) = home.and_then(|home| Some((home, home.stream()?))) else {
            return;
        };
        let after = home.keeps_from();
        if before.is_some_and(|before| before < after) {
            let up_to = after - 1;
            durable
                .journal
                .append(StoreRecord::Trim { stream, up_to }, RecordSubject::Topic(key, stream));
        }
    }

    /// The topic is gone, or is not persistent any more.
    pub(crate) fn end_stream(&mut self, key: Key) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let home = self.directory.get_mut(key).and_then(|topic| topic.home.as_mut());
        if let Some(stream) = home.and_then(|home| home.end_stream()) {
            durable.journal.append(StoreRecord::Drop { stream }, RecordSubject::Gone(stream));
        }
    }

    /// Appends again what the store has refused: of a topic everything. Its stream stays the same,
    /// so that its end is its end whatever else has been refused.
    pub(super) fn append_again(&mut self, now: Now, subject: RecordSubject) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let Durability { journal, numbers, fences, .. } = durable;
        match subject {
            RecordSubject::Numbers => numbers.append_again(self.home.next_number(), journal),
            RecordSubject::Fences => fences.append_again(self.home.last_fence(), journal),
            RecordSubject::Gone(stream) => {
                journal.append(StoreRecord::Drop { stream }, subject);
            }
            RecordSubject::View(number) => self.append_view(number),
            RecordSubject::Topic(key, stream) => {
                let home = self.directory.get(key).and_then(|topic| topic.home.as_ref());
                if home.and_then(|home| home.stream()) != Some(stream) {
                    // It has ended, which has been appended or is going to be.
                    return;
                }
                self.declare(now, key);
                self.write_all(now, key);
            }
        }
    }

    /// Everything that a topic keeps.
    fn write_all(&mut self, now: Now, key: Key) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let Some(topic) = self.directory.get_mut(key) else { return };
        let Some(home) = topic.home.as_mut() else { return };
        let Some(stream) = home.stream() else { return };
        let from = home.keeps_from();
        let subject = RecordSubject::Topic(key, stream);
        let mut append = |record| durable.journal.append(record, subject);
        append(StoreRecord::Trim { stream, up_to: from.saturating_sub(1) });
        let kept = home.series().into_iter().flat_map(|series| series.runs());
        let first = kept.clone().next().map(Kept::first);
        if let Some(value) = home.value()
            && !kept.clone().any(|kept| kept.has(value.version()))
        {
            append(put(stream, value, from, &alone(now)));
        }
        for kept in kept {
            append(put(stream, &kept.run, from, &circumstances(kept)));
        }
        if home.value().is_none() && first.is_some() {
            // Or some of these would be taken for the value.
            let destination = Destination { kind: Kind::Topic, path: topic.path.clone() };
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            let mut run = Run::single(destination, now.time, &[], &[], meta);
            run.set_version(home.take_version());
            append(put(stream, &run, from, &alone(now)));
        }
    }
}

fn alone(now: Now) -> Circumstances {
    Circumstances {
        time_ms: now.wall_ms,
        author: None,
        amends: None,
        is_value_alone: true,
        follows: None,
    }
}

fn circumstances(kept: &Kept) -> Circumstances {
    Circumstances {
        is_value_alone: false,
        time_ms: kept.time_ms,
        author: kept.author.clone(),
        amends: kept.amends,
        follows: None,
    }
}

fn put(stream: u64, run: &Run, keep_from: u64, about: &Circumstances) -> StoreRecord {
    let (first, count) = (run.version(), run.len() as u32);
    let about = &Circumstances { follows: run.follows(), ..about.clone() };
    StoreRecord::Put { stream, first, count, keep_from, bytes: encode(run, about) }
}

fn describe(now: Now, topic: &Topic) -> Vec<u8> {
    let home = topic.home.as_ref();
    let created = home.is_some_and(|home| home.is_created());
    let age = home.and_then(|home| home.retirement()).map(|retirement| retirement.age(now.time));
    let age = age.map_or(0, |age| age.as_millis() as u64);
    let made_ms = now.wall_ms.saturating_sub(age);
    // What the configuration says may be something else in another life.
    let spec = if created { topic.spec.to_json() } else { Vec::new() };
    Description { created, made_ms, spec: &spec }.encode()
}
