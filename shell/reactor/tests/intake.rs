//! What is dear to read waits for the next turn, and what asks for much waits until that is written: counted
//! is what is compiled in a turn and what waits to be written, not time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;

use crate::common::world::World;
use tiderace_base::Span;
use tiderace_base::limits::{INTAKE_COMPILED_BYTES_MAX, INTAKE_MESSAGES_MAX};
use tiderace_client::Client as Native;
use tiderace_native::codec::Auth;
use tiderace_reactor::Options;
use tiderace_stomp::StompOptions;
use tiderace_topics::compiled_bytes;
use tiderace_websocket::{MessageKind, encode_message};

/// A turn handles input again and reads, each up to a share and the selector with which it is used up.
const TURN_COMPILED_BYTES_MAX: u64 = 4 * INTAKE_COMPILED_BYTES_MAX;

fn world(seed: u64) -> World {
    World::with(seed, Options { shards: 1, ..Options::default() }, |services| {
        let stomp = tiderace_stomp::protocol(Arc::new(StompOptions::default()), Arc::from([]));
        services.protocols.push(stomp);
        let paths = Arc::from(["/tiderace".to_owned()]);
        services.protocols.push(tiderace_native::protocol(Arc::default(), paths));
        services.verifier = Arc::new(common::AtOnce);
    })
}

#[test]
fn dear_selectors_of_many_clients_are_taken_in_over_several_turns() {
    for seed in 0..4 {
        let mut world = world(seed);
        let mut clients = Vec::new();
        for number in 0..10 {
            let client = world.network.connect(0);
            let mut text = "CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,0\n\n\0".to_owned();
            for id in 0..100 {
                let topic = format!("?a/{number}-{id}/(a|b|[c-x]{{6}}){{6}}");
                text +=
                    &format!("SUBSCRIBE\nid:{id}\nreceipt:r{id}\ndestination:/topic/{topic}\n\n\0");
            }
            world.network.send(client, text.as_bytes());
            clients.push(client);
        }
        let (begin, mut most) = (compiled_bytes(), 0);
        let is_done = |world: &World| {
            clients.iter().all(|client| world.text(*client).matches("RECEIPT").count() == 100)
        };
        let mut steps = 0;
        while !is_done(&world) {
            let before = compiled_bytes();
            world.step();
            most = most.max(compiled_bytes() - before);
            steps += 1;
            assert!(steps < 100_000, "{}", world.text(clients[0]));
        }
        let all = compiled_bytes() - begin;
        assert!(all > 4 * TURN_COMPILED_BYTES_MAX, "the test is to take long: {all}");
        assert!(most <= TURN_COMPILED_BYTES_MAX, "one turn compiled {most} of {all} bytes");
    }
}

#[test]
fn a_message_that_asks_for_much_is_taken_in_no_further_than_its_client_reads() {
    let value = "x".repeat(60_000);
    let mut world = world(1);
    let client = world.network.connect(0);
    let head = "GET /tiderace HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    world.network.send(client, head.as_bytes());
    world.run_until("the upgrade", |world| world.text(client).contains("101 Switching"));
    let mut native = Native::new("test");
    let say = |world: &World, bytes: &[u8]| {
        let mut frame = Vec::new();
        encode_message(&mut frame, MessageKind::Binary, bytes, Some([1, 2, 3, 4]));
        world.network.send(client, &frame);
    };
    let mut hello = Vec::new();
    native.connect(Auth::Anonymous, &mut hello);
    say(&world, &hello);
    let mut asked = Vec::new();
    native.operate(
        &format!(r#"{{"do":"update","path":"large","value":"{value}"}}"#),
        None,
        &mut asked,
    );
    say(&world, &asked);
    world.run_until("the value", |world| world.text(client).contains("version"));
    world.network.stall(client, true);
    // One message of the transport that is taken in over many turns.
    let asks = 6 * INTAKE_MESSAGES_MAX;
    let mut asked = Vec::new();
    for _ in 0..asks {
        native.operate(r#"{"do":"fetch","selector":"large","values":true}"#, None, &mut asked);
    }
    native.operate(r#"{"do":"create","path":"last"}"#, None, &mut asked);
    say(&world, &asked);
    let unwritten = |world: &World| {
        common::metric(&world.control.metrics(), "tiderace_write_backlog_bytes", &[])
    };
    world.run_until("answers that wait", |world| unwritten(world) > 0);
    let mut most = 0;
    let end = world.network.now() + Span::from_secs(1);
    while world.network.now() < end {
        world.step();
        most = most.max(unwritten(&world));
    }
    // What one turn takes in: the sixteen that may be under way, and refusals.
    assert!(most < 20 * value.len() as u64, "{most} bytes wait to be written");
    world.network.stall(client, false);
    // It goes on once its client reads, to the end.
    world.run_until("the last answer", |world| world.text(client).contains("existed"));
}
