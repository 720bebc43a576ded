//! Frames that are too large for memory: what arrives of them goes into files.
//!
//! ```text
//!   session: Progress::need ─▶ begin ─▶ bytes ─▶ append ─▶ all are there ─▶ finish ─▶ the file, to the session
//!                                         │ the writer is behind: not read ─▶ notice ─▶ read on
//! ```
//! Relies on the spool for the files and on sessions to say how long a frame is. A session sees no difference: it is
//! given the whole frame as it would be from memory, and large bodies of messages that are parts of it stay in the
//! file ([`tiderace_wire::Commands::set_input_file`]). Invariants: the table has an entry for exactly those
//! connections that have [`Flags::IN_FILE`]; a connection is not read while its entry waits for the writer
//! ([`Flags::STORING`]).

use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::{Close, CloseCode, Key, SessionId};
use tiderace_spool::SpoolError;

use crate::connection::{Flags, Live, Stage, Transport};
use crate::departure::{Departure, Step};
use crate::driver::Driver;
use crate::http_answer::refusal;
use crate::large_frames::Frame;
use crate::outcome::{Called, Farewell};
use crate::shard::Shard;
use crate::waker::Notice;

impl<D: Driver> Shard<D> {
    /// Whether what a connection's session waits for goes into a file, instead of growing in memory; begins that.
    pub(crate) fn begin_large(&mut self, key: Key) -> bool {
        let bytes_min = self.shared.options.large_bytes_min;
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let need = match &connection.stage {
            Stage::Live(live) if !live.session.is_established() => return false,
            Stage::Live(Live { transport: Transport::Stream | Transport::Chunked, .. }) => {
                connection.need as usize
            }
            Stage::Live(Live {
                transport: Transport::WebSocket { rest: Some(rest), .. }, ..
            }) if rest.whole.is_none() && rest.bytes.len() < rest.need => rest.need,
            _ => return false,
        };
        if need < bytes_min || connection.flags.has(Flags::IN_FILE) {
            return false;
        }
        let Some(id) = connection.live().map(|live| live.id) else { return false };
        if !self.begin_file(key, id, Some(need as u64)) {
            return false;
        }
        let begun = match self.connections.get_mut(key).map(|it| (&mut it.stage, &mut it.input)) {
            Some((Stage::Live(Live { transport: Transport::WebSocket { rest, .. }, .. }), _)) => {
                rest.take().map(|rest| rest.bytes)
            }
            Some((_, input)) => input.take().map(|input| *input),
            None => None,
        };
        self.append_large(key, &begun.unwrap_or_default());
        true
    }

    /// The same for the body of a request of a session, as long as that may be.
    pub(crate) fn begin_large_body(&mut self, key: Key, session: Key, bytes: &[u8]) -> bool {
        let live = self.connections.get_mut(session).and_then(|connection| connection.live());
        let Some(id) = live.map(|live| live.id) else { return false };
        if !self.begin_file(key, id, None) {
            return false;
        }
        self.append_large(key, bytes);
        true
    }

    /// Begins a file for what a connection sends to a session. If there may be none the connection ends.
    #[cold]
    fn begin_file(&mut self, key: Key, session: SessionId, need: Option<u64>) -> bool {
        let Some(spool) = &self.shared.services.spool else { return false };
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let owner = self.broker.account_name(session).unwrap_or_else(|| Arc::from(""));
        let (wakers, shard) = (self.shared.wakers.clone(), self.id);
        let wake = move || {
            if let Some(waker) = wakers.get(shard.index()) {
                waker.notify(Notice::Spooled(key));
            }
        };
        let upload = match spool.begin(&owner, Box::new(wake)) {
            Ok(upload) => upload,
            Err(error) => {
                self.fail_large(key, &error);
                return true;
            }
        };
        connection.flags.set(Flags::IN_FILE);
        self.large_input.insert(key, Frame::Arriving { upload, need });
        true
    }

    /// What was to go into a file cannot: its client hears so, and the connection ends.
    pub(crate) fn fail_large(&mut self, key: Key, error: &SpoolError) {
        let close = close_of(error);
        if !matches!(self.connections.get(key).map(|it| &it.stage), Some(Stage::Http(_))) {
            return self.end(key, &close, Farewell::Full);
        }
        let response = refusal(&close).with("Retry-After", "5");
        self.write_answer(key, &response, false, false);
        self.end(key, &close, Farewell::Silent);
    }

    /// Takes as much of a WebSocket's payload as is missing of a frame that goes into a file; how much that is.
    pub(crate) fn append_large_part(&mut self, key: Key, payload: &[u8]) -> usize {
        let taken = self.large_input.missing(key).min(payload.len());
        if taken > 0 {
            self.append_large(key, payload.get(..taken).unwrap_or_default());
        }
        taken
    }

    /// The same of a stream: what is behind the frame is kept until the session has taken that.
    pub(crate) fn take_into_file(&mut self, key: Key, bytes: &[u8]) {
        let taken = self.append_large_part(key, bytes);
        let behind = bytes.get(taken..).unwrap_or_default();
        if let Some(connection) = self.connections.get_mut(key).filter(|_| !behind.is_empty()) {
            connection.input.get_or_insert_with(|| self.pool.input()).extend_from_slice(behind);
        }
    }

    /// Takes bytes of a frame that goes into a file, no more than are missing.
    pub(crate) fn append_large(&mut self, key: Key, bytes: &[u8]) {
        let Some(Frame::Arriving { upload, need }) = self.large_input.get_mut(&key) else {
            return;
        };
        if let Err(error) = upload.append(bytes) {
            return self.fail_large(key, &error);
        }
        let is_last = need.is_some_and(|need| upload.len() >= need);
        if is_last {
            upload.finish();
        }
        if (is_last || upload.is_behind())
            && let Some(connection) = self.connections.get_mut(key)
        {
            connection.flags.set(Flags::STORING);
        }
    }

    /// The body of a request that is whole in its file.
    pub(crate) fn large_body(&self, key: Key) -> Option<Bytes> {
        match self.large_input.get(&key)? {
            Frame::Whole(body) => Some(body.clone()),
            Frame::Arriving { .. } => None,
        }
    }

    /// The writer has caught up with the frame of a connection, or has done with it.
    pub(crate) fn note_spooled(&mut self, key: Key) {
        let Some(Frame::Arriving { upload, .. }) = self.large_input.get(&key) else { return };
        let outcome = upload.outcome().cloned();
        let Some(connection) = self.connections.get_mut(key) else { return };
        match outcome {
            None if upload.is_finished() || upload.is_behind() => {}
            None => {
                connection.flags.clear(Flags::STORING);
                self.lists.read(key, &mut connection.flags);
                // Pieces of a WebSocket or of a chunked body may have been read already.
                self.lists.again(key, &mut connection.flags);
            }
            Some(Ok(frame)) => {
                self.large_input.insert(key, Frame::Whole(frame));
                self.offer_large(key);
            }
            Some(Err(error)) => {
                tracing::error!(event = "large-message-failed", %error, "a large message could not be kept in a file");
                self.fail_large(key, &error);
            }
        }
        self.drain_effects();
        if let Some(h2) = self.h2_streams.h2_connection_of(key) {
            self.wake_ended_h2(h2);
        }
    }

    /// Gives a request whose body is whole to its session.
    fn offer_large_body(&mut self, key: Key) {
        let step = self.collect(key, &[]);
        let departure = match step {
            Step::Leave(departure) => Some(departure),
            Step::Next(_) | Step::Wait(_) => None,
        };
        self.end_input(key, departure, true);
    }

    /// Gives a whole frame to its session, or a request whose body is whole.
    pub(crate) fn offer_large(&mut self, key: Key) {
        if matches!(self.connections.get(key).map(|it| &it.stage), Some(Stage::Http(_))) {
            if self.large_body(key).is_some() {
                self.offer_large_body(key);
            }
            return;
        }
        let Some(Frame::Whole(frame)) = self.large_input.get(&key) else { return };
        let frame = frame.clone();
        self.commands.set_input_file(Some(frame.clone()));
        let (consumed, departure) = self.give_frame(key, &frame);
        self.commands.set_input_file(None);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if consumed == 0 && connection.is_behind() {
            // It is offered again with the next answer that the session waits for.
            return;
        }
        let needs_more = consumed == 0 && !matches!(connection.stage, Stage::Closing { .. });
        self.forget_large(key);
        if needs_more {
            let reason = "a frame is longer than its beginning says";
            self.end(key, &Close::new(CloseCode::FrameTooLarge, reason), Farewell::Full);
        } else {
            self.keep_behind(key, frame.get(consumed..).unwrap_or_default());
        }
        if let Some(connection) = self.connections.get_mut(key) {
            self.lists.read(key, &mut connection.flags);
            self.lists.again(key, &mut connection.flags);
        }
        self.end_input(key, departure, true);
    }

    /// Calls the session with a whole frame: how many bytes it has taken, and whether its connection leaves.
    fn give_frame(&mut self, key: Key, frame: &Bytes) -> (usize, Option<Box<Departure>>) {
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if live.is_some_and(|live| live.is_websocket()) {
            let mut actions = self.spare.take_actions();
            let (mut consumed, outcome) = match self.give(key, frame, &mut actions) {
                Ok(progress) => (progress.consumed, Ok(())),
                Err(ended) => (frame.len(), Err(ended)),
            };
            let departure = self.after_call(key, Called { outcome, actions });
            self.drain_effects();
            consumed = consumed.min(frame.len());
            return (consumed, departure);
        }
        match self.stream(key, frame) {
            Step::Next(consumed) | Step::Wait(consumed) => (consumed, None),
            Step::Leave(departure) => (departure.consumed, Some(departure)),
        }
    }

    /// Keeps what of a frame's bytes its session has not taken, before those that have come behind it.
    fn keep_behind(&mut self, key: Key, left: &[u8]) {
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if !live.is_some_and(|live| live.is_websocket()) {
            let connection = self.connections.get_mut(key).filter(|_| !left.is_empty());
            if let Some(connection) = connection {
                let input = connection.input.get_or_insert_with(|| self.pool.input());
                input.splice(..0, left.iter().copied());
            }
            return;
        }
        if !left.is_empty() {
            let mut rest = self.take_rest(key).unwrap_or_default();
            rest.bytes.splice(..0, left.iter().copied());
            self.put_rest(key, rest);
        }
    }

    /// What has come of a frame that goes into a file is for nobody any more.
    pub(crate) fn forget_large(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.flags.has(Flags::IN_FILE) {
            connection.flags.clear(Flags::IN_FILE);
            connection.flags.clear(Flags::STORING);
            self.large_input.remove(&key);
        }
    }
}

/// What the client is told.
fn close_of(error: &SpoolError) -> Close {
    match error {
        SpoolError::Disk(_) => {
            let reason = "the disk for large messages fails, or is full";
            Close::new(CloseCode::LargeMessagesFull, reason)
        }
        error => Close::new(CloseCode::LargeMessagesFull, error.to_string()),
    }
}
