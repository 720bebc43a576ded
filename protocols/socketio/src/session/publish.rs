//! Publishing to topics and sending to queues.
//!
//! Relies on `body` for values, and on the broker to answer for each message of a run that asked.
//! Invariant: nothing is handed over of an event that is refused here.

use std::borrow::Cow;

use tiderace_base::{Close, Now};
use tiderace_value::Json;
use tiderace_wire::{Context, Destination, Flags, Kind, Meta, QueueFields, properties};

use super::event::Event;
use super::questions::What;
use super::state::SocketSession;
use crate::body::body_of;

impl SocketSession {
    /// `publish(topic, value, {retain, headers, ttl}?, ack?)`, `send(queue, value, {persistent,
    /// delay, deliverAt, group, priority, headers, ttl}?, ack?)`.
    pub(super) fn publish(
        &mut self,
        now: Now,
        event: &Event<'_>,
        name: &'static str,
        kind: Kind,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let path = self.path(&event.text(0)?)?;
        let value = event.value(1)?;
        let options = event.options(2)?;
        let flags = retain(event, options)? | persistent(event, options)?;
        let mut meta = Meta { flags, expires_ms: None };
        if let Some(ttl) = event.number(options, "ttl")?.filter(|ttl| *ttl > 0) {
            meta.expires_ms = Some(now.wall_ms.saturating_add(ttl));
        }
        let (body, content_type) = body_of(value, event.attachments);
        let mut block = Vec::with_capacity(64);
        properties::append(&mut block, "content-type", content_type);
        let fields = QueueFields {
            delay_ms: event.number(options, "delay")?,
            deliver_at_ms: event.number(options, "deliverAt")?,
            group: group(event, options)?,
            priority: priority(options)?,
        };
        meta.flags = meta.flags | fields.append(now, kind, &mut block)?;
        event.append_headers(options, &mut block)?;
        let destination = Destination { kind, path };
        self.put(event, name, &destination, &block, &body, meta, context)
    }

    /// Hands a message over.
    #[allow(clippy::too_many_arguments, reason = "they are the message's parts")]
    pub(super) fn put(
        &mut self,
        event: &Event<'_>,
        name: &'static str,
        destination: &Destination,
        block: &[u8],
        body: &[u8],
        mut meta: Meta,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = match event.ack {
            Some(_) => Some(self.ask(event.namespace, event.ack, name, What::Plain)?),
            None => None,
        };
        if block.contains(&b'\\') {
            meta.flags = meta.flags | Flags::ESCAPED;
        }
        context.commands.message(destination).extend_from_slice(block);
        context.commands.publish(body, meta, token);
        Ok(())
    }
}

/// The option `group`: a text.
fn group<'a>(event: &Event<'_>, options: Json<'a>) -> Result<Option<Cow<'a, str>>, Close> {
    match options.field("group").filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_text() {
            Some(text) => Ok(Some(text)),
            None => Err(event.wrong("its option `group` is a text")),
        },
    }
}

/// The option `priority`: a whole number from 0 to 9.
fn priority(options: Json<'_>) -> Result<Option<u8>, Close> {
    let given = options.field("priority").filter(|value| !value.is_null());
    given.map(|value| QueueFields::check_priority(value.as_unsigned(), value.text())).transpose()
}

/// The option `persistent`: true or false.
fn persistent(event: &Event<'_>, options: Json<'_>) -> Result<Flags, Close> {
    let Some(asked) = options.field("persistent").filter(|value| !value.is_null()) else {
        return Ok(Flags::NONE);
    };
    match asked.as_bool() {
        Some(true) => Ok(Flags::PERSISTENT),
        Some(false) => Ok(Flags::NONE),
        None => Err(event.wrong("its option `persistent` is true or false")),
    }
}

/// The option `retain`: true, false, or `"remove"`.
fn retain(event: &Event<'_>, options: Json<'_>) -> Result<Flags, Close> {
    let Some(retain) = options.field("retain").filter(|value| !value.is_null()) else {
        return Ok(Flags::NONE);
    };
    match (retain.as_bool(), retain.as_text().as_deref()) {
        (Some(true), _) => Ok(Flags::RETAIN),
        (Some(false), _) => Ok(Flags::NONE),
        (_, Some("remove")) => Ok(Flags::RETAIN_REMOVE),
        _ => Err(event.wrong("its option `retain` is true, false or \"remove\"")),
    }
}
