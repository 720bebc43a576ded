//! A whole node on a simulated network, run step by step.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_reactor::driver::sim::{Client, Network, SimDriver};
use tiderace_reactor::{
    ListenerOptions, NodeControl, Options, Services, Shard, Turn, Verifier, drive, simulate,
};

use super::{Desk, services};

/// A node, its network and its login desk.
pub struct World {
    pub network: Network,
    pub desk: Arc<Desk>,
    pub control: NodeControl,
    pub seed: u64,
    /// A shard that is given every fiftieth of its turns.
    pub starved: Option<usize>,
    shards: Vec<Option<Shard<SimDriver>>>,
}

impl World {
    /// A node of `options`, with one listener if they name none.
    pub fn new(seed: u64, options: Options) -> World {
        World::with(seed, options, |_| {})
    }

    /// The same with other services.
    pub fn with(seed: u64, options: Options, change: impl FnOnce(&mut Services)) -> World {
        let address = ([127, 0, 0, 1], 0).into();
        let network = Network::new(seed, options.shards);
        let desk = Arc::new(Desk::default());
        let mut services = services(Arc::clone(&desk) as Arc<dyn Verifier>);
        change(&mut services);
        let mut options = options;
        if options.listeners.is_empty() {
            options.listeners.push(ListenerOptions::at(address));
        }
        let (shards, control) = simulate(&network, options, services).unwrap();
        let shards = shards.into_iter().map(Some).collect();
        World { network, desk, control, seed, starved: None, shards }
    }

    /// A node, and another one on the same network that listens nowhere: an edge, with its control.
    pub fn with_edge(
        seed: u64,
        options: Options,
        change: impl FnOnce(&mut Services),
        edge: Options,
    ) -> (World, NodeControl) {
        let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
        let network = Network::new(seed, options.shards + edge.shards);
        let desk = Arc::new(Desk::default());
        let mut source = services(Arc::clone(&desk) as Arc<dyn Verifier>);
        change(&mut source);
        let drivers = |range: std::ops::Range<usize>| range.map(|it| network.driver(it)).collect();
        let source_drivers = drivers(0..options.shards);
        let edge_drivers = drivers(options.shards..options.shards + edge.shards);
        let (mut shards, control) =
            drive(source_drivers, Options { listeners, ..options }, source).unwrap();
        let own = services(Arc::clone(&desk) as Arc<dyn Verifier>);
        let (others, edge_control) = drive(edge_drivers, edge, own).unwrap();
        shards.extend(others);
        let shards = shards.into_iter().map(Some).collect();
        (World { network, desk, control, seed, starved: None, shards }, edge_control)
    }

    /// Runs until the condition holds.
    pub fn run_until(&mut self, what: &str, mut done: impl FnMut(&World) -> bool) {
        let start = self.network.now();
        let mut steps = 0;
        while !done(self) {
            self.step();
            steps += 1;
            let late = self.network.now().since(start) > Span::from_secs(600);
            assert!(!late && steps < 1_000_000, "seed {}: waited in vain for {what}", self.seed);
        }
    }

    /// Runs for a time.
    pub fn run_for(&mut self, span: Span) {
        let end = self.network.now() + span;
        self.run_until("time to pass", |world| world.network.now() >= end);
    }

    pub fn step(&mut self) {
        for shard in self.network.advance() {
            if self.starved == Some(shard) && self.network.random(50) != 0 {
                continue;
            }
            let slot = &mut self.shards[shard];
            let Some(running) = slot else { continue };
            if running.turn().unwrap() == Turn::Finished {
                assert_eq!(running.connections(), 0, "seed {}: a connection leaked", self.seed);
                *slot = None;
            }
        }
        // Logins take their time.
        if self.network.random(4) == 0 {
            self.desk.decide();
        }
    }

    /// Connections of each shard that is still there.
    pub fn loads(&self) -> Vec<usize> {
        self.shards.iter().flatten().map(Shard::connections).collect()
    }

    /// Whether all shards have ended.
    pub fn is_over(&self) -> bool {
        self.shards.iter().all(Option::is_none)
    }

    /// What a client has received, as text.
    pub fn text(&self, client: Client) -> String {
        String::from_utf8_lossy(&self.network.received(client)).into_owned()
    }
}
