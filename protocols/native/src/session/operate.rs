//! OPERATE and RESULT: operations on topics in their one text form, with values as bytes beside it.
//!
//! Relies on `tiderace-wire` for the text, both ways. Invariant: of operations whose answers hold
//! values only so many are under way at a time, since each answer is memory.

use bytes::Bytes;
use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Command, Context, Operation, OperationResult, Output, Reading, SharedRun, Token, write_varint,
};

use super::{NativeSession, refuse};
use crate::codec::{OperateMessage, QueuedEntry, ResultMessage, kind, split_content};
use tiderace_base::limits::{APART_BYTES_MIN, LARGE_ANSWERS_MAX};

impl NativeSession {
    pub(super) fn operate(
        &mut self,
        now: Now,
        message: &OperateMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = self.answered(message.request)?;
        let operation = self
            .check_size(message.body.unwrap_or_default())
            .and_then(|()| self.operation(now, token, message));
        match operation {
            Ok(operation) => {
                context.commands.push(Command::Operate { token, operation: Box::new(operation) });
                Ok(())
            }
            Err(close) => refuse(token, close, context),
        }
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
        if operation.has_large_answer() {
            let waiting = &mut self.cold().large_answers;
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

    pub(super) fn operated(
        &mut self,
        token: Token,
        result: &OperationResult,
        context: &mut Context<'_>,
    ) {
        if let Some(cold) = &mut self.cold {
            cold.large_answers.retain(|waiting| *waiting != token);
        }
        let mut text = Vec::new();
        result.write_json(&mut text, false);
        let values = Values::of(result);
        let mut result = Vec::with_capacity(HEAD_BYTES);
        ResultMessage::write_head(token, text.len(), &mut result);
        let mut head = vec![kind::RESULT];
        write_varint(&mut head, (result.len() + text.len() + values.len()) as u64);
        head.extend_from_slice(&result);
        let Output { framing, queue } = &mut context.output;
        if !framing.is_prefix() {
            head.extend_from_slice(&text);
            values.pieces().for_each(|piece| head.extend_from_slice(&piece));
            return framing.write(&head, false, queue.tail());
        }
        // By reference, as far as it is large: an answer may have megabytes.
        framing.begin(head.len() + text.len() + values.len(), false, queue.tail());
        queue.tail().extend_from_slice(&head);
        queue.share(Bytes::from(text));
        values.pieces().for_each(|piece| queue.share(piece));
    }
}

/// The entries of a RESULT.
struct Values {
    /// Those that are small, with the heads of the others.
    copied: Bytes,
    /// Large bodies, each behind so many of those bytes: an answer may hold many of them.
    shared: Vec<(usize, Bytes)>,
}

impl Values {
    fn of(result: &OperationResult) -> Values {
        let values = result.values();
        let small = values.iter().filter_map(|(run, place)| {
            let message = run.message(*place)?;
            let body = Some(message.body.len()).filter(|len| *len < APART_BYTES_MIN);
            Some(HEAD_BYTES + message.properties.len() + body.unwrap_or_default())
        });
        let mut copied = Vec::with_capacity(small.sum());
        let mut shared = Vec::new();
        for (run, place) in values {
            let Some(message) = run.message(place) else { continue };
            let (content, properties) = split_content(message.properties);
            let entry = QueuedEntry { flags: content.bits(), properties, body: b"" };
            entry.write_head(message.body.len(), &mut copied);
            let is_large = message.body.len() >= APART_BYTES_MIN;
            match is_large.then(|| SharedRun::new(run.clone()).body_bytes(place)).flatten() {
                Some(body) => shared.push((copied.len(), body)),
                None => copied.extend_from_slice(message.body),
            }
        }
        Values { copied: Bytes::from(copied), shared }
    }

    fn len(&self) -> usize {
        self.copied.len() + self.shared.iter().map(|(_, body)| body.len()).sum::<usize>()
    }

    /// All its bytes, in order.
    fn pieces(&self) -> impl Iterator<Item = Bytes> {
        let ends = self.shared.iter().map(|(end, body)| (*end, Some(body)));
        let mut begin = 0;
        ends.chain([(self.copied.len(), None)]).flat_map(move |(end, body)| {
            let before = self.copied.slice(std::mem::replace(&mut begin, end)..end);
            [Some(before), body.cloned()].into_iter().flatten()
        })
    }
}

/// What there is besides texts, properties and bodies, as a rule.
const HEAD_BYTES: usize = 16;
