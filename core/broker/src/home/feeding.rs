//! What the home does with its durable subscriptions and with the patterns of topics together.
//!
//! Relies on both. Invariant: what is found for a topic is found again when another place is fed.

use std::rc::Rc;

use tiderace_base::{Memory, Now, ShardId};
use tiderace_topics::{Path, Pattern};

use super::Home;
use crate::BrokerOptions;
use crate::durables::Durable;
use crate::places::Place;

impl Home {
    /// A place has a durable subscription to these topics, or one less.
    pub(crate) fn note_feed(
        &mut self,
        place: Place,
        topics: &[Pattern],
        on: bool,
        memory: &Rc<Memory>,
    ) {
        if self.feeds.note(place, topics, on, memory) {
            self.patterns.renew();
        }
    }

    /// The durable subscriptions of the configuration are there from the start.
    pub(crate) fn begin_durables(
        &mut self,
        shard: ShardId,
        options: &BrokerOptions,
        memory: &Rc<Memory>,
    ) {
        for about in &options.durables.configured {
            let home = options.home_of(&about.queue);
            self.note_feed(home, &about.topics, true, memory);
            if home == Place::here(shard) {
                self.queues.set_staying(Now::default(), (&about.queue, None), true, options);
                self.feeds.put(Durable { about: about.clone(), owner: None, since: 0 });
            }
        }
    }

    /// Mirrored queues that the configuration names are there from the start.
    pub(crate) fn begin_mirrors(&mut self, shard: ShardId, options: &BrokerOptions) {
        if !options.mirrors_some() {
            return;
        }
        self.feeds.set_mirrors();
        let here = |path: &Path| options.home_of(path) == Place::here(shard);
        for path in options.mirrors_named().filter(here) {
            self.queues.set_staying(Now::default(), (&path, None), true, options);
        }
    }

    /// A place is lost, with its durable subscriptions.
    pub(crate) fn lose_feeds(&mut self, place: Place, memory: &Rc<Memory>) {
        self.patterns.renew();
        self.feeds.lose(place, memory);
    }
}
