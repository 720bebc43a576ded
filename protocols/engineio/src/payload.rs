//! Payloads: several packets in the body of a request or of its answer.
//!
//! Relies on the forms below for where packets begin and end. Invariant: decoding reads each byte a
//! bounded number of times and stops at the first fault, at the packet that is one too many, or at
//! the end.

pub mod binary3;
pub mod jsonp;
mod part;
pub mod text3;
pub mod text4;

use tiderace_wire::MessageFraming;

use self::part::Part;
use crate::framing;
use crate::packet::{Data, Packet, PacketError, PacketType};
use crate::revision::Revision;

/// How packets are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Revision 4: joined by a separator. Each is written with the separator before it.
    Text4,
    /// Revision 3: each behind its length in UTF-16 code units.
    Text3,
    /// Revision 3: each behind its kind and its length in bytes.
    Binary3,
}

impl Form {
    /// The form that any client of the revision understands.
    pub(crate) fn text(revision: Revision) -> Form {
        match revision {
            Revision::Four => Form::Text4,
            Revision::Three => Form::Text3,
        }
    }

    /// Its revision.
    pub fn revision(self) -> Revision {
        match self {
            Form::Text4 => Revision::Four,
            Form::Text3 | Form::Binary3 => Revision::Three,
        }
    }

    /// How message packets are written in this form.
    pub fn framing(self) -> &'static MessageFraming {
        match self {
            Form::Text4 => &framing::TEXT_4,
            Form::Text3 => &framing::TEXT_3,
            Form::Binary3 => &framing::BINARY_3,
        }
    }

    /// Bytes before the first packet that do not belong into a payload.
    pub fn skip(self) -> usize {
        usize::from(self == Form::Text4)
    }

    /// Appends a packet of text.
    pub fn write(self, kind: PacketType, data: &str, out: &mut Vec<u8>) {
        match self {
            Form::Text4 => out.push(text4::SEPARATOR),
            Form::Text3 => text3::write_length(1 + text3::units(data.as_bytes()), out),
            Form::Binary3 => binary3::write_header(true, 1 + data.len(), out),
        }
        out.push(kind.digit());
        out.extend_from_slice(data.as_bytes());
    }

    /// Appends any packet.
    pub fn write_packet(self, packet: &Packet<'_>, out: &mut Vec<u8>) {
        match &packet.data {
            Data::Text(text) => self.write(packet.kind, text, out),
            // No other type carries binary data.
            Data::Binary(bytes) => {
                let start = out.len();
                match self {
                    Form::Text4 => {
                        out.extend_from_slice(bytes);
                        text4::armour(out, start, false);
                    }
                    Form::Text3 => {
                        out.extend_from_slice(bytes);
                        text3::armour(out, start, false);
                    }
                    Form::Binary3 => {
                        binary3::write_prefix(false, bytes.len(), out);
                        out.extend_from_slice(bytes);
                    }
                }
            }
        }
    }

    /// The packets of what was written in this form, whatever precedes the first.
    pub(crate) fn written(self, bytes: &[u8]) -> impl Iterator<Item = Packet<'_>> {
        // It is ours: there is no fault in it, but it may be empty.
        self.packets(bytes.get(self.skip()..).unwrap_or_default(), usize::MAX).flatten()
    }

    /// The packets of a payload, at most so many.
    pub fn packets(self, payload: &[u8], packets_max: usize) -> Packets<'_> {
        let rest = if self == Form::Text4 || !payload.is_empty() {
            Rest::More(payload)
        } else {
            Rest::Fault(PacketError::Empty)
        };
        let checked = self == Form::Binary3 || simdutf8::basic::from_utf8(payload).is_ok();
        let rest = if checked { rest } else { Rest::Fault(PacketError::NotUtf8) };
        Packets { form: self, rest, left: packets_max }
    }
}

/// The packets of a payload, in order. Nothing comes behind a fault.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    form: Form,
    rest: Rest<'a>,
    left: usize,
}

#[derive(Clone, Copy, Debug)]
enum Rest<'a> {
    More(&'a [u8]),
    Fault(PacketError),
    Over,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let bytes = match std::mem::replace(&mut self.rest, Rest::Over) {
                Rest::Over => return None,
                Rest::Fault(error) => return Some(Err(error)),
                Rest::More(bytes) => bytes,
            };
            let part = match self.form {
                Form::Text4 => Ok(text4::part(bytes)),
                Form::Text3 => text3::part(bytes),
                Form::Binary3 => binary3::part(bytes),
            };
            let part = match part {
                Ok(part) => part,
                Err(error) => return Some(Err(error)),
            };
            let Some(left) = self.left.checked_sub(1) else {
                return Some(Err(PacketError::TooMany));
            };
            self.left = left;
            if let Some(rest) = part.rest {
                self.rest = Rest::More(rest);
            }
            if part.packet.is_empty() && self.form == Form::Text3 {
                // `0:` is how an empty payload is written.
                continue;
            }
            let packet = decode(self.form.revision(), &part);
            if packet.is_err() {
                self.rest = Rest::Over;
            }
            return Some(packet);
        }
    }
}

fn decode<'a>(revision: Revision, part: &Part<'a>) -> Result<Packet<'a>, PacketError> {
    if !part.text {
        return Packet::decode_binary(revision, part.packet);
    }
    // The text forms have been checked as a whole; this is needed for text in the binary form.
    let text = simdutf8::basic::from_utf8(part.packet).map_err(|_| PacketError::NotUtf8)?;
    Packet::decode_text(revision, text)
}
