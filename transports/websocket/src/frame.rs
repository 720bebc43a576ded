//! The frame header of RFC 6455 section 5.2, parsed from bytes.
//!
//! Relies on nothing but the bytes and the role. Invariant: a [`FrameHeader`] exists only when
//! every rule that can be judged from the header alone holds.

use crate::close::CloseError;
use crate::limits::CONTROL_PAYLOAD_BYTES_MAX;

/// Which end of the connection this codec is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads frames of a server, which must not be masked.
    Client,
    /// Reads frames of a client, which must be masked.
    Server,
}

/// The two kinds of message (RFC 6455 section 5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Arbitrary bytes.
    Binary,
    /// UTF-8 text.
    Text,
}

/// What a frame is (RFC 6455 section 5.2), in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// A further fragment of the message in progress.
    Continuation = 0x0,
    /// The first frame of a text message.
    Text = 0x1,
    /// The first frame of a binary message.
    Binary = 0x2,
    /// The closing handshake.
    Close = 0x8,
    /// A question that a pong answers.
    Ping = 0x9,
    /// The answer to a ping, or an unsolicited keep-alive.
    Pong = 0xA,
}

impl Opcode {
    /// Whether this is a control frame (RFC 6455 section 5.5).
    #[must_use]
    pub const fn is_control(self) -> bool {
        (self as u8) & 0x8 != 0
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }
}

impl From<MessageKind> for Opcode {
    fn from(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Binary => Self::Binary,
            MessageKind::Text => Self::Text,
        }
    }
}

/// A header that obeys section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) fin: bool,
    pub(crate) opcode: Opcode,
    /// Bytes of payload the peer declared; not to be allocated on its word.
    pub(crate) payload_len: u64,
    /// Bytes the header itself takes.
    pub(crate) header_len: usize,
    pub(crate) mask: Option<[u8; 4]>,
}

/// What the bytes so far say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderParse {
    Complete(FrameHeader),
    /// `need` bytes of input are necessary to know more.
    Incomplete {
        need: usize,
    },
}

impl FrameHeader {
    /// Parses a header, refusing a faulty one as early as the bytes allow.
    #[inline]
    pub(crate) fn parse(input: &[u8], role: Role) -> Result<HeaderParse, CloseError> {
        let Some((&first, after_first)) = input.split_first() else {
            return Ok(HeaderParse::Incomplete { need: 2 });
        };
        if first & 0x70 != 0 {
            return Err(CloseError::ReservedBitSet);
        }
        let opcode = Opcode::from_bits(first & 0x0F).ok_or(CloseError::OpcodeReserved)?;
        let fin = first & 0x80 != 0;
        if opcode.is_control() && !fin {
            return Err(CloseError::ControlFragmented);
        }

        let Some((&second, after_second)) = after_first.split_first() else {
            return Ok(HeaderParse::Incomplete { need: 2 });
        };
        let masked = second & 0x80 != 0;
        match role {
            Role::Client if masked => return Err(CloseError::MaskForbidden),
            Role::Server if !masked => return Err(CloseError::MaskRequired),
            _ => {}
        }
        let short_len = second & 0x7F;
        if opcode.is_control() && usize::from(short_len) > CONTROL_PAYLOAD_BYTES_MAX {
            return Err(CloseError::ControlTooLong);
        }

        let (length_len, mask_len) = (extended_len(short_len), if masked { 4 } else { 0 });
        let header_len = 2 + length_len + mask_len;
        let Some((payload_len, after_length)) = parse_length(short_len, after_second)? else {
            return Ok(HeaderParse::Incomplete { need: header_len });
        };
        let mask = if masked {
            let Some(key) = after_length.first_chunk::<4>() else {
                return Ok(HeaderParse::Incomplete { need: header_len });
            };
            Some(*key)
        } else {
            None
        };
        Ok(HeaderParse::Complete(Self { fin, opcode, payload_len, header_len, mask }))
    }
}

/// How many bytes of extended length follow a 7-bit length.
const fn extended_len(short_len: u8) -> usize {
    match short_len {
        126 => 2,
        127 => 8,
        _ => 0,
    }
}

/// The payload length and what follows it, or `None` while its bytes are missing.
#[inline]
fn parse_length(short_len: u8, input: &[u8]) -> Result<Option<(u64, &[u8])>, CloseError> {
    match short_len {
        126 => {
            let Some((bytes, rest)) = input.split_first_chunk::<2>() else {
                return Ok(None);
            };
            let len = u16::from_be_bytes(*bytes);
            if len < 126 {
                return Err(CloseError::LengthNotMinimal);
            }
            Ok(Some((u64::from(len), rest)))
        }
        127 => {
            let Some((bytes, rest)) = input.split_first_chunk::<8>() else {
                return Ok(None);
            };
            let len = u64::from_be_bytes(*bytes);
            if len >> 63 != 0 {
                return Err(CloseError::LengthOverflow);
            }
            if len <= u64::from(u16::MAX) {
                return Err(CloseError::LengthNotMinimal);
            }
            Ok(Some((len, rest)))
        }
        _ => Ok(Some((u64::from(short_len), input))),
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// Section 5.2: "the minimal number of bytes MUST be used to encode the length".
    #[test]
    fn lengths_must_be_minimal() {
        let parse = |bytes: &[u8]| FrameHeader::parse(bytes, Role::Client);
        assert_eq!(parse(&[0x82, 126, 0, 125]), Err(CloseError::LengthNotMinimal));
        assert_eq!(
            parse(&[0x82, 127, 0, 0, 0, 0, 0, 0, 255, 255]),
            Err(CloseError::LengthNotMinimal)
        );
        assert!(matches!(parse(&[0x82, 126, 0, 126]), Ok(HeaderParse::Complete(_))));
        assert!(matches!(
            parse(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
            Ok(HeaderParse::Complete(_))
        ));
    }

    /// Section 5.2: "the most significant bit MUST be 0".
    #[test]
    fn sixty_four_bit_lengths_have_no_sign() {
        let bytes = [0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(FrameHeader::parse(&bytes, Role::Client), Err(CloseError::LengthOverflow));
    }

    #[test]
    fn a_header_is_incomplete_at_every_shorter_length() {
        let bytes = [0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4];
        for cut in 0..bytes.len() {
            let need = if cut < 2 { 2 } else { 14 };
            assert_eq!(
                FrameHeader::parse(&bytes[..cut], Role::Server),
                Ok(HeaderParse::Incomplete { need }),
                "{cut}"
            );
        }
        let Ok(HeaderParse::Complete(header)) = FrameHeader::parse(&bytes, Role::Server) else {
            panic!("complete");
        };
        assert_eq!((header.header_len, header.payload_len), (14, 65536));
        assert_eq!(header.mask, Some([1, 2, 3, 4]));
    }
}
