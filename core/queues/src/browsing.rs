//! Browsers are shown the messages of a queue, which stay where they are.
//!
//! ```text
//!   cursor ─▶ ready in memory │ in the store alone ──Effect::Load──▶ shown as they are read │ ready in memory …
//! ```
//! A browser goes through a queue by versions, in memory and through what the store has, and is shown what is ready when
//! its cursor comes by. It has a cursor in each rank, so that it is shown what comes into one that it has been through. What is read for it is shown and forgotten: nothing comes into the queue's memory for it. Relies on
//! `browsers` for where each has come to, and on `loading` for taking turns at the store. Invariants: a message that is
//! ready from the beginning until the cursor passes it is shown once, in the order of versions; looking is paid from the
//! turn's budget, a slice for each.

use std::sync::Arc;

use tiderace_base::{Key, MemoryUse, Now, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{
    Browsing, Destination, Prefetch, SubscriptionKey, Target, rank_of, version_of,
};

use crate::browsers::{Browser, Browsers, Stand, Written};
use crate::effect::Effect;
use crate::loading::LoadedPart;
use crate::queue::{Queue, QueueOptions};
use crate::queues::{Queues, first_of};
use crate::swapped::{Want, alone};
use crate::walk::TURN_STEPS;
use crate::{Consume, Segment, Settlement};

/// Steps that one browser may take at a time.
const SLICE_STEPS: u32 = TURN_STEPS / 32;
/// Looking at a message.
const LOOK_STEPS: u32 = 8;
/// What a browser takes, beside the name of its queue: its record with its share of the tables.
const BROWSER_BYTES: usize = 2 * size_of::<Browser>() + 128;

/// How far a browser has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It has looked at everything that was given.
    Through,
    /// It has no room for the next.
    NoRoom,
    /// Its slice is used up.
    Spent,
}

impl Browser {
    /// Looks at those messages of a segment that its cursor has not passed, up to a version: what it selects of them, as far
    /// as there is room.
    fn look(
        &mut self,
        segment: &Segment,
        (to, wall_ms): (u64, u64),
        (mut messages, mut bytes): (u32, usize),
        steps: &mut u32,
        found: &mut Vec<Segment>,
    ) -> Pace {
        let rank = rank_of(segment.first_version());
        let passed = self.cursor(rank).saturating_sub(segment.first_version());
        let from = segment.from.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        let base = segment.run.queue_version();
        for at in from..segment.to {
            let version = base + u64::from(at);
            if version > to {
                break;
            }
            if messages == 0 || bytes == 0 {
                return Pace::NoRoom;
            }
            if *steps == 0 {
                return Pace::Spent;
            }
            self.set_cursor(rank, version + 1);
            let Some(message) = segment.run.message(at as usize) else { continue };
            let (selected, price) =
                self.selector.as_ref().map_or((true, 0), |selector| selector.look(&message));
            *steps = steps.saturating_sub(LOOK_STEPS + price);
            // Nobody is given what has expired; of what the store has, some may yet be delayed.
            let is_due = message.deliver_at_ms().is_none_or(|due| due <= wall_ms);
            if !selected || !is_due || message.is_expired(wall_ms) {
                continue;
            }
            let one = Segment { from: at, to: at + 1, ..segment.clone() };
            (messages, bytes) = (messages - 1, bytes.saturating_sub(one.bytes()));
            match found.last_mut() {
                Some(Segment { run, to, .. }) if *to == at && Arc::ptr_eq(run, &one.run) => {
                    *to += 1
                }
                _ => found.push(one),
            }
        }
        Pace::Through
    }
}

impl Queues {
    /// A subscription is to be shown the messages of a queue, which need not be there.
    pub(crate) fn browse(
        &mut self,
        consume: &Consume,
        browsing: Browsing,
        options: impl Fn(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        let Target::Exact(Destination { path, .. }) = &consume.target else { return };
        let queue = self.queue(path);
        let next = queue.map_or(0, |queue| queue.next_number);
        let start = first_of(consume.start, next);
        let last = match browsing {
            Browsing::ToEnd => next.saturating_sub(1),
            Browsing::Following => u64::MAX,
        };
        let no_window = consume.window == (Prefetch { messages: 0, bytes: 0 });
        let window = match queue {
            Some(queue) => queue.window,
            None if no_window => options(path).window,
            None => consume.window,
        };
        self.memory.charge(MemoryUse::Names, price_of(path));
        let at = self.browsers.add(Browser::new(consume, path.clone(), (start, last), window));
        self.go_on(at, effects);
    }

    /// A browser ends.
    pub(crate) fn leave_browser(&mut self, name: (SessionId, SubscriptionKey)) {
        if let Some(at) = self.browsers.named(name) {
            self.end_browser(at);
        }
    }

    /// What a browser has been shown is with its client.
    pub(crate) fn settle_shown(
        &mut self,
        now: Now,
        name: (SessionId, SubscriptionKey),
        ranges: &[(u64, u64)],
        settlement: Settlement,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.browsers.named(name) else { return };
        if settlement == Settlement::Return {
            // It comes from a browser that is about to end.
            return;
        }
        match self.browsers.note_written(at, ranges) {
            Written::Waits => {}
            Written::GoesOn => {
                self.begin_turn(now);
                self.go_on(at, effects);
            }
            Written::Over => _ = self.end_browser(at),
        }
    }

    /// A browser that has credit gets more.
    pub(crate) fn credit_browser(
        &mut self,
        now: Now,
        name: (SessionId, SubscriptionKey),
        messages: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.browsers.named(name) else { return };
        if self.browsers.add_credit(at, messages) {
            self.begin_turn(now);
            self.go_on(at, effects);
        }
    }

    /// Something may be new in a queue for which browsers wait.
    #[cold]
    pub(crate) fn show_news(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.is_browsed = false;
        let path = queue.path.clone();
        for at in self.browsers.waiting(&path) {
            self.asked += 1;
            self.go_on(at, effects);
        }
    }

    /// A queue has gone: those who were to see it to its end have.
    pub(crate) fn end_browsing(&mut self, path: &Path, effects: &mut Vec<Effect>) {
        for at in self.browsers.of(path) {
            self.go_on(at, effects);
        }
    }

    /// Goes on with browsers whose slices were used up, with half of what is left of the turn.
    pub(crate) fn browse_on(&mut self, effects: &mut Vec<Effect>) {
        let least = self.left / 2;
        for _ in 0..self.browsers.postponed() {
            if self.left <= least {
                return;
            }
            let Some(at) = self.browsers.next_postponed() else { return };
            self.left = self.left.saturating_sub(LOOK_STEPS);
            if self.browsers.get(at).is_some_and(|browser| browser.stand == Stand::Turn) {
                self.go_on(at, effects);
            }
        }
    }

    /// A browser is shown what it has room for, until it has to wait for something.
    pub(crate) fn go_on(&mut self, at: Key, effects: &mut Vec<Effect>) {
        let mut steps = SLICE_STEPS.min(self.left);
        let before = steps;
        loop {
            let has_room = self.browsers.has_room(at);
            let Some(browser) = self.browsers.get_mut(at) else { return };
            if browser.stand == Stand::End {
                return;
            }
            let key = self.names.get(&browser.path).copied();
            let queue = key.and_then(|key| self.queues.get_mut(key));
            if browser.first_late().is_some() {
                if !has_room {
                    browser.stand = Stand::Room;
                    break;
                }
                if steps == 0 {
                    self.browsers.postpone(at);
                    break;
                }
                self.show_late(at, &mut steps, effects);
                continue;
            }
            let Some(next) = queue.as_ref().and_then(|queue| queue.next_for(browser)) else {
                if let Some(queue) = queue {
                    queue.is_browsed |= browser.follows();
                }
                self.run_out(at, effects);
                break;
            };
            if !has_room {
                browser.stand = Stand::Room;
                break;
            }
            let pace = match (queue, next) {
                (Some(_), Next::Ready(to)) => self.show_ready(at, to, &mut steps, effects),
                (Some(queue), Next::Stored(_)) => {
                    browser.stand = Stand::Store;
                    if let (Some(swapped), Some(key)) = (&mut queue.swapped, key) {
                        swapped.want(Want::Browser(at));
                        self.load_next(key, effects);
                    }
                    break;
                }
                (None, _) => break,
            };
            if pace == Pace::Spent {
                self.browsers.postpone(at);
                break;
            }
        }
        self.left = self.left.saturating_sub(before - steps);
    }

    /// There is nothing for a browser just now.
    fn run_out(&mut self, at: Key, effects: &mut Vec<Effect>) {
        let Some(browser) = self.browsers.get_mut(at) else { return };
        if browser.follows() {
            browser.stand = Stand::News;
            return;
        }
        let (session, key, path) = (browser.session, browser.key, browser.path.clone());
        effects.push(Effect::Browsed { session, key, path });
        if self.browsers.end(at) {
            self.end_browser(at);
        }
    }

    fn end_browser(&mut self, at: Key) -> Option<Browser> {
        let browser = self.browsers.remove(at)?;
        self.memory.refund(MemoryUse::Names, price_of(&browser.path));
        Some(browser)
    }

    /// Messages that were delayed are about to be ready.
    #[cold]
    pub(crate) fn note_woken(&mut self, key: Key, segment: &Segment) {
        let Some(queue) = self.queues.get(key) else { return };
        let versions = (segment.first_version(), segment.last_version());
        self.browsers.note_woken(&queue.path, versions);
    }

    /// A browser is shown the first of those that were delayed when its cursor came by, if nobody has taken it.
    fn show_late(&mut self, at: Key, steps: &mut u32, effects: &mut Vec<Effect>) {
        let Some(browser) = self.browsers.get_mut(at) else { return };
        let Some(version) = browser.first_late() else { return };
        browser.pass_late(version);
        let queue = self.names.get(&browser.path).and_then(|key| self.queues.get(*key));
        let segment = queue.and_then(|queue| queue.ready.from(version).next());
        let Some(segment) = segment.filter(|it| it.first_version() <= version) else { return };
        let rank = rank_of(version);
        let cursor = browser.cursor(rank);
        browser.set_cursor(rank, version);
        let mut found = Vec::new();
        browser.look(segment, (version, self.wall_ms), (1, 1), steps, &mut found);
        browser.set_cursor(rank, cursor);
        show(&mut self.browsers, at, found.into_iter(), effects);
    }

    /// A browser is shown what is ready in memory in the rank of a version, from its cursor up to that.
    fn show_ready(&mut self, at: Key, to: u64, steps: &mut u32, effects: &mut Vec<Effect>) -> Pace {
        let Some(browser) = self.browsers.get(at) else { return Pace::NoRoom };
        let queue = self.names.get(&browser.path).and_then(|key| self.queues.get(*key));
        let Some(queue) = queue else { return Pace::Through };
        let (mut pace, mut found) = (Pace::Through, Vec::new());
        let segments = queue.ready.from(browser.cursor(rank_of(to)));
        for segment in segments.take_while(|segment| segment.first_version() <= to) {
            let room = self.browsers.room(at);
            let Some(browser) = self.browsers.get_mut(at) else { break };
            pace = browser.look(segment, (to, self.wall_ms), room, steps, &mut found);
            show(&mut self.browsers, at, found.drain(..), effects);
            if pace != Pace::Through {
                break;
            }
        }
        pace
    }

    /// A browser is shown what came into memory of the ranks before one, while the store was asked for that.
    fn show_before(
        &mut self,
        at: Key,
        rank: u64,
        steps: &mut u32,
        effects: &mut Vec<Effect>,
    ) -> Pace {
        loop {
            let Some(browser) = self.browsers.get(at) else { return Pace::NoRoom };
            let queue = self.names.get(&browser.path).and_then(|key| self.queues.get(*key));
            match queue.and_then(|queue| queue.next_for(browser)) {
                Some(Next::Ready(to)) if rank_of(to) < rank => {
                    let pace = self.show_ready(at, to, steps, effects);
                    if pace != Pace::Through {
                        return pace;
                    }
                }
                // That is asked for first.
                Some(Next::Stored(version)) if rank_of(version) < rank => return Pace::NoRoom,
                _ => return Pace::Through,
            }
        }
    }

    /// The store has given a part that a browser has asked for: it is shown what of it is in the store alone, and what is in
    /// memory in between. How many messages could not be read.
    pub(crate) fn show_loaded(
        &mut self,
        key: Key,
        at: Key,
        part: &LoadedPart,
        (segments, effects): (Vec<Segment>, &mut Vec<Effect>),
    ) -> u64 {
        let Some(browser) = self.browsers.get(at) else { return 0 };
        let rank = rank_of(part.through);
        let to = part.through.min(browser.last_in(rank));
        // A part is bounded: it is looked at whole, behind what comes before it.
        let mut steps = u32::MAX;
        let mut pace = self.show_before(at, rank, &mut steps, effects);
        let segments = if pace == Pace::Through { segments } else { Vec::new() };
        for segment in segments.iter().take_while(|segment| segment.first_version() <= to) {
            let before = segment.first_version().saturating_sub(1);
            pace = self.show_ready(at, before, &mut steps, effects);
            let room = self.browsers.room(at);
            if let Some(browser) = self.browsers.get_mut(at).filter(|_| pace == Pace::Through) {
                let mut found = Vec::new();
                pace = browser.look(segment, (to, self.wall_ms), room, &mut steps, &mut found);
                show(&mut self.browsers, at, found.into_iter().flat_map(alone), effects);
            }
            if pace != Pace::Through {
                break;
            }
        }
        if pace == Pace::Through {
            pace = self.show_ready(at, to, &mut steps, effects);
        }
        self.left = self.left.saturating_sub(u32::MAX - steps);
        let Some(browser) = self.browsers.get_mut(at) else { return 0 };
        if pace == Pace::Through {
            browser.set_cursor(rank, browser.cursor(rank).max(to.saturating_add(1)));
        }
        let through = browser.cursor(rank).saturating_sub(1);
        self.pass_unreadable(key, part, through)
    }
}

/// What a browser is to be shown next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// What is ready in memory, up to that version of a rank.
    Ready(u64),
    /// Messages in the store alone, from that version on.
    Stored(u64),
}

impl Queue {
    /// What a browser is to be shown next, rank by rank.
    fn next_for(&self, browser: &Browser) -> Option<Next> {
        let swapped = self.swapped.as_deref();
        let mut from = 0;
        loop {
            let stored = swapped.and_then(|it| it.first_inside(from));
            let rank = rank_of(self.ready.next_from(from).into_iter().chain(stored).min()?);
            let (cursor, last) = (browser.cursor(rank), browser.last_in(rank));
            let stored = swapped.and_then(|it| it.first_inside(cursor)).filter(|it| *it <= last);
            // In memory it looks at what comes before what is in the store alone.
            let to = stored.map_or(last, |it| it.saturating_sub(1));
            if cursor <= to && self.ready.next_from(cursor).is_some_and(|it| it <= to) {
                return Some(Next::Ready(to));
            }
            if let Some(stored) = stored {
                return Some(Next::Stored(stored));
            }
            from = version_of(rank + 1, 0);
            if from == u64::MAX {
                return None;
            }
        }
    }
}

/// Gives a browser what it has found.
fn show(
    browsers: &mut Browsers,
    at: Key,
    found: impl Iterator<Item = Segment>,
    effects: &mut Vec<Effect>,
) {
    for segment in found {
        browsers.show(at, &segment);
        let Some(browser) = browsers.get(at) else { return };
        let (session, key) = (browser.session, browser.key);
        effects.push(Effect::Deliver { session, key, segment });
    }
}

/// Bytes that a browser takes.
fn price_of(path: &Path) -> usize {
    BROWSER_BYTES + 2 * path.as_str().len()
}
