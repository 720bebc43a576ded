//! Whether a session may do something there: the question that every command and operation of every
//! protocol asks, and asks here alone.
//!
//! ```text
//!   rules of the configuration ─┐
//!   private paths ──────────────┼─▶ may (by path; on any shard)
//!   temporary destinations ─────┤
//!   server's own paths ─────────┘        └─ refused ─▶ may_operate (at the home: who owns what is there)
//! ```
//! Creating a topic is decided by the rules alone. The owner that a specification names counts once a
//! topic with that specification is there, and never on a private path. Relies on [`Rules`] for the rules and private paths. Invariant: nothing is
//! published, kept, shown or changed for a session unless one of these functions has allowed it.

use tiderace_base::Close;
use tiderace_queues::is_private;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    AUDIT, BACKUP, Destination, Entrance, IDENTITIES, Kind, NodeOperation, Operation, TRACE,
    Target, TopicSpec, is_temporary,
};

use crate::authorise::Caller;
use crate::authorise::denied;
use crate::authorise::is_elsewhere;
use crate::authorise::is_reserved;
use crate::implied::{BLOCKS, DRAIN, Implied, LOG, SESSIONS, STATS};
use crate::managed_elsewhere::managed_elsewhere;
use crate::requester::Requester;
use crate::temporary::{means_temporary, not_owner};
use crate::{Action, BrokerOptions, Principal};

/// Where they look for who may see the configuration, and have it read again.
const CONFIG: &str = "$sys/config";

impl Requester {
    /// The same, as the one who asks.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller { session: self.session, principal: &self.principal }
    }
}

impl BrokerOptions {
    /// Whether somebody may do that there, as far as the path tells.
    pub(crate) fn may(&self, caller: Caller<'_>, action: Action, kind: Kind, path: &Path) -> bool {
        if action.writes() && is_reserved(path) && !caller.principal.is_server() {
            return false;
        }
        if is_temporary(path) && !caller.principal.is_server() {
            return self.may_temporarily(caller, action, path);
        }
        self.rules.authorise(caller.principal, action, kind, path)
    }

    /// Whether an operation may be asked for by the way that somebody has come: one that looks after the node is answered by none
    /// that is for clients alone. Every protocol asks here, before anything else is decided.
    ///
    /// # Errors
    /// Says where it is answered.
    pub(crate) fn may_come_by(principal: &Principal, operation: &Operation) -> Result<(), Close> {
        match principal.entrance {
            Entrance::Clients if operation.manages() => Err(managed_elsewhere()),
            Entrance::Clients | Entrance::Rules | Entrance::Admin(_) => Ok(()),
        }
    }

    /// Whether somebody may see how others fare: who may monitor or administer, or has that right.
    pub(crate) fn may_watch(&self, principal: &Principal, right: Action) -> Result<(), Close> {
        let may = self.rules.may_at_node(principal, right, SESSIONS);
        if may { Ok(()) } else { Err(denied(&principal.name, right, Kind::Topic, SESSIONS)) }
    }

    /// Whether somebody may ask that of the node: who may administer what it concerns, such as `$sys/drain`, or, unless that
    /// is the configuration, operate it. Who may monitor that may ask how it stands.
    pub(crate) fn may_ask_node(
        &self,
        principal: &Principal,
        operation: &Operation,
    ) -> Result<(), Close> {
        let (about, right) = match operation {
            Operation::Sessions(_) => (SESSIONS, Action::Monitor),
            Operation::Node(asked) => match &**asked {
                NodeOperation::Reload { .. }
                | NodeOperation::Config(_)
                | NodeOperation::Explain(_) => (CONFIG, Action::Admin),
                NodeOperation::Backup { .. } | NodeOperation::BackupRead { .. } => {
                    (BACKUP, Action::Admin)
                }
                NodeOperation::Identities(_) => (IDENTITIES, Action::Admin),
                NodeOperation::Audit(_) => (AUDIT, Action::Operate),
                NodeOperation::Log { .. } => (LOG, Action::Operate),
            },
            Operation::Kick(_) => (SESSIONS, Action::Operate),
            Operation::Blocks(_) => (BLOCKS, Action::Operate),
            Operation::Traces(_) => (TRACE, Action::Operate),
            Operation::Stats => (STATS, Action::Monitor),
            Operation::DrainState => (DRAIN, Action::Monitor),
            _ => (DRAIN, Action::Operate),
        };
        let may = self.rules.may_at_node(principal, right, about);
        if may { Ok(()) } else { Err(denied(&principal.name, right, Kind::Topic, about)) }
    }

    /// Whether somebody may see what there is to know of a topic but its value.
    pub(crate) fn may_show_topic(&self, caller: Caller<'_>, path: &Path) -> Result<(), Close> {
        if self.may(caller, Action::Browse, Kind::Topic, path) {
            return Ok(());
        }
        Err(denied(&caller.principal.name, Action::Browse, Kind::Topic, path.as_str()))
    }

    /// Whether somebody may gather all that these topics say: each pattern has to be allowed as a whole, since nobody
    /// asks again when a message comes.
    ///
    /// # Errors
    /// Says what is not allowed.
    pub(crate) fn may_gather(&self, caller: Caller<'_>, topics: &[Pattern]) -> Result<(), Close> {
        let (principal, action) = (caller.principal, Action::Subscribe);
        for topic in topics {
            let allowed = match topic.as_path() {
                _ if means_temporary(topic) => false,
                Some(path) => {
                    let target = Target::Exact(Destination { kind: Kind::Topic, path });
                    self.may_listen(caller, &target).is_ok()
                }
                None => self.rules.authorise_all(principal, action, Kind::Topic, topic),
            };
            if !allowed {
                return Err(denied(&principal.name, action, Kind::Topic, topic.as_str()));
            }
        }
        Ok(())
    }

    /// Whether somebody may listen to that, as far as its name tells.
    ///
    /// # Errors
    /// Says what is not allowed.
    pub(crate) fn may_listen(&self, caller: Caller<'_>, target: &Target) -> Result<(), Close> {
        let (kind, name) = match target {
            Target::Exact(destination) => (destination.kind, destination.path.as_str()),
            Target::Pattern(kind, pattern) => (*kind, pattern.as_str()),
        };
        let action = match kind {
            Kind::Queue => Action::Receive,
            Kind::Service => Action::Serve,
            Kind::Topic => Action::Subscribe,
        };
        let (rules, principal) = (&self.rules, caller.principal);
        let allowed = match target {
            Target::Exact(destination) => self.may(caller, action, kind, &destination.path),
            Target::Pattern(_, pattern) if means_temporary(pattern) => false,
            // A pattern on queues or services takes from others: it must be allowed as a whole.
            Target::Pattern(Kind::Queue | Kind::Service, pattern) => {
                rules.authorise_all(principal, action, kind, pattern)
            }
            Target::Pattern(Kind::Topic, pattern) => {
                rules.authorise_somewhere(principal, action, pattern)
            }
        };
        match target {
            _ if allowed => Ok(()),
            Target::Exact(destination) if is_temporary(&destination.path) => Err(not_owner(name)),
            Target::Pattern(_, pattern) if means_temporary(pattern) => Err(not_owner(name)),
            // Who looks after the node may listen there, but not by this way.
            _ if is_elsewhere(principal, Action::Monitor)
                && Implied::of(action, kind, name).is_some() =>
            {
                Err(managed_elsewhere())
            }
            _ => Err(denied(&principal.name, action, kind, name)),
        }
    }
}

/// Whether a principal has what a specification gives to its owner, on a path.
pub(crate) fn is_owned_by(spec: &TopicSpec, principal: &Principal, path: &Path) -> bool {
    spec.owner.as_deref() == Some(&*principal.name)
        && principal.may_own_at(path)
        && !is_private(path)
}
