//! Who shows on one shard: sessions, and the subscribers of topics with presence.
//!
//! Bookkeeping only. Invariants: a session shows once however many subscriptions it has to a topic; nothing is
//! kept for topics and sessions that do not show.

use std::collections::{BTreeSet, VecDeque};

use tiderace_base::{Key, Time};
use tiderace_topics::Path;

use crate::collections::Map;

/// Subscribers that one shard shows; what comes on top does not show.
const PRESENT_MAX: usize = 1_000_000;
/// Topics that one turn shows or hides: about two milliseconds' worth.
pub(crate) const CHANGES_PER_TURN: usize = 256;

/// Something that is to be shown, or with no value hidden.
pub(crate) type Change = (Path, Option<Vec<u8>>);

/// What one shard shows.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// By topic with presence: its subscribers here, and how many subscriptions each has.
    watched: Map<Path, Map<Key, u32>>,
    present: usize,
    /// The topics at which each session is present.
    by_session: Map<Key, BTreeSet<Path>>,
    /// Sessions that show, if sessions do.
    sessions: Map<Key, Opened>,
    /// What is to be shown or hidden when it is its turn.
    changes: VecDeque<Change>,
    /// How many changes may still be made in the turn of that time.
    left: usize,
    turn: Option<Time>,
}

/// What is known of a session from its beginning.
#[derive(Clone, Copy, Debug)]
struct Opened {
    since_ms: u64,
    protocol: &'static str,
    shown: bool,
}

impl Presence {
    /// A session that may show has begun.
    pub(crate) fn open(&mut self, session: Key, since_ms: u64, protocol: &'static str) {
        self.sessions.insert(session, Opened { since_ms, protocol, shown: false });
    }

    /// A session shows from now on, if it may: since when it is there, and its protocol.
    pub(crate) fn show(&mut self, session: Key) -> Option<(u64, &'static str)> {
        let opened = self.sessions.get_mut(&session)?;
        opened.shown = true;
        Some((opened.since_ms, opened.protocol))
    }

    /// A session has ended: whether it showed.
    pub(crate) fn close(&mut self, session: Key) -> bool {
        self.sessions.remove(&session).is_some_and(|opened| opened.shown)
    }

    /// The topics at which a session is present.
    pub(crate) fn paths_of(&self, session: Key) -> BTreeSet<Path> {
        self.by_session.get(&session).cloned().unwrap_or_default()
    }

    /// Whether any topic's subscribers show.
    pub(crate) fn is_watching(&self) -> bool {
        !self.watched.is_empty()
    }

    /// The subscribers of a topic show from now on; whether they did not.
    pub(crate) fn watch(&mut self, path: &Path) -> bool {
        if self.watched.contains_key(path) {
            return false;
        }
        self.watched.insert(path.clone(), Map::default());
        true
    }

    /// The subscribers of a topic show no longer: who did.
    pub(crate) fn unwatch(&mut self, path: &Path) -> Vec<Key> {
        let present = self.watched.remove(path).unwrap_or_default();
        self.present -= present.len();
        for session in present.keys() {
            self.forget(*session, path);
        }
        present.into_keys().collect()
    }

    /// A session has one more subscription to exactly that topic: whether it shows for that.
    pub(crate) fn join(&mut self, path: &Path, session: Key) -> bool {
        let room = self.present < PRESENT_MAX;
        let Some(present) = self.watched.get_mut(path) else { return false };
        if let Some(count) = present.get_mut(&session) {
            *count += 1;
            return false;
        }
        if room {
            present.insert(session, 1);
            self.by_session.entry(session).or_default().insert(path.clone());
            self.present += 1;
        }
        room
    }

    /// A session has one subscription to exactly that topic less: who shows no longer. `is_last`: the topic has
    /// no other subscription here.
    pub(crate) fn leave(&mut self, path: &Path, session: Key, is_last: bool) -> Vec<Key> {
        let Some(present) = self.watched.get_mut(path) else { return Vec::new() };
        if is_last {
            return self.unwatch(path);
        }
        let Some(count) = present.get_mut(&session) else { return Vec::new() };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        present.remove(&session);
        self.present -= 1;
        self.forget(session, path);
        vec![session]
    }

    fn forget(&mut self, session: Key, path: &Path) {
        let Some(paths) = self.by_session.get_mut(&session) else { return };
        paths.remove(path);
        if paths.is_empty() {
            self.by_session.remove(&session);
        }
    }

    /// Something is to be shown or hidden: given back if that is to be done now.
    pub(crate) fn change(&mut self, now: Time, change: Change) -> Option<Change> {
        if self.turn != Some(now) {
            (self.turn, self.left) = (Some(now), CHANGES_PER_TURN);
        }
        if !self.changes.is_empty() || self.left == 0 {
            self.changes.push_back(change);
            return None;
        }
        self.left -= 1;
        Some(change)
    }

    /// The next of what waits to be shown or hidden.
    pub(crate) fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// How much waits for that.
    pub(crate) fn changes_waiting(&self) -> usize {
        self.changes.len()
    }
}
