//! A chunked body (RFC 9112 section 7.1), decoded as it arrives.
//!
//! Relies on the caller to drop what was consumed. Invariants: data is handed out as slices of
//! the input, never copied; each framing byte is judged once; sizes, extensions and trailers are
//! bounded before they are believed.
//!
//! ```text
//! Size ─▶ SizeMore ─┬─▶ Blank ─▶ Extension ─┐
//!   ▲               └───────────┬───────────┘
//!   │                        SizeEnd
//!   │        size > 0 ┌─────────┴─────────┐ size = 0
//!   └─ DataLf ◀─ DataCr ◀─ Data           └─▶ Line ⇄ Name ─▶ Value ─▶ ValueEnd ─▶ Line
//!                                              └─▶ LastLf ─▶ Done
//! ```

use crate::error::HttpError;
use crate::fields::{is_token_byte, is_value_byte};
use crate::limits::Limits;

/// Where in a chunked body the input stands.
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    /// Of the chunk in progress, bytes of data still to come.
    chunk_remaining: u64,
    /// Data bytes of the body so far, including those announced by the chunk in progress.
    body_bytes: u64,
    extension_bytes: u32,
    trailer_bytes: u32,
    size_digits: u8,
    state: State,
}

/// The outcome of one call.
#[derive(Debug, PartialEq, Eq)]
pub struct DecodedChunk<'a> {
    /// Bytes of the input the caller must drop before the next call.
    pub consumed: usize,
    /// What they meant.
    pub event: ChunkEvent<'a>,
}

/// What a chunked body says.
#[derive(Debug, PartialEq, Eq)]
pub enum ChunkEvent<'a> {
    /// Some bytes of the body, never none; a chunk may come in several.
    Data(&'a [u8]),
    /// The body and its trailers are over; trailers are checked and discarded.
    End,
    /// All input is consumed and more is necessary.
    Incomplete,
}

impl ChunkedDecoder {
    /// Decodes up to the next event.
    ///
    /// # Errors
    ///
    /// An [`HttpError`] when the body is malformed or exceeds a limit; the decoder then refuses
    /// everything.
    pub fn decode<'a>(
        &mut self,
        limits: &Limits,
        input: &'a [u8],
    ) -> Result<DecodedChunk<'a>, HttpError> {
        let mut consumed = 0;
        while let Some(rest) = input.get(consumed..) {
            if self.state == State::Done {
                return Ok(DecodedChunk { consumed, event: ChunkEvent::End });
            }
            let Some(&byte) = rest.first() else {
                break;
            };
            if self.state == State::Data {
                let data = self.take_data(rest);
                consumed += data.len();
                return Ok(DecodedChunk { consumed, event: ChunkEvent::Data(data) });
            }
            self.state = self.step(limits, byte).inspect_err(|_| self.state = State::Failed)?;
            consumed += 1;
        }
        Ok(DecodedChunk { consumed, event: ChunkEvent::Incomplete })
    }

    /// Data bytes announced so far.
    #[must_use]
    pub const fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn take_data<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let len = usize::try_from(self.chunk_remaining).unwrap_or(usize::MAX);
        let data = input.get(..len).unwrap_or(input);
        self.chunk_remaining -= data.len() as u64;
        if self.chunk_remaining == 0 {
            self.state = State::DataCr;
        }
        data
    }

    /// One framing byte.
    fn step(&mut self, limits: &Limits, byte: u8) -> Result<State, HttpError> {
        match (self.state, byte) {
            (State::Size, _) => {
                (self.chunk_remaining, self.size_digits) = (0, 0);
                self.size_digit(byte)
            }
            (State::SizeMore, b'\r') => Ok(State::SizeEnd),
            (State::SizeMore | State::Blank, b';' | b' ' | b'\t')
            | (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => self.extension_byte(limits, byte),
            (State::SizeMore, _) => self.size_digit(byte),
            (State::Extension, b'\r') => Ok(State::SizeEnd),
            (State::SizeEnd, b'\n') => self.begin_chunk(limits),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size),
            (State::Line, b'\r') => Ok(State::LastLf),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::Line | State::Name | State::Value | State::ValueEnd, _) => {
                self.trailer_byte(limits, byte)
            }
            _ => Err(HttpError::ChunkInvalid),
        }
    }

    fn size_digit(&mut self, byte: u8) -> Result<State, HttpError> {
        let digit = char::from(byte).to_digit(16).ok_or(HttpError::ChunkInvalid)?;
        self.size_digits += 1;
        // Sixteen digits fill 64 bits; more would overflow or are zeros to no purpose.
        if self.size_digits > 16 {
            return Err(HttpError::ChunkInvalid);
        }
        self.chunk_remaining = (self.chunk_remaining << 4) | u64::from(digit);
        Ok(State::SizeMore)
    }

    /// Blanks may stand before the semicolon, and nothing else may (RFC 9112 section 7.1.1).
    fn extension_byte(&mut self, limits: &Limits, byte: u8) -> Result<State, HttpError> {
        self.extension_bytes = self.extension_bytes.saturating_add(1);
        if self.extension_bytes as usize > limits.chunk_extension_bytes_max {
            return Err(HttpError::ChunkExtensionTooLong);
        }
        let extension = self.state == State::Extension || byte == b';';
        Ok(if extension { State::Extension } else { State::Blank })
    }

    /// The size line is over: the chunk is admitted before any of it arrives.
    fn begin_chunk(&mut self, limits: &Limits) -> Result<State, HttpError> {
        if self.chunk_remaining == 0 {
            return Ok(State::Line);
        }
        self.body_bytes = self.body_bytes.saturating_add(self.chunk_remaining);
        if self.body_bytes > limits.body_bytes_max {
            return Err(HttpError::BodyTooLarge);
        }
        Ok(State::Data)
    }

    fn trailer_byte(&mut self, limits: &Limits, byte: u8) -> Result<State, HttpError> {
        self.trailer_bytes = self.trailer_bytes.saturating_add(1);
        if self.trailer_bytes as usize > limits.trailer_bytes_max {
            return Err(HttpError::TrailerTooLarge);
        }
        match (self.state, byte) {
            (State::Line | State::Name, _) if is_token_byte(byte) => Ok(State::Name),
            (State::Name, b':') => Ok(State::Value),
            (State::Value, b'\r') => Ok(State::ValueEnd),
            (State::Value, _) if is_value_byte(byte) => Ok(State::Value),
            (State::ValueEnd, b'\n') => Ok(State::Line),
            _ => Err(HttpError::HeaderInvalid),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first digit of a chunk's size.
    #[default]
    Size,
    SizeMore,
    /// Blanks after the size; a semicolon must follow.
    Blank,
    Extension,
    /// LF is due after the size line's CR.
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a trailer line or of the last, empty line.
    Line,
    Name,
    Value,
    ValueEnd,
    LastLf,
    Done,
    Failed,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn decode(limits: &Limits, mut input: &[u8]) -> Result<(Vec<u8>, bool, usize), HttpError> {
        let (mut decoder, mut body, mut used) = (ChunkedDecoder::default(), Vec::new(), 0);
        loop {
            let decoded = decoder.decode(limits, input)?;
            used += decoded.consumed;
            input = &input[decoded.consumed..];
            match decoded.event {
                ChunkEvent::Data(data) => body.extend_from_slice(data),
                ChunkEvent::End => return Ok((body, true, used)),
                ChunkEvent::Incomplete => return Ok((body, false, used)),
            }
        }
    }

    /// RFC 9112 section 7.1: chunks, extensions, trailers, the last chunk.
    #[test]
    fn a_body_with_everything_ends_where_it_ends() {
        let input = b"5;a=\"b c\"\r\nhello\r\n00A ; x\r\n, worlds!!\r\n0\r\nX: y\r\nZ:\r\n\r\nGET";
        let (body, ended, used) = decode(&Limits::default(), input).unwrap();
        assert_eq!((body.as_slice(), ended), (&b"hello, worlds!!"[..], true));
        assert_eq!(&input[used..], b"GET");
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let invalid = HttpError::ChunkInvalid;
        for (input, error) in [
            (&b"\r\n"[..], invalid),
            (b"g\r\n", invalid),
            (b"-1\r\n", invalid),
            (b"+1\r\n", invalid),
            (b"0x1\r\n", invalid),
            (b" 1\r\n", invalid),
            (b"1 \r\n", invalid),
            (b"1 2\r\n", invalid),
            (b"1\n", invalid),
            (b"1\rX", invalid),
            (b"1;a\nb", invalid),
            (b"1;a\x00", invalid),
            (b"1\r\nab", invalid),
            (b"1\r\na\n", invalid),
            (b"1\r\na\r\r", invalid),
            (b"00000000000000001\r\n", invalid),
            (b"fffffffffffffffff\r\n", invalid),
            (b"0\r\n\n", HttpError::HeaderInvalid),
            (b"0\r\n\rX", invalid),
            (b"0\r\n: v\r\n", HttpError::HeaderInvalid),
            (b"0\r\nname\r\n", HttpError::HeaderInvalid),
            (b"0\r\nname : v\r\n", HttpError::HeaderInvalid),
            (b"0\r\n folded\r\n", HttpError::HeaderInvalid),
            (b"0\r\na: b\nc: d\r\n", HttpError::HeaderInvalid),
            (b"ffffffffffffffff\r\n", HttpError::BodyTooLarge),
            (b"100001\r\n", HttpError::BodyTooLarge),
        ] {
            assert_eq!(decode(&Limits::default(), input), Err(error), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn extensions_trailers_and_sums_are_limited() {
        let limits = Limits {
            body_bytes_max: 4,
            chunk_extension_bytes_max: 4,
            trailer_bytes_max: 8,
            ..Limits::default()
        };
        assert!(decode(&limits, b"2;ab\r\nxx\r\n2\r\nxx\r\n0\r\na: b\r\n\r\n").unwrap().1);
        for (input, error) in [
            (&b"2;a\r\nxx\r\n1;ab\r\n"[..], HttpError::ChunkExtensionTooLong),
            (b"2\r\nxx\r\n3\r\n", HttpError::BodyTooLarge),
            (b"0\r\na: b\r\nc:d\r\n\r\n", HttpError::TrailerTooLarge),
        ] {
            assert_eq!(decode(&limits, input), Err(error), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn after_an_error_nothing_is_accepted() {
        let mut decoder = ChunkedDecoder::default();
        assert_eq!(decoder.decode(&Limits::default(), b"?"), Err(HttpError::ChunkInvalid));
        assert_eq!(decoder.decode(&Limits::default(), b"0"), Err(HttpError::ChunkInvalid));
    }
}
