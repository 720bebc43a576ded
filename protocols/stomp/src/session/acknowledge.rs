//! ACK and NACK (STOMP 1.2, "ACK" and "NACK").
//!
//! Relies on tags rising within the session. Invariant: each delivered message is decided once,
//! by a settled acknowledgement or by the end of its subscription; finding it takes a binary
//! search, deciding it constant time on average.

use tiderace_base::{Close, CloseCode, ShardId};
use tiderace_wire::{Command, Context, Outcome, Settle, SubscriptionKey, Token};

use super::subscription::{AckMode, Hold, Unacked};
use super::{Request, StompSession, number};
use crate::encode::Tag;
use crate::error::{bad_header, fault, missing, shown};
use crate::version::Version;

/// Stretches of one shard's message numbers.
pub(super) type Ranges = Vec<(ShardId, Vec<(u64, u64)>)>;

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
            self.stage_ack(request, &name, key, at, outcome)?;
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
        for ((home, ranges), index) in ranges.into_iter().zip(0..) {
            let confirm = first.map(|first| first.wrapping_add(index));
            let fits = |open: &Settle| {
                open.key == key
                    && open.home == home
                    && open.outcome == outcome
                    && open.confirm.is_none()
            };
            if !self.cold().settle.as_ref().is_some_and(fits) {
                self.flush(context.commands);
            }
            let open = self.cold().settle.get_or_insert_with(|| Settle {
                key,
                home,
                ranges: Vec::new(),
                outcome,
                confirm: None,
            });
            open.confirm = confirm;
            for range in ranges {
                join(&mut open.ranges, range);
            }
            if confirm.is_some() {
                self.flush(context.commands);
            }
        }
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

impl Unacked {
    /// Where the message of that tag stands, if it is undecided.
    pub(super) fn free_entry(&self, tag: u64) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()?;
        (self.entries.get(at)?.hold == Hold::Free).then_some(at)
    }

    /// Settles the message, and with `cumulative` all undecided ones before it.
    pub(super) fn decide(&mut self, at: usize, cumulative: bool) -> Ranges {
        let mut list = self.take(at, cumulative, Hold::Settled);
        self.tidy();
        list.reverse();
        grouped(list)
    }

    /// Marks the message, and with `cumulative` all undecided ones before it; gives their places
    /// in the world, latest first.
    pub(super) fn take(&mut self, at: usize, cumulative: bool, hold: Hold) -> Vec<(u16, u64)> {
        let mut taken = Vec::new();
        let start = if cumulative { 0 } else { at };
        let mut highest = 0;
        for entry in self.entries.range_mut(start..=at).rev() {
            // Everything up to the floor has been decided before.
            if cumulative && entry.tag <= self.floor {
                break;
            }
            highest = highest.max(entry.tag);
            if entry.hold == Hold::Free {
                entry.hold = hold;
                taken.push((entry.home, entry.sequence));
            }
        }
        if cumulative {
            self.floor = self.floor.max(highest);
        }
        if hold == Hold::Settled {
            self.settled += taken.len();
        }
        taken
    }
}

/// Groups numbers by shard, in order, consecutive ones as one stretch.
pub(super) fn grouped(list: Vec<(u16, u64)>) -> Ranges {
    let mut groups: Ranges = Vec::new();
    for (home, sequence) in list {
        let home = ShardId(home);
        let at = groups.iter().position(|(known, _)| *known == home).unwrap_or_else(|| {
            groups.push((home, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, ranges)) = groups.get_mut(at) {
            join(ranges, (sequence, sequence));
        }
    }
    groups
}

/// Appends a stretch, to the last one if it goes on there.
fn join(ranges: &mut Vec<(u64, u64)>, (from, to): (u64, u64)) {
    match ranges.last_mut() {
        Some((_, end)) if *end + 1 == from => *end = to,
        _ => ranges.push((from, to)),
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

impl StompSession {
    /// Settles nothing but shows where a staged acknowledgement stands; see `transaction`.
    pub(super) fn unacked_mut(&mut self, key: SubscriptionKey) -> Option<&mut Unacked> {
        self.subscriptions.get_mut(key)?.unacked.as_deref_mut()
    }
}
