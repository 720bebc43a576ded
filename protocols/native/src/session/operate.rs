//! OPERATE and RESULT: operations on topics in their one text form, with values as bytes beside it.
//!
//! Relies on `tiderace-wire` for the text, both ways. Invariant: of operations whose answers hold
//! values only so many are under way at a time, since each answer is memory.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Command, Context, Operation, Outturn, Reading, Token};

use super::{NativeSession, error, say};
use crate::codec::{OperateMessage, QueuedEntry, ResultMessage, ServerMessage, split_content};
use crate::options::LARGE_ANSWERS_MAX;

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
        let values = outturn.values();
        let mut entries = Vec::with_capacity(outturn.bytes() + values.len() * ENTRY_BYTES);
        for message in values.iter().filter_map(|(run, place)| run.message(*place)) {
            let (content, properties) = split_content(message.properties);
            QueuedEntry { flags: content.bits(), properties, body: message.body }
                .write(&mut entries);
        }
        let result = ResultMessage {
            request: token,
            outturn: std::str::from_utf8(&text).unwrap_or_default(),
            entries: &entries,
        };
        say(&ServerMessage::Result(result), &mut context.output);
    }
}

/// What an entry has besides properties and body, as a rule.
const ENTRY_BYTES: usize = 8;
