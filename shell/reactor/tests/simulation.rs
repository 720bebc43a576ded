//! The event loop on simulated networks: whatever the seed does, bytes stay in order, deadlines
//! fire and nothing leaks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::metric;
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_broker::SlowConsumer;
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{Deadlines, Options, Placement};
use tiderace_websocket::{
    MessageKind, encode_close, encode_message, encode_ping, write_frame_header,
};

fn options(seed: u64) -> Options {
    Options {
        shards: 1 + (seed % 4) as usize,
        // Some let deliveries wait for each other.
        batch_delay: Span::from_millis(if seed.is_multiple_of(5) { 10 } else { 0 }),
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        ..Options::default()
    }
}

/// Bytes in which every position can be told.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn stop(world: &mut World) {
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    assert_eq!(world.control.connections(), 0, "seed {}", world.seed);
    let samples = world.control.metrics();
    for gauge in ["tiderace_connections_paused", "tiderace_write_backlog_bytes"] {
        assert_eq!(metric(&samples, gauge, &[]), 0, "seed {}: {gauge}", world.seed);
    }
    for protocol in ["none", "http", "echo", "line"] {
        for transport in ["tcp", "websocket"] {
            let open = metric(&samples, "tiderace_connections", &[protocol, transport]);
            assert_eq!(open, 0, "seed {}: {protocol} {transport}", world.seed);
        }
    }
    let opened = metric(&samples, "tiderace_connections_opened_total", &[]);
    let closed = samples.iter().filter(|s| s.row.name == "tiderace_connections_closed_total");
    let closed: u64 = closed.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum();
    assert_eq!(opened, closed, "seed {}: each connection ends once", world.seed);
}

#[test]
fn every_byte_comes_back_in_order() {
    for seed in 0..500 {
        let mut world = World::new(seed, options(seed));
        let clients: Vec<(Client, Vec<u8>)> = (0..1 + world.network.random(6))
            .map(|index| {
                let client = world.network.connect(0);
                let len = 1 << world.network.random(19);
                let bytes = noise(seed * 100 + index as u64, world.network.random(len) + 1);
                world.network.send(client, b"ECHO\n");
                world.network.send(client, &bytes);
                (client, bytes)
            })
            .collect();
        world.run_until("the echo", |world| {
            clients
                .iter()
                .all(|(client, bytes)| world.network.received(*client).len() >= bytes.len())
        });
        for (client, bytes) in &clients {
            assert!(world.network.received(*client) == *bytes, "seed {seed}: bytes differ");
        }
        stop(&mut world);
        for (client, _) in &clients {
            assert!(world.text(*client).ends_with("\nBYE shutting-down\n"), "seed {seed}");
        }
    }
}

#[test]
fn a_client_that_closes_its_side_gets_everything() {
    for seed in 0..100 {
        let mut world = World::new(seed, options(seed));
        let client = world.network.connect(0);
        let bytes = noise(seed, 1 + world.network.random(300_000));
        world.network.send(client, b"ECHO\n");
        world.network.send(client, &bytes);
        world.network.finish(client);
        world.run_until("the end", |world| world.network.is_ended(client));
        assert!(world.network.received(client) == bytes, "seed {seed}");
        world.run_until("nobody", |world| world.control.connections() == 0);
        stop(&mut world);
    }
}

#[test]
fn websocket_frames_may_be_split_anywhere() {
    for seed in 0..150 {
        let mut world = World::new(seed, options(seed));
        let client = world.network.connect(0);
        world.network.send(client, &upgrade("/echo", "echo"));
        let bytes = noise(seed, 1 + world.network.random(100_000));
        let mut sent = b"ECHO\n".to_vec();
        sent.extend_from_slice(&bytes);
        let mut wire = Vec::new();
        let mut rest = &sent[..];
        let mut pings = 0;
        while !rest.is_empty() {
            let (message, tail) = rest.split_at((1 + world.network.random(5000)).min(rest.len()));
            rest = tail;
            if world.network.random(3) == 0 {
                fragments(&world, message, &mut wire);
            } else {
                encode_message(&mut wire, MessageKind::Binary, message, Some([1, 2, 3, 4]));
            }
            if world.network.random(5) == 0 {
                pings += 1;
                encode_ping(&mut wire, b"there?", Some([9, 8, 7, 6]));
            }
        }
        encode_close(&mut wire, Some(1000), "", Some([0; 4]));
        world.network.send(client, &wire);
        world.run_until("the close", |world| world.network.is_ended(client));
        let (payload, pongs, close) = messages(&world.network.received(client));
        assert!(payload == bytes, "seed {seed}");
        assert_eq!((pongs, close), (pings, Some(1000)), "seed {seed}");
        stop(&mut world);
    }
}

#[test]
fn small_requests_by_the_thousand_are_taken_in_by_portions() {
    let mut world = World::new(1, Options { shards: 2, ..Options::default() });
    let clients: Vec<Client> = (0..64).map(|_| world.network.connect(0)).collect();
    for client in &clients {
        world.network.send(*client, b"LINE\nL ann\n");
    }
    world.run_until("logins", |world| {
        clients.iter().all(|client| world.text(*client).starts_with("OK"))
    });
    let lines: String = (0..500).map(|topic| format!("S topic{topic}\n")).collect();
    for client in &clients {
        world.network.send(*client, lines.as_bytes());
    }
    let received =
        |world: &World| metric(&world.control.metrics(), "tiderace_bytes_received_total", &[]);
    let (mut before, mut most) = (received(&world), 0);
    world.run_until("all subscriptions", |world| {
        let bytes = received(world);
        most = most.max(bytes - before);
        before = bytes;
        let confirmed = |client| world.text(client).lines().count() == 501;
        clients.iter().all(|client| confirmed(*client))
    });
    // Half of the topics have their home on the other shard; two shards may turn in a step, and the
    // last connection that each of them reads may have brought all of its requests.
    let page = 2 * (2 * 1024 + 500) * "S topic000\n".len() as u64;
    assert!(most <= page, "{most} bytes in one step");
    stop(&mut world);
}

#[test]
fn a_slow_subscriber_holds_publishers_back_and_loses_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, options(seed));
        let (subscriber, publisher) = (world.network.connect(0), world.network.connect(0));
        world.network.send(subscriber, b"LINE\nL bob\nS news\n");
        world.run_until("the subscription", |world| world.text(subscriber) == "OK\nS 1\n");
        world.network.stall(subscriber, true);
        world.network.send(publisher, b"LINE\nL alice\n");
        let paused =
            |world: &World| metric(&world.control.metrics(), "tiderace_connections_paused", &[]);
        let body = "x".repeat(10_000);
        let mut expected = Vec::new();
        while paused(&world) == 0 {
            for _ in 0..50 {
                let number = expected.len().to_string();
                world.network.send(publisher, format!("P news {number} {body}\n").as_bytes());
                expected.push(number);
            }
            assert!(expected.len() < 3000, "seed {seed}: the publisher is not held back");
            world.run_for(Span::from_millis(50));
        }
        world.network.stall(subscriber, false);
        let last = format!("M {} ", expected.len() - 1);
        world.run_until("the last message", |world| {
            world.network.received(subscriber).len() >= expected.len() * 10_000
                && world.text(subscriber).contains(&last)
        });
        let text = world.text(subscriber);
        let words = |line: &str| Some(line.strip_prefix("M ")?.split(' ').next()?.to_string());
        let numbers: Vec<String> = text.lines().filter_map(words).collect();
        assert_eq!(numbers, expected, "seed {seed}");
        world.run_until("the publisher to be read again", |world| paused(world) == 0);
        stop(&mut world);
    }
}

#[test]
fn a_starved_shard_slows_publishers_and_loses_nothing() {
    for seed in 0..6 {
        let shards = 2 + (seed % 2) as usize;
        let mut world = World::with(seed, Options { shards, ..Options::default() }, |services| {
            let topics = Arc::make_mut(&mut Arc::make_mut(&mut services.broker).topic_default);
            topics.slow_consumer = SlowConsumer::DropOldest;
            topics.grace = Span::from_secs(600);
        });
        let line = |world: &mut World, script: &[u8]| {
            let client = world.network.connect(0);
            world.network.send(client, b"LINE\nL bob\n");
            world.network.send(client, script);
            let answer = if script.is_empty() { "OK\n" } else { "OK\nS 1\n" };
            world.run_until("the login", |world| world.text(client) == answer);
            client
        };
        let topic = format!("news{seed}");
        // Connections are placed in turns: each shard has a subscriber and some publishers.
        let subscribe = format!("S {topic}\n");
        let subscribers: Vec<Client> =
            (0..shards).map(|_| line(&mut world, subscribe.as_bytes())).collect();
        let publishers: Vec<Client> = (0..shards * 4).map(|_| line(&mut world, b"")).collect();
        world.starved = Some((seed % shards as u64) as usize);
        let message = format!("P {topic} {}\n", "x".repeat(20_000));
        let each = 24_000_000 / publishers.len() / message.len();
        for publisher in &publishers {
            world.network.send(*publisher, message.repeat(each).as_bytes());
        }
        let expected = each * publishers.len() * 20_003;
        let mut most = 0;
        world.run_until("all messages", |world| {
            most = most.max(backlog_bytes(world));
            subscribers.iter().all(|client| world.network.received_len(*client) >= expected)
        });
        assert!(most < subscribers.len() as u64 * (16 << 20), "seed {seed}: {most} bytes");
        let dropped = broker_metric(&world, "tiderace_messages_dropped_total");
        assert_eq!(dropped, 0, "seed {seed}");
        stop(&mut world);
    }
}

#[test]
fn a_publisher_that_vanishes_while_held_back_is_forgotten() {
    let mut world = World::new(21, Options::default());
    let (subscriber, publisher) = (world.network.connect(0), world.network.connect(0));
    world.network.send(subscriber, b"LINE\nL bob\nS news\n");
    world.run_until("the subscription", |world| world.text(subscriber) == "OK\nS 1\n");
    world.network.stall(subscriber, true);
    world.network.send(publisher, b"LINE\nL alice\n");
    let line = format!("P news {}\n", "x".repeat(100_000));
    for _ in 0..80 {
        world.network.send(publisher, line.as_bytes());
    }
    world.run_until("the pause", |world| {
        metric(&world.control.metrics(), "tiderace_connections_paused", &[]) == 1
    });
    world.network.reset(publisher);
    world.run_until("its end", |world| world.control.connections() == 1);
    stop(&mut world);
}

#[test]
fn vanishing_clients_leave_nothing_behind() {
    for seed in 0..200 {
        let mut world = World::new(seed, options(seed));
        for _ in 0..20 {
            let client = world.network.connect(0);
            let scripts: [&[u8]; 6] = [
                b"",
                b"GET /pa",
                b"LINE\nL bob\nS news\nP news 1\n",
                b"ECHO\nabc",
                b"\x16\x03\x01",
                b"nonsense",
            ];
            let script = scripts[world.network.random(scripts.len())];
            world.network.send(client, script);
            match world.network.random(3) {
                0 => world.network.reset(client),
                1 => world.network.finish(client),
                _ => world.network.stall(client, true),
            }
            for _ in 0..world.network.random(5) {
                world.step();
            }
        }
        stop(&mut world);
    }
}

#[test]
fn a_client_that_closes_in_the_middle_is_closed_at_once() {
    let mut partial = upgrade("/echo", "echo");
    partial.extend_from_slice(&[0x82, 0x85, 1, 2, 3, 4, 0x44]);
    let mut fragment = upgrade("/echo", "echo");
    write_frame_header(&mut fragment, false, tiderace_websocket::Opcode::Binary, 2, Some([0; 4]));
    fragment.extend_from_slice(b"EC");
    let mut unfinished = upgrade("/echo", "echo");
    encode_message(&mut unfinished, MessageKind::Binary, b"EC", Some([0; 4]));
    let scripts: [(&[u8], &str); 10] = [
        (b"", ""),
        (b"EC", ""),
        (b"GET / HTTP/1.1\r\nHost: ", ""),
        (b"POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", "POST -"),
        (b"LINE\n", ""),
        (b"LINE\nL bo", ""),
        (b"LINE\nL bob\nS ne", "OK\n"),
        (&partial, "\r\n\r\n"),
        (&fragment, "\r\n\r\n"),
        (&unfinished, "\r\n\r\n"),
    ];
    for (seed, (script, answer)) in (0..200).zip(scripts.into_iter().cycle()) {
        let mut world = World::new(seed, options(seed));
        let client = world.network.connect(0);
        world.network.send(client, script);
        world.network.finish(client);
        let start = world.network.now();
        world.run_until("the end", |world| {
            world.network.is_ended(client) && world.control.connections() == 0
        });
        let waited = world.network.now().since(start);
        assert!(waited < Span::from_secs(2), "seed {seed}: {waited:?}");
        let text = world.text(client);
        assert!(text.ends_with(answer) && text.is_empty() == answer.is_empty(), "{seed}: {text}");
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_connections_closed_total", &["peer-gone"]), 1);
        stop(&mut world);
    }
}

#[test]
fn silence_ends_by_its_deadline() {
    let cases: [(&[u8], &str, u64); 6] = [
        (b"", "first-byte-timeout", 10),
        (b"EC", "first-byte-timeout", 10),
        (b"GET / HTTP/1.1\r\nHost: ", "head-timeout", 10),
        (b"POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", "head-timeout", 10),
        (b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "done", 60),
        (b"LINE\n", "login-timeout", 10),
    ];
    for (seed, (script, reason, seconds)) in (0..).zip(cases) {
        let mut world = World::new(seed, options(seed));
        let client = world.network.connect(0);
        world.network.send(client, script);
        let closed = |world: &World| {
            metric(&world.control.metrics(), "tiderace_connections_closed_total", &[reason])
        };
        world.run_for(Span::from_secs(seconds - 1));
        assert_eq!(closed(&world), 0, "{reason}: not before its time");
        world.run_for(Span::from_secs(2));
        assert_eq!(closed(&world), 1, "{reason}");
        // The client does not close its side; the server does not wait for ever.
        world.run_for(Span::from_secs(8));
        assert_eq!(world.control.connections(), 0, "{reason}");
        stop(&mut world);
    }
}

#[test]
fn a_trickle_of_bytes_does_not_move_a_deadline() {
    let mut world = World::new(1, options(1));
    let client = world.network.connect(0);
    let head = b"GET /page HTTP/1.1\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for byte in head {
        world.network.send(client, &[*byte]);
        world.run_for(Span::from_millis(500));
    }
    let samples = world.control.metrics();
    assert_eq!(metric(&samples, "tiderace_connections_closed_total", &["head-timeout"]), 1);
    stop(&mut world);
}

#[test]
fn what_is_begun_must_be_finished() {
    let mut fragment = Vec::new();
    write_frame_header(&mut fragment, false, tiderace_websocket::Opcode::Binary, 2, Some([0; 4]));
    fragment.extend_from_slice(b"ab");
    let mut pong = Vec::new();
    tiderace_websocket::encode_pong(&mut pong, b"", Some([1; 4]));
    let (frame, message) = (Deadlines::default().frame, Deadlines::default().message);
    let second = Span::from_secs(1);
    /// Over WebSocket; what is begun; what goes on; the end with and without it going on.
    type Case<'a> = (bool, &'a [u8], &'a [u8], Option<Span>, Span);
    let cases: [Case<'_>; 3] = [
        (false, b"P news fo", b"o", None, frame),
        // Pongs answer pings, but they do not finish a message.
        (true, &fragment, &pong, Some(message), message),
        (true, &[0x82, 0x85, 1, 2, 3], &[], Some(frame), frame),
    ];
    for (seed, (websocket, begun, more, steady, silent)) in (0..).zip(cases) {
        for (goes_on, timeout) in [(true, steady), (false, Some(silent))] {
            let mut options = options(seed);
            options.deadlines.ping = second * if goes_on { 30 } else { 1000 };
            let mut world = World::new(seed, options);
            let client = world.network.connect(0);
            if websocket {
                world.network.send(client, &upgrade("/echo", "echo"));
                let mut greeting = Vec::new();
                encode_message(&mut greeting, MessageKind::Text, b"ECHO\nhello", Some([1; 4]));
                world.network.send(client, &greeting);
                world.run_until("the echo", |world| world.text(client).ends_with("hello"));
            } else {
                world.network.send(client, b"LINE\nL bob\n");
                world.run_until("the login", |world| world.text(client) == "OK\n");
            }
            world.run_for(second * 15);
            world.network.send(client, begun);
            let closed = |world: &World| {
                let reason = &["frame-timeout"];
                metric(&world.control.metrics(), "tiderace_connections_closed_total", reason)
            };
            let mut waited = Span::ZERO;
            while waited < timeout.unwrap_or(message * 2) - second * 4 {
                if goes_on && !more.is_empty() {
                    world.network.send(client, more);
                }
                world.run_for(second * 2);
                waited += second * 2;
                assert_eq!(closed(&world), 0, "case {seed}, {goes_on}: after {waited:?}");
            }
            world.run_for(second * 6);
            assert_eq!(closed(&world), u64::from(timeout.is_some()), "case {seed}, {goes_on}");
            stop(&mut world);
        }
    }
}

#[test]
fn a_silent_websocket_is_pinged_and_then_closed() {
    let mut world = World::new(7, options(7));
    let (silent, lively) = (world.network.connect(0), world.network.connect(0));
    for client in [silent, lively] {
        world.network.send(client, &upgrade("/echo", "echo"));
        let mut greeting = Vec::new();
        encode_message(&mut greeting, MessageKind::Text, b"ECHO\n", Some([1; 4]));
        world.network.send(client, &greeting);
    }
    for _ in 0..20 {
        world.run_for(Span::from_secs(10));
        let mut pong = Vec::new();
        tiderace_websocket::encode_pong(&mut pong, b"", Some([1; 4]));
        world.network.send(lively, &pong);
    }
    assert!(world.network.is_ended(silent));
    assert!(!world.network.is_ended(lively));
    let samples = world.control.metrics();
    assert_eq!(metric(&samples, "tiderace_connections_closed_total", &["idle-timeout"]), 1);
    stop(&mut world);
    assert_eq!(messages(&world.network.received(lively)).2, Some(1012));
}

#[test]
fn connections_spread_over_shards() {
    for placement in [Placement::Accepted, Placement::Identified] {
        let options = Options { shards: 4, placement, ..Options::default() };
        let mut world = World::new(3, options);
        let clients: Vec<Client> = (0..40).map(|_| world.network.connect(0)).collect();
        for client in &clients {
            world.network.send(*client, b"ECHO\nhello");
        }
        world.run_until("all echoes", |world| {
            clients.iter().all(|client| world.text(*client) == "hello")
        });
        assert_eq!(world.loads(), [10, 10, 10, 10], "{placement:?}");
        stop(&mut world);
    }
}

#[test]
fn a_panicking_session_ends_alone() {
    let mut world = World::new(5, Options::default());
    let (bad, good) = (world.network.connect(0), world.network.connect(0));
    world.network.send(good, b"ECHO\nstill ");
    world.network.send(bad, b"LINE\n!\n");
    world.run_until("the end", |world| world.network.is_ended(bad));
    world.network.send(good, b"here");
    world.run_until("the echo", |world| world.text(good) == "still here");
    let samples = world.control.metrics();
    assert_eq!(metric(&samples, "tiderace_session_panics_total", &[]), 1);
    assert_eq!(metric(&samples, "tiderace_connections_closed_total", &["internal-error"]), 1);
    stop(&mut world);
}

#[test]
fn limits_close_connections_at_once() {
    let limited = |options: Options, reason: &str, expected: u64| {
        let mut world = World::new(2, options);
        let clients: Vec<Client> = (0..8).map(|_| world.network.connect(0)).collect();
        for client in &clients {
            world.network.send(*client, b"ECHO\n");
        }
        world.run_for(Span::from_secs(5));
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_connections_rejected_total", &[reason]), expected);
        for client in &clients {
            world.network.finish(*client);
        }
        world.run_until("nobody", |world| world.control.connections() == 0);
        let late = world.network.connect(0);
        world.network.send(late, b"ECHO\nagain");
        world.run_until("the echo", |world| world.text(late) == "again");
        stop(&mut world);
    };
    limited(Options { connections_max: 3, ..Options::default() }, "limit", 5);
    // Four clients share each simulated address.
    let options = Options { connections_per_address_max: 3, ..Options::default() };
    limited(options, "address-limit", 2);
}

#[test]
fn a_refused_login_says_why() {
    let mut world = World::new(11, options(11));
    let client = world.network.connect(0);
    world.network.send(client, b"LINE\nL mallory\nS news\n");
    world.run_until("the end", |world| world.network.is_ended(client));
    assert_eq!(world.text(client), "BYE login-failed\n");
    stop(&mut world);
}

#[test]
fn a_client_that_never_reads_does_not_fill_memory() {
    let mut world = World::new(13, Options::default());
    let client = world.network.connect(0);
    world.network.stall(client, true);
    world.network.send(client, b"ECHO\n");
    for _ in 0..100 {
        world.network.send(client, &[0; 100_000]);
    }
    world.run_for(Span::from_secs(60));
    let backlog = metric(&world.control.metrics(), "tiderace_write_backlog_bytes", &[]);
    assert!(backlog < 1_000_000, "{backlog}");
    world.network.stall(client, false);
    world.run_until("the echo", |world| world.network.received(client).len() == 10_000_000);
    stop(&mut world);
}

fn upgrade(path: &str, subprotocol: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
    .into_bytes()
}

fn broker_metric(world: &World, name: &str) -> u64 {
    let metrics = world.control.broker_metrics();
    metrics.iter().filter(|(metric, _)| metric.name == name).map(|(_, value)| value).sum()
}

fn backlog_bytes(world: &World) -> u64 {
    broker_metric(world, "tiderace_backlog_bytes")
}

/// One message in several frames.
fn fragments(world: &World, message: &[u8], wire: &mut Vec<u8>) {
    use tiderace_websocket::Opcode;
    let cut = world.network.random(message.len() + 1);
    let (first, last) = message.split_at(cut);
    for (fin, opcode, part) in [(false, Opcode::Binary, first), (true, Opcode::Continuation, last)]
    {
        write_frame_header(wire, fin, opcode, part.len(), Some([0; 4]));
        wire.extend_from_slice(part);
    }
}

/// What the server sent after its handshake: payload, pongs and the code of its close frame.
fn messages(received: &[u8]) -> (Vec<u8>, usize, Option<u16>) {
    use tiderace_websocket::{Decoder, Event, Limits, Role};
    let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let mut bytes = received[end..].to_vec();
    let mut rest = &mut bytes[..];
    let mut decoder = Decoder::new(Role::Client);
    let (mut payload, mut pongs) = (Vec::new(), 0);
    loop {
        let decoded = decoder.decode(&Limits::default(), rest).unwrap();
        let consumed = decoded.consumed;
        match decoded.event {
            Event::Message { payload: part, .. } => payload.extend_from_slice(part),
            Event::Pong(_) => pongs += 1,
            Event::Close { code, .. } => return (payload, pongs, code),
            Event::Incomplete { .. } => return (payload, pongs, None),
            _ => {}
        }
        rest = &mut rest[consumed..];
    }
}
