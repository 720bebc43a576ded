//! The end of a session.

use tiderace_base::{Now, SessionId};

use super::Broker;
use crate::effects::Effects;
use crate::ending::Closing;

impl Broker {
    /// A session ends: its subscriptions end and its unsettled messages go back to their queues.
    pub fn close(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let mut side = self.exchange_side();
        let exchanges = side.take_open(session);
        let Some(closing) = side.sessions.begin_close(session) else { return };
        let Closing { will, ending, keys, mut together } = closing;
        for key in keys {
            let how = (ending, None);
            self.exchange_side().unsubscribe(now, session, key, how, &mut together, effects);
            self.take_loopback(now, effects);
        }
        let mut side = self.exchange_side();
        side.sessions.finish_ending(together);
        if let Some(exchanges) = exchanges {
            side.end_exchanges(now, &exchanges, effects);
        }
        // While it still has what it has claimed.
        if let Some(will) = will {
            self.publish(now, session, *will, (None, None), effects);
        }
        self.session_side().give_back(session, effects);
        self.home_side().end_temporary(session, effects);
        self.hand_on(now, effects);
        self.session_side().end_session(now, session, effects);
        self.end_call(now, effects);
    }
}
