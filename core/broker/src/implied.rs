//! Rights that let somebody listen to what the server tells, besides the right to subscribe there.
//!
//! Data alone. Invariant: each is one that looks after the node, and is asked for only if no rule speaks of subscribing there.

use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Kind, TRACE};

use crate::action::Action;

/// Below it stands a topic for each alarm.
const ALARMS: &str = "$sys/alarms";

/// Rights of which one is enough to listen somewhere.
pub(crate) struct Implied {
    pub(crate) by: &'static [Action],
    /// Where they have to be held: at the path itself if it is none.
    pub(crate) at: Option<Path>,
}

impl Implied {
    /// Those for that. Who may monitor alarms may listen to them, and who may begin traces to their events.
    pub(crate) fn of(action: Action, kind: Kind, path: &str) -> Option<Implied> {
        if action != Action::Subscribe || kind != Kind::Topic || !path.starts_with('$') {
            return None;
        }
        let is_below = |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'));
        if is_below(ALARMS) {
            return Some(Implied { by: &[Action::Monitor], at: None });
        }
        let at = is_below(TRACE).then(|| Path::parse(TRACE).ok()).flatten()?;
        Some(Implied { by: &[Action::Operate, Action::Admin], at: Some(at) })
    }

    /// The same for all that a pattern names.
    pub(crate) fn of_all(action: Action, kind: Kind, pattern: &Pattern) -> Option<Implied> {
        Implied::of(action, kind, &(pattern.literal_prefix() + "/"))
    }
}
