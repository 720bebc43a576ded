//! What a client knows of its subscriptions and their topics.

use std::collections::HashMap;

use tiderace_native::codec::{self, flag};

use crate::{ClientError, SubscribeOptions};

/// A topic as one subscription sees it.
#[derive(Debug, Default)]
pub(crate) struct Topic {
    version: Option<u64>,
    /// Which version the next one follows, if that is not one less.
    pub(crate) follows: Option<u64>,
    /// Whether it holds a value, as far as is known, and whether that has come since the subscription
    /// was made last.
    pub(crate) held: bool,
    pub(crate) fresh: bool,
    /// The last body, if deltas may come.
    value: Vec<u8>,
}

impl Topic {
    /// Takes an update in. If deltas by some codec may come, its body is kept in [`Topic::value`].
    pub(crate) fn update(
        &mut self,
        update: &codec::Update<'_>,
        codec: Option<u64>,
        bytes_max: usize,
    ) -> Result<Taken, ClientError> {
        // What is known from the connection before says what was missed, and nothing else builds on it.
        let version = match (update.version, self.version.filter(|_| self.fresh)) {
            (codec::Version::Full(version), _) => version,
            (low, Some(last)) => low.after(last),
            (codec::Version::Low(_), None) => return Err(ClientError::NoVersion),
        };
        let before = self.follows.take().unwrap_or(version.saturating_sub(1));
        let missed = self.version.map_or(0, |last| before.saturating_sub(last));
        let resumed = !self.fresh && self.version.is_some();
        // A value that was hidden comes again with the version that it had.
        let is_shown = !self.held && update.flags & flag::VALUE != 0;
        let is_old = |last: u64| version < last || version == last && !is_shown;
        let repeated = resumed && self.version.is_some_and(is_old);
        if update.flags & flag::DELTA != 0 {
            let is_next = self.version.is_some_and(|last| last.checked_add(1) == Some(version));
            let is_next = is_next && self.fresh;
            let codec = codec.filter(|_| is_next).ok_or(ClientError::NoBase)?;
            self.value = tiderace_delta::apply(codec, &self.value, update.data, bytes_max)?;
        } else if codec.is_some() {
            self.value.clear();
            self.value.extend_from_slice(update.data);
        }
        self.version = Some(version);
        self.fresh = true;
        if update.flags & (flag::REMOVED | flag::VALUE) != 0 {
            self.held = update.flags & flag::REMOVED == 0;
        }
        Ok(Taken { version, missed, repeated, resumed })
    }

    /// Forgets what belongs to a connection; whether something is left. What is resumed keeps its version,
    /// so that a gap shows.
    fn restart(&mut self, resume: bool) -> bool {
        let (held, version) = (self.held, self.version.filter(|_| resume));
        *self = Topic { held, version, ..Topic::default() };
        held || version.is_some()
    }

    /// The last body.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// What an update has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) version: u64,
    /// Versions that were left out before it.
    pub(crate) missed: u64,
    /// Whether it was told before the connection was lost.
    pub(crate) repeated: bool,
    /// Whether it is the first since the connection was made again.
    pub(crate) resumed: bool,
}

/// One subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) options: SubscribeOptions,
    /// Its end has been asked for; until that is answered its id is not free.
    pub(crate) ended: bool,
    /// Of a subscription to one topic.
    pub(crate) topic: Topic,
    /// Of a pattern, by path.
    pub(crate) topics: HashMap<String, Topic>,
}

impl Subscription {
    pub(crate) fn new(options: SubscribeOptions) -> Subscription {
        Subscription { options, ended: false, topic: Topic::default(), topics: HashMap::new() }
    }

    /// Forgets what belongs to a connection.
    pub(crate) fn restart(&mut self, resume: bool) {
        self.topic.restart(resume);
        self.topics.retain(|_, topic| topic.restart(resume));
    }

    /// Versions of before the break are those of other messages.
    pub(crate) fn forget(&mut self) {
        for topic in self.topics.values_mut().chain([&mut self.topic]) {
            topic.version = topic.version.filter(|_| topic.fresh);
        }
        self.topics.retain(|_, topic| topic.held || topic.version.is_some());
    }

    /// The topic of that path is not for this client any more, though it may be there.
    pub(crate) fn hide(&mut self, path: &str) {
        // Of one topic the path is not kept.
        let known = self.topics.get_mut(path);
        known.unwrap_or(&mut self.topic).held = false;
    }

    /// All values have come: takes out the topics whose values have not, by their paths; `None` stands
    /// for the only one.
    pub(crate) fn gone(&mut self) -> Vec<Option<String>> {
        let is_gone = |topic: &Topic| topic.held && !topic.fresh;
        let mut gone = Vec::new();
        if is_gone(&self.topic) {
            self.topic = Topic::default();
            gone.push(None);
        }
        let topics = self.topics.extract_if(|_, topic| is_gone(topic));
        gone.extend(topics.map(|(path, _)| Some(path)));
        gone
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn update(version: u64, flags: u8) -> codec::Update<'static> {
        let version = codec::Version::Full(version);
        codec::Update { id: 0, flags, version, properties: b"", data: b"1", numbers: None }
    }

    #[test]
    fn a_value_that_was_hidden_comes_again_with_its_version() {
        let take = |topic: &mut Topic, flags| topic.update(&update(3, flags), None, 1).unwrap();
        let mut known = Subscription::new(SubscribeOptions::topic("a"));
        take(&mut known.topic, flag::VALUE);
        known.restart(true);
        assert!(take(&mut known.topic, flag::VALUE).repeated);
        for hidden in [flag::REMOVED, 0] {
            match hidden {
                0 => known.hide("a"),
                flags => drop(take(&mut known.topic, flags)),
            }
            known.restart(true);
            assert!(!take(&mut known.topic, flag::VALUE).repeated);
            known.restart(true);
            assert!(take(&mut known.topic, flag::VALUE).repeated);
        }
    }
}
