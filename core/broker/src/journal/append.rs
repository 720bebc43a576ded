//! What is appended when a persistent topic changes.
//!
//! Relies on `topic` and `series` for what a topic keeps. Invariant: a topic's stream holds its
//! value and what its specification keeps, and nothing else for longer than until the next record.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_journal::{RecordBody, RecordSubject, StoreRecord, StoredKind};
use tiderace_topics::Path;
use tiderace_views::View;
use tiderace_wire::{Destination, Flags, Kind, Meta, Run};

use super::codec::{Circumstances, Description, encode};
use super::{HomeJournal, OpenJournal};
use crate::home::series::Kept;
use crate::home::topic::HomeTopic;
use crate::publisher::Publisher;
use crate::runs::copy_of;
use crate::runs::keeps;
use crate::topic::Topic;

/// What is kept of a subject now, for the journal to append it again.
#[derive(Debug)]
pub(crate) struct KeptSubject<'a> {
    /// The number of the home's next message.
    pub(crate) next_number: u64,
    /// The last fence that was given to a holder of a lock.
    pub(crate) last_fence: u64,
    /// The topic, with what its home keeps, if the subject is one that is there.
    pub(crate) topic: Option<(&'a Topic, &'a mut HomeTopic)>,
    /// The view, if the subject is one that is there.
    pub(crate) view: Option<(&'a Path, &'a View)>,
    /// The path of the queue, its stream, the version of its last message and its description, if the subject is one that
    /// is there.
    pub(crate) queue: Option<(&'a Path, u64, u64, Vec<u8>)>,
}

impl HomeJournal {
    /// A persistent topic is there, or has become something else. The home's next message will have that number.
    pub(crate) fn declare(
        &mut self,
        now: Now,
        (key, topic, home): (Key, &Topic, &mut HomeTopic),
        next_number: u64,
    ) {
        let Some(open) = self.open.as_deref_mut() else { return };
        if topic.spec.persistent {
            open.declare(now, (key, topic, home), next_number);
        }
    }

    /// A run of a persistent topic has been numbered, and is its value or kept by now. Gives the
    /// record that its confirmation waits for; also if the run adds nothing, for what it confirms
    /// may be what an earlier record says.
    pub(crate) fn append_run(
        &mut self,
        now: Now,
        (key, topic, home): (Key, &Topic, &mut HomeTopic),
        next_number: u64,
        run: &Arc<Run>,
        publisher: &Publisher<'_>,
    ) -> u64 {
        let Some(open) = self.open.as_deref_mut() else { return 0 };
        open.reserve_numbers(next_number);
        open.append_messages(now, (key, topic, home), next_number, run, publisher);
        open.journal.last()
    }

    /// Some of what a topic kept, or its value, has become too old; `before` was the first version.
    pub(crate) fn append_trim(&mut self, key: Key, home: &HomeTopic, before: Option<u64>) {
        let Some(open) = self.open.as_deref_mut() else { return };
        let Some(stream) = home.stream() else { return };
        let after = home.keeps_from();
        if before.is_some_and(|before| before < after) {
            let record = StoreRecord::Trim { stream, up_to: after - 1 };
            open.journal.append(record, RecordSubject::Topic(key, stream));
        }
    }

    /// The topic is gone, or is not persistent any more.
    pub(crate) fn end_stream(&mut self, home: &mut HomeTopic) {
        let Some(open) = self.open.as_deref_mut() else { return };
        if let Some(stream) = home.end_stream() {
            open.journal.append(StoreRecord::Drop { stream }, RecordSubject::Gone(stream));
        }
    }

    /// Appends again what the store has refused: of a topic everything. Its stream stays the same,
    /// so that its end is its end whatever else has been refused.
    pub(crate) fn append_again(&mut self, now: Now, subject: RecordSubject, kept: KeptSubject<'_>) {
        let Some(open) = self.open.as_deref_mut() else { return };
        let OpenJournal { journal, numbers, fences, .. } = open;
        match subject {
            RecordSubject::Numbers => numbers.append_again(kept.next_number, journal),
            RecordSubject::Fences => fences.append_again(kept.last_fence, journal),
            RecordSubject::Gone(stream) => {
                journal.append(StoreRecord::Drop { stream }, subject);
            }
            RecordSubject::Settled(stream, first, last) => {
                journal.append_settled(stream, first, last);
            }
            RecordSubject::Queue(key, stream) => {
                let queue = kept.queue.filter(|(_, it, ..)| *it == stream);
                if let Some((path, _, version, description)) = queue {
                    open.declare_queue((key, stream, version), path, description);
                }
            }
            RecordSubject::View(number) => self.append_view(number, kept.view),
            RecordSubject::Topic(key, stream) => {
                let topic = kept.topic.filter(|(_, home)| home.stream() == Some(stream));
                // Otherwise it has ended, which has been appended or is going to be.
                if let Some((topic, home)) = topic {
                    if topic.spec.persistent {
                        open.declare(now, (key, topic, home), kept.next_number);
                    }
                    open.append_all(now, (key, topic, home));
                }
            }
        }
    }
}

impl OpenJournal {
    /// Says what a persistent topic is; it has a stream from then on.
    fn declare(
        &mut self,
        now: Now,
        (key, topic, home): (Key, &Topic, &mut HomeTopic),
        next_number: u64,
    ) {
        self.reserve_numbers(next_number);
        let stream = match home.stream() {
            Some(stream) => stream,
            None => {
                let stream = self.streams.create();
                home.set_stream(stream);
                stream
            }
        };
        let record = StoreRecord::Declare {
            stream,
            kind: StoredKind::Topic,
            path: topic.path.clone(),
            description: describe(now, topic, home),
            version: home.last_version(),
        };
        self.journal.append(record, RecordSubject::Topic(key, stream));
    }

    fn append_messages(
        &mut self,
        now: Now,
        (key, topic, home): (Key, &Topic, &mut HomeTopic),
        next_number: u64,
        run: &Arc<Run>,
        publisher: &Publisher<'_>,
    ) {
        let (keeps, removes) = (keeps(&topic.spec), run.any(Flags::RETAIN_REMOVE));
        let decides = topic.spec.retain || topic.spec.series || removes || run.any(Flags::RETAIN);
        let nothing_to_remove = removes && home.stream().is_none() && home.value().is_none();
        if !(keeps || decides) || nothing_to_remove {
            return;
        }
        if home.stream().is_none() && topic.spec.persistent {
            self.declare(now, (key, topic, home), next_number);
        }
        let Some(stream) = home.stream() else { return };
        let about = Circumstances {
            time_ms: now.wall_ms,
            author: publisher.name.filter(|_| keeps).cloned(),
            amends: publisher.amends,
            is_value_alone: !keeps,
            follows: None,
        };
        let subject = RecordSubject::Topic(key, stream);
        let from = home.first_kept().unwrap_or(run.version());
        if keeps && removes && run.len() > 1 {
            // Each message for itself, as they are kept: so each has the same place whenever it is appended.
            for message in run.messages() {
                let record = put(stream, &copy_of(run, &message), from, &about);
                self.journal.append(record, subject);
            }
            return;
        }
        let last = run.version() + run.len() as u64 - 1;
        let record = match home.value() {
            _ if keeps => put(stream, run, from, &about),
            Some(value) => put(stream, value, value.version(), &about),
            None => StoreRecord::Trim { stream, up_to: last },
        };
        self.journal.append(record, subject);
    }

    /// Everything that a topic keeps.
    fn append_all(&mut self, now: Now, (key, topic, home): (Key, &Topic, &mut HomeTopic)) {
        let Some(stream) = home.stream() else { return };
        let from = home.keeps_from();
        let subject = RecordSubject::Topic(key, stream);
        // Each message says from where on the topic keeps some: a record that only took away would stay if the one with
        // the value were left out, and the value before it would be lost.
        let before = self.journal.last();
        let mut append = |record| self.journal.append(record, subject);
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
        if self.journal.last() == before {
            let up_to = from.saturating_sub(1);
            self.journal.append(StoreRecord::Trim { stream, up_to }, subject);
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
    let (bytes, body) = (encode(run, about), run.body_in_file().cloned().map(RecordBody::from));
    StoreRecord::Put { stream, first, count, keep_from, bytes, body }
}

fn describe(now: Now, topic: &Topic, home: &HomeTopic) -> Vec<u8> {
    let created = home.is_created();
    let age = home.retirement().map(|retirement| retirement.age(now.time));
    let age = age.map_or(0, |age| age.as_millis() as u64);
    let made_ms = now.wall_ms.saturating_sub(age);
    // What the configuration says may be something else in another life.
    let spec = if created { topic.spec.to_json() } else { Vec::new() };
    Description { created, made_ms, spec: &spec }.encode()
}
