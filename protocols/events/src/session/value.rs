//! Answers that are made of what was delivered: retained values, lists of them, services' answers.
//!
//! Relies on retained values coming before [`tiderace_wire::Session::answer`] is asked. Invariant:
//! a list keeps no more than its limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::CloseCode;
use tiderace_base::limits::COPY_BYTES_MAX;
use tiderace_wire::{Delivery, Flags, Message, Response, SharedRun, properties};

use crate::answer::{Fault, HttpFault, json};
use crate::budget::{Charge, ListBudget};
use crate::content::{CONTENT_TYPE, sent_type};
use crate::encode::object;
use crate::limits::LIST_BYTES_MAX;
use crate::rest_operations::{is_wanted, tag};

/// A retained value that is looked for.
#[derive(Debug)]
pub(super) struct Value {
    /// The tags of those the client has.
    known: Option<String>,
    /// The tags of which it must have one.
    wanted: Option<String>,
    /// Whether the broker has told all there is.
    pub(super) confirmed: bool,
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    content_type: String,
    /// The run's own bytes.
    body: Bytes,
    version: u64,
}

impl Value {
    pub(super) fn new(known: Option<String>, wanted: Option<String>) -> Value {
        Value { known, wanted, confirmed: false, found: None }
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>) {
        let run = delivery.run.run();
        let decides = |index: &usize| run.message(*index).is_some_and(|message| is_kept(&message));
        let last = delivery.to.checked_sub(1).filter(|_| self.found.is_none());
        let Some(index) = (delivery.from..delivery.to).rev().find(decides).or(last) else { return };
        let Some(message) = run.message(index) else { return };
        if message.flags.contains(Flags::RETAIN_REMOVE) {
            self.found = None;
            return;
        }
        let version = if run.version() > 0 { run.version() + index as u64 } else { 0 };
        let body = body_of(delivery.run, index, message.body);
        self.found = Some(Found { content_type: type_of(&message), body, version });
    }

    /// The answer, once everything has come.
    pub(super) fn answer(&mut self, epoch: u64) -> Option<Response> {
        if !self.confirmed {
            return None;
        }
        let found = self.found.take();
        if let Some(wanted) = &self.wanted
            && !found.as_ref().is_some_and(|found| is_wanted(wanted, epoch, found.version))
        {
            let text = "the topic's value is none of those that `If-Match` names";
            let fault = Fault::new(CloseCode::ConditionFailed, text);
            return Some(fault.response());
        }
        let Some(found) = found else {
            return Some(Fault::not_found("the topic has no retained value").response());
        };
        let tag = tag(epoch, found.version);
        let unchanged = self.known.as_deref().is_some_and(|known| is_known(known, &tag));
        let response = if unchanged {
            Response { status: 304, ..Response::default() }
        } else {
            body(&found.content_type, found.body)
        };
        let response = response.with("ETag", tag).with("Cache-Control", "no-cache");
        Some(if found.version > 0 {
            response.with("Tiderace-Version", found.version.to_string())
        } else {
            response
        })
    }
}

/// Retained values being collected.
#[derive(Debug)]
pub(super) struct List {
    limit: usize,
    /// Whether the broker has told all there is.
    pub(super) confirmed: bool,
    rows: BTreeMap<Box<str>, Vec<u8>>,
    bytes: usize,
    /// Whether something had to be left out.
    cut: bool,
    charge: Option<Charge>,
}

impl List {
    pub(super) fn new(limit: usize, budget: Arc<ListBudget>) -> List {
        let charge = Some(Charge::new(budget));
        List { limit, confirmed: false, rows: BTreeMap::new(), bytes: 0, cut: false, charge }
    }

    /// Takes room for a row; without it the list is given up.
    fn charge(&mut self, bytes: usize) -> bool {
        let is_there = self.charge.as_mut().is_some_and(|charge| charge.grow(bytes));
        if !is_there {
            (self.charge, self.rows) = (None, BTreeMap::new());
        }
        is_there
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>) {
        let run = delivery.run.run();
        let topic = run.destination().path.as_str();
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index).filter(|_| self.charge.is_some()) else {
                return;
            };
            if !is_kept(&message) && self.rows.contains_key(topic) {
                continue;
            }
            if let Some(before) = self.rows.remove(topic) {
                self.bytes -= before.len();
            }
            if message.flags.contains(Flags::RETAIN_REMOVE) {
                continue;
            }
            if self.rows.len() == self.limit || self.bytes + message.body.len() > LIST_BYTES_MAX {
                self.cut = true;
                continue;
            }
            let version = if run.version() > 0 { run.version() + index as u64 } else { 0 };
            let mut row = Vec::new();
            object(topic, (version, None), &message, &mut row);
            row.push(b'}');
            // Escapes and properties make it larger than the body.
            if self.bytes + row.len() > LIST_BYTES_MAX {
                self.cut = true;
                continue;
            }
            if !self.charge(row.len() + topic.len() + ROW_BYTES) {
                return;
            }
            self.bytes += row.len();
            self.rows.insert(topic.into(), row);
        }
    }

    /// The answer, once everything has come.
    pub(super) fn answer(&mut self) -> Option<Response> {
        if !self.confirmed {
            return None;
        }
        let Some(charge) = self.charge.take() else {
            let message =
                "the lists that are being sent take all the memory they may; ask again later";
            return Some(Fault::of_http(HttpFault::ListsBusy, message).response());
        };
        let mut out = Vec::with_capacity(self.bytes + self.rows.len() + 64);
        out.extend_from_slice(b"{\"topics\":[");
        for (index, row) in self.rows.values().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(row);
        }
        out.extend_from_slice(b"],\"complete\":");
        out.extend_from_slice(if self.cut { b"false}\n" } else { b"true}\n" });
        Some(Response { body: charge.body(out), ..json(200, Vec::new()) })
    }
}

/// Whether a message says of itself that it changes what its topic keeps. Others are values only if the
/// topic keeps everything; beside a value they are passing by, or were published after the question.
fn is_kept(message: &Message<'_>) -> bool {
    message.flags.contains(Flags::RETAIN) || message.flags.contains(Flags::RETAIN_REMOVE)
}

/// The answer that a service's first message is.
pub(super) fn service_answer(delivery: &Delivery<'_>) -> Option<Response> {
    let message = delivery.run.run().message(delivery.from)?;
    let bytes = body_of(delivery.run, delivery.from, message.body);
    Some(body(&type_of(&message), bytes).with("Cache-Control", "no-store"))
}

/// A message's body: large ones share the run's memory, so that any number of requests holds one copy.
fn body_of(run: &SharedRun, index: usize, body: &[u8]) -> Bytes {
    let shared = (body.len() >= COPY_BYTES_MAX).then(|| run.body_bytes(index)).flatten();
    shared.unwrap_or_else(|| Bytes::copy_from_slice(body))
}

/// A published body as an answer. It is served beside the server's own pages, so it must not act
/// as one: no scripts, no guessing of types.
fn body(content_type: &str, body: Bytes) -> Response {
    Response::new(200, content_type, body)
        .with("Content-Security-Policy", "sandbox; default-src 'none'")
}

fn type_of(message: &Message<'_>) -> String {
    let told = properties::find(message.properties, CONTENT_TYPE);
    sent_type(told.as_deref(), message.body)
}

/// Whether a list of tags, as `If-None-Match` gives it, holds that one (RFC 9110 section 13.1.2).
fn is_known(list: &str, tag: &str) -> bool {
    let mut tags = list.split(',').map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// What a row takes besides its texts.
const ROW_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta, Run, SharedRun, SubscriptionKey};

    #[test]
    fn a_list_stays_within_its_bytes_however_much_is_escaped() {
        let mut list = List::new(10, Arc::new(ListBudget::new(usize::MAX)));
        let bodies = [("a", vec![1; LIST_BYTES_MAX / 4]), ("b", b"small".to_vec())];
        for (topic, body) in bodies {
            let path = Path::parse(topic).unwrap();
            let destination = Destination { kind: Kind::Topic, path };
            let run = Run::single(destination, Time::ZERO, b"", &body, Meta::default());
            let run = SharedRun::new(Arc::new(run));
            let key = SubscriptionKey(0);
            let (redeliveries, reached) = (0, 1);
            list.deliver(&Delivery {
                key,
                run: &run,
                from: 0,
                to: 1,
                redeliveries,
                reached,
                exchange: None,
            });
        }
        list.confirmed = true;
        let body = String::from_utf8(list.answer().unwrap().body.into()).unwrap();
        assert_eq!(
            body,
            "{\"topics\":[{\"topic\":\"b\",\"value\":\"small\"}],\"complete\":false}\n"
        );
    }

    #[test]
    fn tags_are_compared_weakly() {
        for list in ["\"a\"", "*", "\"b\", \"a\"", "W/\"a\"", " \"x\" ,W/\"a\""] {
            assert!(is_known(list, "\"a\""), "{list}");
        }
        for list in ["", "a", "\"b\"", "\"a", "w/\"a\""] {
            assert!(!is_known(list, "\"a\""), "{list}");
        }
    }
}
