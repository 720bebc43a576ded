//! After a pause of the server's own (SIGSTOP, a machine that is moved), on simulated networks: clients whose
//! bytes lie in their sockets are not silent, whatever deadline passed meanwhile; those that are silent still end.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;

use crate::common::metric;
use crate::common::tls::{Secured, certified};
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_rsocket::RSocketOptions;
use tiderace_stomp::StompOptions;
use tiderace_tls::Version;

fn world(seed: u64, change: impl FnOnce(&mut Options)) -> World {
    let mut options = Options { shards: 1 + (seed % 3) as usize, ..Options::default() };
    change(&mut options);
    World::with(seed, options, |services| {
        let engine = Arc::new(tiderace_engineio::EngineOptions::default());
        let socketio = Arc::new(tiderace_socketio::SocketOptions::default());
        services.protocols.extend([
            tiderace_stomp::protocol(Arc::new(StompOptions::default()), Arc::from([])),
            tiderace_rsocket::protocol(Arc::new(RSocketOptions::default()), Arc::from([])),
            tiderace_engineio::protocol(
                "socketio",
                engine,
                Arc::from(["/socket.io/".to_owned()]),
                tiderace_socketio::inner(socketio),
            ),
        ]);
        services.verifier = Arc::new(common::AtOnce);
    })
}

/// How many connections have ended for that reason.
fn ended(world: &World, reason: &str) -> u64 {
    metric(&world.control.metrics(), "tiderace_connections_closed_total", &[reason])
}

/// Why connections have ended.
fn reasons(world: &World) -> Vec<String> {
    let samples = world.control.metrics();
    let closed = samples.iter().filter(|it| it.row.name == "tiderace_connections_closed_total");
    let closed = closed.filter(|it| metric(std::slice::from_ref(it), it.row.name, &it.labels) > 0);
    closed.map(|sample| sample.labels[0].to_owned()).collect()
}

/// What a client says before and during the pause.
struct Case {
    what: &'static str,
    /// Each is sent, and waited for an answer if one is named.
    before: Vec<(Vec<u8>, &'static [u8])>,
    /// Seconds without a word before the pause.
    silence: u64,
    /// Lies in the socket when the pause is over.
    during: Vec<u8>,
    /// What the server would end it with.
    reason: &'static str,
}

fn rsocket(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = 6 + body.len() as u32;
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&(kind << 10).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// SETUP with a sign of life every 2 seconds, and silence of 5 seconds borne.
fn setup() -> Vec<u8> {
    let mut body = vec![0, 1, 0, 0];
    body.extend_from_slice(&2000u32.to_be_bytes());
    body.extend_from_slice(&5000u32.to_be_bytes());
    for mime in ["message/x.rsocket.routing.v0", "text/plain"] {
        body.push(mime.len() as u8);
        body.extend_from_slice(mime.as_bytes());
    }
    rsocket(1, &body)
}

fn cases() -> Vec<Case> {
    let upgrade = "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Protocol: echo\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";
    let text = |text: &str| text.as_bytes().to_vec();
    let (mut greeting, mut pong) = (Vec::new(), Vec::new());
    let kind = tiderace_websocket::MessageKind::Binary;
    tiderace_websocket::encode_message(&mut greeting, kind, b"ECHO\n", Some([0; 4]));
    tiderace_websocket::write_frame_header(
        &mut pong,
        true,
        tiderace_websocket::Opcode::Pong,
        0,
        Some([0; 4]),
    );
    let connect = "CONNECT\naccept-version:1.2\nhost:a\nheart-beat:1000,0\n\n\0";
    let case =
        |what, before, silence, during, reason| Case { what, before, silence, during, reason };
    vec![
        case("first bytes", vec![], 9, text("ECHO\nhello"), "first-byte-timeout"),
        case(
            "the rest of a head",
            vec![(text("GET /page HTTP/1.1\r\nHo"), b"")],
            9,
            text("st: a\r\n\r\n"),
            "head-timeout",
        ),
        case(
            "the rest of a body",
            vec![(text("POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na"), b"")],
            9,
            text("b"),
            "head-timeout",
        ),
        case("a login", vec![(text("LINE\n"), b"")], 9, text("L ann\n"), "login-timeout"),
        case(
            "the rest of a frame",
            vec![
                (text(&connect.replace("1000", "0")), b"CONNECTED"),
                (text("SEND\ndestination:/topic/a"), b""),
            ],
            0,
            text("\n\nx\0"),
            "frame-timeout",
        ),
        case(
            "heart-beats of STOMP",
            vec![(text(connect), b"CONNECTED")],
            1,
            text("\n\n\n"),
            "heart-beat-timeout",
        ),
        case(
            "signs of life of RSocket",
            vec![(setup(), b"")],
            4,
            rsocket(3, &[0; 8]),
            "heart-beat-timeout",
        ),
        case(
            "a pong",
            // The first ping comes 30 seconds after the deadline of the login.
            vec![(text(upgrade), b"101"), (greeting, b"")],
            45,
            pong,
            "idle-timeout",
        ),
    ]
}

/// A client as it is when the pause begins.
fn prepare(world: &mut World, case: &Case) -> Client {
    let client = world.network.connect(0);
    for (bytes, answer) in &case.before {
        world.network.send(client, bytes);
        world.run_until(case.what, |world| {
            let received = world.network.received(client);
            answer.is_empty() || received.windows(answer.len()).any(|part| part == *answer)
        });
    }
    world.run_for(Span::from_secs(case.silence));
    client
}

#[test]
fn what_lies_in_the_sockets_is_read_before_anybody_counts_as_silent() {
    for (seed, case) in (0..).zip(cases()) {
        for speaks in [true, false] {
            let mut world = world(seed, |_| {});
            let client = prepare(&mut world, &case);
            assert_eq!(ended(&world, case.reason), 0, "{}: not before its time", case.what);
            if speaks {
                world.network.send(client, &case.during);
            }
            world.network.pause(Span::from_secs(120));
            // A frame that is not finished is given a second time when its session was new.
            world.run_for(if speaks { Span::from_millis(300) } else { Span::from_secs(130) });
            let expected = u64::from(!speaks);
            assert_eq!(ended(&world, case.reason), expected, "{}, speaks: {speaks}", case.what);
            let others: Vec<String> =
                reasons(&world).into_iter().filter(|reason| reason != case.reason).collect();
            assert!(others.is_empty(), "{}: {others:?}", case.what);
        }
    }
}

#[test]
fn a_handshake_that_lies_in_the_socket_goes_on_after_a_pause() {
    let (settings, config) = certified(Version::Tls12);
    let mut world = world(1, |options| options.tls = Some(settings));
    let mut client = Secured::connect(&world, &config);
    let hello = client.pull(&world);
    world.network.send(client.client, &hello[..20]);
    world.run_for(Span::from_secs(4));
    world.network.send(client.client, &hello[20..]);
    world.network.pause(Span::from_secs(60));
    client.send(b"ECHO\nhello");
    world.run_until("the echo", |world| {
        client.pump(world);
        client.received == b"hello" || world.network.is_ended(client.client)
    });
    assert_eq!(client.received, b"hello");
}

#[test]
fn a_request_that_was_not_accepted_yet_keeps_its_session_over_a_pause() {
    for seed in 0..12 {
        let mut world = world(seed, |_| {});
        let client = world.network.connect(0);
        let get = |query: &str| {
            format!("GET /socket.io/?EIO=4&transport=polling{query} HTTP/1.1\r\nHost: h\r\n\r\n")
        };
        world.network.send(client, get("").as_bytes());
        world.run_until("a session", |world| world.text(client).contains("\"upgrades\""));
        let opened = world.text(client);
        let (_, rest) = opened.split_once("\"sid\":\"").unwrap();
        let query = format!("&sid={}", &rest[..rest.find('"').unwrap()]);
        let post = |body: &str| {
            let head = format!("POST /socket.io/?EIO=4&transport=polling{query} HTTP/1.1\r\n");
            format!("{head}Host: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        world.network.send(client, post("40").as_bytes());
        world.network.send(client, get(&query).as_bytes());
        world.run_until("a login", |world| world.text(client).contains("40{"));
        world.network.send(client, get(&query).as_bytes());
        // The ping comes after 25 seconds; its answer comes by another connection while all stands still.
        world.run_until("a ping", |world| world.text(client).ends_with("\r\n\r\n2"));
        let other = world.network.connect(0);
        world.network.send(other, post("3").as_bytes());
        world.network.pause(Span::from_secs(60));
        world.run_until("an answer", |world| world.network.received_len(other) > 0);
        let (answer, reasons) = (world.text(other), reasons(&world));
        assert!(answer.starts_with("HTTP/1.1 200"), "seed {seed}: {reasons:?} {answer}");
        assert_eq!(ended(&world, "heart-beat-timeout"), 0, "seed {seed}");
    }
}

#[test]
fn many_sockets_are_all_read_before_deadlines_are_judged() {
    let clients = 2000;
    let mut world = world(0, |options| options.shards = 1);
    let connect = b"CONNECT\naccept-version:1.2\nhost:a\nheart-beat:1000,0\n\n\0";
    let all: Vec<Client> = (0..clients).map(|_| world.network.connect(0)).collect();
    for client in &all {
        world.network.send(*client, connect);
    }
    world
        .run_until("all", |world| all.iter().all(|client| world.network.received_len(*client) > 0));
    for client in &all {
        world.network.send(*client, b"\n");
    }
    world.network.pause(Span::from_secs(60));
    world.run_for(Span::from_millis(500));
    assert_eq!(world.control.connections(), clients);
    assert_eq!(ended(&world, "heart-beat-timeout"), 0);
    // Silence of their own is still noticed.
    world.run_for(Span::from_secs(25));
    assert_eq!(ended(&world, "heart-beat-timeout"), clients as u64);
}
