//! Rights that let somebody do at a path of the node what another right stands for there.
//!
//! Data alone: who decides asks here, and so does who explains. Invariant: each is one that looks after the node. To listen somewhere
//! they are enough only if no rule speaks of subscribing there.

use tiderace_topics::{Path, Pattern};
use tiderace_wire::{AUDIT, Kind, TRACE};

use crate::action::Action;

/// Below it stands a topic for each alarm.
const ALARMS: &str = "$sys/alarms";

/// Where the rules look for who may see the sessions.
pub(crate) const SESSIONS: &str = "$sys/sessions";
/// Where they look for who may send sessions elsewhere.
pub(crate) const DRAIN: &str = "$sys/drain";
/// Where they look for who may keep somebody out.
pub(crate) const BLOCKS: &str = "$sys/blocks";
/// Where they look for who may see what the node counts.
pub(crate) const STATS: &str = "$sys/stats";
/// Where they look for who may say what is written to the log.
pub(crate) const LOG: &str = "$sys/log";

/// Where they look for who may read the metrics.
const METRICS: &str = "$sys/metrics";

/// The other rights of which each is enough to do at a path of the node what an action stands for there.
pub fn implying(action: Action, about: &str) -> &'static [Action] {
    match (about, action) {
        (SESSIONS | BLOCKS | TRACE | DRAIN | AUDIT | LOG, Action::Operate) => &[Action::Admin],
        (SESSIONS, Action::Browse) => &[Action::Monitor, Action::Admin],
        (SESSIONS | STATS | METRICS, Action::Monitor) => &[Action::Admin],
        (DRAIN, Action::Monitor) => &[Action::Operate, Action::Admin],
        _ => &[],
    }
}

/// Rights of which one is enough to listen somewhere.
pub(crate) struct Implied {
    pub(crate) by: &'static [Action],
    /// Where they have to be held: at the path itself if it is none.
    pub(crate) at: Option<Path>,
}

impl Implied {
    /// Those for that. Who may monitor or administer alarms may listen to them, and who may begin traces to their events.
    pub(crate) fn of(action: Action, kind: Kind, path: &str) -> Option<Implied> {
        if action != Action::Subscribe || kind != Kind::Topic || !path.starts_with('$') {
            return None;
        }
        let is_below = |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'));
        if is_below(ALARMS) {
            return Some(Implied { by: &[Action::Monitor, Action::Admin], at: None });
        }
        let at = is_below(TRACE).then(|| Path::parse(TRACE).ok()).flatten()?;
        Some(Implied { by: &[Action::Operate, Action::Admin], at: Some(at) })
    }

    /// The same for all that a pattern names.
    pub(crate) fn of_all(action: Action, kind: Kind, pattern: &Pattern) -> Option<Implied> {
        Implied::of(action, kind, &(pattern.literal_prefix() + "/"))
    }
}
