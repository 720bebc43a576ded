//! Operations on topics, and what is told of topics that come and go.
//!
//! Relies on `Operation::read` for what an operation may say. Invariant: an operation is answered
//! like every other event, once and only where its client asked for an answer; of those whose answers
//! hold values only so many are under way at a time.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_value::append_text;
use tiderace_wire::{
    Command, Confirm, Context, Operation, OperationResult, Output, Reading, SubscriptionKey,
    Target, Token,
};

use super::answer::Made;
use super::event::Event;
use super::questions::{Waiting, What};
use super::state::SocketSession;
use crate::body::{BINARY, body_of};
use crate::write::Text;
use tiderace_base::limits::LARGE_ANSWERS_MAX;

impl SocketSession {
    /// `operate({do, …}, value?, ack?)`.
    pub(super) fn operate(
        &mut self,
        now: Now,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let value = event.argument(1).map(|value| body_of(value, event.attachments));
        let reading = Reading {
            body: value.as_ref().map(|(body, _)| &**body),
            now: now.time,
            path: &|name| self.path(name),
            selector: &|name| {
                let targets = self.topics(name)?.into_iter();
                Ok(targets.filter_map(pattern_of).collect())
            },
        };
        let given = event.value(0)?;
        if value.as_ref().is_some_and(|(_, kind)| *kind != BINARY) {
            let problem = "its second argument is a Buffer; any other value belongs into the first";
            return Err(event.wrong(problem));
        }
        let operation = Operation::read(given, &reading)?;
        let reads = operation.has_large_answer();
        if reads && self.cold().questions.has_enough_large() {
            let reason = format!(
                "{LARGE_ANSWERS_MAX} operations that read wait for their answers; wait for one"
            );
            return Err(Close::new(CloseCode::TooManyReceipts, reason));
        }
        let token = self.ask(event.namespace, event.ack, "operate", What::Plain)?;
        if reads {
            self.cold().questions.note_large(token);
        }
        context.commands.push(Command::Operate { token, operation: Box::new(operation) });
        Ok(())
    }

    /// What came of an operation.
    pub(super) fn operated(
        &mut self,
        token: Token,
        result: &OperationResult,
        output: &mut Output<'_>,
    ) {
        let Some(cold) = &mut self.cold else { return };
        cold.questions.end_large(token);
        let Some(waiting) = cold.questions.take(Confirm::one(token)) else { return };
        let Waiting { namespace, ack, what, .. } = waiting;
        if let What::Listen(key) = what {
            return self.succeed(namespace, ack, Some(Made::of(u64::from(key.0))), output);
        }
        let (Some(ack), Some(known)) = (ack, self.namespaces.get(namespace)) else { return };
        let mut text = Text::answer(0, known.name(), ack, true);
        // The members of the result stand beside `ok`.
        text.members(|out| result.write_json(out, true));
        text.raw("]");
        output.frame_of(text.into_bytes(), true);
    }

    /// Tells of a topic that a subscription has gained: `joined(path, {id, spec})`.
    pub(super) fn joined(
        &self,
        key: SubscriptionKey,
        path: &str,
        spec: &[u8],
        output: &mut Output<'_>,
    ) {
        self.notice("joined", key, path, ("spec", spec), output);
    }

    /// Tells that a browser has seen all that was in its queue: `browsed(queue, {id})`.
    pub(super) fn browsed(&self, key: SubscriptionKey, output: &mut Output<'_>) {
        let Some(known) = self.subscriptions.get(key) else { return };
        let Some(namespace) = self.namespaces.get(known.namespace) else { return };
        let mut text = Text::event(0, namespace.name(), None, "browsed");
        text.raw(",");
        text.text(&known.name);
        text.raw(",{\"id\":");
        text.number(u64::from(key.0));
        text.raw("}]");
        output.frame(text.bytes(), true);
    }

    /// Tells of a topic that a subscription has lost: `left(path, {id, reason})`.
    pub(super) fn left(
        &self,
        key: SubscriptionKey,
        path: &str,
        reason: &str,
        output: &mut Output<'_>,
    ) {
        let mut quoted = Vec::new();
        append_text(&mut quoted, reason);
        self.notice("left", key, path, ("reason", &quoted), output);
    }

    fn notice(
        &self,
        event: &str,
        key: SubscriptionKey,
        path: &str,
        member: (&str, &[u8]),
        output: &mut Output<'_>,
    ) {
        let Some(known) = self.subscriptions.get(key) else { return };
        let Some(namespace) = self.namespaces.get(known.namespace) else { return };
        let mut text = Text::event(0, namespace.name(), None, event);
        text.raw(",");
        text.text(path);
        text.raw(",{\"id\":");
        text.number(u64::from(key.0));
        text.raw(",\"");
        text.raw(member.0);
        text.raw("\":");
        text.raw(std::str::from_utf8(member.1).unwrap_or("null"));
        text.raw("}]");
        output.frame(text.bytes(), true);
    }
}

/// The pattern that a target is.
pub(super) fn pattern_of(target: Target) -> Option<tiderace_topics::Pattern> {
    match target {
        Target::Pattern(_, pattern) => Some(pattern),
        Target::Exact(destination) => {
            tiderace_topics::Pattern::parse(destination.path.as_str()).ok()
        }
    }
}
