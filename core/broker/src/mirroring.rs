//! Mirrored queues: a queue and the topic of its name get what is sent to either, as in Apollo.
//!
//! ```text
//!   sent to the queue ──▶ published to the topic ──▶ subscribers, value, durable subscriptions
//!                                              └───▶ the queue
//! ```
//! There is one way: what is sent to the queue is a publication to the topic from there on, and the topic feeds the queue.
//! So nothing goes round, and both have one order. Relies on both having their home on one shard, and on rights having been
//! asked for what the publisher has named. Invariants: what one of them refuses has come to neither; a publisher is
//! confirmed when both have it, and the store, if it is to survive.

use tiderace_base::{Close, Now, SessionId};
use tiderace_wire::{Flags, Kind, Run};

use crate::effects::Effects;
use crate::feed_parts::parts_for_mirror;
use crate::home_side::HomeSide;
use crate::maker::Maker;
use crate::places::Place;
use crate::price::FED;
use crate::publisher::Room;
use crate::queued::Put;
use crate::runs::size_of_run;

impl HomeSide<'_> {
    /// What a session sends to a mirrored queue goes to the topic of its name.
    ///
    /// # Errors
    /// When the queue does not take it.
    pub(crate) fn send_to_mirror(
        &mut self,
        now: Now,
        (run, room): (&mut Run, Room),
        maker: Maker<'_>,
    ) -> Result<(), Close> {
        let destination = run.destination();
        if destination.kind != Kind::Queue || !self.options.mirrors(&destination.path) {
            return Ok(());
        }
        let path = destination.path.clone();
        let checked = match room {
            Room::Unknown => self.check_queue(now, run, maker),
            Room::Known => self.check_kind(now, run),
        };
        checked.inspect_err(|close| self.note_refused(run, close))?;
        if !self.home.queues().has(&path) {
            self.home.queues_mut().set_staying(now, (&path, maker), false, self.options);
        }
        run.set_kind(Kind::Topic);
        Ok(())
    }

    /// Whether a topic's queue takes what a session publishes, if the topic has one.
    ///
    /// # Errors
    /// Says why the queue does not take it: then nothing of it is published.
    pub(crate) fn check_mirror(&mut self, run: &Run, room: Room) -> Result<(), Close> {
        let path = &run.destination().path;
        if !self.options.mirrors(path) || !self.home.queues().has(path) {
            return Ok(());
        }
        if room == Room::Unknown {
            let checked = self.home.check_room(path, (size_of_run(run), true), None, self.options);
            checked.inspect_err(|close| self.note_refused(run, close))?;
        }
        match run.any(Flags::PERSISTENT) {
            true => self.journal.check_message(true),
            false => Ok(()),
        }
    }

    /// A topic's messages come to the queue of its name, if there is one that takes them: whether there is.
    pub(crate) fn feed_mirror(
        &mut self,
        now: Now,
        run: &Run,
        publisher: Option<SessionId>,
        effects: &mut Effects,
    ) -> bool {
        let path = &run.destination().path;
        if !self.options.mirrors(path) || !self.home.queues().has(path) {
            return false;
        }
        // What the server publishes by itself waits for nobody, and is not refused.
        if publisher.is_none() && self.home.queues().is_closed(path) {
            self.metrics.queue_refused += run.len() as u64;
            return false;
        }
        let from = publisher.map_or(self.here(), Place::of);
        for part in parts_for_mirror(run, path) {
            self.work.charge_at(now, FED);
            let put = self.enqueue(now, (from, None), part, effects);
            let put = put.map(|put| Put { stays: true, ..put });
            self.answer_queued(now, None, None, put, effects);
        }
        true
    }
}
