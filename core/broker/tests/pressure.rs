//! Slow consumers under random load: publishers wait and always go on, the slow one alone loses
//! messages and only as the topic's policy says, and backlogs stay within their bound.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, SlowConsumer, TopicSpec};

const TOPICS: [&str; 4] = ["t/a", "t/b", "t/c", "t/d"];
const MARK: usize = 4_000;
const LOW: usize = 1_000;
const GRACE: Span = Span::from_millis(500);
const BODY: usize = 60;
const RUN_MESSAGES_MAX: usize = 4;
/// More than a run of the largest size counts for in a backlog.
const RUN_BYTES: usize = RUN_MESSAGES_MAX * (BODY + 16) + 200;

struct Run {
    world: World,
    policy: SlowConsumer,
    publishers: Vec<usize>,
    fast: Vec<usize>,
    slow: usize,
    published: usize,
}

impl Run {
    fn new(seed: u64, policy: SlowConsumer) -> Run {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 4) as usize;
        options.backlog_bytes_high = MARK;
        options.backlog_bytes_low = LOW;
        options.topic_default =
            Arc::new(TopicSpec { slow_consumer: policy, grace: GRACE, ..TopicSpec::default() });
        let mut run = Run {
            world: World::new(seed, options),
            policy,
            publishers: Vec::new(),
            fast: Vec::new(),
            slow: 0,
            published: 0,
        };
        run.publishers = (0..3).map(|_| run.connect()).collect();
        run.fast = (0..2).map(|_| run.connect()).collect();
        run.slow = run.connect();
        run.world.subscribe(run.fast[0], 0, Wish::to("topic:t/*"));
        let targets = TOPICS.map(|path| format!("topic:{path}")).to_vec();
        run.world.subscribe(run.fast[1], 0, Wish { targets, ..Wish::default() });
        run.world.subscribe(run.slow, 0, Wish::to("topic:t/*"));
        run.world.deliver_envelopes();
        run
    }

    fn connect(&mut self) -> usize {
        let shard = self.world.random.below(self.world.brokers.len());
        self.world.connect(shard, "somebody")
    }

    /// Publishes unless the client is held back; whether it did.
    fn publish(&mut self, client: usize) -> bool {
        if self.world.clients[client].paused || !self.world.clients[client].open {
            return false;
        }
        let path = *self.world.random.pick(&TOPICS);
        let count = 1 + self.world.random.below(RUN_MESSAGES_MAX);
        let messages: Vec<Outgoing> = (0..count)
            .map(|index| Outgoing::new(format!("{:0BODY$}", self.published + index)))
            .collect();
        self.published += count;
        self.world.publish_all(client, &format!("topic:{path}"), &messages);
        true
    }

    fn drain_fast(&mut self) {
        for client in self.fast.clone() {
            self.world.drain(client);
        }
    }

    /// One turn; the slow client takes something once in so many.
    fn turn(&mut self, odds: usize) {
        match self.world.random.below(8) {
            0..=3 => {
                let client = *self.world.random.pick(&self.publishers);
                self.publish(client);
            }
            4..=6 => {
                for _ in 0..self.world.random.below(12) {
                    self.world.deliver_envelope();
                    self.drain_fast();
                }
            }
            _ => self.world.advance(Span::from_millis(10)),
        }
        self.drain_fast();
        if self.world.random.one_in(odds) {
            self.world.pull(self.slow);
        }
        // A policy that drops nothing holds what was under way when the publishers were stopped.
        let bound =
            if self.policy == SlowConsumer::Block { MARK * 8 } else { MARK * 4 + RUN_BYTES };
        let bytes = self.world.metrics().backlog_bytes as usize;
        assert!(bytes <= bound, "{bytes} bytes in backlogs, {bound} at most");
    }

    fn sequences(&self, client: usize) -> BTreeMap<String, Vec<(u64, String)>> {
        let mut topics: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        for message in &self.world.clients[client].received {
            let entry = (message.sequence, message.body.clone());
            topics.entry(message.path.clone()).or_default().push(entry);
        }
        topics
    }

    /// The fast ones got everything, in order; the slow one a part, in order.
    fn check(&self) -> usize {
        let all = self.sequences(self.fast[0]);
        assert_eq!(all.values().map(Vec::len).sum::<usize>(), self.published);
        assert_eq!(all, self.sequences(self.fast[1]));
        let slow = self.sequences(self.slow);
        for (path, got) in &slow {
            assert!(got.is_sorted_by(|a, b| a.0 < b.0), "{path} in order and once: {got:?}");
            assert!(got.iter().all(|entry| all[path].contains(entry)));
        }
        slow.values().map(Vec::len).sum()
    }

    /// Everything is read: then nobody may be waiting, and nobody has to wait again.
    fn recover(&mut self) {
        self.quiesce();
        self.world.advance(Span::from_millis(50));
        self.quiesce();
        let paused: Vec<bool> = self.world.clients.iter().map(|client| client.paused).collect();
        assert!(paused.iter().all(|paused| !paused), "everybody goes on: {paused:?}");
        for client in self.publishers.clone() {
            for _ in 0..4 {
                self.publish(client);
                self.world.quiesce();
                assert!(!self.world.clients[client].paused);
            }
        }
    }

    /// Delivers all messages between shards while the fast ones keep reading.
    fn settle(&mut self) {
        while self.world.deliver_envelope() {
            self.drain_fast();
        }
    }

    fn quiesce(&mut self) {
        self.settle();
        self.world.quiesce();
    }

    fn end(&mut self) {
        self.world.end();
        self.world.sweep();
    }
}

#[test]
fn a_slow_reader_within_its_grace_loses_nothing_and_slows_its_publishers() {
    let paused = std::cell::Cell::new(0);
    for_seeds(0..500, |seed| {
        let mut run = Run::new(seed, SlowConsumer::DropOldest);
        for turn in 0..400 {
            run.turn(12);
            // Little is under way when the publishers are told to wait.
            run.settle();
            if turn % 80 == 0 {
                run.world.drain(run.slow);
            }
        }
        run.recover();
        let metrics = run.world.metrics();
        paused.set(paused.get() + metrics.publishers_paused);
        assert_eq!(run.check(), run.published);
        assert_eq!((metrics.slow_consumers, metrics.dropped_oldest), (0, 0));
        run.end();
    });
    assert!(paused.get() > 0, "some publishers had to wait");
}

/// Reads nothing for long and then all; gives what the slow client got.
fn starve(seed: u64, policy: SlowConsumer) -> (Run, usize) {
    let mut run = Run::new(seed, policy);
    for _ in 0..1_200 {
        run.turn(60);
    }
    run.recover();
    let got = run.check();
    (run, got)
}

#[test]
fn drop_oldest_keeps_the_newest_and_counts_the_rest() {
    for_seeds(0..150, |seed| {
        let (mut run, got) = starve(seed, SlowConsumer::DropOldest);
        let metrics = run.world.metrics();
        assert_eq!(got + metrics.dropped_oldest as usize, run.published);
        assert!(metrics.dropped_oldest > 0 && metrics.slow_consumers > 0);
        run.end();
    });
}

#[test]
fn drop_newest_keeps_the_oldest_and_counts_the_rest() {
    for_seeds(0..150, |seed| {
        let (mut run, got) = starve(seed, SlowConsumer::DropNewest);
        let metrics = run.world.metrics();
        assert_eq!(got + metrics.dropped_newest as usize, run.published);
        assert!(metrics.dropped_newest > 0);
        run.end();
    });
}

#[test]
fn conflation_ends_with_the_last_value_of_every_topic() {
    for_seeds(0..300, |seed| {
        let mut run = Run::new(seed, SlowConsumer::Conflate);
        for _ in 0..1_200 {
            run.turn(8);
        }
        run.quiesce();
        let (all, slow) = (run.sequences(run.fast[0]), run.sequences(run.slow));
        for path in TOPICS {
            assert_eq!(all[path].last(), slow[path].last(), "{path}");
        }
        run.recover();
        let got = run.check();
        assert_eq!(got + run.world.metrics().conflated as usize, run.published);
        run.end();
    });
}

#[test]
fn block_makes_publishers_wait_however_long() {
    for_seeds(0..150, |seed| {
        let (mut run, got) = starve(seed, SlowConsumer::Block);
        assert_eq!(got, run.published);
        assert!(run.world.metrics().publishers_paused > 0);
        run.end();
    });
}

#[test]
fn disconnect_ends_the_slow_one_alone() {
    for_seeds(0..150, |seed| {
        let mut run = Run::new(seed, SlowConsumer::Disconnect);
        for _ in 0..1_200 {
            run.turn(60);
            if run.world.clients[run.slow].closed.is_some() {
                run.world.close(run.slow);
            }
        }
        let closed: Vec<_> = run.world.clients.iter().map(|client| client.closed).collect();
        assert_eq!(closed.iter().flatten().collect::<Vec<_>>(), [&CloseCode::SlowConsumer]);
        assert!(!run.world.clients[run.slow].open);
        run.recover();
        run.check();
        run.end();
    });
}

#[test]
fn publishers_and_subscribers_that_come_and_go_leave_nobody_waiting() {
    for_seeds(0..1_000, |seed| {
        let policies = SlowConsumer::ALL;
        let policy = policies[(seed / 4) as usize % policies.len()].1;
        let mut run = Run::new(seed, policy);
        for _ in 0..300 {
            run.turn(40);
            match run.world.random.below(40) {
                0 => {
                    let place = run.world.random.below(run.publishers.len());
                    run.world.close(run.publishers[place]);
                    run.publishers[place] = run.connect();
                }
                1 => {
                    run.world.close(run.slow);
                    run.slow = run.connect();
                    run.world.subscribe(run.slow, 0, Wish::to("topic:t/*"));
                }
                2 => {
                    run.world.unsubscribe(run.slow, 0);
                    run.world.subscribe(run.slow, 0, Wish::to("topic:t/a"));
                }
                _ => {}
            }
        }
        run.recover();
        run.end();
    });
}
