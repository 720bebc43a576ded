//! Calls through edges, both ways: whatever is cut and heals, each exchange ends once for its caller, what is said arrives in
//! order and once, no more comes than is wanted, and what is said of a call that has failed is true.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::faults::{Fault, are_found};
use crate::support::nodes::{Joined, Nodes, edge_world};
use crate::support::{Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::ExchangeKey;

/// `local` is served by clients of the edges, `both` by them and at the source, and nobody serves `nobody`.
const SERVICES: [&str; 7] =
    ["fx/quote", "fx/deep/quote", "fx/local", "fx/both", "fx/nobody", "fx/denied", "fx/fenced"];

/// The source, or one of the edges.
type At = Option<usize>;

struct Called {
    number: u32,
    service: &'static str,
    id: String,
    /// How many messages it has asked for.
    asked_for: Option<u64>,
    said: u32,
    said_last: bool,
    cancelled: bool,
}

struct Caller {
    at: At,
    client: usize,
    name: &'static str,
    calls: Vec<Called>,
}

/// What a responder knows of one exchange.
struct Served {
    id: String,
    granted: Option<u64>,
    said: u64,
    said_last: bool,
    heard: Vec<String>,
    heard_last: bool,
    ended: Option<CloseCode>,
}

struct Responder {
    at: At,
    client: usize,
    service: &'static str,
    serves: bool,
    served: BTreeMap<u32, Served>,
    /// How much of what has come was looked at.
    seen: (usize, usize, usize),
}

struct Run {
    nodes: Nodes,
    callers: Vec<Caller>,
    responders: Vec<Responder>,
    calls: u64,
}

fn rules() -> Rules {
    let all = Action::ALL.into_iter().map(|(_, action)| action).collect();
    let rule = |allow, actions, who, paths: &[&str]| Rule {
        allow,
        actions,
        who: vec![who],
        paths: paths.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
        kind: None,
    };
    let only = |action| [action].into_iter().collect();
    Rules::new(vec![
        rule(true, all, Who::All, &[]),
        rule(false, only(Action::Call), Who::User("ann".into()), &["fx/denied"]),
        rule(false, only(Action::Relay), Who::User("edge".into()), &["fx/fenced"]),
    ])
}

fn source(seed: u64) -> World {
    let (epoch, shards) = (1_000 + seed, 1 + (seed % 3) as usize);
    World::new(seed, BrokerOptions { rules: rules(), epoch, shards, ..BrokerOptions::default() })
}

impl Run {
    fn new(seed: u64) -> Run {
        let edges = (0..2).map(|number| edge_world(seed * 5 + number, BrokerOptions::default()));
        let nodes = Nodes::new(source(seed), edges.collect());
        let mut run = Run { nodes, callers: Vec::new(), responders: Vec::new(), calls: 0 };
        for (at, service) in [
            (None, "fx/quote"),
            (None, "fx/**"),
            (None, "fx/both"),
            (Some(0), "fx/local"),
            (Some(0), "fx/both"),
            (Some(1), "fx/local"),
        ] {
            let client = run.connect(at, "server");
            let (serves, served, seen) = (false, BTreeMap::new(), (0, 0, 0));
            run.responders.push(Responder { at, client, service, serves, served, seen });
        }
        (0..run.responders.len()).for_each(|who| run.serve(who));
        for (at, name) in [(Some(0), "ann"), (Some(0), "bob"), (Some(1), "cid"), (None, "dan")] {
            let client = run.connect(at, name);
            run.callers.push(Caller { at, client, name, calls: Vec::new() });
        }
        run
    }

    fn world(&mut self, at: At) -> &mut World {
        match at {
            None => &mut self.nodes.source,
            Some(at) => &mut self.nodes.edges[at].world,
        }
    }

    fn connect(&mut self, at: At, name: &str) -> usize {
        let world = self.world(at);
        let shard = world.random.below(world.brokers.len());
        world.connect(shard, name)
    }

    /// A responder begins to serve, or ends that.
    fn serve(&mut self, who: usize) {
        let Responder { at, client, service, serves, .. } = self.responders[who];
        // Deep ones have no room, so that calls wait there.
        let window = if service == "fx/both" { 1 } else { 3 };
        let world = self.world(at);
        match serves {
            true => _ = world.unsubscribe(client, 3),
            false => {
                let wish = Wish { window: Some(window), ..Wish::to(&format!("service:{service}")) };
                world.subscribe(client, 3, wish);
            }
        }
        self.responders[who].serves = !serves;
    }

    fn call(&mut self) {
        let who = self.nodes.source.random.below(self.callers.len());
        let service = *self.nodes.source.random.pick(&SERVICES);
        let last = self.nodes.source.random.one_in(2);
        let credit = self.nodes.source.random.one_in(2).then_some(2);
        self.calls += 1;
        let Caller { at, client, name, calls } = &self.callers[who];
        let (at, client, number) = (*at, *client, calls.len() as u32 + 1);
        let id = format!("{name}-{}", self.calls);
        self.world(at).call_with(
            client,
            number,
            service,
            id.as_bytes(),
            (last, Span::ZERO, credit),
        );
        self.callers[who].calls.push(Called {
            number,
            service,
            id,
            asked_for: credit,
            said: 0,
            said_last: last,
            cancelled: false,
        });
    }

    /// A caller goes on with one of its calls, asks for more, or gives up.
    fn go_on(&mut self, finish: bool) {
        let who = self.nodes.source.random.below(self.callers.len());
        let Caller { at, client, calls, .. } = &self.callers[who];
        let (at, client) = (*at, *client);
        if calls.is_empty() {
            return;
        }
        let place = self.nodes.source.random.below(calls.len());
        let what = if finish { 0 } else { self.nodes.source.random.below(8) };
        self.act(who, place, (at, client), what);
    }

    fn act(&mut self, who: usize, place: usize, (at, client): (At, usize), what: usize) {
        let call = &mut self.callers[who].calls[place];
        if call.cancelled {
            return;
        }
        let (number, key) = (call.number, ExchangeKey::caller(call.number));
        match what {
            0..4 if !call.said_last => {
                call.said_last = what < 2;
                call.said += 1;
                let (body, last) = (format!("{}>{}", call.id, call.said), call.said_last);
                self.world(at).send_exchange(client, key, &body, last);
            }
            4..7 => {
                if let Some(asked_for) = &mut call.asked_for {
                    *asked_for += 3;
                    self.world(at).ask_for_more(client, number, 3);
                }
            }
            7 => {
                call.cancelled = true;
                self.world(at).cancel(client, key);
            }
            _ => {}
        }
    }

    /// What has come to responders.
    fn look(&mut self) {
        for who in 0..self.responders.len() {
            let Responder { at, client, seen, .. } = &self.responders[who];
            let (at, client, seen) = (*at, *client, *seen);
            let known = &self.world(at).clients[client];
            let heard = known.heard[seen.0..].to_vec();
            let credits = known.credits[seen.1..].to_vec();
            let ended = known.ended[seen.2..].to_vec();
            let responder = &mut self.responders[who];
            responder.seen = (seen.0 + heard.len(), seen.1 + credits.len(), seen.2 + ended.len());
            for row in heard {
                let number = row.exchange.key.number;
                if row.exchange.first {
                    let served = Served {
                        id: row.body,
                        granted: row.exchange.credit,
                        said: 0,
                        said_last: false,
                        heard: Vec::new(),
                        heard_last: row.exchange.last,
                        ended: None,
                    };
                    assert!(responder.served.insert(number, served).is_none());
                    continue;
                }
                let served = responder.served.get_mut(&number).unwrap();
                served.heard.push(row.body);
                served.heard_last |= row.exchange.last;
            }
            for (key, messages) in credits {
                let granted = &mut responder.served.get_mut(&key.number).unwrap().granted;
                *granted = granted.map(|granted| granted + messages);
            }
            for (key, code) in ended {
                let served = responder.served.get_mut(&key.number).unwrap();
                assert!(served.ended.replace(code).is_none(), "ended twice");
            }
        }
    }

    /// A responder answers in one of its exchanges, as far as that is wanted, or cancels it.
    fn answer(&mut self, who: usize, number: u32, what: usize) {
        let Responder { at, client, served, .. } = &mut self.responders[who];
        let (at, client) = (*at, *client);
        let Some(served) = served.get_mut(&number) else { return };
        if served.said_last || served.ended.is_some() {
            return;
        }
        let key = ExchangeKey::responder(number);
        if what == 9 {
            served.said_last = true;
            return self.world(at).cancel_with(client, key, CloseCode::CallFailed);
        }
        let may = served.granted.is_none_or(|granted| served.said < granted);
        let body = format!("{}#{}", served.id, served.said);
        let last = what < 4;
        served.said_last = last;
        match may {
            true => {
                served.said += 1;
                self.world(at).send_exchange(client, key, &body, last);
            }
            // That there is no more needs no credit.
            false if last => self.world(at).finish_saying(client, key),
            false => {}
        }
    }

    fn answer_some(&mut self) {
        self.look();
        let who = self.nodes.source.random.below(self.responders.len());
        let numbers: Vec<u32> = self.responders[who].served.keys().copied().collect();
        if !numbers.is_empty() {
            let number = *self.nodes.source.random.pick(&numbers);
            let what = self.nodes.source.random.below(10);
            self.answer(who, number, what);
        }
    }

    fn step(&mut self) {
        let at = self.nodes.source.random.below(self.nodes.edges.len());
        match self.nodes.source.random.below(24) {
            0..5 => self.call(),
            5..9 => self.answer_some(),
            9..12 => self.go_on(false),
            12..18 => {
                for _ in 0..4 {
                    self.nodes.pump(at);
                    self.nodes.source.deliver_envelope();
                    self.nodes.edges[at].world.deliver_envelope();
                }
            }
            18 => self.nodes.edges[at].world.quiesce(),
            19 => self.nodes.source.quiesce(),
            20 if self.nodes.source.random.one_in(4) => self.nodes.cut(at),
            21 => self.nodes.heal(at),
            22 if self.nodes.source.random.one_in(4) => {
                let who = self.nodes.source.random.below(self.responders.len());
                self.serve(who);
            }
            _ => self.nodes.advance(Span::from_millis(50)),
        }
    }

    /// Everybody says what is left to say, until all is over.
    fn finish(&mut self) {
        (0..self.nodes.edges.len()).for_each(|at| self.nodes.heal(at));
        for _ in 0..40 {
            self.nodes.settle();
            self.look();
            for who in 0..self.responders.len() {
                let numbers: Vec<u32> = self.responders[who].served.keys().copied().collect();
                numbers.into_iter().for_each(|number| self.answer(who, number, 0));
            }
            for who in 0..self.callers.len() {
                let Caller { at, client, calls, .. } = &self.callers[who];
                let (at, client) = (*at, *client);
                (0..calls.len()).for_each(|place| self.act(who, place, (at, client), 0));
            }
            self.nodes.advance(Span::from_millis(50));
        }
        self.nodes.settle();
        self.look();
    }

    fn check(&mut self, told: &mut BTreeMap<String, usize>) {
        let mut taken: BTreeMap<&str, (usize, &Served)> = BTreeMap::new();
        for (who, responder) in self.responders.iter().enumerate() {
            for served in responder.served.values() {
                let before = taken.insert(&served.id, (who, served));
                assert!(before.is_none(), "{} was called twice", served.id);
                let all = (1..).map(|number| format!("{}>{number}", served.id));
                assert!(served.heard.iter().zip(all).all(|(heard, said)| *heard == said));
            }
        }
        for caller in &self.callers {
            let world = match caller.at {
                None => &self.nodes.source,
                Some(at) => &self.nodes.edges[at].world,
            };
            let client = &world.clients[caller.client];
            for call in &caller.calls {
                let key = ExchangeKey::caller(call.number);
                let heard = client.heard.iter().filter(|row| row.exchange.key == key);
                let bodies = heard.clone().filter(|row| !row.exchange.bare).map(|row| &row.body);
                let bodies: Vec<&String> = bodies.collect();
                let is_last = heard.clone().any(|row| row.exchange.last);
                let all = (0..).map(|number| format!("{}#{number}", call.id));
                assert!(bodies.iter().zip(all).all(|(heard, said)| **heard == said), "{bodies:?}");
                let most = call.asked_for.unwrap_or(u64::MAX);
                assert!(bodies.len() as u64 <= most, "{} has got more than it wants", call.id);
                let ended: Vec<CloseCode> = client
                    .ended
                    .iter()
                    .filter(|(of, _)| *of == key)
                    .map(|(_, code)| *code)
                    .collect();
                let responder = taken.get(&*call.id);
                let what = match (&ended[..], call.cancelled) {
                    (_, true) => "cancelled".to_owned(),
                    ([], false) => {
                        assert!(is_last && call.said_last, "{} never ends", call.id);
                        let (who, served) = responder.unwrap();
                        assert_eq!(bodies.len() as u64, served.said, "{} was complete", call.id);
                        // What the caller has said last may be lost with the connection, or with who served.
                        let is_whole = served.heard.len() as u32 == call.said;
                        assert!(is_whole || served.ended.is_some(), "{} is open", call.id);
                        let is_near = self.responders[*who].at == caller.at;
                        if is_near { "near" } else { "far" }.to_owned()
                    }
                    ([code], false) => format!("{code:?}"),
                    more => panic!("{} has ended more than once: {more:?}", call.id),
                };
                if matches!(&*what, "UpstreamAway" | "NotAuthorised" | "NoResponder") {
                    assert!(responder.is_none(), "{} was called: {what}", call.id);
                }
                let denied = call.service == "fx/denied" && caller.name == "ann";
                if caller.at.is_some() && (denied || call.service == "fx/fenced") {
                    assert!(responder.is_none() && what != "far", "{} is not allowed", call.id);
                }
                *told.entry(what).or_default() += 1;
            }
        }
        for world in [&self.nodes.source, &self.nodes.edges[0].world, &self.nodes.edges[1].world] {
            let metrics = world.metrics();
            assert_eq!((metrics.exchanges, metrics.exchanges_served), (0, 0));
            assert_eq!((metrics.calls_waiting, metrics.upstream_exchanges), (0, 0));
        }
    }
}

/// Plays a seed, and counts what callers were told.
fn play(seed: u64, fault: Fault, told: &mut BTreeMap<String, usize>) {
    let mut run = Run::new(seed);
    run.nodes.fault = fault;
    (0..run.nodes.edges.len()).for_each(|at| run.nodes.heal(at));
    for _ in 0..250 {
        run.step();
    }
    run.finish();
    run.check(told);
    for at in 0..run.nodes.edges.len() {
        run.nodes.cut(at);
        run.nodes.edges[at].world.end();
    }
    run.nodes.source.end();
}

#[test]
fn faults_of_exchanges_are_found() {
    let faults = [Fault::SaidTwice, Fault::SaidLost];
    are_found(&faults, |seed, fault| play(seed, fault, &mut BTreeMap::new()));
}

#[test]
fn what_is_said_through_edges_arrives_once_and_every_call_ends_once() {
    let told = RefCell::new(BTreeMap::new());
    for_seeds(0..400, |seed| play(seed, Fault::None, &mut told.borrow_mut()));
    // Each of the ways was gone.
    let told = told.into_inner();
    for what in [
        "near",
        "far",
        "cancelled",
        "UpstreamAway",
        "OutcomeUnknown",
        "NotAuthorised",
        "NoResponder",
        "CallFailed",
        "ResponderGone",
    ] {
        assert!(told.get(what).is_some_and(|count| *count > 10), "{what}: {told:?}");
    }
}
