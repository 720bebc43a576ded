//! Operations, as clients ask for them.

use tiderace_base::CloseCode;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Change, Command, Condition, Flags, NewValue, Operation, Outturn, Token, Update,
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
pub fn tell(world: &mut World, client: usize, operation: Operation) -> Result<Outturn, CloseCode> {
    let token = ask(world, client, operation);
    world.quiesce();
    answer(world, client, token).expect("every operation is answered")
}

pub fn answer(world: &World, client: usize, token: Token) -> Option<Result<Outturn, CloseCode>> {
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
