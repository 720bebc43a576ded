//! What an edge passes on to an upstream for a client, and what is not passed on.
//!
//! Relies on nothing that acts. Invariant: a request says for whom it is made.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_wire::{
    Command, Confirm, EndPrincipal, Operation, Run, SubscriptionKey, Target, ToUpstream,
};

use crate::requester::Requester;

/// A request for what an upstream keeps.
#[derive(Debug)]
pub struct Relay {
    /// Who waits for the answer.
    pub session: SessionId,
    /// Who that is.
    pub principal: Arc<EndPrincipal>,
    /// What is wanted.
    pub wanted: Wanted,
}

/// What is wanted of an upstream.
#[derive(Debug)]
pub enum Wanted {
    /// That it takes messages.
    Publish {
        /// The messages, not numbered.
        run: Box<Run>,
        /// Receipts to confirm.
        confirm: Option<Confirm>,
    },
    /// That it does something with topics.
    Operate {
        /// Who asks.
        requester: Box<Requester>,
        /// What is to be done.
        operation: Box<Operation>,
    },
    /// That it hears something of a consumer there, behind what the session has asked for before. It is of no use once the
    /// connection is lost, with which the consumer ends.
    Say {
        /// What.
        asked: Box<ToUpstream>,
        /// Receipts to confirm.
        confirm: Option<Confirm>,
    },
}

impl Wanted {
    /// The consumer that something is said of, by its key there.
    pub(crate) fn consumer(&self) -> Option<SubscriptionKey> {
        let Wanted::Say { asked, .. } = self else { return None };
        match **asked {
            ToUpstream::Settle { key, .. }
            | ToUpstream::Credit { key, .. }
            | ToUpstream::Leave { key, .. } => Some(key),
            _ => None,
        }
    }
}

impl Relay {
    /// An operation.
    pub(crate) fn operation(
        principal: EndPrincipal,
        requester: Requester,
        operation: Operation,
    ) -> Box<Relay> {
        let session = requester.session;
        let (requester, operation) = (Box::new(requester), Box::new(operation));
        let wanted = Wanted::Operate { requester, operation };
        Box::new(Relay { session, principal: Arc::new(principal), wanted })
    }

    /// Messages of a session.
    pub(crate) fn publication(
        principal: EndPrincipal,
        session: SessionId,
        run: Run,
        confirm: Option<Confirm>,
    ) -> Box<Relay> {
        let wanted = Wanted::Publish { run: Box::new(run), confirm };
        Box::new(Relay { session, principal: Arc::new(principal), wanted })
    }

    /// Bytes of the messages and texts in it, as they are sent: with a body that lies in a file, and with whose they are, for
    /// the upstream may have to be told again.
    pub(crate) fn bytes(&self) -> usize {
        let own = match &self.wanted {
            Wanted::Publish { run, .. } => {
                run.bytes() + run.body_in_file().map_or(0, |it| it.len())
            }
            Wanted::Operate { operation, .. } => operation.bytes(),
            Wanted::Say { asked, .. } => bytes_said(asked),
        };
        size_of::<Relay>() + self.principal.bytes() + own
    }
}

/// Bytes of what is said of a consumer.
pub(crate) fn bytes_said(asked: &ToUpstream) -> usize {
    let ranges = match asked {
        ToUpstream::Settle { parts, .. } => parts.iter().map(|(_, ranges)| ranges.len()).sum(),
        _ => 0,
    };
    size_of::<ToUpstream>() + ranges * size_of::<(u64, u64)>()
}

/// Whether a command may be one of those between the marks.
pub(crate) fn is_relayed(command: &Command) -> bool {
    match command {
        Command::Publish { .. }
        | Command::Operate { .. }
        | Command::Call(_)
        | Command::ActAs(_) => true,
        Command::Subscribe(subscribe) => subscribe.targets.iter().all(Target::is_queue),
        _ => false,
    }
}

/// Why something is not passed on.
pub(crate) fn belongs_to_session() -> Close {
    let reason = "another server keeps this topic, and what belongs to a session (locks, claims, topics that go with \
                  their session, transactions) is not passed on to it; connect to that server for it";
    Close::new(CloseCode::TopicElsewhere, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{ShardId, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, RunBuilder};

    #[test]
    fn all_that_is_sent_counts() {
        let path = Path::parse("a").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
        builder.finish_in_file(vec![0; 1 << 20].into(), Default::default());
        let run = builder.build();
        let claims = [("tenant".into(), "x".repeat(10_000).into())].into();
        let end = EndPrincipal::new("ann".into(), [].into(), claims, false).unwrap();
        let session = SessionId { shard: ShardId(0), slot: 0, generation: 0 };
        let bytes = Relay::publication(end, session, run, None).bytes();
        assert!((1_058_000..1_060_000).contains(&bytes), "{bytes}");
    }
}
