//! One complete frame that is not a SEND, and how its headers are read.
//!
//! Relies on `header` for names and escapes. Invariant: what cannot be read is refused by a text that names the frame
//! and the header.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode};

use crate::error::{bad_header, fault, missing, shown, unreadable};
use crate::header::Headers;
use crate::version::{SUPPORTED, Version};

/// One complete frame that is not a SEND.
pub(super) struct Request<'a> {
    pub(super) command: &'static str,
    pub(super) headers: Headers<'a>,
}

impl Request<'_> {
    /// A header's value, decoded, if it is there.
    pub(super) fn find(&self, name: &str) -> Result<Option<Cow<'_, str>>, Close> {
        self.headers.find(name).map_err(|why| unreadable(self.command, why))
    }

    /// A header's value, decoded.
    pub(super) fn require(&self, name: &str) -> Result<Cow<'_, str>, Close> {
        self.find(name)?.ok_or_else(|| missing(self.command, name))
    }

    /// The version that will be spoken.
    pub(super) fn version(&self) -> Result<Version, Close> {
        // The session's version is still the oldest, so this header is read trimmed.
        let accepted = self.find("accept-version")?;
        Version::negotiate(accepted.as_deref()).ok_or_else(|| {
            let accepted = shown(accepted.as_deref().unwrap_or_default().as_bytes());
            let text = format_args!(
                "the client accepts the versions `{accepted}`, the server speaks {SUPPORTED}. \
                 Offer one of those in `accept-version`."
            );
            fault(CloseCode::UnsupportedVersion, self.command, text)
        })
    }
}

/// The commands a client may send; anything else is a fault.
pub(super) fn command_name(name: &[u8]) -> Result<&'static str, Close> {
    const COMMANDS: [&str; 10] = [
        "CONNECT",
        "STOMP",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    ];
    const SERVER_COMMANDS: [&str; 4] = ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR"];
    if let Some(known) = COMMANDS.iter().find(|known| known.as_bytes() == name) {
        return Ok(known);
    }
    let what = if SERVER_COMMANDS.iter().any(|known| known.as_bytes() == name) {
        "is sent by servers only"
    } else {
        "is no STOMP command. Commands are written in capitals"
    };
    let text = format_args!("`{}` {what}.", shown(name));
    Err(fault(CloseCode::UnexpectedFrame, "frame", text))
}

pub(super) fn content_length(value: &[u8]) -> Result<u64, Close> {
    number(value).ok_or_else(|| {
        let text = format_args!("`content-length:{}` is no number of bytes.", shown(value));
        bad_header("frame", text)
    })
}

/// A decimal number without sign.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// What is wrong with a frame one of whose lines is no header.
pub(super) const NO_COLON: &str =
    "a header line has no colon or no name. Headers are written `name:value`, one per line.";
