//! Several nodes: a source, edges of it, and what travels between them, one thing at a time and without bytes.

use std::collections::VecDeque;

use super::faults::Fault;
use super::upstream::upstream;
use super::{EdgeSession, Exchanged, World};
use tiderace_base::{ShardId, Span};
use tiderace_broker::{BrokerOptions, Principal, UpstreamTopics};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Call, Change, Command, Commands, Confirm, ExchangeKey, ExchangeSend, FromUpstream, Kind,
    Operation, Side, Subscribe, SubscriptionKey, Target, ToUpstream,
};

/// A source and edges of it, each joined to it by a link.
pub trait Joined {
    fn source(&mut self) -> &mut World;

    fn edges(&self) -> usize;

    fn edge(&mut self, at: usize) -> &mut World;

    /// Moves one thing along an edge's link; whether there was one.
    fn pump(&mut self, at: usize) -> bool;

    /// Until nothing moves any more.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the nodes never come to rest");
            let mut moved = false;
            self.source().quiesce();
            for at in 0..self.edges() {
                self.edge(at).quiesce();
                while self.pump(at) {
                    moved = true;
                    self.source().deliver_envelopes();
                    self.edge(at).deliver_envelopes();
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Time passes everywhere, by the clock of each node.
    fn advance(&mut self, span: Span) {
        self.source().advance(span);
        for at in 0..self.edges() {
            let own = by_own_clock(span, self.source());
            self.edge(at).advance(own);
        }
    }
}

/// What the clock of an edge makes of a time: in one of four runs it goes up to half as fast again as that of the source.
pub fn by_own_clock(span: Span, source: &mut World) -> Span {
    let percent =
        if source.epoch.is_multiple_of(4) { 100 + source.random.below(51) as u64 } else { 100 };
    Span::from_millis(span.as_millis() as u64 * percent / 100)
}

/// The connection of an edge to the source: the session of each, and what is on its way.
pub struct Link {
    pub edge: usize,
    pub source: usize,
    /// How many connections there were before.
    number: u64,
    up: VecDeque<Up>,
    down: VecDeque<Down>,
}

enum Up {
    Asked(ToUpstream),
    Exchanged(Exchanged),
}

enum Down {
    Said(FromUpstream),
    Exchanged(Exchanged),
}

/// A node in front of the source.
pub struct EdgeNode {
    pub world: World,
    pub link: Option<Link>,
}

/// All of them.
pub struct Nodes {
    pub source: World,
    pub edges: Vec<EdgeNode>,
    /// The messages that have come to sessions of edges at the source, in order: the number of the connection, and the body.
    pub passed_on: Vec<(u64, String)>,
    connections: u64,
    /// What goes wrong on the way.
    pub fault: Fault,
}

/// An edge that passes on topics and services below `fx`.
pub fn edge_world(number: u64, base: BrokerOptions) -> World {
    let shards = 1 + (number % 3) as usize;
    let upstream = UpstreamTopics {
        shard: ShardId((number % shards as u64) as u16),
        write: true,
        services: vec![Pattern::parse("fx/**").unwrap()],
        ..upstream("source", &["fx/**"])
    };
    let options = BrokerOptions { upstreams: vec![upstream], epoch: number, shards, ..base };
    World::new(number, options)
}

impl Nodes {
    pub fn new(source: World, edges: Vec<World>) -> Nodes {
        let edges = edges.into_iter().map(|world| EdgeNode { world, link: None });
        Nodes {
            source,
            edges: edges.collect(),
            passed_on: Vec::new(),
            connections: 0,
            fault: Fault::None,
        }
    }

    /// Connects an edge, if it is not.
    pub fn heal(&mut self, at: usize) {
        if self.edges[at].link.is_some() {
            return;
        }
        let shard = self.source.random.below(self.source.brokers.len());
        let source = self.source.connect(shard, "edge");
        self.source.clients[source].edge = Some(EdgeSession::default());
        let epoch = self.source.epoch;
        let world = &mut self.edges[at].world;
        let shard = (world.epoch % world.brokers.len() as u64) as usize;
        let edge = world.open(shard);
        world.verified(edge, Ok(Principal::server()));
        world.clients[edge].edge = Some(EdgeSession::default());
        let said = [
            FromUpstream::Up { upstream: 0, epoch },
            FromUpstream::Requests { taken: true, consumers: false },
            FromUpstream::Calls { taken: true },
        ];
        let (up, down) = (VecDeque::new(), said.into_iter().map(Down::Said).collect());
        let number = self.connections;
        self.connections += 1;
        self.edges[at].link = Some(Link { edge, source, number, up, down });
    }

    /// Cuts an edge's connection, with all that is on its way.
    pub fn cut(&mut self, at: usize) {
        let Some(link) = self.edges[at].link.take() else { return };
        self.source.close(link.source);
        self.edges[at].world.close(link.edge);
    }
}

impl Joined for Nodes {
    fn source(&mut self) -> &mut World {
        &mut self.source
    }

    fn edges(&self) -> usize {
        self.edges.len()
    }

    fn edge(&mut self, at: usize) -> &mut World {
        &mut self.edges[at].world
    }

    fn pump(&mut self, at: usize) -> bool {
        let edge = &mut self.edges[at];
        let Some(link) = &mut edge.link else { return false };
        let here = &mut edge.world.clients[link.edge];
        link.up.extend(here.asked_upstream.drain(..).map(Up::Asked));
        let heard = &mut here.edge.as_mut().unwrap().exchanged;
        link.up.extend(heard.drain(..).map(Up::Exchanged));
        let there = self.source.clients[link.source].edge.as_mut().unwrap();
        link.down.extend(there.said.drain(..).map(Down::Said));
        link.down.extend(there.exchanged.drain(..).map(Down::Exchanged));
        let goes_down = self.source.random.one_in(2) || link.up.is_empty();
        if goes_down && let Some(said) = link.down.pop_front() {
            match said {
                Down::Said(said) => {
                    for said in self.fault.down(&mut self.source.random, said) {
                        edge.world.command(link.edge, Command::Upstream(Box::new(said)));
                    }
                }
                Down::Exchanged(heard) => {
                    for heard in self.fault.exchanged(&mut self.source.random, heard) {
                        exchange(&mut edge.world, link.edge, heard);
                    }
                }
            }
            return true;
        }
        match link.up.pop_front() {
            Some(Up::Asked(asked)) => {
                for asked in self.fault.up(&mut self.source.random, asked) {
                    let bodies = bodies(&asked).into_iter().map(|body| (link.number, body));
                    self.passed_on.extend(bodies);
                    ask(&mut self.source, link.source, asked);
                }
            }
            Some(Up::Exchanged(heard)) => {
                for heard in self.fault.exchanged(&mut self.source.random, heard) {
                    exchange(&mut self.source, link.source, heard);
                }
            }
            None => return false,
        }
        true
    }
}

/// The bodies of the messages that the source is asked to take.
fn bodies(asked: &ToUpstream) -> Vec<String> {
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    match asked {
        ToUpstream::Publish { run, .. } => run.messages().map(|it| text(it.body)).collect(),
        ToUpstream::Operate { operation, .. } => match &**operation {
            Operation::Update(update) => match &update.change {
                Change::Value(value) => vec![text(value)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// A source is asked to begin or end a subscription, by the session of an edge; gives back what it is asked for besides.
pub fn listen(source: &mut World, session: usize, asked: ToUpstream) -> Option<ToUpstream> {
    let token = source.token(session);
    let edge = source.clients[session].edge.as_mut().unwrap();
    let command = match asked {
        ToUpstream::Subscribe { key, target, since } => {
            edge.begun.insert(token, key);
            Command::Subscribe(Box::new(Subscribe {
                confirm: Some(token),
                confirm_values: true,
                recoverable: true,
                notices: true,
                since,
                ..Subscribe::new(key, vec![target])
            }))
        }
        ToUpstream::Unsubscribe { key } => {
            edge.ended.insert(token, key);
            Command::Unsubscribe { key, confirm: Some(token) }
        }
        other => return Some(other),
    };
    source.command(session, command);
    None
}

/// The source is asked, by the session of an edge.
fn ask(source: &mut World, session: usize, asked: ToUpstream) {
    let token = source.token(session);
    let (request, principal, command) = match asked {
        ToUpstream::Publish { request, principal, run } => {
            let confirm = Some(Confirm::one(token));
            let publish = Command::Publish { run: *run, confirm, confirm_first: true };
            (request, principal, publish)
        }
        ToUpstream::Operate { request, principal, operation } => {
            (request, principal, Command::Operate { token, operation })
        }
        ToUpstream::Serve { key, target } => {
            assert!(matches!(&target, Target::Exact(it) if it.kind == Kind::Service));
            let of = SubscriptionKey(1_000 + key);
            let subscribe = Subscribe { confirm: Some(token), ..Subscribe::new(of, vec![target]) };
            let edge = source.clients[session].edge.as_mut().unwrap();
            edge.served.insert(token, (key, true));
            return source.command(session, Command::Subscribe(Box::new(subscribe)));
        }
        ToUpstream::ServeNoMore { key } => {
            let edge = source.clients[session].edge.as_mut().unwrap();
            edge.served.insert(token, (key, false));
            let (key, confirm) = (SubscriptionKey(1_000 + key), Some(token));
            return source.command(session, Command::Unsubscribe { key, confirm });
        }
        other => panic!("{other:?}"),
    };
    source.clients[session].edge.as_mut().unwrap().relayed.insert(token, request);
    let mut commands = Commands::new();
    commands.push(Command::ActAs(Some(principal)));
    commands.push(command);
    commands.push(Command::ActAs(None));
    source.commands(session, &mut commands);
}

/// What one side of a link has heard in an exchange is said at the other.
fn exchange(world: &mut World, session: usize, heard: Exchanged) {
    let other = |key: ExchangeKey| match key.side {
        Side::Responder => ExchangeKey::caller(key.number),
        Side::Caller => ExchangeKey::responder(key.number),
    };
    let mut commands = Commands::new();
    match heard {
        Exchanged::Said { exchange, service, caller, properties, body } => {
            let (number, last, bare) = (exchange.key.number, exchange.last, exchange.bare);
            if exchange.first && exchange.key.side == Side::Responder {
                let (timeout, credit) = (Span::from_secs(86_400), exchange.credit);
                let traced = None;
                let call =
                    Call { number, service, properties, body, last, timeout, credit, traced };
                let is_for_other = caller.is_some();
                if is_for_other {
                    commands.push(Command::ActAs(caller));
                }
                commands.push(Command::Call(Box::new(call)));
                if is_for_other {
                    commands.push(Command::ActAs(None));
                }
            } else {
                let exchange = other(exchange.key);
                let sent = ExchangeSend { exchange, properties, body, last, bare };
                commands.push(Command::SendExchange(Box::new(sent)));
            }
        }
        Exchanged::Ended(key, close) => {
            commands.push(Command::Cancel { exchange: other(key), close });
        }
        Exchanged::Wanted(key, messages) => {
            commands.push(Command::ExchangeCredit { exchange: other(key), messages });
        }
    }
    world.commands(session, &mut commands);
}
