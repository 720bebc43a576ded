//! A session of an edge at its upstream: what it is told, as the edge hears it, without bytes between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::Close;
use tiderace_topics::Path;
use tiderace_wire::{
    Delivery, EndPrincipal, Exchange, ExchangeKey, Flags, FromUpstream, Kind, Meta, Numbering,
    OperationResult, Reply, Run, RunBuilder, SubscriptionKey, Token, UpstreamNumbers,
};

/// What such a session has to say.
#[derive(Debug, Default)]
pub struct EdgeSession {
    pub said: Vec<FromUpstream>,
    pub begun: BTreeMap<Token, SubscriptionKey>,
    pub ended: BTreeMap<Token, SubscriptionKey>,
    /// Consumers of the edge's clients.
    pub consuming: BTreeMap<Token, SubscriptionKey>,
    /// Requests of the edge's clients.
    pub relayed: BTreeMap<Token, u32>,
    /// What the edge's clients serve, by its name: to begin, or to end.
    pub served: BTreeMap<Token, (u32, bool)>,
    /// What it has heard in exchanges, in order.
    pub exchanged: VecDeque<Exchanged>,
    /// Confirmed, but what they begin with may still wait.
    settled: Vec<SubscriptionKey>,
}

/// What a session hears in exchanges.
#[derive(Clone, Debug)]
pub enum Exchanged {
    Said {
        exchange: Exchange,
        service: Path,
        caller: Option<Arc<EndPrincipal>>,
        properties: Vec<u8>,
        body: Vec<u8>,
    },
    Ended(ExchangeKey, Close),
    Wanted(ExchangeKey, u64),
}

impl EdgeSession {
    pub fn delivered(&mut self, delivery: &Delivery<'_>, epoch: u64) {
        let run = delivery.run.run();
        if let Some(exchange) = delivery.exchange {
            let message = run.message(delivery.from).unwrap();
            return self.exchanged.push_back(Exchanged::Said {
                exchange,
                service: run.destination().path.clone(),
                caller: run.caller().cloned(),
                properties: message.properties.to_vec(),
                body: message.body.to_vec(),
            });
        }
        if run.destination().kind == Kind::Queue {
            return self.queued(delivery);
        }
        for index in delivery.from..delivery.to {
            let message = run.message(index).unwrap();
            let value = if run.is_value(index) { Flags::RETAIN } else { Flags::NONE };
            let meta = Meta { flags: message.flags | value, expires_ms: message.expires_ms };
            let destination = run.destination().clone();
            let mut copy =
                Run::single(destination, run.published(), message.properties, message.body, meta);
            copy.set_version(run.version() + index as u64);
            if let Some(before) = run.follows().filter(|_| index == 0) {
                copy.set_follows(before);
            }
            let reached = match index + 1 == delivery.to {
                true => delivery.reached,
                false => delivery.reached.min(message.sequence),
            };
            let numbers = match run.upstream() {
                None => UpstreamNumbers {
                    numbering: Numbering::new(epoch, run.home()),
                    first: message.sequence,
                    reached,
                },
                Some(upstream) => UpstreamNumbers {
                    numbering: upstream.numbering,
                    first: upstream.first + index as u64,
                    reached: delivery.reached_upstream().map_or(0, |(_, reached)| reached),
                },
            };
            copy.set_upstream(Some(numbers));
            self.said.push(FromUpstream::Messages { key: delivery.key, run: copy });
        }
    }

    fn queued(&mut self, delivery: &Delivery<'_>) {
        let run = delivery.run.run();
        let mut builder = RunBuilder::new(run.destination().clone(), run.published());
        for index in delivery.from..delivery.to {
            let message = run.message(index).unwrap();
            builder.properties().extend_from_slice(message.properties);
            builder.finish(message.body, Meta { flags: message.flags, expires_ms: None });
        }
        let mut copy = builder.build();
        copy.number(run.home(), run.first() + delivery.from as u64);
        let (key, redeliveries) = (delivery.key, delivery.redeliveries);
        self.said.push(FromUpstream::Queued { key, redeliveries, run: copy });
    }

    /// Everything has been given: protocols that were asked to say so behind all values do it now.
    pub fn all_given(&mut self) {
        let settled = self.settled.drain(..);
        self.said.extend(settled.map(|key| FromUpstream::Complete { key }));
    }

    pub fn replied(&mut self, reply: &Reply, epoch: u64) {
        match reply {
            Reply::ExchangeEnded { exchange, close } => {
                self.exchanged.push_back(Exchanged::Ended(*exchange, close.clone()));
            }
            Reply::ExchangeCredit { exchange, messages } => {
                self.exchanged.push_back(Exchanged::Wanted(*exchange, *messages));
            }
            Reply::Recovered { token, complete, continues } => {
                let (key, complete, continues) = (self.begun[token], *complete, *continues);
                self.said.push(FromUpstream::Recovered { key, complete, continues });
            }
            Reply::Reached { home, sequence } => {
                let (numbering, sequence) = (Numbering::new(epoch, *home), *sequence);
                self.said.push(FromUpstream::Reached { numbering, sequence });
            }
            Reply::ReachedUpstream { numbering, sequence } => {
                let (numbering, sequence) = (*numbering, *sequence);
                self.said.push(FromUpstream::Reached { numbering, sequence });
            }
            Reply::Joined { key, path, spec, is_empty } => {
                let (key, path, spec) = (*key, path.clone(), spec.clone());
                self.said.push(FromUpstream::Joined { key, path, spec, is_empty: *is_empty });
            }
            Reply::Left { key, path, reason } => {
                let (key, path, reason) = (*key, path.clone(), *reason);
                self.said.push(FromUpstream::Left { key, path, reason });
            }
            Reply::Confirmed(confirm) => {
                for token in confirm.from..=confirm.to {
                    if let Some(key) = self.begun.remove(&token) {
                        self.settled.push(key);
                    } else if let Some(key) = self.consuming.remove(&token) {
                        self.said.push(FromUpstream::Complete { key });
                    } else if let Some(key) = self.ended.remove(&token) {
                        // What it begins with will not come: there is nothing to say behind it.
                        self.settled.retain(|settled| *settled != key);
                        self.said.push(FromUpstream::Ended { key });
                    } else if let Some((key, on)) = self.served.remove(&token) {
                        self.said.push(FromUpstream::Serving { key, result: Ok(on) });
                    } else if let Some(request) = self.relayed.remove(&token) {
                        let result = Ok(OperationResult::Done);
                        self.said.push(FromUpstream::Answered { request, result });
                    }
                }
            }
            Reply::Operated { token, result } => {
                if let Some(request) = self.relayed.remove(token) {
                    let result = Ok((**result).clone());
                    self.said.push(FromUpstream::Answered { request, result });
                }
            }
            Reply::Refused { token, close } => {
                if let Some(request) = token.and_then(|token| self.relayed.remove(&token)) {
                    let result = Err(close.clone());
                    self.said.push(FromUpstream::Answered { request, result });
                }
                if let Some((key, _)) = token.and_then(|token| self.served.remove(&token)) {
                    let result = Err(close.clone());
                    self.said.push(FromUpstream::Serving { key, result });
                }
                let key = token.and_then(|token| {
                    self.begun.remove(&token).or_else(|| self.consuming.remove(&token))
                });
                if let Some(key) = key {
                    self.said.push(FromUpstream::Refused { key, close: close.clone() });
                }
            }
            Reply::SubscriptionEnded { key, close } => {
                self.settled.retain(|settled| settled != key);
                self.said.push(FromUpstream::Refused { key: *key, close: close.clone() });
            }
            Reply::Browsed { key } => self.said.push(FromUpstream::Browsed { key: *key }),
            _ => {}
        }
    }
}
