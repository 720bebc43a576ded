//! Which operations look after the node: those that take the right to monitor, operate or administer something of it.
//!
//! Each operation is named here, so that none comes without a decision. Invariant: one that a verb of [`tiderace_manage`] makes is
//! among them if the verb takes a right below `$sys`, and only then.

use super::{Browsable, Operation};

/// Below it stands a topic for each alarm.
const ALARMS: &str = "$sys/alarms";

impl Operation {
    /// Whether it looks after the node, which listeners may leave to others.
    pub fn manages(&self) -> bool {
        match self {
            Operation::Sessions(_)
            | Operation::Kick(_)
            | Operation::Blocks(_)
            | Operation::Drain(_)
            | Operation::DrainCancel
            | Operation::DrainState
            | Operation::Stats
            | Operation::Traces(_)
            | Operation::Node(_)
            | Operation::View { .. }
            | Operation::Views => true,
            Operation::Browse(browse) => browse.what == Browsable::Sessions,
            // What applications ask of topics, unless it is for nothing but alarms.
            Operation::Fetch(fetch) => {
                let is_alarm = |prefix: &str| {
                    let rest = prefix.strip_prefix(ALARMS);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let selector = &fetch.selector;
                !selector.is_empty() && selector.iter().all(|it| is_alarm(&it.literal_prefix()))
            }
            Operation::Create { .. }
            | Operation::Remove { .. }
            | Operation::Update(_)
            | Operation::Topic { .. }
            | Operation::History(_)
            | Operation::Amend { .. }
            | Operation::Abandon { .. }
            | Operation::Lock { .. }
            | Operation::Unlock { .. }
            | Operation::Claim { .. }
            | Operation::Release { .. }
            | Operation::Will(_)
            | Operation::Session
            | Operation::Queue(_)
            | Operation::Peek(_)
            | Operation::Purge { .. }
            | Operation::Move(_)
            | Operation::PauseQueue { .. }
            | Operation::CreateSubscription(_)
            | Operation::DeleteSubscription { .. } => false,
        }
    }
}
