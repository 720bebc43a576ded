//! Operations on queues over one to three shards: who may do them, what they do, and that a long one is done in slices
//! with nothing lost on the way.

#![allow(clippy::unwrap_used, clippy::panic, clippy::field_reassign_with_default)]

mod jobs;
mod looks;
mod moves;
mod stored;

use std::collections::BTreeSet;

use crate::support::asking::{answer, ask, connect, path, tell};
use crate::support::{Outgoing, Received, Wish, World, for_seeds, path_at, property};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, QueuePolicy, Rule, Rules, Who};
use tiderace_filter::Selector;
use tiderace_topics::Pattern;
use tiderace_wire::{
    Browsable, Browse, BrowseCursor, Kind, ListingEntry, MoveMessages, MovedMessages, Operation,
    OperationResult, Outcome, Peek, PeekedMessages, QueueDetails, QueueEntry, QueueQuery,
    properties,
};

pub const RED: &str = "colour = 'red'";

pub fn selector(text: &str) -> Option<Selector> {
    Some(Selector::parse(text).unwrap())
}

pub fn purge(queue: &str, selector: Option<Selector>) -> Operation {
    Operation::Purge { path: path(queue), selector, up_to: None }
}

pub fn moving(from: &str, to: &str) -> MoveMessages {
    let (from, to) = (path(from), Some(path(to)));
    MoveMessages { from, to, redrive: false, selector: None, limit: None, up_to: None }
}

pub fn redriving(from: &str) -> MoveMessages {
    MoveMessages { to: None, redrive: true, ..moving(from, "x") }
}

pub fn move_by(asked: MoveMessages) -> Operation {
    Operation::Move(Box::new(asked))
}

pub fn pause(queue: &str, on: bool) -> Operation {
    Operation::PauseQueue { path: path(queue), on }
}

pub fn peeking(queue: &str) -> Peek {
    Peek { path: path(queue), from: 0, limit: 0, body_bytes: 0, selector: None }
}

pub fn show(world: &mut World, client: usize, queue: &str) -> Result<QueueDetails, CloseCode> {
    let query = QueueQuery { path: path(queue), after: 0, limit: 0 };
    match tell(world, client, Operation::Queue(query))? {
        OperationResult::Queue(details) => Ok(*details),
        other => panic!("{other:?}"),
    }
}

pub fn page(world: &mut World, client: usize, peek: Peek) -> Result<PeekedMessages, CloseCode> {
    match tell(world, client, Operation::Peek(Box::new(peek)))? {
        OperationResult::Messages(page) => Ok(*page),
        other => panic!("{other:?}"),
    }
}

/// The bodies of all pages of a look.
pub fn bodies(world: &mut World, client: usize, peek: Peek) -> Vec<String> {
    let (mut all, mut peek) = (Vec::new(), peek);
    loop {
        let found = page(world, client, peek.clone()).unwrap();
        assert!(found.messages.len() <= peek.messages_max());
        for message in &found.messages {
            let body = message.run.message(message.place).unwrap().body;
            all.push(String::from_utf8(body.to_vec()).unwrap());
        }
        match found.next {
            Some(next) => assert!(std::mem::replace(&mut peek.from, next) < next),
            None => return all,
        }
    }
}

pub fn purged(result: Result<OperationResult, CloseCode>) -> u64 {
    match result.unwrap() {
        OperationResult::Purged { messages, .. } => messages,
        other => panic!("{other:?}"),
    }
}

pub fn moved(result: Result<OperationResult, CloseCode>) -> MovedMessages {
    match result.unwrap() {
        OperationResult::Moved(moved) => *moved,
        other => panic!("{other:?}"),
    }
}

pub fn coloured(body: impl Into<String>, red: bool) -> Outgoing {
    let colour = if red { "red" } else { "blue" };
    Outgoing { properties: format!("colour:{colour}\n"), ..Outgoing::new(body) }
}

/// So many messages in runs of a hundred; every third is red.
pub fn fill(world: &mut World, client: usize, queue: &str, count: usize) {
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(100) {
        let messages: Vec<Outgoing> =
            some.iter().map(|number| coloured(number.to_string(), number % 3 == 0)).collect();
        world.publish_all(client, &format!("queue:{queue}"), &messages);
    }
    world.deliver_envelopes();
}

/// What somebody gets who consumes from a queue, and accepts all of it.
pub fn consume_all(world: &mut World, client: usize, key: u32, queue: &str) -> Vec<Received> {
    let before = world.clients[client].received.len();
    world.subscribe(client, key, Wish::to(&format!("queue:{queue}")));
    world.quiesce();
    world.unsubscribe(client, key);
    world.quiesce();
    world.clients[client].received.split_off(before)
}

pub fn rule(actions: &[Action], who: &str, path: &str) -> Rule {
    Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: Some(Kind::Queue),
    }
}
