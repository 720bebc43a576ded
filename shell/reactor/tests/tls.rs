//! Secured connections on simulated networks: whatever arrives when, and however it is split, plain
//! bytes come in order, and what is no TLS ends by itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::metric;
use crate::common::phoenix::phoenix_protocol;
use crate::common::tls::{Secured, certified};
use crate::common::world::World;
use rustls::ClientConfig;
use tiderace_base::Span;
use tiderace_reactor::{Options, Placement};
use tiderace_tls::Version;

fn world(seed: u64) -> (World, Arc<ClientConfig>) {
    let (settings, config) = certified(Version::Tls12);
    let options = Options {
        shards: 1 + (seed % 4) as usize,
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        tls: Some(settings),
        ..Options::default()
    };
    (World::new(seed, options), config)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Runs until the condition holds, and the clients with it.
fn run(
    world: &mut World,
    clients: &mut [Secured],
    what: &str,
    mut done: impl FnMut(&World, &mut [Secured]) -> bool,
) {
    world.run_until(what, |world| {
        for client in clients.iter_mut() {
            client.pump(world);
        }
        done(world, clients)
    });
}

fn stop(world: &mut World) {
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    let samples = world.control.metrics();
    for gauge in ["tiderace_tls_connections", "tiderace_write_backlog_bytes"] {
        assert_eq!(metric(&samples, gauge, &[]), 0, "seed {}: {gauge}", world.seed);
    }
    let opened = metric(&samples, "tiderace_connections_opened_total", &[]);
    let closed = samples.iter().filter(|s| s.row.name == "tiderace_connections_closed_total");
    let closed: u64 = closed.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum();
    assert_eq!(opened, closed, "seed {}: each connection ends once", world.seed);
}

fn failures(world: &World, reason: &str) -> u64 {
    metric(&world.control.metrics(), "tiderace_tls_failures_total", &[reason])
}

fn handshakes(world: &World) -> u64 {
    let samples = world.control.metrics();
    let all = samples.iter().filter(|s| s.row.name == "tiderace_tls_handshakes_total");
    all.map(|s| metric(std::slice::from_ref(s), s.row.name, &s.labels)).sum()
}

#[test]
fn every_byte_comes_back_in_order() {
    for seed in 0..60 {
        let (mut world, config) = world(seed);
        let mut sent = Vec::new();
        let mut clients: Vec<Secured> = (0..1 + world.network.random(4))
            .map(|index| {
                let mut client = Secured::connect(&world, &config);
                let len = 1 << world.network.random(19);
                let bytes = noise(seed * 100 + index as u64, world.network.random(len) + 1);
                client.send(b"ECHO\n");
                client.send(&bytes);
                sent.push(bytes);
                client
            })
            .collect();
        run(&mut world, &mut clients, "the echo", |_, clients| {
            clients.iter().zip(&sent).all(|(client, bytes)| client.received.len() >= bytes.len())
        });
        for (client, bytes) in clients.iter().zip(&sent) {
            assert!(client.received == *bytes, "seed {seed}: bytes differ");
        }
        assert_eq!(handshakes(&world), clients.len() as u64, "seed {seed}");
        world.control.shutdown(Span::from_secs(20));
        run(&mut world, &mut clients, "the goodbye", |world, _| world.is_over());
        for client in &mut clients {
            client.pull(&world);
            assert!(client.received.ends_with(b"\nBYE shutting-down\n"), "seed {seed}");
            let state = client.connection.process_new_packets().unwrap();
            assert!(state.peer_has_closed(), "seed {seed}: close_notify came");
        }
        stop(&mut world);
    }
}

#[test]
fn a_client_that_says_it_sends_no_more_gets_everything() {
    for seed in 0..40 {
        let (mut world, config) = world(seed);
        let mut client = [Secured::connect(&world, &config)];
        let bytes = noise(seed, 1 + world.network.random(300_000));
        client[0].send(b"ECHO\n");
        client[0].send(&bytes);
        run(&mut world, &mut client, "the handshake", |_, clients| {
            !clients[0].connection.is_handshaking()
        });
        client[0].connection.send_close_notify();
        run(&mut world, &mut client, "the end", |world, clients| {
            world.network.is_ended(clients[0].client)
        });
        client[0].pull(&world);
        assert!(client[0].received == bytes, "seed {seed}");
        world.run_until("nobody", |world| world.control.connections() == 0);
        stop(&mut world);
    }
}

#[test]
fn a_handshake_may_be_cut_at_every_byte() {
    let (mut world, config) = world(1);
    let mut probe = Secured::connect(&world, &config);
    let hello = probe.pull(&world);
    world.network.finish(probe.client);
    for cut in 1..hello.len() {
        let mut client = Secured::connect(&world, &config);
        let hello = client.pull(&world);
        world.network.send(client.client, &hello[..cut.min(hello.len())]);
        if cut % 2 == 0 {
            world.network.finish(client.client);
        } else {
            world.network.reset(client.client);
        }
    }
    let opened =
        |world: &World| metric(&world.control.metrics(), "tiderace_connections_opened_total", &[]);
    let all = hello.len() as u64;
    world.run_until("all", |world| opened(world) == all);
    world.run_until("nobody", |world| world.control.connections() == 0);
    assert_eq!(handshakes(&world), 0);
    let (gone, cuts) = (failures(&world, "gone"), (hello.len() - 1) as u64 / 2);
    assert!(gone >= cuts, "{gone} of {cuts}");
    // A client whose bytes come in pieces, with time between them, gets in.
    let mut client = Secured::connect(&world, &config);
    client.send(b"ECHO\nhello");
    world.run_until("the echo", |world| {
        for byte in client.pull(world) {
            world.network.send(client.client, &[byte]);
        }
        client.received == b"hello"
    });
    stop(&mut world);
}

#[test]
fn a_slow_handshake_ends_by_its_deadline() {
    let (mut world, config) = world(2);
    let mut client = Secured::connect(&world, &config);
    let hello = client.pull(&world);
    let mut bytes = hello.iter();
    for _ in 0..30 {
        if let Some(byte) = bytes.next() {
            world.network.send(client.client, &[*byte]);
        }
        world.run_for(Span::from_millis(500));
    }
    world.run_until("the end", |world| world.control.connections() == 0);
    let samples = world.control.metrics();
    let closed = "tiderace_connections_closed_total";
    assert_eq!(metric(&samples, closed, &["tls-timeout"]), 1);
    assert_eq!(failures(&world, "timeout"), 1);
    // Silence behind a handshake is silence before a protocol.
    let mut silent = [Secured::connect(&world, &config)];
    run(&mut world, &mut silent, "the end", |world, clients| {
        world.network.is_ended(clients[0].client)
    });
    assert_eq!(metric(&world.control.metrics(), closed, &["first-byte-timeout"]), 1);
    stop(&mut world);
}

#[test]
fn what_is_no_tls_ends_with_an_alert() {
    for seed in 0..100 {
        let (mut world, config) = world(seed);
        let mut client = Secured::connect(&world, &config);
        let with_hello = seed % 2 == 0;
        let mut bytes = if with_hello { client.pull(&world) } else { vec![0x16] };
        bytes.extend(noise(seed, 1 + world.network.random(70_000)));
        world.network.send(client.client, &bytes);
        world.run_until("the end", |world| world.network.is_ended(client.client));
        client.pull(&world);
        if with_hello {
            let said = matches!(client.error, Some(rustls::Error::AlertReceived(_)));
            assert!(said, "seed {seed}: {:?}", client.error);
        }
        stop(&mut world);
    }
}

#[test]
fn an_address_has_a_limit_of_handshakes_under_way() {
    let (settings, config) = certified(Version::Tls13);
    let options =
        Options { tls: Some(settings), handshakes_per_address_max: 2, ..Options::default() };
    let mut world = World::new(3, options);
    // Four clients of the simulator come from one address.
    let clients: Vec<_> = (0..4).map(|_| world.network.connect(0)).collect();
    for client in &clients {
        world.network.send(*client, &[0x16, 3, 1]);
    }
    world.run_for(Span::from_secs(2));
    assert_eq!(failures(&world, "too-many"), 2);
    world.run_until("the deadline", |world| world.control.connections() == 0);
    assert_eq!(failures(&world, "timeout"), 2);
    // The address may come again.
    let mut client = [Secured::connect(&world, &config)];
    client[0].send(b"ECHO\nhello");
    run(&mut world, &mut client, "the echo", |_, clients| clients[0].received == b"hello");
    stop(&mut world);
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let (mut world, config) = world(5);
    let mut client = [Secured::connect(&world, &config)];
    client[0].send(b"ECHO\n");
    run(&mut world, &mut client, "the handshake", |_, clients| {
        !clients[0].connection.is_handshaking()
    });
    world.network.stall(client[0].client, true);
    let bytes = noise(5, 4_000_000);
    client[0].send(&bytes);
    client[0].pump(&world);
    world.run_for(Span::from_secs(5));
    let read = metric(&world.control.metrics(), "tiderace_bytes_received_total", &[]);
    assert!(read < 2_000_000, "{read} bytes were read");
    world.network.stall(client[0].client, false);
    run(&mut world, &mut client, "the echo", |_, clients| clients[0].received.len() == bytes.len());
    assert!(client[0].received == bytes);
    stop(&mut world);
}

#[test]
fn a_session_is_resumed_by_a_secured_connection_and_by_a_plain_one() {
    const TOKEN: &str = "0123456789abcdef";
    for seed in 0..60 {
        let (settings, config) = certified(Version::Tls12);
        let shards = 1 + (seed % 4) as usize;
        let options = Options { shards, tls: Some(settings), ..Options::default() };
        let mut world = World::with(seed, options, |services| {
            services.protocols.push(phoenix_protocol());
        });
        let mut first = Secured::connect(&world, &config);
        first.send(format!("PHX {TOKEN} ann\nS t\nP t 0\n").as_bytes());
        let mut clients = vec![first];
        run(&mut world, &mut clients, "the beginning", |_, clients| {
            clients[0].received.ends_with(b"M 0\n")
        });
        // The old connection is gone, has failed by bytes that are no TLS, or is still there.
        match seed % 3 {
            0 => world.network.reset(clients[0].client),
            1 => {
                world.network.send(clients[0].client, &[0xff; 64]);
                let first = clients[0].client;
                world.run_until("the end", |world| world.network.is_ended(first));
            }
            _ => {}
        }
        let mut second = Secured::connect(&world, &config);
        second.send(format!("BACK {TOKEN} 1\nP t 1\n").as_bytes());
        clients.push(second);
        run(&mut world, &mut clients, "to be back", |_, clients| {
            clients[1].received == b"BACK 2\nM 1\n"
        });
        // What follows is decrypted and encrypted where the session lives.
        clients[1].send(b"P t 2\n");
        run(&mut world, &mut clients, "more", |_, clients| clients[1].received.ends_with(b"M 2\n"));
        let plain = world.network.connect(0);
        world.network.send(plain, format!("BACK {TOKEN} 3\nP t 3\n").as_bytes());
        run(&mut world, &mut clients, "the plain one", |world, _| {
            world.text(plain) == "BACK 4\nM 3\n"
        });
        stop(&mut world);
    }
}
