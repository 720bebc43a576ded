//! Positions of sessions in the numbers of other nodes, from which some of their topics come.
//!
//! A topic's home here gives numbers of its own, by which everything is kept; positions tell the numbers that the other
//! node gave besides, so that they are good at every node that gets messages from there. Deliveries bring them; here is
//! what is told without one. Relies on what has been put into a backlog being taken in order. Invariant: a number is
//! told behind everything that it covers, or not at all.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{CloseCode, Now, SessionId, ShardId};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Numbering, Position, Priority, Reply, Run, SharedRun};

use crate::delivery::backlog::{Pending, Source};
use crate::delivery::pending::NO_SUBSCRIPTION;
use crate::effects::Effects;
use crate::places::key_of;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// Everything up to these numbers is in a session's backlog or was given to it.
    pub(crate) fn reach_upstream(
        &mut self,
        session: SessionId,
        marks: &[(Numbering, u64)],
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(key_of(session)).filter(|_| !marks.is_empty())
        else {
            return;
        };
        if let Some(rare) = record.rare.as_mut().filter(|rare| rare.recovering > 0) {
            return rare.note_reached_upstream(marks);
        }
        let Some(backlog) = record.backlog.as_ref().filter(|backlog| !backlog.is_empty()) else {
            return self.say_reached_upstream(session, marks, effects);
        };
        // What goes out in another order than it came in says nothing of what was before it.
        if !backlog.is_in_order() {
            return;
        }
        let Some(mark) = mark_of(marks, self.shard) else { return };
        self.push(key_of(session), mark, None, Priority::Default, effects);
    }

    /// What was before such a mark in a session's backlog has been taken.
    pub(crate) fn take_reached_upstream(
        &mut self,
        session: SessionId,
        mark: &Pending,
        effects: &mut Effects,
    ) {
        let message = mark.run.run().message(0);
        let position = message.and_then(|message| Position::read(message.body));
        if let Some((position, _)) = position {
            self.say_reached_upstream(session, position.seen(), effects);
        }
    }

    /// The versions of a topic begin anew: its subscribers come back, and hear that what they know means nothing.
    pub(crate) fn end_subscribers_of(&mut self, path: &Path, effects: &mut Effects) {
        let topic = self.directory.find(path).and_then(|key| self.directory.get(key));
        let Some(topic) = topic else { return };
        let subscribers = self.fanout.exact(topic).iter().chain(self.fanout.by_pattern(topic));
        for subscriber in subscribers {
            let Some(record) = self.sessions.get(subscriber.session) else { continue };
            let close = CloseCode::UpstreamRestarted.into();
            effects.close.push((record.link, self.id_of(subscriber.session), close));
        }
        // What comes next is no change of what was.
        if let Some(known) = self.fanout.subscribers_mut(topic) {
            known.replace_previous(None);
        }
    }

    fn say_reached_upstream(
        &mut self,
        session: SessionId,
        marks: &[(Numbering, u64)],
        effects: &mut Effects,
    ) {
        for (numbering, sequence) in marks.iter().copied() {
            self.reply(session, Reply::ReachedUpstream { numbering, sequence }, effects);
        }
    }
}

/// A place in a backlog that says these numbers.
fn mark_of(marks: &[(Numbering, u64)], shard: ShardId) -> Option<Pending> {
    let mut position = Position::new(0);
    marks.iter().for_each(|(numbering, number)| position.advance_to(*numbering, *number));
    let mut body = Vec::new();
    position.write(&mut body);
    let path = Path::parse("reached").ok()?;
    let destination = Destination { kind: Kind::Topic, path };
    let time = Now::default().time;
    let mut run = Run::single(destination, time, b"", &body, Default::default());
    run.number(shard, u64::MAX);
    let run = Rc::new(SharedRun::new(Arc::new(run)));
    Some(Pending {
        key: NO_SUBSCRIPTION,
        run,
        from: 0,
        to: 0,
        redeliveries: 0,
        reached: 0,
        is_past: true,
        source: Source::ReachedUpstream,
    })
}
