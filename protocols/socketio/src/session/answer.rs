//! Questions of events to the broker, and how their answers are told to the client.
//!
//! Relies on `questions` for who asked. Invariant: an event with an ack id is answered once; one without is told
//! of trouble only, by the event `problem`.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Output, Token};

use super::questions::{Waiting, What};
use super::state::SocketSession;
use crate::write::Text;

/// What an answer says that something was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) id: u64,
    /// Whether a subscription goes on with nothing missing, if that was asked.
    pub(super) recovered: Option<bool>,
}

impl Made {
    pub(super) fn of(id: u64) -> Made {
        Made { id, recovered: None }
    }
}

impl SocketSession {
    /// A token for a question, remembered.
    pub(super) fn ask(
        &mut self,
        namespace: u8,
        ack: Option<u64>,
        event: &'static str,
        what: What,
    ) -> Result<Token, Close> {
        let max = self.options.answers_max;
        if self.cold().questions.len() >= max {
            return Err(CloseCode::TooManyReceipts.into());
        }
        let token = self.token();
        self.cold()
            .questions
            .insert(token, Waiting { namespace, ack, event, what, complete: None });
        Ok(token)
    }

    /// Answers that it was done.
    pub(super) fn succeed(
        &self,
        namespace: u8,
        ack: Option<u64>,
        made: Option<Made>,
        output: &mut Output<'_>,
    ) {
        let (Some(ack), Some(known)) = (ack, self.namespaces.get(namespace)) else { return };
        let mut text = Text::answer(0, known.name(), ack, true);
        if let Some(Made { id, recovered }) = made {
            text.raw(",\"id\":");
            text.number(id);
            if let Some(recovered) = recovered {
                text.raw(if recovered { ",\"recovered\":true" } else { ",\"recovered\":false" });
            }
        }
        text.raw("}]");
        output.frame(text.bytes(), true);
    }

    /// Answers that it was not done, and why.
    pub(super) fn fail(
        &self,
        namespace: u8,
        ack: Option<u64>,
        event: &str,
        close: &Close,
        output: &mut Output<'_>,
    ) {
        let Some(known) = self.namespaces.get(namespace) else { return };
        let mut text = match ack {
            Some(ack) => Text::answer(0, known.name(), ack, false),
            None => {
                let mut text = Text::event(0, known.name(), None, "problem");
                text.raw(",{\"event\":");
                text.text(event);
                text
            }
        };
        text.problem(close);
        text.raw("}]");
        output.frame(text.bytes(), true);
    }
}
