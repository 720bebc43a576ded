//! Fields and the frame around messages: type, length, payload.

use crate::limits::VARINT_BYTES_MAX;
use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Kind, read_varint, write_varint};

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They end too soon.
    #[error("a message ends in the middle of a field")]
    Cut,
    /// A number is larger than its field allows.
    #[error("a number is out of range")]
    OutOfRange,
    /// A text is not UTF-8.
    #[error("a text is not valid UTF-8")]
    BadText,
    /// A bit of `flags` has no meaning.
    #[error("a flag is not known")]
    UnknownFlag,
    /// A value that is not in its list.
    #[error("a field has a value that is not known")]
    UnknownValue,
    /// A block of properties is not in its form.
    #[error("properties must be lines of `name:value`, each with a line break")]
    BadProperties,
}

impl From<CodecError> for Close {
    fn from(error: CodecError) -> Close {
        let code = match error {
            CodecError::BadText => CloseCode::BadText,
            CodecError::BadProperties => CloseCode::BadHeader,
            _ => CloseCode::BadFrame,
        };
        Close::new(code, error.to_string())
    }
}

/// Takes fields from the front of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader(payload)
    }

    /// Whether all has been taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    ///
    /// # Errors
    /// When the bytes end before it. So with all below, besides what they say.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        let (byte, rest) = self.0.split_first().ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// A number.
    ///
    /// # Errors
    /// When it has more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let before = self.0.len();
        read_varint(&mut self.0).ok_or(if before - self.0.len() == VARINT_BYTES_MAX {
            CodecError::OutOfRange
        } else {
            CodecError::Cut
        })
    }

    /// A number of a smaller type.
    ///
    /// # Errors
    /// When it does not fit.
    #[inline]
    pub fn number<N: TryFrom<u64>>(&mut self) -> Result<N, CodecError> {
        N::try_from(self.varint()?).map_err(|_| CodecError::OutOfRange)
    }

    /// Two bytes, the lower first.
    ///
    /// # Errors
    /// See [`Reader::byte`].
    #[inline]
    pub fn short(&mut self) -> Result<u16, CodecError> {
        let (bytes, rest) = self.0.split_first_chunk::<2>().ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(u16::from_le_bytes(*bytes))
    }

    /// A length and so many bytes.
    ///
    /// # Errors
    /// See [`Reader::byte`].
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let len = self.number::<usize>()?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes that are text.
    ///
    /// # Errors
    /// When they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, CodecError> {
        simdutf8::basic::from_utf8(self.bytes()?).map_err(|_| CodecError::BadText)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A count and so many numbers.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn numbers(&mut self) -> Result<Vec<u64>, CodecError> {
        let count = self.number::<usize>()?;
        // Each has a byte at least, so the bytes at hand bound the memory.
        if count > self.0.len() {
            return Err(CodecError::Cut);
        }
        (0..count).map(|_| self.varint()).collect()
    }

    /// A flag of its own byte.
    ///
    /// # Errors
    /// When it is neither 0 nor 1.
    pub fn truth(&mut self) -> Result<bool, CodecError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::UnknownValue),
        }
    }

    /// A kind of destination.
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn destination_kind(&mut self) -> Result<Kind, CodecError> {
        match self.byte()? {
            0 => Ok(Kind::Topic),
            1 => Ok(Kind::Queue),
            2 => Ok(Kind::Service),
            _ => Err(CodecError::UnknownValue),
        }
    }

    /// Flags of one byte.
    ///
    /// # Errors
    /// When others are set than those known.
    #[inline]
    pub fn flags(&mut self, known: u8) -> Result<u8, CodecError> {
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(CodecError::UnknownFlag) }
    }

    /// Flags as a number.
    ///
    /// # Errors
    /// When others are set than those known.
    pub fn wide_flags(&mut self, known: u64) -> Result<u64, CodecError> {
        let flags = self.varint()?;
        if flags & !known == 0 { Ok(flags) } else { Err(CodecError::UnknownFlag) }
    }
}

/// The messages of one transport message: type and payload of each.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Those in these bytes.
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages(bytes)
    }

    /// What has not been taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(u8, &'a [u8]), CodecError>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut reader = Reader(self.0);
        let message = reader.byte().and_then(|kind| Ok((kind, reader.bytes()?)));
        self.0 = if message.is_ok() { reader.0 } else { &[] };
        Some(message)
    }
}

/// Begins a message: its payload is appended next. Give what is returned to [`end_message`].
pub fn begin_message(kind: u8, out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[kind, 0]);
    out.len()
}

/// Ends a message, once its payload is there.
pub fn end_message(start: usize, out: &mut Vec<u8>) {
    let len = out.len().saturating_sub(start);
    if let (0..0x80, Some(place)) = (len, out.get_mut(start.wrapping_sub(1))) {
        *place = len as u8;
        return;
    }
    let mut length = Vec::with_capacity(VARINT_BYTES_MAX);
    write_varint(&mut length, len as u64);
    out.splice(start.saturating_sub(1)..start, length);
}

/// Appends bytes behind their length.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends numbers behind their count.
pub(crate) fn write_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    write_varint(out, numbers.len() as u64);
    for number in numbers {
        write_varint(out, *number);
    }
}

pub(crate) fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Topic => 0,
        Kind::Queue => 1,
        Kind::Service => 2,
    }
}
