//! Questions to the broker that wait for their answers.
//!
//! Relies on tokens rising. Invariant: a question is answered once.

use std::collections::BTreeMap;

use tiderace_base::limits::LARGE_ANSWERS_MAX;
use tiderace_wire::{Confirm, SubscriptionKey, Token};

/// A question to the broker.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The number of the namespace it is for.
    pub(super) namespace: u8,
    pub(super) ack: Option<u64>,
    pub(super) event: &'static str,
    pub(super) what: What,
    /// Whether nothing is missing, of a subscription of which that is asked.
    pub(super) complete: Option<bool>,
}

/// What the answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Nothing further.
    Plain,
    /// The subscription is made.
    Listen(SubscriptionKey),
    /// The durable subscription is consumed from, which is made by another question.
    Consume(SubscriptionKey),
    /// Nothing any more: who asked has been told otherwise.
    Over,
    /// The namespace's own subscription is made.
    Join(SubscriptionKey),
    /// A subscription of a client that came back is made.
    Restore(SubscriptionKey),
}

/// By their tokens.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: BTreeMap<Token, Waiting>,
    /// Those among them whose answers may be large.
    large: Vec<Token>,
}

impl Questions {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.large.is_empty()
    }

    /// How many wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(super) fn insert(&mut self, token: Token, waiting: Waiting) {
        self.waiting.insert(token, waiting);
    }

    /// Its answer says whether anything is missing: something is, unless the broker says otherwise.
    pub(super) fn expect_recovery(&mut self, token: Token) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            waiting.complete = Some(false);
        }
    }

    /// What a subscription has missed is on its way, all of it or not.
    pub(super) fn recovered(&mut self, token: Token, complete: bool) {
        let asked = self.waiting.get_mut(&token).and_then(|waiting| waiting.complete.as_mut());
        if let Some(known) = asked {
            *known = complete;
        }
    }

    /// Takes the first of those that these tokens are.
    #[inline]
    pub(super) fn take(&mut self, confirm: Confirm) -> Option<Waiting> {
        if confirm.from > confirm.to {
            return None;
        }
        let token = *self.waiting.range(confirm.from..=confirm.to).next()?.0;
        self.waiting.remove(&token)
    }

    /// One that could not be asked.
    pub(super) fn forget(&mut self, token: Token) {
        self.waiting.remove(&token);
    }

    /// Forgets what is asked for a namespace.
    pub(super) fn forget_namespace(&mut self, number: u8) {
        self.waiting.retain(|_, waiting| waiting.namespace != number);
    }

    /// Takes out the questions for a subscription that ends before they are answered: the one whose answer its client
    /// waits for, if there is one. Of a durable one the broker answers both all the same.
    pub(super) fn end_listening(
        &mut self,
        key: SubscriptionKey,
        is_durable: bool,
    ) -> Option<Waiting> {
        match is_durable {
            true => {
                let consumes = self.waiting.values_mut().filter(|it| it.what == What::Consume(key));
                consumes.for_each(|waiting| waiting.what = What::Over);
            }
            false => self.waiting.retain(|_, waiting| waiting.what != What::Consume(key)),
        }
        let asked = |(token, waiting): (&Token, &Waiting)| {
            (waiting.what == What::Listen(key)).then_some(*token)
        };
        let token = self.waiting.iter().find_map(asked)?;
        let waiting = self.waiting.remove(&token)?;
        if is_durable {
            self.waiting.insert(token, Waiting { ack: None, what: What::Over, ..waiting });
        }
        Some(waiting)
    }

    /// The number of the namespace for which it was asked.
    pub(super) fn namespace_of(&self, token: Token) -> Option<u8> {
        self.waiting.get(&token).map(|waiting| waiting.namespace)
    }

    /// Whether another whose answer may be large has to wait.
    pub(super) fn has_enough_large(&self) -> bool {
        self.large.len() >= LARGE_ANSWERS_MAX
    }

    /// Notes that the answer may be large.
    pub(super) fn note_large(&mut self, token: Token) {
        self.large.push(token);
    }

    /// It is answered: another whose answer may be large may take its place.
    pub(super) fn end_large(&mut self, token: Token) {
        self.large.retain(|waiting| *waiting != token);
    }
}
