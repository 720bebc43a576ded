//! Proxies that bring requests of many clients over one connection of HTTP/2, on simulated networks: each stream that
//! goes on counts as a connection of its client, whichever shard it comes to, and nothing is left of it.

use crate::common::http2::{Exchange, Http2};
use crate::common::metric;
use crate::common::world::World;
use http::Request;
use tiderace_base::{Network, Span};
use tiderace_proxy::ClientField;
use tiderace_reactor::{Options, Placement, Proxies};
use tiderace_websocket::{MessageKind, encode_message};

fn world(seed: u64) -> World {
    // All clients of the simulation have such addresses.
    let proxy: Network = "10.0.0.0/8".parse().unwrap();
    let options = Options {
        shards: 1 + (seed % 4) as usize,
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        connections_per_address_max: 2,
        proxies: Proxies {
            trusted: [proxy].into_iter().collect(),
            field: Some(ClientField::XForwardedFor),
            ..Proxies::default()
        },
        ..Options::default()
    };
    World::new(seed, options)
}

/// What goes on for as long as its client likes: by extended CONNECT, or a stream of bytes both ways.
#[derive(Clone, Copy, Debug)]
enum Kind {
    WebSocket,
    Stream,
}

/// Begins one for a client; whether it goes on, and the status with which it began.
fn begin(world: &mut World, proxy: &mut Http2, kind: Kind, client: &str) -> (Exchange, bool, u16) {
    let request = match kind {
        Kind::WebSocket => Request::connect("http://h/echo").header("sec-websocket-version", "13"),
        Kind::Stream => Request::post("http://h/echo-stream"),
    };
    let mut request = request.header("x-forwarded-for", client).body(()).unwrap();
    let mut wire = b"ECHO\nx".to_vec();
    if let Kind::WebSocket = kind {
        request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
        wire.clear();
        encode_message(&mut wire, MessageKind::Binary, b"ECHO\nx", Some([1, 2, 3, 4]));
    }
    let mut exchange = proxy.request(request, true);
    exchange.say(&wire);
    let heard = |it: &Exchange| it.head.is_some() && !it.body.is_empty() || it.over.is_some();
    proxy.run(world, &mut exchange, "an answer", heard);
    let goes_on = exchange.over.is_none() && exchange.head.as_ref().unwrap().status() == 200;
    let status = exchange.head.as_ref().map_or(0, |head| head.status().as_u16());
    (exchange, goes_on, status)
}

#[test]
fn streams_are_counted_for_the_clients_that_the_proxy_names() {
    for seed in 0..60 {
        let mut world = world(seed);
        let mut proxy = Http2::connect(&world);
        // SETTINGS offer extended CONNECT.
        let mut first = proxy.get("/page");
        proxy.wait(&mut world, &mut first);
        for kind in [Kind::WebSocket, Kind::Stream, Kind::WebSocket] {
            let clients = ["203.0.113.7", "198.51.100.1, 203.0.113.8"];
            let mut held: Vec<Exchange> = Vec::new();
            for client in clients.into_iter().cycle().take(4) {
                let (exchange, goes_on, _) = begin(&mut world, &mut proxy, kind, client);
                assert!(goes_on, "seed {seed} {kind:?}");
                held.push(exchange);
            }
            for client in clients {
                let (_, goes_on, status) = begin(&mut world, &mut proxy, kind, client);
                assert!(!goes_on, "seed {seed} {kind:?}: a third");
                assert!(matches!(kind, Kind::Stream) || status == 503, "seed {seed}: {status}");
            }
            let (other, goes_on, _) = begin(&mut world, &mut proxy, kind, "203.0.113.9");
            assert!(goes_on, "seed {seed} {kind:?}: another client");
            held.push(other);
            // The proxy's own are not counted.
            for _ in 0..3 {
                let (own, goes_on, _) = begin(&mut world, &mut proxy, kind, "10.1.1.1");
                assert!(goes_on, "seed {seed} {kind:?}: the proxy's own");
                held.push(own);
            }
            let (_, goes_on, status) = begin(&mut world, &mut proxy, kind, "unknown");
            assert_eq!((goes_on, status), (false, 400), "seed {seed} {kind:?}");
            held.iter_mut().for_each(Exchange::reset);
            drop(held);
            proxy.step(&world);
            world.run_for(Span::from_secs(1));
            for client in clients {
                let (mut again, goes_on, _) = begin(&mut world, &mut proxy, kind, client);
                assert!(goes_on, "seed {seed} {kind:?}: there is room again");
                again.reset();
            }
            proxy.step(&world);
            world.run_for(Span::from_secs(1));
        }
        world.control.shutdown(Span::from_secs(5));
        world.run_until("the end", |world| {
            proxy.step(world);
            world.is_over()
        });
        let samples = world.control.metrics();
        assert_eq!(metric(&samples, "tiderace_http2_streams", &[]), 0, "seed {seed}");
    }
}
