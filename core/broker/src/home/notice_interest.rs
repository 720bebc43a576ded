//! As a home: which shards want notices of which topics, and pages of topics that are to be given.
//!
//! Bookkeeping only. Invariant: a shard is told of a topic as long as one of its subscriptions wants that.

use std::collections::VecDeque;

use tiderace_base::ShardId;
use tiderace_topics::{Path, Pattern, PatternIndex};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::places::bit;

/// Whom a home tells of topics.
#[derive(Debug, Default)]
pub(crate) struct NoticeInterest {
    /// How many subscriptions of each shard want notices of each pattern.
    uses: Map<(Pattern, ShardId), u32>,
    shards: PatternIndex<ShardId>,
    requests: VecDeque<TopicsRequest>,
}

/// A page of topics that is to be given.
#[derive(Debug)]
pub(crate) struct TopicsRequest {
    pub(crate) from: ShardId,
    pub(crate) pattern: Pattern,
    pub(crate) request: SubscribeRequestId,
    /// Behind which path; absent: from the first one on.
    pub(crate) after: Option<Path>,
}

impl NoticeInterest {
    /// A page is asked for; without a path behind which it is, a subscription begins.
    pub(crate) fn ask(&mut self, request: TopicsRequest) {
        if request.after.is_none() {
            let uses = self.uses.entry((request.pattern.clone(), request.from)).or_default();
            *uses += 1;
            if *uses == 1 {
                self.shards.insert(&request.pattern, request.from);
            }
        }
        // Not at once: many may ask.
        self.requests.push_back(request);
    }

    /// A subscription has ended.
    pub(crate) fn end(&mut self, from: ShardId, pattern: &Pattern) {
        let key = (pattern.clone(), from);
        let Some(uses) = self.uses.get_mut(&key) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&key);
            self.shards.remove(pattern, &from);
        }
    }

    /// Whether nobody wants notices.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The shards that want notices of a topic.
    pub(crate) fn shards_of(&self, path: &Path) -> u64 {
        let mut shards = 0;
        self.shards.matches(path, &mut |shard| shards |= bit(*shard));
        shards
    }

    /// The next page that is to be given.
    pub(crate) fn next_request(&mut self) -> Option<TopicsRequest> {
        self.requests.pop_front()
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }
}
