//! Who is here: sessions as topics below `$sys/sessions/`, and who subscribes to exactly which topic
//! below `$sys/presence/`.
//!
//! A topic's home knows whether its specification wants presence and tells the shards that have
//! subscribers of it; each of these shows its own. Relies on messages keeping their order. Invariants: a
//! session shows once however many subscriptions it has there; what shows is hidden when its session
//! ends; nothing is kept for topics and sessions that do not show. Many that come or go at once show so
//! some each turn, in the order in which they did.

use std::rc::Rc;

use tiderace_base::{Key, Now, SessionId};
use tiderace_topics::Path;
use tiderace_value::append_text;

use crate::Principal;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::ToSubscriber;
use crate::places::{Place, PlaceSet, key_of};
use crate::present_sessions::CHANGES_PER_TURN;
use crate::principal::PRESENCE;
use crate::server_topics::{append_member, begin_who, is_unspoken};
use crate::session_side::SessionSide;

/// Where sessions show.
const SESSIONS: &str = "$sys/sessions/";

impl SessionSide<'_> {
    /// A session that may show has begun.
    pub(crate) fn note_opened(&mut self, now: Now, key: Key, protocol: &'static str) {
        if self.options.sessions_shown {
            self.sessions.presence_mut().open(key, now.wall_ms, protocol);
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
        for path in self.sessions.presence().paths_of(key) {
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
        if principal.is_server() {
            return;
        }
        let shown = self.sessions.presence_mut().show(key_of(session));
        let Some((since_ms, protocol)) = shown else { return };
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
        if self.sessions.presence_mut().close(key_of(session))
            && let Some(path) = session_path(session)
        {
            self.change_presence(now, path, None, effects);
        }
    }

    /// On a shard with subscribers of a topic: they are to show, or no longer.
    pub(crate) fn presence_changed(
        &mut self,
        now: Now,
        path: &Path,
        on: bool,
        effects: &mut Effects,
    ) {
        if !on {
            let present = self.sessions.presence_mut().unwatch(path);
            return self.hide_present(now, path, present, effects);
        }
        let topic = self.directory.find(path).and_then(|key| self.directory.get(key));
        let listed = topic.map(|topic| self.fanout.exact(topic)).unwrap_or_default();
        let sessions: Vec<Key> = listed.iter().map(|it| it.session).collect();
        if sessions.is_empty() {
            return;
        }
        if !self.sessions.presence_mut().watch(path) {
            return;
        }
        for session in sessions {
            self.presence_join(now, path, session, effects);
        }
    }

    /// Sessions here show no longer at a topic.
    fn hide_present(&mut self, now: Now, path: &Path, sessions: Vec<Key>, effects: &mut Effects) {
        for session in sessions {
            if let Some(path) = presence_path(path, self.id_of(session)) {
                self.change_presence(now, path, None, effects);
            }
        }
    }

    /// A session here has one more subscription to exactly that topic.
    pub(crate) fn presence_join(
        &mut self,
        now: Now,
        path: &Path,
        session: Key,
        effects: &mut Effects,
    ) {
        if self.sessions.presence_mut().join(path, session) {
            self.show_present(now, path, self.id_of(session), effects);
        }
    }

    /// A session here has one subscription to exactly that topic less.
    pub(crate) fn presence_leave(
        &mut self,
        now: Now,
        topic: Key,
        place: usize,
        effects: &mut Effects,
    ) {
        if !self.sessions.presence().is_watching() {
            return;
        }
        let Some(topic) = self.directory.get(topic) else { return };
        let path = topic.path.clone();
        let listed = self.fanout.exact(topic);
        let Some(session) = listed.get(place).map(|it| it.session) else { return };
        let last = listed.len() == 1;
        let gone = self.sessions.presence_mut().leave(&path, session, last);
        self.hide_present(now, &path, gone, effects);
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
        let Some((path, body)) = self.sessions.presence_mut().change(now.time, (path, body)) else {
            return;
        };
        self.make_change(now, path, body, effects);
    }

    fn make_change(&mut self, now: Now, path: Path, body: Option<Vec<u8>>, effects: &mut Effects) {
        match body {
            Some(body) => self.show_value(now, path, &body, effects),
            None => self.hide_value(now, path, effects),
        }
    }

    /// Shows and hides some of what waits for that; to be called once a turn.
    pub(crate) fn change_more(&mut self, now: Now, effects: &mut Effects) {
        for _ in 0..CHANGES_PER_TURN {
            let Some((path, body)) = self.sessions.presence_mut().next_change() else { return };
            self.make_change(now, path, body, effects);
        }
    }

    pub(crate) fn principal_of(&self, session: SessionId) -> Option<Rc<Principal>> {
        self.session(session)?.principal.clone()
    }
}

impl HomeSide<'_> {
    /// At a topic's home: a shard begins to listen, which did not before.
    pub(crate) fn presence_watch(&mut self, place: Place, topic: Key, effects: &mut Effects) {
        let topic = self.directory.get(topic).filter(|topic| topic.spec.presence);
        let Some(path) = topic.map(|topic| topic.path.clone()) else { return };
        if !is_unspoken(&path) {
            let message = ToSubscriber::Presence { path, on: true };
            self.send(place, message, effects);
        }
    }

    /// At a topic's home: its specification has changed in that it wants presence, or no longer.
    pub(crate) fn review_presence(&mut self, topic: Key, effects: &mut Effects) {
        let Some(topic) = self.topic(topic) else { return };
        let (path, on) = (topic.path().clone(), topic.spec().presence);
        if is_unspoken(&path) {
            return;
        }
        let interested = topic.home().map_or(PlaceSet::EMPTY, |home| home.interested());
        for place in interested.iter() {
            let message = ToSubscriber::Presence { path: path.clone(), on };
            self.send(place, message, effects);
        }
    }
}

fn session_path(session: SessionId) -> Option<Path> {
    Path::parse(&format!("{SESSIONS}{session}")).ok()
}

/// Whether a topic shows a session of a place.
pub(crate) fn shows_session_of(path: &Path, place: Place) -> bool {
    let path = path.as_str();
    let shows = path.starts_with(SESSIONS) || path.starts_with(PRESENCE);
    let last = path.rsplit_once('/').map_or("", |(_, last)| last);
    let shard = last.strip_prefix('s').and_then(|id| id.split_once('-'));
    shows && shard.is_some_and(|(shard, _)| shard.parse() == Ok(place.shard.0))
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
    use crate::broker::Broker;
    use tiderace_base::ShardId;

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
                let before = broker.session_side().sessions.presence().changes_waiting();
                broker.work(now, &mut Effects::default());
                assert!(
                    before - broker.session_side().sessions.presence().changes_waiting()
                        <= CHANGES_PER_TURN
                );
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
        assert!(
            sessions.iter().all(|it| broker
                .session_side()
                .sessions
                .presence()
                .paths_of(key_of(*it))
                .is_empty())
        );
    }
}
