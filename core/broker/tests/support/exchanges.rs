//! What clients do in exchanges: call, say, finish, cancel.

use tiderace_base::{CloseCode, Span};
use tiderace_broker::BrokerOptions;
use tiderace_topics::Path;
use tiderace_wire::{Call, Command, ExchangeKey, ExchangeSend};

use super::{Wish, World};

impl World {
    pub fn call(&mut self, client: usize, number: u32, service: &str, body: &str, last: bool) {
        self.call_for(client, number, service, body, last, Span::ZERO);
    }

    pub fn call_for(
        &mut self,
        client: usize,
        number: u32,
        service: &str,
        body: &str,
        last: bool,
        timeout: Span,
    ) {
        self.call_with(client, number, service, body.as_bytes(), (last, timeout, None));
    }

    /// A call with a timeout and credit.
    pub fn call_with(
        &mut self,
        client: usize,
        number: u32,
        service: &str,
        body: &[u8],
        (last, timeout, credit): (bool, Span, Option<u64>),
    ) {
        let (service, body) = (Path::parse(service).unwrap(), body.to_vec());
        let properties = Vec::new();
        let traced = None;
        let call = Call { number, service, properties, body, last, timeout, credit, traced };
        self.command(client, Command::Call(Box::new(call)));
    }

    /// The caller wants more messages.
    pub fn ask_for_more(&mut self, client: usize, number: u32, messages: u64) {
        let exchange = ExchangeKey::caller(number);
        self.command(client, Command::ExchangeCredit { exchange, messages });
    }

    pub fn send_exchange(&mut self, client: usize, exchange: ExchangeKey, body: &str, last: bool) {
        let body = body.as_bytes().to_vec();
        let sent =
            ExchangeSend { exchange, properties: b"k:v\n".to_vec(), body, last, bare: false };
        self.command(client, Command::SendExchange(Box::new(sent)));
    }

    /// Says nothing more, and no last message.
    pub fn finish_saying(&mut self, client: usize, exchange: ExchangeKey) {
        let (properties, body) = (Vec::new(), Vec::new());
        let sent = ExchangeSend { exchange, properties, body, last: true, bare: true };
        self.command(client, Command::SendExchange(Box::new(sent)));
    }

    pub fn cancel(&mut self, client: usize, exchange: ExchangeKey) {
        self.cancel_with(client, exchange, CloseCode::CallCancelled);
    }

    pub fn cancel_with(&mut self, client: usize, exchange: ExchangeKey, code: CloseCode) {
        let close = code.into();
        self.command(client, Command::Cancel { exchange, close });
    }
}

/// A caller on the first shard, a responder on the last, homes wherever.
pub fn pair(shards: usize, change: impl Fn(&mut BrokerOptions)) -> (World, usize, usize) {
    let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
    change(&mut options);
    let mut world = World::new(1, options);
    let (caller, responder) = (world.connect(0, "caller"), world.connect(shards - 1, "responder"));
    world.subscribe(responder, 3, Wish { window: Some(2), ..Wish::to("service:add") });
    world.deliver_envelopes();
    (world, caller, responder)
}

pub fn heard(world: &World, client: usize) -> Vec<(&str, bool, bool)> {
    let heard = &world.clients[client].heard;
    heard.iter().map(|row| (&*row.body, row.exchange.first, row.exchange.last)).collect()
}

pub fn ended(world: &mut World, client: usize) -> Vec<(u32, CloseCode)> {
    let ended = std::mem::take(&mut world.clients[client].ended);
    ended.into_iter().map(|(key, code)| (key.number, code)).collect()
}
