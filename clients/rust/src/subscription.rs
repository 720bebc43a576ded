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
    /// Takes an update in: its version and how many were missed. If deltas by some codec may come, its
    /// body is kept in [`Topic::value`].
    pub(crate) fn update(
        &mut self,
        update: &codec::Update<'_>,
        codec: Option<u64>,
        bytes_max: usize,
    ) -> Result<(u64, u64), ClientError> {
        let version = match (update.version, self.version) {
            (codec::Version::Full(version), _) => version,
            (low, Some(last)) => low.after(last),
            (codec::Version::Low(_), None) => return Err(ClientError::NoVersion),
        };
        let before = self.follows.take().unwrap_or(version.saturating_sub(1));
        let missed = self.version.map_or(0, |last| before.saturating_sub(last));
        if update.flags & flag::DELTA != 0 {
            let is_next = self.version.is_some_and(|last| last.checked_add(1) == Some(version));
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
        Ok((version, missed))
    }

    /// Forgets what belongs to a connection; whether something is left.
    fn restart(&mut self) -> bool {
        let held = self.held;
        *self = Topic { held, ..Topic::default() };
        held
    }

    /// The last body.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
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
    pub(crate) fn restart(&mut self) {
        self.topic.restart();
        self.topics.retain(|_, topic| topic.restart());
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
