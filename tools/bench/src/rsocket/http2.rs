//! HTTP/2 as much as a client needs that has one stream: a POST whose bodies flow both ways, or an extended
//! CONNECT (RFC 8441).
//!
//! Written apart from the server's on purpose, and so that a payload costs nothing but its copy from the
//! socket: DATA is walked where it was read. Header compression is left alone: requests are literals, and of the
//! answer only the status is looked at, which comes first. Invariant: no more is sent than the server's windows
//! allow; what waits for them waits here.

use std::io;

use crate::clients::carrier::Place;
use crate::clients::counters::broken;

/// How far the one stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It waits for the server's settings.
    Settings,
    /// It waits for the answer.
    Answer,
    /// Bodies flow.
    Open,
}

/// One connection with one stream.
#[derive(Debug)]
pub(super) struct Http2 {
    step: Step,
    /// Whether it asks for a WebSocket.
    connects: bool,
    authority: String,
    path: String,
    /// The beginning of a frame that is looked at as a whole.
    kept: Vec<u8>,
    /// Bytes of DATA to come, and of padding behind them.
    data: usize,
    padding: usize,
    /// Received since the windows were last opened.
    received: usize,
    /// What the server lets us send, in the connection and in the stream.
    windows: [i64; 2],
    /// What a new stream may send at first.
    initial_window: i64,
    frame_bytes_max: usize,
    /// What waits to be sent as DATA.
    pub pending: Vec<u8>,
}

impl Http2 {
    /// A connection; `out` gets what it begins with.
    pub(super) fn new(place: &Place, connects: bool, out: &mut Vec<u8>) -> Http2 {
        out.extend_from_slice(PREFACE);
        let mut settings = Vec::new();
        for (name, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW, WINDOW)] {
            settings.extend_from_slice(&u16::to_be_bytes(name));
            settings.extend_from_slice(&u32::to_be_bytes(value));
        }
        frame(out, SETTINGS, 0, 0, &settings);
        frame(out, WINDOW_UPDATE, 0, 0, &(WINDOW - WINDOW_DEFAULT).to_be_bytes());
        Http2 {
            step: Step::Settings,
            connects,
            authority: place.authority.clone(),
            path: place.path.clone(),
            kept: Vec::new(),
            data: 0,
            padding: 0,
            received: 0,
            windows: [i64::from(WINDOW_DEFAULT); 2],
            initial_window: i64::from(WINDOW_DEFAULT),
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            pending: Vec::new(),
        }
    }

    /// Whether the server has accepted the stream.
    pub(super) fn is_open(&self) -> bool {
        self.step == Step::Open
    }

    /// Goes on with what was read; hands the body to `body`, and answers into `out`.
    pub(super) fn feed(
        &mut self,
        mut piece: &[u8],
        out: &mut Vec<u8>,
        mut body: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !piece.is_empty() {
            if self.data + self.padding > 0 {
                let (data, rest) = piece.split_at(piece.len().min(self.data));
                if !data.is_empty() {
                    body(data)?;
                }
                self.data -= data.len();
                let passed = rest.len().min(self.padding);
                self.padding -= passed;
                piece = rest.get(passed..).unwrap_or_default();
                continue;
            }
            if self.kept.is_empty() && piece.len() >= HEAD_BYTES {
                let taken = self.begin(piece, out)?;
                if taken > 0 {
                    piece = piece.get(taken..).unwrap_or_default();
                    continue;
                }
            }
            // Only the beginning of a frame is here, or one that is looked at as a whole.
            let before = self.kept.len();
            let mut kept = std::mem::take(&mut self.kept);
            let missing = missing(&kept).min(piece.len());
            kept.extend_from_slice(piece.get(..missing).unwrap_or_default());
            let taken = self.begin(&kept, out)?;
            if taken == 0 {
                self.kept = kept;
                piece = piece.get(missing..).unwrap_or_default();
            } else {
                piece = piece.get(taken.saturating_sub(before)..).unwrap_or_default();
                kept.clear();
                self.kept = kept;
            }
        }
        self.reopen(out);
        Ok(())
    }

    /// The frame that begins there: how many bytes of it are done with, none if too little is there.
    fn begin(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let Some(head) = Head::of(bytes) else { return Ok(0) };
        if head.length > FRAME_BYTES_DEFAULT {
            return Err(broken(match self.step {
                // Most likely text: an answer of HTTP/1.1, or of something else altogether.
                Step::Settings => "the server does not speak HTTP/2 without TLS",
                _ => "the server sent an HTTP/2 frame of more than 16 KiB",
            }));
        }
        if head.kind == DATA {
            return self.begin_data(head, bytes);
        }
        let Some(payload) = bytes.get(HEAD_BYTES..HEAD_BYTES + head.length) else { return Ok(0) };
        match head.kind {
            SETTINGS if !head.has(ACK) => self.settings(payload, out)?,
            PING if !head.has(ACK) => frame(out, PING, ACK, 0, payload),
            WINDOW_UPDATE => {
                let more = payload.first_chunk().map_or(0, |four| u32::from_be_bytes(*four));
                if let Some(window) = self.windows.get_mut(usize::from(head.stream != 0)) {
                    *window += i64::from(more & 0x7fff_ffff);
                }
            }
            HEADERS if self.step == Step::Answer => {
                status(head, payload)?;
                self.step = Step::Open;
            }
            RESET => {
                let code = payload.first_chunk().map_or(0, |four| u32::from_be_bytes(*four));
                return Err(broken(&format!(
                    "the server reset the HTTP/2 stream with code {code}"
                )));
            }
            GOAWAY => {
                let code = payload.get(4..).and_then(<[u8]>::first_chunk);
                let code = code.map_or(0, |four| u32::from_be_bytes(*four));
                let text = String::from_utf8_lossy(payload.get(8..).unwrap_or_default());
                return Err(broken(&format!("the server says goodbye with code {code} {text}")));
            }
            _ => {}
        }
        if head.has(END_STREAM) && head.kind == HEADERS {
            return Err(broken("the server ended the HTTP/2 stream"));
        }
        Ok(HEAD_BYTES + head.length)
    }

    fn begin_data(&mut self, head: Head, bytes: &[u8]) -> io::Result<usize> {
        if head.has(END_STREAM) {
            return Err(broken("the server ended the HTTP/2 stream"));
        }
        self.received += head.length;
        if !head.has(PADDED) {
            self.data = head.length;
            return Ok(HEAD_BYTES);
        }
        let Some(padding) = bytes.get(HEAD_BYTES) else {
            self.received -= head.length;
            return Ok(0);
        };
        self.padding = usize::from(*padding);
        let data = head.length.checked_sub(1 + self.padding);
        self.data = data.ok_or_else(|| broken("a DATA frame is all padding"))?;
        Ok(HEAD_BYTES + 1)
    }

    fn settings(&mut self, payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut takes_connect = false;
        for setting in payload.as_chunks::<6>().0 {
            let [a, b, c, d, e, f] = *setting;
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                INITIAL_WINDOW => {
                    let initial = i64::from(value);
                    self.windows[1] += initial - self.initial_window;
                    self.initial_window = initial;
                }
                FRAME_BYTES => self.frame_bytes_max = (value as usize).min(DATA_BYTES_MAX),
                ENABLE_CONNECT => takes_connect = value == 1,
                _ => {}
            }
        }
        frame(out, SETTINGS, ACK, 0, &[]);
        if self.step == Step::Settings {
            if self.connects && !takes_connect {
                return Err(broken(
                    "the server does not take WebSockets over HTTP/2: its settings lack ENABLE_CONNECT_PROTOCOL",
                ));
            }
            let request = self.request();
            frame(out, HEADERS, END_HEADERS, STREAM, &request);
            self.step = Step::Answer;
        }
        Ok(())
    }

    fn request(&self) -> Vec<u8> {
        let mut block = Vec::new();
        if self.connects {
            literal(&mut block, ":method", "CONNECT");
            literal(&mut block, ":protocol", "websocket");
        } else {
            literal(&mut block, ":method", "POST");
        }
        literal(&mut block, ":scheme", "http");
        literal(&mut block, ":path", &self.path);
        literal(&mut block, ":authority", &self.authority);
        if self.connects {
            literal(&mut block, "sec-websocket-version", "13");
        }
        block
    }

    /// Sends what waits, as far as the windows allow.
    pub(super) fn pump(&mut self, out: &mut Vec<u8>) {
        let mut sent = 0;
        while self.step == Step::Open && sent < self.pending.len() {
            let window = self.windows[0].min(self.windows[1]).max(0);
            let window = usize::try_from(window).unwrap_or(usize::MAX);
            let size = window.min(self.frame_bytes_max).min(self.pending.len() - sent);
            if size == 0 {
                break;
            }
            frame(out, DATA, 0, STREAM, self.pending.get(sent..sent + size).unwrap_or_default());
            self.windows = self.windows.map(|window| window - size as i64);
            sent += size;
        }
        self.pending.drain(..sent);
    }

    /// Lets the server send more when half of the windows has been used.
    fn reopen(&mut self, out: &mut Vec<u8>) {
        if self.received >= WINDOW as usize / 2 {
            let more = (self.received as u32).to_be_bytes();
            frame(out, WINDOW_UPDATE, 0, 0, &more);
            frame(out, WINDOW_UPDATE, 0, STREAM, &more);
            self.received = 0;
        }
    }
}

/// How many bytes a frame lacks of which these are the beginning.
fn missing(kept: &[u8]) -> usize {
    match Head::of(kept) {
        None => HEAD_BYTES - kept.len().min(HEAD_BYTES),
        // Of DATA no more than the length of its padding.
        Some(head) if head.kind == DATA => 1,
        Some(head) => (HEAD_BYTES + head.length).saturating_sub(kept.len()),
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Head {
    fn of(bytes: &[u8]) -> Option<Head> {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Head { length, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) })
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a field that is neither compressed nor remembered.
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        // Lengths from 127 on go on in a second byte (RFC 7541, 5.1), as far as 254.
        let length = text.len().min(254);
        match length.checked_sub(127) {
            None => block.push(length as u8),
            Some(rest) => block.extend_from_slice(&[127, rest as u8]),
        }
        block.extend_from_slice(text.as_bytes().get(..length).unwrap_or_default());
    }
}

/// Fails unless the block of fields begins with status 200.
fn status(head: Head, payload: &[u8]) -> io::Result<()> {
    let before = usize::from(head.has(PADDED)) + if head.has(PRIORITY) { 5 } else { 0 };
    let mut block = payload.get(before..).unwrap_or_default();
    // A change of the table's size may stand before the fields.
    while let [0x20..=0x3f, rest @ ..] = block {
        block = match block.first() {
            Some(0x3f) => {
                let end = rest.iter().position(|byte| byte & 0x80 == 0).unwrap_or(rest.len());
                rest.get(end + 1..).unwrap_or_default()
            }
            _ => rest,
        };
    }
    match block {
        // 200 by its number in the table; or in clear, or in Huffman's code, behind the name's number.
        [0x88, ..] | [0x48 | 0x08 | 0x18, 3, b'2', b'0', b'0', ..] => Ok(()),
        [0x48 | 0x08 | 0x18, 0x82, 0x10, 0x01, ..] => Ok(()),
        [number @ 0x89..=0x8e, ..] => {
            let status = [204, 206, 304, 400, 404, 500].get(usize::from(number - 0x89));
            let status = status.copied().unwrap_or(0);
            Err(broken(&format!("the server answered the HTTP/2 request with {status}")))
        }
        [_, 3, text @ ..] if text.len() >= 3 => {
            let status = String::from_utf8_lossy(text.get(..3).unwrap_or_default());
            Err(broken(&format!("the server answered the HTTP/2 request with {status}")))
        }
        _ => Err(broken("the server answered the HTTP/2 request with something other than 200")),
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// The only stream.
const STREAM: u32 = 1;
/// What we let the server send ahead.
const WINDOW: u32 = 16 << 20;
const WINDOW_DEFAULT: u32 = 65_535;
const FRAME_BYTES_DEFAULT: usize = 16_384;
/// Larger frames save nothing.
const DATA_BYTES_MAX: usize = 65_536;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW: u16 = 4;
const FRAME_BYTES: u16 = 5;
const ENABLE_CONNECT: u16 = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn place() -> Place {
        Place { authority: "127.0.0.1:1".into(), path: "/rsocket".into(), subprotocol: None }
    }

    fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
        let mut payload = Vec::new();
        for (name, value) in pairs {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut out = Vec::new();
        frame(&mut out, SETTINGS, 0, 0, &payload);
        out
    }

    /// What a server sends: settings, an answer, a ping and DATA with and without padding.
    fn conversation() -> Vec<u8> {
        let mut wire = settings(&[(ENABLE_CONNECT, 1), (INITIAL_WINDOW, 100_000)]);
        frame(&mut wire, SETTINGS, ACK, 0, &[]);
        frame(&mut wire, HEADERS, END_HEADERS, STREAM, &[0x3f, 0xe1, 0x1f, 0x88, 0x5f, 1, b'x']);
        frame(&mut wire, DATA, 0, STREAM, b"one ");
        frame(&mut wire, PING, 0, 0, &[9; 8]);
        frame(&mut wire, DATA, PADDED, STREAM, b"\x03two 000");
        frame(&mut wire, DATA, 0, STREAM, b"");
        frame(&mut wire, DATA, 0, STREAM, b"three");
        wire
    }

    #[test]
    fn bodies_come_out_however_frames_are_cut() {
        let wire = conversation();
        for connects in [false, true] {
            for size in 1..=wire.len() {
                let (mut out, mut body) = (Vec::new(), Vec::new());
                let mut http2 = Http2::new(&place(), connects, &mut out);
                assert!(out.starts_with(PREFACE));
                for piece in wire.chunks(size) {
                    let hear = |data: &[u8]| {
                        body.extend_from_slice(data);
                        Ok(())
                    };
                    http2.feed(piece, &mut out, hear).unwrap();
                }
                assert_eq!(body, b"one two three", "in pieces of {size}");
                assert!(http2.is_open());
                assert!(out.windows(9).any(|it| it == [0, 0, 8, PING, ACK, 0, 0, 0, 0]));
            }
        }
    }

    #[test]
    fn no_more_is_sent_than_the_windows_allow() {
        let mut out = Vec::new();
        let mut http2 = Http2::new(&place(), false, &mut out);
        http2.pending = vec![7; 200_000];
        http2.pump(&mut out);
        assert_eq!(http2.pending.len(), 200_000, "not before the stream is open");
        http2.feed(&conversation(), &mut out, |_| Ok(())).unwrap();
        http2.pump(&mut out);
        // The connection's window is the smaller one.
        assert_eq!(http2.pending.len(), 200_000 - 65_535);
        let mut more = Vec::new();
        frame(&mut more, WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes());
        http2.feed(&more, &mut out, |_| Ok(())).unwrap();
        http2.pump(&mut out);
        assert_eq!(http2.pending.len(), 100_000, "the stream's window is 100,000");
    }

    #[test]
    fn windows_are_opened_again() {
        let mut out = Vec::new();
        let mut http2 = Http2::new(&place(), false, &mut out);
        http2.feed(&conversation(), &mut out, |_| Ok(())).unwrap();
        out.clear();
        let mut data = Vec::new();
        frame(&mut data, DATA, 0, STREAM, &[0; 16_384]);
        for _ in 0..512 {
            http2.feed(&data, &mut out, |_| Ok(())).unwrap();
        }
        assert_eq!(out.len(), 2 * (HEAD_BYTES + 4));
    }

    #[test]
    fn refusals_are_told() {
        let refused = |wire: &[u8], connects| {
            let mut out = Vec::new();
            let mut http2 = Http2::new(&place(), connects, &mut out);
            http2.feed(wire, &mut out, |_| Ok(())).unwrap_err().to_string()
        };
        assert!(refused(&settings(&[]), true).contains("ENABLE_CONNECT_PROTOCOL"));
        for (block, text) in [
            (&[0x8d][..], "404"),
            (&[0x48, 3, b'5', b'0', b'3'], "503"),
            (&[0x48, 0x82, 0x6c, 0x02], "other than 200"),
        ] {
            let mut wire = settings(&[]);
            frame(&mut wire, HEADERS, END_HEADERS, STREAM, block);
            assert!(refused(&wire, false).contains(text), "{text}");
        }
        assert!(refused(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).contains("not speak HTTP/2"));
        let mut wire = settings(&[]);
        frame(&mut wire, GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11, b'c', b'a', b'l', b'm']);
        assert!(refused(&wire, false).contains("11 calm"));
    }

    #[test]
    fn the_status_may_be_written_in_every_way() {
        let head = Head { length: 0, kind: HEADERS, flags: END_HEADERS, stream: 1 };
        for block in
            [&[0x88][..], &[0x20, 0x88], &[0x48, 3, b'2', b'0', b'0'], &[0x48, 0x82, 0x10, 0x01]]
        {
            assert!(status(head, block).is_ok(), "{block:?}");
        }
        let padded = Head { flags: END_HEADERS | PADDED | PRIORITY, ..head };
        assert!(status(padded, &[0, 0, 0, 0, 0, 0, 0x88]).is_ok());
    }
}
