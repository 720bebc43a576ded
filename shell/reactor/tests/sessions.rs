//! Lists of all sessions and their ends on simulated networks: whatever their number, some a turn, and none left out.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::metric;
use crate::common::world::World;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;

/// More than one shard looks at in a turn.
const CLIENTS: usize = 2_300;

fn turns(world: &World) -> u64 {
    metric(&world.control.metrics(), "tiderace_turns_total", &[])
}

fn says(world: &mut World, client: Client, what: &str) {
    world.run_until(what, |world| world.text(client).ends_with(what));
}

#[test]
fn very_many_sessions_are_listed_and_ended_in_slices() {
    for shards in [1, 3] {
        let options = Options { shards, connections_per_address_max: 0, ..Options::default() };
        let mut world = World::with(shards as u64, options, |_| {});
        let clients: Vec<Client> = (0..CLIENTS).map(|_| world.network.connect(0)).collect();
        for client in &clients {
            world.network.send(*client, b"ECHO\nhello");
        }
        world.run_until("the echoes", |world| {
            clients.iter().all(|client| world.text(*client) == "hello")
        });
        let operator = world.network.connect(0);
        world.network.send(operator, b"LINE\nL ann\n");
        says(&mut world, operator, "OK\n");
        world.network.send(operator, b"A 7\n");
        says(&mut world, operator, &format!("7 of {}\n", CLIENTS + 1));
        world.network.send(operator, b"A 500\n");
        says(&mut world, operator, &format!("500 of {}\n", CLIENTS + 1));
        let before = turns(&world);
        world.network.send(operator, b"K echo\n");
        says(&mut world, operator, &format!("kicked {CLIENTS}\n"));
        let each = CLIENTS as u64 / shards as u64;
        assert!(turns(&world) - before >= each / 64, "so many end in a turn");
        world.run_until("the ends", |world| {
            clients.iter().all(|client| world.network.is_ended(*client))
        });
        world.network.send(operator, b"A 7\n");
        says(&mut world, operator, "1 of 1\n");
        let closed =
            metric(&world.control.metrics(), "tiderace_connections_closed_total", &["kicked"]);
        assert_eq!(closed, CLIENTS as u64);
    }
}
