//! What operations and their answers take: bytes of messages and texts.
//!
//! Relies on each part for its own. Invariant: what may be large has a number here.

use tiderace_filter::Selector;

use super::{
    AuditQuery, ConfigQuery, ConsumerEntry, DurableSubscription, ListingEntry, NewValue,
    NodeOperation, NodeReport, Operation, OperationResult, PeekedMessage, SessionQuery, TopicEntry,
};

impl Operation {
    /// Bytes of the messages and texts in it.
    pub fn bytes(&self) -> usize {
        match self {
            Operation::Create { spec, value, .. } => {
                spec.len() + value.as_ref().map_or(0, NewValue::bytes)
            }
            Operation::Update(update) => {
                let texts = [&update.properties, &update.spec];
                let texts = texts.into_iter().flatten().map(|text| text.len());
                update.change.bytes() + texts.sum::<usize>()
            }
            Operation::Amend { value, .. } => value.bytes(),
            Operation::View { text, .. } => text.as_ref().map_or(0, |text| text.len()),
            Operation::Will(run) => run.as_ref().map_or(0, |run| run.bytes()),
            Operation::Sessions(query) => size_of::<SessionQuery>() + query.filter.bytes(),
            Operation::Blocks(asked) => asked.bytes(),
            Operation::Traces(asked) => asked.bytes(),
            Operation::Node(asked) => match &**asked {
                NodeOperation::Explain(question) => question.bytes(),
                NodeOperation::Identities(asked) => asked.bytes(),
                NodeOperation::Audit(query) => size_of::<AuditQuery>() + query.bytes(),
                NodeOperation::Config(query) => size_of::<ConfigQuery>() + query.bytes(),
                _ => 0,
            },
            Operation::Peek(peek) => selector_bytes(peek.selector.as_ref()),
            Operation::Purge { selector, .. } => selector_bytes(selector.as_ref()),
            Operation::CreateSubscription(made) => size_of::<DurableSubscription>() + made.bytes(),
            Operation::Move(it) => selector_bytes(it.selector.as_ref()),
            _ => 0,
        }
    }
}

impl TopicEntry {
    /// Bytes of its path, its value and its specification as it is written down.
    pub fn bytes(&self) -> usize {
        let value = self.value.as_ref().map_or(0, |run| run.bytes());
        let spec = self.spec.as_ref().map_or(0, |spec| spec.written_bytes());
        self.path.as_str().len() + value + spec
    }
}

impl OperationResult {
    /// Bytes of the messages and texts in it, with what is written around each of them: a shard that has to write
    /// ten thousand empty messages has much to do.
    pub fn bytes(&self) -> usize {
        let values = |count: usize, bytes: usize| bytes + ENTRY_BYTES * count;
        match self {
            OperationResult::Page(page) => {
                values(page.topics.len(), page.topics.iter().map(TopicEntry::bytes).sum())
            }
            OperationResult::Topic(topic) => values(1, topic.bytes()),
            OperationResult::Events(events) => {
                let runs = events.events.iter().map(|event| event.run.bytes());
                values(events.events.len(), runs.sum())
            }
            OperationResult::Views(views) => {
                values(views.len(), views.iter().map(|view| view.text.len()).sum())
            }
            OperationResult::Sessions(page) => values(page.sessions.len(), page.bytes()),
            OperationResult::Blocks(result) => result.bytes(),
            OperationResult::Traces(result) => result.bytes(),
            OperationResult::Stats(text) => text.len(),
            OperationResult::Listing(page) => {
                values(page.entries.len(), page.entries.iter().map(ListingEntry::bytes).sum())
            }
            OperationResult::Queue(queue) => values(
                queue.consumers.len(),
                queue.consumers.iter().map(ConsumerEntry::bytes).sum(),
            ),
            OperationResult::Messages(page) => {
                let of = |it: &PeekedMessage| it.run.bytes_of(it.place, it.place + 1);
                values(page.messages.len(), page.messages.iter().map(of).sum())
            }
            OperationResult::Node(report) => match &**report {
                NodeReport::BackupPart(part) => values(1, part.run().bytes()),
                NodeReport::Audit(page) => page.bytes(),
                NodeReport::Config(page) => page.bytes(),
                NodeReport::Identities(page) => page.bytes(),
                _ => 0,
            },
            _ => 0,
        }
    }
}

/// What a value in an answer counts for beside its bytes: path, version, time and author are written around it, which
/// takes as long as copying so many bytes.
const ENTRY_BYTES: usize = 256;

/// Bytes that a selector takes, with what is made of its text.
fn selector_bytes(selector: Option<&Selector>) -> usize {
    selector.map_or(0, |selector| SELECTOR_BYTES * selector.text().len())
}

/// Bytes that are made of a selector, for each of its text.
const SELECTOR_BYTES: usize = 4;
