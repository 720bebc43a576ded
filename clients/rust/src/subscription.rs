//! What a client knows of its subscriptions and their topics.

use std::collections::HashMap;

use tiderace_native::codec::{self, flag};

use crate::{ClientError, Wish};

/// A topic as one subscription sees it.
#[derive(Debug, Default)]
pub(crate) struct Topic {
    version: Option<u64>,
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
        let missed = self.version.map_or(0, |last| version.saturating_sub(last).saturating_sub(1));
        if update.flags & flag::DELTA != 0 {
            let is_next = self.version.is_some_and(|last| last.checked_add(1) == Some(version));
            let codec = codec.filter(|_| is_next).ok_or(ClientError::NoBase)?;
            self.value = tiderace_delta::apply(codec, &self.value, update.data, bytes_max)?;
        } else if codec.is_some() {
            self.value.clear();
            self.value.extend_from_slice(update.data);
        }
        self.version = Some(version);
        Ok((version, missed))
    }

    /// The last body.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// One subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) wish: Wish,
    /// Its end has been asked for; until that is answered its id is not free.
    pub(crate) ended: bool,
    /// Of a subscription to one topic.
    pub(crate) topic: Topic,
    /// Of a pattern, by path.
    pub(crate) topics: HashMap<String, Topic>,
}

impl Subscription {
    pub(crate) fn new(wish: Wish) -> Subscription {
        Subscription { wish, ended: false, topic: Topic::default(), topics: HashMap::new() }
    }

    /// Forgets what belongs to a connection.
    pub(crate) fn restart(&mut self) {
        self.topic = Topic::default();
        self.topics.clear();
    }
}
