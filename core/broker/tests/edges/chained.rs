//! A source, edges of it and an edge of one of those, while the source's rules change: a client that is told that nothing
//! is missing holds the values that the source shows to edges, and no others.

use std::collections::{BTreeMap, VecDeque};

use super::{edge_options, options, refusing::rule};
use crate::support::faults::{Fault, are_found};
use crate::support::nodes::listen;
use crate::support::reviewing::believing;
use crate::support::{EdgeSession, Notice, Outgoing, Wish, World, for_seeds, names};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Principal, Who};
use tiderace_wire::{Command, Flags, FromUpstream, Position, ToUpstream, Token};

const TOPICS: [&str; 3] = ["kept/a", "kept/b/c", "kept/d"];
const DENIED: [&str; 4] = ["kept/a", "kept/b/**", "kept/*", "kept/d"];
/// By edge: whose edge it is; the source is node 0.
const UPSTREAMS: [usize; 3] = [0, 0, 1];

struct Link {
    lower: usize,
    upper: usize,
    up: VecDeque<ToUpstream>,
    down: VecDeque<FromUpstream>,
}

struct Person {
    target: &'static str,
    /// The node and the client there.
    at: Option<(usize, usize)>,
    token: Token,
    /// What it holds, by path.
    values: BTreeMap<String, String>,
    position: Option<Position>,
    /// The node of which that position is.
    was_at: Option<usize>,
    seen: usize,
}

struct Chain {
    nodes: Vec<World>,
    links: Vec<Option<Link>>,
    people: Vec<Person>,
    writer: usize,
    published: u64,
    /// What the source holds.
    values: BTreeMap<&'static str, u64>,
    denied: Vec<&'static str>,
    /// People come back to where they left. Otherwise every edge that is connected has heard of all that was published before
    /// rules change: one that is behind another does not know that who comes from there may still have what is hidden from
    /// then on.
    stays: bool,
    /// What goes wrong on the way to edges.
    fault: Fault,
}

impl Chain {
    fn new(seed: u64) -> Chain {
        let mut nodes = vec![World::new(seed, options(1_000 + seed, 1 + (seed % 3) as usize))];
        for number in 0..UPSTREAMS.len() as u64 {
            let options = edge_options(20_000 + seed * 7 + number, 1 + (number % 2) as usize);
            nodes.push(World::new(seed * 7 + number, options));
        }
        let person = |target| Person {
            target,
            at: None,
            token: Token::default(),
            values: BTreeMap::new(),
            position: None,
            was_at: None,
            seen: 0,
        };
        let writer = nodes[0].connect(0, "writer");
        let people = ["topic:kept/**", "topic:kept/*", "topic:kept/**"].map(person).into();
        let links = UPSTREAMS.map(|_| None).into();
        let (values, denied, stays) = (BTreeMap::new(), Vec::new(), seed.is_multiple_of(2));
        let (published, fault) = (0, Fault::None);
        Chain { nodes, links, people, writer, published, values, denied, stays, fault }
    }

    fn heal(&mut self, edge: usize) {
        if self.links[edge].is_some() {
            return;
        }
        let world = &mut self.nodes[UPSTREAMS[edge]];
        let (shard, epoch) = (world.random.below(world.brokers.len()), world.epoch);
        let upper = world.connect(shard, "edge");
        world.clients[upper].edge = Some(EdgeSession::default());
        // A node says whose numbers its messages have, and the life that it speaks of is the source's.
        let epoch = if UPSTREAMS[edge] == 0 { epoch } else { self.nodes[0].epoch };
        let world = &mut self.nodes[1 + edge];
        let lower = world.open((world.epoch % world.brokers.len() as u64) as usize);
        world.verified(lower, Ok(Principal::server()));
        let down = [FromUpstream::Up { upstream: 0, epoch }].into();
        self.links[edge] = Some(Link { lower, upper, up: VecDeque::new(), down });
    }

    fn cut(&mut self, edge: usize) {
        let Some(link) = self.links[edge].take() else { return };
        self.nodes[UPSTREAMS[edge]].close(link.upper);
        self.nodes[1 + edge].close(link.lower);
    }

    /// Moves one thing along a link; whether there was one.
    fn pump(&mut self, edge: usize) -> bool {
        let Some(link) = &mut self.links[edge] else { return false };
        let lower = &mut self.nodes[1 + edge].clients[link.lower];
        link.up.extend(lower.asked_upstream.drain(..));
        let upper = &mut self.nodes[UPSTREAMS[edge]];
        let taken = upper.pull(link.upper);
        let session = upper.clients[link.upper].edge.as_mut().unwrap();
        if taken == 0 {
            session.all_given();
        }
        link.down.extend(session.said.drain(..));
        if link.down.is_empty() && upper.clients[link.upper].closed.is_some() {
            self.cut(edge);
            return true;
        }
        if let Some(asked) = link.up.pop_front() {
            let others = listen(upper, link.upper, asked);
            assert!(others.is_none(), "{others:?}");
            return true;
        }
        let Some(said) = link.down.pop_front() else { return false };
        for said in self.fault.down(&mut upper.random, said) {
            self.nodes[1 + edge].command(link.lower, Command::Upstream(Box::new(said)));
        }
        true
    }

    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the nodes never come to rest");
            self.nodes.iter_mut().for_each(World::quiesce);
            let moved = (0..UPSTREAMS.len()).filter(|edge| self.pump(*edge)).count();
            if moved == 0 {
                return;
            }
        }
    }

    fn advance(&mut self, span: Span) {
        self.nodes.iter_mut().for_each(|world| world.advance(span));
    }

    fn publish(&mut self) {
        let path = *self.nodes[0].random.pick(&TOPICS);
        if self.nodes[0].random.one_in(5) {
            // The topic stays.
            self.values.remove(path);
            let none = Outgoing { flags: Flags::RETAIN_REMOVE, ..Outgoing::new("") };
            self.nodes[0].publish_all(self.writer, &format!("topic:{path}"), &[none]);
            return;
        }
        self.published += 1;
        self.values.insert(path, self.published);
        self.nodes[0].publish(self.writer, &format!("topic:{path}"), &self.published.to_string());
    }

    fn deny(&mut self, denied: Vec<&'static str>) {
        if !self.stays {
            self.settle();
        }
        let user = |name: &str| Who::User(name.into());
        let mut rules = vec![rule(true, "**", user("writer")), rule(true, "**", user("edge"))];
        // Clients of the source itself may see what edges may see.
        rules.push(rule(true, "**", user("person")));
        for path in &denied {
            rules.extend(["edge", "person"].map(|name| rule(false, path, user(name))));
        }
        self.nodes[0].change_access(believing(rules));
        self.denied = denied;
    }

    fn arrive(&mut self, person: usize, node: usize) {
        if self.people[person].at.is_some() {
            return;
        }
        let node = self.people[person].was_at.filter(|_| self.stays).unwrap_or(node);
        let world = &mut self.nodes[node];
        let shard = world.random.below(world.brokers.len());
        let client = world.connect(shard, "person");
        let person = &mut self.people[person];
        let since = person.position.clone();
        let wish = Wish { recoverable: true, notices: true, since, ..Wish::to(person.target) };
        person.token = world.subscribe(client, 0, wish);
        (person.at, person.seen) = (Some((node, client)), 0);
    }

    fn leave(&mut self, person: usize) {
        self.look(person);
        let person = &mut self.people[person];
        let Some((node, client)) = person.at.take() else { return };
        let world = &mut self.nodes[node];
        let heard = &world.clients[client];
        // Who has been told that something is missing asks for all values, as do those who have been told nothing.
        let recovered = heard.recovered.get(&person.token);
        let is_told = person.position.is_none() || recovered.is_some_and(|(complete, _)| *complete);
        let position = Some(heard.position.clone()).filter(|it| is_told && !it.seen().is_empty());
        if position.is_none() {
            person.values.clear();
        }
        (person.was_at, person.position) = (position.as_ref().map(|_| node), position);
        world.close(client);
    }

    /// Whether somebody has heard that what they ask for is not given, or that something is missing.
    fn has_ended(&self, person: usize) -> bool {
        let person = &self.people[person];
        let Some((node, client)) = person.at else { return false };
        let client = &self.nodes[node].clients[client];
        let (end, token) = (CloseCode::NotAuthorised, person.token);
        client.closed.is_some()
            || client.refused.contains(&(Some(token), end))
            || client.subscriptions_ended.contains(&(0, end))
            || client.recovered.get(&token).is_some_and(|(complete, _)| !complete)
    }

    /// Takes in what somebody has got, as a client does that shows current values.
    fn look(&mut self, person: usize) {
        let person = &mut self.people[person];
        let Some((node, client)) = person.at else { return };
        let client = &mut self.nodes[node].clients[client];
        let mut left: VecDeque<Notice> = client.notices.drain(..).collect();
        left.retain(|notice| notice.left.is_some());
        loop {
            // At the source no message says that a topic is not there for who asks any more.
            if left.front().is_some_and(|notice| notice.behind <= person.seen) {
                left.pop_front().map(|notice| person.values.remove(&notice.path));
                continue;
            }
            let Some(message) = client.received.get(person.seen) else { break };
            assert!(names(person.target, &message.path));
            match message.body.is_empty() {
                true => drop(person.values.remove(&message.path)),
                false => drop(person.values.insert(message.path.clone(), message.body.clone())),
            }
            person.seen += 1;
        }
    }

    fn step(&mut self) {
        let nodes = self.nodes.len();
        let random = &mut self.nodes[0].random;
        let (what, edge, node) =
            (random.below(20), random.below(UPSTREAMS.len()), random.below(nodes));
        let person = random.below(self.people.len());
        match what {
            0..4 => self.publish(),
            4..10 => {
                for _ in 0..4 {
                    self.pump(edge);
                    for world in &mut self.nodes {
                        world.deliver_envelope();
                    }
                }
            }
            10..13 => self.nodes[node].quiesce(),
            13 => self.arrive(person, node),
            14 => self.leave(person),
            15 if self.nodes[0].random.one_in(3) => self.cut(edge),
            16 => self.heal(edge),
            17 if self.nodes[0].random.one_in(3) => {
                let denied = match self.denied.is_empty() {
                    true => vec![*self.nodes[0].random.pick(&DENIED)],
                    false => Vec::new(),
                };
                self.deny(denied);
            }
            18 => self.advance(Span::from_millis(50 + 6_000 * (edge as u64 / 2))),
            _ => drop(self.nodes[0].review_all()),
        }
        if self.nodes[0].random.one_in(2) {
            (0..self.people.len()).for_each(|person| self.look(person));
        }
        for person in 0..self.people.len() {
            if self.has_ended(person) {
                self.leave(person);
            }
        }
    }

    /// Nothing is under way: everybody holds what the source shows to edges.
    fn check(&mut self, denied: Vec<&'static str>) {
        self.deny(denied);
        self.nodes[0].review_all();
        for round in 0..6 {
            (0..UPSTREAMS.len()).for_each(|edge| self.heal(edge));
            self.settle();
            self.advance(Span::from_millis(if round == 3 { 1_100 } else { 50 }));
            for person in 0..self.people.len() {
                if self.has_ended(person) {
                    self.leave(person);
                }
                let nodes = self.nodes.len();
                let node = self.nodes[0].random.below(nodes);
                self.arrive(person, node);
            }
        }
        self.settle();
        let is_denied =
            |path: &str| self.denied.iter().any(|it| names(&format!("topic:{it}"), path));
        let shown = self.values.iter().filter(|(path, _)| !is_denied(path));
        let shown: BTreeMap<String, String> =
            shown.map(|(path, number)| ((*path).to_owned(), number.to_string())).collect();
        for person in 0..self.people.len() {
            self.look(person);
            let person = &self.people[person];
            let wanted = shown.iter().filter(|(path, _)| names(person.target, path));
            let wanted: BTreeMap<String, String> =
                wanted.map(|(path, value)| (path.clone(), value.clone())).collect();
            assert_eq!(person.values, wanted, "{} at {:?}", person.target, person.at);
        }
    }
}

fn play(seed: u64, fault: Fault) {
    let mut chain = Chain::new(seed);
    chain.fault = fault;
    (0..UPSTREAMS.len()).for_each(|edge| chain.heal(edge));
    for _ in 0..300 {
        chain.step();
    }
    let denied = vec![*chain.nodes[0].random.pick(&DENIED[..2])];
    chain.check(denied);
    chain.check(Vec::new());
}

#[test]
fn who_is_told_that_nothing_is_missing_holds_what_the_source_shows() {
    for_seeds(0..1_000, |seed| play(seed, Fault::None));
}

#[test]
fn faults_of_chains_are_found() {
    let faults = [Fault::MessagesLost, Fault::EndUntold, Fault::LossUntold];
    are_found(&faults, play);
}
