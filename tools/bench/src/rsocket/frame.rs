//! RSocket's frames as a requester writes and recognises them.
//!
//! Written apart from the server's codec on purpose: a fault in a shared one would hide itself. Frames are
//! appended with the length of 24 bits in front, as TCP wants them; other carriers take it off.
//! Invariant: what is appended is whole.

/// Types of frames.
pub(super) const SETUP: u8 = 0x01;
/// See [`SETUP`].
pub(super) const KEEPALIVE: u8 = 0x03;
/// See [`SETUP`].
pub(super) const REQUEST_RESPONSE: u8 = 0x04;
/// See [`SETUP`].
pub(super) const REQUEST_STREAM: u8 = 0x06;
/// See [`SETUP`].
pub(super) const REQUEST_CHANNEL: u8 = 0x07;
/// See [`SETUP`].
pub(super) const REQUEST_N: u8 = 0x08;
/// See [`SETUP`].
pub(super) const CANCEL: u8 = 0x09;
/// See [`SETUP`].
pub(super) const PAYLOAD: u8 = 0x0a;
/// See [`SETUP`].
pub(super) const ERROR: u8 = 0x0b;

/// The frame has metadata.
pub(super) const METADATA: u16 = 0x100;
/// More fragments follow.
pub(super) const FOLLOWS: u16 = 0x80;
/// A KEEPALIVE wants an answer.
pub(super) const RESPOND: u16 = 0x80;
/// The stream is complete.
pub(super) const COMPLETE: u16 = 0x40;
/// A PAYLOAD is an item.
pub(super) const NEXT: u16 = 0x20;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 6;
/// Bytes of the length in front.
pub(super) const LENGTH_BYTES: usize = 3;
/// The most that may be asked for at a time.
pub(super) const DEMAND_MAX: u32 = 0x7fff_ffff;
const LENGTH_MAX: usize = 0x00ff_ffff;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The stream.
    pub stream: u32,
    /// What it is.
    pub kind: u8,
    /// Its flags.
    pub flags: u16,
}

impl Header {
    /// Whether all of these flags are set.
    pub(super) fn has(self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// The header at the beginning of these bytes, if it is whole.
#[inline]
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let [a, b, c, d, e, f] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let word = u16::from_be_bytes([e, f]);
    let stream = u32::from_be_bytes([a, b, c, d]) & DEMAND_MAX;
    Some(Header { stream, kind: (word >> 10) as u8, flags: word & 0x03ff })
}

/// How many bytes of a frame of that type and length have to be there before it is looked at.
#[inline]
pub(super) fn wanted(kind: u8, length: usize) -> usize {
    match kind {
        PAYLOAD => HEADER_BYTES,
        // The text of an error, the data of a KEEPALIVE.
        _ => length.min(READ_BYTES_MAX),
    }
}

/// Appends a frame that `body` completes.
pub(super) fn append(
    out: &mut Vec<u8>,
    stream: u32,
    (kind, flags): (u8, u16),
    body: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(&(u16::from(kind) << 10 | flags).to_be_bytes());
    body(out);
    let length = (out.len() - at - LENGTH_BYTES).min(LENGTH_MAX);
    if let (Some(field), [_, length @ ..]) =
        (out.get_mut(at..at + LENGTH_BYTES), (length as u32).to_be_bytes())
    {
        field.copy_from_slice(&length);
    }
}

/// Appends the SETUP of a client.
pub(super) fn setup(out: &mut Vec<u8>, (keepalive_ms, lifetime_ms): (u32, u32), routed: bool) {
    append(out, 0, (SETUP, 0), |out| {
        out.extend_from_slice(&[0, 1, 0, 0]);
        out.extend_from_slice(&keepalive_ms.to_be_bytes());
        out.extend_from_slice(&lifetime_ms.to_be_bytes());
        for mime in [if routed { COMPOSITE } else { OCTETS }, OCTETS] {
            out.push(mime.len() as u8);
            out.extend_from_slice(mime.as_bytes());
        }
    });
}

/// Appends metadata, if there is any, with its length.
pub(super) fn metadata(out: &mut Vec<u8>, metadata: &[u8]) {
    if !metadata.is_empty() {
        let [_, length @ ..] = (metadata.len() as u32).to_be_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(metadata);
    }
}

/// Composite metadata that names a route; a route's tag has up to 255 bytes.
pub(super) fn route(route: &str) -> Vec<u8> {
    let tag = route.as_bytes().get(..route.len().min(255)).unwrap_or_default();
    let [high, low] = (tag.len() as u16 + 1).to_be_bytes();
    let mut out = vec![ROUTING_ID, 0, high, low];
    out.push(tag.len() as u8);
    out.extend_from_slice(tag);
    out
}

/// Appends a KEEPALIVE.
pub(super) fn keepalive(out: &mut Vec<u8>, flags: u16, data: &[u8]) {
    append(out, 0, (KEEPALIVE, flags), |out| {
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(data);
    });
}

/// Appends a demand for more items.
pub(super) fn request_n(out: &mut Vec<u8>, stream: u32, count: u32) {
    append(out, stream, (REQUEST_N, 0), |out| out.extend_from_slice(&count.to_be_bytes()));
}

const COMPOSITE: &str = "message/x.rsocket.composite-metadata.v0";
const OCTETS: &str = "application/octet-stream";
/// `message/x.rsocket.routing.v0`, marked as a well-known number.
const ROUTING_ID: u8 = 0x80 | 0x7e;
/// What is read of frames other than payloads; a KEEPALIVE's data is cut there.
const READ_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn frames_have_their_length_and_header() {
        let mut out = Vec::new();
        request_n(&mut out, 7, 9);
        assert_eq!(out, [0, 0, 10, 0, 0, 0, 7, 0x20, 0, 0, 0, 0, 9]);
        let header = header(&out[3..]).unwrap();
        assert_eq!(header, Header { stream: 7, kind: REQUEST_N, flags: 0 });
    }

    #[test]
    fn setup_names_its_types() {
        let mut out = Vec::new();
        setup(&mut out, (20_000, 90_000), true);
        assert_eq!(&out[3..13], [0, 0, 0, 0, 0x04, 0, 0, 1, 0, 0]);
        assert_eq!(&out[13..21], [0, 0, 0x4e, 0x20, 0, 1, 0x5f, 0x90]);
        assert_eq!(usize::from(out[21]), COMPOSITE.len());
        assert!(out.ends_with(OCTETS.as_bytes()));
    }

    #[test]
    fn routes_of_all_lengths_are_well_formed() {
        for length in [1, 5, 127, 254, 255] {
            let metadata = route(&"r".repeat(length));
            let entry = u32::from_be_bytes([0, metadata[1], metadata[2], metadata[3]]) as usize;
            assert_eq!((metadata[0], entry), (0xfe, metadata.len() - 4));
            assert_eq!(usize::from(metadata[4]), length);
        }
    }
}
