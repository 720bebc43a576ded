//! RECEIPT frames: who asks for one, and when it is written (STOMP 1.2, "RECEIPT").
//!
//! Relies on `receipts` for their order. Invariant: a frame that asks for a receipt gets one, or the ERROR that
//! says why not.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Confirm, Context, Token};

use super::state::{State, StompSession};
use crate::error::unreadable;
use crate::header::Headers;
use crate::server_frame;

impl StompSession {
    /// Takes the tokens for a frame of so many actions if it asks for a receipt: the first of them.
    pub(super) fn owe(
        &mut self,
        command: &str,
        headers: Headers<'_>,
        actions: u32,
    ) -> Result<Option<Token>, Close> {
        let Some(text) = headers.find_raw("receipt") else {
            return Ok(None);
        };
        self.owe_text(command, headers, text, actions).map(Some)
    }

    /// As [`StompSession::owe`], for a `receipt` header already found.
    pub(super) fn owe_text(
        &mut self,
        command: &str,
        headers: Headers<'_>,
        text: &[u8],
        actions: u32,
    ) -> Result<Token, Close> {
        // Only what can be read may be said back.
        if text.contains(&b'\\') || text.contains(&b'\r') {
            headers.decode(text).map_err(|why| unreadable(command, why))?;
        }
        let cold = self.cold();
        let first = cold.tokens.wrapping_add(1);
        cold.tokens = cold.tokens.wrapping_add(actions);
        cold.receipts.owe(text, first, actions);
        Ok(first)
    }

    /// Takes the tokens for so many actions of a frame that asks for no receipt, but which later receipts are to wait for: the
    /// first of them.
    pub(super) fn await_unasked(&mut self, actions: u32) -> Token {
        let cold = self.cold();
        let first = cold.tokens.wrapping_add(1);
        cold.tokens = cold.tokens.wrapping_add(actions);
        cold.receipts.await_unasked(first, actions);
        first
    }

    /// Owes the receipt of a frame that is done already.
    pub(super) fn done(
        &mut self,
        command: &str,
        headers: Headers<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.owe(command, headers, 0)?.is_some() {
            self.write_receipts(context);
        }
        Ok(())
    }

    /// Takes note of what was done, and writes the receipts that are due by that.
    pub(super) fn confirmed(&mut self, confirm: Confirm, context: &mut Context<'_>) {
        if let Some(cold) = &mut self.cold {
            cold.receipts.confirm(confirm);
        }
        self.write_receipts(context);
    }

    /// Writes the receipts that are due.
    pub(super) fn write_receipts(&mut self, context: &mut Context<'_>) {
        let Some(cold) = &mut self.cold else { return };
        cold.receipts.settle(|text| server_frame::receipt(text, &mut context.output));
        if cold.receipts.is_empty() && self.state == State::Leaving {
            context.finish(CloseCode::Done);
        }
    }
}
