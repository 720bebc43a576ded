//! Answers: what the broker said about a question, told to whoever asked.
//!
//! Relies on tokens rising. Invariant: an event with an ack id is answered once; one without is told
//! of trouble only, by the event `problem`.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Confirm, Context, Output, SubscriptionKey, Token};

use super::SocketSession;
use crate::write::Text;

/// A question to the broker.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The number of the namespace it is for.
    pub(super) namespace: u8,
    pub(super) ack: Option<u64>,
    pub(super) event: &'static str,
    pub(super) what: What,
}

/// What the answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Nothing further.
    Plain,
    /// The subscription is made.
    Listen(SubscriptionKey),
    /// The namespace's own subscription is made.
    Join(SubscriptionKey),
    /// A subscription of a client that came back is made.
    Restore(SubscriptionKey),
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
        if self.cold().waiting.len() >= max {
            return Err(CloseCode::TooManyReceipts.into());
        }
        let token = self.token();
        self.cold().waiting.insert(token, Waiting { namespace, ack, event, what });
        Ok(token)
    }

    pub(super) fn confirmed(&mut self, confirm: Confirm, context: &mut Context<'_>) {
        while let Some((_, waiting)) = self.take_waiting(confirm) {
            let Waiting { namespace, ack, what, .. } = waiting;
            match what {
                What::Plain => self.succeed(namespace, ack, None, &mut context.output),
                What::Listen(key) => {
                    self.succeed(namespace, ack, Some(u64::from(key.0)), &mut context.output);
                }
                What::Join(_) => self.connected(namespace, context),
                What::Restore(_) => self.restored(namespace, true, context),
            }
        }
    }

    pub(super) fn take_waiting(&mut self, confirm: Confirm) -> Option<(Token, Waiting)> {
        let cold = self.cold.as_mut()?;
        if confirm.from > confirm.to {
            return None;
        }
        let token = *cold.waiting.range(confirm.from..=confirm.to).next()?.0;
        cold.waiting.remove_entry(&token)
    }

    pub(super) fn refused(
        &mut self,
        token: Option<Token>,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let logins = self.cold.as_ref().is_some_and(|cold| !cold.logins.is_empty());
        if token.is_none() && close.code.refuses_login() && logins {
            return self.login_refused(close, context);
        }
        if let Some(token) = token {
            self.is_answered(token);
        }
        let waiting =
            token.and_then(|token| self.take_waiting(Confirm::one(token)).map(|(_, known)| known));
        let Some(Waiting { namespace, ack, event, what }) = waiting else {
            return self.fail(0, None, "publish", close, &mut context.output);
        };
        match what {
            What::Plain => {}
            What::Listen(key) => {
                self.subscriptions.remove(key);
            }
            What::Join(key) => {
                self.subscriptions.remove(key);
                return self.refuse_namespace(namespace, close, &mut context.output);
            }
            What::Restore(key) => {
                self.subscriptions.remove(key);
                return self.restored(namespace, false, context);
            }
        }
        self.fail(namespace, ack, event, close, &mut context.output);
    }

    /// Answers that it was done.
    pub(super) fn succeed(
        &self,
        namespace: u8,
        ack: Option<u64>,
        id: Option<u64>,
        output: &mut Output<'_>,
    ) {
        let (Some(ack), Some(known)) = (ack, self.namespaces.get(namespace)) else { return };
        let mut text = Text::answer(0, known.name(), ack, true);
        if let Some(id) = id {
            text.raw(",\"id\":");
            text.number(id);
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
