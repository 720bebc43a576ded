//! What is being done for a request, and the answer that comes of it.
//!
//! Relies on the session for the answer's way out. Invariant: an answer is given at most once, and not before all
//! that belongs into it has come.

use tiderace_base::Close;
use tiderace_wire::{Confirm, Delivery, OperationResult, Response, Token};

use super::stream::Stream;
use super::value::{List, Value, service_answer};
use crate::answer::{Fault, json};
use crate::batch::{self, Outcome};

/// What is being done.
pub(super) enum Job {
    /// A retained value is looked for.
    Value(Value),
    /// Retained values are collected.
    List(List),
    /// A message is published; this is the answer when that is confirmed.
    Publish(Response),
    /// The items of a batch are published.
    Batch(Vec<Outcome>),
    /// Something is done by an operation.
    Operate {
        /// Whether it is about one session, which is missing if the answer counts none.
        of_one_session: bool,
    },
    /// A service is called; the answer, once it came.
    Call(Option<Response>),
    /// A subscription for a stream is made.
    Listen(Box<Stream>),
}

impl Job {
    /// The stream whose subscription is made.
    pub(super) fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Job::Listen(stream) => Some(stream),
            _ => None,
        }
    }

    /// Takes in what was delivered for it.
    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>) {
        match self {
            Job::Value(value) => value.deliver(delivery),
            Job::List(list) => list.deliver(delivery),
            Job::Call(answer @ None) if delivery.exchange.is_some() => {
                *answer = service_answer(delivery);
            }
            _ => {}
        }
    }

    /// These are done: gives the answer, if that is all there is to it.
    pub(super) fn confirmed(&mut self, confirm: Confirm) -> Option<Response> {
        match self {
            Job::Value(value) => value.confirmed = true,
            Job::List(list) => list.confirmed = true,
            Job::Publish(response) => return Some(std::mem::take(response)),
            Job::Batch(outcomes) => {
                settle(outcomes, confirm, &Outcome::Accepted);
                return self.settled();
            }
            Job::Call(_) | Job::Operate { .. } | Job::Listen(_) => {}
        }
        None
    }

    /// Something of it was refused, or all of it without a token: gives the answer, if nothing else is waited for.
    pub(super) fn refused(&mut self, token: Option<Token>, fault: Fault) -> Option<Response> {
        let Job::Batch(outcomes) = self else { return Some(fault.response()) };
        let all = Confirm { from: 0, to: Token::MAX };
        settle(outcomes, token.map_or(all, Confirm::one), &Outcome::Refused(fault));
        self.settled()
    }

    /// The answer to a batch all of whose items are settled.
    pub(super) fn settled(&self) -> Option<Response> {
        match self {
            Job::Batch(outcomes) if !outcomes.contains(&Outcome::Waiting) => {
                Some(json(200, batch::results(outcomes)))
            }
            _ => None,
        }
    }

    /// What came of an operation, as an answer.
    pub(super) fn operated(&self, result: &OperationResult) -> Option<Response> {
        let Job::Operate { of_one_session } = self else { return None };
        let sessions = match result {
            OperationResult::Sessions(page) => page.sessions.len() as u64,
            OperationResult::Kicked { sessions, .. } => *sessions,
            _ => 1,
        };
        if *of_one_session && sessions == 0 {
            let text = "there is no such session, or it is the one that asks";
            return Some(Fault::not_found(text).response());
        }
        let mut body = Vec::new();
        result.write_json(&mut body, true);
        body.push(b'\n');
        Some(json(200, body))
    }

    /// The call is over; if it has had no answer, this says why.
    pub(super) fn exchange_ended(&self, close: Close) -> Option<Response> {
        let Job::Call(None) = self else { return None };
        Some(Fault::from(close).response())
    }

    /// The answer that is made of what was delivered, once all of it has come.
    pub(super) fn answer(&mut self, epoch: u64) -> Option<Response> {
        match self {
            Job::Value(value) => value.answer(epoch),
            Job::List(list) => list.answer(),
            Job::Call(answer) => answer.take(),
            Job::Publish(_) | Job::Batch(_) | Job::Listen(_) | Job::Operate { .. } => None,
        }
    }
}

fn settle(outcomes: &mut [Outcome], tokens: Confirm, outcome: &Outcome) {
    for (place, token) in outcomes.iter_mut().zip(0..) {
        if *place == Outcome::Waiting && (tokens.from..=tokens.to).contains(&token) {
            *place = outcome.clone();
        }
    }
}
