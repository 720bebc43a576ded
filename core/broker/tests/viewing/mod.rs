//! A node with one client who puts views, publishes and looks at what there is.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Fetch, Flags, Operation, OperationResult, Token, TopicEntry};

use crate::support::asking::ask;
use crate::support::{Outgoing, Wish, World, for_seeds};

/// A node with one client.
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) client: usize,
}

impl Node {
    pub(crate) fn new(seed: u64, shards: usize) -> Node {
        Node::with(seed, BrokerOptions { shards, ..BrokerOptions::default() })
    }

    pub(crate) fn with(seed: u64, options: BrokerOptions) -> Node {
        let shards = options.shards;
        let mut world = World::new(seed, options);
        let client = world.connect(shards - 1, "ann");
        Node { world, client }
    }

    pub(crate) fn operate(&mut self, operation: Operation) -> Token {
        let token = ask(&mut self.world, self.client, operation);
        self.world.deliver_envelopes();
        token
    }

    pub(crate) fn result(&mut self, operation: Operation) -> OperationResult {
        let token = self.operate(operation);
        let refused = &self.world.clients[self.client].refused;
        let result = self.world.clients[self.client].operated.get(&token).cloned();
        result.unwrap_or_else(|| panic!("not done: {refused:?}"))
    }

    pub(crate) fn put(&mut self, name: &str, text: &str) {
        let name = Path::parse(name).unwrap();
        self.result(Operation::View { name, text: Some(text.into()) });
    }

    pub(crate) fn remove_view(&mut self, name: &str) {
        self.result(Operation::View { name: Path::parse(name).unwrap(), text: None });
        self.rest();
    }

    pub(crate) fn set(&mut self, path: &str, value: &str) {
        let message = Outgoing { flags: Flags::RETAIN, ..Outgoing::new(value) };
        self.world.publish_all(self.client, &format!("topic:{path}"), &[message]);
        self.world.deliver_envelopes();
    }

    pub(crate) fn clear(&mut self, path: &str) {
        let message = Outgoing { flags: Flags::RETAIN_REMOVE, ..Outgoing::new("") };
        self.world.publish_all(self.client, &format!("topic:{path}"), &[message]);
        self.world.deliver_envelopes();
    }

    /// Until everything has been done that does not wait for its time.
    pub(crate) fn rest(&mut self) {
        for _ in 0..40 {
            self.world.deliver_envelopes();
            self.world.advance(Span::from_millis(1));
        }
        self.world.deliver_envelopes();
    }

    pub(crate) fn advance(&mut self, millis: u64) {
        self.world.deliver_envelopes();
        self.world.advance(Span::from_millis(millis));
        self.world.deliver_envelopes();
    }

    pub(crate) fn fetch(&mut self, selector: &str) -> Vec<TopicEntry> {
        let fetch = Fetch {
            selector: vec![Pattern::parse(selector).unwrap()],
            after: None,
            limit: 0,
            depth: 0,
            values: true,
            specs: true,
        };
        match self.result(Operation::Fetch(Box::new(fetch))) {
            OperationResult::Page(page) => page.topics,
            other => panic!("{other:?}"),
        }
    }

    /// All topics with values, but for what the server says of itself.
    pub(crate) fn topics(&mut self) -> BTreeMap<String, String> {
        let listed = self.fetch("**").into_iter().filter_map(|entry| {
            let run = entry.value?;
            let body = String::from_utf8(run.message(0)?.body.to_vec()).ok()?;
            Some((entry.path.to_string(), body))
        });
        listed.filter(|(path, _)| !path.starts_with("$sys/")).collect()
    }

    pub(crate) fn value(&mut self, path: &str) -> Option<String> {
        self.topics().remove(path)
    }

    pub(crate) fn shown(&mut self, view: &str) -> Option<serde_json::Value> {
        let entry = self.fetch(&format!("$sys/views/{view}")).pop()?;
        serde_json::from_slice(entry.value?.message(0)?.body).ok()
    }

    pub(crate) fn received(&mut self) -> Vec<(String, String)> {
        self.world.quiesce();
        let received = std::mem::take(&mut self.world.clients[self.client].received);
        received.into_iter().map(|message| (message.path, message.body)).collect()
    }

    pub(crate) fn subscribe(&mut self, target: &str) {
        self.world.subscribe(self.client, 0, Wish::to(target));
        self.world.quiesce();
        self.received();
    }
}

/// On one shard and on three, with messages between shards in several orders.
pub(crate) fn on_nodes(test: impl Fn(Node)) {
    for_seeds(0..4, |seed| {
        test(Node::new(seed, 1));
        test(Node::new(seed, 3));
    });
}
