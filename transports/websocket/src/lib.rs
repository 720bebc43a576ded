//! WebSocket (RFC 6455) as a sans-I/O codec: bytes in, events out, bytes to send.
//!
//! The crate relies on its caller for sockets, buffers, clocks and randomness; it keeps the
//! invariant that no input, however hostile, makes it panic or hold more memory than
//! [`Limits`] allows.
//!
//! # Reading
//!
//! One [`Decoder`] lives in each connection (16 bytes, no heap while idle). Give it the
//! unconsumed bytes; it unmasks whole frames in place and borrows payloads from the input:
//!
//! ```
//! use tiderace_websocket::{Decoder, Event, Limits, MessageKind, Role, encode_message};
//!
//! let limits = Limits::default();
//! let mut decoder = Decoder::new(Role::Server);
//! let mut input = Vec::new();
//! encode_message(&mut input, MessageKind::Text, b"hello", Some([1, 2, 3, 4]));
//!
//! let decoded = decoder.decode(&limits, &mut input)?;
//! assert_eq!(decoded.consumed, 11);
//! assert_eq!(
//!     decoded.event,
//!     Event::Message { kind: MessageKind::Text, payload: b"hello" },
//! );
//! # Ok::<(), tiderace_websocket::CloseError>(())
//! ```
//!
//! Call [`Decoder::decode`] until it answers [`Event::Incomplete`], dropping `consumed` bytes
//! each time. On an error send a close frame with [`CloseError::close_code`] and close.
//!
//! # Writing
//!
//! [`write_header`], [`header_bytes`] (on the stack, for `writev`), [`encode_message`],
//! [`encode_ping`], [`encode_pong`], [`encode_close`]. Servers pass `None` as mask; a client passes a
//! key for each frame, or writes like a server and sends the whole through a [`Masker`].
//!
//! # Opening
//!
//! [`handshake`] judges upgrade requests (origin, version, key, subprotocol) on the server side
//! and makes requests and checks answers on the client side.
//!
//! No extension is negotiated: RSV bits must be zero, permessage-deflate is never accepted.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod assembly;
mod close;
mod decode;
mod encode;
mod frame;
pub mod handshake;
mod limits;
mod mask;
mod masker;
mod parts;

pub use close::{CloseError, close_code, close_code_valid};
pub use decode::{Decoded, Decoder, Event};
pub use encode::{
    HeaderBytes, encode_close, encode_message, encode_ping, encode_pong, header_bytes, header_len,
    write_frame_header, write_header,
};
pub use frame::{MessageKind, Opcode, Role};
pub use limits::{CONTROL_PAYLOAD_BYTES_MAX, HEADER_BYTES_MAX, Limits};
pub use mask::mask;
pub use masker::Masker;
