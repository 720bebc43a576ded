//! Deltas of a delivery's updates, by the codec that was agreed on.
//!
//! Relies on the run, which makes them once for all sessions. Invariant: a delta is to the body that
//! the client got last for that topic.

use tiderace_wire::{Delivery, Deltas};

use super::NativeSession;

impl NativeSession {
    /// What may be sent as deltas; `is_next` if the client was sent what precedes the delivery.
    pub(super) fn deltas(&self, delivery: &Delivery<'_>, is_next: bool) -> Deltas {
        let offer = &self.options.deltas;
        let codec = offer.numbered(self.agreed.codec().into());
        codec.map_or_else(Deltas::default, |codec| {
            delivery.deltas(codec.number, codec.encode, offer.bytes_max, is_next)
        })
    }
}
