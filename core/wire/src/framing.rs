//! How a transport marks where one protocol message ends: nothing on a stream, a header on
//! WebSocket, more where packets are wrapped again. Protocols write through it without knowing the
//! transport.

/// Header writers of a transport that carries messages.
#[derive(Debug)]
pub struct MessageFraming {
    /// Distinguishes wire forms in encoding keys; never zero, which is the plain stream.
    pub id: u8,
    /// Appends the header of a text message of so many bytes.
    pub text: fn(usize, &mut Vec<u8>),
    /// Appends the header of a binary message of so many bytes.
    pub binary: fn(usize, &mut Vec<u8>),
    /// Where headers do not do: rewrites the message that stands at the end of the block, from that
    /// place on, into its wire form; the flag says that it is text. Then neither of the others is used.
    pub armour: Option<fn(&mut Vec<u8>, usize, bool)>,
}

/// A packet layer inside the messages of another transport: constant bytes before each.
#[derive(Debug)]
pub struct PacketFraming {
    /// Distinguishes wire forms in encoding keys, from transports' ids as well.
    pub id: u8,
    /// What precedes text.
    pub text: &'static [u8],
    /// What precedes binary data.
    pub binary: &'static [u8],
}

/// The framing of one connection.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// A byte stream; frames delimit themselves.
    Stream,
    /// One protocol frame per transport message.
    Messages(&'static MessageFraming),
    /// The same, behind the prefix of a packet layer.
    Packets(&'static MessageFraming, &'static PacketFraming),
}

impl Framing {
    /// Its place in encoding keys.
    pub fn id(self) -> u8 {
        match self {
            Framing::Stream => 0,
            Framing::Messages(framing) => framing.id,
            Framing::Packets(_, packets) => packets.id,
        }
    }

    /// Whether [`Framing::begin`] writes anything, so that callers need a frame's length first.
    pub fn is_message(self) -> bool {
        !matches!(self, Framing::Stream)
    }

    /// Whether a frame is its header and then its bytes as they are, so that [`Framing::begin`] may
    /// be used and large bodies may go out by reference. Otherwise only [`Framing::write`] will do.
    pub fn is_prefix(self) -> bool {
        self.armour().is_none()
    }

    /// Appends what precedes a frame of `len` bytes; `text` if they are valid UTF-8.
    pub fn begin(self, len: usize, text: bool, out: &mut Vec<u8>) {
        let header = |framing: &MessageFraming| if text { framing.text } else { framing.binary };
        match self {
            Framing::Stream => {}
            Framing::Messages(framing) => header(framing)(len, out),
            Framing::Packets(framing, packets) => {
                let prefix = if text { packets.text } else { packets.binary };
                header(framing)(prefix.len() + len, out);
                out.extend_from_slice(prefix);
            }
        }
    }

    /// Appends a whole frame.
    pub fn write(self, frame: &[u8], text: bool, out: &mut Vec<u8>) {
        if let Some(armour) = self.armour() {
            let start = out.len();
            out.extend_from_slice(frame);
            return armour(out, start, text);
        }
        self.begin(frame.len(), text, out);
        out.extend_from_slice(frame);
    }

    /// Begins a frame whose length is not known yet: room for the header of one between 126 and 65,535
    /// bytes is left, and where its bytes begin is returned.
    pub fn open(self, text: bool, out: &mut Vec<u8>) -> usize {
        if self.is_prefix() {
            self.begin(USUAL_BYTES, text, out);
        }
        out.len()
    }

    /// Ends a frame begun by [`Framing::open`] at `start`, with nothing but its bytes behind that. A
    /// frame of an unusual length is moved.
    pub fn close(self, start: usize, text: bool, out: &mut Vec<u8>) {
        if let Some(armour) = self.armour() {
            return armour(out, start, text);
        }
        // Headers are written behind the frame, where nothing is in their way.
        let end = out.len();
        self.begin(USUAL_BYTES, text, out);
        let room = start.saturating_sub(out.len() - end);
        out.truncate(end);
        self.begin(end.saturating_sub(start), text, out);
        let header = end..out.len();
        if header.len() == start - room {
            out.copy_within(header, room);
            out.truncate(end);
        } else {
            let header = out.split_off(end);
            out.splice(room..start, header);
        }
    }

    fn armour(self) -> Option<fn(&mut Vec<u8>, usize, bool)> {
        match self {
            Framing::Messages(framing) => framing.armour,
            Framing::Stream | Framing::Packets(..) => None,
        }
    }
}

/// Any length whose header is as long as that of most batches.
const USUAL_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    static LENGTHS: MessageFraming = MessageFraming {
        id: 1,
        text: |len, out| out.extend_from_slice(format!("t{len}:").as_bytes()),
        binary: |len, out| out.extend_from_slice(format!("b{len}:").as_bytes()),
        armour: None,
    };
    static DOUBLED: MessageFraming = MessageFraming {
        id: 2,
        text: |_, _| {},
        binary: |_, _| {},
        armour: Some(|out, start, _| {
            let frame = out.split_off(start);
            out.extend(frame.iter().flat_map(|byte| [*byte, *byte]));
        }),
    };
    static PACKETS: PacketFraming = PacketFraming { id: 3, text: b"4", binary: b"" };

    proptest! {
        #[test]
        fn an_opened_frame_is_what_a_whole_one_is(
            before in proptest::collection::vec(any::<u8>(), 0..20),
            frame in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                proptest::collection::vec(any::<u8>(), 1000..1300),
                proptest::collection::vec(any::<u8>(), 70_000..70_001)
            ],
            text in any::<bool>(),
        ) {
            for framing in [
                Framing::Stream,
                Framing::Messages(&LENGTHS),
                Framing::Messages(&DOUBLED),
                Framing::Packets(&LENGTHS, &PACKETS),
            ] {
                let (mut whole, mut opened) = (before.clone(), before.clone());
                framing.write(&frame, text, &mut whole);
                let start = framing.open(text, &mut opened);
                opened.extend_from_slice(&frame);
                framing.close(start, text, &mut opened);
                prop_assert_eq!(whole, opened);
            }
        }
    }

    #[test]
    fn packets_stand_inside_messages() {
        let mut out = Vec::new();
        Framing::Packets(&LENGTHS, &PACKETS).write(b"hi", true, &mut out);
        Framing::Packets(&LENGTHS, &PACKETS).write(b"hi", false, &mut out);
        assert_eq!(out, b"t3:4hib2:hi");
    }
}
