//! The demand of callers reaches responders: what a caller asks for, no more and no less, wherever both are
//! and whenever it asks; while it asks for nothing, nobody waits for the responder.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::support::exchanges::{ended, heard, pair};
use crate::support::{Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::BrokerOptions;
use tiderace_wire::ExchangeKey;

const TIMEOUT: Span = Span::from_secs(5);

/// A call of the caller of [`pair`] for so many messages.
fn call(world: &mut World, caller: usize, number: u32, credit: Option<u64>) {
    world.call_with(caller, number, "add", b"all", (true, TIMEOUT, credit));
}

/// What the responder was told of its exchange that began last: with the call, and later.
fn told(world: &World, responder: usize) -> (Option<u64>, Vec<u64>) {
    let client = &world.clients[responder];
    let first = client.heard.last().unwrap().exchange;
    let later = client.credits.iter().filter(|(key, _)| *key == first.key);
    (first.credit, later.map(|(_, messages)| *messages).collect())
}

#[test]
fn a_responder_hears_what_its_caller_wants() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |_| {});
        call(&mut world, caller, 1, Some(10));
        world.quiesce();
        assert_eq!(told(&world, responder), (Some(10), vec![]));
        world.ask_for_more(caller, 1, 3);
        world.ask_for_more(caller, 1, u64::MAX);
        world.deliver_envelopes();
        assert_eq!(told(&world, responder), (Some(10), vec![3, u64::MAX]));
        // A caller that asks without a bound is not told of one, and asking for more changes nothing.
        call(&mut world, caller, 2, None);
        world.quiesce();
        world.ask_for_more(caller, 2, 3);
        world.quiesce();
        assert_eq!(told(&world, responder), (None, vec![]));
        // Nothing is asked of exchanges that are not there, nor of callers by responders.
        let key = world.clients[responder].heard[1].exchange.key;
        world.ask_for_more(caller, 9, 3);
        world.ask_for_more(responder, key.number, 3);
        world.quiesce();
        assert!(world.clients[caller].credits.is_empty());
        world.end();
    }
}

#[test]
fn what_is_asked_before_the_call_is_taken_comes_with_it() {
    for shards in 1..=3 {
        let (mut world, caller, responder) = pair(shards, |_| {});
        call(&mut world, caller, 1, Some(2));
        // The first before anybody is known to answer, the second before the responder's session takes the call.
        world.ask_for_more(caller, 1, 3);
        world.deliver_envelopes();
        world.ask_for_more(caller, 1, 4);
        world.deliver_envelopes();
        assert!(world.clients[responder].credits.is_empty(), "of what has not begun nobody hears");
        world.quiesce();
        assert_eq!(told(&world, responder), (Some(9), vec![]));
        // A call that wants nothing wants one message.
        call(&mut world, caller, 2, Some(0));
        world.quiesce();
        assert_eq!(told(&world, responder), (Some(1), vec![]));
        world.end();
    }
}

#[test]
fn no_timeout_runs_while_nothing_is_wanted() {
    let (mut world, caller, responder) = pair(2, |_| {});
    let wait = |world: &mut World| {
        world.advance(TIMEOUT + Span::from_secs(1));
        world.quiesce();
    };
    call(&mut world, caller, 1, Some(2));
    world.quiesce();
    let key = world.clients[responder].heard[0].exchange.key;
    world.send_exchange(responder, key, "1", false);
    world.send_exchange(responder, key, "2", false);
    world.quiesce();
    wait(&mut world);
    assert!(ended(&mut world, caller).is_empty(), "two were wanted, and two have come");
    // From the next demand on the responder is waited for again.
    world.ask_for_more(caller, 1, 1);
    world.quiesce();
    world.advance(TIMEOUT);
    world.quiesce();
    assert_eq!(ended(&mut world, caller), [(1, CloseCode::CallTimeout)]);
    // A responder that is asked for something and says nothing is waited for as long as ever.
    call(&mut world, caller, 2, Some(2));
    world.quiesce();
    wait(&mut world);
    assert_eq!(ended(&mut world, caller), [(2, CloseCode::CallTimeout)]);
    // After the responder's last message the caller may not fall silent, whatever it wants.
    world.call_with(caller, 3, "add", b"all", (false, TIMEOUT, Some(1)));
    world.quiesce();
    let key = world.clients[responder].heard.last().unwrap().exchange.key;
    world.send_exchange(responder, key, "1", true);
    world.quiesce();
    wait(&mut world);
    assert_eq!(ended(&mut world, caller), [(3, CloseCode::CallTimeout)]);
    world.end();
}

#[test]
fn who_wants_nothing_keeps_a_responder_no_longer_than_the_longest_timeout() {
    let (mut world, caller, responder) = pair(2, |options| {
        options.services.timeout_max = TIMEOUT * 3;
    });
    call(&mut world, caller, 1, Some(1));
    world.quiesce();
    let key = world.clients[responder].heard[0].exchange.key;
    world.send_exchange(responder, key, "1", false);
    world.quiesce();
    world.advance(TIMEOUT * 3 - Span::from_secs(1));
    world.quiesce();
    assert!(ended(&mut world, caller).is_empty(), "it may still come to want more");
    // What it has not asked for lengthens nothing.
    world.send_exchange(responder, key, "2", false);
    world.quiesce();
    world.advance(Span::from_secs(2));
    world.quiesce();
    assert_eq!(ended(&mut world, caller), [(1, CloseCode::CallTimeout)]);
    assert_eq!(world.metrics().exchanges_served, 0);
    // A caller that goes on speaking is there.
    world.call_with(caller, 2, "add", b"first", (false, TIMEOUT, Some(1)));
    world.quiesce();
    let key = world.clients[responder].heard.last().unwrap().exchange.key;
    world.send_exchange(responder, key, "1", false);
    for _ in 0..3 {
        world.quiesce();
        world.advance(TIMEOUT * 2);
        world.send_exchange(caller, ExchangeKey::caller(2), "more", false);
    }
    world.quiesce();
    assert!(ended(&mut world, caller).is_empty());
    world.advance(TIMEOUT * 3);
    world.quiesce();
    assert_eq!(ended(&mut world, caller), [(2, CloseCode::CallTimeout)]);
    world.end();
}

#[test]
fn that_there_is_no_more_needs_no_demand() {
    let (mut world, caller, responder) = pair(2, |_| {});
    call(&mut world, caller, 1, Some(1));
    world.quiesce();
    let key = world.clients[responder].heard[0].exchange.key;
    world.send_exchange(responder, key, "1", false);
    world.finish_saying(responder, key);
    world.quiesce();
    assert_eq!(heard(&world, caller), [("1", false, false), ("", false, true)]);
    assert_eq!(world.metrics().exchanges, 0);
    world.end();
}

/// One call of the random run.
struct Asked {
    caller: usize,
    number: u32,
    /// How many messages there are.
    all: usize,
    /// How many were asked for; absent: all.
    wanted: Option<u64>,
    heard: usize,
}

/// What a responder that keeps to its demand knows of a call.
struct Served {
    call: usize,
    said: usize,
    told: Option<u64>,
}

struct Run {
    world: World,
    callers: Vec<usize>,
    responders: Vec<usize>,
    calls: Vec<Asked>,
    served: BTreeMap<(usize, ExchangeKey), Served>,
    /// By client: how much of what it was told was looked at.
    looked: BTreeMap<usize, (usize, usize)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(seed, BrokerOptions { shards, ..BrokerOptions::default() });
        let callers = (0..2).map(|at| world.connect(at % shards, "caller")).collect();
        let responders: Vec<usize> =
            (0..2).map(|at| world.connect((at + 1) % shards, "responder")).collect();
        for responder in &responders {
            world.subscribe(*responder, 3, Wish { window: Some(9), ..Wish::to("service:add") });
        }
        world.deliver_envelopes();
        let (calls, served, looked) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Run { world, callers, responders, calls, served, looked }
    }

    fn call(&mut self) {
        let random = &mut self.world.random;
        let (caller, all) = (*random.pick(&self.callers), 1 + random.below(20));
        let wanted = (!random.one_in(4)).then(|| 1 + random.below(4) as u64);
        let number = self.calls.len() as u32 + 1;
        let body = (number - 1).to_string();
        self.calls.push(Asked { caller, number, all, wanted, heard: 0 });
        self.world.call_with(caller, number, "add", body.as_bytes(), (true, TIMEOUT, wanted));
    }

    fn ask(&mut self, call: usize, messages: u64) {
        let Some(asked) = self.calls.get_mut(call).filter(|asked| asked.heard < asked.all) else {
            return;
        };
        let Some(wanted) = &mut asked.wanted else { return };
        *wanted += messages;
        let (caller, number) = (asked.caller, asked.number);
        self.world.ask_for_more(caller, number, messages);
    }

    /// A responder says its next message if it was asked for; whether it did.
    fn say(&mut self, name: (usize, ExchangeKey)) -> bool {
        let served = self.served.get_mut(&name).unwrap();
        let all = self.calls[served.call].all;
        let may = served.told.is_none_or(|told| (served.said as u64) < told);
        if served.said == all || !may {
            return false;
        }
        let body = format!("{} {}", served.call, served.said);
        served.said += 1;
        let last = served.said == all;
        self.world.send_exchange(name.0, name.1, &body, last);
        true
    }

    /// Takes note of what clients were told, and checks it.
    fn look(&mut self) {
        for responder in self.responders.clone() {
            let (heard, credits) = self.looked.get(&responder).copied().unwrap_or_default();
            let client = &self.world.clients[responder];
            for message in &client.heard[heard..] {
                let call: usize = message.body.parse().unwrap();
                let told = message.exchange.credit;
                assert_eq!(told.is_some(), self.calls[call].wanted.is_some());
                let served = Served { call, said: 0, told };
                self.served.insert((responder, message.exchange.key), served);
            }
            for (key, messages) in &client.credits[credits..] {
                let served = self.served.get_mut(&(responder, *key)).expect("it has begun");
                *served.told.as_mut().expect("it is bounded") += messages;
            }
            self.looked.insert(responder, (client.heard.len(), client.credits.len()));
        }
        for served in self.served.values() {
            let wanted = self.calls[served.call].wanted;
            assert!(served.told <= wanted, "told of {:?}, wanted {wanted:?}", served.told);
        }
        for caller in self.callers.clone() {
            let (heard, _) = self.looked.get(&caller).copied().unwrap_or_default();
            for message in &self.world.clients[caller].heard[heard..] {
                let (call, number) = message.body.split_once(' ').unwrap();
                let asked = &mut self.calls[call.parse::<usize>().unwrap()];
                assert_eq!(number.parse::<usize>().unwrap(), asked.heard);
                asked.heard += 1;
                assert!(asked.wanted.is_none_or(|wanted| asked.heard as u64 <= wanted));
            }
            self.looked.insert(caller, (self.world.clients[caller].heard.len(), 0));
        }
    }

    fn step(&mut self) {
        match self.world.random.below(12) {
            0 => self.call(),
            1 | 2 if !self.calls.is_empty() => {
                let call = self.world.random.below(self.calls.len());
                let messages = 1 + self.world.random.below(3) as u64;
                self.ask(call, messages);
            }
            3..=5 if !self.served.is_empty() => {
                let names: Vec<_> = self.served.keys().copied().collect();
                let name = *self.world.random.pick(&names);
                self.say(name);
            }
            6..=8 => {
                self.world.deliver_envelope();
            }
            _ => {
                let client = self.world.random.below(self.world.clients.len());
                self.world.pull(client);
            }
        }
        self.look();
    }

    /// Everybody asks for what is left, a few messages at a time.
    fn finish(&mut self) {
        loop {
            self.world.quiesce();
            self.look();
            for served in self.served.values() {
                let asked = &self.calls[served.call];
                // What was asked for behind the last message is for nobody.
                assert!(served.told == asked.wanted || served.said == asked.all);
            }
            let names: Vec<_> = self.served.keys().copied().collect();
            let mut said = 0;
            for name in names {
                while self.say(name) {
                    said += 1;
                }
            }
            for call in 0..self.calls.len() {
                self.ask(call, 2);
            }
            if said == 0 && !self.calls.iter().any(|asked| asked.heard < asked.all) {
                break;
            }
        }
        assert!(self.world.clients.iter().all(|client| client.ended.is_empty()));
        self.world.end();
    }
}

#[test]
fn demand_arrives_whole_whatever_the_order_of_messages_between_shards() {
    for_seeds(0..300, |seed| {
        let mut run = Run::new(seed);
        for _ in 0..250 {
            run.step();
        }
        run.finish();
    });
}
