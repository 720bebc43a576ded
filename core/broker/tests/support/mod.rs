//! A node without threads or sockets: brokers, the messages between them, and clients.
//!
//! Messages between two shards keep their order; which pair's come next is drawn from the seed.
//! Clients take deliveries only after they were told that there are some, as the event loop does,
//! so a lost wake-up shows as a message that never comes.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod adding;
pub mod asking;
mod edge;
pub mod exchanges;
pub mod faults;
mod heard;
mod in_files;
pub mod keeping;
pub mod losing;
pub mod nodes;
mod random;
pub mod reviewing;
pub mod upstream;
mod wish;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tiderace_base::{CloseCode, MemoryUse, Now, SessionId, ShardId, Span};
use tiderace_broker::{Broker, BrokerMetrics, BrokerOptions, Effects, Envelope, Principal};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Commands, Credentials, Destination, ExchangeKey, Kind, Meta, OperationResult, Outcome,
    Position, Prefetch, QueueStart, Reply, Settle, Subscribe, SubscriptionKey, Target, ToUpstream,
    Token, properties,
};

use adding::add;
pub use edge::{EdgeSession, Exchanged};
pub use heard::{Heard, Notice, Received};
pub use random::{Random, for_seeds};
pub use wish::{Outgoing, Wish};

/// One client, as it sees itself.
#[derive(Debug)]
pub struct Client {
    pub shard: usize,
    pub session: SessionId,
    pub open: bool,
    pub paused: bool,
    pub ready: bool,
    pub name: Option<String>,
    pub confirmed: BTreeSet<Token>,
    pub refused: Vec<(Option<Token>, CloseCode)>,
    /// Subscriptions that the broker has ended, and why.
    pub subscriptions_ended: Vec<(u32, CloseCode)>,
    pub received: Vec<Received>,
    pub heard: Vec<Heard>,
    pub ended: Vec<(ExchangeKey, CloseCode)>,
    /// What callers wanted more of this responder.
    pub credits: Vec<(ExchangeKey, u64)>,
    pub closed: Option<CloseCode>,
    pub tokens: Token,
    /// How far it has come.
    pub position: Position,
    /// What it is to ask an upstream for, if it is a session to one.
    pub asked_upstream: Vec<ToUpstream>,
    /// What it says to the node that asks, if it is a session of an edge.
    pub edge: Option<edge::EdgeSession>,
    /// By token of the subscription: whether nothing was missing, and how many messages had come.
    pub recovered: BTreeMap<Token, (bool, usize)>,
    /// By token of the operation: what came of it.
    pub operated: BTreeMap<Token, OperationResult>,
    pub notices: Vec<Notice>,
    /// Subscriptions that have seen their queue to its end, and how many messages had come.
    pub browsed: Vec<(u32, usize)>,
}

/// Brokers, the messages between them and clients under one clock.
pub struct World {
    pub random: Random,
    pub brokers: Vec<Broker>,
    pub clients: Vec<Client>,
    pub now: Now,
    pub epoch: u64,
    pub verify: Vec<(SessionId, Credentials)>,
    messages: Vec<Vec<VecDeque<Envelope>>>,
    effects: Effects,
    losses: losing::Losses,
}

impl World {
    pub fn new(seed: u64, options: BrokerOptions) -> World {
        let options = Arc::new(options);
        let shards = options.shards;
        let mailboxes = || (0..shards).map(|_| VecDeque::new()).collect();
        World {
            random: Random::new(seed),
            brokers: (0..shards)
                .map(|shard| Broker::new(ShardId(shard as u16), options.clone()))
                .collect(),
            clients: Vec::new(),
            now: Now::default(),
            epoch: options.epoch,
            verify: Vec::new(),
            messages: (0..shards).map(|_| mailboxes()).collect(),
            effects: Effects::default(),
            losses: losing::Losses::new(options),
        }
    }

    /// Connects without logging in.
    pub fn open(&mut self, shard: usize) -> usize {
        let link = self.clients.len();
        let session = self.brokers[shard].open(self.now, link as u32);
        self.clients.push(Client {
            shard,
            session,
            open: true,
            paused: false,
            ready: false,
            name: None,
            confirmed: BTreeSet::new(),
            refused: Vec::new(),
            subscriptions_ended: Vec::new(),
            received: Vec::new(),
            heard: Vec::new(),
            ended: Vec::new(),
            credits: Vec::new(),
            closed: None,
            tokens: 0,
            position: Position::new(self.epoch),
            recovered: BTreeMap::new(),
            operated: BTreeMap::new(),
            notices: Vec::new(),
            browsed: Vec::new(),
            asked_upstream: Vec::new(),
            edge: None,
        });
        link
    }

    /// Below which path a client has its temporary destinations.
    pub fn temporary(&self, client: usize) -> String {
        let Client { shard, session, .. } = self.clients[client];
        format!("temp/{}", self.brokers[shard].temporary_name(session))
    }

    /// Connects and logs in by name.
    pub fn connect(&mut self, shard: usize, name: &str) -> usize {
        let client = self.open(shard);
        let login = Some(name.to_owned());
        self.command(client, Command::Login(Credentials { login, ..Credentials::default() }));
        client
    }

    pub fn verified(&mut self, client: usize, result: Result<Principal, tiderace_base::Close>) {
        let (shard, session) = (self.clients[client].shard, self.clients[client].session);
        self.brokers[shard].verified(self.now, session, result, &mut self.effects);
        self.absorb(shard);
    }

    pub fn command(&mut self, client: usize, command: Command) {
        let mut commands = Commands::new();
        commands.push(command);
        self.commands(client, &mut commands);
    }

    pub fn commands(&mut self, client: usize, commands: &mut Commands) {
        let (shard, session) = (self.clients[client].shard, self.clients[client].session);
        self.brokers[shard].handle(self.now, session, commands, &mut self.effects);
        self.absorb(shard);
    }

    pub fn token(&mut self, client: usize) -> Token {
        self.clients[client].tokens += 1;
        self.clients[client].tokens
    }

    /// Publishes a message of which nobody asks for a receipt.
    pub fn publish_unasked(&mut self, client: usize, to: &str, message: &Outgoing) {
        let mut commands = Commands::new();
        commands.begin_turn(self.now.time);
        commands.message(&destination(to)).extend_from_slice(message.properties.as_bytes());
        let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
        commands.publish(message.body.as_bytes(), meta, None);
        self.commands(client, &mut commands);
    }

    /// Publishes messages as one run; the last asks for a receipt.
    pub fn publish_all(&mut self, client: usize, to: &str, messages: &[Outgoing]) -> Token {
        let token = self.token(client);
        let mut commands = Commands::new();
        commands.begin_turn(self.now.time);
        for (message, index) in messages.iter().zip(1..) {
            commands.message(&destination(to)).extend_from_slice(message.properties.as_bytes());
            let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
            let confirm = (index == messages.len()).then_some(token);
            commands.publish(message.body.as_bytes(), meta, confirm);
        }
        self.commands(client, &mut commands);
        token
    }

    pub fn publish(&mut self, client: usize, to: &str, body: &str) -> Token {
        self.publish_all(client, to, &[Outgoing::new(body)])
    }

    pub fn subscribe(&mut self, client: usize, key: u32, wish: Wish) -> Token {
        let (token, subscribe) = self.wished(client, key, wish);
        self.command(client, Command::Subscribe(Box::new(subscribe)));
        token
    }

    /// Subscribes with keys from zero, all in one turn.
    pub fn subscribe_all(&mut self, client: usize, wishes: Vec<Wish>) -> Vec<Token> {
        let mut commands = Commands::new();
        let mut tokens = Vec::new();
        for (wish, key) in wishes.into_iter().zip(0..) {
            let (token, subscribe) = self.wished(client, key, wish);
            commands.push(Command::Subscribe(Box::new(subscribe)));
            tokens.push(token);
        }
        self.commands(client, &mut commands);
        tokens
    }

    pub fn wished(&mut self, client: usize, key: u32, wish: Wish) -> (Token, Subscribe) {
        let token = self.token(client);
        let subscribe = Subscribe {
            selector: wish.selector.map(|text| Selector::parse(text).unwrap()),
            explicit: wish.explicit,
            prefetch: wish.window.map(|messages| Prefetch { messages, bytes: 0 }),
            exclusive: wish.exclusive,
            browsing: wish.browsing,
            start: wish.start.unwrap_or(QueueStart::Version(0)),
            retained: !wish.unretained,
            confirm_values: wish.confirm_values,
            recoverable: wish.recoverable,
            deltas: wish.deltas,
            replay: wish.replay,
            interval: wish.interval,
            credit: wish.credit,
            notices: wish.notices,
            since: wish.since,
            confirm: Some(token),
            ..Subscribe::new(
                SubscriptionKey(key),
                wish.targets.iter().map(|text| target(text)).collect(),
            )
        };
        (token, subscribe)
    }

    pub fn unsubscribe(&mut self, client: usize, key: u32) -> Token {
        let token = self.token(client);
        let key = SubscriptionKey(key);
        self.command(client, Command::Unsubscribe { key, confirm: Some(token) });
        token
    }

    pub fn credit(&mut self, client: usize, key: u32, messages: u64) {
        let key = SubscriptionKey(key);
        self.command(client, Command::Credit { key, messages });
    }

    pub fn settle(&mut self, client: usize, message: &Received, outcome: Outcome) -> Token {
        let token = self.token(client);
        let settle = Settle {
            key: SubscriptionKey(message.key),
            home: message.home,
            ranges: vec![(message.sequence, message.sequence)],
            outcome,
            confirm: Some(token),
        };
        self.command(client, Command::Settle(settle));
        token
    }

    /// The client says goodbye; its session still has to end.
    pub fn goodbye(&mut self, client: usize) {
        self.command(client, Command::Goodbye);
    }

    pub fn close(&mut self, client: usize) {
        if !std::mem::take(&mut self.clients[client].open) {
            return;
        }
        let (shard, session) = (self.clients[client].shard, self.clients[client].session);
        self.brokers[shard].close(self.now, session, &mut self.effects);
        // The end of a session makes room, for which it may itself have waited.
        self.absorb(shard);
        self.clients[client].paused = false;
    }

    pub fn is_confirmed(&self, client: usize, token: Token) -> bool {
        self.clients[client].confirmed.contains(&token)
    }

    /// Takes one delivery if the client was told of any; how many messages came.
    pub fn pull(&mut self, client: usize) -> usize {
        let (shard, session) = (self.clients[client].shard, self.clients[client].session);
        if !self.clients[client].open || !self.clients[client].ready {
            return 0;
        }
        let pending = self.brokers[shard].next(self.now, session, &mut self.effects);
        let Some(pending) = pending else {
            self.clients[client].ready = false;
            assert!(!self.brokers[shard].has_backlog(session));
            self.absorb(shard);
            return 0;
        };
        let delivery = pending.delivery();
        if let Some(edge) = &mut self.clients[client].edge {
            edge.delivered(&delivery, self.epoch);
        }
        let run = delivery.run.run();
        assert!(delivery.from < delivery.to && delivery.to <= run.len());
        for index in delivery.from..delivery.to {
            let message = run.message(index).expect("every message can be read");
            if let Some(exchange) = delivery.exchange {
                assert_eq!(run.destination().kind, Kind::Service);
                self.clients[client].heard.push(Heard {
                    key: delivery.key.0,
                    exchange,
                    path: run.destination().path.to_string(),
                    body: String::from_utf8(message.body.to_vec()).unwrap(),
                });
                continue;
            }
            self.clients[client].received.push(Received {
                key: delivery.key.0,
                home: run.home(),
                sequence: message.sequence,
                path: run.destination().path.to_string(),
                body: String::from_utf8(message.body.to_vec()).unwrap().trim_end().to_owned(),
                is_in_file: run.body_in_file().is_some(),
                redeliveries: delivery.redeliveries,
                properties: message.properties.to_vec(),
                version: run.version() + index as u64,
                upstream: run
                    .upstream()
                    .map(|numbers| (numbers.numbering, numbers.first + index as u64)),
                queue_version: run.queue_version() + index as u64,
                follows: run.follows().filter(|_| index == 0),
                is_merged: delivery.run.is_merged(),
                previous: delivery.run.previous().filter(|_| index == 0).map(|previous| {
                    String::from_utf8(previous.body.to_vec()).expect("bodies are text")
                }),
            });
        }
        if delivery.reached > 0 {
            self.clients[client].position.advance(run.home(), delivery.reached);
        }
        if let Some((numbering, sequence)) = delivery.reached_upstream() {
            self.clients[client].position.advance_to(numbering, sequence);
        }
        let count = delivery.to - delivery.from;
        self.absorb(shard);
        count
    }

    pub fn drain(&mut self, client: usize) {
        while self.pull(client) > 0 {}
    }

    /// Delivers the next message of a pair of shards drawn by lot; whether there was any.
    pub fn deliver_envelope(&mut self) -> bool {
        let shards = self.brokers.len();
        let pairs: Vec<(usize, usize)> = (0..shards)
            .flat_map(|from| (0..shards).map(move |to| (from, to)))
            .filter(|(from, to)| !self.messages[*from][*to].is_empty())
            .collect();
        let busy: Vec<usize> = (0..shards).filter(|it| self.is_busy(*it)).collect();
        let losses = self.losses.next(&self.messages);
        if pairs.is_empty() && busy.is_empty() && losses.is_empty() {
            return false;
        }
        let place = self.random.below(pairs.len() + busy.len() + losses.len());
        match place.checked_sub(pairs.len()) {
            Some(place) => match place.checked_sub(busy.len()) {
                Some(place) => self.tell_loss(losses[place].0, losses[place].1),
                None => self.work(busy[place]),
            },
            None => {
                let (from, to) = *self.random.pick(&pairs);
                self.deliver_envelope_between(from, to);
            }
        }
        true
    }

    /// Whether a shard has something to do that takes longer.
    fn is_busy(&self, shard: usize) -> bool {
        self.brokers[shard].has_work() || self.brokers[shard].has_deferred()
    }

    /// Lets a shard do a slice of what takes longer.
    pub fn work(&mut self, shard: usize) {
        self.brokers[shard].work(self.now, &mut self.effects);
        self.brokers[shard].run_deferred(self.now, &mut self.effects);
        self.absorb(shard);
    }

    pub fn deliver_envelope_between(&mut self, from: usize, to: usize) -> bool {
        let Some(message) = self.messages[from][to].pop_front() else { return false };
        self.brokers[to].receive(self.now, message, &mut self.effects);
        self.absorb(to);
        true
    }

    /// Delivers messages between shards until there are none.
    pub fn deliver_envelopes(&mut self) {
        while self.deliver_envelope() {}
    }

    /// Delivers all messages between shards and lets every client take everything.
    pub fn quiesce(&mut self) {
        loop {
            self.deliver_envelopes();
            let taken: usize = (0..self.clients.len()).map(|client| self.pull(client)).sum();
            if taken == 0 && !self.has_envelopes() {
                break;
            }
        }
        for client in &self.clients {
            let waiting = self.brokers[client.shard].has_backlog(client.session);
            assert!(!(client.open && waiting), "a client was not told of its deliveries");
        }
    }

    pub fn has_envelopes(&self) -> bool {
        let waits = self.messages.iter().flatten().any(|box_| !box_.is_empty());
        let waits = waits || self.losses.has_unaware();
        waits || (0..self.brokers.len()).any(|shard| self.is_busy(shard))
    }

    /// Lets time pass and every shard do its housekeeping.
    pub fn advance(&mut self, span: Span) {
        self.now.time = self.now.time + span;
        self.now.wall_ms += span.as_millis() as u64;
        for shard in 0..self.brokers.len() {
            self.brokers[shard].tick(self.now, &mut self.effects);
            self.absorb(shard);
            self.work(shard);
        }
    }

    pub fn metrics(&self) -> BrokerMetrics {
        let mut all = self.brokers.iter().map(Broker::metrics);
        let first = all.next().unwrap();
        all.fold(first, add)
    }

    /// Ends every session and checks that nothing of them is left.
    pub fn end(&mut self) {
        for client in 0..self.clients.len() {
            self.close(client);
        }
        self.deliver_envelopes();
        let metrics = self.metrics();
        assert_eq!(metrics.sessions, 0);
        assert_eq!(metrics.subscriptions, 0);
        assert_eq!((metrics.backlog_bytes, metrics.snapshots, metrics.windows), (0, 0, 0));
        assert_eq!((metrics.services, metrics.responders, metrics.calls_waiting), (0, 0, 0));
        assert_eq!((metrics.exchanges, metrics.exchanges_served), (0, 0));
        self.check_memory(&[MemoryUse::Backlogs, MemoryUse::Wills, MemoryUse::Calls]);
    }

    fn absorb(&mut self, shard: usize) {
        let effects = std::mem::take(&mut self.effects);
        for message in effects.messages {
            let (from, to) = (message.from.shard.index(), message.to.shard.index());
            assert_eq!(from, shard, "a shard writes for itself alone");
            assert_ne!(to, shard, "no shard writes to itself");
            if !self.losses.is_gone(to) {
                self.messages[shard][to].push_back(message);
            }
        }
        self.verify.extend(effects.verify);
        for (link, session, reply) in effects.replies {
            let epoch = self.epoch;
            let client = self.client(link, session);
            if let Some(edge) = &mut client.edge {
                edge.replied(&reply, epoch);
            }
            match reply {
                Reply::Recovered { token, complete, .. } => {
                    let known = client.recovered.insert(token, (complete, client.received.len()));
                    assert!(known.is_none(), "recovered twice");
                    assert!(!client.confirmed.contains(&token), "recovered after the confirmation");
                }
                Reply::Browsed { key } => client.browsed.push((key.0, client.received.len())),
                Reply::Reached { home, sequence } => client.position.advance(home, sequence),
                Reply::ReachedUpstream { numbering, sequence } => {
                    client.position.advance_to(numbering, sequence);
                }
                Reply::Upstream(asked) => client.asked_upstream.push(*asked),
                Reply::Operated { token, result } => {
                    let before = client.operated.insert(token, *result);
                    // What a session gives back as it ends is answered to nobody.
                    assert!(before.is_none() || !client.open, "answered twice");
                }
                Reply::Joined { key, path, spec, .. } => {
                    let path = path.to_string();
                    let behind = client.received.len();
                    client.notices.push(Notice {
                        behind,
                        key: key.0,
                        path,
                        joined: Some(spec),
                        left: None,
                    });
                }
                Reply::Left { key, path, reason } => {
                    let (path, left) = (path.to_string(), Some(reason));
                    let (key, behind) = (key.0, client.received.len());
                    client.notices.push(Notice { key, path, joined: None, left, behind });
                }
                Reply::ExchangeCredit { exchange, messages } => {
                    client.credits.push((exchange, messages));
                }
                Reply::ExchangeEnded { exchange, close } => {
                    client.ended.push((exchange, close.code));
                }
                Reply::LoggedIn { name, .. } => client.name = Some(name.to_string()),
                Reply::Confirmed(confirm) => {
                    for token in confirm.from..=confirm.to {
                        assert!(client.confirmed.insert(token), "confirmed twice");
                    }
                }
                Reply::SubscriptionEnded { key, close } => {
                    client.subscriptions_ended.push((key.0, close.code));
                }
                Reply::Refused { token, close } => client.refused.push((token, close.code)),
            }
        }
        for (link, session) in effects.ready {
            self.client(link, session).ready = true;
        }
        for (link, session) in effects.pause {
            let client = self.client(link, session);
            assert!(!std::mem::replace(&mut client.paused, true), "paused twice");
        }
        for (link, session) in effects.resume {
            let client = self.client(link, session);
            assert!(std::mem::replace(&mut client.paused, false), "resumed without a pause");
        }
        for (link, session, close) in effects.close {
            self.client(link, session).closed = Some(close.code);
        }
    }

    /// Effects name a session that is there; only those of the call that ended it may be late.
    fn client(&mut self, link: u32, session: SessionId) -> &mut Client {
        let client = &mut self.clients[link as usize];
        assert_eq!(client.session, session);
        client
    }
}

pub fn destination(text: &str) -> Destination {
    let (kind, path) = split(text);
    Destination { kind, path: Path::parse(path).unwrap() }
}

pub fn target(text: &str) -> Target {
    let (kind, path) = split(text);
    match tiderace_topics::Selector::is_meant(path) {
        true => Target::Pattern(kind, Pattern::parse(path).unwrap()),
        false => Target::Exact(destination(text)),
    }
}

/// Whether a target, written like `topic:a/*`, names a path.
pub fn names(text: &str, path: &str) -> bool {
    Pattern::parse(split(text).1).unwrap().matches(&Path::parse(path).unwrap())
}

pub fn property(message: &Received, name: &str) -> Option<String> {
    properties::find(&message.properties, name).map(|value| value.into_owned())
}

fn split(text: &str) -> (Kind, &str) {
    match text.split_once(':').unwrap() {
        ("topic", path) => (Kind::Topic, path),
        ("queue", path) => (Kind::Queue, path),
        ("service", path) => (Kind::Service, path),
        (other, _) => panic!("{other} is no kind"),
    }
}

/// A path below `prefix` whose home is that shard of so many.
pub fn path_at(prefix: &str, home: usize, shards: usize) -> String {
    (0..)
        .map(|number| format!("{prefix}{number}"))
        .find(|path| destination(&format!("topic:{path}")).home(shards).index() == home)
        .unwrap()
}
