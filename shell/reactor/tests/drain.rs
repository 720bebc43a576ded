//! The drain on simulated networks: whatever carries a client, it is told to go, once, in a slot of its own, and
//! nothing that has begun is cut off.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::http2::Http2;
use crate::common::metric;
use crate::common::phoenix::phoenix_protocol;
use crate::common::postbox::postbox_protocol;
use crate::common::world::World;
use tiderace_base::{Addresses, Span, Time};
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{ListenerOptions, Options, Placement};
use tiderace_websocket::{Decoder, Event, Limits, MessageKind, Role, encode_message};
use tiderace_wire::{DrainPhase, DrainRequest};

fn options(seed: u64) -> Options {
    let address = ([127, 0, 0, 1], 0).into();
    Options {
        shards: 1 + (seed % 4) as usize,
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        listeners: vec![
            ListenerOptions::at(address),
            ListenerOptions { stays_open: true, ..ListenerOptions::at(address) },
        ],
        ..Options::default()
    }
}

fn world(seed: u64) -> World {
    World::with(seed, options(seed), |services| {
        services.protocols.extend([postbox_protocol(), phoenix_protocol()]);
    })
}

fn request(over_ms: u64) -> DrainRequest {
    let to = Addresses::new(["wss://b.example/x"]).unwrap();
    DrainRequest { over: Span::from_millis(over_ms), to, ..DrainRequest::default() }
}

/// The node's own end, when all have left.
fn stop(mut world: World) {
    world.run_until("the end of the drain", |world| {
        world.control.drain_phase() == DrainPhase::Drained
    });
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    let (control, seed) = (&world.control, world.seed);
    assert_eq!(control.connections(), 0, "seed {seed}");
    let samples = control.metrics();
    let opened = metric(&samples, "tiderace_connections_opened_total", &[]);
    let closed = samples.iter().filter(|s| s.row.name == "tiderace_connections_closed_total");
    let closed: u64 = closed.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum();
    assert_eq!(opened, closed, "seed {seed}: each connection ends once");
}

fn echo(world: &mut World, listener: u16) -> Client {
    let client = world.network.connect(listener);
    world.network.send(client, b"ECHO\nhello");
    world.run_until("the echo", |world| world.text(client) == "hello");
    client
}

/// A client of the line protocol that has logged in.
fn line(world: &mut World, listener: u16) -> Client {
    let client = world.network.connect(listener);
    world.network.send(client, b"LINE\nL ann\n");
    world.run_until("the login", |world| world.text(client) == "OK\n");
    client
}

fn says(world: &mut World, client: Client, what: &str) {
    world.run_until(what, |world| world.text(client).ends_with(what));
}

#[test]
fn all_leave_evenly_within_the_span() {
    for seed in 0..8 {
        let mut world = world(seed);
        let clients: Vec<Client> = (0..400).map(|_| echo(&mut world, 0)).collect();
        let begun = world.network.now();
        world.control.drain_finally(request(20_000));
        let mut gone: Vec<Option<Time>> = vec![None; clients.len()];
        world.run_until("all to be told", |world| {
            for (gone, client) in gone.iter_mut().zip(&clients) {
                if gone.is_none() && world.text(*client).ends_with("\nBYE draining\n") {
                    *gone = Some(world.network.now());
                }
            }
            gone.iter().all(Option::is_some)
        });
        let mut seconds = [0usize; 20];
        for time in gone.into_iter().flatten() {
            seconds[(time.since(begun).as_secs() as usize).min(19)] += 1;
        }
        let most = *seconds.iter().max().unwrap();
        assert!(most <= 30, "seed {seed}: 20 a second is even, not {seconds:?}");
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_drain_goodbyes_total", &[]), 400, "seed {seed}");
        stop(world);
    }
}

#[test]
fn who_asks_and_who_came_by_a_listener_that_stays_are_left_alone() {
    for seed in 0..40 {
        let mut world = world(seed);
        let (asking, other, admin) =
            (line(&mut world, 0), echo(&mut world, 0), echo(&mut world, 1));
        world.network.send(asking, b"D 3000 tcp://b.example:1\n");
        says(&mut world, asking, "announced\n");
        says(&mut world, other, "\nBYE draining\n");
        world.run_until("its end", |world| world.control.drain_phase() == DrainPhase::Drained);
        let status = world.control.drain_status();
        assert_eq!((status.connections, status.listeners), (0, 1), "seed {seed}");
        assert_eq!((status.connections_at_begin, status.goodbyes), (1, 1), "seed {seed}");
        let late = world.network.connect(0);
        world.run_until("a refusal", |world| world.network.is_ended(late));
        let admin_too = echo(&mut world, 1);
        assert!(!world.network.is_ended(asking) && !world.network.is_ended(admin), "seed {seed}");
        world.network.send(asking, b"D 3000\n");
        says(&mut world, asking, "BYE bad-operation\n");
        world.network.finish(asking);
        let back = line(&mut world, 1);
        world.network.send(back, b"C\n");
        says(&mut world, back, "opening\n");
        world.run_until("an open listener", |world| world.control.drain_status().listeners == 2);
        let again = echo(&mut world, 0);
        world.run_until("all to be counted", |world| world.control.drain_status().connections == 1);
        world.control.drain_finally(request(1_000));
        says(&mut world, again, "\nBYE draining\n");
        for client in [admin, admin_too, back] {
            assert!(!world.network.is_ended(client), "seed {seed}");
        }
        stop(world);
    }
}

#[test]
fn who_asks_by_a_listener_that_stays_is_not_counted_twice() {
    for seed in 0..40 {
        let mut world = world(seed);
        let (admin, other) = (line(&mut world, 1), echo(&mut world, 0));
        world.network.send(admin, b"D 5000\n");
        world.run_until("its end", |world| world.control.drain_phase() == DrainPhase::Drained);
        let status = world.control.drain_status();
        assert_eq!((status.connections_at_begin, status.goodbyes), (1, 1), "seed {seed}");
        says(&mut world, other, "\nBYE draining\n");
        world.control.drain_finally(request(0));
        stop(world);
    }
}

#[test]
fn a_drain_that_is_cancelled_leaves_the_others_where_they_are() {
    for seed in 0..20 {
        let mut world = world(seed);
        let clients: Vec<Client> = (0..50).map(|_| echo(&mut world, 0)).collect();
        let admin = line(&mut world, 1);
        world.network.send(admin, b"D 60000\n");
        let is_told = |world: &World, client: &Client| world.network.is_ended(*client);
        world.run_until("some to go", |world| {
            clients.iter().filter(|client| is_told(world, client)).count() >= 10
        });
        world.network.send(admin, b"C\n");
        says(&mut world, admin, "opening\n");
        // Who asks is told when the listeners are open: a client that connects then is served.
        world.run_until("open listeners", |world| {
            world.control.drain_phase() == DrainPhase::Serving
        });
        assert_eq!(world.control.drain_status().listeners, 2, "seed {seed}");
        let late = echo(&mut world, 0);
        world.network.reset(late);
        world.run_for(Span::from_secs(5));
        let left: Vec<Client> =
            clients.iter().filter(|client| !is_told(&world, client)).copied().collect();
        assert!(left.len() > 20, "seed {seed}: {}", left.len());
        world.run_for(Span::from_secs(100));
        assert!(left.iter().all(|client| !is_told(&world, client)), "seed {seed}");
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_drain_state", &[]), 0, "seed {seed}");
        world.control.drain_finally(request(1_000));
        stop(world);
    }
}

#[test]
fn a_websocket_is_closed_with_where_to_go() {
    for seed in 0..20 {
        let mut world = world(seed);
        let client = world.network.connect(0);
        world.network.send(
            client,
            b"GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let mut wire = Vec::new();
        encode_message(&mut wire, MessageKind::Binary, b"ECHO\nhello", Some([1, 2, 3, 4]));
        world.network.send(client, &wire);
        world.run_until("the echo", |world| world.text(client).ends_with("hello"));
        world.control.drain_finally(request(1_000));
        world.run_until("the end", |world| world.network.is_ended(client));
        assert_eq!(close_of(&world, client), Some((1012, "go to wss://b.example/x".to_owned())));
        stop(world);
    }
}

/// Code and reason of the close of a WebSocket.
fn close_of(world: &World, client: Client) -> Option<(u16, String)> {
    let received = world.network.received(client);
    let head = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let mut bytes = received[head..].to_vec();
    let (mut rest, mut decoder) = (&mut bytes[..], Decoder::new(Role::Client));
    loop {
        let decoded = decoder.decode(&Limits::default(), rest).unwrap();
        let consumed = decoded.consumed;
        match decoded.event {
            Event::Close { code, reason } => return Some((code?, reason.to_owned())),
            Event::Incomplete { .. } => return None,
            _ => {}
        }
        rest = &mut rest[consumed..];
    }
}

fn get(world: &World, client: Client, method: &str, target: &str, body: &str) {
    let length = body.len();
    let text =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}");
    world.network.send(client, text.as_bytes());
}

#[test]
fn a_poll_is_answered_by_the_last_word_and_its_connection_ends() {
    for seed in 0..40 {
        let mut world = world(seed);
        let (idle, poll) = (world.network.connect(0), world.network.connect(0));
        get(&world, idle, "POST", "/box", "");
        world.run_until("the box", |world| world.text(idle).contains("\r\n\r\n"));
        world.run_for(Span::from_secs(1));
        let ticket = world.text(idle).rsplit("\r\n\r\n").next().unwrap().to_owned();
        get(&world, poll, "GET", &format!("/box?t={ticket}"), "");
        world.run_for(Span::from_secs(1));
        assert_eq!(world.text(poll), "", "seed {seed}: it is held");
        world.control.drain_finally(request(2_000));
        world.run_until("the ends", |world| {
            world.network.is_ended(idle) && world.network.is_ended(poll)
        });
        let text = world.text(poll);
        assert!(text.ends_with("BYE draining\n"), "seed {seed}: {text}");
        assert!(text.to_lowercase().contains("\r\nconnection: close\r\n"), "seed {seed}: {text}");
        stop(world);
    }
}

#[test]
fn a_session_between_two_polls_gets_its_last_word_with_the_next() {
    let mut world = world(5);
    let client = world.network.connect(0);
    get(&world, client, "POST", "/box", "");
    world.run_until("the box", |world| world.text(client).contains("\r\n\r\n"));
    world.run_for(Span::from_secs(1));
    let ticket = world.text(client).rsplit("\r\n\r\n").next().unwrap().to_owned();
    // A connection that is in the midst of a request stays, and so the client can poll.
    let poll = world.network.connect(0);
    world.network.send(poll, format!("GET /box?t={ticket} HTTP/1.1\r\n").as_bytes());
    world.run_for(Span::from_secs(1));
    world.control.drain_finally(request(8_000));
    world.run_for(Span::from_secs(6));
    assert_eq!(world.text(poll), "", "nothing has been asked");
    world.network.send(poll, b"Host: h\r\n\r\n");
    world.run_until("the end", |world| world.network.is_ended(poll));
    assert!(world.text(poll).ends_with("BYE draining\n"), "{}", world.text(poll));
    stop(world);
}

#[test]
fn streams_of_http2_are_told_and_their_connection_takes_no_more() {
    for seed in 0..40 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut socket = client.websocket("/echo");
        let mut wire = Vec::new();
        encode_message(&mut wire, MessageKind::Text, b"ECHO\nhello", Some([1, 2, 3, 4]));
        socket.say(&wire);
        client.run(&mut world, &mut socket, "the echo", |it| it.body.ends_with(b"hello"));
        world.control.drain_finally(request(2_000));
        client.run(&mut world, &mut socket, "the end", |it| it.over.is_some());
        let text = String::from_utf8_lossy(&socket.body).into_owned();
        assert!(text.contains("BYE draining"), "seed {seed}: {text}");
        world.run_until("its end", |world| {
            client.step(world);
            client.over.is_some() && world.control.drain_phase() == DrainPhase::Drained
        });
        assert_eq!((&socket.over, &client.over), (&Some(Ok(())), &Some(Ok(()))), "seed {seed}");
        stop(world);
    }
}

#[test]
fn sessions_that_wait_for_their_clients_end_as_well() {
    for seed in 0..20 {
        let mut world = world(seed);
        let client = world.network.connect(0);
        world.network.send(client, b"PHX a-token-that-is-long-enough ann\n");
        world.run_for(Span::from_secs(2));
        world.network.reset(client);
        world.run_for(Span::from_secs(1));
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_sessions_detached_total", &[]), 1, "seed {seed}");
        world.control.drain_finally(request(1_000));
        stop(world);
    }
}

#[test]
fn connections_that_say_nothing_or_come_late_are_no_obstacle() {
    for seed in 0..40 {
        let mut world = world(seed);
        let silent: Vec<Client> = (0..10).map(|_| world.network.connect(0)).collect();
        world.run_for(Span::from_millis(100));
        let drain = DrainRequest { delay: Span::from_secs(5), ..request(3_000) };
        world.control.drain_finally(drain);
        world.run_for(Span::from_secs(1));
        assert_eq!(world.control.drain_phase(), DrainPhase::Announced, "seed {seed}");
        let late: Vec<Client> = (0..5).map(|_| echo(&mut world, 0)).collect();
        world.run_until("all ends", |world| {
            silent.iter().chain(&late).all(|client| world.network.is_ended(*client))
        });
        assert!(late.iter().all(|it| world.text(*it).ends_with("BYE draining\n")), "seed {seed}");
        stop(world);
    }
}
