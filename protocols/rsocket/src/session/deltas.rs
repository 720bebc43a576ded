//! Values as differences: which subscriptions take them, and what was sent to them last.
//!
//! Relies on `tiderace-wire` for whether a value follows the one sent before it. Invariant: what is known of a
//! subscription is forgotten when it ends.

use std::collections::BTreeMap;

use tiderace_delta::Offer;
use tiderace_wire::{Bases, Delivery, Deltas, SubscriptionKey};

/// The subscriptions of a session that take deltas.
#[derive(Default)]
pub(super) struct DeltaSubscriptions {
    /// Numbers of codecs.
    codecs: BTreeMap<SubscriptionKey, u8>,
    /// What was sent last to their topics.
    bases: Option<Box<Bases>>,
}

impl DeltaSubscriptions {
    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        self.codecs.is_empty() && self.bases.as_ref().is_none_or(|bases| bases.is_empty())
    }

    /// A subscription takes deltas of the codec with that number.
    pub(super) fn begin(&mut self, key: SubscriptionKey, codec: u8) {
        self.codecs.insert(key, codec);
    }

    /// A subscription is over.
    pub(super) fn end(&mut self, key: SubscriptionKey) {
        self.codecs.remove(&key);
        if let Some(bases) = &mut self.bases {
            bases.remove(key);
        }
    }

    /// What of a delivery may be sent as deltas, and the name of their codec.
    pub(super) fn of(
        &mut self,
        delivery: &Delivery<'_>,
        offer: &Offer,
    ) -> (Deltas, Option<&'static str>) {
        let number = self.codecs.get(&delivery.key).copied().unwrap_or_default();
        let is_next = self.bases.get_or_insert_default().advance(delivery);
        let Some(codec) = offer.numbered(number.into()) else {
            return (Deltas::default(), None);
        };
        let deltas = delivery.deltas(codec.number, codec.encode, offer.bytes_max, is_next);
        (deltas, Some(codec.name))
    }
}
