//! As a home: which shards listen to which topics, and what a new subscriber is told first.
//!
//! Interest is known by shard, not by subscriber. Invariant: a shard that was answered gets every
//! message numbered since, until it says that nobody there listens any more.

use tiderace_base::{Key, Now};
use tiderace_topics::{Path, Pattern};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{Answer, Ask, Interest, SubscribeRequestId, ToSubscriber};
use crate::places::Place;

impl HomeSide<'_> {
    /// At a topic's home: a shard begins or ends to listen.
    pub(crate) fn interest(
        &mut self,
        now: Now,
        from: Place,
        path: Path,
        interest: Interest,
        effects: &mut Effects,
    ) {
        let key = self.directory.ensure(now, &path);
        self.interest_in(now, from, key, interest, effects);
    }

    /// The same, of a topic that has been found.
    pub(crate) fn interest_in(
        &mut self,
        now: Now,
        from: Place,
        key: Key,
        interest: Interest,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get_mut(key) else {
            return;
        };
        topic.touch(now.time);
        let home = self.home.topic_or_new(topic);
        let new = home.set_interested(from, interest.on);
        home.note_recorder(now.time, from, interest.recorded);
        if new {
            self.presence_watch(from, key, effects);
        }
        if let Some(Ask { request, first, .. }) = interest.ask {
            let first = self.home.first_by_rules(first);
            self.report_unknown(now, key, request.session, effects);
            let path = self.directory.get(key).map(|topic| topic.path.clone());
            let given = path.is_some_and(|path| self.is_as_expected(&request, &path));
            let topic = self.topic(key).filter(|_| given);
            let answer = self.beginning(now, topic.into_iter(), first, |_| 0);
            self.answer(from, request, answer, effects);
        }
    }

    /// At every home: a shard begins or ends to listen to a pattern.
    pub(crate) fn pattern_interest(
        &mut self,
        now: Now,
        from: Place,
        pattern: &Pattern,
        interest: Interest,
        effects: &mut Effects,
    ) {
        self.home.count_pattern(from, pattern, interest.on);
        if let Some(ask) = &interest.ask {
            self.report_nothing(from, pattern, ask.request, effects);
        }
        // Asked before this subscription counts: of what was not recorded nothing is known to be complete.
        let answer =
            interest.ask.map(|ask| (ask.request, self.pattern_beginning(now, pattern, &ask)));
        if interest.recorded {
            self.home.count_recorded(from, pattern, interest.on, now.time);
        }
        if let Some((request, answer)) = answer {
            self.answer(from, request, answer, effects);
        }
    }

    pub(crate) fn answer(
        &mut self,
        to: Place,
        request: SubscribeRequestId,
        answer: Answer,
        effects: &mut Effects,
    ) {
        self.send(to, ToSubscriber::SubscribeAck { request, answer }, effects);
    }
}
