//! Operations on topics, and what is told of topics that come and go.
//!
//! Relies on `Operation::read` for what an operation may say. Invariant: an operation is answered
//! like every other event, once and only where its client asked for an answer; of those whose answers
//! hold values only so many are under way at a time.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_value::{Json, append_text};
use tiderace_wire::{
    Command, Confirm, Context, Operation, OperationResult, Output, Reading, Replay,
    SubscriptionKey, Target, Token, span_of,
};

use super::SocketSession;
use super::answer::{Waiting, What};
use super::event::Event;
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
        if reads && self.cold().large_answers.len() >= LARGE_ANSWERS_MAX {
            let reason = format!(
                "{LARGE_ANSWERS_MAX} operations that read wait for their answers; wait for one"
            );
            return Err(Close::new(CloseCode::TooManyReceipts, reason));
        }
        let token = self.ask(event.namespace, event.ack, "operate", What::Plain)?;
        if reads {
            self.cold().large_answers.push(token);
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
        self.is_answered(token);
        let Some((_, waiting)) = self.take_waiting(Confirm::one(token)) else { return };
        let Waiting { namespace, ack, .. } = waiting;
        let (Some(ack), Some(known)) = (ack, self.namespaces.get(namespace)) else { return };
        let mut text = Text::answer(0, known.name(), ack, true);
        // The members of the result stand beside `ok`.
        text.members(|out| result.write_json(out, true));
        text.raw("]");
        output.frame_of(text.into_bytes(), true);
    }

    /// An operation is answered: another that reads may take its place.
    pub(super) fn is_answered(&mut self, token: Token) {
        if let Some(cold) = &mut self.cold {
            cold.large_answers.retain(|waiting| *waiting != token);
        }
    }

    /// Tells of a topic that a subscription has gained or lost: `joined(path, {id, spec})` and
    /// `left(path, {id, reason})`.
    pub(super) fn notice(
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

/// A JSON string, for [`SocketSession::notice`].
pub(super) fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    append_text(&mut out, text);
    out
}

fn pattern_of(target: Target) -> Option<tiderace_topics::Pattern> {
    match target {
        Target::Pattern(_, pattern) => Some(pattern),
        Target::Exact(destination) => {
            tiderace_topics::Pattern::parse(destination.path.as_str()).ok()
        }
    }
}

/// The option `replay` of a subscription: `{last: 10}`, `{version: 7}` or `{since: ms}`.
pub(super) fn replay(event: &Event<'_>, options: Json<'_>) -> Result<Option<Replay>, Close> {
    let Some(given) = options.field("replay").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let wrong =
        || event.wrong("its option `replay` is {last: 10}, {version: 7} or {since: milliseconds}");
    let mut fields = given.fields();
    let (name, value) = fields.next().filter(|_| fields.next().is_none()).ok_or_else(wrong)?;
    let number = value.as_unsigned().ok_or_else(wrong)?;
    Ok(Some(match name.as_text().as_deref() {
        Some("last") => Replay::Last(u32::try_from(number).unwrap_or(u32::MAX)),
        Some("version") => Replay::Version(number),
        Some("since") => Replay::Time(number),
        _ => return Err(wrong()),
    }))
}

/// The option `interval` of a subscription, in milliseconds.
pub(super) fn interval(options: Json<'_>) -> Result<u32, Close> {
    let Some(given) = options.field("interval").filter(|value| !value.is_null()) else {
        return Ok(0);
    };
    let millis = span_of(given).map(|span| span.as_millis());
    millis.and_then(|millis| u32::try_from(millis).ok()).ok_or_else(|| {
        Close::new(
            CloseCode::BadFrame,
            "`subscribe`: its option `interval` is milliseconds, or text such as \"250ms\"",
        )
    })
}
