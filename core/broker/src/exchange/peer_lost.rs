//! How exchanges end whose other side is on a place that is lost.
//!
//! Relies on the home of a service for calls of which nobody knows yet who answers, unless the home is lost itself.
//! Invariant: no end waits for a side that has gone.

use tiderace_base::{Close, CloseCode, Key, Now};

use super::{End, Other};
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::places::Place;

impl ExchangeSide<'_> {
    /// A place is lost: ends the exchanges with its sessions, and the calls that wait at its homes.
    pub(crate) fn lose_exchanges(
        &mut self,
        now: Now,
        place: Place,
        unanswered: &Close,
        effects: &mut Effects,
    ) {
        let options = self.sessions.options;
        let close = |end: &End| match &end.other {
            Other::Responder(at) if at.place == place => Some(CloseCode::ResponderGone.into()),
            Other::Caller { at, .. } if at.place == place => Some(CloseCode::CallerGone.into()),
            Other::Unknown { .. } | Other::Forgone { .. } => {
                (options.home_of_service(&end.service) == place).then(|| unanswered.clone())
            }
            _ => None,
        };
        let ends = self.exchanges.ends.iter();
        let lost: Vec<(Key, Close)> =
            ends.filter_map(|(key, end)| Some((key, close(end)?))).collect();
        for (key, close) in lost {
            self.told_of_end(now, key, close, effects);
        }
    }
}
