//! SEND: the hot path of producers (STOMP 1.2, "SEND").
//!
//! Relies on the last destination being kept, so that a producer that stays with one costs no
//! parsing and no allocation per frame. Invariant: a frame that is refused publishes nothing.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Commands, Context, Destination, Flags, Kind, Token};

use super::publication::{Publication, SendHeaders};
use super::request::{NO_COLON, content_length};
use super::state::{LastDestination, StompSession};
use crate::destination::parse_destinations;
use crate::error::{bad_header, fault, missing, shown, unreadable};
use crate::frame::{self, Pending};
use crate::header::Headers;

impl StompSession {
    /// Handles a SEND whose headers begin at `from`; says how long it is, or what it waits for.
    pub(super) fn send(
        &mut self,
        now: Now,
        input: &[u8],
        from: usize,
        context: &mut Context<'_>,
    ) -> Result<Result<usize, Pending>, Close> {
        let limits = self.limits();
        let version = self.version;
        let mut send = SendHeaders::default();
        let Some(head) =
            frame::head(input, from, &limits, |line, tail| send.visit(line, tail, version))?
        else {
            return Ok(Err(Pending::Head { from: 0, until: limits.header_bytes_max as u32 }));
        };
        let headers = Headers { block: head.headers, version, escaped: true };
        let declared = match send.content_length.map(content_length).transpose() {
            Ok(declared) => declared,
            Err(close) => return Err(self.blame(headers, close)),
        };
        let body = match frame::body(input, &head, declared, &limits) {
            Ok(body) => body,
            Err(Ok(pending)) => return Ok(Err(pending)),
            Err(Err(close)) => return Err(self.blame(headers, close)),
        };
        match self.publish(now, &send, headers, head.count, body.bytes, context) {
            Ok(()) => Ok(Ok(body.end)),
            Err(close) => Err(self.blame(headers, close)),
        }
    }

    #[inline]
    fn publish(
        &mut self,
        now: Now,
        send: &SendHeaders<'_>,
        headers: Headers<'_>,
        count: usize,
        body: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if send.broken {
            return Err(bad_header("SEND", NO_COLON));
        }
        let spelling = send.destination.ok_or_else(|| missing("SEND", "destination"))?;
        let mut publication = Publication::new(send, headers, count, body);
        if send.has_more {
            publication.read(now)?;
            if !send.cold.update.is_empty() {
                return self.send_operation(spelling, &publication, context);
            }
        }
        if send.cold.transaction.is_none()
            && let Some(cold) = &mut self.cold
            && let Some(last) = cold.last.take_if(|last| *last.spelling == *spelling)
        {
            let result = self.publish_one(&last.destination, &publication, context.commands);
            self.cold().last = Some(last);
            return result;
        }
        self.publish_elsewhere(spelling, &publication, context)
    }

    fn publish_one(
        &mut self,
        destination: &Destination,
        publication: &Publication<'_>,
        commands: &mut Commands,
    ) -> Result<(), Close> {
        let mut meta = publication.meta;
        let properties = commands.message(destination);
        if publication.has_properties {
            meta.flags = meta.flags | self.append(destination.kind, publication, properties)?;
        }
        let token = match publication.receipt {
            Some(text) => Some(self.owe_text("SEND", publication.headers, text, 1)?),
            None if meta.flags.contains(Flags::PERSISTENT) => Some(self.await_unasked(1)),
            None => None,
        };
        commands.publish(publication.body, meta, token);
        Ok(())
    }

    /// Appends the properties of a message that goes to a destination of that kind; the marks that go with them.
    #[inline]
    fn append(
        &self,
        kind: Kind,
        publication: &Publication<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Flags, Close> {
        if kind == Kind::Queue && publication.has_queue_fields() {
            return publication.append_for_queue(&self.temporary, out);
        }
        let escaped = publication.append_properties(&self.temporary, out)?;
        Ok(if escaped { Flags::ESCAPED } else { Flags::NONE })
    }

    /// The destination is another one than last time, or several, or there is a transaction.
    #[cold]
    fn publish_elsewhere(
        &mut self,
        spelling: &[u8],
        publication: &Publication<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let (headers, cold) = (publication.headers, publication.cold);
        let text = headers.decode(spelling).map_err(|why| unreadable("SEND", why))?;
        let destinations = parse_destinations(&text, &self.temporary).map_err(|error| {
            let text = format_args!("`{}`: {error}", shown(spelling));
            fault(CloseCode::BadDestination, "SEND", text)
        })?;
        if cold.transaction.is_none()
            && let [destination] = &*destinations
        {
            self.publish_one(destination, publication, context.commands)?;
            let destination = destination.clone();
            let last = LastDestination { spelling: spelling.into(), destination };
            self.cold().last = Some(Box::new(last));
            return Ok(());
        }
        // What is said to queues is nothing to the others.
        let (queues, others): (Vec<_>, Vec<_>) =
            destinations.into_iter().partition(|it| it.kind == Kind::Queue);
        let count = (queues.len() + others.len()) as u32;
        let mut parts = Vec::with_capacity(2);
        for (kind, destinations) in [(Kind::Queue, queues), (Kind::Topic, others)] {
            if destinations.is_empty() {
                continue;
            }
            let (mut data, mut meta) = (Vec::new(), publication.meta);
            meta.flags = meta.flags | self.append(kind, publication, &mut data)?;
            parts.push((destinations, data, meta));
        }
        if let Some(name) = cold.transaction {
            let name = headers.decode(name).map_err(|why| unreadable("SEND", why))?;
            let bytes_max = self.options.transaction_bytes_max;
            for (destinations, data, meta) in parts {
                let body = publication.body;
                let transactions = &mut self.cold().transactions;
                transactions.stage_send(&name, destinations, data, body, meta, bytes_max)?;
            }
            return self.done("SEND", headers, context);
        }
        let first = match publication.receipt {
            Some(text) => Some(self.owe_text("SEND", headers, text, count)?),
            None if publication.meta.flags.contains(Flags::PERSISTENT) => {
                Some(self.await_unasked(count))
            }
            None => None,
        };
        let all = parts.iter().flat_map(|(destinations, data, meta)| {
            destinations.iter().map(move |destination| (destination, data, *meta))
        });
        for ((destination, data, meta), index) in all.zip(0..) {
            let token = first.map(|first: Token| first.wrapping_add(index));
            context.commands.message(destination).extend_from_slice(data);
            context.commands.publish(publication.body, meta, token);
        }
        Ok(())
    }
}
