//! HTTP/2 on simulated networks: whatever is served by HTTP/1.1 is served by its streams, and what a
//! stream may cost is bounded.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::http2::{Exchange, Http2};
use crate::common::metric;
use crate::common::phoenix::phoenix_protocol;
use crate::common::postbox::postbox_protocol;
use crate::common::world::World;
use http::Request;
use tiderace_base::Span;
use tiderace_reactor::{Options, Placement};
use tiderace_websocket::{MessageKind, encode_close, encode_message};

fn world(seed: u64) -> World {
    let options = Options {
        shards: 1 + (seed % 4) as usize,
        batch_delay: Span::from_millis(if seed.is_multiple_of(5) { 10 } else { 0 }),
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        ..Options::default()
    };
    World::with(seed, options, |services| {
        services.protocols.extend([postbox_protocol(), phoenix_protocol()]);
    })
}

fn stop(mut world: World, clients: &mut [&mut Http2]) {
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", |world| {
        clients.iter_mut().for_each(|client| client.step(world));
        world.is_over()
    });
    let samples = world.control.metrics();
    assert_eq!(world.control.connections(), 0, "seed {}", world.seed);
    for gauge in
        ["tiderace_connections_paused", "tiderace_write_backlog_bytes", "tiderace_http2_streams"]
    {
        assert_eq!(metric(&samples, gauge, &[]), 0, "seed {}: {gauge}", world.seed);
    }
    let opened = metric(&samples, "tiderace_connections_opened_total", &[]);
    let closed = samples.iter().filter(|s| s.row.name == "tiderace_connections_closed_total");
    let closed: u64 = closed.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum();
    assert_eq!(opened, closed, "seed {}: each connection ends once", world.seed);
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (seed.wrapping_add(at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

#[test]
fn pages_are_served() {
    for seed in 0..100 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut page = client.get("/page?a=b");
        assert_eq!(client.wait(&mut world, &mut page), (200, "GET a=b".to_string()), "seed {seed}");
        assert_eq!(page.field("content-type"), Some("text/plain"));
        assert_eq!(page.field("connection"), None);
        assert!(page.field("date").is_some() && page.over == Some(Ok(())), "seed {seed}");
        let head = Request::head("http://h/page").body(()).unwrap();
        let mut head = client.request(head, false);
        assert_eq!(client.wait(&mut world, &mut head), (200, String::new()), "seed {seed}");
        assert_eq!(head.field("content-length"), Some("6"), "seed {seed}");
        let mut unknown = client.get("/nowhere");
        assert_eq!(client.wait(&mut world, &mut unknown).0, 404, "seed {seed}");
        // A body that nobody wants.
        let mut post = client.request(Request::post("http://h/page").body(()).unwrap(), true);
        post.say(&noise(seed, 100_000));
        post.finish();
        assert_eq!(client.wait(&mut world, &mut post), (200, "POST -".to_string()), "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn many_answers_come_at_once_through_small_windows() {
    for seed in 0..30 {
        let mut world = world(seed);
        let mut client = Http2::with(&world, |builder| {
            builder.initial_window_size(2_000 + (seed as u32 * 977) % 70_000);
            builder.initial_connection_window_size(70_000 + seed as u32);
        });
        let mut pages: Vec<Exchange> = (0..20).map(|_| client.get("/large")).collect();
        world.run_until("the pages", |world| {
            client.step(world);
            pages.iter_mut().for_each(Exchange::step);
            client.step(world);
            pages.iter().all(|page| page.over.is_some())
        });
        assert!(pages.iter().all(|page| page.body.len() == 100_000), "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_websocket_says_every_byte_back() {
    for seed in 0..100 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        // SETTINGS offer it.
        let mut first = client.get("/page");
        client.wait(&mut world, &mut first);
        assert!(client.has_websockets());
        let mut socket = client.websocket("/echo");
        client.run(&mut world, &mut socket, "the upgrade", |it| it.head.is_some());
        let head = socket.head.as_ref().unwrap();
        assert_eq!(head.status(), 200, "seed {seed}");
        assert!(head.headers().is_empty(), "seed {seed}: {:?}", head.headers());
        let bytes = noise(seed, 300_000);
        let mut wire = Vec::new();
        encode_message(&mut wire, MessageKind::Binary, b"ECHO\n", Some([1, 2, 3, 4]));
        for piece in bytes.chunks(1 + world.network.random(60_000)) {
            encode_message(&mut wire, MessageKind::Binary, piece, Some([1, 2, 3, 4]));
        }
        encode_close(&mut wire, Some(1000), "", Some([0; 4]));
        socket.say(&wire);
        client.run(&mut world, &mut socket, "the end", |it| it.over.is_some());
        assert_eq!(socket.over, Some(Ok(())), "seed {seed}");
        assert_eq!(payloads(&socket.body), bytes, "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

/// The payloads of unmasked frames up to the close frame.
fn payloads(mut wire: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while wire[0] & 15 != 8 {
        let (len, head) = match wire[1] {
            126 => (u16::from_be_bytes([wire[2], wire[3]]) as usize, 4),
            127 => (u64::from_be_bytes(wire[2..10].try_into().unwrap()) as usize, 10),
            len => (len as usize, 2),
        };
        bytes.extend_from_slice(&wire[head..head + len]);
        wire = &wire[head + len..];
    }
    bytes
}

#[test]
fn a_post_carries_a_stream_of_bytes() {
    for seed in 0..50 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let request = Request::post("http://h/echo-stream").body(()).unwrap();
        let mut stream = client.request(request, true);
        client.run(&mut world, &mut stream, "the head", |it| it.head.is_some());
        assert_eq!(stream.head.as_ref().unwrap().status(), 200);
        let bytes = noise(seed, 200_000);
        stream.say(b"ECHO\n");
        stream.say(&bytes);
        client.run(&mut world, &mut stream, "the echo", |it| it.body.len() >= bytes.len());
        assert!(stream.body == bytes, "seed {seed}");
        stream.finish();
        client.run(&mut world, &mut stream, "the end", |it| it.over.is_some());
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_refused_upgrade_is_answered_as_by_http1() {
    for seed in 0..10 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        for (path, version, status, code) in [
            ("/echo", "12", 426, "ws-version-unsupported"),
            ("/nothing", "13", 404, "ws-path-unknown"),
        ] {
            let mut refused = client.upgrade(path, version);
            let (found, text) = client.wait(&mut world, &mut refused);
            assert_eq!(found, status, "seed {seed}");
            assert!(text.contains(code), "seed {seed}: {text}");
        }
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_client_that_does_not_read_one_stream_reads_the_others() {
    for seed in 0..30 {
        let mut world = world(seed);
        let mut client = Http2::with(&world, |builder| {
            builder.initial_connection_window_size(1 << 20);
        });
        let mut slow = client.get("/large");
        slow.stalled = true;
        client.run(&mut world, &mut slow, "the head", |it| it.head.is_some());
        for _ in 0..5 {
            let mut page = client.get("/large");
            assert_eq!(client.wait(&mut world, &mut page).1.len(), 100_000, "seed {seed}");
        }
        slow.stalled = false;
        assert_eq!(client.wait(&mut world, &mut slow).1.len(), 100_000, "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_stop_lets_streams_say_goodbye() {
    for seed in 0..50 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut socket = client.websocket("/echo");
        let mut wire = Vec::new();
        encode_message(&mut wire, MessageKind::Text, b"ECHO\nhello", Some([1, 2, 3, 4]));
        socket.say(&wire);
        client.run(&mut world, &mut socket, "the echo", |it| it.body.ends_with(b"hello"));
        world.control.shutdown(Span::from_secs(20));
        client.run(&mut world, &mut socket, "the end", |it| it.over.is_some());
        assert_eq!(socket.over, Some(Ok(())), "seed {seed}");
        let text = String::from_utf8_lossy(&socket.body).into_owned();
        assert!(text.contains("BYE shutting-down"), "seed {seed}: {text}");
        stop(world, &mut [&mut client]);
        assert_eq!(client.over, Some(Ok(())), "seed {seed}");
    }
}

#[test]
fn vanishing_ends_everything() {
    for seed in 0..50 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut sockets: Vec<Exchange> = (0..5).map(|_| client.websocket("/echo")).collect();
        for socket in &mut sockets {
            client.run(&mut world, socket, "the upgrade", |it| it.head.is_some());
        }
        sockets[2].reset();
        world.run_for(Span::from_secs(1));
        client.step(&world);
        world.run_for(Span::from_secs(1));
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_http2_streams", &[]), 4, "seed {seed}");
        assert_eq!(metric(&samples, "tiderace_http2_streams_reset_total", &[]), 1, "seed {seed}");
        if seed % 2 == 0 {
            world.network.reset(client.client)
        } else {
            world.network.finish(client.client)
        }
        world.run_until("the end", |world| world.control.connections() == 0);
        stop(world, &mut []);
    }
}

fn ask(world: &mut World, client: &mut Http2, method: &str, target: &str, body: &str) -> Exchange {
    let request = Request::builder().method(method).uri(format!("http://h{target}"));
    world.run_until("a stream", |world| {
        client.step(world);
        client.is_ready()
    });
    // Some say how long it is, others do not.
    let is_known = world.network.random(2) == 0;
    let request = if is_known { request.header("content-length", body.len()) } else { request };
    let mut exchange = client.request(request.body(()).unwrap(), true);
    exchange.say(body.as_bytes());
    exchange.finish();
    exchange
}

#[test]
fn any_connection_may_carry_any_request() {
    for seed in 0..100 {
        let mut world = world(seed);
        let mut clients: Vec<Http2> = (0..5).map(|_| Http2::connect(&world)).collect();
        let mut open = ask(&mut world, &mut clients[0], "POST", "/box", "");
        let (status, ticket) = clients[0].wait(&mut world, &mut open);
        assert_eq!(status, 200, "seed {seed}");
        let target = format!("/box?t={ticket}");
        world.run_until("the login", |world| world.desk.waiting() == 0);
        world.run_for(Span::from_secs(1));
        let mut listen = ask(&mut world, &mut clients[1], "POST", &target, "S t\n");
        assert_eq!(
            clients[1].wait(&mut world, &mut listen),
            (200, "ok".to_string()),
            "seed {seed}"
        );
        world.run_for(Span::from_secs(1));
        let (mut sent, mut heard) = (0, Vec::new());
        while heard.len() < 30 {
            let at = world.network.random(clients.len());
            let mut poll = ask(&mut world, &mut clients[at], "GET", &target, "");
            for _ in 0..world.network.random(5) + usize::from(sent == heard.len()) {
                let from = world.network.random(clients.len());
                let body = format!("P t {sent}\n");
                let mut post = ask(&mut world, &mut clients[from], "POST", &target, &body);
                let answer = clients[from].wait(&mut world, &mut post);
                assert_eq!(answer, (200, "ok".to_string()), "seed {seed}");
                sent += 1;
            }
            let (status, text) = clients[at].wait(&mut world, &mut poll);
            assert_eq!(status, 200, "seed {seed}");
            heard.extend(text.lines().map(str::to_owned));
        }
        let expected: Vec<String> = (0..heard.len()).map(|number| format!("M {number}")).collect();
        assert_eq!(heard, expected, "seed {seed}");
        // One poll is given up, one is there when all ends.
        let mut given_up = ask(&mut world, &mut clients[2], "GET", &target, "");
        world.run_for(Span::from_secs(1));
        given_up.reset();
        clients[2].step(&world);
        world.run_for(Span::from_secs(1));
        let _held = ask(&mut world, &mut clients[3], "GET", &target, "");
        clients[3].step(&world);
        let mut clients: Vec<&mut Http2> = clients.iter_mut().collect();
        stop(world, &mut clients);
    }
}

#[test]
fn a_session_is_resumed_over_streams_and_goes_on_when_one_is_reset() {
    const TOKEN: &str = "0123456789abcdef";
    for seed in 0..60 {
        let options = Options { shards: 1 + (seed % 4) as usize, ..Options::default() };
        let mut world = World::with(seed, options, |services| {
            services.protocols.push(phoenix_protocol());
        });
        let mut first = Http2::connect(&world);
        let mut client = Http2::connect(&world);
        let post = || Request::post("http://h/phx-stream").body(()).unwrap();
        let mut stream = first.request(post(), true);
        stream.say(format!("PHX {TOKEN} ann\nS t\nP t 0\n").as_bytes());
        first.run(&mut world, &mut stream, "the beginning", |it| it.body.ends_with(b"M 0\n"));
        // By a stream of another connection, perhaps on another shard, and on that shard once more.
        for round in 1..4 {
            match (round + seed) % 3 {
                0 => stream.reset(),
                1 => stream.finish(),
                _ => {}
            }
            let mut next = client.request(post(), true);
            next.say(format!("BACK {TOKEN} {round}\nP t {round}\n").as_bytes());
            let expected = format!("BACK {}\nM {round}\n", round + 1);
            world.run_until("to be back", |world| {
                for http2 in [&mut first, &mut client] {
                    http2.step(world);
                }
                stream.step();
                next.step();
                next.body == expected.as_bytes()
            });
            stream = next;
        }
        // From a tunnel to a socket.
        let socket = world.network.connect(0);
        world.network.send(socket, format!("BACK {TOKEN} 4\nP t 4\n").as_bytes());
        world.run_until("to be back", |world| {
            client.step(world);
            stream.step();
            world.text(socket) == "BACK 5\nM 4\n"
        });
        stop(world, &mut [&mut first, &mut client]);
    }
}

#[test]
fn what_is_no_request_is_refused_at_once() {
    for seed in 0..20 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut page = client.get("/page");
        client.wait(&mut world, &mut page);
        let mut unknown = Request::connect("http://h/echo").body(()).unwrap();
        unknown.extensions_mut().insert(h2::ext::Protocol::from_static("connect-udp"));
        let mut unknown = client.request(unknown, true);
        client.run(&mut world, &mut unknown, "a refusal", |it| it.head.is_some());
        assert_eq!(unknown.head.as_ref().unwrap().status(), 501, "seed {seed}");
        let two_hosts = Request::get("http://h/page").header("host", "evil").body(()).unwrap();
        let mut two_hosts = client.request(two_hosts, false);
        client.run(&mut world, &mut two_hosts, "a reset", |it| it.over.is_some());
        assert!(two_hosts.over.as_ref().unwrap().is_err(), "seed {seed}");
        let mut nowhere = client.websocket("/nowhere");
        assert_eq!(client.wait(&mut world, &mut nowhere).0, 404, "seed {seed}");
        let proxy = Request::connect("example.org:443").body(()).unwrap();
        let mut proxy = client.request(proxy, true);
        assert_eq!(client.wait(&mut world, &mut proxy).0, 501, "seed {seed}");
        assert!(world.network.now() < tiderace_base::Time::ZERO + Span::from_secs(30));
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_refused_head_request_is_answered_without_a_body() {
    for seed in 0..10 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let request = Request::head("http://h/page").header("expect", "nothing");
        let mut refused = client.request(request.body(()).unwrap(), false);
        let found = client.wait(&mut world, &mut refused);
        assert_eq!(found, (417, String::new()), "seed {seed}");
        assert_eq!(refused.over, Some(Ok(())), "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn a_client_that_waits_for_leave_to_send_its_body_gets_it() {
    for seed in 0..20 {
        let mut world = world(seed);
        let mut client = Http2::connect(&world);
        let mut open = ask(&mut world, &mut client, "POST", "/box", "");
        let (_, ticket) = client.wait(&mut world, &mut open);
        world.run_until("the login", |world| world.desk.waiting() == 0);
        world.run_for(Span::from_secs(1));
        let body = "S t\n";
        let request = Request::post(format!("http://h/box?t={ticket}"))
            .header("expect", "100-continue")
            .header("content-length", body.len());
        let mut post = client.request(request.body(()).unwrap(), true);
        client.run(&mut world, &mut post, "leave to send", |it| !it.interim.is_empty());
        assert_eq!((&*post.interim, post.head.is_none()), (&[100][..], true), "seed {seed}");
        post.say(body.as_bytes());
        post.finish();
        let answer = client.wait(&mut world, &mut post);
        assert_eq!(answer, (200, "ok".to_string()), "seed {seed}");
        assert_eq!(post.interim, [100], "seed {seed}");
        stop(world, &mut [&mut client]);
    }
}

#[test]
fn sessions_are_come_back_to_by_streams_of_other_connections() {
    for seed in 0..60 {
        let mut world = world(seed);
        let mut clients: Vec<Http2> = (0..4).map(|_| Http2::connect(&world)).collect();
        let open = |client: &mut Http2| {
            client.request(Request::post("http://h/phx-stream").body(()).unwrap(), true)
        };
        let mut stream = open(&mut clients[0]);
        stream.say(b"PHX 0123456789abcdef ann\nS t\nP t 0\n");
        clients[0].run(&mut world, &mut stream, "a line", |it| it.body.ends_with(b"M 0\n"));
        for at in 1..4 {
            // The old stream, or its connection, goes before or after.
            let mut next = open(&mut clients[at]);
            if seed % 3 == 0 {
                stream.reset();
                clients[at - 1].step(&world);
            }
            next.say(format!("BACK 0123456789abcdef {at}\n").as_bytes());
            clients[at].run(&mut world, &mut next, "an answer", |it| it.body.ends_with(b"\n"));
            let answer = String::from_utf8_lossy(&next.body).into_owned();
            assert_eq!(answer, format!("BACK {}\n", at + 1), "seed {seed}");
            if seed % 3 == 1 {
                world.network.reset(clients[at - 1].client);
            }
            next.say(format!("P t {at}\n").as_bytes());
            let line = format!("M {at}\n");
            clients[at]
                .run(&mut world, &mut next, "a line", |it| it.body.ends_with(line.as_bytes()));
            stream = next;
        }
        let mut clients: Vec<&mut Http2> = clients.iter_mut().collect();
        stop(world, &mut clients);
    }
}

#[test]
fn pages_whose_own_name_leads_here_are_answered_nothing() {
    for seed in 0..8 {
        let options = Options {
            shards: 1 + (seed % 4) as usize,
            hosts: Some(tiderace_reactor::Hosts::new(["board.example".to_owned()])),
            ..Options::default()
        };
        let mut world = World::with(seed, options, |services| {
            services.protocols.extend([postbox_protocol(), phoenix_protocol()]);
        });
        // HTTP/2: requests for pages and sessions, and WebSockets.
        let mut client = Http2::connect(&world);
        let mut asked = vec![client.get("/page"), client.get("/box"), client.websocket("/echo")];
        let named = |host: &str| Request::get(format!("http://{host}/page")).body(()).unwrap();
        asked.push(client.request(named("evil.example:7800"), false));
        for exchange in &mut asked {
            client.run(&mut world, exchange, "an answer", |exchange| exchange.head.is_some());
            assert_eq!(exchange.head.as_ref().unwrap().status(), 421, "seed {seed}");
        }
        for host in ["board.example", "localhost:7800", "127.0.0.1", "[::1]:7800"] {
            let mut page = client.request(named(host), false);
            assert_eq!(client.wait(&mut world, &mut page).0, 200, "seed {seed}: {host}");
        }
        // HTTP/1.1: the same, and the connection goes on.
        let plain = world.network.connect(0);
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
        for (request, more) in
            [("GET /page", ""), ("GET /echo", upgrade), ("POST /box", "Content-Length: 1\r\n")]
        {
            let body = if request.starts_with("POST") { "x" } else { "" };
            let text = format!("{request} HTTP/1.1\r\nHost: evil.example\r\n{more}\r\n{body}");
            let before = world.text(plain).matches("HTTP/1.1 421").count();
            world.network.send(plain, text.as_bytes());
            world.run_until("a refusal", |world| {
                world.text(plain).matches("HTTP/1.1 421").count() > before
            });
        }
        assert!(world.text(plain).contains("`evil.example`"), "the host is named");
        assert!(world.text(plain).contains("server.hosts"), "the option is named");
        world.network.send(plain, b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
        world.run_until("a page", |world| world.text(plain).contains("HTTP/1.1 200"));
        world.network.finish(plain);
        stop(world, &mut [&mut client]);
    }
}
