//! Floods and games over HTTP/2, on simulated networks: each ends by its limit, with the right code,
//! and nobody else notices.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::metric;
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The fields of a GET, never indexed.
fn get(path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x01, 1, b'h', 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block
}

fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(1, 5, stream, &get(path))
}

fn hello() -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, b"")].concat()
}

/// The frames in the bytes: kind, flags, stream, payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while bytes.len() >= 9 {
        let len = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        let Some(payload) = bytes.get(9..9 + len) else { break };
        found.push((bytes[3], bytes[4], stream, payload.to_vec()));
        bytes = &bytes[9 + len..];
    }
    found
}

/// The code of the last GOAWAY.
fn goaway(world: &World, client: Client) -> Option<u32> {
    let frames = frames(&world.network.received(client));
    let last = frames.iter().rfind(|frame| frame.0 == 7)?;
    Some(u32::from_be_bytes(last.3[4..8].try_into().unwrap()))
}

/// Another client, which wants its page whatever happens.
fn served(world: &mut World, when: &str) {
    let client = world.network.connect(0);
    world.network.send(client, b"GET /page HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    world.run_until(when, |world| world.network.is_ended(client));
    assert!(world.text(client).ends_with("GET -"), "seed {}: {when}", world.seed);
}

fn flood(kind: &str, bytes: &[u8], code: u32) {
    for seed in 0..10 {
        let mut world =
            World::new(seed, Options { shards: 1 + seed as usize % 2, ..Options::default() });
        let client = world.network.connect(0);
        world.network.send(client, &[&hello(), bytes].concat());
        served(&mut world, "a page beside the flood");
        world.run_until("the end of the flood", |world| world.network.is_ended(client));
        assert_eq!(goaway(&world, client), Some(code), "seed {seed}: {kind}");
        world.network.finish(client);
        served(&mut world, "a page after the flood");
        world.run_until("the connection's end", |world| world.control.connections() == 0);
        let samples = world.control.metrics();
        let reason = if code == CALM { "http2-flood" } else { "http2-error" };
        assert_eq!(
            metric(&samples, "tiderace_connections_closed_total", &[reason]),
            1,
            "seed {seed}: {kind}"
        );
        if code == CALM && !kind.is_empty() {
            assert_eq!(
                metric(&samples, "tiderace_http2_floods_total", &[kind]),
                1,
                "seed {seed}: {kind}"
            );
        }
        assert_eq!(metric(&samples, "tiderace_http2_streams", &[]), 0, "seed {seed}: {kind}");
        assert_eq!(metric(&samples, "tiderace_write_backlog_bytes", &[]), 0, "seed {seed}: {kind}");
    }
}

const CALM: u32 = 0xB;
const PROTOCOL: u32 = 1;

#[test]
fn streams_begun_and_reset() {
    let bytes: Vec<u8> = (0..2000)
        .flat_map(|at| {
            [request(2 * at + 1, "/large"), frame(3, 0, 2 * at + 1, &8u32.to_be_bytes())].concat()
        })
        .collect();
    flood("resets", &bytes, CALM);
}

#[test]
fn fields_that_do_not_end() {
    let begin = frame(1, 1, 1, &get("/page"));
    flood("continuations", &[begin.clone(), frame(9, 0, 1, b"").repeat(100)].concat(), CALM);
    // Here the codec may be first.
    flood("", &[begin, frame(9, 0, 1, &[0; 16_000]).repeat(100)].concat(), CALM);
}

#[test]
fn settings_and_pings() {
    flood("settings", &frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1000), CALM);
    flood("pings", &frame(6, 0, 0, &[7; 8]).repeat(10_000), CALM);
}

#[test]
fn frames_of_nothing() {
    let begin = frame(1, 4, 1, &[&[0x83][..], &get("/page")[1..]].concat());
    flood("empty-frames", &[begin, frame(0, 0, 1, b"").repeat(1000)].concat(), CALM);
    flood("other-frames", &frame(2, 0, 1, &[0, 0, 0, 0, 1]).repeat(10_000), CALM);
    flood("other-frames", &frame(0xEE, 0, 0, b"x").repeat(10_000), CALM);
}

#[test]
fn windows_opened_by_single_bytes() {
    flood("small-updates", &frame(8, 0, 0, &1u32.to_be_bytes()).repeat(60_000), CALM);
}

#[test]
fn frames_that_make_no_sense() {
    for bytes in [
        // DATA on a stream that never was, HEADERS on an even one, a window that overflows.
        frame(0, 0, 1, b"x"),
        frame(1, 5, 2, &get("/page")),
        frame(5, 4, 1, &[0; 4]),
    ] {
        flood("", &bytes, PROTOCOL);
    }
}

#[test]
fn a_bomb_of_compressed_fields_is_too_large() {
    for seed in 0..10 {
        let mut world = World::new(seed, Options::default());
        let client = world.network.connect(0);
        // One field of 3,000 bytes enters the table and is meant six times more.
        let mut block = get("/page");
        block.extend([0x40, 1, b'x', 0x7F, 0xB9, 0x16]);
        block.extend([b'y'; 127 + 0x39 + 0x16 * 128]);
        block.extend([0xBE; 6]);
        world.network.send(client, &[hello(), frame(1, 5, 1, &block)].concat());
        world.run_until("the answer", |world| {
            let received = world.network.received(client);
            frames(&received).iter().any(|frame| frame.0 == 1 && frame.2 == 1)
        });
        // 431 is no status that HPACK has a number for.
        let received = world.network.received(client);
        let answer = frames(&received).into_iter().find(|frame| frame.0 == 1).unwrap();
        assert!(answer.3.len() < 200, "seed {seed}");
        world.network.send(client, &request(3, "/page"));
        world.run_until("the page", |world| {
            frames(&world.network.received(client)).iter().any(|frame| frame.0 == 0 && frame.2 == 3)
        });
        served(&mut world, "a page after the bomb");
        world.network.finish(client);
        world.run_until("the end", |world| world.control.connections() == 0);
    }
}

#[test]
fn a_larger_bomb_ends_the_connection() {
    let mut block = get("/page");
    block.extend([0x40, 1, b'x', 0x7F, 0xB9, 0x16]);
    block.extend([b'y'; 127 + 0x39 + 0x16 * 128]);
    block.extend([0xBE; 1000]);
    flood("engine", &frame(1, 5, 1, &block), CALM);
}

#[test]
fn a_client_that_takes_nothing_makes_us_keep_little() {
    for seed in 0..10 {
        let mut world = World::new(seed, Options::default());
        let client = world.network.connect(0);
        // No window, and as many requests as streams are allowed.
        let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let requests: Vec<u8> = (0..256).flat_map(|at| request(2 * at + 1, "/large")).collect();
        world.network.send(client, &[PREFACE, &settings, &requests].concat());
        world.run_for(Span::from_secs(5));
        served(&mut world, "a page beside those that wait");
        let waiting = metric(&world.control.metrics(), "tiderace_write_backlog_bytes", &[]);
        assert!((100_000..1_300_000).contains(&waiting), "seed {seed}: {waiting} bytes");
        // A window for one of them lets the next come.
        world.network.send(client, &frame(8, 0, 1, &200_000u32.to_be_bytes()));
        world.run_until("the first page", |world| {
            let received = world.network.received(client);
            let bytes = frames(&received)
                .iter()
                .filter(|it| it.0 == 0 && it.2 == 1)
                .map(|it| it.3.len())
                .sum::<usize>();
            // The connection's window is what it is.
            bytes >= 65_535
        });
        // In the end the timeout passes: the streams are reset.
        world.run_for(Span::from_secs(300));
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_write_backlog_bytes", &[]), 0, "seed {seed}");
        world.network.reset(client);
        world.run_until("the end", |world| world.control.connections() == 0);
    }
}

#[test]
fn half_a_frame_ends_by_its_deadline() {
    for seed in 0..10 {
        for bytes in [
            PREFACE[..10].to_vec(),
            PREFACE.to_vec(),
            [hello(), vec![0, 0]].concat(),
            [hello(), frame(1, 1, 1, &get("/page"))].concat(),
            [hello(), request(1, "/page")].concat(),
        ] {
            let mut world = World::new(seed, Options::default());
            let client = world.network.connect(0);
            world.network.send(client, &bytes);
            world.run_until("the deadline", |world| world.network.is_ended(client));
            assert!(world.network.now() < tiderace_base::Time::ZERO + Span::from_secs(200));
            world.run_until("the end", |world| world.control.connections() == 0);
        }
    }
}

#[test]
fn small_messages_are_no_flood() {
    for seed in 0..10 {
        let mut world = World::new(seed, Options::default());
        let client = world.network.connect(0);
        let post = frame(
            1,
            4,
            1,
            &[&[0x83][..], &[0x86, 0x01, 1, b'h', 0x04, 12], b"/echo-stream"].concat(),
        );
        world.network.send(client, &[hello(), post, frame(0, 0, 1, b"ECHO\n")].concat());
        let mut said = 0;
        for _ in 0..20 {
            let many: Vec<u8> = (0..2000).flat_map(|_| frame(0, 0, 1, b"x")).collect();
            world.network.send(client, &many);
            said += 2000;
            world.run_until("the echo", |world| {
                let received = world.network.received(client);
                assert_eq!(goaway(world, client), None, "seed {seed}");
                frames(&received).iter().filter(|it| it.0 == 0).map(|it| it.3.len()).sum::<usize>()
                    == said
            });
        }
        world.network.reset(client);
        world.run_until("the end", |world| world.control.connections() == 0);
    }
}
