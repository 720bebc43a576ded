//! What views ask of the home, until they have a side of their own.

use std::sync::Arc;

use tiderace_base::{Close, Key, Now, ShardId};
use tiderace_topics::Path;
use tiderace_wire::{Run, TopicSpec};

use super::Broker;
use crate::effects::{Effects, Mail};
use crate::publisher::{Published, Publisher, Values};

impl Broker {
    pub(crate) fn home(&self, path: &Path) -> ShardId {
        self.options.home_of(path)
    }

    pub(crate) fn find_topic(&self, path: &Path) -> Option<Key> {
        self.directory.find(path)
    }

    pub(crate) fn ensure_topic(&mut self, now: Now, path: &Path) -> Key {
        self.directory.ensure(now, path)
    }

    pub(crate) fn send(&mut self, to: ShardId, mail: impl Into<Mail>, effects: &mut Effects) {
        self.loopback.send(to, mail, effects);
    }

    pub(crate) fn publish_own(&mut self, run: Run, effects: &mut Effects) {
        let home = self.options.home_of(&run.destination().path);
        self.loopback.send(home, Mail::of_server(run), effects);
    }

    pub(crate) fn make_known(
        &mut self,
        now: Now,
        path: &Path,
        spec: Arc<TopicSpec>,
        effects: &mut Effects,
    ) -> Key {
        let key = self.home_side().make_known(now, path, spec, effects);
        self.hand_on(now, effects);
        key
    }

    pub(crate) fn distribute(
        &mut self,
        now: Now,
        key: Key,
        run: Run,
        publisher: &Publisher<'_>,
        values: Values,
        effects: &mut Effects,
    ) -> Result<Published, Close> {
        let published = self.home_side().distribute(now, key, run, publisher, values, effects);
        self.hand_on(now, effects);
        published
    }

    pub(crate) fn remove_topic(&mut self, now: Now, key: Key, effects: &mut Effects) {
        self.home_side().remove_topic(now, key, effects);
        self.hand_on(now, effects);
    }
}
