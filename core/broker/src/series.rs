//! What a topic keeps besides its value, at its home: messages are taken in and given up, read and amended.
//!
//! Relies on [`Series`] for what is kept. Invariant: what a topic keeps is what its specification says, never
//! less but for age.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now};
use tiderace_wire::{Events, HistoryQuery, NewValue, OperationResult, Run, properties};

use crate::Action;
use crate::effects::Effects;
use crate::home::series::Kept;
use crate::home_side::HomeSide;
use crate::publisher::Published;
use crate::publisher::Publisher;
use crate::requester::{Done, Operated, Requester};
use crate::runs::{holds_messages, keeps};

/// The property of an event that replaces another: the version of that.
const AMENDS: &str = "amends";

impl HomeSide<'_> {
    /// At its home: keeps a run that was just given its versions.
    ///
    /// `before` is the number of the topic's message before it.
    pub(crate) fn append_series(
        &mut self,
        now: Now,
        key: Key,
        run: &Arc<Run>,
        before: u64,
        publisher: &Publisher<'_>,
    ) {
        let Some(topic) = self.directory.get(key).filter(|_| holds_messages(run)) else { return };
        let kept = Kept {
            run: run.clone(),
            from: 0,
            time_ms: now.wall_ms,
            author: publisher.name.cloned(),
            amends: publisher.amends,
        };
        self.home.push_series(topic, kept, before, (now, self.memory));
    }

    /// At its home: gives up what has become too old.
    pub(crate) fn sweep_series(&mut self, now: Now, key: Key) {
        let Some(topic) = self.directory.get(key) else { return };
        let Some(home) = self.home.topic_mut(topic) else { return };
        let first = home.first_kept();
        if home.series().is_none() {
            return;
        }
        self.home.trim_series(topic, now, self.memory);
        if let Some(home) = self.home.topic_mut(topic) {
            self.journal.append_trim(key, home, first);
        }
    }

    /// At its home: all that a topic kept is gone.
    pub(crate) fn drop_series(&mut self, key: Key) {
        if let Some(topic) = self.directory.get(key) {
            self.home.end_series(topic, self.memory);
        }
    }

    /// What reading so many of a topic's messages costs at most.
    pub(crate) fn price_of_history(&self, path: &tiderace_topics::Path, limit: u32) -> u64 {
        let series = self.topic_named(path).and_then(|topic| topic.home()?.series());
        series.map_or(0, |series| series.price(limit))
    }

    /// At its home: reads what a topic keeps.
    pub(crate) fn read_history(
        &mut self,
        now: Now,
        requester: &Requester,
        query: &HistoryQuery,
    ) -> Operated {
        let path = &query.path;
        let unknown = || {
            let reason = format!(
                "there is no topic {path}, or it keeps nothing; create it with a history or as a time series"
            );
            Close::new(CloseCode::TopicUnknown, reason)
        };
        let policy = self.options.topic(path).clone();
        let key = self.directory.find(path);
        let topic = key.and_then(|key| self.topic(key)).filter(|topic| topic.is_known());
        let spec = topic.map_or(&policy, |topic| topic.spec()).clone();
        self.may_operate(requester, Action::Subscribe, path)?;
        topic.filter(|topic| keeps(topic.spec())).ok_or_else(unknown)?;
        if let Some(key) = key.filter(|_| !spec.history.age.is_zero()) {
            self.sweep_series(now, key);
        }
        let series = key.and_then(|key| self.topic(key)?.home()?.series());
        let events = series.map_or_else(Events::default, |series| series.read(query, spec.series));
        Ok(OperationResult::Events(Box::new(events)))
    }

    /// At its home: replaces an event of a time series.
    pub(crate) fn amend(
        &mut self,
        now: Now,
        requester: &Requester,
        path: &tiderace_topics::Path,
        version: u64,
        value: &NewValue,
        effects: &mut Effects,
    ) -> Result<Done, Close> {
        let policy = self.options.topic(path).clone();
        let key = self.directory.find(path);
        let topic = key.and_then(|key| self.topic(key)).filter(|topic| topic.is_known());
        let spec = topic.map_or(&policy, |topic| topic.spec()).clone();
        self.may_operate(requester, Action::Publish, path)?;
        self.may_depend_on(requester, path, None)?;
        let known = topic.and_then(|topic| topic.home()?.series()?.event(version));
        let (Some(key), Some(event), true) = (key, known, spec.series) else {
            let reason = format!("{path} is no time series, or has no event {version} any more");
            return Err(Close::new(CloseCode::TopicUnknown, reason));
        };
        let original = event.amends.unwrap_or(version);
        let mut block = value.properties.to_vec();
        properties::append(&mut block, AMENDS, itoa::Buffer::new().format(original));
        let run = self.run_of(now, path, &block, &value.body);
        crate::condition::check_values(&spec, &run, self.work)?;
        let Published { version, record, fed } =
            self.publish_here(now, requester, key, run, Some(original), effects)?;
        Ok(Done { result: OperationResult::Updated { version }, record, fed })
    }
}
