//! `include-seq` and `from-seq`: the number that a message has in its destination, as Apollo spells it.
//!
//! In a queue it is the version by which the store knows the message, in a topic the version that the topic had with it;
//! both survive restarts where there is a store. Relies on the broker for where a queue begins, and on `replay` for topics.
//! Invariant: a header that the server says itself cannot be named.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Destination, Kind, QueueStart, Replay, Target};

use super::request::{Request, number};
use crate::error::{bad_header, fault, shown};
use crate::limits::SEQUENCE_NAME_BYTES_MAX;
use crate::properties::is_reserved;

/// In which header messages are to say their number.
pub(super) fn include_seq(request: &Request<'_>) -> Result<Option<String>, Close> {
    let Some(name) = request.find("include-seq")? else { return Ok(None) };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b':' && byte != b'\\';
    let is_name =
        !name.is_empty() && name.len() <= SEQUENCE_NAME_BYTES_MAX && name.bytes().all(is_plain);
    if !is_name || is_reserved(name.as_bytes()) {
        let text = format_args!(
            "`include-seq:{}` does not name a header that messages can have besides their own. \
             Use a word, such as `seq`.",
            shown(name.as_bytes())
        );
        return Err(bad_header(request.command, text));
    }
    Ok(Some(name.into_owned()))
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// In a queue.
    pub(super) queue: QueueStart,
    /// In what a topic keeps, instead of with its value.
    pub(super) replay: Option<Replay>,
    /// Whether what is there already is wanted.
    pub(super) retained: bool,
}

/// `from-seq`: the first number that is wanted, or `-1` for what comes from now on.
pub(super) fn from_seq(request: &Request<'_>, targets: &[Target]) -> Result<Start, Close> {
    let anywhere = Start { queue: QueueStart::Version(0), replay: None, retained: true };
    let Some(text) = request.headers.find_raw("from-seq") else { return Ok(anywhere) };
    let from = match (text, number(text)) {
        (b"-1", _) => None,
        (_, Some(number)) => Some(number),
        _ => {
            let text = format_args!("`from-seq:{}` is neither a number nor `-1`.", shown(text));
            return Err(bad_header(request.command, text));
        }
    };
    match targets {
        [Target::Exact(Destination { kind: Kind::Queue, .. })] => {
            Ok(Start { queue: from.map_or(QueueStart::Next, QueueStart::Version), ..anywhere })
        }
        [Target::Exact(Destination { kind: Kind::Topic, .. })] => {
            if request.headers.find_raw("replay").is_some() {
                let text =
                    "`from-seq` and `replay` both say where to begin. Leave one of them out.";
                return Err(bad_header(request.command, text));
            }
            Ok(Start { replay: from.map(Replay::Version), retained: from.is_some(), ..anywhere })
        }
        _ => {
            let text = "`from-seq` is for one destination: each counts for itself. Name one.";
            Err(fault(CloseCode::BadHeader, request.command, text))
        }
    }
}
