//! CALL, SEND, CANCEL, and the messages of exchanges.

use tiderace_base::{Close, CloseCode, Span};
use tiderace_wire::{
    Call, Command, Context, Delivery, Exchange, ExchangeKey, ExchangeSend, Kind, Output, Side,
};

use super::NativeSession;
use super::subscriptions::Mark;
use crate::codec::{
    CallMessage, Content, ExchangeMessage, SendMessage, ServerMessage, flag, kind, split_content,
};
use tiderace_base::limits::{APART_BYTES_MIN, SENTENCE_BYTES_MAX};

impl NativeSession {
    pub(super) fn call(
        &mut self,
        message: &CallMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let destination = match self.declared(message.destination)? {
            Some(known) => Ok(known.clone()),
            None => self.in_full(message.destination),
        };
        let destination = destination.and_then(|destination| match destination.kind {
            Kind::Service => self.check_size(message.body).map(|()| destination),
            _ => Err(Close::new(CloseCode::BadDestination, "only services are called")),
        });
        let service = match destination {
            Ok(destination) => destination.path,
            Err(close) => {
                return close.answered(|close| {
                    let ended = ServerMessage::Ended {
                        responder: false,
                        number: message.number,
                        code: close.code as u16,
                        slug: close.code.slug(),
                        sentence: &close.reason,
                    };
                    super::say(&ended, &mut context.output);
                });
            }
        };
        let timeout = match message.timeout_ms {
            0 => self.options.timeout,
            spoken => Span::from_millis(spoken),
        };
        context.commands.push(Command::Call(Box::new(Call {
            number: message.number,
            service,
            properties: properties(message.flags, message.properties),
            body: message.body.to_vec(),
            last: message.flags & flag::LAST != 0,
            timeout,
            // Without it, what the caller takes is bounded by the credit of its session, in bytes.
            credit: message.credit,
            traced: None,
        })));
        Ok(())
    }

    pub(super) fn send_exchange(
        &mut self,
        message: &SendMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.check_size(message.body)?;
        let last = message.flags & flag::LAST != 0;
        let bare = message.flags & flag::BARE != 0;
        let content = message.flags & (flag::CONTENT | flag::PROPERTIES) != 0;
        if bare && (!last || content || !message.properties.is_empty() || !message.body.is_empty())
        {
            let reason =
                "a SEND that is BARE is the LAST one and has neither content, properties nor body";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        context.commands.push(Command::SendExchange(Box::new(ExchangeSend {
            exchange: exchange_key(message.flags & flag::RESPONDER != 0, message.number),
            properties: if bare {
                Vec::new()
            } else {
                properties(message.flags, message.properties)
            },
            body: message.body.to_vec(),
            last,
            bare,
        })));
        Ok(())
    }

    pub(super) fn cancel(
        &mut self,
        responder: bool,
        number: u32,
        code: u16,
        sentence: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let known = CloseCode::numbered(code);
        let (Some(code), 0..=SENTENCE_BYTES_MAX) = (known, sentence.len()) else {
            let reason = format!(
                "an exchange ends with one of the known codes and at most {SENTENCE_BYTES_MAX} bytes"
            );
            return Err(Close::new(CloseCode::BadHeader, reason));
        };
        let exchange = exchange_key(responder, number);
        let close = Close::new(code, sentence.to_owned());
        context.commands.push(Command::Cancel { exchange, close });
        Ok(())
    }

    /// WANT.
    pub(super) fn want(&mut self, number: u32, messages: u64, context: &mut Context<'_>) {
        if messages == 0 {
            return;
        }
        let exchange = ExchangeKey::caller(number);
        context.commands.push(Command::ExchangeCredit { exchange, messages });
    }

    /// Callers want more of what this client answers: it is told if it has asked for that.
    pub(super) fn tell_wanted(&mut self, number: u32, messages: u64, output: &mut Output<'_>) {
        if self.cold.as_ref().is_some_and(|cold| cold.tells_credit) {
            let out = self.batch.whole(HEAD_BYTES, output);
            ServerMessage::Wanted { number, messages }.write(out);
        }
    }

    pub(super) fn deliver_exchange(
        &mut self,
        exchange: &Exchange,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let run = delivery.run.run();
        let Some(message) = run.message(delivery.from) else { return };
        let (content, properties) = split_content(message.properties);
        let bit = |flag, is| if is { flag } else { 0 };
        let responder = exchange.key.side == Side::Responder;
        let mut flags = content.bits()
            | bit(flag::LAST, exchange.last)
            | bit(flag::RESPONDER, responder)
            | bit(flag::BARE, exchange.bare)
            | bit(flag::FIRST, exchange.first);
        let mut id = None;
        if responder && exchange.first {
            if let Some(credit) = exchange.credit {
                // Before the call, so that it is known with it.
                self.tell_wanted(exchange.key.number, credit, output);
            }
            let key = delivery.key.0;
            let mark = self.subscriptions.get(key).unwrap_or_default();
            id = Some(key);
            if mark.has(Mark::PATTERN) {
                let path = &run.destination().path;
                let most = self.topics_max();
                let (announced, is_new) = self.cold().topics.find(key, path, most);
                let topic = announced.id;
                if is_new {
                    self.announce(topic, key, path, output);
                }
                id = Some(topic);
                flags |= flag::SERVICE_ANNOUNCED;
            }
        }
        let body = message.body;
        let message = ExchangeMessage { flags, number: exchange.key.number, id, properties, body };
        if properties.len() + body.len() < APART_BYTES_MIN {
            let out = self.batch.whole(properties.len() + body.len() + HEAD_BYTES, output);
            return ServerMessage::Exchange(message).write(out);
        }
        let mut head = Vec::new();
        message.write_head(&mut head);
        let body = delivery.run.body_bytes(delivery.from).unwrap_or_default();
        self.batch.apart(kind::EXCHANGE, &head, body, output);
    }
}

fn exchange_key(responder: bool, number: u32) -> ExchangeKey {
    if responder { ExchangeKey::responder(number) } else { ExchangeKey::caller(number) }
}

fn properties(flags: u8, block: &[u8]) -> Vec<u8> {
    [Content::of(flags).line(), block].concat()
}

/// What precedes properties and body, at most.
const HEAD_BYTES: usize = 32;
