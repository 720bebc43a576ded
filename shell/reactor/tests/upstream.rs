//! Connections to other servers on simulated networks: whatever the other side does or does not do, the upstream is
//! reached again, what was wrong is said, and nothing leaves unmasked.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::metric;
use crate::common::upstream::{Seen, trusting, upstream};
use crate::common::world::World;
use tiderace_base::{Span, Time};
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{NodeControl, Options, UpstreamOptions, UpstreamState, UpstreamStatus};
use tiderace_websocket::handshake::accept_key;
use tiderace_websocket::{
    Decoder, Event, Limits, MessageKind, Opcode, Role, encode_close, encode_message,
    write_frame_header,
};

const NAMES: &[&str] = &["tiderace.v1"];
const URL: &str = "ws://10.0.0.9:7800";

/// A node with that upstream alone.
fn world(seed: u64, upstream: UpstreamOptions) -> World {
    let options = Options { upstreams: vec![upstream], ..Options::default() };
    World::new(seed, options)
}

/// A node whose upstream is at [`URL`] and is greeted with `hi`; established by two bytes.
fn plain(seed: u64) -> (World, Arc<Seen>) {
    let (upstream, seen) = upstream(&[URL], NAMES, &[b"hi"], 2);
    (world(seed, upstream), seen)
}

fn status(control: &NodeControl) -> UpstreamStatus {
    control.upstreams().remove(0)
}

fn error(world: &World) -> String {
    status(&world.control).last_error.unwrap_or_default()
}

/// The next connection that is begun, and to where.
fn dialled(world: &mut World) -> (Client, SocketAddr) {
    let mut found = Vec::new();
    world.run_until("an attempt", |world| {
        found.extend(world.network.dialled());
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "one at a time");
    found.remove(0)
}

/// The same, taken, and the request for a WebSocket that has come by it.
fn asked(world: &mut World) -> (Client, String) {
    let (client, _) = dialled(world);
    world.network.take(client);
    world.run_until("the request", |world| world.text(client).contains("\r\n\r\n"));
    let request = world.text(client);
    (client, request)
}

/// The answer that opens a WebSocket.
fn answer(request: &str) -> String {
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = String::from_utf8(accept_key(key.as_bytes()).to_vec()).unwrap();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: tiderace.v1\r\n\r\n"
    )
}

fn wait_for(world: &mut World, state: UpstreamState) {
    world.run_until(state.name(), |world| status(&world.control).state == state);
}

/// An upstream that is connected.
fn connected(world: &mut World) -> (Client, usize) {
    let (client, request) = asked(world);
    world.network.send(client, answer(&request).as_bytes());
    let mut welcome = Vec::new();
    encode_message(&mut welcome, MessageKind::Binary, b"ok", None);
    world.network.send(client, &welcome);
    wait_for(world, UpstreamState::Connected);
    (client, request.len())
}

/// What a server reads of the frames that have come behind the request.
fn frames(world: &World, client: Client, request: usize) -> Vec<String> {
    let mut bytes = world.network.received(client).split_off(request);
    let (mut decoder, mut seen) = (Decoder::new(Role::Server), Vec::new());
    loop {
        let decoded = decoder.decode(&Limits::default(), &mut bytes).unwrap();
        let consumed = decoded.consumed;
        match decoded.event {
            Event::Incomplete { .. } => return seen,
            Event::Message { payload, .. } => {
                seen.push(String::from_utf8(payload.to_vec()).unwrap())
            }
            Event::Close { code, .. } => seen.push(format!("close {code:?}")),
            other => seen.push(format!("{other:?}")),
        }
        bytes.drain(..consumed);
    }
}

fn stop(mut world: World) {
    world.control.shutdown(Span::from_secs(5));
    world.run_until("the end", World::is_over);
    let samples = world.control.metrics();
    for gauge in ["tiderace_tls_connections", "tiderace_write_backlog_bytes"] {
        assert_eq!(metric(&samples, gauge, &[]), 0, "seed {}: {gauge}", world.seed);
    }
    // Nobody has come: neither beginning nor end counts among those of clients.
    assert_eq!(metric(&samples, "tiderace_connections_opened_total", &[]), 0);
    let closed = samples.iter().filter(|it| it.row.name == "tiderace_connections_closed_total");
    assert!(closed.map(|it| &it.value).all(|it| *it == tiderace_base::SampleValue::Number(0)));
    let open = samples.iter().filter(|it| it.row.name == "tiderace_connections");
    assert!(open.map(|it| &it.value).all(|it| *it == tiderace_base::SampleValue::Number(0)));
    assert_eq!(status(&world.control).state, UpstreamState::Stopped);
}

#[test]
fn a_session_is_carried_and_every_byte_is_masked() {
    for seed in 0..30 {
        let (mut world, seen) = plain(seed);
        let (client, request) = asked(&mut world);
        for line in [
            "GET /tiderace HTTP/1.1",
            "Host: 10.0.0.9:7800",
            "Sec-WebSocket-Protocol: tiderace.v1",
            "Sec-WebSocket-Version: 13",
        ] {
            assert!(request.contains(line), "{line}: {request}");
        }
        assert_eq!(status(&world.control).state, UpstreamState::Upgrading);
        assert_eq!(seen.opened(), 0, "no session before the answer");
        // What is to be heard comes with the answer.
        let mut wire = answer(&request).into_bytes();
        encode_message(&mut wire, MessageKind::Binary, b"ok", None);
        world.network.send(client, &wire);
        wait_for(&mut world, UpstreamState::Connected);
        let now = status(&world.control);
        assert_eq!((now.attempts, now.failures, now.last_error), (1, 0, None));
        assert_eq!(now.address, Some("10.0.0.9:7800".parse().unwrap()));
        assert_eq!(
            (seen.opened(), seen.logged_in.load(std::sync::atomic::Ordering::SeqCst)),
            (1, 1)
        );
        // Nothing is said for a while: a ping asks for it, and is answered.
        world.run_for(Span::from_secs(75));
        let mut wire = Vec::new();
        tiderace_websocket::encode_ping(&mut wire, b"there?", None);
        world.network.send(client, &wire);
        world.run_until("the pong", |world| frames(world, client, request.len()).len() >= 3);
        let heard = frames(&world, client, request.len());
        assert_eq!(heard[..2], ["hi".to_owned(), "Ping([])".to_owned()], "seed {seed}");
        assert_eq!(heard[2], format!("Pong({:?})", b"there?"), "seed {seed}");
        world.control.shutdown(Span::from_secs(5));
        world.run_until("the goodbye", |world| world.network.is_ended(client));
        let heard = frames(&world, client, request.len());
        assert_eq!(heard[3..], ["BYE".to_owned(), "close Some(1012)".to_owned()], "seed {seed}");
        assert_eq!(seen.closed(), 1);
        stop(world);
    }
}

#[test]
fn refused_connections_are_tried_again_with_waits_that_grow() {
    for seed in 0..10 {
        let (mut world, seen) = plain(seed);
        let mut times: Vec<Time> = Vec::new();
        while times.len() < 40 {
            let (client, address) = dialled(&mut world);
            assert_eq!(address, "10.0.0.9:7800".parse().unwrap());
            times.push(world.network.now());
            world.network.refuse(client);
            wait_for(&mut world, UpstreamState::Waiting);
        }
        assert!(error(&world).contains("refuses connections"), "{}", error(&world));
        let waits: Vec<Span> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(waits.iter().all(|wait| *wait < Span::from_secs(3)), "{waits:?}");
        // Two seconds at most, half of that on average.
        let late: Span = waits[10..].iter().sum();
        assert!((18..48).contains(&late.as_secs()), "{late:?}");
        let early: Span = waits[..3].iter().sum();
        assert!(early < Span::from_secs(2), "{early:?}");
        let now = status(&world.control);
        assert_eq!((now.attempts, now.failures), (40, 40));
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_upstream_attempts_total", &["london"]), 40);
        assert_eq!(metric(&samples, "tiderace_upstream_failures_total", &["london"]), 40);
        assert_eq!(metric(&samples, "tiderace_upstream_state", &["london", "waiting"]), 1);
        assert_eq!(metric(&samples, "tiderace_upstream_state", &["london", "connected"]), 0);
        assert_eq!(seen.opened(), 0);
        drop(samples);
        stop(world);
    }
}

#[test]
fn addresses_are_tried_in_turn_and_names_with_all_that_they_have() {
    for seed in 0..10 {
        let (upstream, _) = upstream(&["ws://10.0.0.1:1", "ws://source:2"], NAMES, &[b"hi"], 2);
        let mut world = world(seed, upstream);
        let of_name: [SocketAddr; 2] =
            ["[2001:db8::1]:2".parse().unwrap(), "10.0.0.2:2".parse().unwrap()];
        world.network.set_name("source", Some(of_name.to_vec()));
        let mut seen = Vec::new();
        for _ in 0..6 {
            let (client, address) = dialled(&mut world);
            seen.push(address);
            world.network.refuse(client);
            world.run_for(Span::from_nanos(1));
        }
        let first: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let start = seen.iter().position(|it| *it == first).unwrap();
        assert!(start == 0 || start == 2, "{seen:?}");
        let round = [&[first], &of_name[..]].concat();
        let expected: Vec<_> = round.iter().cycle().skip(3 - start).take(6).copied().collect();
        assert_eq!(seen, expected, "seed {seed}");
        stop(world);
    }
}

#[test]
fn what_takes_too_long_is_given_up_at_each_stage() {
    let stages = [
        (UpstreamState::Resolving, "ws://silent:7800", 10),
        (UpstreamState::Connecting, URL, 5),
        (UpstreamState::Securing, "wss://10.0.0.9:7800", 10),
        (UpstreamState::Upgrading, URL, 10),
        (UpstreamState::LoggingIn, URL, 10),
    ];
    for (seed, (stage, url, seconds)) in (0u64..).zip(stages) {
        let (mut upstream, seen) = upstream(&[url], NAMES, &[b"hi"], 2);
        upstream.tls = Some(trusting(&pem(), || 1_800_000_000));
        let mut world = world(seed, upstream);
        world.network.set_name("silent", None);
        match stage {
            UpstreamState::Resolving => {}
            UpstreamState::Upgrading => drop(asked(&mut world)),
            UpstreamState::LoggingIn => {
                let (client, request) = asked(&mut world);
                world.network.send(client, answer(&request).as_bytes());
            }
            _ => {
                let (client, _) = dialled(&mut world);
                if stage == UpstreamState::Securing {
                    world.network.take(client);
                }
            }
        }
        wait_for(&mut world, stage);
        let begun = world.network.now();
        wait_for(&mut world, UpstreamState::Waiting);
        let waited = world.network.now().since(begun);
        let bounds = Span::from_secs(seconds - 1)..Span::from_secs(seconds + 1);
        assert!(bounds.contains(&waited), "{stage:?}: {waited:?}");
        let expected = match stage {
            UpstreamState::LoggingIn => "did not answer the login".to_owned(),
            _ => format!("within {seconds} seconds"),
        };
        assert!(error(&world).contains(&expected), "{stage:?}: {}", error(&world));
        assert_eq!(seen.opened(), usize::from(stage == UpstreamState::LoggingIn));
        assert_eq!(seen.closed(), seen.opened());
        stop(world);
    }
}

fn pem() -> String {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
}

#[test]
fn who_hangs_up_amid_a_handshake_is_told_apart() {
    let stages = [
        (UpstreamState::Connecting, "wss://10.0.0.9:7800", "cannot connect to 10.0.0.9:7800"),
        (UpstreamState::Securing, "wss://10.0.0.9:7800", "does that port speak it? ws://"),
        (UpstreamState::Upgrading, URL, "wss://"),
        (UpstreamState::LoggingIn, URL, "before the login was answered"),
    ];
    for (seed, (stage, url, words)) in (0u64..40).zip(stages.iter().cycle()) {
        let (mut upstream, seen) = upstream(&[url], NAMES, &[b"hi"], 2);
        upstream.tls = Some(trusting(&pem(), || 1_800_000_000));
        let mut world = world(seed, upstream);
        let client = match stage {
            UpstreamState::Connecting => dialled(&mut world).0,
            UpstreamState::Securing => {
                let (client, _) = dialled(&mut world);
                world.network.take(client);
                client
            }
            _ => {
                let (client, request) = asked(&mut world);
                if *stage == UpstreamState::LoggingIn {
                    world.network.send(client, answer(&request).as_bytes());
                }
                client
            }
        };
        wait_for(&mut world, *stage);
        if seed % 8 < 4 || *stage == UpstreamState::Connecting {
            world.network.reset(client);
        } else {
            world.network.finish(client);
        }
        wait_for(&mut world, UpstreamState::Waiting);
        assert!(error(&world).contains(words), "seed {seed} {stage:?}: {}", error(&world));
        assert_eq!(seen.closed(), usize::from(*stage == UpstreamState::LoggingIn));
        stop(world);
    }
}

#[test]
fn fragments_become_messages_and_what_is_too_large_is_refused() {
    for seed in 0..20 {
        let (mut world, seen) = plain(seed);
        let (client, request) = connected(&mut world);
        let payload: Vec<u8> = (0..300_000u32).map(|at| (at * 7 / 13) as u8).collect();
        let mut wire = Vec::new();
        // No more than a thousand.
        let pieces: Vec<&[u8]> = payload.chunks(300 + world.network.random(100_000)).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let opcode = if index == 0 { Opcode::Binary } else { Opcode::Continuation };
            write_frame_header(&mut wire, index + 1 == pieces.len(), opcode, piece.len(), None);
            wire.extend_from_slice(piece);
        }
        world.network.send(client, &wire);
        world.run_until("all of it", |_| seen.heard().len() >= payload.len() + 2);
        assert!(seen.heard()[2..] == payload, "seed {seed}");
        assert_eq!(status(&world.control).away_since_ms, None);
        wire.clear();
        write_frame_header(&mut wire, true, Opcode::Binary, (1 << 20) + 1, None);
        world.network.send(client, &wire);
        world.run_until("the end", |world| world.network.is_ended(client));
        let heard = frames(&world, client, request);
        assert_eq!(heard.last().unwrap(), "close Some(1009)", "{heard:?}");
        assert!(error(&world).contains("larger than the limit"), "{}", error(&world));
        assert!(status(&world.control).away_since_ms.is_some());
        stop(world);
    }
}

#[test]
fn upstreams_that_cannot_be_used_are_refused_at_the_start() {
    let network = tiderace_reactor::driver::sim::Network::new(1, 1);
    let refused = |upstreams: Vec<UpstreamOptions>| {
        let services = crate::common::services(Arc::new(crate::common::AtOnce));
        let options = Options { upstreams, ..Options::default() };
        tiderace_reactor::simulate(&network, options, services).map(drop).unwrap_err().to_string()
    };
    let one = |urls: &[&str]| upstream(urls, NAMES, &[], 0).0;
    let elsewhere = UpstreamOptions { shard: tiderace_base::ShardId(1), ..one(&[URL]) };
    for (upstreams, words) in [
        (vec![one(&[])], "\"london\" cannot be used: it has no address"),
        (vec![one(&[URL, "wss://source"])], "wss://source needs authorities"),
        (vec![elsewhere], "there is no shard 1"),
        (vec![one(&[URL]), one(&[URL])], "another one has that name"),
    ] {
        let error = refused(upstreams);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_name_that_is_not_known_is_asked_for_again() {
    let (upstream, _) = upstream(&["ws://source:7800"], NAMES, &[b"hi"], 2);
    let mut world = world(1, upstream);
    world.run_until("the failure", |world| status(&world.control).failures >= 3);
    assert!(error(&world).contains("source cannot be resolved"), "{}", error(&world));
    world.network.set_name("source", Some(Vec::new()));
    let before = status(&world.control).failures;
    world.run_until("the failure", |world| status(&world.control).failures > before + 1);
    assert!(error(&world).contains("source cannot be resolved"), "{}", error(&world));
    world.network.set_name("source", Some(vec!["10.0.0.9:7800".parse().unwrap()]));
    connected(&mut world);
    stop(world);
}

#[test]
fn an_answer_that_opens_no_websocket_says_what_to_do() {
    let wrong_key = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let other_name = |request: &str| answer(request).replace("tiderace.v1", "v12.stomp");
    let no_name =
        |request: &str| answer(request).replace("Sec-WebSocket-Protocol: tiderace.v1\r\n", "");
    let extended = |request: &str| {
        answer(request).replace("Upgrade\r\n", "Upgrade\r\nSec-WebSocket-Extensions: x\r\n")
    };
    let status_of = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nno!\n");
    type Answer<'a> = Box<dyn Fn(&str) -> String + 'a>;
    let cases: Vec<(Answer<'_>, &str)> = vec![
        (
            Box::new(|_| status_of("401 Unauthorized")),
            "status 401 instead of 101: something in front",
        ),
        (Box::new(|_| status_of("403 Forbidden")), "does not let this machine in"),
        (Box::new(|_| status_of("404 Not Found")), "nothing listens on that path"),
        (Box::new(|_| status_of("400 Bad Request")), "wss://"),
        (Box::new(|_| status_of("503 Service Unavailable")), "too much to do"),
        (Box::new(|_| status_of("301 Moved")), "points elsewhere"),
        (Box::new(|_| wrong_key.to_owned()), "does not match the key sent"),
        (Box::new(other_name), "a subprotocol that was not offered"),
        (Box::new(no_name), "does not speak tiderace.v1"),
        (Box::new(extended), "an extension that was not offered"),
        (Box::new(|_| "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned()), "not a well-formed HTTP/1.1"),
        (Box::new(|_| "x".repeat(20_000)), "head is too long"),
    ];
    for (seed, (answer, words)) in (0u64..).zip(&cases) {
        let (mut world, seen) = plain(seed);
        let (client, request) = asked(&mut world);
        world.network.send(client, answer(&request).as_bytes());
        wait_for(&mut world, UpstreamState::Waiting);
        assert!(error(&world).contains(words), "{words}: {}", error(&world));
        assert_eq!(seen.opened(), 0);
        world.run_until("its end", |world| world.network.is_ended(client));
        connected(&mut world);
        assert_eq!(status(&world.control).failures, 1);
        stop(world);
    }
}

#[test]
fn a_server_that_leaves_is_come_back_to_with_a_new_session() {
    for seed in 0..20 {
        let (mut world, seen) = plain(seed);
        for round in 1..=4 {
            let (client, request) = connected(&mut world);
            assert_eq!((seen.opened(), seen.closed()), (round, round - 1));
            world.run_for(Span::from_secs(world.network.random(25) as u64));
            let expected = match world.network.random(3) {
                0 => {
                    world.network.reset(client);
                    "without a word"
                }
                1 => {
                    world.network.finish(client);
                    "without a word"
                }
                _ => {
                    let mut close = Vec::new();
                    encode_close(&mut close, Some(1012), "back in a minute", None);
                    world.network.send(client, &close);
                    "with code 1012: back in a minute"
                }
            };
            let failures = status(&world.control).failures;
            world.run_until("the loss", |world| status(&world.control).failures > failures);
            assert!(error(&world).contains(expected), "{}", error(&world));
            assert_eq!(seen.closed(), round, "its session has ended");
            if expected.contains("1012") {
                world.run_until("its end", |world| world.network.is_ended(client));
                let last = frames(&world, client, request).pop();
                assert_eq!(
                    last.as_deref(),
                    Some("close Some(1012)"),
                    "the code comes back, masked"
                );
            }
        }
        stop(world);
    }
}

#[test]
fn who_takes_connections_and_ends_them_is_not_asked_more_often() {
    let (mut world, seen) = plain(7);
    let begun = world.network.now();
    for _ in 0..30 {
        let (client, _) = connected(&mut world);
        world.network.reset(client);
        world.run_until("the loss", |world| status(&world.control).state == UpstreamState::Waiting);
    }
    let short = world.network.now().since(begun);
    assert!(short > Span::from_secs(12), "{short:?}");
    assert_eq!(seen.opened(), 30);
    // One that lasts ends that.
    let (client, _) = connected(&mut world);
    world.run_for(Span::from_secs(11));
    let begun = world.network.now();
    world.network.reset(client);
    dialled(&mut world);
    assert!(world.network.now().since(begun) < Span::from_millis(200));
    stop(world);
}

#[test]
fn a_server_that_masks_is_told_so() {
    let (mut world, seen) = plain(3);
    let (client, request) = connected(&mut world);
    let mut wire = Vec::new();
    encode_message(&mut wire, MessageKind::Binary, b"psst", Some([1, 2, 3, 4]));
    world.network.send(client, &wire);
    world.run_until("the end", |world| world.network.is_ended(client));
    let heard = frames(&world, client, request);
    assert_eq!(heard.last().unwrap(), "close Some(1002)", "{heard:?}");
    assert!(error(&world).contains("must not be masked"), "{}", error(&world));
    assert_eq!((seen.heard(), seen.closed()), (b"ok".to_vec(), 1));
    stop(world);
}

#[test]
fn a_node_that_stops_lets_go_at_every_stage() {
    for seed in 0..40 {
        let (mut world, _) = plain(seed);
        match seed % 4 {
            0 => {}
            1 => drop(dialled(&mut world)),
            2 => drop(asked(&mut world)),
            _ => {
                let (client, _) = dialled(&mut world);
                world.network.refuse(client);
                wait_for(&mut world, UpstreamState::Waiting);
            }
        }
        stop(world);
    }
}
