//! Before a client has logged in little of what it sends is taken, whatever carries it: credentials are judged by
//! the head of a request or by the first frame, and what is behind them stays in the network until they are.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::Desk;
use crate::common::http2::{Exchange, Http2};
use crate::common::metric;
use crate::common::world::World;
use http::Request;
use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_websocket::{MessageKind, encode_message};

/// What a client may send before its login.
const EARLY: usize = 4096;
/// What is sent behind the credentials.
const BODY: usize = 300_000;
/// What may be taken of that: one read beside what is kept.
const TAKEN_MAX: usize = 3 * EARLY;

/// A node whose logins wait until the test decides them.
fn world(seed: u64) -> (World, Arc<Desk>) {
    let desk = Arc::new(Desk::default());
    let verifier = Arc::clone(&desk);
    let options =
        Options { shards: 1 + (seed % 3) as usize, ahead_bytes_max: EARLY, ..Options::default() };
    let world = World::with(seed, options, |services| {
        let paths = |path: &str| Arc::from([path.to_owned()]);
        services.verifier = verifier;
        services.protocols = vec![
            tiderace_native::protocol(Arc::default(), paths("/tiderace")),
            tiderace_engineio::protocol(
                "socketio",
                Arc::default(),
                paths("/socket.io/"),
                tiderace_socketio::inner(Arc::default()),
            ),
            tiderace_rsocket::protocol(Arc::default(), paths("/rsocket")),
            tiderace_events::protocol(Arc::default()),
            tiderace_stomp::protocol(Arc::default(), paths("/stomp")),
        ];
    });
    (world, desk)
}

/// `ann:x` is let in, `mallory:x` is not.
const CREDENTIALS: [(&str, &str); 2] = [("Basic YW5uOng=", "200"), ("Basic bWFsbG9yeTp4", "401")];

fn said(world: &mut World, client: Client, what: &str) {
    world.run_until(what, |world| world.text(client).contains(what));
}

/// Sends the beginning and what is behind it, waits for the login to lie on the desk, and looks at how much
/// of what is behind has been taken by then.
fn held_back(world: &mut World, desk: &Desk, client: Client, begin: &[u8], behind: &[u8]) {
    world.network.send(client, &[begin, behind].concat());
    world.run_until("the credentials", |_| desk.waiting() == 1);
    world.run_for(Span::from_millis(500));
    let taken = world.network.taken(client);
    assert!(taken < begin.len() + TAKEN_MAX, "seed {}: {taken} bytes", world.seed);
    desk.decide();
}

#[test]
fn bodies_wait_for_the_login_of_their_head() {
    for seed in 0..12 {
        for (credentials, status) in CREDENTIALS {
            for chunked in [false, true] {
                let (mut world, desk) = world(seed);
                let client = world.network.connect(0);
                let length = match chunked {
                    true => "Transfer-Encoding: chunked".to_owned(),
                    false => format!("Content-Length: {BODY}"),
                };
                let head = format!(
                    "POST /topics/x HTTP/1.1\r\nHost: h\r\nAuthorization: {credentials}\r\n{length}\r\n\r\n"
                );
                let body = vec![b'x'; BODY];
                let body = match chunked {
                    true => [format!("{BODY:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat(),
                    false => body,
                };
                held_back(&mut world, &desk, client, head.as_bytes(), &body);
                said(&mut world, client, &format!("HTTP/1.1 {status} "));
            }
        }
    }
}

#[test]
fn a_body_without_credentials_is_not_read_by_a_server_that_wants_some() {
    for seed in 0..12 {
        let (mut world, desk) = world(seed);
        let client = world.network.connect(0);
        let head = format!("POST /topics/x HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY}\r\n\r\n");
        // Whether a client without credentials is let in is the verifier's business, too.
        held_back(&mut world, &desk, client, head.as_bytes(), &vec![b'x'; BODY]);
        said(&mut world, client, "HTTP/1.1 ");
    }
}

/// What a stream of HTTP/2 has got rid of.
fn sent(streams: &[Exchange], each: usize) -> usize {
    streams.iter().map(|stream| each - stream.unsent()).sum()
}

fn post(credentials: &str) -> Request<()> {
    let request = Request::post("http://h/topics/x").header("authorization", credentials);
    request.body(()).unwrap()
}

#[test]
fn streams_have_one_small_window_together_until_one_has_logged_in() {
    for seed in 0..6 {
        for (credentials, status) in CREDENTIALS {
            let (mut world, desk) = world(seed);
            let mut client = Http2::connect(&world);
            let mut streams: Vec<Exchange> =
                (0..8).map(|_| client.request(post(credentials), true)).collect();
            for stream in &mut streams {
                stream.say(&vec![b'x'; BODY]);
                stream.finish();
            }
            let mut step = |world: &World, streams: &mut [Exchange]| {
                client.step(world);
                streams.iter_mut().for_each(Exchange::step);
                client.step(world);
            };
            world.run_until("the credentials", |world| {
                step(world, &mut streams);
                desk.waiting() == 8
            });
            let end = world.network.now() + Span::from_millis(500);
            world.run_until("what the windows allow", |world| {
                step(world, &mut streams);
                world.network.now() >= end
            });
            let sent = sent(&streams, BODY);
            // What is taken opens the window again.
            assert!(sent <= 65_535 + 8 * TAKEN_MAX, "seed {seed}: {sent} bytes");
            desk.decide();
            world.run_until("the answers", |world| {
                step(world, &mut streams);
                streams.iter().all(|stream| stream.head.is_some())
            });
            for stream in &streams {
                assert_eq!(stream.head.as_ref().unwrap().status().as_str(), status, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_client_that_has_logged_in_may_send_far_ahead() {
    for seed in 0..6 {
        let (mut world, desk) = world(seed);
        let mut client = Http2::connect(&world);
        let mut first = client.request(post("Basic YW5uOng="), true);
        first.say(&vec![b'x'; BODY]);
        first.finish();
        client.run(&mut world, &mut first, "the answer", |stream| {
            desk.decide();
            stream.head.is_some()
        });
        // Others of this connection wait for their logins and fill what the client may send ahead.
        let mut streams: Vec<Exchange> =
            (0..12).map(|_| client.request(post("Basic YW5uOng="), true)).collect();
        streams.iter_mut().for_each(|stream| stream.say(&vec![b'x'; BODY]));
        world.run_until("more than the first window", |world| {
            client.step(world);
            streams.iter_mut().for_each(Exchange::step);
            client.step(world);
            desk.waiting() == 12 && sent(&streams, BODY) > 400_000
        });
    }
}

#[test]
fn few_answers_are_kept_for_a_client_that_takes_none() {
    for seed in 0..6 {
        let (mut world, _) = world(seed);
        let mut client = Http2::with(&world, |builder| {
            builder.initial_window_size(0);
        });
        let mut pages: Vec<Exchange> = (0..40).map(|_| client.get("/large")).collect();
        let end = world.network.now() + Span::from_secs(1);
        world.run_until("the answers", |world| {
            client.step(world);
            pages.iter_mut().for_each(Exchange::step);
            client.step(world);
            world.network.now() >= end
        });
        let kept = metric(&world.control.metrics(), "tiderace_write_backlog_bytes", &[]);
        assert!((60_000..400_000).contains(&kept), "seed {seed}: {kept} bytes");
    }
}

#[test]
fn posts_to_a_session_without_login_are_refused_by_their_length() {
    for seed in 0..12 {
        let (mut world, _) = world(seed);
        let opening = world.network.connect(0);
        let get = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: h\r\n\r\n";
        world.network.send(opening, get.as_bytes());
        said(&mut world, opening, "\"upgrades\"");
        let text = world.text(opening);
        let sid = text.split("\"sid\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        for length in [format!("Content-Length: {BODY}"), "Transfer-Encoding: chunked".into()] {
            let client = world.network.connect(0);
            let target = format!("/socket.io/?EIO=4&transport=polling&sid={sid}");
            let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{length}\r\n\r\n");
            let chunk =
                if length.starts_with('T') { format!("{BODY:x}\r\n") } else { String::new() };
            world.network.send(client, head.as_bytes());
            world.network.send(client, chunk.as_bytes());
            if !chunk.is_empty() {
                world.network.send(client, &vec![b'4'; 3 * EARLY]);
            }
            said(&mut world, client, "HTTP/1.1 4");
            world.run_for(Span::from_millis(500));
            let taken = world.network.taken(client);
            assert!(taken <= head.len() + chunk.len() + 3 * EARLY, "seed {seed}: {taken} bytes");
        }
    }
}

/// The beginning of a WebSocket, and one message.
fn websocket(path: &str, offer: &str, message: &[u8]) -> Vec<u8> {
    let mut wire = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{offer}\r\n"
    )
    .into_bytes();
    encode_message(&mut wire, MessageKind::Binary, message, Some([1, 2, 3, 4]));
    wire
}

const CONNECT: &[u8] = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:ann\npasscode:x\n\n\0";

#[test]
fn messages_behind_a_login_wait_for_it() {
    let head = format!("SEND\ndestination:/topic/x\nreceipt:1\ncontent-length:{BODY}\n\n");
    let send = [head.as_bytes(), &vec![b'x'; BODY], b"\0"].concat();
    let mut framed = Vec::new();
    encode_message(&mut framed, MessageKind::Binary, &send, Some([1, 2, 3, 4]));
    let offer = "Sec-WebSocket-Protocol: v12.stomp\r\n";
    let upgraded = websocket("/stomp", offer, CONNECT);
    for seed in 0..12 {
        for (begin, behind) in [(CONNECT, &send), (&upgraded, &framed)] {
            let (mut world, desk) = world(seed);
            let client = world.network.connect(0);
            held_back(&mut world, &desk, client, begin, behind);
            said(&mut world, client, "receipt-id:1");
        }
    }
}

#[test]
fn a_first_message_larger_than_a_client_may_send_is_refused_at_once() {
    let large = vec![b'x'; BODY];
    let stomp = [&CONNECT[..CONNECT.len() - 2], b"x:", &large, b"\n\n\0"].concat();
    let upgrades = [
        ("/stomp", "Sec-WebSocket-Protocol: v12.stomp\r\n", stomp.clone()),
        ("/tiderace", "Sec-WebSocket-Protocol: tiderace.v1\r\n", large.clone()),
        ("/rsocket", "", large.clone()),
        ("/socket.io/?EIO=4&transport=websocket", "", large),
    ];
    let mut firsts: Vec<Vec<u8>> =
        upgrades.iter().map(|(path, offer, first)| websocket(path, offer, first)).collect();
    firsts.push(stomp);
    for seed in 0..6 {
        for (place, first) in firsts.iter().enumerate() {
            let (mut world, desk) = world(seed);
            let client = world.network.connect(0);
            // All but the end, so that what is whole cannot be what is judged.
            world.network.send(client, &first[..first.len() - 100]);
            world.run_until("the end", |world| world.network.is_ended(client));
            assert_eq!(desk.waiting(), 0, "{place}");
        }
    }
}
