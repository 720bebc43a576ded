//! How a transport marks where one protocol message ends: nothing on a stream, a header on
//! WebSocket. Protocols write through it without knowing the transport.

/// Header writers of a transport that carries messages.
#[derive(Debug)]
pub struct MessageFraming {
    /// Distinguishes wire forms in encoding keys; never zero, which is the plain stream.
    pub id: u8,
    /// Appends the header of a text message of so many bytes.
    pub text: fn(usize, &mut Vec<u8>),
    /// Appends the header of a binary message of so many bytes.
    pub binary: fn(usize, &mut Vec<u8>),
}

/// The framing of one connection.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// A byte stream; frames delimit themselves.
    Stream,
    /// One protocol frame per transport message.
    Messages(&'static MessageFraming),
}

impl Framing {
    /// Its place in encoding keys.
    pub fn id(self) -> u8 {
        match self {
            Framing::Stream => 0,
            Framing::Messages(framing) => framing.id,
        }
    }

    /// Whether [`Framing::begin`] writes anything, so that callers need a frame's length first.
    pub fn is_message(self) -> bool {
        matches!(self, Framing::Messages(_))
    }

    /// Appends what precedes a frame of `len` bytes; `text` if they are valid UTF-8.
    pub fn begin(self, len: usize, text: bool, out: &mut Vec<u8>) {
        match self {
            Framing::Stream => {}
            Framing::Messages(framing) if text => (framing.text)(len, out),
            Framing::Messages(framing) => (framing.binary)(len, out),
        }
    }
}
