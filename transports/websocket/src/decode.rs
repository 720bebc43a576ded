//! The decoder: a connection's bytes in, messages and control frames out.
//!
//! Relies on the caller to drop `consumed` bytes between calls and to answer what the events ask
//! for (pong, close). Invariants: at most one frame is unmasked per event and only once it is
//! whole, so a call that answers `Incomplete` may be repeated with more bytes; memory is held
//! only while a fragmented message is in progress.
//!
//! ```text
//!            data, FIN                     fragment, not FIN
//!           ┌────────┐                        ┌────────┐
//!           │        ▼    first fragment      │        ▼
//!           └──── Between ───────────────▶ Assembling ─┘
//!                   │   ◀───────────────────  │
//!                   │      last fragment      │
//!                   └──────▶ Ended ◀──────────┘
//!                  close frame or any CloseError
//! ```
//!
//! Ping and pong pass in both live states; in `Ended` everything is discarded (section 1.4).

use crate::assembly::Assembly;
use crate::close::{CloseError, close_code_valid};
use crate::frame::{FrameHeader, HeaderParse, MessageKind, Opcode, Role};
use crate::limits::Limits;
use crate::mask::mask;
use crate::parts::{OpenMessage, PART_BYTES_MIN};

/// Per-connection decoding state: 16 bytes, without heap unless a fragmented message is open.
#[derive(Debug)]
pub struct Decoder {
    open: Option<Box<Open>>,
    control_run: u16,
    role: Role,
    ended: bool,
}

/// A message that has begun and is not whole.
#[derive(Debug)]
enum Open {
    /// It is kept until it is.
    Kept(Assembly),
    /// It is passed on as it comes.
    PassedOn(OpenMessage),
}

const _: () = assert!(size_of::<Decoder>() <= 24, "ten million idle connections carry one each");

/// The outcome of one call.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Bytes of the input the caller must drop before the next call. May be greater than zero
    /// with [`Event::Incomplete`], when fragments went into the reassembly buffer.
    pub consumed: usize,
    /// What the bytes meant.
    pub event: Event<'a>,
}

/// What a peer said.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing more to say until there are `need` bytes, counted from the first byte not
    /// consumed. Never more than a header plus `message_bytes_max`; do not allocate it up front.
    Incomplete {
        /// Bytes of unconsumed input necessary before a further call can make progress.
        need: usize,
    },
    /// A whole message in one frame, unmasked in place.
    Message {
        /// Text (already checked to be UTF-8) or binary.
        kind: MessageKind,
        /// The payload, borrowed from the input.
        payload: &'a [u8],
    },
    /// A whole message that came in several frames.
    Reassembled {
        /// Text (already checked to be UTF-8) or binary.
        kind: MessageKind,
        /// The payload, owned.
        payload: Vec<u8>,
    },
    /// A part of a message that is not whole, unmasked in place; only from [`Decoder::decode_parts`].
    Part(&'a [u8]),
    /// A ping; answer with a pong of the same payload (section 5.5.2).
    Ping(&'a [u8]),
    /// A pong; nothing to answer (section 5.5.3).
    Pong(&'a [u8]),
    /// The peer closes; answer with a close frame and close (section 5.5.1). Later input is
    /// discarded.
    Close {
        /// The peer's status code, if it gave one; always a valid one.
        code: Option<u16>,
        /// The peer's reason, often empty.
        reason: &'a str,
    },
}

impl Decoder {
    /// A decoder for the given end of the connection.
    #[must_use]
    pub const fn new(role: Role) -> Self {
        Self { open: None, control_run: 0, role, ended: false }
    }

    /// Whether a fragmented message is open: the connection then holds memory, so the caller
    /// should bound how long it stays so.
    #[must_use]
    pub fn is_assembling(&self) -> bool {
        self.assembly().is_some()
    }

    fn assembly(&self) -> Option<&Assembly> {
        match self.open.as_deref()? {
            Open::Kept(assembly) => Some(assembly),
            Open::PassedOn(_) => None,
        }
    }

    fn passed_on(&self) -> Option<&OpenMessage> {
        match self.open.as_deref()? {
            Open::PassedOn(open) => Some(open),
            Open::Kept(_) => None,
        }
    }

    /// Whether a close frame or an error has ended the reading side.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes of heap held for the fragmented message in progress, without allocator overhead:
    /// at most twice the bytes received for it and a hundred more.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.assembly().map_or(0, |assembly| size_of::<Assembly>() + assembly.capacity())
    }

    /// Decodes up to the next event.
    ///
    /// `input` holds every byte received and not yet consumed. Whole frames are unmasked in
    /// place; a frame that is not whole is left untouched.
    ///
    /// # Errors
    ///
    /// A [`CloseError`] when the peer broke a rule of RFC 6455 or a limit. The decoder is then
    /// ended and discards whatever follows.
    #[inline]
    pub fn decode<'a>(
        &mut self,
        limits: &Limits,
        input: &'a mut [u8],
    ) -> Result<Decoded<'a>, CloseError> {
        if self.ended {
            return Ok(Decoded { consumed: input.len(), event: Event::Incomplete { need: 1 } });
        }
        let outcome = self.decode_frames(limits, input);
        if outcome.is_err() {
            self.end();
        }
        outcome
    }

    /// The same for who wants the payload as a stream of bytes: a message that is large or comes in several frames is not
    /// kept until it is whole, but passed on as [`Event::Part`]. A message may have `bytes_max` bytes, whatever
    /// `limits` say, and any number of frames.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`].
    pub fn decode_parts<'a>(
        &mut self,
        limits: &Limits,
        bytes_max: usize,
        input: &'a mut [u8],
    ) -> Result<Decoded<'a>, CloseError> {
        if self.ended || self.is_assembling() {
            // What was begun as a whole ends as a whole.
            return self.decode(limits, input);
        }
        let outcome = self.decode_open(limits, bytes_max, input);
        if outcome.is_err() {
            self.end();
        }
        outcome
    }

    fn decode_open<'a>(
        &mut self,
        limits: &Limits,
        bytes_max: usize,
        input: &'a mut [u8],
    ) -> Result<Decoded<'a>, CloseError> {
        let mut rest = input;
        let mut consumed = 0;
        loop {
            if let Some(Open::PassedOn(open)) = self.open.as_deref_mut()
                && open.is_amid_frame()
            {
                let left = open.left().min(rest.len());
                if left == 0 {
                    return Ok(Decoded { consumed, event: Event::Incomplete { need: 1 } });
                }
                let (payload, _) = rest.split_at_mut_checked(left).unwrap_or_default();
                open.take(payload)?;
                self.control_run = 0;
                if open.is_over() {
                    self.open = None;
                }
                return Ok(Decoded { consumed: consumed + left, event: Event::Part(payload) });
            }
            let header = match FrameHeader::parse(rest, self.role)? {
                HeaderParse::Complete(header) => header,
                HeaderParse::Incomplete { need } => {
                    return Ok(Decoded { consumed, event: Event::Incomplete { need } });
                }
            };
            let payload_len = self.admit_part(bytes_max, &header)?;
            let need = header.header_len.saturating_add(payload_len);
            let is_whole = rest.len() >= need;
            let is_small = header.opcode.is_control() || payload_len < PART_BYTES_MIN;
            if is_small && !is_whole {
                return Ok(Decoded { consumed, event: Event::Incomplete { need } });
            }
            let is_alone = header.fin && self.open.is_none();
            if header.opcode.is_control() || is_whole && is_alone {
                let (frame, tail) = rest.split_at_mut_checked(need).unwrap_or_default();
                let payload = frame.get_mut(header.header_len..).unwrap_or_default();
                if let Some(key) = header.mask {
                    mask(payload, key);
                }
                consumed += need;
                match self.accept(limits, &header, payload, tail.is_empty())? {
                    Some(event) => return Ok(Decoded { consumed, event }),
                    None => rest = tail,
                }
                continue;
            }
            let kind =
                if header.opcode == Opcode::Text { MessageKind::Text } else { MessageKind::Binary };
            let begin = || Box::new(Open::PassedOn(OpenMessage::new(kind)));
            if let Open::PassedOn(open) = &mut **self.open.get_or_insert_with(begin) {
                open.begin_frame(limits, &header, payload_len)?;
                if open.is_over() {
                    self.open = None;
                }
            }
            consumed += header.header_len;
            rest = rest.get_mut(header.header_len..).unwrap_or_default();
        }
    }

    /// Judges a frame by its header alone, where messages are passed on in parts.
    fn admit_part(&self, bytes_max: usize, header: &FrameHeader) -> Result<usize, CloseError> {
        let before = match (header.opcode, self.passed_on()) {
            (Opcode::Continuation, None) => return Err(CloseError::ContinuationUnexpected),
            (Opcode::Text | Opcode::Binary, Some(_)) => return Err(CloseError::MessageInterleaved),
            (_, open) => open.map_or(0, OpenMessage::total),
        };
        let len = usize::try_from(header.payload_len).map_err(|_| CloseError::MessageTooBig)?;
        if !header.opcode.is_control() && len > bytes_max.saturating_sub(before) {
            return Err(CloseError::MessageTooBig);
        }
        Ok(len)
    }

    /// Takes frames until one makes an event; fragments before the last make none.
    fn decode_frames<'a>(
        &mut self,
        limits: &Limits,
        input: &'a mut [u8],
    ) -> Result<Decoded<'a>, CloseError> {
        let mut rest = input;
        let mut consumed = 0;
        loop {
            let header = match FrameHeader::parse(rest, self.role)? {
                HeaderParse::Complete(header) => header,
                HeaderParse::Incomplete { need } => {
                    return Ok(Decoded { consumed, event: Event::Incomplete { need } });
                }
            };
            let need = header.header_len.saturating_add(self.admit(limits, &header)?);
            // The slice is taken out so that the event may keep borrowing it for `'a`.
            let Some((frame, tail)) = std::mem::take(&mut rest).split_at_mut_checked(need) else {
                return Ok(Decoded { consumed, event: Event::Incomplete { need } });
            };
            let payload = frame.get_mut(header.header_len..).unwrap_or_default();
            if let Some(key) = header.mask {
                mask(payload, key);
            }
            consumed += need;
            if let Some(event) = self.accept(limits, &header, payload, tail.is_empty())? {
                return Ok(Decoded { consumed, event });
            }
            rest = tail;
        }
    }

    /// Judges a header against the state, before its payload has arrived, and returns the
    /// payload's length. Changes nothing, so it may run again for the same frame.
    #[inline]
    fn admit(&self, limits: &Limits, header: &FrameHeader) -> Result<usize, CloseError> {
        let held = match (header.opcode, self.assembly()) {
            (Opcode::Continuation, None) => return Err(CloseError::ContinuationUnexpected),
            (Opcode::Text | Opcode::Binary, Some(_)) => return Err(CloseError::MessageInterleaved),
            (Opcode::Continuation, Some(assembly)) => assembly.len(),
            _ => 0,
        };
        let payload_len =
            usize::try_from(header.payload_len).map_err(|_| CloseError::MessageTooBig)?;
        let allowed = limits.message_bytes_max.saturating_sub(held);
        if payload_len > allowed && !header.opcode.is_control() {
            return Err(CloseError::MessageTooBig);
        }
        Ok(payload_len)
    }

    /// Handles one whole, unmasked frame.
    #[inline]
    fn accept<'a>(
        &mut self,
        limits: &Limits,
        header: &FrameHeader,
        payload: &'a [u8],
        drained: bool,
    ) -> Result<Option<Event<'a>>, CloseError> {
        match header.opcode {
            Opcode::Text if header.fin => {
                self.control_run = 0;
                if simdutf8::basic::from_utf8(payload).is_err() {
                    return Err(CloseError::TextNotUtf8);
                }
                Ok(Some(Event::Message { kind: MessageKind::Text, payload }))
            }
            Opcode::Binary if header.fin => {
                self.control_run = 0;
                Ok(Some(Event::Message { kind: MessageKind::Binary, payload }))
            }
            Opcode::Text => self.accept_first(limits, MessageKind::Text, payload),
            Opcode::Binary => self.accept_first(limits, MessageKind::Binary, payload),
            Opcode::Continuation => self.accept_continuation(limits, header.fin, payload),
            Opcode::Close | Opcode::Ping | Opcode::Pong => {
                self.accept_control(limits, header.opcode, payload, drained).map(Some)
            }
        }
    }

    fn accept_first<'a>(
        &mut self,
        limits: &Limits,
        kind: MessageKind,
        payload: &[u8],
    ) -> Result<Option<Event<'a>>, CloseError> {
        let mut assembly = Assembly::new(kind);
        assembly.push(limits, payload)?;
        self.open = Some(Box::new(Open::Kept(assembly)));
        if !payload.is_empty() {
            self.control_run = 0;
        }
        Ok(None)
    }

    fn accept_continuation<'a>(
        &mut self,
        limits: &Limits,
        fin: bool,
        payload: &[u8],
    ) -> Result<Option<Event<'a>>, CloseError> {
        let Some(Open::Kept(assembly)) = self.open.as_deref_mut() else {
            return Err(CloseError::ContinuationUnexpected);
        };
        assembly.push(limits, payload)?;
        if !payload.is_empty() {
            self.control_run = 0;
        }
        if fin && let Some(open) = self.open.take() {
            let Open::Kept(assembly) = *open else { return Ok(None) };
            let (kind, payload) = assembly.finish()?;
            return Ok(Some(Event::Reassembled { kind, payload }));
        }
        Ok(None)
    }

    fn accept_control<'a>(
        &mut self,
        limits: &Limits,
        opcode: Opcode,
        payload: &'a [u8],
        drained: bool,
    ) -> Result<Event<'a>, CloseError> {
        self.control_run = self.control_run.saturating_add(1);
        if self.control_run > limits.control_run_max {
            return Err(CloseError::ControlFlood);
        }
        if drained {
            self.control_run = 0;
        }
        match opcode {
            Opcode::Ping => Ok(Event::Ping(payload)),
            Opcode::Pong => Ok(Event::Pong(payload)),
            _ => {
                let event = parse_close(payload)?;
                self.end();
                Ok(event)
            }
        }
    }

    /// Stops reading and gives the memory back.
    fn end(&mut self) {
        self.ended = true;
        self.open = None;
    }
}

/// The body of a close frame (section 5.5.1).
fn parse_close(payload: &[u8]) -> Result<Event<'_>, CloseError> {
    if payload.is_empty() {
        return Ok(Event::Close { code: None, reason: "" });
    }
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return Err(CloseError::ClosePayloadTruncated);
    };
    let code = u16::from_be_bytes(*code);
    if !close_code_valid(code) {
        return Err(CloseError::CloseCodeInvalid);
    }
    let reason = simdutf8::basic::from_utf8(reason).map_err(|_| CloseError::TextNotUtf8)?;
    Ok(Event::Close { code: Some(code), reason })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_decoder_is_sixteen_bytes_and_holds_no_heap() {
        assert_eq!(size_of::<Decoder>(), 16);
        assert_eq!(Decoder::new(Role::Server).heap_bytes(), 0);
    }

    #[test]
    fn an_incomplete_frame_is_left_untouched() {
        let whole = [0x81, 0x83, 1, 2, 3, 4, b'a' ^ 1, b'b' ^ 2, b'c' ^ 3];
        for cut in 0..whole.len() {
            let mut decoder = Decoder::new(Role::Server);
            let mut input = whole[..cut].to_vec();
            let need = match cut {
                0 | 1 => 2,
                2..6 => 6,
                _ => 9,
            };
            for _ in 0..2 {
                let decoded = decoder.decode(&Limits::default(), &mut input).unwrap();
                assert_eq!(decoded, Decoded { consumed: 0, event: Event::Incomplete { need } });
            }
            assert_eq!(input, &whole[..cut]);
        }
    }

    #[test]
    fn memory_is_given_back_when_the_message_ends() {
        let limits = Limits::default();
        let mut decoder = Decoder::new(Role::Client);
        decoder.decode(&limits, &mut [0x01, 1, b'a']).unwrap();
        assert!(decoder.is_assembling() && decoder.heap_bytes() > 0);
        let mut last = [0x80, 1, b'b'];
        let decoded = decoder.decode(&limits, &mut last).unwrap();
        assert_eq!(
            decoded.event,
            Event::Reassembled { kind: MessageKind::Text, payload: b"ab".to_vec() }
        );
        assert_eq!(decoder.heap_bytes(), 0);
    }
}
