//! One RSocket connection as a requester has it: its streams, their schedules, what it says and hears.
//!
//! A stream is 20 bytes. In stream mode the server keeps the schedule, and a message's latency is how much later
//! it came than the stream's own beat, which is set by its earliest message. In the other modes the client keeps
//! it, and latency counts from when a message was due if it had to wait for the server, and from when it was sent if it
//! had only to wait for us. Invariant: at most one request of a slot is
//! under way, and nothing is sent beyond the other side's demand.

use std::io;

use super::frame::{
    self, COMPLETE, FOLLOWS, Header, NEXT, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM,
};
use super::load::{Load, Turn};
use super::walk::Hear;
use crate::args::RsocketMode;
use crate::clients::counters::broken;

/// A stream, or a place for one request after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// When its message was or is due, microseconds.
    due_us: u32,
    /// What the latency of the message under way counts from.
    since_us: u32,
    /// Items it may still get before it asks for more.
    left: u32,
    /// Items a channel may send.
    allowed: u32,
    /// Whether it is open.
    is_open: bool,
    /// Whether an answer is awaited, or in stream mode the beat is known.
    is_busy: bool,
    /// Whether a message is due that could not be sent when it was.
    is_late: bool,
}

/// A connection's streams.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Its number in its thread.
    number: u32,
    streams: Vec<Stream>,
    open: usize,
    /// The next id of a request-response.
    next_id: u32,
    /// By id, the place and one of its request that is under way; zero if there is none.
    under_way: Vec<u32>,
    /// The first sentence of a stream that failed.
    complaint: Option<String>,
}

impl Session {
    pub(super) fn new(number: u32) -> Session {
        Session { number, next_id: 1, ..Session::default() }
    }

    /// Streams that are open.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// What a stream failed with since this was last asked.
    pub(super) fn complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    /// Makes room for as many streams.
    pub(super) fn reserve(&mut self, streams: usize, mode: RsocketMode) {
        self.streams.reserve_exact(streams.saturating_sub(self.streams.len()));
        if mode == RsocketMode::RequestResponse {
            // Twice as many, so that an answer that is late is seldom in the way of an id.
            self.under_way.resize((streams * 2).next_power_of_two(), 0);
        }
    }

    /// Opens one more stream.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) {
        let slot = self.streams.len();
        let due_us = turn.now_us();
        self.streams.push(Stream { due_us, since_us: due_us, is_open: true, ..Stream::default() });
        self.open += 1;
        turn.pulse.begun();
        match turn.load.mode {
            RsocketMode::Stream => self.ask(slot, REQUEST_STREAM, turn),
            RsocketMode::Channel => self.ask(slot, REQUEST_CHANNEL, turn),
            RsocketMode::RequestResponse => self.request(slot, turn),
        }
        self.plan(slot, turn);
    }

    /// A stream of the wheel is due.
    pub(super) fn due(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let Some(stream) = self.streams.get_mut(slot).filter(|stream| stream.is_open) else {
            return;
        };
        let is_channel = turn.load.mode == RsocketMode::Channel;
        if stream.is_busy || (is_channel && stream.allowed == 0) {
            // It goes when the answer to the one before comes, or the demand.
            stream.is_late = true;
            return;
        }
        self.next(slot, turn);
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.since_us = turn.now_us();
        }
    }

    /// Sends the message whose turn it is, and plans the one after it.
    fn next(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let now_us = turn.now_us();
        let Some(stream) = self.streams.get_mut(slot) else { return };
        stream.due_us = match turn.load.interval_us {
            0 => now_us,
            interval_us => stream.due_us.wrapping_add(interval_us as u32),
        };
        stream.since_us = stream.due_us;
        match turn.load.mode {
            RsocketMode::Stream => {}
            RsocketMode::RequestResponse => self.request(slot, turn),
            RsocketMode::Channel => self.item(slot, turn),
        }
        self.plan(slot, turn);
    }

    /// Opens a stream or channel.
    fn ask(&mut self, slot: usize, kind: u8, turn: &mut Turn<'_>) {
        let demand = turn.load.demand();
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.left = demand;
            stream.is_busy = kind == REQUEST_CHANNEL;
        }
        append(id_of(slot), kind, Some(demand), turn);
    }

    /// Sends a request that wants one answer.
    fn request(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        stream.is_busy = true;
        stream.is_late = false;
        let mask = self.under_way.len().saturating_sub(1);
        for _ in 0..=mask {
            let id = self.next_id;
            self.next_id = if id >= frame::DEMAND_MAX { 1 } else { id + 2 };
            let Some(place) = self.under_way.get_mut((id >> 1) as usize & mask) else { return };
            if *place == 0 {
                *place = slot as u32 + 1;
                append(id, REQUEST_RESPONSE, None, turn);
                return;
            }
        }
    }

    /// Sends an item of a channel.
    fn item(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        stream.is_busy = true;
        stream.is_late = false;
        if stream.allowed < frame::DEMAND_MAX {
            stream.allowed -= 1;
        }
        let size = turn.load.payload;
        let (said, random) = (&mut *turn.said, &mut *turn.random);
        frame::append(said, id_of(slot), (frame::PAYLOAD, NEXT), |out| random.append(out, size));
        turn.pulse.sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Puts a stream that sends on a schedule into the wheel, for the message after the present one.
    fn plan(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if turn.load.mode == RsocketMode::Stream || turn.load.interval_us == 0 {
            return;
        }
        let next = stream.due_us.wrapping_add(turn.load.interval_us as u32);
        let ahead = i64::from(next.wrapping_sub((turn.now_ns / 1_000) as u32) as i32);
        let at_us = (turn.now_ns / 1_000).saturating_add_signed(ahead);
        turn.wheel.push(at_us, u64::from(self.number) << 32 | slot as u64);
    }

    /// An item has come.
    #[inline]
    fn payload(&mut self, header: Header, turn: &mut Turn<'_>) {
        let slot = match turn.load.mode {
            RsocketMode::RequestResponse => match self.answered(header) {
                Some(slot) => slot,
                None => return,
            },
            _ => (header.stream >> 1) as usize,
        };
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if header.has(NEXT) && !header.has(FOLLOWS) {
            turn.counters.received += 1;
            if turn.load.mode == RsocketMode::Stream {
                beat(stream, turn);
            } else {
                turn.record(turn.now_us().wrapping_sub(stream.since_us));
                stream.is_busy = false;
            }
            if turn.load.mode != RsocketMode::RequestResponse {
                top_up(header.stream, stream, turn);
            }
        }
        if turn.load.mode == RsocketMode::RequestResponse {
            // An answer may be empty.
            stream.is_busy = false;
        } else if header.has(COMPLETE) {
            return self.ended(slot, "was completed", turn);
        }
        if turn.load.mode != RsocketMode::Stream {
            self.after_answer(slot, turn);
        }
    }

    /// The place whose request that id is, which is answered unless more fragments follow.
    fn answered(&mut self, header: Header) -> Option<usize> {
        let mask = self.under_way.len().checked_sub(1)?;
        let place = self.under_way.get_mut((header.stream >> 1) as usize & mask)?;
        let slot = place.checked_sub(1)?;
        if header.has(FOLLOWS) {
            return None;
        }
        *place = 0;
        Some(slot as usize)
    }

    /// Sends what became due while the answer was awaited, or at once if there is no schedule.
    fn after_answer(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let is_flat_out = turn.load.interval_us == 0;
        let is_channel = turn.load.mode == RsocketMode::Channel;
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if !stream.is_open || stream.is_busy || !(is_flat_out || stream.is_late) {
            return;
        }
        if is_channel && stream.allowed == 0 {
            stream.is_late = true;
            return;
        }
        self.next(slot, turn);
    }

    /// A stream is over that should not be.
    fn ended(&mut self, slot: usize, how: &str, turn: &Turn<'_>) {
        let Some(stream) = self.streams.get_mut(slot).filter(|stream| stream.is_open) else {
            return;
        };
        stream.is_open = false;
        self.open -= 1;
        turn.pulse.ended(1);
        self.complaint.get_or_insert_with(|| format!("a stream {how}"));
    }

    fn error(&mut self, header: Header, bytes: &[u8], turn: &mut Turn<'_>) -> io::Result<()> {
        let code = bytes.get(frame::HEADER_BYTES..).and_then(<[u8]>::first_chunk);
        let code = code.map_or(0, |four| u32::from_be_bytes(*four));
        let text =
            String::from_utf8_lossy(bytes.get(frame::HEADER_BYTES + 4..).unwrap_or_default());
        if header.stream == 0 {
            return Err(broken(&format!("the server answered with error {code:#x}: {text}")));
        }
        let how = format!("failed with error {code:#x}: {text}");
        if turn.load.mode == RsocketMode::RequestResponse {
            if let Some(slot) = self.answered(header) {
                self.complaint.get_or_insert_with(|| format!("a request {how}"));
                if let Some(stream) = self.streams.get_mut(slot) {
                    stream.is_busy = false;
                }
                // Flat out, asking again at once would be a storm of refusals.
                if turn.load.interval_us > 0 {
                    self.after_answer(slot, turn);
                } else {
                    self.ended(slot, &how, turn);
                }
            }
            return Ok(());
        }
        self.ended((header.stream >> 1) as usize, &how, turn);
        Ok(())
    }

    fn granted(&mut self, header: Header, bytes: &[u8], turn: &mut Turn<'_>) {
        let slot = (header.stream >> 1) as usize;
        let count = bytes.get(frame::HEADER_BYTES..).and_then(<[u8]>::first_chunk);
        let count = count.map_or(0, |four| u32::from_be_bytes(*four));
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.allowed = stream.allowed.saturating_add(count).min(frame::DEMAND_MAX);
            if stream.is_late {
                self.after_answer(slot, turn);
            }
        }
    }
}

/// A session that hears, with what it needs for answers.
pub(super) struct Hearing<'a, 'b> {
    pub session: &'a mut Session,
    pub turn: &'a mut Turn<'b>,
}

impl Hear for Hearing<'_, '_> {
    #[inline]
    fn frame(&mut self, bytes: &[u8], length: usize) -> io::Result<()> {
        let Some(header) = frame::header(bytes) else { return Ok(()) };
        let (session, turn) = (&mut *self.session, &mut *self.turn);
        match header.kind {
            frame::PAYLOAD => {
                turn.counters.body_bytes += length.saturating_sub(frame::HEADER_BYTES) as u64;
                session.payload(header, turn);
            }
            frame::KEEPALIVE if header.has(frame::RESPOND) => {
                let data = bytes.get(frame::HEADER_BYTES + 8..).unwrap_or_default();
                frame::keepalive(turn.said, 0, data);
            }
            frame::REQUEST_N => session.granted(header, bytes, turn),
            frame::CANCEL => session.ended((header.stream >> 1) as usize, "was cancelled", turn),
            frame::ERROR => session.error(header, bytes, turn)?,
            _ => {}
        }
        Ok(())
    }
}

/// The id of a stream that is opened once.
fn id_of(slot: usize) -> u32 {
    slot as u32 * 2 + 1
}

/// Appends a request.
fn append(id: u32, kind: u8, demand: Option<u32>, turn: &mut Turn<'_>) {
    let Load { payload, metadata, .. } = turn.load;
    let flags = if metadata.is_empty() { 0 } else { frame::METADATA };
    let (said, random) = (&mut *turn.said, &mut *turn.random);
    frame::append(said, id, (kind, flags), |out| {
        if let Some(demand) = demand {
            out.extend_from_slice(&demand.to_be_bytes());
        }
        frame::metadata(out, metadata);
        random.append(out, *payload);
    });
    turn.pulse.sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Compares a message of a stream with the stream's beat.
fn beat(stream: &mut Stream, turn: &mut Turn<'_>) {
    let interval_us = turn.load.interval_us as u32;
    if interval_us == 0 {
        return;
    }
    let now_us = turn.now_us();
    if !std::mem::replace(&mut stream.is_busy, true) {
        stream.due_us = now_us;
        return;
    }
    stream.due_us = stream.due_us.wrapping_add(interval_us);
    let late = now_us.wrapping_sub(stream.due_us);
    if late > u32::MAX / 2 {
        // Earlier than thought: the first ones were late.
        stream.due_us = now_us;
        turn.record(0);
        return;
    }
    turn.record(late);
    // What the server has left out is not held against what comes after it.
    stream.due_us = stream.due_us.wrapping_add(late / interval_us * interval_us);
}

/// Asks for more when half of what was asked for has come.
fn top_up(id: u32, stream: &mut Stream, turn: &mut Turn<'_>) {
    let Some(credit) = turn.load.credit else { return };
    stream.left = stream.left.saturating_sub(1);
    if stream.left <= credit / 2 && stream.is_open {
        frame::request_n(turn.said, id, credit - stream.left);
        stream.left = credit;
    }
}

#[cfg(test)]
mod tests;
