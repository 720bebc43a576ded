//! As a home: what new subscriptions by pattern get first, sent a page at a time; see
//! [`crate::home::snapshots`].

use tiderace_base::{Key, Now};
use tiderace_topics::Pattern;

use crate::effects::Effects;
use crate::home::snapshots::{NewSnapshot, Page, Topics};
use crate::home_side::HomeSide;
use crate::messages::{Answer, Ask, First, SnapshotPage, SubscribeRequestId, ToHome, ToSubscriber};
use crate::places::Place;
use crate::price::TOPIC;
use crate::session_side::SessionSide;

/// Pages that are given in one turn.
const PAGES_PER_TURN: usize = 4;

impl HomeSide<'_> {
    /// The beginning of a subscription by pattern.
    pub(crate) fn pattern_beginning(&mut self, now: Now, pattern: &Pattern, ask: &Ask) -> Answer {
        let at = self.home.last_number();
        let mut answer = Answer { at, room: ask.room, ..Answer::default() };
        let mut first = self.home.first_by_rules(ask.first);
        let mut bytes = ask.room as usize;
        match &mut first {
            First::Nothing => return answer,
            First::Retained | First::Replay(_) => {}
            First::Since { after, earlier, retained, .. } => {
                // A number that was never given is of another life. Of an earlier one it is not known
                // which topics there were, so all values are given.
                *after = after.filter(|after| !*earlier && *after <= at);
                let (missed, any) = self.missed_by(now, pattern, *after, *retained);
                answer.missed = Some(Box::new(missed));
                if !any {
                    return answer;
                }
                bytes = 0;
            }
        }
        // Many may begin in one turn; what is too much for it comes with the next pages.
        let bytes = Some(bytes).filter(|_| self.work.left(now) > 0);
        let new = NewSnapshot { request: ask.request, pattern, at, first, bytes };
        let from = Topics { directory: self.directory, options: self.options };
        let page = self.home.begin_snapshot(now, new, from);
        self.work.charge(TOPIC * page.looked_at as u64);
        (answer.retained, answer.specs, answer.more) = (page.runs, page.specs, page.more);
        answer
    }

    /// Gives some of the pages that were asked for; to be called once a turn.
    pub(crate) fn give_pages(&mut self, now: Now, effects: &mut Effects) {
        for _ in 0..PAGES_PER_TURN {
            let Some((request, bytes)) = self.home.next_requested_page() else { break };
            self.give_more(now, request, bytes, effects);
        }
    }

    /// The subscriber's shard has room for more.
    fn give_more(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        bytes: u32,
        effects: &mut Effects,
    ) {
        let from = Topics { directory: self.directory, options: self.options };
        let page = self.home.next_page(now, request, bytes as usize, from);
        self.work.charge_at(now, TOPIC * page.looked_at as u64);
        let Page { runs, specs, more, after, .. } = page;
        let values =
            SnapshotPage { runs, specs, after, more, room: bytes, ..SnapshotPage::default() };
        self.give(request, values, effects);
    }

    /// Something newer of a topic is about to be sent: a subscriber that lacks what it does not make up for gets
    /// that before. `last` was the topic's last number until now; `stays` says whether its value is
    /// still the same.
    pub(crate) fn give_early(
        &mut self,
        now: Now,
        key: Key,
        last: u64,
        stays: bool,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get(key) else { return };
        let lacking = self.home.before_change(now, topic, (last, stays), self.options);
        for (request, values) in lacking {
            self.give(request, values, effects);
        }
    }

    fn give(&mut self, request: SubscribeRequestId, page: SnapshotPage, effects: &mut Effects) {
        self.send(
            Place::of(request.session),
            ToSubscriber::SnapshotPage { request, page },
            effects,
        );
    }
}

impl SessionSide<'_> {
    /// Asks a home for more, or says that it is enough.
    pub(crate) fn ask_for_more(
        &mut self,
        home: Place,
        request: SubscribeRequestId,
        bytes: Option<u32>,
        effects: &mut Effects,
    ) {
        let message = match bytes {
            Some(bytes) => ToHome::RequestPage { request, bytes },
            None => ToHome::CancelSnapshot { request },
        };
        self.send(home, message, effects);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tiderace_base::{SessionId, ShardId};
    use tiderace_wire::{
        Command, Commands, Credentials, Destination, Flags, Kind, Meta, Subscribe, SubscriptionKey,
        Target,
    };

    use std::sync::Arc;

    use tiderace_topics::Path;
    use tiderace_wire::Run;

    use super::*;
    use crate::BrokerOptions;
    use crate::broker::Broker;
    use crate::work::TURN_WORK;

    const TOPICS: usize = 20_000;

    fn run(broker: &mut Broker, session: SessionId, commands: Vec<Command>) {
        let mut all = Commands::new();
        commands.into_iter().for_each(|command| all.push(command));
        broker.handle(Now::default(), session, &mut all, &mut Effects::default());
    }

    #[test]
    fn many_snapshots_that_begin_at_once_look_at_few_topics_a_turn() {
        let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
        let session = broker.open(Now::default(), 0);
        run(&mut broker, session, vec![Command::Login(Credentials::default())]);
        let publish = |number: usize| {
            let path = Path::parse(&format!("t/{number}")).unwrap();
            let destination = Destination { kind: Kind::Topic, path };
            let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
            let run = Run::single(destination, Now::default().time, b"", b"x", meta);
            Command::Publish { run, confirm: None, confirm_first: false }
        };
        run(&mut broker, session, (0..TOPICS).map(publish).collect());
        let subscribe = |key: u32| {
            let pattern = Pattern::parse(&format!("*/*{key}*")).unwrap();
            let targets = vec![Target::Pattern(Kind::Topic, pattern)];
            let mut subscribe = Subscribe::new(SubscriptionKey(key), targets);
            subscribe.retained = true;
            Command::Subscribe(Box::new(subscribe))
        };
        let before = broker.metrics().work;
        run(&mut broker, session, (0..1_000).map(subscribe).collect());
        let page = TOPIC * broker.home_side().options.page.looked_at as u64;
        assert!(broker.metrics().work - before <= TURN_WORK + page);
        assert!(broker.metrics().snapshots > 900, "most have yet to begin");
        let mut given = 0;
        while broker.has_work() || broker.has_backlog(session) {
            let before = broker.metrics().work;
            broker.work(Now::default(), &mut Effects::default());
            assert!(broker.metrics().work - before <= 4 * page);
            while let Some(pending) = broker.next(Now::default(), session, &mut Effects::default())
            {
                given += u64::from(pending.len());
            }
        }
        let named = |key: u32| {
            let key = key.to_string();
            (0..TOPICS).filter(|number| number.to_string().contains(&key)).count() as u64
        };
        assert_eq!(given, (0..1_000).map(named).sum::<u64>());
        assert_eq!(broker.metrics().snapshots, 0);
    }
}
