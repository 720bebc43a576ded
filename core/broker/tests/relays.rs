//! Clients of edges that publish and operate at a source: what is confirmed is at the source once, what is refused is not
//! there, and of each publisher's messages the order is kept; connections are cut and heal, and the source restarts.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::support::faults::{Fault, are_found};
use crate::support::nodes::{Joined, Nodes, edge_world};
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, SlowConsumer, Who};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Change, Command, Commands, Condition, Flags, FromUpstream, Operation, OperationResult, Token,
    Update,
};

const TOPICS: [&str; 5] = ["fx/a", "fx/b", "fx/c/d", "fx/denied", "fx/fenced"];

/// A request of a publisher.
struct Asked {
    path: &'static str,
    /// The numbers of its messages: that many from this one on.
    from: u64,
    count: u64,
    token: Option<Token>,
    operates: bool,
}

struct Publisher {
    edge: usize,
    client: usize,
    name: &'static str,
    next: u64,
    asked: Vec<Asked>,
}

struct Run {
    nodes: Nodes,
    reader: usize,
    publishers: Vec<Publisher>,
    /// What has come to the source: of whom and where, in order.
    come: BTreeMap<(String, String), Vec<u64>>,
    lives: u64,
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

fn source_rules() -> Rules {
    let all = Action::ALL.into_iter().map(|(_, action)| action).collect();
    let rule = |allow, actions, who, paths: &[&str]| Rule {
        allow,
        actions,
        who: vec![who],
        paths: paths.iter().map(|text| pattern(text)).collect(),
        kind: None,
    };
    let only = |action| [action].into_iter().collect();
    Rules::new(vec![
        rule(true, all, Who::All, &[]),
        rule(false, only(Action::Publish), Who::User("ann".into()), &["fx/denied"]),
        rule(false, only(Action::Relay), Who::User("edge".into()), &["fx/fenced"]),
    ])
}

fn options(epoch: u64, shards: usize) -> BrokerOptions {
    let mut options = BrokerOptions { epoch, shards, ..BrokerOptions::default() };
    let mut spec = (*options.topic_default).clone();
    spec.slow_consumer = SlowConsumer::Block;
    options.topic_default = spec.into();
    options
}

fn source(seed: u64, lives: u64) -> (World, usize) {
    let rules = source_rules();
    let options = BrokerOptions { rules, ..options(1_000 + seed + lives, 1 + (seed % 3) as usize) };
    let mut world = World::new(seed + lives, options);
    let reader = world.connect(0, "reader");
    let wish = Wish { unretained: true, ..Wish::to("topic:fx/**") };
    world.subscribe(reader, 1, wish);
    world.quiesce();
    (world, reader)
}

fn edge(number: u64) -> World {
    edge_world(number, options(number, 1))
}

impl Run {
    fn new(seed: u64) -> Run {
        let (source, reader) = source(seed, 0);
        let edges = (0..2).map(|number| edge(seed * 5 + number)).collect();
        let mut run = Run {
            nodes: Nodes::new(source, edges),
            reader,
            publishers: Vec::new(),
            come: BTreeMap::new(),
            lives: 0,
        };
        for (name, edge) in [("ann", 0), ("bob", 0), ("cid", 1)] {
            let world = &mut run.nodes.edges[edge].world;
            let shard = world.random.below(world.brokers.len());
            let client = world.connect(shard, name);
            run.publishers.push(Publisher { edge, client, name, next: 1, asked: Vec::new() });
        }
        run
    }

    /// The source ends without a word, and begins anew; what it has taken was seen by its reader.
    fn restart(&mut self, seed: u64) {
        self.nodes.source.quiesce();
        self.read();
        (0..self.nodes.edges.len()).for_each(|at| self.nodes.cut(at));
        self.lives += 1;
        let now = self.nodes.source.now;
        (self.nodes.source, self.reader) = source(seed, self.lives);
        self.nodes.source.now = now;
    }

    /// Takes in what has come to the source.
    fn read(&mut self) {
        for message in self.nodes.source.clients[self.reader].received.drain(..) {
            let mut words = message.body.split(' ');
            let (name, number) = (words.next().unwrap(), words.next().unwrap());
            let of = (name.to_owned(), message.path);
            self.come.entry(of).or_default().push(number.parse().unwrap());
        }
    }

    fn ask(&mut self) {
        let who = self.nodes.source.random.below(self.publishers.len());
        let publisher = &mut self.publishers[who];
        let world = &mut self.nodes.edges[publisher.edge].world;
        if world.clients[publisher.client].paused {
            return;
        }
        let path = *self.nodes.source.random.pick(&TOPICS);
        let from = publisher.next;
        let operates = self.nodes.source.random.one_in(3);
        let asks = operates || self.nodes.source.random.one_in(2);
        let count = if operates { 1 } else { 1 + self.nodes.source.random.below(3) as u64 };
        publisher.next += count;
        let bodies = (from..from + count).map(|number| format!("{} {number}", publisher.name));
        let bodies: Vec<String> = bodies.collect();
        let token = if operates {
            let token = world.token(publisher.client);
            let update = Update {
                path: Path::parse(path).unwrap(),
                change: Change::Value(bodies[0].as_bytes().into()),
                properties: None,
                flags: Flags::NONE,
                condition: self
                    .nodes
                    .source
                    .random
                    .one_in(2)
                    .then_some(Condition::Any(vec![Condition::Present, Condition::Absent])),
                spec: None,
            };
            let operation = Box::new(Operation::Update(Box::new(update)));
            world.command(publisher.client, Command::Operate { token, operation });
            Some(token)
        } else if asks {
            let messages: Vec<Outgoing> = bodies.iter().map(Outgoing::new).collect();
            Some(world.publish_all(publisher.client, &format!("topic:{path}"), &messages))
        } else {
            for body in &bodies {
                let message = Outgoing::new(body);
                world.publish_unasked(publisher.client, &format!("topic:{path}"), &message);
            }
            None
        };
        publisher.asked.push(Asked { path, from, count, token, operates });
    }

    fn step(&mut self, seed: u64) {
        match self.nodes.source.random.below(20) {
            0..6 => self.ask(),
            6..12 => {
                let at = self.nodes.source.random.below(self.nodes.edges.len());
                for _ in 0..4 {
                    self.nodes.pump(at);
                    self.nodes.source.deliver_envelope();
                    self.nodes.edges[at].world.deliver_envelope();
                }
            }
            12..14 => {
                let at = self.nodes.source.random.below(self.nodes.edges.len());
                self.nodes.edges[at].world.quiesce();
            }
            14 if self.nodes.source.random.one_in(3) => {
                let at = self.nodes.source.random.below(self.nodes.edges.len());
                self.nodes.cut(at);
            }
            15 | 16 => {
                let at = self.nodes.source.random.below(self.nodes.edges.len());
                self.nodes.heal(at);
            }
            17 if self.nodes.source.random.one_in(10) => self.restart(seed),
            18 => {
                self.nodes.advance(Span::from_millis(50));
            }
            _ => self.nodes.source.quiesce(),
        }
    }

    /// Each publisher's messages have gone to the source in order and once, and those of one connection have come to their
    /// topics so. Gives those that have come behind messages of a later connection, as one may whose connection was lost
    /// before its answer: the sessions of the two may be of different shards.
    fn check_order(&self) -> BTreeSet<(&'static str, u64)> {
        let mut late = BTreeSet::new();
        for publisher in &self.publishers {
            let mut by = BTreeMap::new();
            for (connection, body) in &self.nodes.passed_on {
                let number = body.strip_prefix(publisher.name).map(|it| it.trim().parse().unwrap());
                let Some(number) = number else { continue };
                let last = by.last_key_value().map_or(0, |(last, _)| *last);
                assert!(last < number, "{body} was passed on behind {last}");
                by.insert(number, *connection);
            }
            for ((_, path), numbers) in self.come.iter().filter(|it| it.0.0 == publisher.name) {
                for (at, number) in numbers.iter().enumerate() {
                    let mut newer =
                        numbers[..at].iter().filter(|before| *before >= number).peekable();
                    if newer.peek().is_some() {
                        let are_of_later = newer.all(|newer| by[newer] > by[number]);
                        let name = publisher.name;
                        assert!(are_of_later, "{name} to {path}, out of order: {numbers:?}");
                        late.insert((name, *number));
                    }
                }
            }
        }
        late
    }

    /// Everything is answered; what is told is true.
    fn check_at_rest(&mut self, told: &mut BTreeMap<&'static str, usize>) {
        (0..self.nodes.edges.len()).for_each(|at| self.nodes.heal(at));
        self.nodes.settle();
        self.read();
        let late = self.check_order();
        for publisher in &self.publishers {
            let client = &self.nodes.edges[publisher.edge].world.clients[publisher.client];
            assert!(!client.paused, "{} waits for nothing", publisher.name);
            for asked in &publisher.asked {
                let come = self.come.get(&(publisher.name.to_owned(), asked.path.to_owned()));
                let is_there = |number| come.is_some_and(|all| all.contains(&number));
                let mut numbers = asked.from..asked.from + asked.count;
                let there = numbers.clone().filter(|number| is_there(*number)).count() as u64;
                let is_late = numbers.any(|number| late.contains(&(publisher.name, number)));
                let may = asked.path != "fx/fenced"
                    && (asked.path != "fx/denied" || publisher.name != "ann");
                assert!(may || there == 0, "{} is not allowed", asked.path);
                let Some(token) = asked.token else { continue };
                let is_done = match asked.operates {
                    true => match client.operated.get(&token) {
                        Some(OperationResult::Updated { version }) => *version > 0,
                        Some(other) => panic!("{other:?}"),
                        None => false,
                    },
                    false => client.confirmed.contains(&token),
                };
                let refused: Vec<CloseCode> = client
                    .refused
                    .iter()
                    .filter(|(known, _)| *known == Some(token))
                    .map(|(_, code)| *code)
                    .collect();
                let what = match (is_done, &refused[..]) {
                    (true, []) => {
                        assert_eq!(there, asked.count, "it was confirmed");
                        "done"
                    }
                    (false, [CloseCode::OutcomeUnknown]) => "unknown",
                    (false, [code @ (CloseCode::UpstreamAway | CloseCode::NotAuthorised)]) => {
                        assert!(*code == CloseCode::UpstreamAway || !may);
                        assert_eq!(there, 0, "it was refused");
                        if may { "away" } else { "denied" }
                    }
                    other => panic!("{token} of {} was answered {other:?}", publisher.name),
                };
                assert!(!is_late || what == "unknown", "{token} of {} is late", publisher.name);
                *told.entry(what).or_default() += 1;
            }
        }
        for edge in &self.nodes.edges {
            assert_eq!(edge.world.metrics().upstream_relay_waiting, 0);
        }
    }
}

/// Plays a seed, and counts what publishers were told.
fn play(seed: u64, fault: Fault, told: &mut BTreeMap<&'static str, usize>) {
    let mut run = Run::new(seed);
    run.nodes.fault = fault;
    (0..run.nodes.edges.len()).for_each(|at| run.nodes.heal(at));
    for _ in 0..300 {
        run.step(seed);
    }
    run.check_at_rest(told);
}

#[test]
fn faults_of_requests_are_found() {
    let faults = [Fault::AnswerUntrue, Fault::AnswerLost, Fault::RequestTwice];
    are_found(&faults, |seed, fault| play(seed, fault, &mut BTreeMap::new()));
}

#[test]
fn what_clients_of_edges_are_told_of_their_requests_is_true() {
    let told = RefCell::new(BTreeMap::new());
    let scenario = |seed| play(seed, Fault::None, &mut told.borrow_mut());
    for_seeds(0..600, scenario);
    // A message comes late, by a connection that is lost.
    for_seeds(18_092..18_093, scenario);
    // Each of the ways was gone.
    let told = told.into_inner();
    for what in ["done", "unknown", "away", "denied"] {
        assert!(told.get(what).is_some_and(|count| *count > 10), "{told:?}");
    }
}

/// A source whose rules are those of the model, and a session there that is called so.
fn at_source(name: &str) -> (World, usize) {
    let (mut world, _) = source(1, 0);
    let client = world.connect(0, name);
    (world, client)
}

fn principal(name: &str) -> std::sync::Arc<tiderace_wire::EndPrincipal> {
    let end = tiderace_wire::EndPrincipal::new(name.into(), [].into(), [].into(), false);
    end.unwrap().into()
}

fn operation(text: &str) -> Box<Operation> {
    let reading = tiderace_wire::Reading {
        body: None,
        now: tiderace_base::Time::ZERO,
        path: &|text| tiderace_wire::parse_path(text, None),
        selector: &|text| Ok(tiderace_wire::parse_selector(text, None)?.patterns().to_vec()),
    };
    Box::new(Operation::parse(text.as_bytes(), &reading).unwrap())
}

#[test]
fn what_belongs_to_a_session_is_not_done_for_others() {
    let (mut world, client) = at_source("edge");
    let rows = [
        r#"{"do":"lock","name":"fx/l"}"#,
        r#"{"do":"claim","path":"fx/a"}"#,
        r#"{"do":"session"}"#,
        r#"{"do":"create","path":"fx/a","spec":{"removal":"session closes"}}"#,
        r#"{"do":"update","path":"fx/a","value":1,"if":{"locked":"fx/l"}}"#,
    ];
    for text in rows {
        let token = world.token(client);
        let mut commands = Commands::new();
        commands.push(Command::ActAs(Some(principal("bob"))));
        commands.push(Command::Operate { token, operation: operation(text) });
        // The end of the marks is missing: the call ends them.
        world.commands(client, &mut commands);
        world.quiesce();
        let refused = &world.clients[client].refused;
        assert_eq!(refused.last(), Some(&(Some(token), CloseCode::TopicElsewhere)), "{text}");
    }
    // For itself it takes a lock.
    let token = world.token(client);
    let lock = Command::Operate { token, operation: operation(rows[0]) };
    world.command(client, lock);
    world.quiesce();
    let answer = world.clients[client].operated.get(&token);
    assert!(matches!(answer, Some(OperationResult::Locked { .. })), "{answer:?}");
}

#[test]
fn between_the_marks_nothing_else_is_done() {
    let (mut world, client) = at_source("edge");
    let mut commands = Commands::new();
    commands.push(Command::ActAs(Some(principal("bob"))));
    let login = tiderace_wire::Credentials { login: Some("root".into()), ..Default::default() };
    commands.push(Command::Login(login));
    commands.push(Command::ActAs(None));
    world.commands(client, &mut commands);
    assert_eq!(world.clients[client].refused, [(None, CloseCode::TopicElsewhere)]);
    assert_eq!(world.clients[client].name.as_deref(), Some("edge"));
    // What the session may itself is nothing that it may for others, and the other way round.
    let mut tokens = Vec::new();
    for who in [Some("ann"), None, Some("ann"), None] {
        let token = world.token(client);
        let destination = crate::support::destination("topic:fx/denied");
        let mut commands = Commands::new();
        commands.push(Command::ActAs(who.map(principal)));
        commands.message(&destination);
        commands.publish(b"edge 1", Default::default(), Some(token));
        world.commands(client, &mut commands);
        tokens.push(token);
    }
    world.quiesce();
    let confirmed = tokens.iter().map(|token| world.is_confirmed(client, *token));
    assert_eq!(confirmed.collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn an_edge_that_may_not_write_says_where_to_and_transactions_stay_where_they_are() {
    let mut world = edge(3);
    let client = world.connect(0, "ann");
    let mut commands = Commands::new();
    let token = world.token(client);
    commands.push(Command::Together(true));
    commands.message(&crate::support::destination("topic:fx/a"));
    commands.publish(b"ann 1", Default::default(), Some(token));
    commands.push(Command::Together(false));
    world.commands(client, &mut commands);
    world.quiesce();
    assert_eq!(world.clients[client].refused, [(Some(token), CloseCode::TopicElsewhere)]);
    for text in [r#"{"do":"claim","path":"fx/a"}"#, r#"{"do":"remove","selector":"**"}"#] {
        let token = world.token(client);
        world.command(client, Command::Operate { token, operation: operation(text) });
        world.quiesce();
        let refused = &world.clients[client].refused;
        assert_eq!(refused.last(), Some(&(Some(token), CloseCode::TopicElsewhere)), "{text}");
    }
}

#[test]
fn a_publisher_is_held_back_while_much_waits_and_told_when_it_was_for_nothing() {
    let mut world = edge(4);
    let client = world.connect(1, "ann");
    let mut tokens = Vec::new();
    while !world.clients[client].paused {
        tokens.push(world.publish(client, "topic:fx/a", "ann 1"));
        world.deliver_envelopes();
        assert!(tokens.len() < 1000, "it is never held back");
    }
    assert!(world.metrics().upstream_relay_waiting >= 64);
    // The upstream does not come.
    for _ in 0..12 {
        world.advance(Span::from_millis(50));
        world.quiesce();
    }
    assert!(!world.clients[client].paused);
    let refused = tokens.iter().map(|token| (Some(*token), CloseCode::UpstreamAway));
    assert_eq!(world.clients[client].refused, refused.collect::<Vec<_>>());
    // From then on nobody waits for it.
    let token = world.publish(client, "topic:fx/a", "ann 2");
    world.deliver_envelopes();
    let last = world.clients[client].refused.last();
    assert_eq!(last, Some(&(Some(token), CloseCode::UpstreamAway)));
    world.end();
}

#[test]
fn very_many_requests_that_wait_in_vain_are_refused_a_part_at_a_time() {
    let mut world = edge(3);
    let client = world.connect(0, "ann");
    let count = 10_000;
    let tokens: Vec<Token> = (0..count)
        .map(|number| world.publish(client, "topic:fx/a", &format!("ann {number}")))
        .collect();
    world.deliver_envelopes();
    assert_eq!(world.metrics().upstream_relay_waiting, count);
    let mut refused = 0;
    for _ in 0..20 {
        world.advance(Span::from_millis(50));
        world.quiesce();
        let now = world.clients[client].refused.len();
        assert!(now - refused <= 4096, "one call has refused {}", now - refused);
        refused = now;
    }
    let all = tokens.iter().map(|token| (Some(*token), CloseCode::UpstreamAway));
    assert_eq!(world.clients[client].refused, all.collect::<Vec<_>>());
    assert!(!world.clients[client].paused);
    // An upstream that takes none is told of as well, and nothing is left waiting.
    let mut world = edge(3);
    let client = world.connect(0, "ann");
    (0..count).for_each(|_| _ = world.publish(client, "topic:fx/a", "ann 1"));
    world.deliver_envelopes();
    let session = world.open(0);
    world.verified(session, Ok(Principal::server()));
    for said in [
        FromUpstream::Up { upstream: 0, epoch: 9 },
        FromUpstream::Requests { taken: false, consumers: false },
    ] {
        world.command(session, Command::Upstream(Box::new(said)));
    }
    for _ in 0..3 {
        world.advance(Span::from_millis(50));
        world.quiesce();
    }
    let refused = &world.clients[client].refused;
    assert_eq!(refused.len(), count as usize);
    assert!(refused.iter().all(|(_, code)| *code == CloseCode::TopicElsewhere));
    assert_eq!(world.metrics().upstream_relay_waiting, 0);
    world.end();
}
