//! Topics that somebody wants and nobody knows: said on `$sys/missing/<path>` and `$sys/missing`, so
//! that a client may create them on demand.
//!
//! Every shard knows every pattern that is subscribed to, and exact subscriptions below
//! `$sys/missing` are taken as patterns; so a home knows without asking whether anybody listens.
//! Invariants: without listeners nothing is looked up, sent or kept; of each name it is said at most
//! once a second.

use tiderace_base::{Key, Now, SessionId};
use tiderace_queues::reaches;
use tiderace_topics::{Level, Path, Pattern};
use tiderace_value::append_text;
use tiderace_wire::{Destination, Kind, Subscribe, Target};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToNotices};
use crate::notice_side::NoticeSide;
use crate::places::Place;
use crate::principal::MISSING;
use crate::server_topics::{append_member, is_unspoken};

/// Topics a home looks at to find one that a pattern names; if there are more, it counts as found.
const LOOKED_AT_MAX: usize = 8192;

/// Lets every home know who listens to exactly one path here.
pub(super) fn widen(subscribe: &mut Subscribe) {
    for target in &mut subscribe.targets {
        if let Target::Exact(Destination { kind: Kind::Topic, path }) = target
            && path.as_str().starts_with("$sys/missing")
            && let Ok(pattern) = Pattern::parse(path.as_str())
        {
            *target = Target::Pattern(Kind::Topic, pattern);
        }
    }
}

impl HomeSide<'_> {
    /// At a topic's home: somebody has subscribed to it.
    pub(crate) fn report_unknown(
        &mut self,
        now: Now,
        topic: Key,
        session: SessionId,
        effects: &mut Effects,
    ) {
        if !self.home.missing().is_wanted() {
            return;
        }
        let topic = self.topic(topic).filter(|topic| !topic.is_known());
        let Some(path) = topic.map(|topic| topic.path().clone()) else { return };
        let heard = !is_unspoken(&path)
            && missing_path(&path).is_some_and(|path| self.is_awaited(&path))
            && self.home.missing_mut().may_tell(path.as_str(), now.time);
        if heard {
            let message = ToNotices::UnknownTopic { session, path };
            self.send(Place::of(session), message, effects);
        }
    }

    /// At every home: somebody has subscribed to a pattern.
    pub(crate) fn report_nothing(
        &mut self,
        from: Place,
        pattern: &Pattern,
        request: SubscribeRequestId,
        effects: &mut Effects,
    ) {
        let own =
            matches!(pattern.levels().first(), Some(Level::Literal(text)) if **text == *"$sys");
        if !self.home.missing().is_wanted() || own || !self.are_patterns_awaited() {
            return;
        }
        let mut left = LOOKED_AT_MAX;
        let found = self.directory.walk(&pattern.literal_prefix(), None).any(|(_, topic)| {
            left -= 1;
            left == 0 || self.home.at(topic).is_known() && reaches(pattern, &topic.path)
        });
        if !found {
            self.send(from, ToNotices::NoTopics { request }, effects);
        }
    }

    fn is_awaited(&self, path: &Path) -> bool {
        self.home.is_named(path)
    }

    /// Whether somebody wants to be told of patterns that name no topic.
    fn are_patterns_awaited(&self) -> bool {
        patterns_path().is_some_and(|path| self.is_awaited(&path))
    }
}

impl NoticeSide<'_> {
    /// On the subscriber's shard: its topic is not there.
    pub(crate) fn tell_unknown(
        &mut self,
        now: Now,
        session: SessionId,
        path: &Path,
        effects: &mut Effects,
    ) {
        if let Some(at) = missing_path(path) {
            self.tell_missing(now, session, "path", path.as_str(), at, effects);
        }
    }

    /// On the subscriber's shard: one more home has found nothing.
    pub(crate) fn count_nothing(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        effects: &mut Effects,
    ) {
        let record = self.sessions.session(request.session);
        let subscription = record.and_then(|record| record.subscription(request.key));
        let subscription = subscription.filter(|known| known.epoch == request.epoch);
        let listening = subscription
            .and_then(|known| known.targets.as_slice().get(usize::from(request.target)));
        let Some(Target::Pattern(_, pattern)) = listening.map(|it| &it.target) else { return };
        let text = pattern.to_string();
        let homes = self.sessions.options.shards;
        if !self.notices.missing_mut().count_nothing(&request, homes, now.time) {
            return;
        }
        let Some(at) = patterns_path() else { return };
        if self.notices.missing_mut().may_tell(&text, now.time) {
            self.tell_missing(now, request.session, "selector", &text, at, effects);
        }
    }

    fn tell_missing(
        &mut self,
        now: Now,
        session: SessionId,
        what: &str,
        name: &str,
        at: Path,
        effects: &mut Effects,
    ) {
        let Some(principal) = self.sessions.principal_of(session) else { return };
        let mut body = format!("{{\"{what}\":").into_bytes();
        append_text(&mut body, name);
        append_member(&mut body, "session", &session.to_string());
        append_member(&mut body, "by", &principal.name);
        body.push(b'}');
        self.sessions.tell(now, at, &body, effects);
    }
}

/// Where patterns are told that name no topic.
fn patterns_path() -> Option<Path> {
    Path::parse("$sys/missing").ok()
}

fn missing_path(path: &Path) -> Option<Path> {
    Path::parse(&format!("{MISSING}{path}")).ok()
}
