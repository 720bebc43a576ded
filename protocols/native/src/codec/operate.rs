//! Operations on topics and what comes of them: JSON text, with values as bytes beside it.

use tiderace_wire::{Replay, write_varint};

use super::{CodecError, QueuedEntries, Reader, flag, write_bytes};

/// OPERATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperateMessage<'a> {
    /// The request.
    pub request: u32,
    /// What is to be done, as JSON text.
    pub operation: &'a str,
    /// The value's bytes, or those of a delta, if they are not in the text.
    pub body: Option<&'a [u8]>,
}

impl<'a> OperateMessage<'a> {
    pub(super) fn read(from: &mut Reader<'a>) -> Result<OperateMessage<'a>, CodecError> {
        let (request, flags) = (from.number()?, from.flags(flag::BODY)?);
        let operation = from.text()?;
        let body = (flags & flag::BODY != 0).then(|| from.rest());
        Ok(OperateMessage { request, operation, body })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.request));
        out.push(if self.body.is_some() { flag::BODY } else { 0 });
        write_bytes(out, self.operation.as_bytes());
        out.extend_from_slice(self.body.unwrap_or_default());
    }
}

/// RESULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultMessage<'a> {
    /// The request that it answers.
    pub request: u32,
    /// What came of it, as JSON text; each `bytes` in it stands for one of the entries.
    pub result: &'a str,
    /// The values' bytes.
    pub entries: &'a [u8],
}

impl<'a> ResultMessage<'a> {
    pub(super) fn read(from: &mut Reader<'a>) -> Result<ResultMessage<'a>, CodecError> {
        Ok(ResultMessage { request: from.number()?, result: from.text()?, entries: from.rest() })
    }

    /// Appends the payload up to the text, of whose bytes there are so many.
    pub fn write_head(request: u32, len: usize, out: &mut Vec<u8>) {
        write_varint(out, u64::from(request));
        write_varint(out, len as u64);
    }

    /// Appends the payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        ResultMessage::write_head(self.request, self.result.len(), out);
        out.extend_from_slice(self.result.as_bytes());
        out.extend_from_slice(self.entries);
    }

    /// The values, in the order in which the text has them.
    pub fn values(&self) -> QueuedEntries<'a> {
        QueuedEntries::new(self.entries)
    }
}

/// Where a replay begins.
pub(super) fn read_replay(from: &mut Reader<'_>) -> Result<Replay, CodecError> {
    Ok(match from.byte()? {
        0 => Replay::Last(from.number()?),
        1 => Replay::Version(from.varint()?),
        2 => Replay::Time(from.varint()?),
        _ => return Err(CodecError::UnknownValue),
    })
}

pub(super) fn write_replay(replay: Replay, out: &mut Vec<u8>) {
    let (kind, number) = match replay {
        Replay::Last(count) => (0, u64::from(count)),
        Replay::Version(version) => (1, version),
        Replay::Time(time) => (2, time),
    };
    out.push(kind);
    write_varint(out, number);
}
