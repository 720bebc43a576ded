//! How the protocol inside marks its frames: as message packets of whatever carries the session.
//!
//! Invariant: the ids differ from each other and from the transports', so encodings are shared only
//! among sessions of the same form.

use tiderace_wire::{Framing, MessageFraming, PacketFraming};

use crate::payload::{binary3, text3, text4};
use crate::revision::Revision;

/// [`crate::payload::Form::Text4`].
pub(crate) static TEXT_4: MessageFraming =
    MessageFraming { id: 2, text: nothing, binary: nothing, armour: Some(text4::armour) };

/// [`crate::payload::Form::Text3`].
pub(crate) static TEXT_3: MessageFraming =
    MessageFraming { id: 3, text: nothing, binary: nothing, armour: Some(text3::armour) };

/// [`crate::payload::Form::Binary3`].
pub(crate) static BINARY_3: MessageFraming = MessageFraming {
    id: 4,
    text: |length, out| binary3::write_prefix(true, length, out),
    binary: |length, out| binary3::write_prefix(false, length, out),
    armour: None,
};

/// Revision 4 inside WebSocket messages: binary messages are data and nothing else.
static PACKETS_4: PacketFraming = PacketFraming { id: 5, text: b"4", binary: b"" };

/// Revision 3 inside WebSocket messages: the type of binary packets is a number.
static PACKETS_3: PacketFraming = PacketFraming { id: 6, text: b"4", binary: &[4] };

/// Message packets inside the messages of a WebSocket.
pub(crate) fn packets(carrier: Framing, revision: Revision) -> Framing {
    match (carrier, revision) {
        (Framing::Messages(carrier), Revision::Four) => Framing::Packets(carrier, &PACKETS_4),
        (Framing::Messages(carrier), Revision::Three) => Framing::Packets(carrier, &PACKETS_3),
        // Engine.IO has no other carriers.
        (other, _) => other,
    }
}

/// For framings that have an armour, which takes their place.
fn nothing(_: usize, _: &mut Vec<u8>) {}
