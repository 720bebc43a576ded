//! What waits for a later turn, or for an answer, is taken in all the same, however much of it there is and
//! whatever its client does meanwhile; and as long as it waits no more is read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;

use crate::common::http2::Http2;
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_base::limits::INTAKE_MESSAGES_MAX;
use tiderace_native::codec::{Auth, ClientMessage, Destination, Hello, Publish};
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_stomp::StompOptions;
use tiderace_topics::compiled_bytes;
use tiderace_websocket::{MessageKind, encode_message};
use tiderace_wire::Kind;

/// The longest frame, and less than one read brings.
const FRAME_BYTES_MAX: usize = 32 * 1024;
const CONNECT: &str = "CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,0\n\n\0";

fn world(seed: u64, shards: usize) -> World {
    let ahead_bytes_max = if seed.is_multiple_of(2) { 4096 } else { 2 * FRAME_BYTES_MAX };
    let options = Options {
        shards,
        ahead_bytes_max,
        unfinished_bytes_max: FRAME_BYTES_MAX,
        ..Options::default()
    };
    World::with(seed, options, |services| {
        let paths = |path: &str| Arc::from([path.to_owned()]);
        let stomp = tiderace_stomp::protocol(Arc::new(StompOptions::default()), paths("/stomp"));
        services.protocols.push(stomp);
        services.protocols.push(tiderace_native::protocol(Arc::default(), paths("/tiderace")));
        services.verifier = Arc::new(common::AtOnce);
    })
}

fn dear_selector(id: usize) -> String {
    format!("?a/{id}/(a|b|[c-x]{{6}}){{6}}")
}

/// Somebody who hears all that is published to `x`.
fn listener(world: &mut World) -> Client {
    let client = world.network.connect(0);
    let text = format!("{CONNECT}SUBSCRIBE\nid:1\nreceipt:r\ndestination:/topic/x\n\n\0");
    world.network.send(client, text.as_bytes());
    world.run_until("the subscription", |world| world.text(client).contains("receipt-id:r"));
    client
}

/// Waits for the last of so many numbers, and asks for all of them in their order.
fn heard(world: &mut World, listener: Client, count: usize) {
    let end = format!("\n\n{}\0", count - 1);
    world.run_until(&end, |world| world.network.received(listener).ends_with(end.as_bytes()));
    let text = world.text(listener);
    let numbers = text.split('\0').filter_map(|frame| frame.split("\n\n").nth(1)?.parse().ok());
    let expected: Vec<usize> = (0..count).collect();
    assert_eq!(numbers.collect::<Vec<usize>>(), expected, "seed {}", world.seed);
}

/// Messages of a WebSocket that hold so many each.
fn publications(messages: usize, each: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    let auth = Auth::Anonymous;
    let hello = Hello {
        version: 1,
        auth,
        codecs: Vec::new(),
        client: "test",
        position: b"",
        host: None,
        edge: None,
    };
    let mut message = Vec::new();
    ClientMessage::Hello(hello).write(&mut message);
    encode_message(&mut wire, MessageKind::Binary, &message, Some([1, 2, 3, 4]));
    for first in (0..messages * each).step_by(each) {
        message.clear();
        for number in first..first + each {
            let body = number.to_string();
            let publish = Publish {
                request: 0,
                flags: 0,
                destination: Destination::Path(Kind::Topic, "x"),
                expires_ms: None,
                properties: b"",
                body: body.as_bytes(),
            };
            ClientMessage::Publish(publish).write(&mut message);
        }
        encode_message(&mut wire, MessageKind::Binary, &message, Some([1, 2, 3, 4]));
    }
    wire
}

#[test]
fn many_messages_in_a_few_are_all_taken_in_also_of_a_client_that_is_gone() {
    const EACH: usize = 2 * INTAKE_MESSAGES_MAX + 7;
    let head = "GET /tiderace HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
        Sec-WebSocket-Protocol: tiderace.v1\r\n\r\n";
    for seed in 0..12 {
        let mut world = world(seed, 1 + (seed % 3) as usize);
        let listener = listener(&mut world);
        let client = world.network.connect(0);
        let wire = [head.as_bytes(), &publications(8, EACH)].concat();
        world.network.send(client, &wire);
        world.network.finish(client);
        heard(&mut world, listener, 8 * EACH);
    }
}

#[test]
fn many_messages_in_a_few_are_all_taken_in_by_http2() {
    const EACH: usize = 2 * INTAKE_MESSAGES_MAX + 7;
    for seed in 0..12 {
        let mut world = world(seed, 1 + (seed % 3) as usize);
        let listener = listener(&mut world);
        let mut client = Http2::connect(&world);
        world.run_until("settings", |world| {
            client.step(world);
            client.has_websockets()
        });
        let mut socket = client.websocket("/tiderace");
        socket.say(&publications(8, EACH));
        socket.finish();
        world.run_until("all to be sent", |world| {
            client.step(world);
            socket.step();
            client.step(world);
            socket.unsent() == 0
        });
        world.network.finish(client.client);
        heard(&mut world, listener, 8 * EACH);
    }
}

/// So many selectors, which take many turns, and ten numbers behind each of them, in messages of about so many bytes.
fn dear_publications(selectors: usize, bytes: usize) -> String {
    let mut text = CONNECT.to_owned();
    let padding = "x".repeat(bytes);
    for number in 0..selectors {
        let topic = dear_selector(number);
        text += &format!("SUBSCRIBE\nid:{number}\ndestination:/topic/{topic}\n\n\0");
        for number in 10 * number..10 * (number + 1) {
            text += &format!("SEND\ndestination:/topic/x\np:{padding}\n\n{number}\0");
        }
    }
    text
}

#[test]
fn what_waits_behind_dear_selectors_is_taken_in_also_of_a_client_that_is_gone() {
    let head = "GET /stomp HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
        Sec-WebSocket-Protocol: v12.stomp\r\n\r\n";
    for seed in 0..12 {
        for framed in [0, 1_000, 20_000] {
            let mut world = world(seed, 1 + (seed % 3) as usize);
            let listener = listener(&mut world);
            let client = world.network.connect(0);
            let text = dear_publications(100, 60);
            let (connect, behind) = text.split_at(CONNECT.len());
            let mut wire = Vec::new();
            if framed == 0 {
                wire.extend_from_slice(text.as_bytes());
            } else {
                wire.extend_from_slice(head.as_bytes());
                let parts = behind.as_bytes().chunks(framed);
                for part in [connect.as_bytes()].into_iter().chain(parts) {
                    encode_message(&mut wire, MessageKind::Binary, part, Some([1, 2, 3, 4]));
                }
            }
            world.network.send(client, &wire);
            world.network.finish(client);
            heard(&mut world, listener, 1_000);
        }
    }
}

#[test]
fn who_has_had_its_share_is_not_read_on() {
    let text = dear_publications(800, 200);
    for seed in 0..4 {
        let mut world = world(seed, 1);
        let client = world.network.connect(0);
        world.network.send(client, text.as_bytes());
        let (begin, mut steps) = (compiled_bytes(), Vec::new());
        world.run_until("all to be read", |world| {
            steps.push((world.network.taken(client), compiled_bytes() - begin));
            world.network.taken(client) == text.len()
        });
        world.run_for(Span::from_secs(1));
        let all = compiled_bytes() - begin;
        let read_ahead = |(taken, compiled): &(usize, u64)| {
            taken.saturating_sub((compiled * text.len() as u64 / all) as usize)
        };
        let most = steps.iter().map(read_ahead).max().unwrap();
        assert!(most < 600_000, "seed {seed}: {most} bytes are ahead");
    }
}

#[test]
fn who_waits_for_receipts_is_read_on_when_they_have_come() {
    const COUNT: usize = 40_000;
    for seed in 0..6 {
        let mut world = world(seed, 2);
        let listener = listener(&mut world);
        // Confirmations come late, if this is the home.
        world.starved = Some((seed % 2) as usize);
        let client = world.network.connect(0);
        let mut text = CONNECT.to_owned();
        for number in 0..COUNT {
            text += &format!("SEND\nreceipt:{number}\ndestination:/topic/x\n\n{number}\0");
        }
        world.network.send(client, text.as_bytes());
        world.network.finish(client);
        heard(&mut world, listener, COUNT);
    }
}
