//! TOPIC, FOLLOWS and UPDATES: what comes, message by message.
//!
//! Invariant: numbers and versions are such that none that is counted from them overflows.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Context, Flags, FromUpstream, Numbering, SubscriptionKey, UpstreamNumbers, parse_path, shown,
};

use super::UpstreamSession;
use super::connect::CODEC;
use super::fault::{broken, malformed};
use super::gather::Entry;
use super::topics::Topic;
use crate::codec::{Content, Numbers, Update, Updates, Version, check_properties, flag};
use crate::limits::{UPSTREAM_NUMBER_MAX, UPSTREAM_VERSION_MAX};

impl UpstreamSession {
    pub(super) fn topic(&mut self, id: u32, key: u32, path: &str) -> Result<(), Close> {
        if !self.subscriptions.is_known(key) && !self.exchanges.serves(key) {
            return Err(broken(format!("a topic of subscription {key} comes, which is not there")));
        }
        let path = parse_path(path, None).map_err(|close| broken(close.reason))?;
        self.topics.announce(id, key, path)
    }

    pub(super) fn follows(&mut self, flags: u8, id: u32, version: u64) -> Result<(), Close> {
        let Some((topic, _)) = self.topics.get(flags & flag::ANNOUNCED != 0, id) else {
            return Err(unknown(id));
        };
        topic.follows = Some(version);
        Ok(())
    }

    pub(super) fn updates(
        &mut self,
        now: Now,
        entries: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        for update in Updates::numbered(entries) {
            self.update(now, &update.map_err(malformed)?, context)?;
        }
        Ok(())
    }

    fn update(
        &mut self,
        now: Now,
        update: &Update<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let has = |flag| update.flags & flag != 0;
        let (is_announced, epoch) = (has(flag::ANNOUNCED), self.epoch);
        let Some((topic, bases)) = self.topics.get(is_announced, update.id) else {
            return Err(unknown(update.id));
        };
        let key = topic.key;
        let Some(subscribed) = self.subscriptions.wanted(key) else { return Ok(()) };
        if subscribed.is_pattern != is_announced {
            return Err(unknown(update.id));
        }
        let has_deltas = subscribed.has_deltas;
        let version = version(update.version, topic)?;
        let numbers = numbers(update.numbers, epoch)?;
        let escaped = check_properties(update.properties).map_err(malformed)?;
        let body = if has(flag::DELTA) {
            if !has_deltas || version != topic.last + 1 {
                let path = topic.path.as_str();
                return Err(broken(format!("a delta for `{}` is to nothing", shown(path))));
            }
            let Some(base) = topic.base() else {
                let close = without_base(topic);
                self.give_up(key, close, context);
                return Ok(());
            };
            let most = self.options.message_bytes_max;
            let made = tiderace_delta::apply(CODEC, base, update.data, most);
            Cow::Owned(made.map_err(|error| {
                broken(format!("a delta for `{}`: {error}", shown(topic.path.as_str())))
            })?)
        } else {
            Cow::Borrowed(update.data)
        };
        check_size(&body, self.options.message_bytes_max, topic)?;
        topic.last = version;
        let mark = |is, mark| if is { mark } else { Flags::NONE };
        let entry = Entry {
            key: SubscriptionKey(key),
            version,
            follows: topic.follows.take(),
            path: &topic.path,
            numbers,
            flags: mark(has(flag::VALUE), Flags::RETAIN)
                | mark(has(flag::REMOVED), Flags::RETAIN_REMOVE)
                | mark(escaped, Flags::ESCAPED),
            content: Content::of(update.flags).line(),
            properties: update.properties,
            body: &body,
        };
        self.gather.add(now.time, &entry, context.commands);
        if has_deltas {
            bases.keep(topic, &body);
        }
        Ok(())
    }

    /// POSITION.
    pub(super) fn position(
        &mut self,
        numbers: &[(u64, u64)],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        for (numbering, number) in numbers {
            let numbering = numbering_of(*numbering, self.epoch)?;
            let sequence = checked(*number)?;
            self.tell(FromUpstream::Reached { numbering, sequence }, context);
        }
        Ok(())
    }
}

fn unknown(id: u32) -> Close {
    broken(format!("an update comes for the topic or subscription {id}, which is not there"))
}

/// The whole version.
fn version(told: Version, topic: &Topic) -> Result<u64, Close> {
    let path = topic.path.as_str();
    if topic.last == 0 && matches!(told, Version::Low(_)) {
        return Err(broken(format!("the first version of `{}` is not told whole", shown(path))));
    }
    let version = told.after(topic.last);
    if (1..=UPSTREAM_VERSION_MAX).contains(&version) {
        return Ok(version);
    }
    Err(broken(format!("`{}` has no version {version}", shown(path))))
}

fn numbers(told: Option<Numbers>, epoch: u64) -> Result<UpstreamNumbers, Close> {
    let told = told.ok_or_else(|| broken("an update has no number"))?;
    Ok(UpstreamNumbers {
        numbering: numbering_of(told.numbering, epoch)?,
        first: checked(told.number)?,
        reached: checked(told.reached)?,
    })
}

fn numbering_of(written: u64, epoch: u64) -> Result<Numbering, Close> {
    Numbering::read(epoch, written)
        .ok_or_else(|| broken(format!("{written} is not the name of who gives numbers")))
}

fn checked(number: u64) -> Result<u64, Close> {
    if number <= UPSTREAM_NUMBER_MAX {
        return Ok(number);
    }
    Err(broken(format!("the number {number} is none of a message")))
}

fn check_size(body: &[u8], most: usize, topic: &Topic) -> Result<(), Close> {
    if body.len() <= most {
        return Ok(());
    }
    let (bytes, path) = (body.len(), shown(topic.path.as_str()));
    let reason = format!(
        "a message of `{path}` has {bytes} bytes; this node takes {most}, let both nodes take the same"
    );
    Err(Close::new(CloseCode::FrameTooLarge, reason))
}

/// The body that a delta is to is not there: there was no room for it.
fn without_base(topic: &Topic) -> Close {
    let path = shown(topic.path.as_str());
    let reason = format!(
        "there is no room for the value of `{path}` to which deltas apply; it has to be asked for without them"
    );
    Close::new(CloseCode::MemoryFull, reason)
}
