//! Owners: the principal that a topic's specification names may publish and subscribe there, whatever
//! the rules say.
//!
//! The session's shard does not know owners. Where the rules refuse a login with a name, it asks the
//! topic's home instead of refusing: a publication travels as one that only the owner may make, and a
//! subscription waits for the answer. Invariants: what the rules allow takes no other way than
//! before; anonymous sessions own nothing; every subscription that waits is answered once, or its
//! session has ended; what is private is shown to nobody for owning a topic there.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_queues::is_private;
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Reply, Subscribe, SubscriptionKey, Target};

use crate::access::is_owned_by;
use crate::authorise::Caller;
use crate::authorise::denied;
use crate::authorise::is_reserved;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToHome, ToNotices};
use crate::owner_requests::OwnerAnswer;
use crate::places::Place;
use crate::publisher::Recipients;
use crate::server_topics::Publication;
use crate::session_side::SessionSide;
use crate::spans::traced_of;
use crate::subscriber_list::Subscriber;
use crate::temporary::TemporaryOwner;
use crate::together::RecoveriesTogether;
use crate::{Action, Principal};

impl SessionSide<'_> {
    /// Under which name a session may own a topic to which the rules let it not publish, if it may own it: then the
    /// home decides.
    #[cold]
    pub(crate) fn name_of_owner(
        &self,
        session: SessionId,
        destination: &Destination,
    ) -> Option<Arc<str>> {
        self.owner_name(session).filter(|_| self.may_own(session, destination))
    }

    /// Whether a session may be the owner of a destination.
    pub(crate) fn may_own(&self, session: SessionId, destination: &Destination) -> bool {
        let path = &destination.path;
        destination.kind == Kind::Topic
            && !is_reserved(path)
            && !is_private(path)
            && self.principal_of(session).is_some_and(|principal| principal.may_own_at(path))
    }

    /// The name under which a session may own topics.
    fn owner_name(&self, session: SessionId) -> Option<Arc<str>> {
        let principal = self.principal_of(session)?;
        (!principal.anonymous).then(|| principal.name.clone())
    }

    /// On the session's shard: the rules refuse a subscription; given back if nobody is asked.
    pub(crate) fn subscribe_if_owner(
        &mut self,
        session: SessionId,
        subscribe: Subscribe,
        close: Close,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) -> Option<(Subscribe, Close)> {
        if close.code != CloseCode::NotAuthorised {
            return Some((subscribe, close));
        }
        let (Some(principal), Some(name)) = (self.principal_of(session), self.owner_name(session))
        else {
            return Some((subscribe, close));
        };
        let caller = Caller { session, principal: &principal };
        let mut refused = Vec::new();
        for target in &subscribe.targets {
            match target {
                _ if self.options.may_listen(caller, target).is_ok() => {}
                Target::Exact(Destination { kind: Kind::Topic, path })
                    if !is_private(path) && !is_reserved(path) =>
                {
                    refused.push(path.clone())
                }
                _ => return Some((subscribe, close)),
            }
        }
        let Some(path) = refused.last().cloned() else { return Some((subscribe, close)) };
        let epoch = self.sessions.next_epoch();
        let key = subscribe.key;
        if recovers(&subscribe) {
            self.begin_recovering(session, recoveries, effects);
        }
        self.sessions.owners_mut().ask(session, (subscribe, epoch), refused, close);
        self.ask_owner(SubscribeRequestId { session, key, target: 0, epoch }, name, path, effects);
        None
    }

    fn ask_owner(
        &mut self,
        request: SubscribeRequestId,
        name: Arc<str>,
        path: Path,
        effects: &mut Effects,
    ) {
        let home = self.options.home_of(&path);
        self.send(home, ToHome::IsOwner { request, name, path }, effects);
    }

    /// On the session's shard: a topic is about to be asked for messages for its owner. Somebody else may
    /// own it by the time that its home hears of it.
    pub(crate) fn announce_owner(
        &mut self,
        request: SubscribeRequestId,
        path: &Path,
        effects: &mut Effects,
    ) {
        if !self.is_owned(request.session, request.key) {
            return;
        }
        let Some(principal) = self.principal_of(request.session) else { return };
        let caller = Caller { session: request.session, principal: &principal };
        if self.options.may(caller, Action::Subscribe, Kind::Topic, path) {
            return;
        }
        let (home, name) = (self.options.home_of(path), principal.name.clone());
        self.send(home, ToHome::AsOwner { request, name }, effects);
    }

    /// On the session's shard: a home has said whether it is the owner; a subscription that begins for it.
    #[must_use = "it is to begin"]
    pub(crate) fn owner_answered(
        &mut self,
        request: SubscribeRequestId,
        owned: bool,
        effects: &mut Effects,
    ) -> Option<Box<Subscribe>> {
        let session = request.session;
        match self.sessions.owners_mut().answered(&request, owned) {
            None => {}
            Some(OwnerAnswer::Next(path)) => {
                match self.owner_name(session) {
                    Some(name) => self.ask_owner(request, name, path, effects),
                    // It has logged in anew as nobody, who owns nothing.
                    None => {
                        let ended = self.sessions.owners_mut().end(session, request.key);
                        if let Some((subscribe, close)) = ended {
                            self.refuse_pending(session, &subscribe, close, effects);
                        }
                    }
                }
            }
            Some(OwnerAnswer::Begins(subscribe)) => return Some(subscribe),
            Some(OwnerAnswer::Refused(subscribe, close)) => {
                self.metrics.denied += 1;
                self.refuse_pending(session, &subscribe, close, effects);
            }
        }
        None
    }

    /// A subscription ends that may still wait for owners: its client hears of it if it waits for an answer.
    pub(crate) fn forget_asked(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        if let Some((subscribe, close)) = self.sessions.owners_mut().end(session, key) {
            match subscribe.confirm {
                Some(_) => self.refuse_pending(session, &subscribe, close, effects),
                None if recovers(&subscribe) => self.end_recovering(session, effects),
                None => {}
            }
        }
    }

    /// A home that was asked for the owner does not answer.
    pub(crate) fn refuse_asked(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        close: &Close,
        effects: &mut Effects,
    ) {
        if let Some((subscribe, _)) = self.sessions.owners_mut().end(session, key) {
            self.refuse_pending(session, &subscribe, close.clone(), effects);
        }
    }

    /// A subscription that waited for owners does not begin.
    fn refuse_pending(
        &mut self,
        session: SessionId,
        subscribe: &Subscribe,
        close: Close,
        effects: &mut Effects,
    ) {
        if recovers(subscribe) {
            self.end_recovering(session, effects);
        }
        let reply = Reply::no_subscription(subscribe.key, subscribe.confirm, close);
        self.reply(session, reply, effects);
    }

    /// A session has ended.
    pub(crate) fn forget_all_asked(&mut self, session: SessionId) {
        self.sessions.owners_mut().end_session(session);
    }

    /// Whether a subscription is there for its session owns what it names.
    pub(crate) fn is_owned(&self, session: SessionId, key: SubscriptionKey) -> bool {
        self.sessions.owners().is_owned(session, key)
    }

    /// Whether a target of a subscription is a topic that its session owns. A pattern beside it, which
    /// the rules allow, shows what they allow and nothing more.
    pub(crate) fn is_owned_target(&self, request: &SubscribeRequestId) -> bool {
        if !self.is_owned(request.session, request.key) {
            return false;
        }
        let record = self.session(request.session);
        let subscription = record.and_then(|record| record.subscription(request.key));
        let targets = subscription.map(|subscription| subscription.targets.as_slice());
        let listening = targets.and_then(|targets| targets.get(usize::from(request.target)));
        listening.is_some_and(|listening| matches!(listening.target, Target::Exact(_)))
    }

    /// Whether a subscriber may not have a topic any more that it owned.
    pub(crate) fn is_disowned(&self, topic: Key, to: Subscriber) -> bool {
        let session = self.id_of(to.session);
        if !self.is_owned(session, to.key) {
            return false;
        }
        let (Some(topic), Some(principal)) =
            (self.directory.get(topic), self.principal_of(session))
        else {
            return true;
        };
        let caller = Caller { session, principal: &principal };
        !is_owned_by(&topic.spec, &principal, &topic.path)
            && !self.options.may(caller, Action::Subscribe, Kind::Topic, &topic.path)
    }

    /// Whether a session that is somebody else now keeps a subscription that the rules refuse.
    pub(crate) fn still_owns(
        &self,
        principal: &Principal,
        session: SessionId,
        key: SubscriptionKey,
        path: &Path,
    ) -> bool {
        let topic = self.directory.find(path).and_then(|key| self.directory.get(key));
        self.is_owned(session, key)
            && topic.is_some_and(|topic| is_owned_by(&topic.spec, principal, path))
    }
}

impl HomeSide<'_> {
    /// At a topic's home: somebody publishes who may do that only as its owner.
    pub(crate) fn publish_as_owner(
        &mut self,
        now: Now,
        from: Place,
        publication: Publication,
        many: bool,
        effects: &mut Effects,
    ) {
        let Some(Publication { run, origin, author, confirm, .. }) =
            self.admit_as_owner(publication, effects)
        else {
            return;
        };
        let (origin, author) = (Some(origin), Some(author));
        // No temporary destination has an owner.
        let known = Recipients { owner: TemporaryOwner::NotTemporary, many };
        self.publish_at_home(now, from, run, origin, author, confirm, known, effects);
    }

    /// Gives messages back if their session owns the topic; otherwise they are refused.
    pub(crate) fn admit_as_owner(
        &mut self,
        publication: Publication,
        effects: &mut Effects,
    ) -> Option<Publication> {
        let Publication { run, origin, author, confirm, blame } = &publication;
        let path = &run.destination().path;
        if self.owner_of(Action::Publish, path) == Some(&**author) {
            self.metrics.messages_received += run.len() as u64;
            return Some(publication);
        }
        self.metrics.denied += 1;
        let close = denied(author, Action::Publish, Kind::Topic, path.as_str());
        self.refuse_run(Some(*origin), *confirm, *blame, &close, effects);
        effects.note_published(traced_of(run), Some(close.code));
        None
    }

    /// At a topic's home.
    pub(crate) fn answer_owner(
        &mut self,
        from: Place,
        request: SubscribeRequestId,
        name: &str,
        path: &Path,
        effects: &mut Effects,
    ) {
        let owned = self.owner_of(Action::Subscribe, path) == Some(name);
        self.send(from, ToNotices::OwnerAnswer { request, owned }, effects);
    }

    /// At a topic's home: the next request of that subscription is for the topic's owner.
    pub(crate) fn expect_owner(&mut self, request: SubscribeRequestId, name: Arc<str>) {
        self.home.owners_mut().expect(request, name);
    }

    /// At a topic's home: whether a request may be given what the topic has, which it may not if it is
    /// for an owner and somebody else owns the topic by now.
    pub(crate) fn is_as_expected(&mut self, request: &SubscribeRequestId, path: &Path) -> bool {
        let name = self.home.owners_mut().take(request);
        name.is_none_or(|name| self.owner_of(Action::Subscribe, path) == Some(&*name))
    }
}

/// Whether positions wait for a subscription.
pub(crate) fn recovers(subscribe: &Subscribe) -> bool {
    subscribe.recoverable || subscribe.since.is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::broker::Broker;
    use crate::messages::{Body, Envelope};
    use crate::{BrokerOptions, Rules};
    use tiderace_base::ShardId;
    use tiderace_wire::{Command, Commands, Credentials, Reply};

    /// A broker whose only session has asked for two topics of another home, which it may have as their owner; and
    /// what that home is asked first.
    fn asking() -> (Broker, SessionId, SubscribeRequestId) {
        let options = BrokerOptions { shards: 2, rules: Rules::new(vec![]), ..Default::default() };
        let mut broker = Broker::new(ShardId(0), Arc::new(options));
        let session = broker.open(Now::default(), 0);
        let mut commands = Commands::new();
        let login = Some("ann".to_owned());
        commands.push(Command::Login(Credentials { login, ..Credentials::default() }));
        let paths = (0..).map(|number| Path::parse(&format!("owned{number}")).unwrap());
        let theirs = paths
            .filter(|path| broker.home_side().options.home_of(path) == Place::here(ShardId(1)));
        let topic = |path| Target::Exact(Destination { kind: Kind::Topic, path });
        let targets = theirs.take(2).map(topic).collect();
        commands.push(Command::Subscribe(Box::new(Subscribe {
            recoverable: true,
            confirm: Some(1),
            ..Subscribe::new(SubscriptionKey(1), targets)
        })));
        let mut effects = Effects::default();
        broker.handle(Now::default(), session, &mut commands, &mut effects);
        let asked = effects.messages.drain(..).find_map(|message| match message.body {
            Body::Home(ToHome::IsOwner { request, .. }) => Some(request),
            _ => None,
        });
        assert_eq!(recovering(&broker, session), 1);
        (broker, session, asked.unwrap())
    }

    /// A message from the other home.
    fn from_home(message: ToNotices) -> Envelope {
        Envelope {
            from: Place::here(ShardId(1)),
            to: Place::here(ShardId(0)),
            body: message.into(),
        }
    }

    fn recovering(broker: &Broker, session: SessionId) -> u32 {
        broker.session(session).unwrap().rare.as_ref().map_or(0, |rare| rare.recovering)
    }

    fn is_refused(effects: &Effects) -> bool {
        effects
            .replies
            .iter()
            .any(|(.., reply)| matches!(reply, Reply::Refused { token: Some(1), .. }))
    }

    #[test]
    fn positions_wait_no_longer_for_what_is_refused_or_given_up() {
        let (mut broker, session, request) = asking();
        let mut effects = Effects::default();
        let answer = ToNotices::OwnerAnswer { request, owned: false };
        broker.receive(Now::default(), from_home(answer), &mut effects);
        assert!(is_refused(&effects));
        assert_eq!(recovering(&broker, session), 0);
        let (mut broker, session, _) = asking();
        let mut commands = Commands::new();
        commands.push(Command::Unsubscribe { key: SubscriptionKey(1), confirm: None });
        broker.handle(Now::default(), session, &mut commands, &mut effects);
        assert_eq!(recovering(&broker, session), 0);
    }

    #[test]
    fn a_session_that_is_anonymous_by_now_is_refused() {
        let (mut broker, session, request) = asking();
        let (mut commands, mut effects) = (Commands::new(), Effects::default());
        commands.push(Command::Login(Credentials::default()));
        broker.handle(Now::default(), session, &mut commands, &mut effects);
        assert!(!is_refused(&effects));
        // The first of two: the other is not asked for.
        let answer = ToNotices::OwnerAnswer { request, owned: true };
        broker.receive(Now::default(), from_home(answer), &mut effects);
        assert!(is_refused(&effects), "{effects:?}");
        assert_eq!(recovering(&broker, session), 0);
    }
}
