//! Temporary destinations at their homes, which are their sessions' shards; see [`crate::temporary`].

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Run, Target, TemporaryName, is_temporary};

use crate::broker::Broker;
use crate::effects::Effects;
use crate::places::key_of;

impl Broker {
    /// The name of a session in the paths of its temporary destinations.
    pub fn temporary_name(&self, session: SessionId) -> TemporaryName {
        self.options.temporary_name(session)
    }

    /// At the home of a temporary destination: whether messages go there. If not, nobody would get them,
    /// or there is no room for them.
    pub(crate) fn goes_to_session(&mut self, run: &Run) -> bool {
        let Destination { kind, path } = run.destination();
        let Some(session) = self.session_below(path) else { return false };
        match kind {
            Kind::Service => true,
            Kind::Topic => {
                let topic = self.find_topic(path).and_then(|key| self.directory.get(key));
                topic.is_some_and(|topic| !topic.subscribers.is_empty())
            }
            Kind::Queue => self.has_room_for(session, path, run.bytes()),
        }
    }

    /// The session whose temporary destination a path names, if it is there.
    fn session_below(&self, path: &Path) -> Option<SessionId> {
        let name = TemporaryName::of(path)?;
        let session = name.session();
        let here = session.shard == self.shard && self.session(session).is_some();
        (here && name == self.temporary_name(session)).then_some(session)
    }

    fn has_room_for(&mut self, session: SessionId, path: &Path, bytes: usize) -> bool {
        let most = self.options.temporary_bytes_max;
        if !self.note_temporary(session, path) {
            return false;
        }
        let queues = self.home.queues();
        let record = self.sessions.get_mut(key_of(session));
        let rare = record.and_then(|record| record.rare.as_mut());
        let Some(temporary) = rare.and_then(|rare| rare.temporary.as_mut()) else { return false };
        temporary.take(bytes, most, |path| queues.bytes_of(path))
    }

    /// Counts a queue as one of a session's temporary ones; false if it has as many as it may have.
    pub(crate) fn note_temporary(&mut self, session: SessionId, path: &Path) -> bool {
        let (queues, most) = (self.home.queues(), self.options.temporary_queues_max);
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return false };
        let temporary = record.rare.get_or_insert_default().temporary.get_or_insert_default();
        temporary.count(path, most, |known| queues.bytes_of(known).is_some())
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
        let record = self.sessions.get_mut(key_of(session));
        let rare = record.and_then(|record| record.rare.as_mut());
        let Some(temporary) = rare.and_then(|rare| rare.temporary.take()) else { return };
        for path in temporary.queues() {
            self.discard_queue(path, effects);
        }
    }
}
