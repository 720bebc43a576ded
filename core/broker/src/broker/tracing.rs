//! What the event loop asks about what it traces: how the server calls a destination, who may read it, and where events go.
//!
//! Nothing of the broker knows of traces, so that they cost nothing here. Relies on the rules as they are now. Invariant: what is shown
//! of a body goes to a topic that is shown to those alone who may see the body.

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, NamedHost, SubscriptionKey, TRACE, Target};

use super::Broker;
use crate::authorise::Caller;
use crate::places::key_of;
use crate::subscriptions::Entry;
use crate::{Action, Principal};

impl Broker {
    /// How the server calls what a session calls so.
    pub fn whole_path(&self, session: SessionId, kind: Kind, path: &Path) -> Path {
        let root = self.sessions.get(key_of(session)).and_then(|record| record.root());
        root.and_then(|root| root.path(kind, path).ok()).unwrap_or_else(|| path.clone())
    }

    /// How the server calls what a session listens to.
    pub fn whole_name(&self, session: SessionId, target: &Target) -> String {
        let root = self.sessions.get(key_of(session)).and_then(|record| record.root());
        let entered = match (root, target) {
            (None, _) => None,
            (Some(root), Target::Exact(Destination { kind, path })) => {
                root.path(*kind, path).ok().map(|path| path.as_str().to_owned())
            }
            (Some(root), Target::Pattern(kind, pattern)) => {
                root.pattern(*kind, pattern).ok().map(|pattern| pattern.as_str().to_owned())
            }
        };
        entered.unwrap_or_else(|| target.name().to_owned())
    }

    /// How somebody is called who wants to log in by a name: with the virtual host that it, or its session, has named.
    pub fn called_at_login(&self, session: SessionId, login: &str, host: Option<&str>) -> String {
        let record = self.sessions.get(key_of(session));
        let known = record.and_then(|it| it.rare.as_ref()?.host.as_ref());
        let said = host.map(|text| self.options.virtual_hosts.named(text));
        match said.as_ref().or(known.map(|host| &host.named)) {
            Some(NamedHost::Known(host)) => format!("@{host}/{login}"),
            _ => login.to_owned(),
        }
    }

    /// Whether what a session acknowledges by a subscription is work of queues.
    pub fn acknowledges_work(&self, session: SessionId, key: SubscriptionKey) -> bool {
        let record = self.sessions.get(key_of(session));
        match record.and_then(|record| record.subscriptions.get(key)) {
            Some(Entry::Full(subscription)) => {
                let mut targets = subscription.targets.as_slice().iter();
                targets.any(|listening| listening.target.is_queue())
            }
            _ => false,
        }
    }

    /// Whether somebody who has asked for a trace is still who it was, and may still ask for one.
    pub fn may_trace(&self, principal: &Principal) -> bool {
        let admitted = self.admit_login(principal.clone());
        admitted.is_ok_and(|admitted| admitted.is_same_as(principal))
            && self.options.rules.may_at_node(principal, Action::Operate, TRACE)
    }

    /// Whether somebody may see the messages of a destination; of a service, whether it may answer them.
    pub fn may_read(&self, principal: &Principal, kind: Kind, path: &Path) -> bool {
        let action = match kind {
            Kind::Queue => Action::Receive,
            Kind::Service => Action::Serve,
            Kind::Topic => Action::Subscribe,
        };
        self.options.rules.authorise(principal, action, kind, path)
    }

    /// The topic for the events of a trace that a session asks for. One with bodies is for who has asked for it.
    ///
    /// # Errors
    /// When there is no topic that it alone may read.
    pub fn trace_topic(&self, session: SessionId, id: u64, bodies: bool) -> Result<Path, Close> {
        let plain = format!("{TRACE}/{id}");
        let principal = self.principal_of(session).filter(|_| bodies);
        let topic = match principal {
            None => plain,
            // Where there are no rules, everybody may read everything but what is private, which nobody shows to it.
            Some(asking) if asking.anonymous && self.options.rules.allow_everything() => plain,
            Some(asking) => format!("{TRACE}/user/{}/{id}", asking.name),
        };
        let path = Path::parse(&topic).ok();
        let own = |path: &Path| match principal {
            Some(asking) => {
                let caller = Caller { session, principal: asking };
                self.options.may(caller, Action::Subscribe, Kind::Topic, path)
                    && (topic.matches('/').count() == 4 || asking.anonymous)
            }
            None => true,
        };
        path.filter(own).ok_or_else(|| {
            let reason = "bodies are shown to those alone who have asked for them: log in by a name that can be a level of a path";
            Close::new(CloseCode::NotAuthorised, reason)
        })
    }
}
