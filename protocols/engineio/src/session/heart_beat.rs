//! Heartbeats: from the server with revision 4, from the client with revision 3.
//!
//! Whatever carries the session, they go on. Silence of a client that is held back is no fault of it, and only the
//! timer judges it: a request that comes late says that its client is there, and the server itself may have paused.

use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_wire::Context;

use super::state::EngineSession;
use crate::packet::{Data, Packet, PacketType};
use crate::revision::Revision;

impl EngineSession {
    /// The client pings.
    pub(super) fn pinged(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.revision == Revision::Four {
            return Err(wrong_direction());
        }
        self.due = self.silence_ends(now.time);
        // Nobody pings with binary data; text says the same back.
        let data = if let Data::Text(text) = packet.data { text } else { "" };
        self.write(PacketType::Pong, data, &mut context.output);
        self.check_pending(context);
        self.respond_script(context);
        Ok(())
    }

    /// The client answers a ping.
    pub(super) fn ponged(&mut self, now: Now) -> Result<(), Close> {
        if self.revision == Revision::Three {
            return Err(wrong_direction());
        }
        self.pinged = false;
        self.due = now.time + self.options.ping_interval;
        Ok(())
    }

    /// Pings if it is time, and ends a session that has fallen silent.
    pub(super) fn beat(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if now.time < self.due {
            return Ok(());
        }
        let waits = self.waits();
        if waits && context.reading_paused {
            self.due = self.silence_ends(now.time);
            return Ok(());
        }
        if waits {
            let reason = match self.revision {
                Revision::Four => "the client did not answer a ping within pingTimeout",
                Revision::Three => "no ping came within pingInterval and pingTimeout",
            };
            return Err(Close::new(CloseCode::HeartBeatTimeout, reason));
        }
        self.pinged = true;
        // From when it was due, so that a timer's delay does not add up; but never without a chance.
        let from = if now.time.since(self.due) < TIMER_DELAY { self.due } else { now.time };
        self.due = self.silence_ends(from);
        self.write(PacketType::Ping, "", &mut context.output);
        Ok(())
    }

    /// Whether the next heartbeat is the client's.
    fn waits(&self) -> bool {
        self.pinged || self.revision == Revision::Three
    }

    /// When silence from now on is too long.
    pub(super) fn silence_ends(&self, now: Time) -> Time {
        match self.revision {
            Revision::Four => now + self.options.ping_timeout,
            Revision::Three => now + self.options.ping_interval + self.options.ping_timeout,
        }
    }
}

/// What timers may be late.
const TIMER_DELAY: Span = Span::from_millis(100);

fn wrong_direction() -> Close {
    let reason =
        "the heartbeat goes the other way: the server pings with EIO=4, the client with EIO=3";
    Close::new(CloseCode::UnexpectedFrame, reason)
}
