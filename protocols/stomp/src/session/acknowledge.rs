//! ACK and NACK (STOMP 1.2, "ACK" and "NACK").
//!
//! Relies on `unacked` for what waits, and on `settling` for the command. Invariant: each delivered message is
//! decided once, by a settled acknowledgement or by the end of its subscription.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Command, Context, Outcome, SubscriptionKey, Token};

use super::request::{Request, number};
use super::state::StompSession;
use super::subscription::AckMode;
use super::transactions::Staged;
use super::unacked::Ranges;
use crate::encode::Tag;
use crate::error::{bad_header, fault, missing, shown};
use crate::version::Version;

impl StompSession {
    pub(super) fn acknowledge(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let outcome = if request.command == "ACK" { Outcome::Accept } else { Outcome::Reject };
        if outcome == Outcome::Reject && self.version == Version::V10 {
            let text = "STOMP 1.0 has no NACK. Connect with `accept-version:1.2`.";
            return Err(fault(CloseCode::UnexpectedFrame, request.command, text));
        }
        let text = self.ack_text(request)?;
        let tag = self.resolve(request, text)?;
        let key = SubscriptionKey(tag.key);
        let unknown = || unknown_ack(request.command, text);
        let subscription = self.subscriptions.get_mut(key).ok_or_else(unknown)?;
        let mode = subscription.mode;
        let unacked = subscription.unacked.as_mut().ok_or_else(unknown)?;
        let at = unacked.free_entry(tag.number).ok_or_else(unknown)?;
        if let Some(name) = request.find("transaction")? {
            self.stage(request, &name, key, at, outcome)?;
            return self.done(request.command, request.headers, context);
        }
        let ranges = unacked.decide(at, mode == AckMode::Client);
        let count = ranges.len() as u32;
        let first = self.owe(request.command, request.headers, count)?;
        self.settle(key, ranges, outcome, first, context);
        Ok(())
    }

    /// Asks the broker to settle messages; tokens rise from `first`, one per shard concerned.
    pub(super) fn settle(
        &mut self,
        key: SubscriptionKey,
        ranges: Ranges,
        outcome: Outcome,
        first: Option<Token>,
        context: &mut Context<'_>,
    ) {
        if self.subscriptions.get(key).is_some_and(|known| known.has_credit) {
            let all = ranges.iter().flat_map(|(_, ranges)| ranges);
            let messages = all.map(|(from, to)| to - from + 1).sum();
            self.flush(context.commands);
            context.commands.push(Command::Credit { key, messages });
        }
        let settling = &mut self.cold().settling;
        for (ranges, index) in ranges.into_iter().zip(0..) {
            let confirm = first.map(|first| first.wrapping_add(index));
            settling.add(key, ranges, outcome, confirm, context.commands);
        }
    }

    /// Keeps a checked ACK or NACK of the entry at that place until COMMIT.
    fn stage(
        &mut self,
        request: &Request<'_>,
        name: &str,
        key: SubscriptionKey,
        at: usize,
        outcome: Outcome,
    ) -> Result<(), Close> {
        let bytes_max = self.options.transaction_bytes_max;
        let hold = self.cold().transactions.stage_settle(request.command, name, bytes_max)?;
        let Some(subscription) = self.subscriptions.get_mut(key) else { return Ok(()) };
        let cumulative = subscription.mode == AckMode::Client;
        let Some(unacked) = &mut subscription.unacked else { return Ok(()) };
        let Some(tags) = unacked.hold(at, cumulative, hold) else { return Ok(()) };
        self.cold().transactions.settle_later(name, Staged { key, tags, hold, outcome });
        Ok(())
    }

    /// The header that names the message: `id` in 1.2, before that `message-id`.
    fn ack_text<'a>(&self, request: &Request<'a>) -> Result<&'a [u8], Close> {
        let name = if self.version == Version::V12 { "id" } else { "message-id" };
        request.headers.find_raw(name).ok_or_else(|| missing(request.command, name))
    }

    /// The message that an ACK names.
    fn resolve(&self, request: &Request<'_>, text: &[u8]) -> Result<Tag, Close> {
        let mut parts = text.rsplitn(3, |byte| *byte == b'-');
        let (tag, key, rest) = (parts.next(), parts.next(), parts.next());
        // 1.2: `key-tag`; before: `home-sequence-key-tag`.
        let tag = tag.and_then(number);
        let key = key.and_then(number).and_then(|key| u32::try_from(key).ok());
        let (Some(number), Some(key)) = (tag, key) else {
            return Err(unknown_ack(request.command, text));
        };
        if rest.is_some() == (self.version == Version::V12) {
            return Err(unknown_ack(request.command, text));
        }
        let Some(subscription) = self.subscriptions.get(SubscriptionKey(key)) else {
            return Err(unknown_ack(request.command, text));
        };
        if self.version == Version::V11 {
            let name = request.require("subscription")?;
            if !subscription.is_named(self.version, &name) {
                let text = format_args!(
                    "the message `{}` does not belong to the subscription `{}`.",
                    shown(text),
                    shown(name.as_bytes())
                );
                return Err(fault(CloseCode::UnknownAck, request.command, text));
            }
        }
        if subscription.mode == AckMode::Auto {
            let text = "the subscription acknowledges by itself. Subscribe with `ack:client`.";
            return Err(bad_header(request.command, text));
        }
        Ok(Tag { key, number })
    }
}

fn unknown_ack(command: &str, text: &[u8]) -> Close {
    let text = format_args!(
        "no message `{}` waits for an acknowledgement. It was acknowledged before, or its \
         subscription has ended.",
        shown(text)
    );
    fault(CloseCode::UnknownAck, command, text)
}
