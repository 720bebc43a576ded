//! An event of a client: its arguments and options.
//!
//! Relies on packets having been checked. Invariant: what is wrong is told with the event's name.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode};
use tiderace_value::{Json, JsonKind};
use tiderace_wire::{Position, Replay, properties, shown, span_of};

use crate::limits::HEADERS_MAX;

/// One event of a client.
pub(super) struct Event<'a> {
    /// The number of its namespace.
    pub(super) namespace: u8,
    pub(super) ack: Option<u64>,
    pub(super) name: Cow<'a, str>,
    pub(super) attachments: &'a [Vec<u8>],
    arguments: [Option<Json<'a>>; 3],
    /// All arguments as they were written, joined by commas, and the closing bracket.
    pub(super) rest: &'a str,
}

impl<'a> Event<'a> {
    pub(super) fn new(
        namespace: u8,
        ack: Option<u64>,
        data: Json<'a>,
        attachments: &'a [Vec<u8>],
    ) -> Event<'a> {
        let mut elements = data.elements();
        let name = elements.next().unwrap_or(Json::NULL);
        let name = name.as_text().unwrap_or(Cow::Borrowed(name.text()));
        let rest = elements.rest();
        let arguments = [elements.next(), elements.next(), elements.next()];
        Event { namespace, ack, name, attachments, arguments, rest }
    }

    /// The argument at that place.
    pub(super) fn argument(&self, place: usize) -> Option<Json<'a>> {
        self.arguments.get(place).copied().flatten()
    }

    /// An argument that must be there.
    pub(super) fn value(&self, place: usize) -> Result<Json<'a>, Close> {
        self.argument(place).ok_or_else(|| self.wrong("an argument is missing"))
    }

    /// A name that must be there.
    pub(super) fn text(&self, place: usize) -> Result<Cow<'a, str>, Close> {
        let text = self.argument(place).and_then(Json::as_text);
        text.ok_or_else(|| self.wrong("its first argument is a string"))
    }

    /// The options at that place: an object, or nothing.
    pub(super) fn options(&self, place: usize) -> Result<Json<'a>, Close> {
        match self.argument(place) {
            None => Ok(Json::NULL),
            Some(options) if matches!(options.kind(), JsonKind::Object | JsonKind::Null) => {
                Ok(options)
            }
            Some(_) => Err(self.wrong("its options are an object")),
        }
    }

    /// An option that is true or false.
    pub(super) fn truth(&self, options: Json<'_>, name: &str, usual: bool) -> Result<bool, Close> {
        match options.field(name) {
            None => Ok(usual),
            Some(value) if value.is_null() => Ok(usual),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| self.wrong(&format!("its option `{name}` is true or false"))),
        }
    }

    /// An option that is a whole number.
    pub(super) fn number(&self, options: Json<'_>, name: &str) -> Result<Option<u64>, Close> {
        match options.field(name) {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => value
                .as_unsigned()
                .map(Some)
                .ok_or_else(|| self.wrong(&format!("its option `{name}` is a whole number"))),
        }
    }

    /// The option `headers`: names and texts, numbers or truth values, as properties.
    #[inline]
    pub(super) fn append_headers(
        &self,
        options: Json<'_>,
        block: &mut Vec<u8>,
    ) -> Result<(), Close> {
        let Some(headers) = options.field("headers").filter(|value| !value.is_null()) else {
            return Ok(());
        };
        if headers.kind() != JsonKind::Object {
            return Err(self.wrong("its option `headers` is an object"));
        }
        for (count, (name, value)) in headers.fields().enumerate() {
            if count == HEADERS_MAX {
                let reason = format!("a message has more headers than {HEADERS_MAX}");
                return Err(Close::new(CloseCode::FrameTooLarge, reason));
            }
            let name = name.as_text().unwrap_or_default();
            if name.eq_ignore_ascii_case("content-type") {
                return Err(self.wrong("the value says its `content-type` itself"));
            }
            match value.kind() {
                JsonKind::Text => {
                    properties::append(block, &name, &value.as_text().unwrap_or_default());
                }
                JsonKind::Number | JsonKind::Bool => properties::append(block, &name, value.text()),
                JsonKind::Null => {}
                JsonKind::Array | JsonKind::Object => {
                    return Err(self.wrong("headers are strings, numbers, true or false"));
                }
            }
        }
        Ok(())
    }

    /// The option `replay` of a subscription: `{last: 10}`, `{version: 7}` or `{since: ms}`.
    pub(super) fn replay(&self, options: Json<'_>) -> Result<Option<Replay>, Close> {
        let Some(given) = options.field("replay").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let wrong = || {
            self.wrong("its option `replay` is {last: 10}, {version: 7} or {since: milliseconds}")
        };
        let mut fields = given.fields();
        let (name, value) = fields.next().filter(|_| fields.next().is_none()).ok_or_else(wrong)?;
        let number = value.as_unsigned().ok_or_else(wrong)?;
        Ok(Some(match name.as_text().as_deref() {
            Some("last") => Replay::Last(u32::try_from(number).unwrap_or(u32::MAX)),
            Some("version") => Replay::Version(number),
            Some("since") => Replay::Time(number),
            _ => return Err(wrong()),
        }))
    }

    /// The option `since` of a subscription: the last argument of a message that came by a recoverable one.
    pub(super) fn since(&self, options: Json<'_>) -> Result<Option<Position>, Close> {
        let Some(given) = options.field("since").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let position = given.as_text().and_then(|text| Position::decode(&text));
        let wrong =
            "its option `since` is the last argument of a message of a recoverable subscription";
        position.map(Some).ok_or_else(|| self.wrong(wrong))
    }

    /// The option `interval` of a subscription, in milliseconds.
    pub(super) fn interval(&self, options: Json<'_>) -> Result<u32, Close> {
        let Some(given) = options.field("interval").filter(|value| !value.is_null()) else {
            return Ok(0);
        };
        let millis = span_of(given).map(|span| span.as_millis());
        millis.and_then(|millis| u32::try_from(millis).ok()).ok_or_else(|| {
            self.wrong("its option `interval` is milliseconds, or text such as \"250ms\"")
        })
    }

    /// Says what is wrong with the event.
    pub(super) fn wrong(&self, what: &str) -> Close {
        Close::new(CloseCode::BadFrame, format!("`{}`: {what}", shown(&self.name)))
    }
}
