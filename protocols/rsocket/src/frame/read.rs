//! Bytes to frames.
//!
//! Relies on slices. Invariants: every step is checked; nothing is copied; bytes behind the last field
//! of a frame that has no payload are skipped.

use super::{
    Body, ErrorCode, Extension, Failure, Frame, FrameError, Header, Interaction, Item, KeepAlive,
    Lease, NUMBER_MAX, POSITION_MAX, Payload, Request, Resume, Setup, flag, kind,
};

impl Header {
    /// Reads the head of a frame.
    ///
    /// # Errors
    /// When there are too few bytes.
    #[inline]
    pub fn read(frame: &[u8]) -> Result<(Header, &[u8]), FrameError> {
        let Some(([a, b, c, d, e, f], rest)) = frame.split_first_chunk::<6>() else {
            return Err(FrameError::NoHeader(frame.len()));
        };
        // The bit before the stream is reserved.
        let stream = u32::from_be_bytes([*a, *b, *c, *d]) & NUMBER_MAX;
        let flags = u16::from_be_bytes([*e, *f]) & 0x3ff;
        Ok((Header { stream, kind: e >> 2, flags }, rest))
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame, without its prefix.
    ///
    /// # Errors
    /// When its fields are not there, unless it may be ignored ([`Body::Ignored`]).
    #[inline]
    pub fn read(frame: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let (header, rest) = Header::read(frame)?;
        Frame::read_body(header, rest)
    }

    /// Reads what follows a head that was read already.
    ///
    /// # Errors
    /// See [`Frame::read`].
    #[inline]
    pub fn read_body(header: Header, rest: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let body = match body(header, rest) {
            Err(_) if header.has(flag::IGNORE) => Body::Ignored,
            read => read?,
        };
        Ok(Frame { stream: header.stream, body })
    }
}

#[inline]
fn body(header: Header, rest: &[u8]) -> Result<Body<'_>, FrameError> {
    let mut fields = Fields(rest);
    Ok(match header.kind {
        kind::PAYLOAD => Body::Payload(Item {
            follows: header.has(flag::FOLLOWS),
            complete: header.has(flag::COMPLETE),
            next: header.has(flag::NEXT),
            payload: fields.payload(header)?,
        }),
        kind::REQUEST_N => Body::RequestN(fields.number("credit")?),
        kind::REQUEST_RESPONSE => request(Interaction::Response, header, fields)?,
        kind::REQUEST_FNF => request(Interaction::FireAndForget, header, fields)?,
        kind::REQUEST_STREAM => request(Interaction::Stream, header, fields)?,
        kind::REQUEST_CHANNEL => request(Interaction::Channel, header, fields)?,
        kind::CANCEL => Body::Cancel,
        kind::KEEPALIVE => Body::KeepAlive(KeepAlive {
            respond: header.has(flag::RESPOND),
            position: fields.position("position")?,
            data: fields.0,
        }),
        kind::ERROR => {
            Body::Error(Failure { code: ErrorCode(fields.word("error code")?), text: fields.0 })
        }
        kind::SETUP => Body::Setup(setup(header, fields)?),
        kind::LEASE => Body::Lease(Lease {
            ttl_ms: fields.number("time to live")?,
            requests: fields.number("number of requests")?,
            metadata: header.has(flag::METADATA).then_some(fields.0),
        }),
        kind::METADATA_PUSH => Body::MetadataPush(fields.0),
        kind::RESUME => Body::Resume(Resume {
            version: fields.version()?,
            token: fields.token()?,
            received: fields.position("last received position")?,
            available: fields.position("first available position")?,
        }),
        kind::RESUME_OK => Body::ResumeOk(fields.position("last received position")?),
        kind::EXT => Body::Extension(Extension {
            ignore: header.has(flag::IGNORE),
            metadata: header.has(flag::METADATA),
            kind: fields.number("extended type")?,
            bytes: fields.0,
        }),
        unknown => return Err(FrameError::UnknownType(unknown)),
    })
}

#[inline]
fn request<'a>(
    interaction: Interaction,
    header: Header,
    mut fields: Fields<'a>,
) -> Result<Body<'a>, FrameError> {
    let credit = if interaction.has_credit() { fields.number("initial credit")? } else { 0 };
    Ok(Body::Request(Request {
        interaction,
        follows: header.has(flag::FOLLOWS),
        complete: interaction == Interaction::Channel && header.has(flag::COMPLETE),
        credit,
        payload: fields.payload(header)?,
    }))
}

fn setup<'a>(header: Header, mut fields: Fields<'a>) -> Result<Setup<'a>, FrameError> {
    Ok(Setup {
        version: fields.version()?,
        interval_ms: fields.number("keepalive interval")?,
        lifetime_ms: fields.number("max lifetime")?,
        token: if header.has(flag::RESUME) { Some(fields.token()?) } else { None },
        lease: header.has(flag::LEASE),
        metadata_mime: fields.mime("MIME type of metadata")?,
        data_mime: fields.mime("MIME type of data")?,
        payload: fields.payload(header)?,
    })
}

/// What has not been read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn chunk<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FrameError> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or(FrameError::Cut(what))?;
        self.0 = rest;
        Ok(*chunk)
    }

    #[inline]
    fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], FrameError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(FrameError::Cut(what))?;
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    fn word(&mut self, what: &'static str) -> Result<u32, FrameError> {
        Ok(u32::from_be_bytes(self.chunk(what)?))
    }

    /// 31 bits behind one that is reserved.
    #[inline]
    fn number(&mut self, what: &'static str) -> Result<u32, FrameError> {
        Ok(self.word(what)? & NUMBER_MAX)
    }

    /// 63 bits behind one that is reserved.
    fn position(&mut self, what: &'static str) -> Result<u64, FrameError> {
        Ok(u64::from_be_bytes(self.chunk(what)?) & POSITION_MAX)
    }

    fn version(&mut self) -> Result<(u16, u16), FrameError> {
        let [a, b, c, d] = self.chunk("version")?;
        Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    fn token(&mut self) -> Result<&'a [u8], FrameError> {
        let len = u16::from_be_bytes(self.chunk("token")?);
        self.bytes(usize::from(len), "token")
    }

    fn mime(&mut self, what: &'static str) -> Result<&'a [u8], FrameError> {
        let [len] = self.chunk(what)?;
        self.bytes(usize::from(len), what)
    }

    /// Metadata with its length, if there is any, and the rest.
    #[inline]
    fn payload(&mut self, header: Header) -> Result<Payload<'a>, FrameError> {
        if !header.has(flag::METADATA) {
            return Ok(Payload { metadata: None, data: self.0 });
        }
        let [a, b, c] = self.chunk("metadata length")?;
        let declared = u32::from_be_bytes([0, a, b, c]) as usize;
        let there = self.0.len();
        let (metadata, data) = self
            .0
            .split_at_checked(declared)
            .ok_or(FrameError::MetadataLength { declared, there })?;
        Ok(Payload { metadata: Some(metadata), data })
    }
}
