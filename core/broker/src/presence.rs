//! Who is here: sessions as topics below `$sys/sessions/`, and who subscribes to exactly which topic
//! below `$sys/presence/`.
//!
//! A topic's home knows whether its specification wants presence and tells the shards that have
//! subscribers of it; each of these shows its own. Relies on mail keeping its order. Invariants: a
//! session shows once however many subscriptions it has there; what shows is hidden when its session
//! ends; nothing is kept for topics and sessions that do not show. Many that come or go at once show so
//! some each turn, in the order in which they did.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use tiderace_base::{Key, Now, SessionId, ShardId, Time};
use tiderace_topics::Path;
use tiderace_value::append_text;

use crate::Principal;
use crate::authorise::PRESENCE;
use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::Effects;
use crate::messages::ServerMail;
use crate::places::{key_of, members};
use crate::server_topics::{append_member, begin_who, is_unspoken};

/// Subscribers that one shard shows; what comes on top does not show.
const PRESENT_MAX: usize = 1_000_000;
/// Topics that one turn shows or hides: about two milliseconds' worth.
pub(crate) const CHANGES_PER_TURN: usize = 256;

/// What one shard shows.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// By topic with presence: its subscribers here, and how many subscriptions each has.
    attended: Map<Path, Map<Key, u32>>,
    present: usize,
    /// The topics that each session attends.
    by_session: Map<Key, BTreeSet<Path>>,
    /// Sessions that show, if sessions do.
    sessions: Map<Key, Opened>,
    /// What is to be shown, or with no value hidden, when it is its turn.
    changes: VecDeque<(Path, Option<Vec<u8>>)>,
    /// How many changes may still be made in the turn of that time.
    left: usize,
    turn: Option<Time>,
}

impl Presence {
    fn note(&mut self, session: Key, path: &Path) {
        self.by_session.entry(session).or_default().insert(path.clone());
    }

    fn forget(&mut self, session: Key, path: &Path) {
        let Some(paths) = self.by_session.get_mut(&session) else { return };
        paths.remove(path);
        if paths.is_empty() {
            self.by_session.remove(&session);
        }
    }
}

/// What is known of a session from its beginning.
#[derive(Clone, Copy, Debug)]
struct Opened {
    since_ms: u64,
    protocol: &'static str,
    shown: bool,
}

impl Broker {
    /// A session that may show has begun.
    pub(crate) fn note_opened(&mut self, now: Now, key: Key, protocol: &'static str) {
        if self.options.sessions_shown {
            let opened = Opened { since_ms: now.wall_ms, protocol, shown: false };
            self.presence.sessions.insert(key, opened);
        }
    }

    /// A session is somebody else now.
    pub(crate) fn show_again(
        &mut self,
        now: Now,
        session: SessionId,
        principal: &Principal,
        effects: &mut Effects,
    ) {
        let key = key_of(session);
        for path in self.presence.by_session.get(&key).cloned().unwrap_or_default() {
            self.show_present(now, &path, session, effects);
        }
        self.show_session(now, session, principal, effects);
    }

    /// A session has logged in, and subscribes to nothing yet.
    pub(crate) fn show_session(
        &mut self,
        now: Now,
        session: SessionId,
        principal: &Principal,
        effects: &mut Effects,
    ) {
        let Some(opened) = self.presence.sessions.get_mut(&key_of(session)) else { return };
        if principal.is_server() {
            return;
        }
        opened.shown = true;
        let Opened { since_ms, protocol, .. } = *opened;
        let mut body = begin_who(session, principal);
        body.extend_from_slice(br#","groups":["#);
        for (group, at) in principal.groups.iter().zip(0..) {
            body.extend_from_slice(if at == 0 { b"" } else { b"," });
            append_text(&mut body, group);
        }
        body.push(b']');
        if !protocol.is_empty() {
            append_member(&mut body, "protocol", protocol);
        }
        body.extend_from_slice(format!(r#","since":{since_ms}}}"#).as_bytes());
        if let Some(path) = session_path(session) {
            self.change_presence(now, path, Some(body), effects);
        }
    }

    /// A session has ended.
    pub(crate) fn hide_session(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let opened = self.presence.sessions.remove(&key_of(session));
        if opened.is_some_and(|opened| opened.shown)
            && let Some(path) = session_path(session)
        {
            self.change_presence(now, path, None, effects);
        }
    }

    /// At a topic's home: a shard begins to listen, which did not before.
    pub(crate) fn greet(&mut self, shard: ShardId, topic: Key, effects: &mut Effects) {
        let topic = self.topics.get(topic).filter(|topic| topic.spec.presence);
        let Some(path) = topic.map(|topic| topic.path.clone()) else { return };
        if !is_unspoken(&path) {
            let mail = ServerMail::Presence { path, on: true };
            self.send(shard, mail, effects);
        }
    }

    /// At a topic's home: its specification has changed in that it wants presence, or no longer.
    pub(crate) fn review_presence(&mut self, topic: Key, effects: &mut Effects) {
        let Some(topic) = self.topics.get(topic) else { return };
        let (path, on) = (topic.path.clone(), topic.spec.presence);
        if is_unspoken(&path) {
            return;
        }
        for shard in members(topic.home.as_ref().map_or(0, |home| home.interested)) {
            let mail = ServerMail::Presence { path: path.clone(), on };
            self.send(shard, mail, effects);
        }
    }

    /// On a shard with subscribers of a topic: they are to show, or no longer.
    pub(crate) fn attend(&mut self, now: Now, path: &Path, on: bool, effects: &mut Effects) {
        if !on {
            return self.forget_attended(now, path, effects);
        }
        let topic = self.find_topic(path).and_then(|key| self.topics.get(key));
        let Some(topic) = topic.filter(|topic| !topic.subscribers.is_empty()) else { return };
        if self.presence.attended.contains_key(path) {
            return;
        }
        let sessions: Vec<Key> = topic.subscribers.iter().map(|it| it.session).collect();
        self.presence.attended.insert(path.clone(), Map::default());
        for session in sessions {
            self.arrive(now, path, session, effects);
        }
    }

    fn forget_attended(&mut self, now: Now, path: &Path, effects: &mut Effects) {
        let present = self.presence.attended.remove(path).unwrap_or_default();
        self.presence.present -= present.len();
        for session in present.into_keys() {
            self.presence.forget(session, path);
            if let Some(path) = presence_path(path, self.id_of(session)) {
                self.change_presence(now, path, None, effects);
            }
        }
    }

    /// A session here has one more subscription to exactly that topic.
    pub(crate) fn arrive(&mut self, now: Now, path: &Path, session: Key, effects: &mut Effects) {
        let room = self.presence.present < PRESENT_MAX;
        let Some(present) = self.presence.attended.get_mut(path) else { return };
        if let Some(count) = present.get_mut(&session) {
            *count += 1;
        } else if room {
            present.insert(session, 1);
            self.presence.note(session, path);
            self.presence.present += 1;
            self.show_present(now, path, self.id_of(session), effects);
        }
    }

    /// A session here has one subscription to exactly that topic less.
    pub(crate) fn depart(&mut self, now: Now, topic: Key, place: usize, effects: &mut Effects) {
        if self.presence.attended.is_empty() {
            return;
        }
        let Some(topic) = self.topics.get(topic) else { return };
        let path = topic.path.clone();
        let Some(session) = topic.subscribers.get(place).map(|it| it.session) else { return };
        let last = topic.subscribers.len() == 1;
        let Some(present) = self.presence.attended.get_mut(&path) else { return };
        if last {
            return self.forget_attended(now, &path, effects);
        }
        let Some(count) = present.get_mut(&session) else { return };
        *count -= 1;
        if *count == 0 {
            present.remove(&session);
            self.presence.present -= 1;
            self.presence.forget(session, &path);
            if let Some(path) = presence_path(&path, self.id_of(session)) {
                self.change_presence(now, path, None, effects);
            }
        }
    }

    fn show_present(&mut self, now: Now, path: &Path, session: SessionId, effects: &mut Effects) {
        let Some(principal) = self.principal_of(session) else { return };
        let mut body = begin_who(session, &principal);
        body.push(b'}');
        if let Some(path) = presence_path(path, session) {
            self.change_presence(now, path, Some(body), effects);
        }
    }

    /// Shows or hides something, now or when it is its turn.
    fn change_presence(
        &mut self,
        now: Now,
        path: Path,
        body: Option<Vec<u8>>,
        effects: &mut Effects,
    ) {
        if self.presence.turn != Some(now.time) {
            (self.presence.turn, self.presence.left) = (Some(now.time), CHANGES_PER_TURN);
        }
        if !self.presence.changes.is_empty() || self.presence.left == 0 {
            return self.presence.changes.push_back((path, body));
        }
        self.presence.left -= 1;
        self.make_change(now, path, body, effects);
    }

    fn make_change(&mut self, now: Now, path: Path, body: Option<Vec<u8>>, effects: &mut Effects) {
        match body {
            Some(body) => self.show_value(now, path, &body, effects),
            None => self.hide_value(now, path, effects),
        }
    }

    /// Whether something is still to be shown or hidden.
    pub(crate) fn is_changing_presence(&self) -> bool {
        !self.presence.changes.is_empty()
    }

    /// Shows and hides some of what waits for that; to be called once a turn.
    pub(crate) fn change_more(&mut self, now: Now, effects: &mut Effects) {
        for _ in 0..CHANGES_PER_TURN {
            let Some((path, body)) = self.presence.changes.pop_front() else { return };
            self.make_change(now, path, body, effects);
        }
    }

    pub(crate) fn principal_of(&self, session: SessionId) -> Option<Rc<Principal>> {
        self.session(session)?.principal.clone()
    }
}

fn session_path(session: SessionId) -> Option<Path> {
    Path::parse(&format!("$sys/sessions/{session}")).ok()
}

/// Where a subscriber shows; nowhere if the path would be too long or too deep.
fn presence_path(path: &Path, session: SessionId) -> Option<Path> {
    Path::parse(&format!("{PRESENCE}{path}/{session}")).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tiderace_wire::{
        Command, Commands, Credentials, Destination, Kind, Subscribe, SubscriptionKey, Target,
        TopicSpec,
    };

    use super::*;
    use crate::BrokerOptions;

    #[test]
    fn many_that_end_at_once_are_hidden_in_slices() {
        let topic_default = Arc::new(TopicSpec { presence: true, ..TopicSpec::default() });
        let options = BrokerOptions { topic_default, ..BrokerOptions::default() };
        let mut broker = Broker::new(ShardId(0), Arc::new(options));
        let (now, mut effects) = (Now::default(), Effects::default());
        let room = Destination { kind: Kind::Topic, path: Path::parse("room").unwrap() };
        let sessions: Vec<SessionId> = (0..2_000)
            .map(|_| {
                let session = broker.open(now, 0);
                let mut commands = Commands::new();
                commands.push(Command::Login(Credentials::default()));
                let targets = vec![Target::Exact(room.clone())];
                let subscribe = Subscribe::new(SubscriptionKey(0), targets);
                commands.push(Command::Subscribe(Box::new(subscribe)));
                broker.handle(now, session, &mut commands, &mut effects);
                session
            })
            .collect();
        let settle = |broker: &mut Broker| {
            let mut turns = 0;
            while broker.has_work() {
                let before = broker.presence.changes.len();
                broker.work(now, &mut Effects::default());
                assert!(before - broker.presence.changes.len() <= CHANGES_PER_TURN);
                turns += 1;
            }
            turns
        };
        settle(&mut broker);
        assert_eq!(broker.metrics().retained, 2_000);
        for session in &sessions {
            broker.close(now, *session, &mut effects);
        }
        assert!(broker.metrics().retained >= 2_000 - CHANGES_PER_TURN as u64);
        assert!(settle(&mut broker) >= 2_000 / CHANGES_PER_TURN - 1);
        assert_eq!(broker.metrics().retained, 0);
        assert!(broker.presence.by_session.is_empty());
    }
}
