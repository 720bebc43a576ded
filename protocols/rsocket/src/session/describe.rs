//! What a request says of itself beside its data, and what deliveries say beside theirs.
//!
//! ```text
//!   message/x.tiderace.options.v0      retain:true ⏎ ttl:5000 ⏎ …      of a request: what it asks for
//!   message/x.tiderace.properties.v0   name:value ⏎ …                  of a message: its properties
//!   message/x.tiderace.message.v0      path:fx/EUR ⏎ version:7 ⏎ …     of a delivery: what it is
//! ```
//! Lines are those of `tiderace_wire::properties`. Relies on `metadata`. Invariant: an option that is not
//! known is refused, so that nobody relies on what does not happen.

use std::borrow::Cow;

use tiderace_base::limits::INTERVAL_MAX;
use tiderace_base::{Close, CloseCode, Now, Span, parse_span};
use tiderace_delta::NAMES;
use tiderace_wire::{Flags, Kind, QueueFields, Replay, properties, shown};

use crate::metadata::{Described, Entries, MetadataError, Mime, Tracing};

/// The MIME type of the options of a request.
pub const OPTIONS_MIME: &str = "message/x.tiderace.options.v0";
/// The MIME type of a message's properties.
pub const PROPERTIES_MIME: &str = "message/x.tiderace.properties.v0";
/// The MIME type of what a delivery is.
pub const MESSAGE_MIME: &str = "message/x.tiderace.message.v0";

/// The property by which messages say what they are part of: tracing metadata in the form that HTTP
/// has for it.
pub(super) const TRACING: &str = "b3";

/// Stands for MIME types without a number.
const OTHER_MIME: u8 = 0xff;

/// What a request says of itself.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub(super) route: Option<&'a str>,
    pub(super) data_mime: Option<Mime<'a>>,
    pub(super) properties: &'a [u8],
    /// What it is part of, as the property [`TRACING`].
    pub(super) tracing: String,
    pub(super) options: RequestOptions<'a>,
}

/// What a request asks for beside its destination.
#[derive(Debug)]
pub(super) struct RequestOptions<'a> {
    /// Marks of what is published.
    pub(super) flags: Flags,
    /// It is to survive a restart.
    pub(super) persistent: bool,
    pub(super) ttl_ms: Option<u64>,
    /// What it says to its queue.
    pub(super) queue: QueueFields<'a>,
    /// Publish even if there is no data.
    pub(super) publish: bool,
    pub(super) details: bool,
    pub(super) properties: bool,
    pub(super) snapshot: bool,
    pub(super) selector: Option<Cow<'a, str>>,
    pub(super) replay: Option<Replay>,
    pub(super) interval: Span,
    /// The number of the codec of deltas; 0 for none.
    pub(super) codec: Vec<Cow<'a, str>>,
    pub(super) timeout: Option<Span>,
}

impl Default for RequestOptions<'_> {
    fn default() -> Self {
        RequestOptions {
            flags: Flags::NONE,
            persistent: false,
            ttl_ms: None,
            queue: QueueFields::default(),
            publish: false,
            details: false,
            properties: false,
            snapshot: true,
            selector: None,
            replay: None,
            interval: Span::ZERO,
            codec: Vec::new(),
            timeout: None,
        }
    }
}

/// The MIME types that SETUP gives to metadata and data, by number; [`OTHER_MIME`] for those without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetupMimes {
    metadata: u8,
    data: u8,
}

impl SetupMimes {
    /// Before SETUP.
    pub(super) const NONE: SetupMimes = SetupMimes { metadata: OTHER_MIME, data: OTHER_MIME };

    pub(super) fn new(metadata: Mime<'_>, data: Mime<'_>) -> SetupMimes {
        let number = |mime: Mime<'_>| mime.id().unwrap_or(OTHER_MIME);
        SetupMimes { metadata: number(metadata), data: number(data) }
    }

    /// Whether that is the type of metadata.
    pub(super) fn metadata_is(self, mime: Mime<'_>) -> bool {
        mime.id() == Some(self.metadata)
    }

    /// Whether metadata of several kinds can be sent.
    pub(super) fn is_composite(self) -> bool {
        self.metadata_is(Mime::COMPOSITE)
    }

    /// The type of data, if it has a number.
    pub(super) fn data(self) -> Option<Mime<'static>> {
        (self.data != OTHER_MIME).then_some(Mime::Id(self.data))
    }
}

impl<'a> Asked<'a> {
    /// Reads the metadata of a request, of at most so many bytes; `known` are the credentials of SETUP.
    ///
    /// # Errors
    /// When it is too long, malformed, asks for what is not known, or brings other credentials.
    pub(super) fn read(
        metadata: Option<&'a [u8]>,
        mimes: SetupMimes,
        bytes_max: usize,
        known: Option<&[u8]>,
    ) -> Result<Asked<'a>, Close> {
        let Some(metadata) = metadata else { return Ok(Asked::default()) };
        if metadata.len() > bytes_max {
            let reason =
                format!("the metadata has {} bytes; the limit is {bytes_max}", metadata.len());
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        let mut asked = Asked::default();
        if mimes.metadata == OTHER_MIME {
            return Ok(asked);
        }
        if mimes.metadata_is(Mime::TEXT) {
            asked.route = Some(text(metadata)?);
            return Ok(asked);
        }
        let (mut options, mut block) = (None, None);
        let described = Described::read_with(Mime::Id(mimes.metadata), metadata, |mime, bytes| {
            match mime.name() {
                Some(OPTIONS_MIME) => options = options.or(Some(bytes)),
                Some(PROPERTIES_MIME) => block = block.or(Some(bytes)),
                _ => {}
            }
        })
        .map_err(malformed)?;
        if described.authentication.is_some() {
            check_authentication(metadata, mimes, known)?;
        }
        asked.route = described.route;
        asked.data_mime = described.data_mime;
        if let Some(block) = block {
            check_properties(block)?;
            asked.properties = block;
        }
        if let Some(tracing) = described.tracing
            && properties::find(asked.properties, TRACING).is_none()
        {
            asked.tracing = Tracing::read(tracing).map_err(malformed)?.to_b3();
        }
        if let Some(options) = options {
            asked.options = RequestOptions::read(options)?;
        }
        Ok(asked)
    }

    /// Appends what the request is part of, if it said so.
    pub(super) fn append_tracing(&self, block: &mut Vec<u8>) {
        if !self.tracing.is_empty() {
            properties::append(block, TRACING, &self.tracing);
        }
    }
}

impl<'a> RequestOptions<'a> {
    fn read(lines: &'a [u8]) -> Result<RequestOptions<'a>, Close> {
        text(lines)?;
        let mut options = RequestOptions::default();
        for (name, value) in properties::raw(lines) {
            let value = properties::decode(value);
            let truth = || truth(name, &value);
            match name {
                b"retain" if value == "remove" => options.flags = Flags::RETAIN_REMOVE,
                b"retain" => options.flags = if truth()? { Flags::RETAIN } else { Flags::NONE },
                b"persistent" => options.persistent = truth()?,
                b"ttl" => options.ttl_ms = Some(span(name, &value)?.as_millis() as u64),
                b"delay" => {
                    options.queue.delay_ms = Some(span(name, &value)?.as_millis() as u64);
                }
                b"deliver-at" => {
                    let number = QueueFields::parse_milliseconds("deliver-at", &value)?;
                    options.queue.deliver_at_ms = Some(number);
                }
                b"group" => options.queue.group = Some(value),
                b"priority" => {
                    options.queue.priority = Some(QueueFields::parse_priority(&value)?);
                }
                b"publish" => options.publish = truth()?,
                b"details" => options.details = truth()?,
                b"properties" => options.properties = truth()?,
                b"snapshot" => options.snapshot = truth()?,
                b"interval" => options.interval = span(name, &value)?.min(INTERVAL_MAX),
                b"timeout" => options.timeout = Some(span(name, &value)?),
                b"replay" => options.replay = Some(replay(&value)?),
                b"selector" => options.selector = Some(value),
                b"deltas" => options.codec = codecs(value)?,
                _ => {
                    let reason = format!(
                        "the option `{}` is not known; known are retain, persistent, ttl, delay, deliver-at, group, \
                         priority, publish, details, properties, snapshot, selector, replay, interval, deltas and timeout",
                        shown(&String::from_utf8_lossy(name))
                    );
                    return Err(Close::new(CloseCode::BadHeader, reason));
                }
            }
        }
        Ok(options)
    }

    /// What holds for the later items of a channel that say nothing themselves.
    pub(super) fn lasting(&self) -> RequestOptions<'static> {
        let RequestOptions { flags, persistent, ttl_ms, .. } = *self;
        let QueueFields { delay_ms, deliver_at_ms, ref group, priority } = self.queue;
        let group = group.as_ref().map(|group| Cow::Owned(group.to_string()));
        let queue = QueueFields { delay_ms, deliver_at_ms, group, priority };
        RequestOptions { flags, persistent, ttl_ms, queue, ..RequestOptions::default() }
    }

    /// What a message to a destination of that kind says to its queue, as properties, with the marks that go with them.
    pub(super) fn queue_fields(&self, now: Now, kind: Kind) -> Result<(Vec<u8>, Flags), Close> {
        let mut block = Vec::new();
        let marks = self.queue.append(now, kind, &mut block)?;
        Ok((block, marks))
    }

    /// Whether a request without data publishes all the same.
    pub(super) fn publishes(&self) -> bool {
        self.publish
            || self.persistent
            || self.flags != Flags::NONE
            || self.ttl_ms.is_some()
            || self.queue != QueueFields::default()
    }
}

/// Who asks is who logged in. Other credentials would ask for rights that are not given.
fn check_authentication(
    metadata: &[u8],
    mimes: SetupMimes,
    known: Option<&[u8]>,
) -> Result<(), Close> {
    let raw = if mimes.metadata_is(Mime::AUTHENTICATION) {
        Some(metadata)
    } else {
        authentication_of(metadata)
    };
    if raw == known {
        return Ok(());
    }
    let reason = "a request brings other credentials than SETUP; log in by SETUP";
    Err(Close::new(CloseCode::LoginFailed, reason))
}

fn wrong(name: &[u8], what: &str) -> Close {
    let reason = format!("the option `{}` is {what}", String::from_utf8_lossy(name));
    Close::new(CloseCode::BadHeader, reason)
}

fn truth(name: &[u8], value: &str) -> Result<bool, Close> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(name, "true or false")),
    }
}

fn span(name: &[u8], value: &str) -> Result<Span, Close> {
    let millis = value.parse().ok().map(Span::from_millis);
    millis
        .or_else(|| parse_span(value))
        .ok_or_else(|| wrong(name, "milliseconds, or text such as 250ms or 10s"))
}

fn replay(value: &str) -> Result<Replay, Close> {
    let number = |text: &str| text.parse::<u64>().ok();
    let read = match value.split_once(' ') {
        Some(("last", count)) => {
            number(count).map(|count| Replay::Last(u32::try_from(count).unwrap_or(u32::MAX)))
        }
        Some(("version", version)) => number(version).map(Replay::Version),
        Some(("since", millis)) => number(millis).map(Replay::Time),
        _ => None,
    };
    read.ok_or_else(|| wrong(b"replay", "`last 10`, `version 7` or `since MILLISECONDS`"))
}

fn codecs(value: Cow<'_, str>) -> Result<Vec<Cow<'_, str>>, Close> {
    let names: Vec<_> = value.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().all(|name| NAMES.contains(&name.as_str())) {
        return Ok(names.into_iter().map(Cow::Owned).collect());
    }
    Err(wrong(b"deltas", &format!("one or several of {}", NAMES.join(", "))))
}

fn text(bytes: &[u8]) -> Result<&str, Close> {
    simdutf8::basic::from_utf8(bytes)
        .map_err(|_| Close::new(CloseCode::BadText, "metadata that is text is not valid UTF-8"))
}

fn malformed(error: MetadataError) -> Close {
    Close::new(CloseCode::BadHeader, error.to_string())
}

/// The authentication of composite metadata, as it stands there.
pub(super) fn authentication_of(metadata: &[u8]) -> Option<&[u8]> {
    let mut entries = Entries::new(metadata).flatten();
    entries.find(|entry| entry.mime == Mime::AUTHENTICATION).map(|entry| entry.bytes)
}

/// Checks that a stranger's block of properties has the neutral form.
fn check_properties(block: &[u8]) -> Result<(), Close> {
    let bad = || {
        let reason = "properties are lines of `name:value`, each with its end, in UTF-8, with the \
                      escapes \\\\, \\n, \\r and \\c";
        Close::new(CloseCode::BadHeader, reason)
    };
    if block.is_empty() {
        return Ok(());
    }
    let is_text = simdutf8::basic::from_utf8(block).is_ok();
    if !is_text || !block.ends_with(b"\n") || block.contains(&b'\r') || block.contains(&0) {
        return Err(bad());
    }
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let colons = line.iter().filter(|byte| **byte == b':').count();
        if colons != 1 || line.starts_with(b":") {
            return Err(bad());
        }
    }
    let mut bytes = block.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && !matches!(bytes.next(), Some(b'\\' | b'n' | b'r' | b'c')) {
            return Err(bad());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn options_are_read() {
        let options = RequestOptions::read(
            b"retain:true\npersistent:true\nttl:5s\ndetails:true\nsnapshot:false\n",
        )
        .unwrap();
        assert!(options.details && !options.snapshot && options.publishes() && options.persistent);
        assert_eq!((options.flags, options.ttl_ms), (Flags::RETAIN, Some(5000)));
        let options =
            RequestOptions::read(b"replay:last 10\ninterval:250\nselector:a \\c b\n").unwrap();
        assert_eq!(options.interval, Span::from_millis(250));
        assert_eq!(options.selector.as_deref(), Some("a : b"));
        assert!(matches!(options.replay, Some(Replay::Last(10))) && !options.publishes());
        assert_eq!(RequestOptions::read(b"retain:remove\n").unwrap().flags, Flags::RETAIN_REMOVE);
        for bad in ["retain:x\n", "colour:red\n", "replay:10\n", "ttl:soon\n", "deltas:zip\n"] {
            assert!(RequestOptions::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn properties_have_their_form() {
        for good in ["", "a:b\n", "a:\nb\\c:x y\\n\n"] {
            assert!(check_properties(good.as_bytes()).is_ok(), "{good:?}");
        }
        for bad in ["a:b", "ab\n", ":b\n", "a:b:c\n", "a:\\t\n", "a:b\r\n", "a:\0\n", "\na:b\n"] {
            assert!(check_properties(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(check_properties(b"a:\xff\n").is_err());
    }
}
