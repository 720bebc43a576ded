//! SEND: the hot path of producers (STOMP 1.2, "SEND").
//!
//! Relies on the last destination being kept, so that a producer that stays with one costs no
//! parsing and no allocation per frame. Invariant: a frame that is refused publishes nothing.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Commands, Context, Destination, Flags, Kind, Meta, TemporaryName, Token};

use super::{LastDestination, NO_COLON, StompSession, content_length, number};
use crate::destination::parse_destinations;
use crate::error::{bad_header, fault, missing, shown, unreadable};
use crate::frame::{self, Pending};
use crate::header::{Headers, split, split_fast};
use crate::properties;
use crate::version::Version;

/// The headers of a SEND that mean something to the server, escapes in place.
#[derive(Debug, Default)]
struct SendHeaders<'a> {
    destination: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    receipt: Option<&'a [u8]>,
    cold: ColdHeaders<'a>,
    /// Whether there is more than destination, length and receipt.
    has_more: bool,
    /// Whether a line has no colon.
    broken: bool,
}

#[derive(Debug, Default)]
pub(super) struct ColdHeaders<'a> {
    pub(super) transaction: Option<&'a [u8]>,
    pub(super) expires: Option<&'a [u8]>,
    pub(super) ttl: Option<&'a [u8]>,
    pub(super) retain: Option<&'a [u8]>,
    pub(super) wishes: Wishes<'a>,
    persistent: Option<&'a [u8]>,
    /// The first lines that become properties as they are.
    lines: [&'a [u8]; LINES_KEPT],
    /// How many lines become properties; more than fit if one needs a closer look.
    line_count: usize,
}

/// The headers that make a SEND depend on its topic, or change a part of the topic's value.
#[derive(Debug, Default)]
pub(super) struct Wishes<'a> {
    pub(super) if_version: Option<&'a [u8]>,
    pub(super) if_absent: Option<&'a [u8]>,
    pub(super) patch: Option<&'a [u8]>,
}

impl Wishes<'_> {
    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.if_version.is_none() && self.if_absent.is_none() && self.patch.is_none()
    }
}

/// A SEND that has been read and checked as far as its headers go.
pub(super) struct Publication<'a> {
    pub(super) headers: Headers<'a>,
    /// How many header lines there are.
    count: usize,
    /// Whether any header becomes a property.
    has_properties: bool,
    pub(super) cold: &'a ColdHeaders<'a>,
    pub(super) receipt: Option<&'a [u8]>,
    pub(super) meta: Meta,
    /// The expiry date that a `ttl` comes to; receivers are told the date.
    expires_by_ttl: Option<u64>,
    pub(super) body: &'a [u8],
}

impl<'a> SendHeaders<'a> {
    #[inline]
    fn visit(&mut self, line: &'a [u8], tail: &[u8], version: Version) {
        if version != Version::V10 {
            if let Some(value) = line.strip_prefix(b"destination:") {
                self.destination.get_or_insert(value);
                return;
            }
            if let Some(value) = line.strip_prefix(b"content-length:") {
                self.content_length.get_or_insert(value);
                return;
            }
            if let Some(value) = line.strip_prefix(b"receipt:") {
                self.receipt.get_or_insert(value);
                return;
            }
        }
        self.visit_other(line, tail, version);
    }

    #[inline(never)]
    fn visit_other(&mut self, line: &'a [u8], tail: &[u8], version: Version) {
        let fast = if version == Version::V10 { None } else { split_fast(line, tail) };
        let Some((name, value)) = fast.or_else(|| split(line, version)) else {
            self.broken = true;
            return;
        };
        let place = match name {
            b"destination" => &mut self.destination,
            b"content-length" => &mut self.content_length,
            b"receipt" => &mut self.receipt,
            _ => {
                self.has_more = true;
                return self.cold.visit(line, name, value);
            }
        };
        place.get_or_insert(value);
    }
}

impl<'a> ColdHeaders<'a> {
    #[inline]
    fn visit(&mut self, line: &'a [u8], name: &[u8], value: &'a [u8]) {
        let place = match name {
            b"ttl" => Some(&mut self.ttl),
            b"retain" => Some(&mut self.retain),
            b"expires" => Some(&mut self.expires),
            b"persistent" => Some(&mut self.persistent),
            b"transaction" => Some(&mut self.transaction),
            b"if-version" => Some(&mut self.wishes.if_version),
            b"if-absent" => Some(&mut self.wishes.if_absent),
            b"patch" => Some(&mut self.wishes.patch),
            _ => None,
        };
        if let Some(place) = place {
            place.get_or_insert(value);
        }
        if properties::is_reserved(name) {
            return;
        }
        if name == b"reply-to" {
            self.line_count = LINES_KEPT;
        }
        if let Some(slot) = self.lines.get_mut(self.line_count) {
            *slot = line;
        }
        self.line_count += 1;
    }

    /// The lines that become properties, if all are known.
    fn kept(&self) -> Option<&[&'a [u8]]> {
        self.lines.get(..self.line_count)
    }
}

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
        let mut publication = Publication {
            headers,
            count,
            has_properties: send.has_more,
            cold: &send.cold,
            receipt: send.receipt,
            meta: Meta { flags: Flags::CHECKED, expires_ms: None },
            expires_by_ttl: None,
            body,
        };
        if send.has_more {
            publication.read(now)?;
            if !send.cold.wishes.is_empty() {
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
        self.check_promise(destination, meta)?;
        let properties = commands.message(destination);
        if publication.has_properties
            && publication.append_properties(&self.temporary, properties)?
        {
            meta.flags = meta.flags | Flags::ESCAPED;
        }
        let token = match publication.receipt {
            Some(text) => Some(self.owe_text("SEND", publication.headers, text, 1)?),
            None => None,
        };
        commands.publish(publication.body, meta, token);
        Ok(())
    }

    /// Refuses what could not be kept: a receipt for a persistent message says that it survives a
    /// restart, and queues live in memory.
    #[inline]
    fn check_promise(&self, destination: &Destination, meta: Meta) -> Result<(), Close> {
        if meta.flags.contains(Flags::PERSISTENT)
            && destination.kind == Kind::Queue
            && !self.options.persistent_in_memory
        {
            let text = "`persistent:true` cannot be kept: queues live in memory and end with the \
                        server. Leave it out, or have the server's `stomp.persistent_in_memory` set.";
            return Err(bad_header("SEND", text));
        }
        Ok(())
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
        let mut data = Vec::new();
        let mut meta = publication.meta;
        for destination in &destinations {
            self.check_promise(destination, meta)?;
        }
        if publication.append_properties(&self.temporary, &mut data)? {
            meta.flags = meta.flags | Flags::ESCAPED;
        }
        if let Some(name) = cold.transaction {
            let name = headers.decode(name).map_err(|why| unreadable("SEND", why))?;
            self.stage_send(&name, destinations, data, publication.body, meta)?;
            return self.done("SEND", headers, context);
        }
        let first = match publication.receipt {
            Some(text) => Some(self.owe_text("SEND", headers, text, destinations.len() as u32)?),
            None => None,
        };
        for (destination, index) in destinations.iter().zip(0..) {
            let token = first.map(|first: Token| first.wrapping_add(index));
            context.commands.message(destination).extend_from_slice(&data);
            context.commands.publish(publication.body, meta, token);
        }
        Ok(())
    }
}

impl Publication<'_> {
    /// Appends the properties; says whether any holds an escape.
    pub(super) fn append_properties(
        &self,
        session: &TemporaryName,
        out: &mut Vec<u8>,
    ) -> Result<bool, Close> {
        if let Some(date) = self.expires_by_ttl {
            tiderace_wire::properties::append(out, "expires", &date.to_string());
        }
        if let Some(lines) = self.cold.kept()
            && properties::is_neutral(self.headers, self.count)
        {
            for line in lines {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            return Ok(false);
        }
        properties::append(self.headers, session, out).map_err(|why| unreadable("SEND", why))
    }

    /// Reads what the rarer headers ask for.
    fn read(&mut self, now: Now) -> Result<(), Close> {
        let cold = self.cold;
        if cold.persistent == Some(b"true") {
            self.meta.flags = self.meta.flags | Flags::PERSISTENT;
        }
        match cold.retain {
            None => {}
            Some(b"set" | b"true") => self.meta.flags = self.meta.flags | Flags::RETAIN,
            Some(b"remove") => self.meta.flags = self.meta.flags | Flags::RETAIN_REMOVE,
            Some(other) => {
                let text = format_args!(
                    "`retain:{}` is not known. Use `set`, `true` or `remove`.",
                    shown(other)
                );
                return Err(bad_header("SEND", text));
            }
        }
        let expires = milliseconds("expires", cold.expires)?;
        let ttl = milliseconds("ttl", cold.ttl)?.map(|ttl| now.wall_ms.saturating_add(ttl));
        self.meta.expires_ms = expires.or(ttl);
        self.expires_by_ttl = ttl.filter(|_| cold.expires.is_none());
        Ok(())
    }
}

/// A number of milliseconds; zero means never, as in JMS.
fn milliseconds(name: &str, value: Option<&[u8]>) -> Result<Option<u64>, Close> {
    let Some(value) = value else { return Ok(None) };
    match number(value) {
        Some(milliseconds) => Ok((milliseconds > 0).then_some(milliseconds)),
        None => {
            let text = format_args!("`{name}:{}` is no number of milliseconds.", shown(value));
            Err(bad_header("SEND", text))
        }
    }
}

/// More headers of one's own than most messages have.
const LINES_KEPT: usize = 8;
