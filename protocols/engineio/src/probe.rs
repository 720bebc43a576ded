//! The session on a WebSocket that is to take over a polling session.
//!
//! ```text
//!   offered ──2probe──▶ 3probe, begun ──5──▶ done: the WebSocket is the other session's
//!      └── anything else, or no `5` in time ──▶ closed; the other session goes on polling
//! ```
//! Relies on the event loop to pass on what it says of the takeover.

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Context, Delivery, Incoming, Output, Progress, Reply, Session, Takeover, Ticket,
};

use crate::options::EngineOptions;

/// Tries a WebSocket out.
#[derive(Debug)]
pub(crate) struct Probe {
    ticket: Ticket,
    by: Time,
    begun: bool,
}

impl Probe {
    pub(crate) fn new(ticket: Ticket, now: Now, options: &EngineOptions) -> Probe {
        Probe { ticket, by: now.time + options.upgrade_timeout, begun: false }
    }

    fn tell(&self, takeover: Takeover, context: &mut Context<'_>) {
        context.take_over(self.ticket, takeover);
    }

    fn give_up(&self, close: Close, context: &mut Context<'_>) -> Result<(), Close> {
        self.tell(Takeover::Failed, context);
        Err(close)
    }
}

impl Session for Probe {
    fn begin(&mut self, _: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.tell(Takeover::Offered, context);
        Ok(())
    }

    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Err(CloseCode::UnexpectedFrame.into())
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        _: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match (self.begun, message.text, message.bytes) {
            (false, true, b"2probe") => {
                self.begun = true;
                context.output.frame(b"3probe", true);
                self.tell(Takeover::Begun, context);
                Ok(())
            }
            (true, true, b"5") => {
                self.tell(Takeover::Done, context);
                Ok(())
            }
            _ => {
                let reason = "an upgrade is `2probe`, and when that was answered `5`";
                self.give_up(Close::new(CloseCode::UnexpectedFrame, reason), context)
            }
        }
    }

    fn reply(&mut self, _: Now, _: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _: Now, _: &Delivery<'_>, _: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.by
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if now.time < self.by {
            return Ok(());
        }
        let reason = "the client did not complete its upgrade in time";
        self.give_up(Close::new(CloseCode::FrameTimeout, reason), context)
    }

    fn goodbye(&mut self, _: &Close, _: &mut Output<'_>) {}

    // Its own deadline is shorter than that of clients that do not log in.
    fn is_established(&self) -> bool {
        true
    }
}
