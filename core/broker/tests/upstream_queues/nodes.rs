//! A source of queues with its edges, without sockets between them.

use std::collections::VecDeque;

use crate::support::faults::Fault;
use crate::support::nodes::by_own_clock;
use crate::support::upstream::upstream;
use crate::support::{EdgeSession, World};
use tiderace_base::{ShardId, Span};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, UpstreamTopics, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Command, Commands, Confirm, FromUpstream, Operation, Settle, ToUpstream};

pub struct Link {
    pub edge: usize,
    pub source: usize,
    up: VecDeque<ToUpstream>,
    down: VecDeque<FromUpstream>,
}

/// A node that passes on the queues of the source.
pub struct Edge {
    pub world: World,
    pub link: Option<Link>,
}

/// A source with its edges.
pub struct Nodes {
    pub source: World,
    pub edges: Vec<Edge>,
    /// What goes wrong on the way.
    pub fault: Fault,
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
        rule(false, only(Action::Receive), Who::User("ann".into()), &["q/denied"]),
        rule(false, only(Action::Relay), Who::User("edge".into()), &["q/fenced"]),
    ])
}

fn edge_options(number: u64) -> BrokerOptions {
    let shards = 1 + (number % 3) as usize;
    let upstream = UpstreamTopics {
        queues: vec![pattern("q/**")],
        shard: ShardId((number % shards as u64) as u16),
        ..upstream("source", &[])
    };
    let upstreams = vec![upstream];
    BrokerOptions { epoch: number + 1, shards, upstreams, ..BrokerOptions::default() }
}

impl Nodes {
    pub fn new(seed: u64, edges: u64) -> Nodes {
        Nodes::with(seed, edges, |_| {})
    }

    pub fn with(seed: u64, edges: u64, change: impl Fn(&mut BrokerOptions)) -> Nodes {
        let shards = 1 + (seed % 3) as usize;
        let mut options = BrokerOptions { epoch: 1_000 + seed, shards, ..BrokerOptions::default() };
        options.rules = source_rules();
        change(&mut options);
        let source = World::new(seed, options);
        let edge = |number| {
            let number = seed * 5 + number;
            Edge { world: World::new(number, edge_options(number)), link: None }
        };
        let edges = (0..edges).map(edge).collect();
        let mut nodes = Nodes { source, edges, fault: Fault::None };
        (0..nodes.edges.len()).for_each(|at| nodes.heal(at));
        nodes
    }

    pub fn heal(&mut self, at: usize) {
        self.heal_with(at, true);
    }

    pub fn heal_with(&mut self, at: usize, consumers: bool) {
        if self.edges[at].link.is_some() {
            return;
        }
        let shard = self.source.random.below(self.source.brokers.len());
        let source = self.source.connect(shard, "edge");
        self.source.clients[source].edge = Some(EdgeSession::default());
        let epoch = self.source.epoch;
        let world = &mut self.edges[at].world;
        let shard = ((world.epoch - 1) % world.brokers.len() as u64) as usize;
        let edge = world.open(shard);
        world.verified(edge, Ok(Principal::server()));
        let down = VecDeque::from([
            FromUpstream::Up { upstream: 0, epoch },
            FromUpstream::Requests { taken: true, consumers },
        ]);
        self.edges[at].link = Some(Link { edge, source, up: VecDeque::new(), down });
    }

    pub fn cut(&mut self, at: usize) {
        let Some(link) = self.edges[at].link.take() else { return };
        self.source.close(link.source);
        self.edges[at].world.close(link.edge);
    }

    /// Moves one thing along a link; whether there was one.
    pub fn pump(&mut self, at: usize) -> bool {
        let edge = &mut self.edges[at];
        let Some(link) = &mut edge.link else { return false };
        link.up.extend(edge.world.clients[link.edge].asked_upstream.drain(..));
        let session = self.source.clients[link.source].edge.as_mut().unwrap();
        link.down.extend(session.said.drain(..));
        let goes_up = !link.up.is_empty() && (link.down.is_empty() || self.source.random.one_in(2));
        if goes_up {
            let asked = link.up.pop_front().unwrap();
            let session = link.source;
            for asked in self.fault.up(&mut self.source.random, asked) {
                ask(&mut self.source, session, asked);
            }
            return true;
        }
        let Some(said) = link.down.pop_front() else { return false };
        for said in self.fault.down(&mut self.source.random, said) {
            edge.world.command(link.edge, Command::Upstream(Box::new(said)));
        }
        true
    }

    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the nodes never come to rest");
            let mut moved = false;
            self.source.quiesce();
            for at in 0..self.edges.len() {
                self.edges[at].world.quiesce();
                while self.pump(at) {
                    moved = true;
                    self.source.deliver_envelopes();
                    self.edges[at].world.deliver_envelopes();
                }
            }
            if !moved {
                return;
            }
        }
    }

    pub fn advance(&mut self, millis: u64) {
        let span = Span::from_millis(millis);
        self.source.advance(span);
        for edge in &mut self.edges {
            edge.world.advance(by_own_clock(span, &mut self.source));
        }
    }

    pub fn bodies(&self, at: usize, client: usize) -> Vec<&str> {
        let received = &self.edges[at].world.clients[client].received;
        received.iter().map(|message| &*message.body).collect()
    }

    /// Ends everybody, and looks for what is left.
    pub fn end(&mut self) {
        for at in 0..self.edges.len() {
            for client in 0..self.edges[at].world.clients.len() {
                if self.edges[at].link.as_ref().is_none_or(|link| link.edge != client) {
                    self.edges[at].world.close(client);
                }
            }
        }
        self.settle();
        for edge in &self.edges {
            let metrics = edge.world.metrics();
            assert_eq!((metrics.upstream_consumers, metrics.upstream_relay_waiting), (0, 0));
        }
        (0..self.edges.len()).for_each(|at| self.cut(at));
        for edge in &mut self.edges {
            edge.world.end();
        }
    }
}

/// What an edge asks for, as its session at the source does it.
fn ask(source: &mut World, session: usize, asked: ToUpstream) {
    let token = source.token(session);
    let acting = |source: &mut World, principal, command| {
        let mut commands = Commands::new();
        commands.push(Command::ActAs(Some(principal)));
        commands.push(command);
        commands.push(Command::ActAs(None));
        source.commands(session, &mut commands);
    };
    let known = source.clients[session].edge.as_mut().unwrap();
    match asked {
        ToUpstream::Publish { request, principal, run } => {
            known.relayed.insert(token, request);
            let confirm = Some(Confirm::one(token));
            let publish = Command::Publish { run: *run, confirm, confirm_first: true };
            acting(source, principal, publish);
        }
        ToUpstream::Operate { request, principal, operation } => {
            known.relayed.insert(token, request);
            acting(source, principal, Command::Operate { token, operation });
        }
        ToUpstream::Consume { key, principal, mut subscribe } => {
            known.consuming.insert(token, key);
            assert!(subscribe.explicit && subscribe.key == key);
            subscribe.confirm = Some(token);
            acting(source, principal, Command::Subscribe(subscribe));
        }
        ToUpstream::Settle { request, key, parts, outcome } => {
            let last = parts.len() - 1;
            for (place, (home, ranges)) in parts.into_iter().enumerate() {
                let known = source.clients[session].edge.as_mut().unwrap();
                let request = request.filter(|_| place == last);
                let confirm = request.map(|request| {
                    known.relayed.insert(token, request);
                    token
                });
                let settle = Settle { key, home, ranges, outcome, confirm };
                source.command(session, Command::Settle(settle));
            }
        }
        ToUpstream::Credit { key, messages } => {
            source.command(session, Command::Credit { key, messages });
        }
        ToUpstream::Leave { key, lost } => {
            known.ended.insert(token, key);
            let confirm = Some(token);
            let command = match lost {
                true => Command::Lose { key, confirm },
                false => Command::Unsubscribe { key, confirm },
            };
            source.command(session, command);
        }
        other => panic!("{other:?}"),
    }
}

pub fn operation(text: &str) -> Box<Operation> {
    let reading = tiderace_wire::Reading {
        body: None,
        now: tiderace_base::Time::ZERO,
        path: &|text| tiderace_wire::parse_path(text, None),
        selector: &|text| Ok(tiderace_wire::parse_selector(text, None)?.patterns().to_vec()),
    };
    Box::new(Operation::parse(text.as_bytes(), &reading).unwrap())
}
