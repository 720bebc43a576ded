//! Answers of the broker: which request each belongs to, and what the client hears of it.
//!
//! Relies on tokens, of which each has one meaning until it is answered. Invariant: an answer to a request that is over
//! changes nothing.

use tiderace_base::Close;
use tiderace_wire::{Confirm, Context, Output, Token};

use super::cold::Waiting;
use super::state::RSocketSession;
use super::streams::Stream;
use crate::frame::Payload;
use crate::metrics::{Rejection, Signal};

impl RSocketSession {
    /// The broker has done what these tokens ask for.
    pub(super) fn confirmed(&mut self, confirm: Confirm, context: &mut Context<'_>) {
        let Some(cold) = &mut self.cold else { return };
        if confirm.from == confirm.to {
            if let Some(waiting) = cold.waiting.remove(&confirm.from) {
                self.answer_confirmed(waiting, confirm.from, &mut context.output);
            }
            return;
        }
        let done: Vec<_> =
            cold.waiting.range(confirm.from..=confirm.to).map(|(token, _)| *token).collect();
        for token in done {
            if let Some(waiting) = self.cold().waiting.remove(&token) {
                self.answer_confirmed(waiting, token, &mut context.output);
            }
        }
    }

    fn answer_confirmed(&mut self, waiting: Waiting, token: Token, output: &mut Output<'_>) {
        match waiting {
            Waiting::Publish(stream) if self.is_waiting(stream, token) => {
                self.writer.item(stream, Payload::default(), true, output);
                self.end_stream(stream, Signal::Complete);
            }
            Waiting::Item(stream) => self.item_done(stream, output),
            Waiting::Serve(stream, key) => self.serves(stream, key, output),
            Waiting::Publish(_)
            | Waiting::Fetch(_)
            | Waiting::Operate(_)
            | Waiting::Subscribe(..) => {}
        }
    }

    /// A command was refused.
    pub(super) fn refused(
        &mut self,
        token: Option<Token>,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let Some(waiting) = token.and_then(|token| self.cold().waiting.remove(&token)) else {
            // Fire-and-forget has nobody to be told.
            self.writer.count(|counters| counters.reject(Rejection::Other));
            return;
        };
        self.answer_refused(waiting, token.unwrap_or_default(), close, context);
    }

    fn answer_refused(
        &mut self,
        waiting: Waiting,
        token: Token,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        match waiting {
            Waiting::Publish(stream) | Waiting::Fetch(stream) | Waiting::Operate(stream) => {
                if matches!(waiting, Waiting::Fetch(_) | Waiting::Operate(_)) {
                    self.read_answered();
                }
                if self.is_waiting(stream, token) {
                    self.fail(stream, close, &mut context.output);
                }
            }
            Waiting::Item(stream) => {
                if matches!(self.streams.get(stream), Some(Stream::Channel(_))) {
                    let granted = self.channel_granted(stream);
                    self.expect_late(granted);
                    self.fail(stream, close, &mut context.output);
                }
            }
            Waiting::Subscribe(stream, key) | Waiting::Serve(stream, key) => {
                if self.streams.has_key(stream, key) {
                    self.streams.free_key(key);
                    self.fail(stream, close, &mut context.output);
                }
            }
        }
    }
}
