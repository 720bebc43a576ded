//! Topic views against a model: random histories of topics and views on nodes of one and three shards.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::support::{Outgoing, destination, for_seeds};
use crate::viewing::Node;
use tiderace_base::Span;
use tiderace_topics::Path;
use tiderace_wire::{Command, Commands, Flags, Meta, Operation};

/// Whatever the order of publishing, clearing, putting and removing views, the end is what the views
/// make of what is there.
#[test]
fn any_order_ends_with_what_the_views_say() {
    const VIEWS: [&str; 5] = [
        "map s/* to copy/<path(1)>",
        "map s/* to list/<path(1)>/<expand(/l)>",
        "map copy/* to deep/<path(1)> insert s/0 /n at /other or -1",
        "map s/* where /n > 2 to all as {[path(1)]: /n} merge",
        "map list/*/* to last/<path(1, 1)>-<path(2)>",
    ];
    for_seeds(0..200, |seed| {
        let mut node = Node::new(seed, if seed % 2 == 0 { 1 } else { 3 });
        let mut put = [false; VIEWS.len()];
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for step in 0..60 {
            match node.world.random.below(6) {
                0 => {
                    let at = node.world.random.below(VIEWS.len());
                    let name = Path::parse(&format!("v{at}")).unwrap();
                    let text = (!put[at]).then(|| VIEWS[at].into());
                    put[at] = !put[at];
                    let token = node.world.token(node.client);
                    let operation = Box::new(Operation::View { name, text });
                    node.world.command(node.client, Command::Operate { token, operation });
                }
                1 => node.world.advance(Span::from_millis(50)),
                kind => {
                    let path = format!("s/{}", node.world.random.below(3));
                    let length = node.world.random.below(4);
                    let list: Vec<String> = (0..length).map(|at| format!("{at}{step}")).collect();
                    let value = format!(r#"{{"n":{},"l":[{}]}}"#, step % 7, list.join(","));
                    let (flags, body) = match kind {
                        2 => (Flags::RETAIN_REMOVE, String::new()),
                        _ => (Flags::RETAIN, value),
                    };
                    match kind {
                        2 => values.remove(&path),
                        _ => values.insert(path.clone(), body.clone()),
                    };
                    let message = Outgoing { flags, ..Outgoing::new(body) };
                    node.world.publish_all(node.client, &format!("topic:{path}"), &[message]);
                }
            }
            for _ in 0..node.world.random.below(6) {
                node.world.deliver_envelope();
            }
        }
        for _ in 0..4 {
            node.rest();
        }
        let found = node.topics();
        // The same views on a new node, with only the last values.
        let mut fresh = Node::new(seed, 1);
        for (at, _) in put.iter().enumerate().filter(|(_, put)| **put) {
            fresh.put(&format!("v{at}"), VIEWS[at]);
        }
        for (path, value) in &values {
            fresh.set(path, value);
        }
        for _ in 0..4 {
            fresh.rest();
        }
        assert_eq!(found, fresh.topics(), "views {put:?}");
    });
}

/// A view begins to look up a topic in the call in which the topic goes.
#[test]
fn a_topic_that_goes_while_it_is_inserted_is_inserted_no_more() {
    for shards in [1, 3] {
        let mut node = Node::new(1, shards);
        node.put("sum", "map a/* to sum");
        node.put("out", "map b/* to out/<path(1)> insert sum at /sum");
        node.set("a/1", "1");
        node.rest();
        let mut commands = Commands::new();
        commands.begin_turn(node.world.now.time);
        commands.message(&destination("topic:b/1"));
        commands.publish(b"{}", Meta { flags: Flags::RETAIN, expires_ms: None }, None);
        let name = Path::parse("sum").unwrap();
        let operation = Box::new(Operation::View { name, text: None });
        let token = node.world.token(node.client);
        commands.push(Command::Operate { token, operation });
        node.world.commands(node.client, &mut commands);
        node.rest();
        assert_eq!(node.value("sum"), None);
        assert_eq!(node.value("out/1").unwrap(), "{}", "on {shards} shards");
    }
}
