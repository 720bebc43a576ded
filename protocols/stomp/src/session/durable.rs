//! SUBSCRIBE and UNSUBSCRIBE with `persistent:true`: durable subscriptions, as Apollo spells them.
//!
//! The `id` is the name of the subscription for all clients, and its queue is `/dsub/ID`. Relies on the operations on
//! durable subscriptions for all that becomes of them. Invariant: the receipt says that the subscription is there and
//! gathers, or that it is gone.

use tiderace_base::{Close, CloseCode};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Context, Destination, DurableSubscription, Kind, Operation, Target, Token,
};

use super::request::Request;
use super::state::StompSession;
use crate::destination::parse_durable;
use crate::error::{bad_header, fault, shown};

/// Whether the header `persistent` asks for a durable subscription.
pub(super) fn is_persistent(request: &Request<'_>) -> Result<bool, Close> {
    match request.headers.find_raw("persistent") {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(other) => {
            let text = format_args!("`persistent:{}` is not known. Use `true`.", shown(other));
            Err(bad_header(request.command, text))
        }
    }
}

impl StompSession {
    /// What makes the durable subscription of that id, which is consumed from as a queue.
    pub(super) fn durable_of(
        &self,
        request: &Request<'_>,
        id: &str,
        (targets, selector): (Vec<Target>, Option<Selector>),
    ) -> Result<DurableSubscription, Close> {
        let queue = self.durable_queue(request, id)?;
        let topics: Option<Vec<Pattern>> = targets.into_iter().map(topic_of).collect();
        let Some(topics) = topics else {
            let text = "`persistent:true` is for topics. A queue keeps its messages anyway.";
            return Err(bad_header(request.command, text));
        };
        Ok(DurableSubscription { queue, topics, selector })
    }

    /// Ends a durable subscription, which the session may consume from or not.
    pub(super) fn end_durable(
        &mut self,
        request: &Request<'_>,
        id: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let queue = self.durable_queue(request, id)?;
        let owed = self.owe(request.command, request.headers, 1)?;
        // It has a token of its own in any case: by that the record knows its answer from others.
        let token = owed.unwrap_or_else(|| self.await_unasked(1));
        operate(token, Operation::DeleteSubscription { queue }, context);
        Ok(())
    }

    fn durable_queue(&self, request: &Request<'_>, id: &str) -> Result<Path, Close> {
        parse_durable(id, &self.temporary).map_err(|error| {
            let text =
                format_args!("`{}` names no durable subscription: {error}", shown(id.as_bytes()));
            fault(CloseCode::BadDestination, request.command, text)
        })
    }
}

/// Has something done.
pub(super) fn operate(token: Token, operation: Operation, context: &mut Context<'_>) {
    context.commands.push(Command::Operate { token, operation: Box::new(operation) });
}

/// The topics that a target names, if it names topics.
fn topic_of(target: Target) -> Option<Pattern> {
    match target {
        Target::Pattern(Kind::Topic, pattern) => Some(pattern),
        Target::Exact(Destination { kind: Kind::Topic, path }) => {
            Pattern::parse(path.as_str()).ok()
        }
        _ => None,
    }
}
