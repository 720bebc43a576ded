//! Frames to bytes.
//!
//! Relies on the transport's framing: a stream gets the length before each frame, a message begins in
//! the transport's way. Invariant: a frame is one stretch of the block, and nothing is allocated but
//! the block's own room.

use tiderace_wire::Framing;

use super::{
    Body, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, NUMBER_MAX, POSITION_MAX, PREFIX_BYTES,
    Payload, Setup, flag, kind,
};

impl Header {
    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = (self.stream & NUMBER_MAX).to_be_bytes();
        let [e, f] = (u16::from(self.kind) << 10 | self.flags & 0x3ff).to_be_bytes();
        [a, b, c, d, e, f]
    }
}

impl Frame<'_> {
    /// Appends it as this transport wants it.
    #[inline]
    pub fn write(&self, framing: Framing, out: &mut Vec<u8>) {
        if framing.is_prefix() {
            return self.write_head(0, framing, out);
        }
        let start = framing.open(false, out);
        self.write_bare(out);
        framing.close(start, false, out);
    }

    /// Appends it but for the last `following` bytes of its data, which are not in `self` and follow
    /// by other means. For transports only whose frames are a head and bytes as they are
    /// ([`Framing::is_prefix`]).
    #[inline]
    pub fn write_head(&self, following: usize, framing: Framing, out: &mut Vec<u8>) {
        let len = self.len() + following;
        // A caller that writes more has forgotten to cut it into fragments.
        assert!(len <= FRAME_BYTES_MAX, "a frame has at most 16,777,215 bytes, not {len}");
        out.reserve(PREFIX_BYTES + self.len());
        match framing {
            Framing::Stream => {
                let [_, a, b, c] = (len as u32).to_be_bytes();
                out.extend_from_slice(&[a, b, c]);
            }
            other => other.begin(len, false, out),
        }
        self.write_bare(out);
    }

    /// Appends it without anything before it.
    #[inline]
    pub fn write_bare(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.header().bytes());
        match &self.body {
            Body::Payload(item) => payload(&item.payload, out),
            Body::Request(request) => {
                if request.interaction.has_credit() {
                    number(request.credit, out);
                }
                payload(&request.payload, out);
            }
            Body::RequestN(items) => number(*items, out),
            Body::Cancel | Body::Ignored => {}
            Body::KeepAlive(sign) => {
                position(sign.position, out);
                out.extend_from_slice(sign.data);
            }
            Body::Error(failure) => {
                out.extend_from_slice(&failure.code.0.to_be_bytes());
                out.extend_from_slice(failure.text);
            }
            Body::Setup(words) => setup(words, out),
            Body::Lease(lease) => {
                number(lease.ttl_ms, out);
                number(lease.requests, out);
                out.extend_from_slice(lease.metadata.unwrap_or_default());
            }
            Body::MetadataPush(metadata) => out.extend_from_slice(metadata),
            Body::Resume(resume) => {
                version(resume.version, out);
                token(resume.token, out);
                position(resume.received, out);
                position(resume.available, out);
            }
            Body::ResumeOk(received) => position(*received, out),
            Body::Extension(extension) => {
                number(extension.kind, out);
                out.extend_from_slice(extension.bytes);
            }
        }
    }

    /// Bytes it takes without a prefix; what positions count.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_BYTES
            + match &self.body {
                Body::Payload(item) => payload_len(&item.payload),
                Body::Request(request) => {
                    4 * usize::from(request.interaction.has_credit())
                        + payload_len(&request.payload)
                }
                Body::RequestN(_) => 4,
                Body::Cancel | Body::Ignored => 0,
                Body::KeepAlive(sign) => 8 + sign.data.len(),
                Body::Error(failure) => 4 + failure.text.len(),
                Body::Setup(words) => {
                    12 + words.token.map_or(0, |token| 2 + token.len())
                        + 2
                        + words.metadata_mime.len()
                        + words.data_mime.len()
                        + payload_len(&words.payload)
                }
                Body::Lease(lease) => 8 + lease.metadata.map_or(0, <[u8]>::len),
                Body::MetadataPush(metadata) => metadata.len(),
                Body::Resume(resume) => 4 + 2 + resume.token.len() + 16,
                Body::ResumeOk(_) => 8,
                Body::Extension(extension) => 4 + extension.bytes.len(),
            }
    }

    /// Never: each frame has a head.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What stands in front of it.
    #[inline]
    pub fn header(&self) -> Header {
        let set = |flag: u16, when: bool| if when { flag } else { 0 };
        let metadata = |payload: &Payload<'_>| set(flag::METADATA, payload.metadata.is_some());
        let (kind, flags) = match &self.body {
            Body::Payload(item) => (
                kind::PAYLOAD,
                metadata(&item.payload)
                    | set(flag::FOLLOWS, item.follows)
                    | set(flag::COMPLETE, item.complete)
                    | set(flag::NEXT, item.next),
            ),
            Body::Request(request) => (
                request.interaction.kind(),
                metadata(&request.payload)
                    | set(flag::FOLLOWS, request.follows)
                    | set(flag::COMPLETE, request.complete),
            ),
            Body::RequestN(_) => (kind::REQUEST_N, 0),
            Body::Cancel => (kind::CANCEL, 0),
            Body::KeepAlive(sign) => (kind::KEEPALIVE, set(flag::RESPOND, sign.respond)),
            Body::Error(_) => (kind::ERROR, 0),
            Body::Setup(setup) => (
                kind::SETUP,
                metadata(&setup.payload)
                    | set(flag::RESUME, setup.token.is_some())
                    | set(flag::LEASE, setup.lease),
            ),
            Body::Lease(lease) => (kind::LEASE, set(flag::METADATA, lease.metadata.is_some())),
            Body::MetadataPush(_) => (kind::METADATA_PUSH, flag::METADATA),
            Body::Resume(_) => (kind::RESUME, 0),
            Body::ResumeOk(_) => (kind::RESUME_OK, 0),
            Body::Extension(extension) => (
                kind::EXT,
                set(flag::IGNORE, extension.ignore) | set(flag::METADATA, extension.metadata),
            ),
            // The reserved type, which everybody ignores if asked to.
            Body::Ignored => (0, flag::IGNORE),
        };
        Header { stream: self.stream, kind, flags }
    }
}

#[inline]
fn payload_len(payload: &Payload<'_>) -> usize {
    payload.metadata.map_or(0, |metadata| 3 + metadata.len()) + payload.data.len()
}

#[inline]
fn payload(payload: &Payload<'_>, out: &mut Vec<u8>) {
    if let Some(metadata) = payload.metadata {
        let [_, a, b, c] = (metadata.len() as u32).to_be_bytes();
        out.extend_from_slice(&[a, b, c]);
        out.extend_from_slice(metadata);
    }
    out.extend_from_slice(payload.data);
}

fn setup(words: &Setup<'_>, out: &mut Vec<u8>) {
    version(words.version, out);
    number(words.interval_ms, out);
    number(words.lifetime_ms, out);
    if let Some(bytes) = words.token {
        token(bytes, out);
    }
    for mime in [words.metadata_mime, words.data_mime] {
        assert!(mime.len() <= 255, "a MIME type has at most 255 bytes, not {}", mime.len());
        out.push(mime.len() as u8);
        out.extend_from_slice(mime);
    }
    payload(&words.payload, out);
}

fn version((major, minor): (u16, u16), out: &mut Vec<u8>) {
    out.extend_from_slice(&major.to_be_bytes());
    out.extend_from_slice(&minor.to_be_bytes());
}

fn token(token: &[u8], out: &mut Vec<u8>) {
    assert!(token.len() <= 65_535, "a token has at most 65,535 bytes, not {}", token.len());
    out.extend_from_slice(&(token.len() as u16).to_be_bytes());
    out.extend_from_slice(token);
}

#[inline]
fn number(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(number & NUMBER_MAX).to_be_bytes());
}

fn position(position: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(position & POSITION_MAX).to_be_bytes());
}
