//! Sessions over WebSocket: messages in become a stream of bytes, frames out are messages.
//!
//! Relies on the codec to unmask and judge. Message borders mean nothing to sessions: a protocol
//! frame may span messages and a message may hold several. Invariants: payload reaches the session
//! in order, each byte once; a session that takes messages whole, and so cannot leave any for later,
//! is given none while its login is being verified.

use tiderace_base::{Close, CloseCode, Key, Time};
use tiderace_websocket::{CloseError, Event, MessageKind, encode_close, encode_ping, encode_pong};
use tiderace_wire::{Incoming, Intake, Progress, SessionAction, SessionActions};

use crate::connection::{Flags, Live, Liveness, Rest, Stage, Transport};
use crate::departure::{Departure, Step};
use crate::driver::Driver;
use crate::outcome::{Called, Ended, Farewell};
use crate::shard::Shard;
use crate::upstream::reasons::said_goodbye;

impl<D: Driver> Shard<D> {
    /// Handles the frames in `bytes`; the broker gets all their commands at once.
    pub(crate) fn websocket(&mut self, key: Key, bytes: &mut [u8]) -> Step {
        let mut consumed = 0;
        let early = self.is_early(key);
        let intake = Intake::begin();
        let mut actions = self.spare.take_actions();
        let outcome = loop {
            let rest = bytes.get_mut(consumed..).unwrap_or_default();
            match self.frame(key, rest, &mut actions) {
                Ok(Frame { consumed: count, more }) => {
                    consumed += count;
                    if !more || intake.is_full() {
                        break Ok(());
                    }
                }
                Err(ended) => break Err(ended),
            }
        };
        let called = Called { outcome, actions };
        let failed = called.is_over();
        if intake.is_full() && consumed < bytes.len() {
            self.go_on_later(key);
        }
        let interrupted = called.actions.moves_connection();
        let departure = self.after_call(key, called);
        self.drain_effects();
        if interrupted
            && departure.is_none()
            && consumed < bytes.len()
            && let Some(connection) = self.connections.get_mut(key)
        {
            self.lists.again(key, &mut connection.flags);
        }
        if failed {
            return Step::Wait(bytes.len());
        }
        if let Some(mut departure) = departure {
            departure.consumed = consumed;
            return Step::Leave(departure);
        }
        // It stopped behind a message that may have begun the login. One that was decided at once has
        // not found what came behind it: it was not kept yet.
        if early && !interrupted && consumed > 0 {
            Step::Next(consumed)
        } else {
            Step::Wait(consumed)
        }
    }

    /// Whether the session takes one message and then waits: it takes messages whole and its client has not logged in,
    /// or a limit is asked after each whether there may be another one.
    fn is_early(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.flags.has(Flags::LIMITED) {
            return true;
        }
        let live = connection.live();
        live.is_some_and(|live| live.session.takes_messages() && !live.session.is_established())
    }

    /// Handles what the bytes begin with.
    fn frame(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        actions: &mut SessionActions,
    ) -> Result<Frame, Ended> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(Frame::stop(bytes.len()));
        };
        let is_behind = connection.flags.is_behind() || connection.flags.has(Flags::STORING);
        let Stage::Live(Live {
            transport: Transport::WebSocket { decoder, rest },
            session,
            verifying,
            ..
        }) = &mut connection.stage
        else {
            return Ok(Frame::stop(0));
        };
        let waits = *verifying && session.takes_messages() && !session.is_established();
        if is_behind || waits || rest.as_ref().is_some_and(|rest| rest.whole.is_some()) {
            return Ok(Frame::stop(0));
        }
        let (options, limits) = (&self.shared.options, &self.shared.options.websocket);
        // What goes into a file goes there as it comes.
        let in_parts =
            options.large_bytes_max > 0 && !session.takes_messages() && session.is_established();
        let decoded = match in_parts {
            true => {
                let most = limits.message_bytes_max.max(options.large_bytes_max);
                decoder.decode_parts(limits, most, bytes)
            }
            false => decoder.decode(limits, bytes),
        };
        let decoded = decoded.map_err(|error| Ended(close_of(error), Farewell::Transport))?;
        let consumed = decoded.consumed;
        match decoded.event {
            Event::Incomplete { need } => {
                connection.need = u32::try_from(need).unwrap_or(u32::MAX);
                return Ok(Frame::stop(consumed));
            }
            Event::Message { kind, payload } => self.take_message(key, kind, payload, actions)?,
            Event::Reassembled { kind, payload } => {
                self.take_message(key, kind, &payload, actions)?;
            }
            Event::Part(payload) => self.payload(key, payload, actions)?,
            Event::Ping(payload) => {
                encode_pong(self.pool.queue(&mut connection.outgoing).tail(), payload, None);
            }
            Event::Pong(_) => {}
            Event::Close { code, reason } => {
                // RFC 6455 section 5.5.1: the answer repeats the code.
                let tail = self.pool.queue(&mut connection.outgoing).tail();
                encode_close(tail, code, "", None);
                let close = match code {
                    _ if connection.flags.has(Flags::OUTGOING) => said_goodbye(code, reason),
                    None | Some(1000) => CloseCode::Done.into(),
                    Some(_) => CloseCode::PeerGone.into(),
                };
                return Err(Ended(close, Farewell::Silent));
            }
        }
        // A probe that is done gives its connection up: what follows is for the session it was for.
        // One that is handed over is read on by the session that gets it.
        let goes_on = actions.is_empty() || !actions.moves_connection() && !actions.is_finished();
        Ok(Frame { consumed, more: goes_on && !self.is_early(key) })
    }

    /// Gives a message to the session: whole if it wants that, as bytes of a stream otherwise.
    fn take_message(
        &mut self,
        key: Key,
        kind: MessageKind,
        payload: &[u8],
        actions: &mut SessionActions,
    ) -> Result<(), Ended> {
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if live.is_some_and(|live| live.session.takes_messages()) {
            return self.whole(key, kind == MessageKind::Text, payload, actions);
        }
        self.payload(key, payload, actions)
    }

    /// Gives a whole message to a session, and keeps it if it is for another one.
    fn whole(
        &mut self,
        key: Key,
        text: bool,
        bytes: &[u8],
        actions: &mut SessionActions,
    ) -> Result<(), Ended> {
        let message = Incoming { text, bytes };
        self.call_into(key, actions, |session, now, context| {
            session.message(now, message, context)
        })?;
        if actions.is_empty() || actions.is_finished() {
            // What is behind the end is for nobody.
            return Ok(());
        }
        let taken = actions.take_yield();
        let hands_over = |action: &SessionAction| matches!(action, SessionAction::HandOver(_));
        let left = match taken {
            _ if actions.iter().any(hands_over) => bytes,
            Some(taken) => bytes.get(taken..).unwrap_or_default(),
            None => &[],
        };
        if !left.is_empty() {
            let rest = Rest { bytes: left.to_vec(), whole: Some(text), ..Rest::default() };
            self.put_rest(key, Box::new(rest));
        }
        if taken.is_some() {
            self.go_on_later(key);
        }
        Ok(())
    }

    /// Gives payload to the session, behind what it has not consumed.
    fn payload(
        &mut self,
        key: Key,
        payload: &[u8],
        actions: &mut SessionActions,
    ) -> Result<(), Ended> {
        if self.connections.get_mut(key).is_some_and(|it| it.flags.has(Flags::IN_FILE)) {
            // What is behind the frame that goes there waits until the session has taken that.
            let taken = self.append_large_part(key, payload);
            let behind = payload.get(taken..).unwrap_or_default();
            if !payload.is_empty() {
                let mut rest = self.take_rest(key).unwrap_or_default();
                rest.bytes.extend_from_slice(behind);
                (rest.need, rest.message_by) = (0, Time::NEVER);
                rest.frame_by = self.now.time + self.shared.options.deadlines.frame;
                self.put_rest(key, rest);
            }
            return Ok(());
        }
        let mut rest = self.take_rest(key);
        if let Some(rest) = rest.as_mut().filter(|rest| !rest.bytes.is_empty()) {
            rest.bytes.extend_from_slice(payload);
            if rest.bytes.len() >= rest.need {
                let progress = self.give(key, &rest.bytes, actions)?;
                rest.bytes.drain(..progress.consumed.min(rest.bytes.len()));
                rest.need = progress.need;
            }
        } else {
            let progress = self.give(key, payload, actions)?;
            let left = payload.get(progress.consumed..).unwrap_or_default();
            if !left.is_empty() {
                let rest = rest.get_or_insert_default();
                (rest.bytes, rest.need) = (left.to_vec(), progress.need);
            }
        }
        if let Some(mut rest) = rest.filter(|rest| !rest.bytes.is_empty()) {
            // A message has just ended, so none is open.
            rest.message_by = Time::NEVER;
            if !payload.is_empty() {
                rest.frame_by = self.now.time + self.shared.options.deadlines.frame;
            }
            self.put_rest(key, rest);
        }
        self.begin_large(key);
        self.check_rest(key)
    }

    /// Gives the session again what it has not consumed.
    pub(crate) fn offer_rest(&mut self, key: Key) -> Option<Box<Departure>> {
        let rest = match self.connections.get_mut(key)?.live()? {
            Live { transport: Transport::WebSocket { rest, .. }, .. } => rest,
            _ => return None,
        };
        let whole = rest.take_if(|rest| rest.whole.is_some());
        let pending = rest.as_ref().is_some_and(|rest| !rest.bytes.is_empty());
        if !pending && whole.is_none() {
            return None;
        }
        let mut actions = self.spare.take_actions();
        let outcome = match whole.as_ref().and_then(|rest| Some((rest.whole?, &rest.bytes))) {
            Some((text, bytes)) => self.whole(key, text, bytes, &mut actions),
            None => self.payload(key, &[], &mut actions),
        };
        let departure = self.after_call(key, Called { outcome, actions });
        self.drain_effects();
        departure
    }

    pub(crate) fn give(
        &mut self,
        key: Key,
        bytes: &[u8],
        actions: &mut SessionActions,
    ) -> Result<Progress, Ended> {
        let mut progress = Progress::default();
        self.call_into(key, actions, |session, now, context| {
            progress = session.receive(now, bytes, context)?;
            Ok(())
        })?;
        if actions.take_yield().is_some() {
            self.go_on_later(key);
        }
        if actions.waits() {
            self.hold(key);
        }
        if actions.is_finished() {
            // What is behind the end is for nobody.
            progress.consumed = bytes.len();
        }
        Ok(progress)
    }

    /// Bounds what waits: an unfinished frame by its size, a client without login by time.
    fn check_rest(&mut self, key: Key) -> Result<(), Ended> {
        let options = &self.shared.options;
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let waiting = connection.rest_len();
        if waiting > options.unfinished_bytes_max {
            let reason = "a frame is larger than this server takes";
            let close = Close::new(CloseCode::FrameTooLarge, reason);
            return Err(Ended(close, Farewell::Full));
        }
        if waiting >= options.ahead_bytes_max
            && let Some(live) = connection.live()
            && !live.session.is_established()
        {
            connection.flags.set(Flags::HELD);
        }
        Ok(())
    }

    pub(crate) fn take_rest(&mut self, key: Key) -> Option<Box<Rest>> {
        match &mut self.connections.get_mut(key)?.live()?.transport {
            Transport::WebSocket { rest, .. } => rest.take(),
            _ => None,
        }
    }

    pub(crate) fn put_rest(&mut self, key: Key, rest: Box<Rest>) {
        if let Some(live) = self.connections.get_mut(key).and_then(|c| c.live())
            && let Transport::WebSocket { rest: slot, .. } = &mut live.transport
        {
            *slot = Some(rest);
        }
    }

    /// A WebSocket client does not finish what it has begun.
    pub(crate) fn unfinished(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if !connection.is_deaf() {
            return self.end(key, &CloseCode::FrameTimeout.into(), Farewell::Full);
        }
        let later = self.now.time + self.shared.options.deadlines.frame;
        if let Some(Live { transport: Transport::WebSocket { rest: Some(rest), .. }, .. }) =
            connection.live()
        {
            // Only what is set is put off.
            for by in [&mut rest.frame_by, &mut rest.message_by] {
                *by = if *by == Time::NEVER { Time::NEVER } else { later.max(*by) };
            }
        }
    }

    /// A WebSocket has been silent for a while: asks whether anybody is there, once.
    pub(crate) fn ping(&mut self, key: Key) {
        let deadlines = self.shared.options.deadlines;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let deaf = connection.may_be_silent();
        match connection.flags.liveness() {
            Liveness::Pinged if !deaf => {
                self.end(key, &CloseCode::IdleTimeout.into(), Farewell::Full);
            }
            Liveness::Quiet if !deaf => {
                connection.flags.set_liveness(Liveness::Pinged);
                encode_ping(self.pool.queue(&mut connection.outgoing).tail(), b"", None);
                connection.deadline = self.now.time + deadlines.pong;
                self.lists.write(key, &mut connection.flags);
            }
            _ => {
                connection.flags.set_liveness(Liveness::Quiet);
                connection.deadline = self.now.time + deadlines.ping;
            }
        }
    }
}

/// What handling one frame led to.
struct Frame {
    consumed: usize,
    /// Whether another frame may follow in the same bytes.
    more: bool,
}

impl Frame {
    fn stop(consumed: usize) -> Frame {
        Frame { consumed, more: false }
    }
}

fn close_of(error: CloseError) -> Close {
    let code = match error {
        CloseError::MessageTooBig => CloseCode::FrameTooLarge,
        CloseError::TextNotUtf8 => CloseCode::BadText,
        _ => CloseCode::BadFrame,
    };
    Close::new(code, error.to_string())
}
