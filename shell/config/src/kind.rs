//! What an option's value may be: reading it, and saying what was expected when it is something else.
//!
//! Relies on `units`. Invariant: a [`Value`] returned for a kind lies within that kind's limits.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tiderace_base::{Network, is_name};
use tiderace_topics::Pattern;

use crate::moment::Moment;
use crate::raw::{Raw, RawData};
use crate::secret::SecretSource;
use crate::suggest;
use crate::units::{self, MemoryAmount};

/// The kinds of value an option can have.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A size in bytes, written as `"64 KiB"` or as a whole number of bytes.
    Bytes {
        /// Smallest size.
        min: u64,
        /// Largest size.
        max: u64,
    },
    /// One of a few words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A time span, written as `"5s"` or `"250ms"`.
    Duration {
        /// Shortest time.
        min: Duration,
        /// Longest time.
        max: Duration,
    },
    /// A whole number.
    Integer {
        /// Smallest number.
        min: u64,
        /// Largest number.
        max: u64,
    },
    /// Several values of one kind: a TOML array, or comma-separated in the environment and flags.
    List(&'static Kind),
    /// An address to listen on, with an optional protocol in front: `[PROTOCOL://]HOST:PORT`.
    Listen,
    /// A share of the machine's memory (`"25 %"`) or a size.
    Memory,
    /// A moment: date, time and offset (RFC 3339).
    Moment,
    /// The name of a thing: 1 to 128 characters, no white space, control or wildcard characters.
    Name,
    /// An IP address, or a network of such: `ADDRESS/BITS`.
    Network,
    /// A destination pattern: levels joined by `/`, `*` in or for one level, `**` last for all below.
    Pattern,
    /// A one-way hash (a string starting with this prefix), `file:PATH` or `env:NAME`.
    Secret {
        /// Start of an acceptable hash; `None` if only references are accepted.
        hash: Option<&'static str>,
    },
    /// Any text of 1 to 1,024 characters.
    Text,
    /// The path of a URL: starts with `/`, no query.
    UrlPath,
}

/// The value of an option, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A flag.
    Boolean(bool),
    /// A size in bytes.
    Bytes(u64),
    /// One of the words of a choice.
    Choice(&'static str),
    /// A time span.
    Duration(Duration),
    /// A whole number.
    Integer(u64),
    /// Several values.
    List(Vec<Value>),
    /// An amount of memory.
    Memory(MemoryAmount),
    /// A moment.
    Moment(Moment),
    /// A network of IP addresses.
    Network(Network),
    /// A destination pattern.
    Pattern(Pattern),
    /// The source of a secret.
    Secret(SecretSource),
    /// A text of any of the textual kinds.
    Text(String),
}

/// Why a written value is not what the option takes.
pub(crate) struct Mismatch {
    pub(crate) span: Option<std::ops::Range<usize>>,
    pub(crate) sentence: String,
}

impl Kind {
    /// Reads a written value; `zero` is the meaning of 0 where 0 is outside the limits but allowed.
    pub(crate) fn read(&self, raw: &Raw, zero: Option<&str>) -> Result<Value, Mismatch> {
        if let (Kind::List(element), Some(items)) = (self, list_items(raw)) {
            let values: Result<Vec<Value>, Mismatch> =
                items.iter().map(|item| element.read(item, None)).collect();
            return values.map(Value::List);
        }
        let value = match &raw.data {
            RawData::Boolean(flag) => self.read_boolean(*flag),
            RawData::Integer(number) => {
                u64::try_from(*number).ok().and_then(|n| self.read_number(n, zero))
            }
            RawData::Loose(text) => {
                self.read_text(text, zero).or_else(|| self.read_bare(text, zero))
            }
            RawData::Text(text) => self.read_text(text, zero),
            RawData::Date(text) => {
                Moment::parse(text).filter(|_| matches!(self, Kind::Moment)).map(Value::Moment)
            }
            RawData::Float(_) | RawData::List(_) | RawData::Other(_) => None,
        };
        value.ok_or_else(|| Mismatch { span: raw.span.clone(), sentence: self.sentence(raw, zero) })
    }

    /// What is expected, as the object of "expected …".
    pub fn expected(&self, zero: Option<&str>) -> String {
        let base = match self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::Bytes { min, max } => format!(
                "a size from {} to {}, such as \"64 KiB\"",
                units::format_bytes(*min),
                units::format_bytes(*max)
            ),
            Kind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::Duration { min, max } => format!(
                "a duration from {} to {}, such as \"5s\" or \"250ms\"",
                units::format_duration(*min),
                units::format_duration(*max)
            ),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::List(element) => format!("a list whose elements are {}", element.expected(None)),
            Kind::Listen => {
                "an address such as \"127.0.0.1:7800\" or \"stomp://127.0.0.1:61613\"".to_owned()
            }
            Kind::Memory => "a share of the memory such as \"25 %\", or a size such as \"4 GiB\"".to_owned(),
            Kind::Moment => "a moment such as \"2027-01-31T12:00:00Z\"".to_owned(),
            Kind::Name => {
                "a name of 1 to 128 characters without white space, control characters, `*`, `#`, `+` or `>`"
                    .to_owned()
            }
            Kind::Network => "an IP address such as \"127.0.0.1\" or a network such as \"10.0.0.0/8\"".to_owned(),
            Kind::Pattern => {
                "a pattern such as \"fx/EUR-USD\", \"fx/*\" (one level) or \"fx/**\" (all below)".to_owned()
            }
            Kind::Secret { hash: Some(prefix) } => {
                format!("a hash that starts with \"{prefix}\", or \"file:PATH\" or \"env:NAME\"")
            }
            Kind::Secret { hash: None } => "\"file:PATH\" or \"env:NAME\"".to_owned(),
            Kind::Text => "a text of 1 to 1,024 characters".to_owned(),
            Kind::UrlPath => "the path of a URL such as \"/stomp\"".to_owned(),
        };
        match zero {
            Some(meaning) => format!("{base}, or 0 ({meaning})"),
            None => base,
        }
    }

    fn sentence(&self, raw: &Raw, zero: Option<&str>) -> String {
        let expected = self.expected(zero);
        match (self, &raw.data) {
            // The wrong value may be the secret itself: it is never repeated.
            (Kind::Secret { .. }, _) => {
                format!("expected {expected}; secrets in clear text are refused")
            }
            (Kind::Choice(words), RawData::Loose(text) | RawData::Text(text)) => {
                let near = suggest::did_you_mean(text, words.iter().map(|(word, _)| *word));
                format!("expected {expected}, but found {raw}{near}")
            }
            (Kind::Duration { .. }, RawData::Integer(number)) => {
                format!(
                    "expected {expected}, but found {raw} without a unit; did you mean \"{number}s\"?"
                )
            }
            (Kind::Network, RawData::Loose(text) | RawData::Text(text)) => {
                let reason = text.parse::<Network>().err().map(|error| format!(": {error}"));
                format!("expected {expected}, but found {raw}{}", reason.unwrap_or_default())
            }
            (Kind::Pattern, RawData::Loose(text) | RawData::Text(text)) => {
                let reason = Pattern::parse(text).err().map(|error| format!(": {error}"));
                format!("expected {expected}, but found {raw}{}", reason.unwrap_or_default())
            }
            _ => format!("expected {expected}, but found {raw}"),
        }
    }

    fn read_boolean(&self, flag: bool) -> Option<Value> {
        matches!(self, Kind::Boolean).then_some(Value::Boolean(flag))
    }

    fn read_number(&self, number: u64, zero: Option<&str>) -> Option<Value> {
        let is_zero = number == 0 && zero.is_some();
        match self {
            Kind::Bytes { min, max } => {
                (is_zero || (*min..=*max).contains(&number)).then_some(Value::Bytes(number))
            }
            Kind::Duration { min, .. } => (number == 0 && (zero.is_some() || min.is_zero()))
                .then_some(Value::Duration(Duration::ZERO)),
            Kind::Integer { min, max } => {
                (is_zero || (*min..=*max).contains(&number)).then_some(Value::Integer(number))
            }
            Kind::Memory if number > 0 => Some(Value::Memory(MemoryAmount::Bytes(number))),
            _ => None,
        }
    }

    /// Numbers and flags that arrive as text, from the environment or a flag.
    fn read_bare(&self, text: &str, zero: Option<&str>) -> Option<Value> {
        match (self, text.trim()) {
            (Kind::Boolean, "true" | "yes" | "on" | "1") => Some(Value::Boolean(true)),
            (Kind::Boolean, "false" | "no" | "off" | "0") => Some(Value::Boolean(false)),
            (Kind::Integer { .. }, digits) => self.read_number(digits.parse().ok()?, zero),
            _ => None,
        }
    }

    fn read_text(&self, text: &str, zero: Option<&str>) -> Option<Value> {
        match self {
            Kind::Bytes { .. } => self.read_number(units::parse_bytes(text)?, zero),
            Kind::Choice(words) => {
                words.iter().find(|(word, _)| *word == text).map(|(word, _)| Value::Choice(word))
            }
            Kind::Duration { min, max } => {
                let duration = units::parse_duration(text)?;
                let allowed =
                    (*min..=*max).contains(&duration) || (duration.is_zero() && zero.is_some());
                allowed.then_some(Value::Duration(duration))
            }
            Kind::Listen => {
                ListenAddress::parse(text).map(|address| Value::Text(address.to_string()))
            }
            Kind::Memory => match units::parse_memory(text)? {
                MemoryAmount::Bytes(0) => None,
                amount => Some(Value::Memory(amount)),
            },
            Kind::Moment => Moment::parse(text).map(Value::Moment),
            Kind::Name => is_name(text).then(|| Value::Text(text.to_owned())),
            Kind::Network => text.parse().ok().map(Value::Network),
            Kind::Pattern => Pattern::parse(text).ok().map(Value::Pattern),
            Kind::Secret { hash } => match hash {
                Some(prefix) if text.starts_with(prefix) && text.len() <= 512 => {
                    Some(Value::Secret(SecretSource::Hash(text.to_owned())))
                }
                _ => SecretSource::parse_reference(text).map(Value::Secret),
            },
            Kind::Text => {
                (1..=1_024).contains(&text.chars().count()).then(|| Value::Text(text.to_owned()))
            }
            Kind::UrlPath => is_url_path(text).then(|| Value::Text(text.to_owned())),
            Kind::Boolean | Kind::Integer { .. } | Kind::List(_) => None,
        }
    }
}

/// An address to listen on and the protocol it is pinned to, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    pub(crate) protocol: Option<String>,
    pub(crate) address: SocketAddr,
}

impl ListenAddress {
    /// Reads `[PROTOCOL://]HOST:PORT`; the host is an IP address, `localhost`, or `*` for every address.
    pub(crate) fn parse(text: &str) -> Option<ListenAddress> {
        let (protocol, place) = match text.split_once("://") {
            Some((protocol @ ("any" | "http" | "rsocket" | "stomp"), place)) => {
                (Some(protocol.to_owned()), place)
            }
            Some(_) => return None,
            None => (None, text),
        };
        let address = match place.rsplit_once(':') {
            Some(("localhost", port)) => {
                SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))
            }
            Some(("*", port)) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse().ok()?)),
            _ => place.parse().ok()?,
        };
        Some(ListenAddress { protocol, address })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocol {
            Some(protocol) => write!(f, "{protocol}://{}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// As it would be written in the file; secrets are masked.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(flag) => write!(f, "{flag}"),
            Value::Bytes(bytes) => write!(f, "\"{}\"", units::format_bytes(*bytes)),
            Value::Choice(word) => write!(f, "\"{word}\""),
            Value::Duration(duration) => write!(f, "\"{}\"", units::format_duration(*duration)),
            Value::Integer(number) => write!(f, "{number}"),
            Value::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{value}")?;
                }
                f.write_str("]")
            }
            Value::Memory(amount) => write!(f, "\"{amount}\""),
            Value::Moment(moment) => write!(f, "\"{moment}\""),
            Value::Network(network) => write!(f, "\"{network}\""),
            Value::Pattern(pattern) => write!(f, "{}", toml::Value::from(pattern.as_str())),
            Value::Secret(source) => write!(f, "\"{source}\""),
            Value::Text(text) => write!(f, "{}", toml::Value::from(text.as_str())),
        }
    }
}

/// The elements of a list option; a flag or variable separates them by commas.
fn list_items(raw: &Raw) -> Option<Vec<Raw>> {
    match &raw.data {
        RawData::List(items) => Some(items.clone()),
        RawData::Loose(text) => Some(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(Raw::loose)
                .collect(),
        ),
        _ => None,
    }
}

fn is_url_path(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= 256
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_read() {
        let cases = [
            ("127.0.0.1:7800", Some("127.0.0.1:7800")),
            ("localhost:7800", Some("127.0.0.1:7800")),
            ("*:7800", Some("0.0.0.0:7800")),
            ("[::1]:80", Some("[::1]:80")),
            ("stomp://127.0.0.1:61613", Some("stomp://127.0.0.1:61613")),
            ("mqtt://127.0.0.1:1", None),
            ("127.0.0.1", None),
            ("127.0.0.1:99999", None),
            ("example.org:80", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let read = ListenAddress::parse(text).map(|address| address.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
