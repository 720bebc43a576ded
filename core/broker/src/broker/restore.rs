//! Persistent topics and views come back: wiring between what the store has and the rooms that keep it.
//!
//! Relies on being called before any other call of the broker. Numbers are not those of the run of the server
//! before, since the number of shards may be another; versions are, and go on above all that were
//! ever given. Invariant: a topic is again what the store says, and the store goes on to say so.

use std::sync::Arc;

use tiderace_base::{Key, MemoryUse, Now, Span};
use tiderace_topics::Path;
use tiderace_views::View;
use tiderace_wire::TopicSpec;

use super::Broker;
use crate::collections::Map;
use crate::home::displaced::Displaced;
use crate::home::retirement::Retirement;
use crate::home::series::Kept;
use crate::home::topic::HomeTopic;
use crate::journal::{
    Description, KeptView, NumbersGiven, RestoredRun, RestoredTopic, Unrestorable, read_messages,
    read_views,
};
use crate::places::REGISTRAR;
use crate::runs::{holds_messages, keeps, last_of, retain};

impl Broker {
    /// There is a store; streams below `streams_from` are in use, and what
    /// [`NumbersGiven::reserve`] says has been stored. Topics follow, by [`Broker::restore`],
    /// before anything else.
    pub fn begin_durability(&mut self, streams_from: u64, given: &NumbersGiven) {
        for about in &self.options.durables.configured {
            self.home.feeds_mut().configure(&about.queue);
        }
        let (numbers, fences) = given.highest();
        self.home.begin_above(numbers, fences);
        self.sessions.set_earlier_epochs(given.epochs(self.options.shards));
        self.journal.begin(self.loopback.here().shard, self.options.shards, streams_from, given);
        self.home.queues_mut().set_store();
    }

    /// All topics are back.
    pub fn end_restoring(&mut self) {
        self.home.feeds_mut().end_restoring();
        self.journal.end_restoring(self.home.next_number());
    }

    /// Takes a topic back; one whose home is another shard is not looked at.
    ///
    /// # Errors
    /// When it cannot be understood; it stays in the store as it is.
    pub fn restore(&mut self, now: Now, restored: &RestoredTopic<'_>) -> Result<(), Unrestorable> {
        let Ok(path) = Path::parse(restored.path) else {
            return Err(Unrestorable::Path(restored.path.to_owned()));
        };
        if self.options.home_of(&path) != self.loopback.here() {
            return Ok(());
        }
        if let Some(upstream) = self.options.upstream_of(&path) {
            // Its versions are not those of the upstream.
            return Err(Unrestorable::Elsewhere { path, upstream: upstream.name.clone() });
        }
        let unknown = || Unrestorable::Description { path: path.clone() };
        let about = Description::decode(restored.description).ok_or_else(unknown)?;
        let spec = match about.created {
            true => self.restored_spec(&path, about.spec)?,
            false => self.options.topic(&path).clone(),
        };
        let number = |run: &mut _| self.home.number_restored(run);
        let messages = read_messages(now, &path, restored, number)?;
        let key = self.directory.ensure(now, &path);
        self.forget_kept(key);
        let mut home = HomeTopic::restored(about.created, restored.version, restored.stream);
        self.restore_last(&mut home, &spec, restored, &messages);
        let newest_ms = messages.last().map_or(about.made_ms, |(_, about, _)| about.time_ms);
        keep_messages(&mut home, &spec, messages);
        let mut bytes = 0;
        if let Some(series) = home.series_mut() {
            series.trim(spec.history, now.wall_ms, &mut Displaced::default());
            bytes += series.bytes();
        }
        if let Some(removal) = &spec.removal {
            let ago = |then_ms: u64| Span::from_millis(now.wall_ms.saturating_sub(then_ms));
            let retirement = Retirement::restored(
                now.time,
                ago(about.made_ms),
                ago(newest_ms),
                removal.heeds_session(),
            );
            home.set_retirement(retirement);
        }
        let Some(topic) = self.directory.get_mut(key) else { return Ok(()) };
        topic.spec = spec.clone();
        self.metrics.retained += u64::from(home.value().is_some());
        self.metrics.topics_restored += 1;
        self.memory.charge(MemoryUse::Values, home.retained_bytes() + bytes);
        if !spec.persistent {
            // The configuration does not say so any more.
            self.journal.end_stream(&mut home);
        }
        self.home.restore_topic(topic, home);
        Ok(())
    }

    /// Which number a topic's last message had, as far as that is known.
    fn restore_last(
        &mut self,
        home: &mut HomeTopic,
        spec: &TopicSpec,
        restored: &RestoredTopic<'_>,
        messages: &[RestoredRun],
    ) {
        let last = messages.last().map(|(run, ..)| run);
        home.restore_last(last.map_or(0, |run| last_of(run)));
        let version = last.map_or(0, |run| run.version().saturating_add(run.len() as u64) - 1);
        let earlier = self.home.earlier_numbers();
        if home.last() <= earlier {
            self.journal.note_restored(home.last());
        }
        if !(spec.retain || keeps(spec)) || version < restored.version {
            // There were others, of which nothing is stored.
            home.restore_last(home.last().max(earlier));
        }
    }

    fn restored_spec(&mut self, path: &Path, text: &[u8]) -> Result<Arc<TopicSpec>, Unrestorable> {
        if let Some(known) = self.journal.restored_spec(text) {
            return Ok(known);
        }
        let wrong = |error| Unrestorable::Specification { path: path.clone(), error };
        let spec = TopicSpec::parse(text, &TopicSpec::default()).map_err(wrong)?;
        let policy = self.options.topic(path);
        let spec = if spec == **policy {
            policy.clone()
        } else {
            self.directory.specs_mut().share(Arc::new(spec))
        };
        self.journal.note_restored_spec(text, &spec);
        Ok(spec)
    }

    /// Of two streams of one topic the newer one counts: what came of the other is forgotten.
    fn forget_kept(&mut self, key: Key) {
        let Some(topic) = self.directory.get(key) else { return };
        let Some(home) = self.home.topic_mut(topic) else { return };
        self.journal.end_stream(home);
        if let Some(series) = home.end_series() {
            self.memory.refund(MemoryUse::Values, series.bytes());
        }
        self.memory.refund(MemoryUse::Values, home.retained_bytes());
        self.metrics.retained -= u64::from(home.replace_value(None).is_some());
    }

    /// Takes views back, found in the store's named values, after [`Broker::begin_durability`]. The
    /// registrar says which do not come back.
    pub fn restore_views<'a>(
        &mut self,
        values: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Vec<Unrestorable> {
        let (found, last) = read_views(values);
        self.views.kept_until(last);
        let mut problems = Vec::new();
        let (found, unreadable): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
        problems.extend(unreadable.into_iter().filter_map(Result::err));
        let found: Vec<KeptView> = found.into_iter().filter_map(Result::ok).collect();
        // Of two of one name the newer one counts: that the older one is gone was not stored.
        let newest: Map<Path, u64> =
            found.iter().map(|view| (view.name.clone(), view.number)).collect();
        let is_registrar = self.loopback.here() == REGISTRAR;
        for KeptView { number, name, text } in found {
            let is_configured = self.options.configures_view(&name);
            if is_configured || newest.get(&name) != Some(&number) {
                if is_registrar {
                    self.journal.append_view(number, None);
                }
                if is_configured {
                    problems.push(Unrestorable::ViewConfigured(name));
                }
                continue;
            }
            match View::parse(&text) {
                Ok(view) => self.views.take_back(name, Arc::new(view), number),
                Err(error) => problems.push(Unrestorable::View { name, error: Box::new(error) }),
            }
        }
        if !is_registrar {
            problems.clear();
        }
        problems
    }
}

/// Gives a topic the messages that it kept, the last of them as its value if it is one.
fn keep_messages(home: &mut HomeTopic, spec: &TopicSpec, messages: Vec<RestoredRun>) {
    let always = spec.retain || spec.series;
    for (messages, about, gone) in messages {
        let value = retain(home.replace_value(None), &messages, always);
        home.replace_value(value);
        if keeps(spec) && !about.is_value_alone && holds_messages(&messages) {
            let before = messages.first().saturating_sub(1);
            let series = home.begin_series(before);
            series.push_run(Kept {
                from: gone.min(messages.len()),
                run: messages,
                time_ms: about.time_ms,
                author: about.author,
                amends: about.amends,
            });
        }
    }
}
