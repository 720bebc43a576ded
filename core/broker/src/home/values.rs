//! What a home keeps of its topics' messages beside their histories: values and series, and how they are counted.

use std::sync::Arc;

use tiderace_base::{Memory, MemoryUse, Now};
use tiderace_wire::{Flags, Run};

use super::Home;
use crate::BrokerMetrics;
use crate::directory::Directory;
use crate::home::series::Kept;
use crate::home::topic::HomeTopic;
use crate::runs::{retain, value_end};
use crate::topic::Topic;

impl Home {
    /// What is kept of a topic, if anything is.
    #[inline]
    pub(crate) fn topic(&self, topic: &Topic) -> Option<&HomeTopic> {
        self.topics.get(topic)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn topic_mut(&mut self, topic: &Topic) -> Option<&mut HomeTopic> {
        self.topics.get_mut(topic)
    }

    /// Makes a run's last retained message the topic's value, or takes the value away; whether that
    /// is as it was. There is room for it.
    #[inline]
    pub(crate) fn replace_value(
        &mut self,
        topic: &Topic,
        run: &Arc<Run>,
        memory: &Memory,
        metrics: &mut BrokerMetrics,
    ) -> bool {
        let always = topic.spec.retain || topic.spec.series;
        let Some(home) = self.topics.get_mut(topic) else { return false };
        if !always && !run.any(Flags::RETAIN) && !run.any(Flags::RETAIN_REMOVE) {
            return home.value().is_some() || home.value_end().is_some();
        }
        let before = home.retained_bytes();
        let after = retain(home.value().cloned(), run, always);
        let bytes = after.as_ref().map_or(0, |value| HomeTopic::bytes_with(value));
        memory.change(MemoryUse::Values, before, bytes);
        metrics.retained += u64::from(after.is_some());
        metrics.retained -= u64::from(home.value().is_some());
        if after.is_none() {
            // A value may have come and gone within the run.
            let ends = home.value().is_some() || run.len() > 1;
            if ends {
                home.set_value_end(value_end(run).map(Arc::new));
            }
            home.replace_value(None).into_iter().for_each(|before| self.displaced.note(before));
            return !ends && home.value_end().is_some();
        }
        let stays = same(home.value(), after.as_ref());
        if let Some(before) = home.replace_value(after) {
            self.displaced.note(before);
        }
        stays
    }

    /// A topic's value is over, and taken away: how many bytes it had.
    pub(crate) fn end_value(&mut self, topic: &Topic) -> usize {
        let value = self.topics.get_mut(topic).and_then(|home| home.replace_value(None));
        let bytes = value.as_ref().map_or(0, |value| HomeTopic::bytes_with(value));
        value.into_iter().for_each(|value| self.displaced.note(value));
        bytes
    }

    /// Keeps messages in a topic's series; `before` is the number of its message before them.
    pub(crate) fn push_series(
        &mut self,
        topic: &Topic,
        kept: Kept,
        before: u64,
        (now, memory): (Now, &Memory),
    ) {
        let Some(home) = self.topics.get_mut(topic) else { return };
        let series = home.begin_series(before);
        let before = series.bytes();
        series.push_run(kept);
        series.trim(topic.spec.history, now.wall_ms, &mut self.displaced);
        memory.change(MemoryUse::Values, before, series.bytes());
    }

    /// Gives up what a topic's series no longer wants.
    pub(crate) fn trim_series(&mut self, topic: &Topic, now: Now, memory: &Memory) {
        let series = self.topics.get_mut(topic).and_then(|home| home.series_mut());
        let Some(series) = series else { return };
        let before = series.bytes();
        series.trim(topic.spec.history, now.wall_ms, &mut self.displaced);
        memory.change(MemoryUse::Values, before, series.bytes());
    }

    /// Gives up a topic's series.
    pub(crate) fn end_series(&mut self, topic: &Topic, memory: &Memory) {
        let series = self.topics.get_mut(topic).and_then(|home| home.end_series());
        let Some(series) = series else { return };
        memory.refund(MemoryUse::Values, series.bytes());
        series.into_runs().for_each(|run| self.displaced.note(run));
    }

    /// A call is over: large runs that it gave up and that somebody still has are counted.
    #[inline]
    pub(crate) fn count_displaced(&mut self, directory: &Directory, memory: &Memory) {
        if !self.displaced.is_empty() {
            let topics = &self.topics;
            self.displaced.end_call(memory, |run| {
                let topic = directory.find(&run.destination().path);
                let topic = topic.and_then(|key| topics.find(directory, key));
                topic.is_some_and(|home| home.has_run(run))
            });
        }
    }

    /// Forgets replaced values that nobody has any more.
    pub(crate) fn sweep_displaced(&mut self, memory: &Memory) {
        self.displaced.sweep(memory);
    }
}

/// Whether both are the same value.
fn same(one: Option<&Arc<Run>>, other: Option<&Arc<Run>>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if Arc::ptr_eq(one, other))
}
