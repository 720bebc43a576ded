//! Outputs of views that end, and what they are if they begin again at once.
//!
//! Every test runs on one shard and on three, with messages between shards in an order drawn from a seed.
#![allow(clippy::unwrap_used)]

use crate::viewing::on_nodes;
use tiderace_wire::ValueType;

#[test]
fn an_output_that_ends_and_begins_again_at_once_is_what_its_view_says() {
    on_nodes(|mut node| {
        node.put("v", "map in/* to out/<path(1)> as value type int64 delay 500ms");
        node.set("in/a", "1");
        node.advance(600);
        // Both come when the same tick publishes what was delayed.
        node.clear("in/a");
        node.set("in/a", "2");
        node.advance(600);
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "2");
        let entry = node.fetch("out/a").pop().unwrap();
        assert_eq!(entry.spec.unwrap().value, ValueType::Int64);
    });
}
