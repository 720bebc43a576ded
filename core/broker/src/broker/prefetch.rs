//! What is about to be published or subscribed to: asks memory for the topics that come next.
//!
//! Where publishers update a hundred thousand topics, each is cold when its turn comes: its place in the
//! table of names, its record, the text of its name and what it holds are waits in a row. Those of
//! several topics are begun together, before the first is handled, and pass beside each other.
//! Invariant: nothing is changed, and what was guessed wrongly costs nothing but time.

use tiderace_base::{SessionId, prefetch};
use tiderace_topics::Path;
use tiderace_wire::{Command, Target};

use super::{AHEAD, Broker};
use crate::messages::{Body, Envelope, ToHome, ToSubscriber};

impl Broker {
    /// The first [`AHEAD`] messages of other shards are about to be received.
    pub fn expect_messages<'a>(&self, messages: impl Iterator<Item = &'a Envelope>) {
        self.expect_topics(messages.take(AHEAD).filter_map(|message| match &message.body {
            Body::Home(ToHome::Publish { run, .. }) => Some(&run.destination().path),
            Body::Subscriber(ToSubscriber::Fanout { run, .. }) => Some(&run.destination().path),
            Body::Home(ToHome::Interest { path, .. }) => Some(path),
            _ => None,
        }));
    }

    /// The first [`AHEAD`] commands of a session are about to be handled.
    pub(super) fn expect_commands(&self, session: SessionId, commands: &[Command]) {
        let paths = commands.iter().take(AHEAD).filter_map(|command| match command {
            Command::Publish { run, .. } => Some(&run.destination().path),
            Command::Subscribe(subscribe) => match subscribe.targets.first() {
                Some(Target::Exact(destination)) => Some(&destination.path),
                _ => None,
            },
            _ => None,
        });
        let Some(root) = self.session(session).and_then(|record| record.root()) else {
            return self.expect_topics(paths);
        };
        // Its client has named them without the host.
        let mut name = [root.level(), "/"].concat();
        let front = name.len();
        self.expect_guesses(paths.map(|path| {
            name.truncate(front);
            name.push_str(path.as_str());
            self.directory.guess(&name)
        }));
    }

    fn expect_topics<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        self.expect_guesses(paths.map(|path| self.directory.guess(path.as_str())));
    }

    fn expect_guesses(&self, guesses: impl Iterator<Item = Option<u32>>) {
        let mut slots = [None; AHEAD];
        for (slot, guess) in slots.iter_mut().zip(guesses) {
            *slot = guess;
            let slot = slot.unwrap_or(u32::MAX);
            self.directory.topics().prefetch(slot);
            self.home.prefetch(slot);
            self.fanout.prefetch(slot);
        }
        for topic in slots.into_iter().flatten().filter_map(|slot| self.directory.topics().at(slot))
        {
            prefetch(topic.path.as_str());
            if let Some(home) = self.home.topic(topic) {
                prefetch(home);
            }
            if let Some(known) = self.fanout.subscribers(topic) {
                known.expect();
            }
        }
        for topic in slots.into_iter().flatten().filter_map(|slot| self.directory.topics().at(slot))
        {
            if let Some(known) = self.fanout.subscribers(topic) {
                prefetch(known.exact());
            }
        }
    }
}
