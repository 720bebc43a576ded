//! Temporary destinations at their homes, which are their sessions' shards; see [`crate::temporary`].

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Run, Target, TemporaryName, is_temporary};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::session_side::SessionSide;
use crate::temporary::TemporaryOwner;

impl HomeSide<'_> {
    /// At the home of a temporary destination: whether messages go there. If not, nobody would get them,
    /// or there is no room for them.
    pub(crate) fn goes_to_session(&mut self, run: &Run, owner: TemporaryOwner) -> bool {
        let Destination { kind, path } = run.destination();
        let TemporaryOwner::Here(session) = owner else { return false };
        match kind {
            Kind::Service => true,
            Kind::Topic => {
                let home = self.topic_named(path).and_then(|topic| topic.home());
                home.is_some_and(|home| home.interested().contains(self.here()))
            }
            Kind::Queue => self.has_room_for(session, path, run.bytes()),
        }
    }

    fn has_room_for(&mut self, session: SessionId, path: &Path, bytes: usize) -> bool {
        let most = self.options.temporary_bytes_max;
        if !self.note_temporary(session, path) {
            return false;
        }
        self.home.take_temporary(session, bytes, most)
    }

    /// Counts a queue as one of a session's temporary ones; false if it has as many as it may have.
    pub(crate) fn note_temporary(&mut self, session: SessionId, path: &Path) -> bool {
        self.home.count_temporary(session, path, self.options.temporary_queues_max)
    }

    /// Counts the temporary queues that a session is about to consume from.
    pub(crate) fn note_temporaries(
        &mut self,
        session: SessionId,
        targets: &[Target],
    ) -> Result<(), Close> {
        for target in targets {
            if let Target::Exact(Destination { kind: Kind::Queue, path }) = target
                && is_temporary(path)
                && !self.note_temporary(session, path)
            {
                let most = self.options.temporary_queues_max;
                let reason = format!(
                    "a session may have {most} temporary queues; end subscriptions to some first"
                );
                return Err(Close::new(CloseCode::TooManySubscriptions, reason));
            }
        }
        Ok(())
    }

    /// A session has ended, and with it what waits at its temporary destinations.
    pub(crate) fn end_temporary(&mut self, session: SessionId, effects: &mut Effects) {
        for path in self.home.end_temporary(session) {
            self.discard_queue(&path, effects);
        }
    }
}

impl SessionSide<'_> {
    /// The session whose temporary destination a path names.
    #[cold]
    pub(crate) fn owner_below(&self, path: &Path) -> TemporaryOwner {
        let Some(name) = TemporaryName::of(path) else { return TemporaryOwner::Gone };
        let session = name.session();
        let here = session.shard == self.shard && self.session(session).is_some();
        match here && name == self.options.temporary_name(session) {
            true => TemporaryOwner::Here(session),
            false => TemporaryOwner::Gone,
        }
    }
}
