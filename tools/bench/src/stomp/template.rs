//! A pre-encoded batch of SEND frames whose variable digits are patched in place.
//!
//! Every frame of a batch has the same length, because sequence, time and receipt have a fixed
//! width. Relies on [`crate::body`]. Invariant: after stamping `count` messages, the first
//! `count` frames are exactly what would have been formatted one by one.

use crate::body::{self, HEAD_BYTES};
use crate::stomp::websocket;

/// What all messages of one producer have in common.
#[derive(Debug, Clone)]
pub struct SendSpec {
    /// The `destination` header.
    pub destination: String,
    /// Body bytes, at least [`HEAD_BYTES`].
    pub size: usize,
    /// A further header line `name:value`.
    pub header: Option<String>,
    /// Whether each frame asks for a receipt.
    pub receipts: bool,
    /// Each message has a header `pick`, which is `1` in one of so many and `0` in the others.
    pub pick_every: Option<u64>,
    /// Whether each frame travels in a masked WebSocket message of its own.
    pub websocket: bool,
    /// Run and producer numbers for the body.
    pub run: u16,
    /// See `run`.
    pub producer: u16,
}

/// A batch of SEND frames.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The frames as STOMP sees them.
    plain: Vec<u8>,
    plain_bytes: usize,
    body_at: usize,
    receipt_at: Option<usize>,
    /// Where the value of `pick` stands, and in one of how many messages it is set.
    pick: Option<(usize, u64)>,
    /// The same, framed and masked, for WebSocket.
    masked: Option<Vec<u8>>,
}

impl Batch {
    /// As many frames as fit `batch_bytes`, at least one.
    pub fn new(spec: &SendSpec, batch_bytes: usize) -> Self {
        let size = spec.size.max(HEAD_BYTES);
        let mut frame = format!("SEND\ndestination:{}\n", spec.destination).into_bytes();
        if let Some(header) = &spec.header {
            frame.extend_from_slice(header.as_bytes());
            frame.push(b'\n');
        }
        let receipt_at = spec.receipts.then(|| {
            frame.extend_from_slice(b"receipt:");
            let at = frame.len();
            frame.extend_from_slice(&[b'0'; RECEIPT_DIGITS]);
            frame.push(b'\n');
            at
        });
        let pick = spec.pick_every.map(|every| {
            frame.extend_from_slice(b"pick:");
            let at = frame.len();
            frame.extend_from_slice(b"0\n");
            (at, every.max(1))
        });
        frame.extend_from_slice(format!("content-length:{size}\n\n").as_bytes());
        let body_at = frame.len();
        frame.extend_from_slice(&body::tag(spec.run, spec.producer));
        frame.extend(
            (frame.len() - body_at..size).map(|at| b'a' + u8::try_from(at % 26).unwrap_or(0)),
        );
        frame.push(0);
        let count = (batch_bytes / frame.len()).max(1);
        Self {
            plain: frame.repeat(count),
            plain_bytes: frame.len(),
            body_at,
            receipt_at,
            pick,
            masked: spec.websocket.then(Vec::new),
        }
    }

    /// Messages a full batch holds.
    pub fn count_max(&self) -> usize {
        self.plain.len() / self.plain_bytes
    }

    /// Bytes of one message on the wire.
    pub fn wire_frame_bytes(&self) -> usize {
        match self.masked {
            Some(_) => websocket::client_header_bytes(self.plain_bytes) + self.plain_bytes,
            None => self.plain_bytes,
        }
    }

    /// Stamps the first `count` messages with consecutive numbers and one time.
    #[inline]
    pub fn stamp_at(&mut self, count: usize, first_sequence: u64, time_ns: u64) {
        let time = body::digits(time_ns);
        self.stamp(count, first_sequence, |_| time);
    }

    /// Stamps the first `count` messages with consecutive numbers, each with its own time.
    pub fn stamp_each(&mut self, count: usize, first_sequence: u64, due_ns: impl Fn(u64) -> u64) {
        self.stamp(count, first_sequence, |sequence| body::digits(due_ns(sequence)));
    }

    #[inline]
    fn stamp(&mut self, count: usize, first_sequence: u64, time: impl Fn(u64) -> [u8; 8]) {
        let frames = self.plain.chunks_exact_mut(self.plain_bytes).take(count);
        for (frame, sequence) in frames.zip(first_sequence..) {
            if let Some(at) = self.receipt_at {
                write_receipt(frame.get_mut(at..).unwrap_or_default(), sequence);
            }
            if let Some((at, every)) = self.pick
                && let Some(digit) = frame.get_mut(at)
            {
                *digit = b'0' + u8::from(sequence.is_multiple_of(every));
            }
            let Some(head) = frame.get_mut(self.body_at..).and_then(<[u8]>::first_chunk_mut) else {
                continue;
            };
            body::stamp(head, sequence, time(sequence));
        }
        if let Some(masked) = &mut self.masked {
            masked.clear();
            for (frame, sequence) in
                self.plain.chunks_exact(self.plain_bytes).take(count).zip(first_sequence..)
            {
                websocket::append_text(masked, frame, websocket::mask_for(sequence));
            }
        }
    }

    /// The first `count` messages as they go on the wire.
    pub fn wire(&self, count: usize) -> &[u8] {
        let bytes = self.masked.as_ref().unwrap_or(&self.plain);
        bytes.get(..count * self.wire_frame_bytes()).unwrap_or(bytes)
    }
}

/// The sequence number in a receipt-id written by a batch.
pub fn receipt_sequence(id: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()
}

fn write_receipt(digits: &mut [u8], sequence: u64) {
    for (at, digit) in digits.iter_mut().take(RECEIPT_DIGITS).enumerate() {
        let nibble = (sequence >> (4 * (RECEIPT_DIGITS - 1 - at))) & 0xF;
        *digit = HEXADECIMAL[usize::try_from(nibble).unwrap_or(0)];
    }
}

/// 48 bits, as in the body.
const RECEIPT_DIGITS: usize = 12;
const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn spec() -> SendSpec {
        SendSpec {
            destination: "/topic/a".into(),
            size: 24,
            header: Some("persistent:true".into()),
            receipts: true,
            pick_every: None,
            websocket: false,
            run: 5,
            producer: 3,
        }
    }

    fn formatted(sequence: u64, time_ns: u64) -> Vec<u8> {
        let mut frame = format!(
            "SEND\ndestination:/topic/a\npersistent:true\nreceipt:{sequence:012x}\ncontent-length:24\n\n"
        )
        .into_bytes();
        frame.extend_from_slice(&body::tag(5, 3));
        frame.extend_from_slice(&body::digits(sequence));
        frame.extend_from_slice(&body::digits(time_ns));
        frame.extend_from_slice(b"uvwx\0");
        frame
    }

    #[test]
    fn stamping_equals_formatting() {
        let mut batch = Batch::new(&spec(), 1000);
        batch.stamp_at(3, 4_294_967_295, 77);
        let expected: Vec<u8> =
            (0..3).flat_map(|index| formatted(4_294_967_295 + index, 77)).collect();
        assert_eq!(batch.wire(3), expected);
        batch.stamp_each(2, 9, |sequence| sequence * 1000);
        assert_eq!(batch.wire(2), [formatted(9, 9000), formatted(10, 10_000)].concat());
    }

    #[test]
    fn one_in_so_many_is_picked() {
        let mut batch = Batch::new(&SendSpec { pick_every: Some(3), ..spec() }, 2000);
        batch.stamp_at(4, 5, 77);
        let text = String::from_utf8(batch.wire(4).to_vec()).unwrap();
        let picks: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("pick:")).collect();
        assert_eq!(picks, ["0", "1", "0", "0"]);
    }

    #[test]
    fn a_batch_holds_at_least_one_message() {
        let batch = Batch::new(&SendSpec { size: 100_000, ..spec() }, 10);
        assert_eq!(batch.count_max(), 1);
        assert_eq!(batch.wire(1).len(), batch.wire_frame_bytes());
    }

    #[test]
    fn websocket_batches_unmask_to_the_plain_ones() {
        let mut plain = Batch::new(&spec(), 1000);
        let mut masked = Batch::new(&SendSpec { websocket: true, ..spec() }, 1000);
        plain.stamp_at(2, 1, 2);
        masked.stamp_at(2, 1, 2);
        let unmasked: Vec<u8> = masked
            .wire(2)
            .chunks(masked.wire_frame_bytes())
            .flat_map(|message| {
                let header = websocket::client_header_bytes(plain.wire_frame_bytes());
                let (head, payload) = message.split_at(header);
                let mask = &head[header - 4..];
                payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(unmasked, plain.wire(2));
    }

    #[test]
    fn receipts_read_back() {
        assert_eq!(receipt_sequence(b"0000000000ff"), Some(255));
        assert_eq!(receipt_sequence(b"bye"), None);
    }
}
