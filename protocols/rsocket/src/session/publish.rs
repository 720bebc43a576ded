//! Publishing to topics and sending to queues, and telling the value of a topic.
//!
//! Relies on the broker to answer for each message that asked. Invariant: what is refused here has not
//! reached the broker.

use tiderace_base::{Close, Now};
use tiderace_wire::{
    Context, Destination, Flags, Kind, Meta, Operation, Reading, Token, properties,
};

use super::begin::Begin;
use super::cold::Waiting;
use super::describe::Asked;
use super::state::RSocketSession;
use super::streams::Stream;
use crate::frame::Interaction;
use crate::metadata::Mime;

impl RSocketSession {
    /// A request-response or a fire-and-forget of a topic or queue.
    pub(super) fn publish_or_fetch(
        &mut self,
        begin: &Begin<'_>,
        kind: Kind,
        path: &str,
        asked: &Asked<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Begin { stream, request, now } = *begin;
        let answers = request.interaction == Interaction::Response;
        let has_data = !request.payload.data.is_empty() || asked.options.publishes();
        if answers && !has_data && kind == Kind::Topic {
            return self.fetch(begin, path, context);
        }
        let destination = self.known_destination(kind, path)?;
        let fields = asked.options.queue_fields(now, kind)?;
        let token = answers.then(|| self.ask(Waiting::Publish(stream)));
        self.publish(now, (&destination, &fields), asked, request.payload.data, token, context);
        if let Some(token) = token {
            self.streams.insert(stream, Stream::Waiting { token });
        }
        Ok(())
    }

    /// Hands a message over.
    pub(super) fn publish(
        &mut self,
        now: Now,
        (destination, (fields, marks)): (&Destination, &(Vec<u8>, Flags)),
        asked: &Asked<'_>,
        data: &[u8],
        token: Option<Token>,
        context: &mut Context<'_>,
    ) {
        let content = self.content_type(asked.data_mime, asked.properties);
        let properties_len = fields.len() + asked.properties.len() + asked.tracing.len() + 4;
        let block = context.commands.message(destination);
        let room = content.map_or(0, |name| name.len() + 16) + properties_len + data.len();
        match block.capacity() {
            // The first of its run and mostly the only one.
            0 => block.reserve_exact(room),
            _ => block.reserve(room),
        }
        if let Some(name) = content {
            properties::append(block, "content-type", name);
        }
        asked.append_tracing(block);
        block.extend_from_slice(fields);
        block.extend_from_slice(asked.properties);
        let mut flags = asked.options.flags | *marks;
        if asked.options.persistent {
            flags = flags | Flags::PERSISTENT;
        }
        let escaped = content.is_some_and(|name| name.contains([':', '\\']));
        if escaped || asked.properties.contains(&b'\\') {
            flags = flags | Flags::ESCAPED;
        }
        let expires_ms = asked.options.ttl_ms.map(|ttl| now.wall_ms.saturating_add(ttl));
        context.commands.publish(data, Meta { flags, expires_ms }, token);
    }

    /// What the data of a message is, if that says more than that it is bytes.
    pub(super) fn content_type<'a>(
        &'a self,
        own: Option<Mime<'a>>,
        block: &[u8],
    ) -> Option<&'a str> {
        if properties::find(block, "content-type").is_some() {
            return None;
        }
        let name = match own.or(self.mimes.data()) {
            Some(mime) => mime.name(),
            None => self.cold.as_ref().and_then(|cold| cold.data_mime.as_deref()),
        };
        name.filter(|name| Some(*name) != Mime::OCTETS.name() && !name.contains(['\n', '\r', '\0']))
    }

    /// A destination to publish to; that of the last request is not parsed again.
    pub(super) fn known_destination(
        &mut self,
        kind: Kind,
        path: &str,
    ) -> Result<Destination, Close> {
        if let Some(known) = self.cold.as_ref().and_then(|cold| cold.published.as_deref())
            && known.1.kind == kind
            && *known.0 == *path
        {
            return Ok(known.1.clone());
        }
        let destination = self.destination(kind, path)?;
        self.cold().published = Some(Box::new((path.into(), destination.clone())));
        Ok(destination)
    }

    /// Asks for a topic's value.
    fn fetch(
        &mut self,
        begin: &Begin<'_>,
        path: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let path = self.path(path)?;
        let mut text = b"{\"do\":\"fetch\",\"limit\":1,\"values\":true,\"selector\":".to_vec();
        tiderace_value::append_text(&mut text, path.as_str());
        text.push(b'}');
        let reading = Reading {
            body: None,
            now: begin.now.time,
            path: &|text| self.path(text),
            selector: &|text| Ok(self.selector(text)?.patterns().to_vec()),
        };
        let operation = Operation::parse(&text, &reading)?;
        self.begin_reading(begin.stream, Waiting::Fetch(begin.stream), operation, context)
    }
}
