//! Operations on topics, in their one text form, by request-response to `operate:`.
//!
//! Relies on `tiderace-wire` for the text, both ways. Invariant: of requests whose answers hold values
//! only so many are under way at a time, since each answer is memory.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Command, Context, Operation, OperationResult, Reading, SharedRun, Token};

use super::begin::Begin;
use super::cold::Waiting;
use super::state::RSocketSession;
use super::streams::Stream;
use crate::frame::{Interaction, Payload};
use crate::metrics::Signal;
use tiderace_base::limits::LARGE_ANSWERS_MAX;

impl RSocketSession {
    pub(super) fn operate(
        &mut self,
        begin: &Begin<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if begin.request.interaction != Interaction::Response {
            let reason = "an operation is a request-response";
            return Err(Close::new(CloseCode::BadOperation, reason));
        }
        let reading = Reading {
            body: None,
            now: begin.now.time,
            path: &|text| self.path(text),
            selector: &|text| Ok(self.selector(text)?.patterns().to_vec()),
        };
        let operation = Operation::parse(begin.request.payload.data, &reading)?;
        self.begin_reading(begin.stream, Waiting::Operate(begin.stream), operation, context)
    }

    /// Asks the broker to do something whose answer may be large.
    pub(super) fn begin_reading(
        &mut self,
        stream: u32,
        waiting: Waiting,
        operation: Operation,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.cold().large_answers >= LARGE_ANSWERS_MAX {
            let reason = format!(
                "{LARGE_ANSWERS_MAX} requests that read wait for their answers; wait for one"
            );
            return Err(Close::new(CloseCode::TooManyReceipts, reason));
        }
        let token = self.ask(waiting);
        self.cold().large_answers += 1;
        self.streams.insert(stream, Stream::Waiting { token });
        context.commands.push(Command::Operate { token, operation: Box::new(operation) });
        Ok(())
    }

    /// One answer less is under way.
    pub(super) fn read_answered(&mut self) {
        let cold = self.cold();
        cold.large_answers = cold.large_answers.saturating_sub(1);
    }

    /// Something was done.
    pub(super) fn operated(
        &mut self,
        token: Token,
        result: &OperationResult,
        context: &mut Context<'_>,
    ) {
        let Some(waiting) = self.cold.as_mut().and_then(|cold| cold.waiting.remove(&token)) else {
            return;
        };
        self.read_answered();
        let output = &mut context.output;
        match waiting {
            Waiting::Operate(stream) if self.is_waiting(stream, token) => {
                let mut text = Vec::new();
                result.write_json(&mut text, true);
                self.writer.item(stream, Payload::data(&text), true, output);
                self.end_stream(stream, Signal::Complete);
            }
            Waiting::Fetch(stream) if self.is_waiting(stream, token) => {
                match result.values().first() {
                    Some((run, place)) => {
                        let run = SharedRun::new((*run).clone());
                        let data = run.body_bytes(*place).unwrap_or_default();
                        self.writer.shared_item(stream, None, data, true, output);
                    }
                    None => self.writer.complete(stream, output),
                }
                self.end_stream(stream, Signal::Complete);
            }
            _ => {}
        }
    }
}
