//! What notices tell when a place is lost: its topics are there no longer.
//!
//! Relies on `telling.rs` and `pages.rs`. Invariant: afterwards no subscription waits to be told of its topics.

use tiderace_base::Now;
use tiderace_topics::Path;
use tiderace_wire::LeaveReason;

use super::TopicsAsk;
use crate::effects::Effects;
use crate::messages::{SubscribeRequestId, ToHome};
use crate::notice_side::NoticeSide;
use crate::places::Place;

impl NoticeSide<'_> {
    /// Topics of the place are there no longer, and it will not say which there are.
    pub(crate) fn peer_lost(&mut self, now: Now, place: Place, effects: &mut Effects) {
        let listings = self.notices.listings.values();
        let asked = listings.filter_map(|listing| listing.asked.as_ref());
        let asked = asked.filter(|asked| asked.home == place);
        let asked: Vec<(SubscribeRequestId, Option<Path>)> =
            asked.map(|TopicsAsk { request, after, .. }| (*request, after.clone())).collect();
        for (request, after) in asked {
            self.noted(now, place, request, Vec::new(), (after, None), effects);
        }
        let topics = self.notices.topics.keys();
        let gone = topics.filter(|path| self.sessions.options.home_of(path) == place);
        for path in gone.cloned().collect::<Vec<Path>>() {
            self.notice(&path, Err(LeaveReason::Removed), effects);
        }
    }

    /// A question to a home has come back.
    pub(crate) fn home_lost(
        &mut self,
        now: Now,
        place: Place,
        message: ToHome,
        effects: &mut Effects,
    ) {
        if let ToHome::Notify { request, after, .. } = message {
            self.noted(now, place, request, Vec::new(), (after, None), effects);
        }
    }
}
