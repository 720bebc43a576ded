//! Coming back: what a client missed goes before everything new.
//!
//! Each home answers with what it has numbered since the client left off, if its histories reach
//! back that far, or else with the values there are. The answers and what comes after them are held
//! until all homes have answered, so that the client knows whether something is missing before it
//! gets the first message. Invariants: of each home messages are given in the order of their
//! numbers, each once; a delivery's `reached` never passes a message that was not given.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Now, SessionId, ShardId};
use tiderace_queues::reaches;
use tiderace_topics::Pattern;
use tiderace_wire::{Kind, Position, Reply, Run, SharedRun, Subscribe, SubscriptionKey};

use crate::Action;
use crate::authorise::Caller;
use crate::delivery::backlog::{Pending, Source};
use crate::delivery::recovery::{Recovery, What};
use crate::effects::Effects;
use crate::home::home_topics::TopicAtHome;
use crate::home_side::HomeSide;
use crate::messages::{Answer, First, Missed, SubscribeRequestId};
use crate::places::{Place, key_of};
use crate::runs::last_of;
use crate::session_side::SessionSide;
use crate::subscriber_list::Subscriber;
use crate::subscriber_list::SubscriberFlags;
use crate::together::RecoveriesTogether;

impl SessionSide<'_> {
    /// For a subscription that comes back.
    pub(crate) fn recovery_of(&self, subscribe: &Subscribe) -> Option<Box<Recovery>> {
        let position = subscribe.since.as_ref()?;
        Some(Box::new(Recovery {
            token: subscribe.confirm,
            continues: self.options.come_from_elsewhere(subscribe) || self.continues(position),
            complete: true,
            fits: true,
            held: Vec::new(),
            bytes: 0,
            answers: Vec::new(),
            open: Vec::new(),
        }))
    }

    /// Whether a position tells something of this life of the node, or of an earlier one whose numbers
    /// and versions go on in this one.
    pub(crate) fn continues(&self, position: &Position) -> bool {
        self.epochs().any(|epoch| position.tells_of(epoch))
    }

    /// The epochs of earlier lives whose numbers go on in this one, and then its own.
    fn epochs(&self) -> impl Iterator<Item = u64> {
        self.sessions.earlier_epochs().iter().copied().chain([self.options.epoch])
    }

    /// Up to where a client has received a home's messages, and whether an earlier life numbered the
    /// last of them; `None` if its position tells nothing of the home.
    fn last_received(&self, position: &Position, home: ShardId) -> Option<(u64, bool)> {
        let last = |epoch| position.last_of(epoch, home).map(|number| (number, epoch));
        // Numbers rise from life to life: the highest is the last.
        let (number, epoch) = self.epochs().filter_map(last).max_by_key(|(number, _)| *number)?;
        Some((number, epoch != self.options.epoch))
    }

    /// What a new subscription wants first from a home; `rules_since`: since which rules its client may see what it may see.
    pub(crate) fn first(&self, subscribe: &Subscribe, home: Place, rules_since: u32) -> First {
        let retained = subscribe.retained;
        match &subscribe.since {
            Some(position) => {
                let last = self.last_received(position, home.shard);
                let earlier = last.is_some_and(|(_, earlier)| earlier);
                let after = last.map(|(number, _)| number);
                First::Since { after, earlier, retained, rules_since }
            }
            None if subscribe.replay.is_some() => {
                subscribe.replay.map_or(First::Retained, First::Replay)
            }
            None if retained => First::Retained,
            None => First::Nothing,
        }
    }

    /// On the subscriber's shard: holds a home's answer for a subscription that comes back.
    pub(crate) fn hold_answer(
        &mut self,
        now: Now,
        from: Place,
        request: SubscribeRequestId,
        answer: Answer,
    ) {
        let missed = answer.missed.unwrap_or_else(|| {
            // A home of queues or services: nothing can be missed.
            let runs = Some(Vec::new());
            Box::new(Missed { after: u64::MAX, complete: true, runs, continues: None })
        });
        let (given_up, more) = (missed.runs.is_none(), answer.more);
        let runs = missed.runs.unwrap_or_default().into_iter().map(|run| (run, What::Missed));
        let instead = answer.retained.into_iter().map(|run| (run, What::Instead));
        let mut held = Vec::new();
        for (run, what) in runs.chain(instead) {
            let run = Rc::new(SharedRun::new(run));
            for pending in self.readable(now, request, &run, missed.after) {
                held.push((pending, what));
            }
        }
        let Some(recovery) = self.recovery(request.session, request.key) else {
            return;
        };
        recovery.complete &= missed.complete;
        recovery.continues &= missed.continues.unwrap_or(true);
        if answer.at > 0 {
            recovery.answers.push((from.shard, missed.after, answer.at));
        }
        if more {
            recovery.open.push((from, request));
        }
        if given_up && recovery.fits {
            recovery.give_up();
        }
        for (pending, what) in held {
            recovery.hold(pending, what);
        }
    }

    /// On the subscriber's shard: holds values, such as stand in for what was missed, if that is too much.
    pub(crate) fn hold_values(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        (runs, what): (Vec<Arc<Run>>, What),
        after: u64,
    ) {
        for run in runs {
            let run = Rc::new(SharedRun::new(run));
            for pending in self.readable(now, request, &run, after) {
                if let Some(recovery) = self.recovery(request.session, request.key) {
                    recovery.hold(pending, what);
                }
            }
        }
    }

    /// The parts of a run of old messages that a subscription may have and wants: those above a
    /// number.
    pub(crate) fn readable(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        run: &Rc<SharedRun>,
        after: u64,
    ) -> Vec<Pending> {
        let path = &run.run().destination().path;
        let session = key_of(request.session);
        let record = self.sessions.get(session);
        let principal = record.and_then(|record| record.principal.as_ref());
        let allowed = principal.is_some_and(|principal| {
            let caller = Caller { session: request.session, principal };
            self.options.may(caller, Action::Subscribe, Kind::Topic, path)
                || self.is_owned_target(&request)
        });
        // Another target of the same subscription may have brought them, or will.
        let brings = record.is_some_and(|record| record.brings(request.key, request.target, path));
        if !allowed || !brings || last_of(run.run()) <= after {
            return Vec::new();
        }
        let first = run.run().first();
        let known = (after + 1).saturating_sub(first) as u32;
        let to = Subscriber {
            session,
            key: request.key,
            target: request.target,
            plain: false,
            flags: SubscriberFlags::default(),
        };
        let mut stretches = Vec::new();
        self.wanted(now, to, run, &mut stretches);
        stretches
            .into_iter()
            .filter(|(_, to)| *to > known)
            .map(|(from, to)| Pending {
                key: request.key,
                run: run.clone(),
                from: from.max(known),
                to,
                redeliveries: 0,
                reached: first + u64::from(to) - 1,
                source: Source::Topic,
                is_past: true,
            })
            .collect()
    }

    /// What a subscription that comes back holds, while it does.
    pub(crate) fn recovery(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
    ) -> Option<&mut Recovery> {
        let record = self.sessions.get_mut(key_of(session))?;
        record.subscription_mut(key)?.recovery.as_deref_mut()
    }

    /// All homes have answered: says whether something is missing, and lets go what was held.
    pub(crate) fn finish_recovery(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let mark = self.mark_of(key_of(session));
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return;
        };
        let waiting = record.backlog_bytes();
        let subscription = record.subscription_mut(key);
        let Some(recovery) = subscription.and_then(|known| known.recovery.take()) else {
            return;
        };
        let fits = recovery.fits && waiting + recovery.bytes <= mark;
        for (home, after, _) in &recovery.answers {
            record.make_room(*home, *after);
        }
        let complete = recovery.complete && fits;
        self.say_recovered(session, &recovery, complete, effects);
        for (home, request) in &recovery.open {
            match fits {
                true => self.ask_for_more(*home, *request, None, effects),
                false => self.note_more(*home, *request),
            }
        }
        let answers = recovery.answers.clone();
        for pending in recovery.release(fits) {
            let topic = self.directory.ensure(now, &pending.run.run().destination().path);
            self.push_topic(now, topic, key_of(session), pending, effects);
        }
        for (home, _, at) in answers {
            self.reach(session, home, at, effects);
        }
    }

    /// A subscription that waits for what it missed ends.
    pub(crate) fn abandon_recovery(
        &mut self,
        session: SessionId,
        recovery: &Recovery,
        effects: &mut Effects,
    ) {
        self.say_recovered(session, recovery, false, effects);
        for (home, request) in &recovery.open {
            self.ask_for_more(*home, *request, None, effects);
        }
    }

    fn say_recovered(
        &mut self,
        session: SessionId,
        recovery: &Recovery,
        complete: bool,
        effects: &mut Effects,
    ) {
        self.metrics.recoveries_complete += u64::from(complete);
        self.metrics.recoveries_incomplete += u64::from(!complete);
        let continues = recovery.continues;
        if let Some(token) = recovery.token {
            self.reply(session, Reply::Recovered { token, complete, continues }, effects);
        }
    }

    /// A recoverable subscription begins, or a home is asked whether its session may have it: positions wait
    /// for it.
    pub(crate) fn begin_recovering(
        &mut self,
        session: SessionId,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &Effects,
    ) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let first = recoveries.is_none();
        let replies_before = effects.replies.len();
        recoveries.get_or_insert(RecoveriesTogether { replies_before });
        record.rare.get_or_insert_default().recovering += 1 + u32::from(first);
    }

    /// One recovery less in a session; the last one lets positions go on.
    pub(crate) fn end_recovering(&mut self, session: SessionId, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return;
        };
        let Some(rare) = &mut record.rare else {
            return;
        };
        rare.recovering = rare.recovering.saturating_sub(1);
        if rare.recovering > 0 {
            return;
        }
        let reached = std::mem::take(&mut rare.reached);
        let upstream = std::mem::take(&mut rare.reached_upstream);
        if rare.is_empty() {
            record.rare = None;
        }
        for (home, at) in reached {
            self.reach(session, home, at, effects);
        }
        self.reach_upstream(session, &upstream, effects);
    }

    /// The commands of a call have been handled: recoverable subscriptions that began in it count as one
    /// no more. Where the session stands is told before the first of them is confirmed, since its client
    /// may come back with what it knows by then.
    pub(crate) fn end_recoveries(
        &mut self,
        session: SessionId,
        together: Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) {
        let Some(together) = together else { return };
        let before = effects.replies.len();
        self.end_recovering(session, effects);
        let told = effects.replies.len() - before;
        let Some(since) = effects.replies.get_mut(together.replies_before..) else { return };
        // Not ahead of what says that something was not recovered.
        let confirms = |(_, to, reply): &(u32, SessionId, Reply)| {
            *to == session && matches!(reply, Reply::Confirmed(_))
        };
        let first = since.iter().position(confirms);
        if let Some(behind) = first.and_then(|first| since.get_mut(first..)) {
            behind.rotate_right(told);
        }
    }

    /// Everything of a home up to a number is in a session's backlog or was given to it.
    pub(crate) fn reach(
        &mut self,
        session: SessionId,
        home: ShardId,
        number: u64,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return;
        };
        if let Some(rare) = record.rare.as_mut().filter(|rare| rare.recovering > 0) {
            return rare.note_reached(home, number);
        }
        let backlog = record.backlog.as_mut();
        if number > 0 && !backlog.is_some_and(|backlog| backlog.reach(home, number)) {
            self.reply(session, Reply::Reached { home, sequence: number }, effects);
        }
    }

    /// Puts a topic's message into a backlog, or with what its subscription holds.
    pub(crate) fn push_or_hold(
        &mut self,
        now: Now,
        topic: Key,
        session: Key,
        pending: Pending,
        effects: &mut Effects,
    ) {
        let high = self.options.backlog_bytes_high;
        let merge = self.merges(topic);
        let record = self.sessions.get_mut(session);
        let subscription = record.and_then(|record| record.subscription_mut(pending.key));
        match subscription.and_then(|known| known.recovery.as_mut()) {
            Some(recovery) => {
                let conflated = recovery.hold_live(pending, merge, high);
                self.note_given_up(session, conflated, 0);
            }
            None => self.push_topic(now, topic, session, pending, effects),
        }
    }
}

impl HomeSide<'_> {
    /// At a home: what somebody who comes back to a pattern has missed, and whether there may be
    /// anything. The whole part of the tree is looked at if it is small; of a large one only what is
    /// in the histories, and if they do not tell, the values have to come anew.
    pub(crate) fn missed_by(
        &self,
        now: Now,
        pattern: &Pattern,
        after: Option<u64>,
        retained: bool,
    ) -> (Missed, bool) {
        let most = self.options.page.looked_at;
        let below = pattern.literal_prefix();
        let walk = self.directory.walk(&below, None);
        let part: Vec<TopicAtHome<'_>> =
            walk.take(most + 1).map(|(_, topic)| self.home.at(topic)).collect();
        if part.len() <= most {
            let named = part.into_iter().filter(|topic| reaches(pattern, topic.path()));
            let floor = |after| self.home.floor_for(pattern, after);
            let first = First::Since { after, earlier: false, retained, rules_since: 0 };
            let answer = self.beginning(now, named, first, floor);
            let any = !answer.retained.is_empty();
            return (answer.missed.map_or_else(Missed::default, |missed| *missed), any);
        }
        let runs = after.and_then(|after| {
            self.home.recent(pattern, after, self.options.backlog_bytes_high, self.directory)
        });
        let (after, complete) = (after.unwrap_or(0), runs.is_some());
        (Missed { after, complete, runs, continues: None }, true)
    }

    /// At a home: what comes before everything new from these topics; see `home/missed.rs`.
    pub(crate) fn beginning<'a>(
        &self,
        now: Now,
        topics: impl Iterator<Item = TopicAtHome<'a>>,
        first: First,
        floor: impl FnOnce(u64) -> u64,
    ) -> Answer {
        let bytes_max = self.options.backlog_bytes_high;
        let first = first.held_to(self.journal.restored_to());
        self.home.beginning(now, topics, first, (floor, bytes_max))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::broker::Broker;
    use crate::{BrokerOptions, Rule, Rules, TopicSpec, Who};
    use tiderace_topics::Path;
    use tiderace_wire::{
        Command, Commands, Credentials, Destination, Kind, Meta, Subscribe, SubscriptionKey, Target,
    };

    #[test]
    fn where_a_session_stands_is_told_before_it_hears_that_it_listens() {
        let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
        let session = broker.open(Now::default(), 0);
        let mut commands = Commands::new();
        commands.push(Command::Login(Credentials::default()));
        broker.handle(Now::default(), session, &mut commands, &mut Effects::default());
        let topic = |name| Destination { kind: Kind::Topic, path: Path::parse(name).unwrap() };
        commands.message(&topic("busy"));
        commands.publish(b"x", Meta::default(), Some(7));
        for key in 0..2 {
            let target = vec![Target::Exact(topic("quiet"))];
            commands.push(Command::Subscribe(Box::new(Subscribe {
                recoverable: true,
                confirm: Some(key),
                ..Subscribe::new(SubscriptionKey(key), target)
            })));
        }
        let mut effects = Effects::default();
        broker.handle(Now::default(), session, &mut commands, &mut effects);
        let told: Vec<String> =
            effects.replies.iter().map(|(_, _, reply)| format!("{reply:?}")).collect();
        let told: Vec<&str> =
            told.iter().map(|reply| reply.split(['(', ' ']).next().unwrap()).collect();
        assert_eq!(told, ["Confirmed", "Reached", "Confirmed", "Confirmed"], "{effects:?}");
    }

    #[test]
    fn subscriptions_of_owners_do_not_part_those_that_begin_with_them() {
        let (mut broker, session) = with_owner();
        let commands = subscribing(&["open/a", "owned", "open/b"]);
        let told = told(&mut broker, session, commands);
        assert_eq!(told, ["Confirmed", "Reached", "Confirmed", "Confirmed", "Confirmed"]);
    }

    /// The broker, and the only session, which has logged in, and may have topics below `open` by the rules and all
    /// others as their owner.
    fn with_owner() -> (Broker, SessionId) {
        let open = Rule {
            allow: true,
            actions: [Action::Subscribe, Action::Publish].into_iter().collect(),
            who: vec![Who::All],
            paths: vec![Pattern::parse("open/**").unwrap()],
            kind: None,
        };
        let owned = TopicSpec { owner: Some("ann".into()), ..TopicSpec::default() };
        let options = BrokerOptions {
            rules: Rules::new(vec![open]),
            topic_default: Arc::new(owned),
            ..BrokerOptions::default()
        };
        let mut broker = Broker::new(ShardId(0), Arc::new(options));
        let session = broker.open(Now::default(), 0);
        let mut commands = Commands::new();
        let login = Some("ann".to_owned());
        commands.push(Command::Login(Credentials { login, ..Credentials::default() }));
        broker.handle(Now::default(), session, &mut commands, &mut Effects::default());
        (broker, session)
    }

    fn topic(name: &str) -> Destination {
        Destination { kind: Kind::Topic, path: Path::parse(name).unwrap() }
    }

    /// A message, and recoverable subscriptions to topics.
    fn subscribing(names: &[&str]) -> Commands {
        let mut commands = Commands::new();
        commands.message(&topic("open/busy"));
        commands.publish(b"x", Meta::default(), Some(7));
        for (key, name) in (0..).zip(names) {
            let target = vec![Target::Exact(topic(name))];
            commands.push(Command::Subscribe(Box::new(Subscribe {
                recoverable: true,
                confirm: Some(key),
                ..Subscribe::new(SubscriptionKey(key), target)
            })));
        }
        commands
    }

    /// The names of the replies to commands of one call.
    fn told(broker: &mut Broker, session: SessionId, mut commands: Commands) -> Vec<String> {
        let mut effects = Effects::default();
        broker.handle(Now::default(), session, &mut commands, &mut effects);
        let told = effects.replies.iter().map(|(_, _, reply)| format!("{reply:?}"));
        told.map(|reply| reply.split(['(', ' ']).next().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_position_is_told_behind_what_was_not_recovered() {
        let (mut broker, session) = with_owner();
        let mut commands = subscribing(&[]);
        // Of a life of the server of which nothing is known.
        commands.push(Command::Subscribe(Box::new(Subscribe {
            recoverable: true,
            confirm: Some(1),
            since: Some(Position::new(12_345)),
            ..Subscribe::new(SubscriptionKey(1), vec![Target::Exact(topic("open/a"))])
        })));
        let told = told(&mut broker, session, commands);
        assert_eq!(told, ["Confirmed", "Recovered", "Reached", "Confirmed"]);
    }

    #[test]
    fn no_position_is_told_while_a_home_is_asked_for_the_owner() {
        let (mut broker, session) = with_owner();
        let commands = subscribing(&["owned", "open/a", "open/b"]);
        let told = told(&mut broker, session, commands);
        assert_eq!(told, ["Confirmed", "Reached", "Confirmed", "Confirmed", "Confirmed"]);
        let waits =
            |broker: &Broker| broker.session(session).unwrap().rare.as_ref().unwrap().recovering;
        assert_eq!(waits(&broker), 0);
    }
}
