//! Clients that lose their connections and come back to their sessions, on simulated networks: whatever
//! is cut, and wherever they come back, each line arrives once and in order, and nobody disturbs the
//! session of another.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::metric;
use crate::common::phoenix::phoenix_protocol;
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{DetachedLimits, Options, Placement};
use tiderace_websocket::{MessageKind, encode_message};

fn options(seed: u64) -> Options {
    Options {
        shards: 1 + (seed % 4) as usize,
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        ..Options::default()
    }
}

fn world(seed: u64) -> World {
    with(seed, options(seed))
}

fn with(seed: u64, options: Options) -> World {
    World::with(seed, options, |services| services.protocols.push(phoenix_protocol()))
}

/// A connection that speaks in lines.
#[derive(Clone, Copy, Debug)]
struct Wire {
    client: Client,
    websocket: bool,
}

impl Wire {
    fn connect(world: &World, websocket: bool) -> Wire {
        let client = world.network.connect(0);
        if websocket {
            let upgrade = "GET /phx HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            world.network.send(client, upgrade.as_bytes());
        }
        Wire { client, websocket }
    }

    fn encode(self, line: &str) -> Vec<u8> {
        if !self.websocket {
            return format!("{line}\n").into_bytes();
        }
        let mut bytes = Vec::new();
        encode_message(&mut bytes, MessageKind::Text, line.as_bytes(), Some([7, 1, 9, 4]));
        bytes
    }

    fn send(self, world: &World, line: &str) {
        world.network.send(self.client, &self.encode(line));
    }

    /// The whole lines that have come.
    fn lines(self, world: &World) -> Vec<String> {
        let bytes = world.network.received(self.client);
        let payload = if self.websocket { payload(&bytes) } else { bytes };
        let text = String::from_utf8(payload).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    fn wait(self, world: &mut World, count: usize) -> Vec<String> {
        world.run_until("lines", |world| self.lines(world).len() >= count);
        self.lines(world)
    }

    fn is_over(self, world: &World) -> bool {
        world.network.is_ended(self.client)
    }

    /// Loses the connection, in one way or another; the server may not notice.
    fn cut(self, world: &World, how: usize) {
        match how % 3 {
            0 => world.network.reset(self.client),
            1 => world.network.finish(self.client),
            _ => world.network.stall(self.client, true),
        }
    }
}

/// The payload of the whole data frames after an answer to an upgrade.
fn payload(bytes: &[u8]) -> Vec<u8> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Vec::new();
    };
    let mut rest = &bytes[head + 4..];
    let mut payload = Vec::new();
    while let [first, second, tail @ ..] = rest {
        let (len, tail) = match usize::from(*second) {
            126 if tail.len() >= 2 => {
                (usize::from(tail[0]) << 8 | usize::from(tail[1]), &tail[2..])
            }
            126 | 127 => break,
            len => (len, tail),
        };
        if tail.len() < len {
            break;
        }
        if first & 0x0f <= 2 {
            payload.extend_from_slice(&tail[..len]);
        }
        rest = &tail[len..];
    }
    payload
}

fn stop(mut world: World) {
    let seed = world.seed;
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    assert_eq!(world.control.connections(), 0, "seed {seed}");
    let samples = world.control.metrics();
    for gauge in ["tiderace_connections_paused", "tiderace_write_backlog_bytes"] {
        assert_eq!(metric(&samples, gauge, &[]), 0, "seed {seed}: {gauge}");
    }
    for transport in ["tcp", "websocket", "detached"] {
        let open = metric(&samples, "tiderace_connections", &["phoenix", transport]);
        assert_eq!(open, 0, "seed {seed}: {transport}");
    }
    let opened = metric(&samples, "tiderace_connections_opened_total", &[]);
    let closed = samples.iter().filter(|s| s.row.name == "tiderace_connections_closed_total");
    let closed: u64 = closed.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum();
    assert_eq!(opened, closed, "seed {seed}: each is counted once");
}

fn count(world: &World, name: &str) -> u64 {
    metric(&world.control.metrics(), name, &[])
}

/// Lets counters that are read across threads settle.
fn settle(world: &mut World) {
    world.run_for(Span::from_secs(2));
}

const TOKEN: &str = "0123456789abcdef";

/// A client that wants its lines to get through.
struct Traveller {
    token: String,
    lines: Vec<String>,
    received: Vec<String>,
    /// Whether the session is known to have begun.
    begun: bool,
    tries: usize,
}

impl Traveller {
    fn new(seed: u64) -> Traveller {
        let (lines, received) = (Vec::new(), Vec::new());
        Traveller { token: format!("{TOKEN}{seed}"), lines, received, begun: false, tries: 0 }
    }

    /// One connection, which is cut after so many bytes, or never.
    fn travel(&mut self, world: &mut World, websocket: bool, cut: Option<usize>) {
        self.tries += 1;
        let wire = Wire::connect(world, websocket);
        let mut budget = cut.unwrap_or(usize::MAX);
        if !self.begun {
            // Another session, and another topic: the one before may still hear.
            self.token.push('+');
            let tries = self.tries;
            self.lines = vec![format!("S t{tries}")];
            self.lines.extend((0..6).map(|number| format!("P t{tries} {number}")));
            let mut bytes = wire.encode(&format!("PHX {} ann", self.token));
            for line in &self.lines {
                bytes.extend(wire.encode(line));
            }
            world.network.send(wire.client, &bytes[..budget.min(bytes.len())]);
            world.run_for(Span::from_millis(world.network.random(3_000) as u64));
            self.take(wire.lines(world), 1, "OK ");
            if cut.is_none() {
                world.run_until("all", |world| wire.lines(world).len() > 6);
                self.received.clear();
                self.begun = false;
                self.take(wire.lines(world), 1, "OK ");
            }
        } else {
            let hello = wire.encode(&format!("BACK {} {}", self.token, self.received.len()));
            world.network.send(wire.client, &hello[..budget.min(hello.len())]);
            budget = budget.saturating_sub(hello.len());
            if cut.is_some() && budget == 0 {
                world.run_for(Span::from_millis(world.network.random(2_000) as u64));
            } else {
                world.run_until("an answer", |world| !wire.lines(world).is_empty());
                let answer = wire.lines(world)[0].clone();
                let taken = answer.strip_prefix("BACK ").unwrap_or_else(|| {
                    panic!("seed {}: {answer:?} after {:?}", world.seed, self.received)
                });
                let taken: usize = taken.parse().unwrap();
                let mut bytes = Vec::new();
                for line in &self.lines[taken..] {
                    bytes.extend(wire.encode(line));
                }
                world.network.send(wire.client, &bytes[..budget.min(bytes.len())]);
                if cut.is_none() {
                    let missing = 6 - self.received.len();
                    world.run_until("all", |world| wire.lines(world).len() > missing);
                }
            }
            self.take(wire.lines(world), 1, "BACK ");
        }
        wire.cut(world, self.tries + world.seed as usize);
    }

    fn take(&mut self, lines: Vec<String>, skip: usize, mark: &str) {
        let Some(first) = lines.first() else { return };
        assert!(first.starts_with(mark), "{lines:?}");
        self.begun = true;
        self.received.extend(lines.into_iter().skip(skip));
    }
}

#[test]
fn lines_get_through_wherever_connections_are_cut() {
    // Every place in the first connection, every place in the second, and any places in later ones.
    const FIRST: usize = 260;
    for place in 0..FIRST + 160 {
        let seed = place as u64;
        let mut world = world(seed);
        let mut traveller = Traveller::new(seed);
        traveller.travel(&mut world, seed.is_multiple_of(2), Some(place.min(FIRST)));
        if let Some(second) = place.checked_sub(FIRST) {
            traveller.travel(&mut world, seed % 4 < 2, Some(second));
        }
        for _ in 0..world.network.random(4) {
            let cut = world.network.random(90);
            let websocket = world.network.random(2) == 0;
            traveller.travel(&mut world, websocket, Some(cut));
        }
        let websocket = world.network.random(2) == 0;
        traveller.travel(&mut world, websocket, None);
        let expected: Vec<String> = (0..6).map(|number| format!("M {number}")).collect();
        assert_eq!(traveller.received, expected, "seed {seed}");
        stop(world);
    }
}

fn begin(world: &mut World, websocket: bool, login: &str) -> (Wire, String) {
    let wire = Wire::connect(world, websocket);
    wire.send(world, &format!("PHX {TOKEN} {login}"));
    let lines = wire.wait(world, 1);
    let ticket = lines[0].strip_prefix("OK ").expect("it begins").to_owned();
    wire.send(world, "S t");
    wire.send(world, "P t first");
    wire.wait(world, 2);
    (wire, ticket)
}

/// That a session still hears and is heard.
fn is_well(world: &mut World, wire: Wire) {
    let before = wire.lines(world).len();
    wire.send(world, "P t well");
    assert_eq!(wire.wait(world, before + 1).last().unwrap(), "M well");
}

#[test]
fn a_client_that_comes_back_while_the_old_connection_lives_gets_the_session() {
    for seed in 0..150 {
        let mut world = world(seed);
        let (old, ticket) = begin(&mut world, seed % 2 == 0, "ann");
        let name = if seed % 5 == 0 { format!("TICKET {ticket}") } else { format!("BACK {TOKEN}") };
        let mut wires = vec![old];
        // One after the other, and two at once.
        for round in 0..3 {
            let count = 1 + usize::from(round == 1);
            let news: Vec<Wire> = (0..count)
                .map(|at| Wire::connect(&world, (seed as usize + at).is_multiple_of(3)))
                .collect();
            for wire in &news {
                wire.send(&world, &format!("{name} 1"));
            }
            world.run_until("an answer to each", |world| {
                news.iter().all(|wire| !wire.lines(world).is_empty())
            });
            for wire in &news {
                assert!(wire.lines(&world)[0].starts_with("BACK "), "seed {seed}");
            }
            wires.extend(news);
            world.run_until("one is left", |world| {
                wires.iter().filter(|wire| !wire.is_over(world)).count() == 1
            });
            wires.retain(|wire| !wire.is_over(&world));
        }
        is_well(&mut world, wires[0]);
        assert_eq!(count(&world, "tiderace_sessions_resumed_total"), 4, "seed {seed}");
        stop(world);
    }
}

#[test]
fn nobody_else_gets_a_session_or_disturbs_it() {
    for seed in 0..150 {
        let mut world = world(seed);
        let (wire, ticket) = begin(&mut world, seed % 2 == 0, "ann");
        let mut wrong = ticket.clone();
        let last = if wrong.ends_with('A') { "Q" } else { "A" };
        wrong.replace_range(wrong.len() - 1.., last);
        let attempts = [
            vec![format!("BACK {TOKEN}x 1")],
            vec![format!("BACK {TOKEN} 99")],
            vec![format!("TICKET {wrong} 1")],
            vec![format!("TICKET {ticket} 99")],
            vec!["WHO bob".to_owned(), format!("BACK {TOKEN} 1")],
            vec!["WHO bob".to_owned(), format!("TICKET {ticket} 1")],
        ];
        for attempt in attempts {
            let other = Wire::connect(&world, world.network.random(2) == 0);
            for line in &attempt {
                other.send(&world, line);
            }
            world.run_until("the end", |world| other.is_over(world));
            assert_eq!(other.lines(&world), ["UNKNOWN"], "seed {seed}: {attempt:?}");
        }
        for login in ["ann", "bob"] {
            let other = Wire::connect(&world, world.network.random(2) == 0);
            other.send(&world, &format!("PHX {TOKEN} {login}"));
            assert_eq!(other.wait(&mut world, 1), ["REFUSED alias-taken"], "seed {seed}");
        }
        let short = Wire::connect(&world, false);
        short.send(&world, "PHX short ann");
        assert_eq!(short.wait(&mut world, 1), ["REFUSED bad-alias"], "seed {seed}");
        is_well(&mut world, wire);
        // Who shows to be the same gets it.
        let same = Wire::connect(&world, world.network.random(2) == 0);
        same.send(&world, "WHO ann");
        same.send(&world, &format!("BACK {TOKEN} 2"));
        assert!(same.wait(&mut world, 1)[0].starts_with("BACK "), "seed {seed}");
        is_well(&mut world, same);
        stop(world);
    }
}

#[test]
fn a_session_waits_for_its_deadline_and_then_its_alias_is_free() {
    for seed in 0..60 {
        let mut world = world(seed);
        let (wire, _) = begin(&mut world, seed % 2 == 0, "ann");
        wire.cut(&world, (seed % 2) as usize);
        settle(&mut world);
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_connections", &["phoenix", "detached"]), 1);
        world.run_for(Span::from_secs(20));
        let back = Wire::connect(&world, seed % 3 == 0);
        back.send(&world, &format!("BACK {TOKEN} 1"));
        assert_eq!(back.wait(&mut world, 1), ["BACK 2"], "seed {seed}");
        is_well(&mut world, back);
        back.cut(&world, 0);
        world.run_for(Span::from_secs(40));
        let late = Wire::connect(&world, seed % 3 == 1);
        late.send(&world, &format!("BACK {TOKEN} 2"));
        world.run_until("the end", |world| late.is_over(world));
        assert_eq!(late.lines(&world), ["UNKNOWN"], "seed {seed}");
        let ended = metric(
            &world.control.metrics(),
            "tiderace_connections_closed_total",
            &["resume-timeout"],
        );
        assert_eq!(ended, 1, "seed {seed}");
        let (again, _) = begin(&mut world, false, "bob");
        again.send(&world, "Q");
        world.run_until("the end", |world| again.is_over(world));
        settle(&mut world);
        let (anew, _) = begin(&mut world, true, "ann");
        is_well(&mut world, anew);
        stop(world);
    }
}

#[test]
fn a_session_without_connection_ends_with_its_login_and_comes_back_with_another() {
    for seed in 0..60 {
        let mut world = world(seed);
        world.desk.accept_for(Some(Span::from_secs(20)));
        let (wire, _) = begin(&mut world, seed % 2 == 0, "ann");
        wire.cut(&world, (seed % 2) as usize);
        settle(&mut world);
        // Who shows a new login on the way back goes on for as long as that one, and nobody else does.
        let back = Wire::connect(&world, seed % 3 == 0);
        if seed % 2 == 0 {
            world.desk.accept_for(Some(Span::from_secs(70)));
            back.send(&world, "WHO ann");
        }
        back.send(&world, &format!("BACK {TOKEN} 1"));
        assert_eq!(back.wait(&mut world, 1), ["BACK 2"], "seed {seed}");
        world.run_for(Span::from_secs(30));
        assert_eq!(back.is_over(&world), seed % 2 != 0, "seed {seed}");
        if seed % 2 == 0 {
            is_well(&mut world, back);
            back.cut(&world, 0);
            world.run_for(Span::from_secs(29));
            let again = Wire::connect(&world, false);
            again.send(&world, &format!("BACK {TOKEN} 1"));
            again.wait(&mut world, 1);
            again.cut(&world, 0);
            world.run_for(Span::from_secs(60));
        }
        let closed = world.control.metrics();
        let closed = metric(&closed, "tiderace_connections_closed_total", &["login-expired"]);
        assert_eq!(closed, 1, "seed {seed}");
        stop(world);
    }
}

#[test]
fn what_comes_meanwhile_waits_in_the_backlog() {
    for seed in 0..100 {
        let mut world = world(seed);
        let (wire, _) = begin(&mut world, seed % 2 == 0, "ann");
        // Its silence ends the connection, not the session.
        if seed % 3 == 0 {
            wire.send(&world, "H");
            world.run_until("the end", |world| wire.is_over(world));
            assert!(wire.lines(&world).iter().all(|line| !line.starts_with("BYE")));
        } else {
            wire.cut(&world, seed as usize % 2);
        }
        settle(&mut world);
        let line = world.network.connect(0);
        world.network.send(line, b"LINE\nL bob\n");
        world.run_until("the login", |world| world.desk.waiting() == 0);
        settle(&mut world);
        for number in 0..50 {
            world.network.send(line, format!("P t {number}\n").as_bytes());
        }
        settle(&mut world);
        let back = Wire::connect(&world, seed % 2 == 1);
        back.send(&world, &format!("BACK {TOKEN} 1"));
        let lines = back.wait(&mut world, 51);
        let expected: Vec<String> = (0..50).map(|number| format!("M {number}")).collect();
        assert_eq!(lines[1..], expected, "seed {seed}");
        stop(world);
    }
}

#[test]
fn only_so_many_sessions_wait_and_only_so_many_bytes() {
    for seed in 0..40 {
        let limits = DetachedLimits {
            sessions_max: 3,
            sessions_per_principal_max: 2,
            bytes_max: if seed % 2 == 0 { 1 << 20 } else { 10 },
            time_max: Span::from_secs(20),
        };
        let shards = Options { shards: 1, detached: limits, ..options(seed) };
        let mut world = with(seed, shards);
        let mut wires = Vec::new();
        for (number, login) in ["ann", "ann", "ann", "bob", "cat"].iter().enumerate() {
            let wire = Wire::connect(&world, number % 2 == 0);
            wire.send(&world, &format!("PHX {TOKEN}{number} {login}"));
            wire.wait(&mut world, 1);
            wire.send(&world, "S t");
            wires.push(wire);
        }
        settle(&mut world);
        wires[0].send(&world, "P t some-text");
        for wire in &wires {
            wire.wait(&mut world, 2);
        }
        for wire in wires {
            wire.cut(&world, 0);
            world.run_for(Span::from_millis(100));
        }
        settle(&mut world);
        let samples = world.control.metrics();
        let detached = metric(&samples, "tiderace_connections", &["phoenix", "detached"]);
        if seed % 2 == 0 {
            assert_eq!(detached, 3, "seed {seed}: two of ann's and bob's");
            assert_eq!(count(&world, "tiderace_sessions_detach_refused_total"), 2);
            world.run_for(Span::from_secs(21));
            let samples = world.control.metrics();
            let detached = metric(&samples, "tiderace_connections", &["phoenix", "detached"]);
            assert_eq!(detached, 0, "seed {seed}: the node's own deadline");
        } else {
            assert_eq!(detached, 0, "seed {seed}: each holds more bytes than all may");
        }
        stop(world);
    }
}

/// What a connection had begun when it was lost is gone, and counts no more in the memory of the node: sessions
/// that wait for their clients take nothing of what those who are there may begin.
#[test]
fn what_a_lost_connection_had_begun_counts_no_more() {
    const BEGUN: usize = 40_000;
    const LOST: usize = 30;
    for seed in 0..4 {
        let detached =
            DetachedLimits { sessions_per_principal_max: 100, ..DetachedLimits::default() };
        let options = Options { shards: 1, detached, ..options(seed) };
        let mut world = World::with(seed, options, |services| {
            let memory =
                BrokerOptions { messages_bytes_max: LOST / 2 * BEGUN, ..Default::default() };
            services.broker = Arc::new(memory);
            services.protocols.push(phoenix_protocol());
        });
        let begin = |world: &mut World, number: usize| {
            let wire = Wire::connect(world, false);
            wire.send(world, &format!("PHX {TOKEN}{number} ann"));
            wire.wait(world, 1);
            world.network.send(wire.client, format!("P t {}", "x".repeat(BEGUN)).as_bytes());
            world.run_until("what is begun", |world| world.network.taken(wire.client) > BEGUN);
            wire
        };
        for number in 0..LOST {
            let wire = begin(&mut world, number);
            wire.cut(&world, 0);
            world.run_for(Span::from_millis(100));
        }
        let wire = begin(&mut world, LOST);
        world.run_for(Span::from_millis(100));
        assert!(!wire.is_over(&world), "seed {seed}: {:?}", wire.lines(&world));
        stop(world);
    }
}
