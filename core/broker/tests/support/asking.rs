//! Operations, as clients ask for them.

use tiderace_base::{CloseCode, MemoryUse, Span};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Change, Command, Condition, Fetch, Flags, NewValue, Operation, OperationResult, Page, Token,
    Update,
};

use super::World;

pub fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

/// A client on a shard that the seed chooses.
pub fn connect(world: &mut World, name: &str) -> usize {
    let shards = world.brokers.len();
    let shard = world.random.below(shards);
    world.connect(shard, name)
}

pub fn ask(world: &mut World, client: usize, operation: Operation) -> Token {
    let token = world.token(client);
    world.command(client, Command::Operate { token, operation: Box::new(operation) });
    token
}

/// Asks, and waits for the answer.
pub fn tell(
    world: &mut World,
    client: usize,
    operation: Operation,
) -> Result<OperationResult, CloseCode> {
    let token = ask(world, client, operation);
    world.quiesce();
    answer(world, client, token).expect("every operation is answered")
}

pub fn answer(
    world: &World,
    client: usize,
    token: Token,
) -> Option<Result<OperationResult, CloseCode>> {
    let client = &world.clients[client];
    let refused = client.refused.iter().find(|(blamed, _)| *blamed == Some(token));
    let done = client.operated.get(&token).cloned();
    done.map(Ok).or(refused.map(|(_, code)| Err(*code)))
}

pub fn create(name: &str, spec: &str, value: Option<&str>) -> Operation {
    let value = value.map(|body| NewValue { body: body.as_bytes().into(), ..NewValue::default() });
    Operation::Create { path: path(name), spec: spec.as_bytes().into(), value }
}

pub fn update(name: &str, body: &str, condition: Option<Condition>) -> Operation {
    Operation::Update(Box::new(Update {
        path: path(name),
        change: Change::Value(body.as_bytes().into()),
        properties: None,
        flags: Flags::NONE,
        condition,
        spec: None,
    }))
}

pub fn remove(selector: &str) -> Operation {
    Operation::Remove { selector: vec![Pattern::parse(selector).unwrap()] }
}

impl World {
    /// Nothing is left of what counted as these.
    pub fn check_memory(&self, uses: &[MemoryUse]) {
        for what in uses {
            let left = self.brokers.iter().map(|broker| broker.memory().used_for(*what));
            assert_eq!(left.sum::<usize>(), 0, "{what:?}");
        }
    }

    /// After [`World::end`]: topics without a retained value and empty queues are forgotten.
    pub fn sweep(&mut self) {
        for _ in 0..3 {
            self.advance(Span::from_secs(100));
            self.deliver_envelopes();
        }
        let metrics = self.metrics();
        assert_eq!(metrics.topics, metrics.retained, "idle topics are forgotten");
        let empty = metrics.queue_bytes == 0;
        assert!(!empty || metrics.queues == 0, "idle queues are forgotten");
        if metrics.topics == 0 && metrics.queues == 0 {
            self.check_memory(&[MemoryUse::Names, MemoryUse::Values, MemoryUse::Queues]);
        }
    }
}

/// Asks for topics with all that is known of them.
pub fn fetch(selector: &str, limit: u32, after: Option<Path>) -> Fetch {
    let selector = vec![Pattern::parse(selector).unwrap()];
    Fetch { selector, after, limit, depth: 0, values: true, specs: true }
}

/// A page of topics.
pub fn page(world: &mut World, client: usize, fetch: Fetch) -> Page {
    match tell(world, client, Operation::Fetch(Box::new(fetch))) {
        Ok(OperationResult::Page(page)) => *page,
        other => panic!("{other:?}"),
    }
}

/// The paths on a page.
pub fn listed(page: &Page) -> Vec<&str> {
    page.topics.iter().map(|entry| entry.path.as_str()).collect()
}
