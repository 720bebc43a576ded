//! Packets: a type and data that is text or binary.
//!
//! ```text
//!   text    type digit, data          4hello
//!   base64  b, [digit in revision 3]  bAQID   b4AQID
//!   binary  [type byte in revision 3] 01 02   04 01 02
//! ```
//! Invariant: a decoded packet borrows what it can and never holds more than its text did.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tiderace_base::{Close, CloseCode};

use crate::revision::Revision;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// The server's first: the handshake.
    Open = 0,
    /// The last.
    Close = 1,
    /// Asks for a pong.
    Ping = 2,
    /// Answers a ping.
    Pong = 3,
    /// What all is about.
    Message = 4,
    /// From now on the WebSocket carries the session.
    Upgrade = 5,
    /// Nothing, to end a poll.
    Noop = 6,
}

impl PacketType {
    /// The type of that number.
    pub fn from_number(number: u8) -> Option<PacketType> {
        Some(match number {
            0 => PacketType::Open,
            1 => PacketType::Close,
            2 => PacketType::Ping,
            3 => PacketType::Pong,
            4 => PacketType::Message,
            5 => PacketType::Upgrade,
            6 => PacketType::Noop,
            _ => return None,
        })
    }

    /// Its digit.
    pub fn digit(self) -> u8 {
        b'0' + self as u8
    }
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Text, perhaps none.
    Text(&'a str),
    /// Bytes.
    Binary(Cow<'a, [u8]>),
}

impl Data<'_> {
    /// Its bytes, and whether they are text.
    pub fn bytes(&self) -> (&[u8], bool) {
        match self {
            Data::Text(text) => (text.as_bytes(), true),
            Data::Binary(bytes) => (bytes, false),
        }
    }
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is for.
    pub kind: PacketType,
    /// What it carries.
    pub data: Data<'a>,
}

/// What is wrong with a packet or payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Nothing, where a packet is due.
    #[error("a packet is empty; it begins with its type, such as 4 for a message")]
    Empty,
    /// No known type.
    #[error("a packet begins with no type from 0 to 6")]
    UnknownType,
    /// Bytes that should be text are not.
    #[error("text is not valid UTF-8")]
    NotUtf8,
    /// Base64 that is none.
    #[error("binary data is not valid base64")]
    NotBase64,
    /// No length, none that is followed by as much, or none that ends between two characters.
    #[error("a packet's length is missing or does not fit what follows")]
    BadLength,
    /// No `d=` in a form.
    #[error("the form has no field `d` that can be decoded")]
    NoField,
    /// Too many packets.
    #[error(
        "the payload holds more packets than the server's limit; send them in several requests"
    )]
    TooMany,
}

impl From<PacketError> for Close {
    fn from(error: PacketError) -> Close {
        let code = match error {
            PacketError::NotUtf8 => CloseCode::BadText,
            PacketError::TooMany => CloseCode::FrameTooLarge,
            _ => CloseCode::BadFrame,
        };
        Close::new(code, error.to_string())
    }
}

impl<'a> Packet<'a> {
    /// Reads a packet in its text form. Base64 stands for binary data in text messages of WebSockets
    /// as well: that is how clients without binary send it.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode_text(revision: Revision, text: &'a str) -> Result<Packet<'a>, PacketError> {
        let first = *text.as_bytes().first().ok_or(PacketError::Empty)?;
        let rest = text.get(1..).unwrap_or_default();
        if first != b'b' {
            let kind = digit(first)?;
            return Ok(Packet { kind, data: Data::Text(rest) });
        }
        let (kind, encoded) = match revision {
            Revision::Four => (PacketType::Message, rest),
            Revision::Three => {
                let first = *rest.as_bytes().first().ok_or(PacketError::Empty)?;
                (digit(first)?, rest.get(1..).unwrap_or_default())
            }
        };
        let bytes = BASE64.decode(&*unwrapped(encoded)).map_err(|_| PacketError::NotBase64)?;
        Ok(Packet { kind, data: Data::Binary(Cow::Owned(bytes)) })
    }

    /// Reads a packet in its binary form.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode_binary(revision: Revision, bytes: &'a [u8]) -> Result<Packet<'a>, PacketError> {
        let (kind, data) = match revision {
            Revision::Four => (PacketType::Message, bytes),
            Revision::Three => {
                let (first, rest) = bytes.split_first().ok_or(PacketError::Empty)?;
                (PacketType::from_number(*first).ok_or(PacketError::UnknownType)?, rest)
            }
        };
        Ok(Packet { kind, data: Data::Binary(Cow::Borrowed(data)) })
    }
}

/// Base64 without the line breaks that some clients, the Java one among them, put after every 76
/// characters.
fn unwrapped(encoded: &str) -> Cow<'_, str> {
    if !encoded.contains(['\n', '\r']) {
        return Cow::Borrowed(encoded);
    }
    Cow::Owned(encoded.chars().filter(|letter| !matches!(letter, '\n' | '\r')).collect())
}

fn digit(byte: u8) -> Result<PacketType, PacketError> {
    PacketType::from_number(byte.wrapping_sub(b'0')).ok_or(PacketError::UnknownType)
}

/// Standard base64; clients may leave the padding out.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_in_each_form() {
        let message = |data| Ok(Packet { kind: PacketType::Message, data });
        let bytes = || Data::Binary(Cow::Owned(vec![1, 2, 3]));
        for (revision, text, packet) in [
            (Revision::Four, "4h\u{e9}", message(Data::Text("h\u{e9}"))),
            (Revision::Three, "4", message(Data::Text(""))),
            (Revision::Four, "bAQID", message(bytes())),
            (Revision::Three, "b4AQID", message(bytes())),
            (Revision::Four, "b", message(Data::Binary(Cow::Owned(Vec::new())))),
            (Revision::Three, "b", Err(PacketError::Empty)),
            (Revision::Four, "bA", Err(PacketError::NotBase64)),
            (Revision::Four, "bAQ\r\nID\n", message(bytes())),
            (Revision::Three, "b4AQ\nID\n", message(bytes())),
            (Revision::Four, "bAQ ID", Err(PacketError::NotBase64)),
            (Revision::Four, "", Err(PacketError::Empty)),
            (Revision::Four, "7", Err(PacketError::UnknownType)),
            (Revision::Four, "abc", Err(PacketError::UnknownType)),
            (Revision::Four, "\u{e9}", Err(PacketError::UnknownType)),
        ] {
            assert_eq!(Packet::decode_text(revision, text), packet, "{text}");
        }
        let binary = Data::Binary(Cow::Borrowed(&[1, 2, 3][..]));
        assert_eq!(Packet::decode_binary(Revision::Four, &[1, 2, 3]), message(binary.clone()));
        assert_eq!(Packet::decode_binary(Revision::Three, &[4, 1, 2, 3]), message(binary));
        assert_eq!(Packet::decode_binary(Revision::Three, b"4a"), Err(PacketError::UnknownType));
        assert_eq!(Packet::decode_binary(Revision::Three, b""), Err(PacketError::Empty));
    }
}
