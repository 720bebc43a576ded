//! What somebody may be allowed to do, by its names in the configuration.
//!
//! Data alone. Invariant: each action has one name.

/// Something an identity may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Administer the server.
    Admin,
    /// List sessions, queues and services, and how they fare.
    Browse,
    /// Call a service.
    Call,
    /// Create and remove destinations explicitly.
    Create,
    /// Purge a queue, move its messages to others, pause it.
    Manage,
    /// Read metrics and health in detail.
    Monitor,
    /// End sessions, and send them elsewhere; say what the log has.
    Operate,
    /// Publish to a topic.
    Publish,
    /// Consume from a queue.
    Receive,
    /// Pass on what clients of another node ask for there.
    Relay,
    /// Send to a queue.
    Send,
    /// Answer the calls of a service.
    Serve,
    /// Subscribe to a topic.
    Subscribe,
}

impl Action {
    /// All actions with their names in the configuration.
    pub const ALL: [(&'static str, Action); 13] = [
        ("admin", Action::Admin),
        ("browse", Action::Browse),
        ("call", Action::Call),
        ("create", Action::Create),
        ("manage", Action::Manage),
        ("monitor", Action::Monitor),
        ("operate", Action::Operate),
        ("publish", Action::Publish),
        ("receive", Action::Receive),
        ("relay", Action::Relay),
        ("send", Action::Send),
        ("serve", Action::Serve),
        ("subscribe", Action::Subscribe),
    ];

    /// Its name in the configuration and in errors.
    pub fn name(self) -> &'static str {
        Action::ALL.iter().find(|(_, action)| *action == self).map_or("", |(name, _)| name)
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u16);

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Actions {
        Actions(actions.into_iter().fold(0, |set, action| set | 1 << action as u8))
    }
}

impl Actions {
    /// Whether the action is in the set.
    pub fn contains(self, action: Action) -> bool {
        self.0 & 1 << action as u8 != 0
    }
}

impl Action {
    /// Whether it changes what is there, so that nobody does it below `$sys`.
    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Action::Call | Action::Create | Action::Manage | Action::Publish | Action::Send
        )
    }

    /// Whether it is how the node is looked after.
    #[inline]
    pub(crate) fn manages(self) -> bool {
        matches!(self, Action::Admin | Action::Monitor | Action::Operate)
    }

    /// Whether it shows, or takes away, what others have sent there.
    pub(crate) fn listens(self) -> bool {
        matches!(
            self,
            Action::Browse | Action::Manage | Action::Receive | Action::Serve | Action::Subscribe
        )
    }
}
