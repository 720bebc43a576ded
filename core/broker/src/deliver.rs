//! From a run to the backlogs of this shard's subscribers; `taking.rs` goes on from there.
//!
//! Also the policy part of slow consumers: what is done with a message that finds its session's
//! backlog above the mark.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Now, SessionId};
use tiderace_queues::{Settlement, is_private};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Kind, Run, SharedRun, SubscriptionKey, TopicSpec};

use crate::Action;
use crate::authorise::Caller;
use crate::delivery::offer::Offer;
use crate::effects::Effects;
use crate::messages::ToHome;
use crate::places::Place;
use crate::price::{DELIVERY, FREE_DELIVERIES};
use crate::runs::copy_of;
use crate::runs::last_of;
use crate::session::Session;
use crate::session_side::SessionSide;
use crate::subscriber_list::{Subscriber, SubscriberList};

impl SessionSide<'_> {
    /// Puts a run of a topic into the backlogs of this shard's subscribers. Without a specification the
    /// topic is what the configuration says of all.
    pub(crate) fn fan_out(
        &mut self,
        now: Now,
        run: Arc<Run>,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let key = self.directory.ensure(now, &run.destination().path);
        let known = self.directory.get(key).map(|topic| &topic.spec);
        let usual = &self.options.topic_default;
        if spec.is_none() && known.is_some_and(|known| Arc::ptr_eq(known, usual)) {
            return self.fan_out_topic(now, key, run, effects);
        }
        let spec = spec.unwrap_or_else(|| usual.clone());
        self.set_spec(now, key, spec, effects);
        self.fan_out_topic(now, key, run, effects);
    }

    /// The same for a topic that has been looked up.
    pub(crate) fn fan_out_topic(
        &mut self,
        now: Now,
        key: Key,
        run: Arc<Run>,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get_mut(key) else { return };
        topic.touch(now.time);
        self.fanout.heard_mut().note(run.home(), last_of(&run));
        if !self.fanout.is_found(topic) {
            self.refresh_pattern_subscribers(key);
        }
        let Some(topic) = self.directory.get(key) else { return };
        let Some(known) = self.fanout.subscribers_mut(topic) else { return };
        let spec = &topic.spec;
        let is_plain = spec.conflation.interval.is_zero() && !run.any(Flags::EXPIRES);
        let offer = Offer {
            topic: key,
            priority: spec.priority,
            is_plain,
            len: run.len() as u32,
            reached: last_of(&run),
        };
        let shared = if known.wants_deltas(spec) {
            let previous = known.replace_previous(Some(newest(&run)));
            Rc::new(SharedRun::after(run, previous).counted(self.memory))
        } else {
            known.replace_previous(None);
            Rc::new(SharedRun::new(run).counted(self.memory))
        };
        // Nothing below adds subscribers.
        let lists = known.take_lists();
        let (exact, matching) = (lists.0.as_slice(), lists.1.as_slice());
        let count = exact.len() + matching.len();
        for subscriber in exact.iter().chain(matching) {
            self.offer(now, offer, *subscriber, &shared, effects);
        }
        effects.note_fanned_out(&shared);
        if count > FREE_DELIVERIES {
            self.work.charge_at(now, DELIVERY * count as u64);
        }
        let topic = self.directory.get(key);
        if let Some(known) = topic.and_then(|topic| self.fanout.subscribers_mut(topic)) {
            known.put_lists(lists);
        }
    }

    /// Looks up anew which pattern subscriptions the topic has, if patterns have changed.
    pub(crate) fn refresh_pattern_subscribers(&mut self, key: Key) {
        let Some(topic) = self.directory.get(key) else { return };
        if self.fanout.is_found(topic) {
            return;
        }
        let mut found = SubscriberList::None;
        let asked = self.with_pattern_subscribers(&topic.path, |subscriber| found.push(subscriber));
        self.fanout.set_by_pattern(topic, found);
        if asked > FREE_DELIVERIES {
            self.work.charge(DELIVERY * asked as u64);
        }
    }

    /// Calls for each subscription here that brings a topic by a pattern; for how many that was asked.
    pub(crate) fn with_pattern_subscribers(
        &self,
        path: &Path,
        mut found: impl FnMut(Subscriber),
    ) -> usize {
        let mut asked = 0;
        let (sessions, options) = (&self.sessions, self.options);
        let (private, shard) = (is_private(path), self.shard);
        self.fanout.patterns().of(path, &mut |subscriber| {
            asked += 1;
            let record = sessions.get(subscriber.session);
            let principal = record.and_then(|record| record.principal.as_ref());
            let allowed = principal.is_some_and(|principal| {
                let Key { slot, generation } = subscriber.session;
                let session = SessionId { shard, slot, generation };
                options.may(Caller { session, principal }, Action::Subscribe, Kind::Topic, path)
            });
            // Either question is asked of the subscription only where it matters.
            let looks = private || subscriber.flags.several();
            let brings = |record: &Session| record.brings(subscriber.key, subscriber.target, path);
            if allowed && (!looks || record.is_some_and(brings)) {
                found(*subscriber);
            }
        });
        asked
    }

    /// Sends a settlement to the home of the messages, which may be here.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn settle_towards(
        &mut self,
        home: tiderace_base::ShardId,
        session: SessionId,
        key: SubscriptionKey,
        ranges: Vec<(u64, u64)>,
        settlement: Settlement,
        effects: &mut Effects,
    ) {
        self.send(
            Place::here(home),
            ToHome::Settle { session, key, ranges, settlement, confirm: None },
            effects,
        );
    }
}

/// What the next run of a topic is a change of: the run, or only its last message if that is much
/// less.
pub(crate) fn newest(run: &Arc<Run>) -> Arc<Run> {
    match run.message(run.len().saturating_sub(1)) {
        Some(last) if run.bytes() > 2 * (last.properties.len() + last.body.len()) + 1024 => {
            copy_of(run, &last)
        }
        _ => run.clone(),
    }
}
