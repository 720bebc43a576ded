//! Whether somebody may do something at a topic's home, where it is known who owns what is there; see
//! [`crate::access`].

use tiderace_base::{Close, CloseCode};
use tiderace_queues::is_private;
use tiderace_topics::Path;
use tiderace_wire::{Kind, TopicSpec, is_temporary};

use crate::access::is_owned_by;
use crate::authorise::is_reserved;
use crate::home_side::HomeSide;
use crate::requester::Requester;
use crate::temporary::only_passes_on;
use crate::{Action, Principal};

impl HomeSide<'_> {
    /// At a topic's home: whether somebody may do that there, by the rules or as the owner of the topic
    /// that is there.
    ///
    /// # Errors
    /// Says what is not allowed.
    pub(crate) fn may_operate(
        &self,
        requester: &Requester,
        action: Action,
        path: &Path,
    ) -> Result<(), Close> {
        self.may_operate_on(requester, action, path, None)
    }

    /// The same where the topic is about to be made with a specification, which the rules have allowed
    /// already: its owner counts as if the topic were there.
    pub(crate) fn may_operate_on(
        &self,
        requester: &Requester,
        action: Action,
        path: &Path,
        made: Option<&TopicSpec>,
    ) -> Result<(), Close> {
        let principal = &requester.principal;
        let reserved = is_reserved(path) && action != Action::Subscribe;
        if reserved && !principal.is_server() {
            let reason = format!("{path} is the server's own; nobody else writes below $sys");
            return Err(Close::new(CloseCode::TopicReadOnly, reason));
        }
        if is_temporary(path) && !principal.is_server() {
            return Err(only_passes_on(path));
        }
        let own = match made {
            Some(spec) => is_owned_by(spec, principal, path),
            None => self.is_owner(principal, action, path),
        };
        if own || self.options.may(requester.caller(), action, Kind::Topic, path) {
            return Ok(());
        }
        Err(self.options.rules.refusal(principal, action, Kind::Topic, path))
    }

    /// At a topic's home: whether a principal owns the topic that is there. Where none is, the owner that
    /// the configuration names may publish and subscribe, but not create it.
    pub(crate) fn is_owner(&self, principal: &Principal, action: Action, path: &Path) -> bool {
        principal.may_own_at(path) && self.owner_of(action, path) == Some(&*principal.name)
    }

    /// The name that may do that there as the owner.
    pub(crate) fn owner_of(&self, action: Action, path: &Path) -> Option<&str> {
        if is_private(path) {
            return None;
        }
        match self.topic_named(path).filter(|topic| topic.is_known()) {
            Some(topic) => topic.spec().owner.as_deref(),
            None if action == Action::Create => None,
            None => self.options.topic(path).owner.as_deref(),
        }
    }
}
