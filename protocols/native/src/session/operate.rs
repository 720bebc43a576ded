//! OPERATE and RESULT: operations on topics in their one text form, with values as bytes beside it.
//!
//! Relies on `tiderace-wire` for the text, both ways. Invariant: of operations whose answers hold
//! values only so many are under way at a time, since each answer is memory.

use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Command, Context, Operation, Output, Outturn, Reading, Run, SharedRun, Token, write_varint,
};

use super::{NativeSession, error};
use crate::codec::{OperateMessage, QueuedEntry, ResultMessage, kind, split_content};
use crate::options::{APART_BYTES_MIN, LARGE_ANSWERS_MAX};

impl NativeSession {
    pub(super) fn operate(
        &mut self,
        now: Now,
        message: &OperateMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = self.answered(message.request)?;
        self.check_size(message.body.unwrap_or_default())?;
        match self.operation(now, token, message) {
            Ok(operation) => {
                context.commands.push(Command::Operate { token, operation: Box::new(operation) });
            }
            Err(close) => error(token, &close, &mut context.output),
        }
        Ok(())
    }

    fn operation(
        &mut self,
        now: Now,
        token: Token,
        message: &OperateMessage<'_>,
    ) -> Result<Operation, Close> {
        let reading = Reading {
            body: message.body,
            now: now.time,
            path: &|text| self.path(text),
            selector: &|text| Ok(self.selector(text)?.patterns().to_vec()),
        };
        let operation = Operation::parse(message.operation.as_bytes(), &reading)?;
        if matches!(operation, Operation::Fetch(_) | Operation::History(_) | Operation::Views) {
            let waiting = &mut self.rare().large_answers;
            if waiting.len() >= LARGE_ANSWERS_MAX {
                let reason = format!(
                    "{LARGE_ANSWERS_MAX} operations that read wait for their answers; wait for one"
                );
                return Err(Close::new(CloseCode::TooManyReceipts, reason));
            }
            waiting.push(token);
        }
        Ok(operation)
    }

    pub(super) fn operated(&mut self, token: Token, outturn: &Outturn, context: &mut Context<'_>) {
        if let Some(rare) = &mut self.rare {
            rare.large_answers.retain(|waiting| *waiting != token);
        }
        let mut text = Vec::new();
        outturn.write_json(&mut text, false);
        let outturn_text = std::str::from_utf8(&text).unwrap_or_default();
        let mut result = Vec::with_capacity(text.len() + HEAD_BYTES);
        ResultMessage { request: token, outturn: outturn_text, entries: b"" }.write(&mut result);
        let values: Vec<Value> = outturn.values().into_iter().filter_map(Value::of).collect();
        let entries: usize = values.iter().map(Value::len).sum();
        let mut head = vec![kind::RESULT];
        write_varint(&mut head, (result.len() + entries) as u64);
        head.extend_from_slice(&result);
        let Output { framing, queue } = &mut context.output;
        if !framing.is_prefix() {
            values.iter().for_each(|value| value.write(&mut head));
            return framing.write(&head, false, queue.tail());
        }
        framing.begin(head.len() + entries, false, queue.tail());
        queue.tail().extend_from_slice(&head);
        for value in values {
            queue.tail().extend_from_slice(&value.head);
            match value.body {
                Body::Copied(body) => queue.tail().extend_from_slice(body),
                Body::Shared(body) => queue.share(body),
            }
        }
    }
}

/// An entry of a RESULT.
struct Value<'a> {
    head: Vec<u8>,
    body: Body<'a>,
}

/// Large bodies go out by reference: an answer may hold many of them.
enum Body<'a> {
    Copied(&'a [u8]),
    Shared(Bytes),
}

impl<'a> Value<'a> {
    fn of((run, place): (&'a Arc<Run>, usize)) -> Option<Value<'a>> {
        let message = run.message(place)?;
        let (content, properties) = split_content(message.properties);
        let mut head = Vec::with_capacity(properties.len() + HEAD_BYTES);
        let entry = QueuedEntry { flags: content.bits(), properties, body: b"" };
        entry.write_head(message.body.len(), &mut head);
        let body = if message.body.len() < APART_BYTES_MIN {
            Body::Copied(message.body)
        } else {
            Body::Shared(SharedRun::new(run.clone()).body_bytes(place)?)
        };
        Some(Value { head, body })
    }

    fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Copied(body) => body,
            Body::Shared(body) => body,
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.bytes().len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(self.bytes());
    }
}

/// What there is besides texts, properties and bodies, as a rule.
const HEAD_BYTES: usize = 16;
