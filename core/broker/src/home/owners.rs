//! At a topic's home: requests that are made for being the topic's owner.
//!
//! Bookkeeping only. Relies on messages keeping their order: the request follows at once.

use std::sync::Arc;

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::places::Place;

/// Under whose name the next request for messages of a subscription is made, where the rules refuse it.
#[derive(Debug, Default)]
pub(crate) struct ExpectedOwners {
    names: Map<SubscribeRequestId, Arc<str>>,
}

impl ExpectedOwners {
    /// The next request of that subscription is for the topic's owner.
    pub(crate) fn expect(&mut self, request: SubscribeRequestId, name: Arc<str>) {
        self.names.insert(request, name);
    }

    /// A place is lost, and its requests.
    pub(crate) fn lose(&mut self, place: Place) {
        self.names.retain(|request, _| Place::of(request.session) != place);
    }

    /// As whose a request is made, if it is for an owner.
    pub(crate) fn take(&mut self, request: &SubscribeRequestId) -> Option<Arc<str>> {
        if self.names.is_empty() { None } else { self.names.remove(request) }
    }
}
