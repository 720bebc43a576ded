//! What a shard does with each message that the ends of its exchanges are sent.
//!
//! Relies on the methods of [`ExchangeSide`], which stand in the files of what they do. Invariant: a message is taken by
//! one method.

use tiderace_base::Now;

use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::home::services::Address;
use crate::messages::ToExchange;
use crate::places::Place;

impl ExchangeSide<'_> {
    /// A message for an end of a call.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToExchange,
        effects: &mut Effects,
    ) {
        match message {
            ToExchange::Assigned(to, call) => self.assigned(now, from, to, call, effects),
            ToExchange::Accepted { caller, responder } => {
                let responder = Address { place: from, key: responder };
                self.met(caller, responder, effects);
            }
            ToExchange::Sent { to, said } => self.heard(now, to, said, effects),
            ToExchange::Credit { to, messages } => self.wanted_messages(to, messages, effects),
            ToExchange::Ended { to, close } => self.told_of_end(now, to, close, effects),
        }
    }
}
