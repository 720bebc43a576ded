//! Two nodes on one simulated network, one a client of the other: whatever the seed does to what is between them, they
//! find each other, secured or not, and lose each other in good order.

use std::sync::Arc;

use crate::common::metric;
use crate::common::upstream::{HELLO, WELCOME, trusting, upstream};
use crate::common::world::World;
use tiderace_base::Span;
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{NodeControl, Options, UpstreamState, UpstreamStatus};
use tiderace_tls::{Choices, ClientCertificates, Identity, Settings, Version};

fn status(control: &NodeControl) -> UpstreamStatus {
    control.upstreams().remove(0)
}

/// Carries what is said between an edge and the node that it connects to.
#[derive(Default)]
struct Wires(Vec<(Client, Client, usize, usize)>);

impl Wires {
    fn pump(&mut self, world: &World) {
        for (client, _) in world.network.dialled() {
            world.network.take(client);
            self.0.push((client, world.network.connect(0), 0, 0));
        }
        for (from, to, there, back) in &mut self.0 {
            carry(world, *from, *to, there);
            carry(world, *to, *from, back);
        }
    }
}

fn carry(world: &World, from: Client, to: Client, carried: &mut usize) {
    let count = world.network.received_len(from);
    if *carried < count {
        world.network.send(to, &world.network.received(from)[*carried..]);
        *carried = count;
    }
    if *carried != usize::MAX && world.network.is_ended(from) {
        world.network.finish(to);
        *carried = usize::MAX;
    }
}

#[test]
fn two_nodes_find_each_other_secured_or_not() {
    for seed in 0..60 {
        let is_secure = seed % 2 == 0;
        let (made, chain) = identity();
        let url = if is_secure { "wss://localhost:7800" } else { "ws://localhost:7800" };
        let (mut upstream, seen) = upstream(&[url], &["tiderace.v1"], &[HELLO], 1);
        upstream.tls = Some(trusting(&chain, || 1_800_000_000));
        let source =
            Options { shards: 1 + (seed % 3) as usize, tls: Some(made), ..Options::default() };
        let edge = Options { upstreams: vec![upstream], ..Options::default() };
        let native = |services: &mut tiderace_reactor::Services| {
            let paths = Arc::from(["/tiderace".to_owned()]);
            services.protocols.push(tiderace_native::protocol(Arc::default(), paths));
        };
        let (mut world, control) = World::with_edge(seed, source, native, edge);
        world.network.set_name("localhost", Some(vec!["127.0.0.1:7800".parse().unwrap()]));
        let mut wires = Wires::default();
        world.run_until("the welcome", |world| {
            wires.pump(world);
            status(&control).state == UpstreamState::Connected
        });
        assert_eq!(seen.heard()[0], WELCOME, "seed {seed}");
        let now = status(&control);
        assert_eq!((now.attempts, now.last_error), (1, None), "seed {seed}");
        assert_eq!(
            metric(&control.metrics(), "tiderace_tls_connections", &[]),
            u64::from(is_secure)
        );
        // The source stops: its goodbye is heard, and the edge looks for it again.
        world.control.shutdown(Span::from_secs(5));
        world.run_until("the goodbye", |world| {
            wires.pump(world);
            status(&control).failures > 0
        });
        assert_eq!(seen.closed(), 1, "seed {seed}");
        control.shutdown(Span::from_secs(5));
        world.run_until("the end", |world| {
            wires.pump(world);
            world.is_over()
        });
        assert_eq!(status(&control).state, UpstreamState::Stopped);
        assert_eq!(metric(&control.metrics(), "tiderace_tls_connections", &[]), 0);
    }
}

/// A server's settings, and its certificate in PEM.
fn identity() -> (Settings, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let settings = Settings::new(Choices {
        identities: vec![identity],
        version_min: Version::Tls12,
        clients: ClientCertificates::Unasked,
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        clock: || 1_800_000_000,
    });
    (settings.unwrap(), chain)
}
