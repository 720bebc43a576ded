//! Services under random callers, responders, cancellations, ends and order of messages between shards: every exchange ends
//! once for each side, what is said arrives in order, once and before the end, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::exchanges::{ended, heard, pair};
use crate::support::{Heard, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{ExchangeKey, Kind, Side};

const SERVICES: [&str; 4] = ["add", "fx/quote", "fx/trade", "fx/deep/x"];
const TARGETS: [&str; 6] = ["add", "fx/quote", "fx/trade", "fx/*", "fx/**", "**"];
const KEYS: u32 = 2;

/// One side of an exchange, as its client sees it.
#[derive(Default)]
struct Held {
    /// Which call it is: named in every message.
    call: usize,
    said: usize,
    heard: usize,
    said_last: bool,
    heard_last: bool,
    /// By its own cancellation, or told.
    over: bool,
}

impl Held {
    fn is_done(&self) -> bool {
        self.over || (self.said_last && self.heard_last)
    }
}

struct Run {
    world: World,
    sides: BTreeMap<(usize, ExchangeKey), Held>,
    /// Of the ends that clients were told of.
    told: BTreeMap<(usize, ExchangeKey), CloseCode>,
    looked: Vec<(usize, usize)>,
    serving: BTreeMap<(usize, u32), ()>,
    calls: usize,
    /// By client: the next number for a call.
    numbers: Vec<u32>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 4) as usize;
        options.services.calls_waiting_max = 2 + (seed % 5) as usize;
        options.services.timeout_max = Span::from_secs(5);
        if seed.is_multiple_of(3) {
            options.services.calls_bytes_max = 600;
            options.services.calls_open_max = 4;
        }
        if seed.is_multiple_of(5) {
            (options.backlog_bytes_high, options.backlog_bytes_low) = (100, 50);
        }
        Run {
            world: World::new(seed, options),
            sides: BTreeMap::new(),
            told: BTreeMap::new(),
            looked: Vec::new(),
            serving: BTreeMap::new(),
            calls: 0,
            numbers: Vec::new(),
        }
    }

    fn connect(&mut self) {
        let shard = self.world.random.below(self.world.brokers.len());
        self.world.connect(shard, "somebody");
        self.looked.push((0, 0));
        self.numbers.push(0);
    }

    fn serve(&mut self, client: usize, key: u32) {
        if self.serving.insert((client, key), ()).is_some() {
            return;
        }
        let random = &mut self.world.random;
        let mut targets = vec![format!("service:{}", random.pick(&TARGETS))];
        if random.one_in(4) {
            targets.push(format!("service:{}", random.pick(&TARGETS)));
        }
        let window = random.one_in(2).then_some(1 + random.below(3) as u32);
        self.world.subscribe(client, key, Wish { targets, window, ..Wish::default() });
    }

    fn call(&mut self, client: usize) {
        self.numbers[client] += 1;
        let number = self.numbers[client];
        let (call, last) = (self.calls, self.world.random.one_in(2));
        self.calls += 1;
        let side = Held { call, said: 1, said_last: last, ..Held::default() };
        self.sides.insert((client, ExchangeKey::caller(number)), side);
        let service = *self.world.random.pick(&SERVICES);
        let timeout = Span::from_secs(self.world.random.below(8) as u64);
        self.world.call_for(client, number, service, &format!("{call} 0"), last, timeout);
    }

    /// Says something, or cancels, in an exchange that is open for the client.
    fn go_on(&mut self, client: usize) {
        let keys = (client, ExchangeKey::caller(0))..(client + 1, ExchangeKey::caller(0));
        let open: Vec<ExchangeKey> = self
            .sides
            .range(keys)
            .filter(|(_, side)| !side.is_done() && !side.said_last)
            .map(|((_, key), _)| *key)
            .collect();
        if open.is_empty() {
            return;
        }
        let key = *self.world.random.pick(&open);
        let side = self.sides.get_mut(&(client, key)).unwrap();
        if self.world.random.one_in(8) {
            side.over = true;
            let code = *self.world.random.pick(&[CloseCode::CallCancelled, CloseCode::Done]);
            return self.world.cancel_with(client, key, code);
        }
        side.said_last = self.world.random.one_in(2);
        let (body, last) = (format!("{} {}", side.call, side.said), side.said_last);
        side.said += 1;
        self.world.send_exchange(client, key, &body, last);
    }

    fn leave(&mut self, client: usize) {
        let key = self.world.random.below(KEYS as usize) as u32;
        if self.serving.remove(&(client, key)).is_some() {
            self.world.unsubscribe(client, key);
        }
    }

    fn close(&mut self, client: usize) {
        self.look();
        self.world.close(client);
        self.serving.retain(|(who, _), ()| *who != client);
        for ((who, _), side) in &mut self.sides {
            if *who == client {
                side.over = true;
            }
        }
    }

    /// Takes note of what clients were told and checks it.
    fn look(&mut self) {
        for client in 0..self.world.clients.len() {
            if !self.world.clients[client].open {
                continue;
            }
            let (heard, ended) = self.looked[client];
            let news: Vec<Heard> = self.world.clients[client].heard[heard..].to_vec();
            for message in news {
                self.hear(client, &message);
            }
            let ends = self.world.clients[client].ended[ended..].to_vec();
            for (key, code) in ends {
                assert_eq!(self.told.insert((client, key), code), None, "{key:?} ended twice");
                let side = self.sides.get_mut(&(client, key)).expect("it has begun");
                let complete = side.said_last && side.heard_last;
                assert!(!complete, "{key:?} was over already");
                side.over = true;
            }
            let known = &self.world.clients[client];
            self.looked[client] = (known.heard.len(), known.ended.len());
        }
    }

    fn hear(&mut self, client: usize, message: &Heard) {
        let exchange = message.exchange;
        let (call, number) = message.body.split_once(' ').unwrap();
        let (call, number): (usize, usize) = (call.parse().unwrap(), number.parse().unwrap());
        let known = self.sides.contains_key(&(client, exchange.key));
        let side = self.sides.entry((client, exchange.key)).or_default();
        if exchange.first {
            assert_eq!(exchange.key.side, Side::Responder);
            assert!(!known, "{exchange:?} began twice, or was over");
            side.call = call;
        }
        assert!(known || exchange.first, "{exchange:?} did not begin");
        assert_eq!((side.call, side.heard), (call, number), "{exchange:?}");
        assert!(!side.heard_last, "{exchange:?} went on after its last");
        side.heard += 1;
        side.heard_last = exchange.last;
    }

    fn step(&mut self) {
        let clients: Vec<usize> = (0..self.world.clients.len())
            .filter(|client| self.world.clients[*client].open)
            .collect();
        if clients.len() < 3 {
            return self.connect();
        }
        let client = *self.world.random.pick(&clients);
        match self.world.random.below(40) {
            0 if clients.len() < 8 => self.connect(),
            1 => self.close(client),
            2..=4 => {
                let key = self.world.random.below(KEYS as usize) as u32;
                self.serve(client, key);
            }
            5 => self.leave(client),
            6 => {
                let span = Span::from_millis(self.world.random.below(2_000) as u64);
                self.world.advance(span);
            }
            7..=13 => self.call(client),
            14..=24 => self.go_on(client),
            25..=32 => {
                self.world.deliver_envelope();
            }
            _ => {
                self.world.pull(client);
            }
        }
        self.look();
    }

    /// How often calls ended in which way.
    fn ways(&self) -> [u64; 10] {
        let metrics = self.world.metrics();
        let cut = [
            metrics.calls_without_responder,
            metrics.calls_busy,
            metrics.calls_too_many,
            metrics.calls_timed_out,
            metrics.calls_responder_gone,
            metrics.calls_caller_gone,
            metrics.calls_slow,
            metrics.calls_cancelled,
        ];
        let complete = metrics.calls - cut.iter().sum::<u64>();
        let answered = self.sides.values().filter(|side| side.heard > 1).count() as u64;
        let mut ways = [complete, answered, 0, 0, 0, 0, 0, 0, 0, 0];
        ways[2..].copy_from_slice(&cut);
        ways
    }

    /// Everybody says all there is to say, or has waited long enough.
    fn finish(&mut self) {
        self.world.quiesce();
        self.look();
        for _ in 0..6 {
            self.world.advance(Span::from_secs(5));
            self.world.quiesce();
            self.look();
        }
        let metrics = self.world.metrics();
        assert_eq!(metrics.exchanges, 0, "timeouts have ended all");
        assert_eq!((metrics.exchanges_served, metrics.calls_waiting), (0, 0));
        assert_eq!(metrics.calls, self.calls as u64);
        for ((client, key), side) in &self.sides {
            assert!(side.is_done(), "client {client}: {key:?} of call {} hangs", side.call);
        }
        self.check_that_nothing_was_lost();
        self.world.end();
        self.world.sweep();
    }

    /// A side that was told of an end that the other brought about has heard all that it had said.
    fn check_that_nothing_was_lost(&self) {
        use CloseCode::{CallCancelled, CallerGone, Done, ResponderGone};
        let mut said: BTreeMap<(usize, Side), usize> = BTreeMap::new();
        for ((_, key), side) in &self.sides {
            said.insert((side.call, key.side), side.said);
        }
        for (name, code) in &self.told {
            let (side, held) = (name.1.side, &self.sides[name]);
            let other = if side == Side::Caller { Side::Responder } else { Side::Caller };
            // A responder that unsubscribes is told so itself, and wants no more of what was said to it.
            let by_other = match code {
                CallCancelled | Done => true,
                CallerGone => side == Side::Responder,
                ResponderGone => side == Side::Caller,
                _ => false,
            };
            if let Some(said) = said.get(&(held.call, other)).filter(|_| by_other) {
                assert_eq!(held.heard, *said, "call {} at {name:?}: {code:?}", held.call);
            }
        }
    }
}

#[test]
fn every_exchange_ends_once_and_loses_nothing_before() {
    let ways = RefCell::new([0; 10]);
    for_seeds(0..400, |seed| {
        let mut run = Run::new(seed);
        for _ in 0..400 {
            run.step();
        }
        run.finish();
        for (all, count) in ways.borrow_mut().iter_mut().zip(run.ways()) {
            *all += count;
        }
    });
    assert!(ways.borrow().iter().all(|count| *count > 20), "of each: {ways:?}");
}

#[test]
fn a_call_is_answered_and_a_conversation_held() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |_| {});
        world.call(caller, 7, "add", "1+1", true);
        world.quiesce();
        assert_eq!(heard(&world, responder), [("1+1", true, true)]);
        let first = world.clients[responder].heard[0].clone();
        assert_eq!((first.key, &*first.path, first.exchange.key.side), (3, "add", Side::Responder));
        world.send_exchange(responder, first.exchange.key, "2", true);
        world.quiesce();
        assert_eq!(heard(&world, caller), [("2", false, true)]);
        assert_eq!(world.clients[caller].heard[0].exchange.key, ExchangeKey::caller(7));
        assert_eq!((world.metrics().exchanges, world.metrics().exchanges_served), (0, 0));
        // The number may be used again; what is said before anybody answers is kept.
        world.call(caller, 7, "add", "a", false);
        world.send_exchange(caller, ExchangeKey::caller(7), "b", false);
        world.send_exchange(caller, ExchangeKey::caller(7), "c", true);
        world.send_exchange(caller, ExchangeKey::caller(7), "after the last", true);
        world.quiesce();
        let expected = [("a", true, false), ("b", false, false), ("c", false, true)];
        assert_eq!(heard(&world, responder)[1..], expected);
        let key = world.clients[responder].heard[1].exchange.key;
        for (body, last) in [("d", false), ("e", true), ("after the end", true)] {
            world.send_exchange(responder, key, body, last);
        }
        world.quiesce();
        assert_eq!(heard(&world, caller)[1..], [("d", false, false), ("e", false, true)]);
        assert!(ended(&mut world, caller).is_empty() && ended(&mut world, responder).is_empty());
        world.end();
        world.sweep();
    }
}

#[test]
fn nobody_serving_and_no_room_are_told_at_once() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |options| {
            options.services.calls_waiting_max = 2;
        });
        world.call(caller, 1, "subtract", "x", true);
        world.deliver_envelopes();
        assert_eq!(ended(&mut world, caller), [(1, CloseCode::NoResponder)]);
        for number in 2..7 {
            world.call(caller, number, "add", &number.to_string(), true);
            world.deliver_envelopes();
        }
        assert_eq!(ended(&mut world, caller), [(6, CloseCode::ServiceBusy)]);
        world.quiesce();
        assert_eq!(heard(&world, responder).len(), 2, "its window");
        assert_eq!(world.metrics().calls_waiting, 2);
        let key = world.clients[responder].heard[1].exchange.key;
        world.send_exchange(responder, key, "done", true);
        world.quiesce();
        assert_eq!(heard(&world, responder).last(), Some(&("4", true, true)), "the next");
        world.close(responder);
        world.deliver_envelopes();
        let gone = CloseCode::ResponderGone;
        let mut told = ended(&mut world, caller);
        told.sort_unstable();
        assert_eq!(told, [(2, gone), (4, gone), (5, CloseCode::NoResponder)]);
        let metrics = world.metrics();
        let counted = (metrics.calls_without_responder, metrics.calls_busy, metrics.calls);
        assert_eq!((counted, metrics.calls_responder_gone), ((2, 1, 6), 2));
        world.end();
        world.sweep();
    }
}

#[test]
fn each_end_is_told_to_the_other_side() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |_| {});
        let begin = |world: &mut World, number| {
            world.call(caller, number, "add", "x", false);
            world.quiesce();
            world.clients[responder].heard.last().unwrap().exchange.key
        };
        let key = begin(&mut world, 1);
        world.cancel(caller, ExchangeKey::caller(1));
        world.quiesce();
        assert_eq!(ended(&mut world, responder), [(key.number, CloseCode::CallCancelled)]);
        let key = begin(&mut world, 2);
        world.cancel(responder, key);
        world.cancel(responder, key);
        world.quiesce();
        assert_eq!(ended(&mut world, caller), [(2, CloseCode::CallCancelled)]);
        // Before anybody has seen it.
        world.call(caller, 3, "add", "given up", false);
        world.cancel(caller, ExchangeKey::caller(3));
        world.quiesce();
        assert!(ended(&mut world, responder).is_empty());
        assert!(heard(&world, responder).iter().all(|row| row.0 != "given up"));
        let key = begin(&mut world, 4);
        world.unsubscribe(responder, 3);
        world.quiesce();
        assert_eq!(ended(&mut world, caller), [(4, CloseCode::ResponderGone)]);
        assert_eq!(ended(&mut world, responder), [(key.number, CloseCode::ResponderGone)]);
        world.subscribe(responder, 3, Wish::to("service:*"));
        world.deliver_envelopes();
        let key = begin(&mut world, 5);
        world.close(caller);
        world.quiesce();
        assert_eq!(ended(&mut world, responder), [(key.number, CloseCode::CallerGone)]);
        assert!(ended(&mut world, caller).is_empty());
        world.end();
        world.sweep();
    }
}

#[test]
fn a_timeout_is_until_the_first_message_and_between_messages() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |options| {
            options.services.timeout_max = Span::from_secs(60);
        });
        let second = Span::from_secs(1);
        world.call_for(caller, 1, "add", "x", true, second * 10);
        world.call_for(caller, 2, "add", "x", true, second * 10_000);
        world.call_for(caller, 3, "add", "waits", true, second * 20);
        world.quiesce();
        let key = world.clients[responder].heard[0].exchange.key;
        for _ in 0..5 {
            world.advance(second * 9);
            world.send_exchange(responder, key, "still here", false);
            world.quiesce();
        }
        assert_eq!(ended(&mut world, caller), [(3, CloseCode::CallTimeout)], "in the queue");
        assert_eq!(world.metrics().calls_waiting, 0);
        world.advance(second * 10);
        world.quiesce();
        assert_eq!(ended(&mut world, caller), [(1, CloseCode::CallTimeout)]);
        assert_eq!(ended(&mut world, responder), [(key.number, CloseCode::CallTimeout)]);
        world.advance(second * 5);
        world.quiesce();
        assert_eq!(ended(&mut world, caller), [(2, CloseCode::CallTimeout)], "the longest allowed");
        assert_eq!(world.metrics().calls_timed_out, 3);
        world.end();
        world.sweep();
    }
}

#[test]
fn a_session_has_so_many_calls_and_each_number_once() {
    let (mut world, caller, responder) = pair(2, |options| {
        options.services.calls_open_max = 3;
        options.services.calls_bytes_max = 1_000;
    });
    world.call(caller, 1, "add", "x", true);
    world.call(caller, 1, "add", "y", true);
    let refused = std::mem::take(&mut world.clients[caller].refused);
    assert_eq!(refused, [(None, CloseCode::DuplicateCall)]);
    world.quiesce();
    assert_eq!(heard(&world, responder), [("x", true, true)], "the first goes on");
    world.call(caller, 2, "add", &"x".repeat(2_000), true);
    world.call(caller, 3, "add", "y", true);
    assert_eq!(ended(&mut world, caller), [(3, CloseCode::TooManyCalls)], "bytes");
    world.deliver_envelopes();
    world.call(caller, 3, "add", "y", true);
    world.call(caller, 4, "add", "y", true);
    assert_eq!(ended(&mut world, caller), [(4, CloseCode::TooManyCalls)], "calls");
    world.call(responder, 1, "add", "y", false);
    world.send_exchange(responder, ExchangeKey::caller(1), &"x".repeat(2_000), false);
    assert_eq!(ended(&mut world, responder), [(1, CloseCode::ServiceBusy)], "kept");
    assert_eq!(world.metrics().calls_too_many, 2);
    world.end();
    world.sweep();
}

#[test]
fn a_side_that_does_not_read_loses_the_exchange_and_nothing_else() {
    for shards in 1..=2 {
        let (mut world, caller, responder) = pair(shards, |options| {
            (options.backlog_bytes_high, options.backlog_bytes_low) = (1_000, 500);
        });
        world.subscribe(caller, 0, Wish::to("topic:news"));
        world.call(caller, 1, "add", "x", true);
        world.quiesce();
        let key = world.clients[responder].heard[0].exchange.key;
        world.publish(responder, "topic:news", "news");
        for _ in 0..10 {
            world.send_exchange(responder, key, &"x".repeat(600), false);
            world.deliver_envelopes();
        }
        assert_eq!(ended(&mut world, caller), [], "it has yet to take what came before");
        assert_eq!(ended(&mut world, responder), [(key.number, CloseCode::SlowConsumer)]);
        assert_eq!(world.clients[caller].closed, None);
        world.quiesce();
        assert_eq!(ended(&mut world, caller), [(1, CloseCode::SlowConsumer)]);
        assert_eq!(world.clients[caller].received.len(), 1);
        assert!(heard(&world, caller).len() >= 5, "what was taken still comes");
        world.end();
        world.sweep();
    }
}

#[test]
fn the_one_with_the_least_to_do_answers_and_names_come_before_patterns() {
    for shards in 1..=3 {
        let mut world = World::new(1, BrokerOptions { shards, ..BrokerOptions::default() });
        let caller = world.connect(0, "caller");
        let named = [world.connect(0, "a"), world.connect(shards - 1, "b")];
        let pattern = world.connect(shards / 2, "c");
        for (client, target) in [(named[0], "fx/a"), (named[1], "fx/a"), (pattern, "fx/*")] {
            world.subscribe(client, 0, Wish::to(&format!("service:{target}")));
        }
        world.deliver_envelopes();
        for number in 0..6 {
            world.call(caller, number, "fx/a", "x", true);
            world.call(caller, 10 + number, "fx/b", "x", true);
        }
        world.quiesce();
        let loads = [named[0], named[1], pattern].map(|client| heard(&world, client).len());
        assert_eq!(loads, [3, 3, 6]);
        world.end();
        world.sweep();
    }
}

#[test]
fn calling_and_serving_are_matters_of_rules() {
    let rule = |allow, action, who: &str, path: &str| Rule {
        allow,
        actions: [action].into_iter().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: Some(Kind::Service),
    };
    for shards in 1..=3 {
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.rules = Rules::new(vec![
            rule(true, Action::Call, "ann", "fx/*"),
            rule(true, Action::Call, "ann", "user/bob/*"),
            rule(true, Action::Serve, "bob", "fx/**"),
            rule(true, Action::Serve, "eve", "**"),
        ]);
        let mut world = World::new(1, options);
        let (ann, bob, eve) =
            (world.connect(0, "ann"), world.connect(shards - 1, "bob"), world.connect(0, "eve"));
        for (client, target, allowed) in [
            (bob, "service:fx/a", true),
            (bob, "service:fx/*", true),
            (bob, "service:**", false),
            (bob, "service:other", false),
            (bob, "service:user/bob/*", true),
            (ann, "service:fx/a", false),
            (eve, "service:user/bob/desk", false),
            (eve, "service:**", true),
        ] {
            let key = world.clients[client].tokens;
            let token = world.subscribe(client, key, Wish::to(target));
            world.deliver_envelopes();
            assert_eq!(world.is_confirmed(client, token), allowed, "{target}");
        }
        let token =
            world.subscribe(bob, 9, Wish { selector: Some("a = 1"), ..Wish::to("service:fx/a") });
        assert_eq!(world.clients[bob].refused.pop(), Some((Some(token), CloseCode::BadSelector)));
        let services = ["fx/a", "fx/b", "user/bob/desk", "other", "fx/a/b"];
        for (service, number) in services.iter().zip(0..) {
            world.call(ann, number, service, service, true);
        }
        world.call(bob, 0, "fx/a", "not allowed", true);
        world.quiesce();
        let denied = CloseCode::NotAuthorised;
        assert_eq!(ended(&mut world, ann), [(3, denied), (4, denied)]);
        assert_eq!(ended(&mut world, bob), [(0, denied)]);
        let mut calls: Vec<&str> = heard(&world, bob).iter().map(|row| row.0).collect();
        assert!(calls.contains(&"fx/a") && calls.contains(&"user/bob/desk"), "his by name");
        calls.extend(heard(&world, eve).iter().map(|row| row.0));
        calls.sort_unstable();
        assert_eq!(calls, ["fx/a", "fx/b", "user/bob/desk"], "patterns share the rest");
        assert_eq!(world.metrics().calls_denied, 3);
        world.end();
        world.sweep();
    }
}
