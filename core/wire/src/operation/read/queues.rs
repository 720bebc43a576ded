//! The operations on queues, read.
//!
//! Relies on what is read for all operations. Invariant: a selector over messages is bounded before it is compiled.

use tiderace_base::Close;
use tiderace_base::limits::{REGEX_AUTOMATON_BYTES_MAX, SELECTOR_REGEXES_MAX};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};
use tiderace_value::JsonKind;

use super::{Given, bad};
use crate::operation::queue::selector_of;
use crate::{
    Browsable, DURABLE_TOPICS_MAX, DurableSubscription, MoveMessages, Operation, Peek, QueueQuery,
    durable_queue,
};

impl Given<'_> {
    /// The operation on queues of that name, if it is one.
    pub(super) fn queue_operation(&self, what: &str) -> Result<Option<Operation>, Close> {
        Ok(Some(match what {
            "queues" => Operation::Browse(self.browse(Browsable::Queues)?),
            "queue" => {
                let (after, limit) = (self.small("after")?, self.small("limit")?);
                Operation::Queue(QueueQuery { path: self.path("path")?, after, limit })
            }
            "peek" => Operation::Peek(Box::new(Peek {
                path: self.path("path")?,
                from: self.number("from")?.unwrap_or(0),
                limit: self.small("limit")?,
                body_bytes: self.small("body_bytes")?,
                selector: self.message_selector()?,
            })),
            "purge" => {
                let (selector, up_to) = (self.message_selector()?, self.number("up_to")?);
                Operation::Purge { path: self.path("path")?, selector, up_to }
            }
            "move" => self.move_messages("from", Some(self.path("to")?))?,
            "redrive" => {
                self.move_messages("path", self.field("to").map(|_| self.path("to")).transpose()?)?
            }
            "pause" | "resume" => {
                Operation::PauseQueue { path: self.path("path")?, on: what == "pause" }
            }
            "create-subscription" => {
                let (queue, topics) = (durable_queue(&self.text("name")?)?, self.topics()?);
                let selector = self.message_selector()?;
                let made = DurableSubscription { queue, topics, selector };
                Operation::CreateSubscription(Box::new(made))
            }
            "delete-subscription" => {
                Operation::DeleteSubscription { queue: durable_queue(&self.text("name")?)? }
            }
            _ => return Ok(None),
        }))
    }

    fn move_messages(&self, from: &str, to: Option<Path>) -> Result<Operation, Close> {
        let redrive = from == "path";
        let from = self.path(from)?;
        if to.as_ref() == Some(&from) {
            return Err(bad("messages cannot go from a queue to itself"));
        }
        let (selector, limit) = (self.message_selector()?, self.number("limit")?);
        let up_to = self.number("up_to")?;
        let asked = MoveMessages { from, to, redrive, selector, limit, up_to };
        Ok(Operation::Move(Box::new(asked)))
    }

    /// The topics that feed a durable subscription.
    fn topics(&self) -> Result<Vec<Pattern>, Close> {
        let wrong = || {
            let text = format!(
                "`topics` is a pattern of topics such as \"fx/**\", or a list of 1 to {DURABLE_TOPICS_MAX} of them"
            );
            bad(text)
        };
        let given = self.field("topics").ok_or_else(wrong)?;
        let texts: Vec<_> = match given.kind() {
            JsonKind::Array => given.elements().collect(),
            _ => vec![given],
        };
        let mut topics = Vec::new();
        for text in texts {
            let text = text.as_text().ok_or_else(wrong)?;
            topics.extend((self.reading.selector)(&text)?);
            if topics.len() > DURABLE_TOPICS_MAX {
                return Err(wrong());
            }
            // Each element may have as many as a selector has; together they may not have more.
            let compiled: usize = topics.iter().map(Pattern::regex_bytes).sum();
            if compiled > TOPICS_COMPILED_BYTES_MAX {
                return Err(bad(
                    "`topics` has more regular expressions than one selector may have",
                ));
            }
        }
        if topics.is_empty() { Err(wrong()) } else { Ok(topics) }
    }

    /// A selector over the properties of messages.
    fn message_selector(&self) -> Result<Option<Selector>, Close> {
        let Some(given) = self.field("selector") else { return Ok(None) };
        let text = given.as_text().ok_or_else(|| bad("`selector` is a string"))?;
        selector_of(&text).map(Some)
    }
}

/// Bytes that the regular expressions of the topics of a durable subscription may compile to: as much as those of one selector.
const TOPICS_COMPILED_BYTES_MAX: usize = SELECTOR_REGEXES_MAX * REGEX_AUTOMATON_BYTES_MAX;
