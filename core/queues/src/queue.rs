//! One queue: its ready messages in order and who consumes them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::limits::PATH_BYTES_MAX;
use tiderace_base::{Key, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{Flags, Kind, Prefetch, own_name, root_of, within_host};

use crate::accounts::Account;
use crate::delayed::Delayed;
use crate::effect::{DeathReason, Effect};
use crate::groups::Groups;
use crate::lines::Lines;
use crate::private::is_private;
use crate::ready::{Ready, has_expired};
use crate::swapped::Swapped;
use crate::weight::Weight;
use crate::{Policy, Segment};

/// What can be chosen for a queue.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// Bytes of messages in memory, ready and in flight. Above it new messages are left to the store alone; where there is
    /// none, publishers are asked to wait.
    pub bytes_max: usize,
    /// Bytes of messages that are in the store alone, at which publishers are asked to wait.
    pub disk_bytes_max: u64,
    /// The window of consumers that name none.
    pub window: Prefetch,
    /// A message that was rejected, or lost together with its consumer, more often than this goes to
    /// the dead-letter queue; 0 for never.
    pub redeliveries_max: u32,
    /// Where it goes then; `{queue}` stands for the queue's path, or as much of its beginning as a path
    /// of that name may have. Empty: it is dropped.
    pub dead_letter: String,
    /// How long a queue without messages and consumers is kept.
    pub idle: Span,
    /// How it treats its messages.
    pub policy: Policy,
    /// In whose account it counts.
    pub owner: Option<Arc<str>>,
}

/// How a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Messages that are ready, in memory or not.
    pub messages: usize,
    /// Messages that consumers have and did not settle.
    pub in_flight: usize,
    /// Messages that wait for their time.
    pub delayed: usize,
    /// Message groups of which some message is in flight, or waits after a failure.
    pub groups: usize,
    /// Bytes of messages in memory: ready, in flight and delayed.
    pub bytes: usize,
    /// Ready messages that are in the store alone.
    pub swapped: u64,
    /// Their bytes.
    pub swapped_bytes: u64,
    /// How many consume from it.
    pub consumers: usize,
    /// How many are shown its messages and take none.
    pub browsers: usize,
    /// Whether it has as much as it may.
    pub full: bool,
    /// Whether consumers get nothing until it is resumed.
    pub paused: bool,
    /// When the first of the ready messages was published.
    pub oldest: Option<Time>,
    /// In whose account it counts.
    pub owner: Option<&'a Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) path: Path,
    pub(crate) bytes_max: usize,
    pub(crate) disk_bytes_max: u64,
    pub(crate) redeliveries_max: u32,
    pub(crate) dead_letter: Option<Path>,
    pub(crate) idle: Span,
    pub(crate) window: Prefetch,
    pub(crate) policy: Policy,
    pub(crate) ready: Ready,
    /// Ready messages that are in the store alone, if there are some.
    pub(crate) swapped: Option<Box<Swapped>>,
    /// Present while some wait for their time.
    pub(crate) delayed: Option<Box<Delayed>>,
    /// Messages that are with consumers, or were taken out of the ready ones for an operation.
    pub(crate) in_flight: usize,
    /// In memory: ready, in flight and delayed.
    pub(crate) bytes: usize,
    /// What of them counts in the memory budget: not what other queues have as well.
    pub(crate) charged: usize,
    /// What it has counts in the account of its owner, who has a quota of bytes.
    counts: bool,
    /// That of its owner.
    account: Option<Rc<Account>>,
    /// Bytes in the store alone that count there.
    counted_swapped: u64,
    pub(crate) lines: Lines,
    /// Present as soon as some message had a group.
    pub(crate) groups: Option<Box<Groups>>,
    pub(crate) full: bool,
    /// It is full because of what is in the store alone.
    pub(crate) is_disk_full: bool,
    /// Consumers get nothing until it is resumed.
    pub(crate) paused: bool,
    /// It is there whether anybody uses it or not.
    pub(crate) stays: bool,
    pub(crate) has_expiring: bool,
    /// Whether the search for expired messages under way has seen any that expire.
    expiring_seen: bool,
    /// Browsers wait for something new.
    pub(crate) is_browsed: bool,
    /// A selective consumer has yet to look at some ready messages.
    pub(crate) has_unseen: bool,
    /// The store has messages of it that could not be read: it stays, and so do they.
    pub(crate) has_unread: bool,
    pub(crate) used: Time,
    /// The number that the next message is given; zero before the first.
    pub(crate) next_number: u64,
    /// The rank of new messages if the queue does not order by priority: no earlier message is in a higher one.
    pub(crate) rank: u64,
    /// In which it is kept.
    pub(crate) stream: Option<u64>,
    /// In which those of its messages are that are not persistent and for which there is no room in memory.
    pub(crate) volatile: Option<u64>,
    /// Messages of lower numbers were stored in an earlier life of the server: those that are not persistent do not
    /// come back.
    pub(crate) stored_below: u64,
    /// Stored dead letters on their way to another queue, which the stream still has, by version.
    pub(crate) moving: BTreeMap<u64, Segment>,
}

impl Queue {
    pub(crate) fn new(path: Path, options: &QueueOptions, now: Time) -> Queue {
        let dead_letter = dead_letter_path(&options.dead_letter, &path);
        let dead_letter = dead_letter.filter(|dead_letter| *dead_letter != path);
        // What is dead already does not die again.
        let template = template_for(&options.dead_letter, &path);
        let is_dead_letter = match template.split_once(PLACEHOLDER) {
            Some((prefix, _)) => !prefix.is_empty() && own_name(&path).starts_with(prefix),
            None => template == own_name(&path),
        };
        let dead_letter_expired = options.policy.dead_letter_expired && !is_dead_letter;
        Queue {
            redeliveries_max: if is_dead_letter { 0 } else { options.redeliveries_max },
            path,
            bytes_max: options.bytes_max,
            disk_bytes_max: options.disk_bytes_max,
            dead_letter,
            idle: options.idle,
            window: options.window,
            policy: Policy { dead_letter_expired, ..options.policy },
            ready: Ready::default(),
            swapped: None,
            delayed: None,
            in_flight: 0,
            bytes: 0,
            charged: 0,
            counts: false,
            account: None,
            counted_swapped: 0,
            lines: Lines::new(options.policy.dispatch),
            groups: None,
            full: false,
            is_disk_full: false,
            paused: false,
            stays: false,
            has_expiring: false,
            expiring_seen: false,
            is_browsed: false,
            has_unseen: false,
            has_unread: false,
            used: now,
            next_number: 0,
            rank: 0,
            stream: None,
            volatile: None,
            stored_below: 0,
            moving: BTreeMap::new(),
        }
    }

    /// What its messages in memory count for.
    pub(crate) fn weight(&self) -> Weight {
        Weight { bytes: self.bytes, charged: self.charged }
    }

    /// Messages count that did not.
    #[inline]
    pub(crate) fn gain(&mut self, weight: Weight) {
        self.bytes += weight.bytes;
        self.charged += weight.charged;
        if self.counts {
            self.count_in_memory(0, weight.bytes);
        }
    }

    /// Messages count no more.
    #[inline]
    pub(crate) fn lose(&mut self, weight: Weight) {
        let before = self.bytes;
        Weight { bytes: self.bytes, charged: self.charged } = self.weight().without(weight);
        if self.counts {
            self.count_in_memory(before - self.bytes, 0);
        }
    }

    /// It counts in an account from now on; so far it has nothing.
    pub(crate) fn set_account(&mut self, account: Rc<Account>) {
        self.counts = account.counts();
        self.account = Some(account);
    }

    /// The account in which it counts.
    pub(crate) fn account(&self) -> Option<&Rc<Account>> {
        self.account.as_ref()
    }

    /// That account, if its owner has a quota of bytes.
    #[inline]
    pub(crate) fn counting(&self) -> Option<&Account> {
        if self.counts { self.account.as_deref() } else { None }
    }

    /// It ends: its account, and the bytes that it has in there.
    pub(crate) fn end_account(&mut self) -> Option<(Rc<Account>, u64)> {
        Some((self.account.take()?, self.bytes as u64 + self.counted_swapped))
    }

    #[cold]
    fn count_in_memory(&mut self, less: usize, more: usize) {
        if let Some(account) = &self.account {
            account.change(less as u64, more as u64);
        }
    }

    /// Counts what is in the store alone now.
    pub(crate) fn count_swapped(&mut self) {
        let Some(account) = self.account.as_ref().filter(|_| self.counts) else { return };
        let bytes = self.swapped.as_ref().map_or(0, |swapped| swapped.bytes());
        account.change(std::mem::replace(&mut self.counted_swapped, bytes), bytes);
    }

    /// Messages are gone that were counted; the caller hears of it if they are stored.
    pub(crate) fn note_gone(&mut self, segment: Segment, effects: &mut Vec<Effect>) {
        self.lose(segment.weight());
        if let Some(stream) = self.stream_with(&segment) {
            let is_outside = self.has_outside(&segment);
            effects.push(Effect::Settled { stream, segment, is_outside });
        }
    }

    /// The stream that has messages of the queue, if they are stored.
    #[inline]
    pub(crate) fn stream_with(&self, segment: &Segment) -> Option<u64> {
        if !segment.run.is_stored() {
            return None;
        }
        match self.volatile {
            Some(_) if !segment.run.any(Flags::PERSISTENT) => self.volatile,
            _ => self.stream,
        }
    }

    /// Messages that were counted are dead: they go to where dead letters go.
    pub(crate) fn note_dead(
        &mut self,
        key: Key,
        segment: Segment,
        (reason, wall_ms): (DeathReason, u64),
        effects: &mut Vec<Effect>,
    ) {
        self.lose(segment.weight());
        self.send_dead_letter(key, segment, (reason, wall_ms), effects);
    }

    /// The same of messages that were not counted in memory.
    pub(crate) fn send_dead_letter(
        &mut self,
        key: Key,
        segment: Segment,
        (reason, wall_ms): (DeathReason, u64),
        effects: &mut Vec<Effect>,
    ) {
        let stream = self.stream_with(&segment);
        if stream.is_some() {
            self.begin_move(&segment);
        }
        let (from, to) = (self.path.clone(), self.dead_letter.clone());
        effects.push(Effect::DeadLetter { queue: key, stream, from, to, segment, reason, wall_ms });
    }

    /// Whether messages that expire are dead letters.
    pub(crate) fn dead_letters_expired(&self) -> bool {
        self.policy.dead_letter_expired && self.dead_letter.is_some()
    }

    /// Messages that were counted have expired: they are gone, or dead letters.
    pub(crate) fn note_expired(
        &mut self,
        key: Key,
        segment: Segment,
        wall_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        match self.dead_letters_expired() {
            true => self.note_dead(key, segment, (DeathReason::Expired, wall_ms), effects),
            false => self.note_gone(segment, effects),
        }
    }

    /// Puts messages at their place in the order; their bytes count already if they come back. How many
    /// selections of consumers have to look at them.
    pub(crate) fn put(&mut self, segment: Segment, marks: Flags) -> usize {
        let expires = marks.contains(Flags::EXPIRES);
        self.has_expiring |= expires;
        // The search for expired messages may have passed its place.
        self.expiring_seen |= expires;
        let first = segment.first_version();
        self.ready.put(segment);
        if let Some(swapped) = &mut self.swapped {
            swapped.note_ready(first);
        }
        self.lines.note_ready(first)
    }

    /// Removes expired messages from the ready ones, from version `from` on, looking at about so many; how many
    /// there were, and where to go on if there are more.
    pub(crate) fn expire(
        &mut self,
        (key, wall_ms): (Key, u64),
        from: u64,
        looks: &mut usize,
        effects: &mut Vec<Effect>,
    ) -> (usize, Option<u64>) {
        let (mut found, mut next) = (Vec::new(), None);
        if from == 0 {
            self.expiring_seen = false;
        }
        for segment in self.ready.from(from) {
            if *looks == 0 {
                next = Some(segment.first_version());
                break;
            }
            let expires = segment.run.any(Flags::EXPIRES);
            self.expiring_seen |= expires;
            let messages = if expires { segment.len() as usize } else { 1 };
            *looks = looks.saturating_sub(messages);
            if has_expired(segment, wall_ms) {
                if self.policy.dead_letter_expired {
                    *looks = looks.saturating_sub(segment.len() as usize * DEAD_LETTER_LOOKS);
                }
                found.push(segment.first_version());
            }
        }
        if next.is_none() {
            self.has_expiring = self.expiring_seen;
        }
        let mut gone = Vec::new();
        for start in found {
            self.ready.take_expired(start, wall_ms, &mut gone);
        }
        let count = gone.iter().map(|segment: &Segment| segment.len() as usize).sum();
        gone.into_iter().for_each(|segment| self.note_expired(key, segment, wall_ms, effects));
        (count, next)
    }

    /// Removes expired messages from the front; how many there were.
    pub(crate) fn expire_front(
        &mut self,
        (key, wall_ms): (Key, u64),
        effects: &mut Vec<Effect>,
    ) -> usize {
        let mut removed = 0;
        while let Some(expired) = self.ready.take_first_expired(wall_ms) {
            removed += expired.len() as usize;
            self.note_expired(key, expired, wall_ms, effects);
        }
        removed
    }

    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.lines.is_empty()
            && self.bytes == 0
            && self.swapped.is_none()
            && self.moving.is_empty()
            && !self.has_unread
            && !self.stays
            // What is private belongs to its owner, who needs no rule to pause it and may have any number of names.
            && (!self.paused || is_private(&self.path))
            && now.since(self.used) >= self.idle
    }
}

/// What a dead letter costs beside a message that is looked at.
const DEAD_LETTER_LOOKS: usize = 15;

/// A template as it counts for a queue: for one of a virtual host without the host, of whichever it says, since dead
/// letters stay there.
fn template_for<'a>(template: &'a str, queue: &Path) -> &'a str {
    if root_of(queue).is_some() { within_host(template) } else { template }
}

/// The path that `{queue}` gives in a template; dead letters of a virtual host stay there. A name that would be too long
/// or too deep loses levels, and bytes, at its end: the messages say themselves where they come from.
fn dead_letter_path(template: &str, queue: &Path) -> Option<Path> {
    let (root, own) = (root_of(queue), own_name(queue));
    let template = template_for(template, queue);
    let mut part = &*own;
    let of_host = root.as_ref().map_or(0, |root| root.level().len() + 1);
    let around = of_host + template.len().saturating_sub(PLACEHOLDER.len());
    let mut most = PATH_BYTES_MAX.saturating_sub(around).min(part.len());
    while !part.is_char_boundary(most) {
        most -= 1;
    }
    part = part.get(..most)?.trim_end_matches('/');
    loop {
        if let Ok(path) = Path::parse(&template.replace(PLACEHOLDER, part)) {
            match root.as_ref().map(|root| root.path(Kind::Queue, &path)) {
                None => return Some(path),
                Some(Ok(path)) => return Some(path),
                Some(Err(_)) => {}
            }
        }
        part = part.rsplit_once('/')?.0;
    }
}

/// Stands for the path of a queue.
const PLACEHOLDER: &str = "{queue}";

#[cfg(test)]
mod tests {
    use tiderace_base::limits::PATH_DEPTH_MAX;

    use super::*;

    fn made(template: &str, queue: &str) -> Option<String> {
        let path = dead_letter_path(template, &Path::parse(queue).unwrap());
        path.map(|path| path.as_str().to_owned())
    }

    #[test]
    fn every_queue_has_a_dead_letter_queue_however_deep_or_long_its_name() {
        assert_eq!(made("dlq/{queue}", "a/b").as_deref(), Some("dlq/a/b"));
        assert_eq!(made("dead", "a/b").as_deref(), Some("dead"));
        assert_eq!(made("", "a/b"), None, "dropped, as asked for");
        assert_eq!(made("dlq/{queue}", "@shop/a/b").as_deref(), Some("@shop/dlq/a/b"));
        assert_eq!(made("dlq/{queue}", "dsub/@shop/a").as_deref(), Some("@shop/dlq/dsub/a"));
        assert_eq!(made("dead", "@shop/a/b").as_deref(), Some("@shop/dead"));
        for (template, dead) in [
            ("@shop/failed", "@shop/failed"),
            ("@shop/dlq/{queue}", "@shop/dlq/a"),
            ("@bank/failed", "@shop/failed"),
            ("@bank/{queue}/dead", "@shop/a/dead"),
        ] {
            assert_eq!(made(template, "@shop/a").as_deref(), Some(dead), "{template}");
        }
        assert_eq!(made("@shop/failed", "a").as_deref(), Some("@shop/failed"));
        let twice = made("dlq/{queue}", "@shop/@bank/a");
        assert_eq!(twice.as_deref(), Some("@shop/dlq/@bank/a"));
        assert_eq!(made("", "@shop/a"), None);
        for depth in 1..=PATH_DEPTH_MAX {
            let queue = vec!["x"; depth].join("/");
            let kept = vec!["x"; depth.min(PATH_DEPTH_MAX - 1)].join("/");
            assert_eq!(made("dlq/{queue}", &queue), Some(format!("dlq/{kept}")), "{depth}");
            let kept = vec!["x"; depth.min(PATH_DEPTH_MAX - 2)].join("/");
            assert_eq!(made("a/{queue}/b", &queue), Some(format!("a/{kept}/b")), "{depth}");
            if depth < PATH_DEPTH_MAX {
                let dead = format!("@h/dlq/{kept}");
                assert_eq!(made("dlq/{queue}", &format!("@h/{queue}")), Some(dead), "{depth}");
            }
        }
        for bytes in PATH_BYTES_MAX - 10..=PATH_BYTES_MAX {
            let queue = "x".repeat(bytes);
            let dead = made("dlq/{queue}", &queue).unwrap();
            assert_eq!(dead.len(), (bytes + 4).min(PATH_BYTES_MAX));
            // Bytes of one character stay together.
            let queue = "é".repeat(bytes / 2);
            assert!(made("dlq/{queue}", &queue).unwrap().starts_with("dlq/éé"));
        }
        let both = [&"y/".repeat(PATH_DEPTH_MAX - 1), "é".repeat(400).as_str()].concat();
        assert!(made("dlq/{queue}", &both).unwrap().starts_with("dlq/y/y/"));
    }
}
