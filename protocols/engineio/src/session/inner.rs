//! Calls of the session inside, and what follows from them.
//!
//! The session inside is called with an output of its own: the connection's queue with the framing of message packets
//! where they can go out, or a queue kept aside while no request is held. Invariant: what it has written aside goes out
//! before anything else is written.

use tiderace_base::{Close, Now};
use tiderace_wire::{Context, Incoming, Intake, OutQueue, Output, Session};

use super::carrier::{Carrier, place};
use super::state::EngineSession;
use crate::packet::PacketType;

impl EngineSession {
    /// Calls the session inside and does what follows from it.
    pub(super) fn call_inner(
        &mut self,
        now: Now,
        context: &mut Context<'_>,
        call: impl FnOnce(&mut dyn Session, &mut Context<'_>) -> Result<(), Close>,
    ) {
        let mut aside = OutQueue::new();
        let place = place(&mut self.carrier, self.revision, &mut context.output, &mut aside);
        let mut within = Context::new(context.commands, place);
        within.reading_paused = context.reading_paused;
        let result = call(&mut *self.inner, &mut within);
        let finished = within.actions.take_finish();
        self.settle(&mut context.output, aside);
        match (result, finished) {
            (Err(close), _) => self.end_inner(now, &close, true, context),
            (Ok(()), Some(close)) => self.end_inner(now, &close, false, context),
            (Ok(()), None) => self.check_pending(context),
        }
        self.respond_script(context);
    }

    /// Calls the session inside for what it writes.
    pub(super) fn write_inner(
        &mut self,
        output: &mut Output<'_>,
        call: impl FnOnce(&mut dyn Session, &mut Output<'_>),
    ) {
        let mut aside = OutQueue::new();
        let mut place = place(&mut self.carrier, self.revision, output, &mut aside);
        call(&mut *self.inner, &mut place);
        self.settle(output, aside);
    }

    /// The session inside has ended: its last words are waited for if a poll is to fetch them.
    fn end_inner(&mut self, now: Now, close: &Close, has_words: bool, context: &mut Context<'_>) {
        if has_words {
            self.write_inner(&mut context.output, |inner, output| inner.goodbye(close, output));
        }
        if let Carrier::Polling(polling) = &mut self.carrier
            && polling.waits_to_close(now, close, context, &self.options)
        {
            return;
        }
        self.write(PacketType::Close, "", &mut context.output);
        self.respond_script(context);
        context.finish(close.clone());
    }
}

/// Gives a message to the session inside. A packet cannot be kept half taken in, so where that session would go on in
/// the next turn it goes on at once, as far as what it takes is not dear.
pub(super) fn give(
    inner: &mut dyn Session,
    now: Now,
    message: Incoming<'_>,
    within: &mut Context<'_>,
) -> Result<(), Close> {
    let intake = Intake::begin();
    let mut rest = message.bytes;
    loop {
        inner.message(now, Incoming { text: message.text, bytes: rest }, within)?;
        match within.actions.take_yield() {
            Some(taken) if taken > 0 && !within.is_finished() => {
                rest = rest.get(taken..).unwrap_or_default();
            }
            _ => return Ok(()),
        }
        intake.check_whole("one packet")?;
    }
}
