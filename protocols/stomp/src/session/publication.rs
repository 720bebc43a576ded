//! A SEND as it has been read: the headers that mean something to the server, and those that become properties.
//!
//! Relies on `header` for names and escapes. Invariant: reading allocates nothing.

use tiderace_base::{Close, Now};
use tiderace_wire::{Flags, Kind, Meta, QueueFields, TemporaryName};

use super::request::number;
use crate::error::{bad_header, fault, shown, unreadable};
use crate::header::{Headers, split, split_fast};
use crate::properties;
use crate::version::Version;

/// The headers of a SEND that mean something to the server, escapes in place.
#[derive(Debug, Default)]
pub(super) struct SendHeaders<'a> {
    pub(super) destination: Option<&'a [u8]>,
    pub(super) content_length: Option<&'a [u8]>,
    pub(super) receipt: Option<&'a [u8]>,
    pub(super) cold: ColdHeaders<'a>,
    /// Whether there is more than destination, length and receipt.
    pub(super) has_more: bool,
    /// Whether a line has no colon.
    pub(super) broken: bool,
}

/// The rarer ones.
#[derive(Debug, Default)]
pub(super) struct ColdHeaders<'a> {
    pub(super) transaction: Option<&'a [u8]>,
    pub(super) expires: Option<&'a [u8]>,
    pub(super) ttl: Option<&'a [u8]>,
    pub(super) retain: Option<&'a [u8]>,
    pub(super) update: UpdateHeaders<'a>,
    delay: Option<&'a [u8]>,
    deliver_at: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
    priority: Option<&'a [u8]>,
    persistent: Option<&'a [u8]>,
    /// The first lines that become properties as they are.
    lines: [&'a [u8]; LINES_KEPT],
    /// How many lines become properties; more than fit if one needs a closer look.
    line_count: usize,
}

/// The headers that make a SEND depend on its topic, or change a part of the topic's value.
#[derive(Debug, Default)]
pub(super) struct UpdateHeaders<'a> {
    pub(super) if_version: Option<&'a [u8]>,
    pub(super) if_absent: Option<&'a [u8]>,
    pub(super) patch: Option<&'a [u8]>,
}

impl UpdateHeaders<'_> {
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
    pub(super) has_properties: bool,
    pub(super) cold: &'a ColdHeaders<'a>,
    pub(super) receipt: Option<&'a [u8]>,
    pub(super) meta: Meta,
    /// The expiry date that a `ttl` comes to; receivers are told the date.
    expires_by_ttl: Option<u64>,
    now: Now,
    pub(super) body: &'a [u8],
}

impl<'a> SendHeaders<'a> {
    /// Takes a header line in; of equal names the first counts.
    #[inline]
    pub(super) fn visit(&mut self, line: &'a [u8], tail: &[u8], version: Version) {
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
            b"delay" => Some(&mut self.delay),
            b"deliver-at" => Some(&mut self.deliver_at),
            b"message_group" => Some(&mut self.group),
            b"priority" => Some(&mut self.priority),
            b"persistent" => Some(&mut self.persistent),
            b"transaction" => Some(&mut self.transaction),
            b"if-version" => Some(&mut self.update.if_version),
            b"if-absent" => Some(&mut self.update.if_absent),
            b"patch" => Some(&mut self.update.patch),
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

impl<'a> Publication<'a> {
    /// A SEND with `count` header lines, whose rarer headers are still to be read.
    #[inline]
    pub(super) fn new(
        send: &'a SendHeaders<'a>,
        headers: Headers<'a>,
        count: usize,
        body: &'a [u8],
    ) -> Publication<'a> {
        Publication {
            headers,
            count,
            has_properties: send.has_more,
            cold: &send.cold,
            receipt: send.receipt,
            meta: Meta { flags: Flags::CHECKED, expires_ms: None },
            expires_by_ttl: None,
            now: Now::default(),
            body,
        }
    }

    /// Whether it says something that only queues heed.
    #[inline]
    pub(super) fn has_queue_fields(&self) -> bool {
        let cold = self.cold;
        cold.delay.is_some()
            || cold.deliver_at.is_some()
            || cold.group.is_some()
            || cold.priority.is_some()
    }

    /// What it says to queues.
    #[cold]
    fn queue_fields(&self) -> Result<QueueFields<'a>, Close> {
        let decode =
            |value: &'a [u8]| self.headers.decode(value).map_err(|why| unreadable("SEND", why));
        let refused = |close: Close| fault(close.code, "SEND", format_args!("{}", close.reason));
        let read = |name: &str, value: Option<&'a [u8]>| {
            let Some(value) = value else { return Ok(None) };
            QueueFields::parse_milliseconds(name, &decode(value)?).map(Some).map_err(refused)
        };
        let priority = self
            .cold
            .priority
            .map(|value| QueueFields::parse_priority(&decode(value)?).map_err(refused));
        let group = self.cold.group.map(|group| self.headers.decode(group));
        Ok(QueueFields {
            delay_ms: read("delay", self.cold.delay)?,
            deliver_at_ms: read("deliver-at", self.cold.deliver_at)?,
            group: group.transpose().map_err(|why| unreadable("SEND", why))?,
            priority: priority.transpose()?,
        })
    }

    /// Appends the properties of a message that goes to a queue and says something to it; the marks that go with them.
    #[cold]
    pub(super) fn append_for_queue(
        &self,
        session: &TemporaryName,
        out: &mut Vec<u8>,
    ) -> Result<Flags, Close> {
        let marks = self
            .queue_fields()?
            .append(self.now, Kind::Queue, out)
            .map_err(|close| fault(close.code, "SEND", format_args!("{}", close.reason)))?;
        let escaped = self.append_lines(session, &QueueFields::has, out)?;
        Ok(marks | if escaped { Flags::ESCAPED } else { Flags::NONE })
    }

    /// Appends the properties, header by header, but for some names; says whether any holds an escape.
    fn append_lines(
        &self,
        session: &TemporaryName,
        is_left_out: &dyn Fn(&[u8]) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<bool, Close> {
        if let Some(date) = self.expires_by_ttl {
            tiderace_wire::properties::append(out, "expires", &date.to_string());
        }
        properties::append(self.headers, session, is_left_out, out)
            .map_err(|why| unreadable("SEND", why))
    }

    /// Appends the properties; says whether any holds an escape.
    #[inline]
    pub(super) fn append_properties(
        &self,
        session: &TemporaryName,
        out: &mut Vec<u8>,
    ) -> Result<bool, Close> {
        if let Some(lines) = self.cold.kept()
            && properties::is_neutral(self.headers, self.count)
        {
            if let Some(date) = self.expires_by_ttl {
                tiderace_wire::properties::append(out, "expires", &date.to_string());
            }
            for line in lines {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            return Ok(false);
        }
        self.append_lines(session, &|_| false, out)
    }

    /// Reads what the rarer headers ask for.
    #[inline]
    pub(super) fn read(&mut self, now: Now) -> Result<(), Close> {
        let cold = self.cold;
        self.now = now;
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
