//! Sessions carried by requests, on simulated networks: whichever connection and shard a request
//! comes to, each message arrives once and in order, and nothing that waits is forgotten.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::metric;
use crate::common::postbox::{BODY_BYTES_MAX, postbox_protocol};
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_websocket::{MessageKind, encode_message};

fn world(seed: u64) -> World {
    let batch_delay = Span::from_millis(if seed.is_multiple_of(3) { 10 } else { 0 });
    let options = Options { shards: 1 + (seed % 4) as usize, batch_delay, ..Options::default() };
    World::with(seed, options, |services| services.protocols.push(postbox_protocol()))
}

/// A connection that speaks HTTP.
struct Http {
    client: Client,
    read: usize,
}

impl Http {
    fn connect(world: &World) -> Http {
        Http { client: world.network.connect(0), read: 0 }
    }

    fn send(&self, world: &World, method: &str, target: &str, body: &str) {
        let length = body.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
        world.network.send(self.client, &[head.as_bytes(), body.as_bytes()].concat());
    }

    fn send_chunked(&self, world: &World, target: &str, body: &str) {
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        world.network.send(self.client, head.as_bytes());
        for piece in body.as_bytes().chunks(1 + world.network.random(50)) {
            let size = format!("{:x}\r\n", piece.len());
            world.network.send(self.client, &[size.as_bytes(), piece, b"\r\n"].concat());
        }
        world.network.send(self.client, b"0\r\n\r\n");
    }

    /// The next answer that has come whole: status and body.
    fn answer(&mut self, world: &World) -> Option<(u16, String)> {
        let received = world.network.received(self.client);
        let text = String::from_utf8_lossy(&received[self.read..]).into_owned();
        let (head, _) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let end = head.len() + 4 + length;
        if text.len() < end {
            return None;
        }
        self.read += end;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, text[head.len() + 4..end].to_string()))
    }

    fn wait(&mut self, world: &mut World) -> (u16, String) {
        let mut answer = None;
        world.run_until("an answer", |world| {
            answer = self.answer(world);
            answer.is_some()
        });
        answer.unwrap()
    }

    fn ask(&mut self, world: &mut World, method: &str, target: &str, body: &str) -> (u16, String) {
        self.send(world, method, target, body);
        self.wait(world)
    }
}

/// Opens a box that listens to a topic; its target.
fn open_box(world: &mut World, http: &mut Http, topic: &str) -> String {
    let (status, ticket) = http.ask(world, "POST", "/box", "");
    assert_eq!(status, 200, "seed {}", world.seed);
    world.run_until("the login", |world| world.desk.waiting() == 0);
    world.run_for(Span::from_secs(1));
    let target = format!("/box?t={ticket}");
    let (status, text) = http.ask(world, "POST", &target, &format!("S {topic}\n"));
    assert_eq!((status, &*text), (200, "ok"), "seed {}", world.seed);
    world.run_for(Span::from_secs(1));
    target
}

fn stop(mut world: World) {
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    assert_eq!(world.control.connections(), 0, "seed {}", world.seed);
}

#[test]
fn any_connection_may_carry_any_request() {
    for seed in 0..200 {
        let mut world = world(seed);
        let mut first = Http::connect(&world);
        let target = open_box(&mut world, &mut first, "t");
        let mut polls: Vec<Http> = (0..3).map(|_| Http::connect(&world)).collect();
        let mut posts: Vec<Http> = (0..2).map(|_| Http::connect(&world)).collect();
        let (mut sent, mut heard) = (0, Vec::new());
        while heard.len() < 30 {
            let at = world.network.random(polls.len());
            polls[at].send(&world, "GET", &target, "");
            for _ in 0..world.network.random(5) + usize::from(sent == heard.len()) {
                let post = world.network.random(posts.len());
                let body = format!("P t {sent}\n");
                if world.network.random(2) == 0 {
                    posts[post].send_chunked(&world, &target, &body);
                } else {
                    posts[post].send(&world, "POST", &target, &body);
                }
                let (status, text) = posts[post].wait(&mut world);
                assert_eq!((status, &*text), (200, "ok"), "seed {seed}");
                sent += 1;
            }
            let (status, text) = polls[at].wait(&mut world);
            assert_eq!(status, 200, "seed {seed}");
            heard.extend(text.lines().map(str::to_owned));
        }
        let expected: Vec<String> = (0..heard.len()).map(|number| format!("M {number}")).collect();
        assert_eq!(heard, expected, "seed {seed}");
        let (status, _) = first.ask(&mut world, "POST", &target, "Q\n");
        assert_eq!(status, 200, "seed {seed}: the answer precedes the end");
        let (status, text) = first.ask(&mut world, "POST", &target, "P t x\n");
        assert_eq!((status, &*text), (404, "unknown"), "seed {seed}");
        stop(world);
    }
}

/// How many polls it takes to hear of messages that are published one after the other for 20 s.
fn polls_of_a_steady_stream(seed: u64, batch_delay: Span) -> usize {
    let options = Options { shards: 1 + (seed % 3) as usize, batch_delay, ..Options::default() };
    let mut world =
        World::with(seed, options, |services| services.protocols.push(postbox_protocol()));
    let mut poll = Http::connect(&world);
    let target = open_box(&mut world, &mut poll, "t");
    let mut post = Http::connect(&world);
    let (mut heard, mut answers) = (Vec::new(), 0);
    let mut hear = |world: &World, poll: &mut Http| {
        let Some((status, text)) = poll.answer(world) else { return };
        assert_eq!(status, 200, "seed {seed}");
        heard.extend(text.lines().map(str::to_owned));
        answers += 1;
        poll.send(world, "GET", &target, "");
    };
    poll.send(&world, "GET", &target, "");
    let until = world.network.now() + Span::from_secs(20);
    let mut sent = 0;
    while world.network.now() < until {
        let (status, _) = post.ask(&mut world, "POST", &target, &format!("P t {sent}\n"));
        assert_eq!(status, 200, "seed {seed}");
        sent += 1;
        hear(&world, &mut poll);
    }
    for _ in 0..100 {
        world.run_for(Span::from_millis(100));
        hear(&world, &mut poll);
    }
    let expected: Vec<String> = (0..sent).map(|number| format!("M {number}")).collect();
    assert_eq!(heard, expected, "seed {seed}");
    stop(world);
    answers
}

#[test]
fn polls_wait_for_more_to_go_along() {
    for seed in 0..30 {
        let with_delay = polls_of_a_steady_stream(seed, Span::from_secs(1));
        // Once a second, and where the session moves to another shard.
        assert!(with_delay <= 40, "seed {seed}: {with_delay} polls answered in 20 s");
        let without = polls_of_a_steady_stream(seed, Span::ZERO);
        assert!(without > 10 * with_delay, "seed {seed}: {without} beside {with_delay}");
    }
}

#[test]
fn who_floods_on_still_hears_why_it_ended() {
    for seed in 0..100 {
        let mut world = world(seed);
        let client = world.network.connect(0);
        let bad = [b"GET /page HTTP/1.1\r\nno field\r\n\r\n".as_slice(), &[b'x'; 4 << 20]].concat();
        // Its last words have not left when it has sent more than is discarded.
        world.network.stall(client, true);
        world.network.send(client, &bad);
        world.run_until("the flood", |world| {
            let samples = world.control.metrics();
            metric(&samples, "tiderace_bytes_received_total", &[]) > 1 << 20
        });
        world.run_for(Span::from_millis(1));
        world.network.stall(client, false);
        world.run_until("the end", |world| world.network.is_ended(client));
        let text = String::from_utf8_lossy(&world.network.received(client)).into_owned();
        assert!(text.starts_with("HTTP/1.1 400 "), "seed {seed}: {text}");
        world.run_until("the record's end", |world| world.control.connections() == 0);
        stop(world);
    }
}

#[test]
fn a_held_request_is_answered_when_its_session_ends() {
    for seed in 0..100 {
        let mut world = world(seed);
        let (mut http, mut poll) = (Http::connect(&world), Http::connect(&world));
        let target = open_box(&mut world, &mut http, "t");
        poll.send(&world, "GET", &target, "");
        world.run_for(Span::from_secs(1));
        assert_eq!(poll.answer(&world), None, "seed {seed}: nothing to say");
        let (status, _) = http.ask(&mut world, "POST", &target, "nonsense\n");
        assert_eq!(status, 400, "seed {seed}");
        let (status, text) = poll.wait(&mut world);
        assert_eq!((status, &*text), (200, "BYE bad-frame\n"), "seed {seed}");
        stop(world);
    }
}

#[test]
fn a_client_that_hangs_up_on_a_held_request_is_gone() {
    for seed in 0..100 {
        let mut world = world(seed);
        let (mut http, poll) = (Http::connect(&world), Http::connect(&world));
        let target = open_box(&mut world, &mut http, "t");
        poll.send(&world, "GET", &target, "");
        world.run_for(Span::from_secs(1));
        if seed % 2 == 0 {
            world.network.reset(poll.client)
        } else {
            world.network.finish(poll.client)
        }
        world.run_for(Span::from_secs(1));
        let (status, text) = http.ask(&mut world, "GET", &target, "");
        assert_eq!((status, &*text), (404, "unknown"), "seed {seed}");
        stop(world);
    }
}

#[test]
fn bodies_are_bounded_and_guesses_are_in_vain() {
    for seed in 0..60 {
        let mut world = world(seed);
        let mut http = Http::connect(&world);
        let target = open_box(&mut world, &mut http, "t");
        let mut other = Http::connect(&world);
        let large = "x".repeat(BODY_BYTES_MAX + 1);
        if seed % 2 == 0 {
            other.send(&world, "POST", &target, &large);
        } else {
            other.send_chunked(&world, &target, &large);
        }
        let (status, _) = other.wait(&mut world);
        assert_eq!(status, 413, "seed {seed}");
        let mut guess = target.clone();
        let last = guess.pop().unwrap();
        guess.push(if last == 'A' { 'Q' } else { 'A' });
        let (status, _) = http.ask(&mut world, "GET", &guess, "");
        assert!(status == 404 || status == 400, "seed {seed}: {status}");
        let (status, _) = http.ask(&mut world, "POST", &target, "P t x\n");
        assert_eq!(status, 200, "seed {seed}: the box is unharmed");
        stop(world);
    }
}

/// Clients that have not logged in share a small part of the memory, whatever stage they are in: here their
/// sessions are open and bodies to them have begun.
#[test]
fn bodies_before_the_login_share_one_small_budget() {
    let options = Options { shards: 1, ..Options::default() };
    let mut world = World::with(7, options, |services| {
        services.protocols.push(postbox_protocol());
        let memory = BrokerOptions { messages_bytes_max: 256 * 1024, ..BrokerOptions::default() };
        services.broker = Arc::new(memory);
    });
    let head = "POST /box HTTP/1.1\r\nHost: h\r\nContent-Length: 16000\r\n\r\n";
    let begun: Vec<Http> = (0..8)
        .map(|_| {
            let http = Http::connect(&world);
            world.network.send(http.client, &[head.as_bytes(), &[b'x'; 12_000]].concat());
            http
        })
        .collect();
    world.run_for(Span::from_secs(1));
    let refused = begun.iter().filter(|http| {
        String::from_utf8_lossy(&world.network.received(http.client)).contains("memory-full")
    });
    assert!((5..8).contains(&refused.count()), "two or three have room in an eighth");
    stop(world);
}

#[test]
fn one_connection_does_not_open_any_number_of_sessions() {
    let options = Options { connections_max: 2, ..Options::default() };
    let mut world = World::with(7, options, |services| services.protocols.push(postbox_protocol()));
    let mut http = Http::connect(&world);
    let mut boxes = Vec::new();
    for _ in 0..3 {
        boxes.push(open_box(&mut world, &mut http, "news"));
    }
    let (status, text) = http.ask(&mut world, "POST", "/box", "");
    assert_eq!(status, 503);
    assert!(text.contains("too-many-connections"), "{text}");
    // Those that are there go on, and one that ends makes room.
    assert_eq!(http.ask(&mut world, "POST", &boxes[0], "Q\n").0, 200);
    world.run_for(Span::from_secs(1));
    assert_eq!(http.ask(&mut world, "POST", "/box", "").0, 200);
    stop(world);
}

#[test]
fn one_address_does_not_open_any_number_of_sessions() {
    let options = Options { connections_per_address_max: 2, ..Options::default() };
    let mut world = World::with(7, options, |services| services.protocols.push(postbox_protocol()));
    let mut http = Http::connect(&world);
    let boxes = [open_box(&mut world, &mut http, "a"), open_box(&mut world, &mut http, "b")];
    let (status, text) = http.ask(&mut world, "POST", "/box", "");
    assert_eq!(status, 503);
    assert!(text.contains("too-many-connections"), "{text}");
    // One that ends makes room, and so does one that a WebSocket carries.
    assert_eq!(http.ask(&mut world, "POST", &boxes[0], "Q\n").0, 200);
    world.run_for(Span::from_secs(1));
    let third = open_box(&mut world, &mut http, "c");
    assert_eq!(http.ask(&mut world, "POST", "/box", "").0, 503);
    let socket = world.network.connect(0);
    let mut wire = format!(
        "GET {third} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes();
    encode_message(&mut wire, MessageKind::Text, b"probe", Some([1, 2, 3, 4]));
    encode_message(&mut wire, MessageKind::Text, b"take", Some([1, 2, 3, 4]));
    world.network.send(socket, &wire);
    world.run_until("the takeover", |world| world.text(socket).contains("taken"));
    open_box(&mut world, &mut http, "d");
    assert_eq!(http.ask(&mut world, "POST", "/box", "").0, 503);
    stop(world);
}

#[test]
fn a_websocket_takes_a_session_over_without_loss() {
    for seed in 0..200 {
        let mut world = world(seed);
        let (mut http, mut poll) = (Http::connect(&world), Http::connect(&world));
        let target = open_box(&mut world, &mut http, "t");
        poll.send(&world, "GET", &target, "");
        let mut sent = 0;
        let mut publish = |world: &mut World, http: &mut Http, count: usize| {
            for _ in 0..count {
                let answer = http.ask(world, "POST", &target, &format!("P t {sent}\n"));
                assert_eq!(answer.0, 200);
                sent += 1;
            }
        };
        let before = world.network.random(3);
        publish(&mut world, &mut http, before);
        let socket = world.network.connect(0);
        let upgrade = format!(
            "GET {target} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut wire = upgrade.into_bytes();
        encode_message(&mut wire, MessageKind::Text, b"probe", Some([1, 2, 3, 4]));
        world.network.send(socket, &wire);
        world.run_until("the probe", |world| world.text(socket).contains("probed"));
        let (status, heard) = poll.wait(&mut world);
        assert_eq!(status, 200, "seed {seed}: the held request is let go");
        let during = world.network.random(3);
        publish(&mut world, &mut http, during);
        let mut wire = Vec::new();
        encode_message(&mut wire, MessageKind::Text, b"take", Some([1, 2, 3, 4]));
        // What follows at once is for the session.
        encode_message(&mut wire, MessageKind::Text, b"P t last\n", Some([4, 3, 2, 1]));
        world.network.send(socket, &wire);
        world.run_until("the last", |world| world.text(socket).contains("M last"));
        let text = world.text(socket);
        let after = text.split("taken").flat_map(str::lines);
        let mut numbers: Vec<String> = heard
            .lines()
            .chain(after)
            .filter_map(|line| line.rsplit_once("M ").map(|(_, rest)| rest.to_string()))
            .collect();
        assert_eq!(numbers.pop().as_deref(), Some("last"), "seed {seed}: {text}");
        let expected: Vec<String> = (0..sent).map(|number| number.to_string()).collect();
        assert_eq!(numbers, expected, "seed {seed}");
        let (status, _) = http.ask(&mut world, "GET", &target, "");
        assert_ne!(status, 404, "seed {seed}: the ticket still names the session");
        stop(world);
    }
}

#[test]
fn an_answer_that_does_not_end_gets_the_connection() {
    for seed in 0..100 {
        let mut world = world(seed);
        let mut http = Http::connect(&world);
        let target = open_box(&mut world, &mut http, "other");
        let stream = Http::connect(&world);
        stream.send(&world, "GET", "/box/stream?news", "");
        world.run_until("the beginning", |world| world.text(stream.client).contains("begin\n"));
        world.run_for(Span::from_secs(1));
        for number in 0..20 {
            http.ask(&mut world, "POST", &target, &format!("P news {number}\n"));
        }
        world.run_until("the end", |world| world.text(stream.client).contains("M 19\n"));
        let text = world.text(stream.client);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("M ")).collect();
        let expected: Vec<String> = (0..20).map(|number| format!("M {number}")).collect();
        assert_eq!(lines, expected, "seed {seed}");
        stop(world);
    }
}
