//! Frames from the client: where each belongs, and whether it may come now.
//!
//! Relies on `frame` for reading. Invariants: an item is taken only if it was asked for, before any of
//! it is kept; a frame for a stream that is over changes nothing.

use tiderace_base::{Close, CloseCode, Now, Span};
use tiderace_wire::{Command, Context, Intake};

use super::early::EarlyFrames;
use super::faults;
use super::state::{Marks, RSocketSession, State};
use super::streams::{Form, Stream};
use crate::fragment::Taken;
use crate::frame::{Body, ErrorCode, Extension, Failure, Frame, Header, Item, KeepAlive};
use crate::metrics::{Kind, Rejection, Role, Rule, Signal};

impl RSocketSession {
    /// Takes a frame.
    pub(super) fn frame(
        &mut self,
        now: Now,
        frame: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let (header, rest) = Header::read(frame)?;
        self.writer.count(|counters| counters.received(frame.len()));
        if self.state == State::Fresh {
            return self.first_frame(header, rest, context);
        }
        if self.marks.has(Marks::AWAITS_RESUME) {
            return self.resumed(now, header, rest, context);
        }
        if self.state != State::Established {
            return Ok(());
        }
        self.watch.received(now.time);
        if let Some(kept) = &mut self.writer.kept {
            kept.count_received(header, frame.len());
        }
        let frame = Frame::read_body(header, rest)?;
        if frame.stream == 0 {
            return self.connection_frame(now, &frame.body, context);
        }
        let assembles = match &frame.body {
            Body::Request(request) => request.follows,
            // A client that says that it is done does not say more.
            Body::Payload(item) => item.follows && !item.complete || self.assembles(frame.stream),
            _ => false,
        };
        if assembles {
            return self.assemble(now, &frame, context);
        }
        self.stream_frame(now, &frame, context)
    }

    /// The first frame of a connection.
    fn first_frame(
        &mut self,
        header: Header,
        rest: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match Frame::read_body(header, rest)? {
            Frame { stream: 0, body: Body::Setup(setup) } => self.setup(&setup, context),
            Frame { stream: 0, body: Body::Resume(resume) } => self.resume(&resume, context),
            _ => {
                let reason = "SETUP or RESUME has to be the first frame, on stream 0";
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
        }
    }

    /// Takes the frames that came before the login was decided.
    pub(super) fn early_frames(
        &mut self,
        now: Now,
        early: &EarlyFrames,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let intake = Intake::begin();
        for frame in early.frames() {
            if self.state == State::Established {
                self.frame(now, frame, context)?;
                intake.check_whole("what came before the login was done")?;
            }
        }
        Ok(())
    }

    fn connection_frame(
        &mut self,
        now: Now,
        body: &Body<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match body {
            Body::KeepAlive(sign) => self.keep_alive(now, sign, context),
            Body::MetadataPush(metadata) => self.pushed(now, metadata),
            Body::Lease(lease) => {
                // One that was not asked for means nothing.
                if let Some(leases) = self.cold.as_mut().and_then(|cold| cold.leases.as_mut()) {
                    leases.accept(now.time, lease);
                }
                Ok(())
            }
            Body::Error(failure) => {
                self.left(failure, context);
                Ok(())
            }
            // The specification wants it ignored, and it does not get better by repetition.
            Body::Setup(_) => self.fault(Rule::Setup),
            Body::Resume(_) | Body::ResumeOk(_) => {
                let reason = "RESUME has to be the first frame of a connection";
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
            Body::Extension(extension) => extended(extension),
            Body::Ignored => Ok(()),
            Body::Request(_) => self.fault(Rule::StreamId),
            Body::RequestN(_) | Body::Cancel | Body::Payload(_) => self.fault(Rule::Place),
        }
    }

    fn stream_frame(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let stream = frame.stream;
        match &frame.body {
            Body::Payload(item) => self.payload(now, stream, item, context),
            Body::RequestN(0) => self.fault(Rule::Demand),
            Body::RequestN(items) => self.demand(stream, *items, context),
            Body::Request(request) => {
                if !self.may_begin(stream) {
                    return self.fault(Rule::StreamId);
                }
                self.streams.note(stream);
                self.request(now, stream, request, context)
            }
            Body::Cancel => {
                self.forget_fragments(stream);
                self.cancelled(stream, context)
            }
            Body::Error(failure) => {
                self.forget_fragments(stream);
                self.failed(stream, failure, context)
            }
            Body::Extension(extension) => extended(extension),
            Body::Ignored => Ok(()),
            Body::Setup(_)
            | Body::Resume(_)
            | Body::ResumeOk(_)
            | Body::Lease(_)
            | Body::KeepAlive(_)
            | Body::MetadataPush(_) => self.fault(Rule::Place),
        }
    }

    /// Whether a request may have this id: an odd one that is free.
    fn may_begin(&self, stream: u32) -> bool {
        stream % 2 == 1 && !self.streams.is_open(stream) && !self.assembles(stream)
    }

    /// Takes a fragment.
    fn assemble(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let stream = frame.stream;
        match &frame.body {
            Body::Request(_) if !self.may_begin(stream) => return self.fault(Rule::StreamId),
            Body::Request(_) => self.streams.note(stream),
            // Before any of it is kept.
            Body::Payload(_) if !self.assembles(stream) && !self.expects(stream) => {
                return self.overflowed(stream, context);
            }
            _ => {}
        }
        if self.fragments_are_full() {
            self.writer.count(|counters| counters.reject(Rejection::Memory));
            let text = "the fragments that wait here have too many bytes now; send it again later";
            let close = Close::new(CloseCode::MemoryFull, text);
            self.forget_fragments(stream);
            self.cut_off(stream, ErrorCode::REJECTED, close, context);
            self.expect_late(LATE_FRAMES);
            return Ok(());
        }
        match self.take_fragment(now.time, frame) {
            Ok(Taken::Kept) => Ok(()),
            Ok(Taken::Whole) => self.stream_frame(now, frame, context),
            Ok(Taken::Complete(whole)) => match whole.frame() {
                Frame { body: Body::Request(request), .. } => {
                    self.request(now, stream, &request, context)
                }
                Frame { body: Body::Payload(item), .. } => {
                    self.payload(now, stream, &item, context)
                }
                _ => Ok(()),
            },
            Err(error) => {
                let close = Close::new(CloseCode::BadFrame, error.to_string());
                self.cut_off(stream, ErrorCode::INVALID, close, context);
                self.expect_late(LATE_FRAMES);
                self.fault(Rule::Fragment)
            }
        }
    }

    /// Whether an item of that stream has been asked for.
    fn expects(&self, stream: u32) -> bool {
        match self.streams.get(stream) {
            Some(Stream::Channel(channel)) => channel.expects(),
            Some(Stream::Exchange(state)) => state.expects(),
            _ => false,
        }
    }

    /// An item, or the end of a stream.
    fn payload(
        &mut self,
        now: Now,
        stream: u32,
        item: &Item<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match self.streams.get(stream) {
            Some(Stream::Channel(channel)) if !item.next || channel.expects() => {
                self.channel_item(stream, item, now, context);
                Ok(())
            }
            Some(Stream::Exchange(state)) if !item.next || state.expects() => {
                self.exchange_item(stream, item, context);
                Ok(())
            }
            Some(Stream::Channel(_) | Stream::Exchange(_)) => self.overflowed(stream, context),
            Some(_) => self.fault(Rule::Overflow),
            None => self.late_item(stream),
        }
    }

    /// An item came that was not asked for: the stream ends, and what is on its way is borne.
    fn overflowed(&mut self, stream: u32, context: &mut Context<'_>) -> Result<(), Close> {
        if !matches!(self.streams.get(stream), Some(Stream::Channel(_) | Stream::Exchange(_))) {
            return self.late_item(stream);
        }
        let reason = "an item came that was not asked for";
        let close = Close::new(CloseCode::UnexpectedFrame, reason);
        self.cut_off(stream, ErrorCode::INVALID, close, context);
        self.fault(Rule::Overflow)
    }

    /// An item for no stream: late, if so many may be.
    fn late_item(&mut self, stream: u32) -> Result<(), Close> {
        if !self.streams.may_have_been(stream) {
            return self.fault(Rule::UnknownStream);
        }
        match &mut self.cold {
            Some(cold) if cold.late > 0 => {
                cold.late -= 1;
                Ok(())
            }
            _ => self.fault(Rule::Overflow),
        }
    }

    /// A frame without an item for no stream: late, if there was one.
    fn late(&mut self, stream: u32) -> Result<(), Close> {
        if self.streams.may_have_been(stream) { Ok(()) } else { self.fault(Rule::UnknownStream) }
    }

    /// More items are wanted.
    fn demand(&mut self, stream: u32, items: u32, context: &mut Context<'_>) -> Result<(), Close> {
        let Some(known) = self.streams.get_mut(stream) else {
            return self.late(stream);
        };
        match known {
            Stream::Echo(echo) => {
                echo.demand = echo.demand.saturating_add(u64::from(items));
                if self.options().echo.is_some_and(|echo| echo.interval.is_zero()) {
                    self.marks.set(Marks::WRITES, true);
                }
            }
            Stream::Subscribed { key } => {
                let (key, messages) = (*key, u64::from(items));
                let slot = self.streams.by_key(key);
                if slot.is_some_and(|slot| !slot.form.has(Form::UNBOUNDED)) {
                    context.commands.push(Command::Credit { key, messages });
                }
            }
            Stream::Consuming(_) => self.consume_more(stream, items, context),
            Stream::Channel(_) => self.channel_demand(stream, items, context),
            Stream::Exchange(_) => self.exchange_demand(stream, items, context),
            Stream::Waiting { .. } | Stream::Serving { .. } => {}
        }
        Ok(())
    }

    /// The client wants no more of a stream.
    fn cancelled(&mut self, stream: u32, context: &mut Context<'_>) -> Result<(), Close> {
        if !self.streams.is_open(stream) {
            return self.late(stream);
        }
        if stream.is_multiple_of(2) {
            self.exchange_cancelled(stream, &mut context.output);
            return Ok(());
        }
        let close = Close::new(CloseCode::CallCancelled, "the caller has given the call up");
        self.give_up(stream, close, Signal::Cancel, context);
        Ok(())
    }

    /// The client says that it has failed.
    fn failed(
        &mut self,
        stream: u32,
        failure: &Failure<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if !self.streams.is_open(stream) {
            return self.late(stream);
        }
        let text = faults::shortened(String::from_utf8_lossy(failure.text).into_owned());
        let close = Close::new(faults::close_code(failure.code), text);
        self.give_up(stream, close, Signal::Error, context);
        Ok(())
    }

    /// Ends a stream for what the client has sent, and tells it.
    fn cut_off(&mut self, stream: u32, code: ErrorCode, close: Close, context: &mut Context<'_>) {
        self.writer.error(stream, code, &faults::sentence(&close), &mut context.output);
        self.give_up(stream, close, Signal::Error, context);
    }

    /// Ends a stream of which the client is not told any more.
    fn give_up(&mut self, stream: u32, close: Close, signal: Signal, context: &mut Context<'_>) {
        match self.end_stream(stream, signal) {
            Some(Stream::Subscribed { key } | Stream::Serving { key, .. }) => {
                self.unsubscribe(key, context);
            }
            Some(Stream::Consuming(consumer)) => self.unsubscribe(consumer.key, context),
            Some(Stream::Channel(channel)) => {
                let granted = channel.granted();
                self.expect_late_items(granted);
            }
            Some(Stream::Exchange(state)) => self.abandon_exchange(*state, close, context),
            Some(Stream::Echo(_) | Stream::Waiting { .. }) | None => {}
        }
    }

    /// A sign of life.
    fn keep_alive(
        &mut self,
        now: Now,
        sign: &KeepAlive<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.watch.keep_alive(now.time, sign, &self.writer.options)?;
        self.reached(sign.position);
        if sign.respond {
            let kept = self.writer.kept.as_ref();
            let position = kept.map_or(0, |kept| kept.position());
            let answer = KeepAlive { respond: false, position, data: sign.data };
            let frame = Frame::connection(Body::KeepAlive(answer));
            self.writer.say(&frame, &mut context.output);
        }
        Ok(())
    }

    /// Metadata about the connection: nobody here has a use for it.
    fn pushed(&mut self, now: Now, metadata: &[u8]) -> Result<(), Close> {
        let options = &self.writer.options;
        let (rate, most) = (options.metadata_pushes_max.max(1), options.metadata_bytes_max);
        let limiter = self.cold().pushes.get_or_insert_default();
        if !limiter.allow(now.time, Span::from_secs(1) / rate, rate) {
            let reason = format!("more than {rate} METADATA_PUSH frames came in a second");
            return Err(Close::new(CloseCode::TooManySigns, reason));
        }
        if metadata.len() > most {
            let reason = format!("a METADATA_PUSH has more than {most} bytes");
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        self.writer.count(|counters| {
            counters.start(Kind::Push, Role::Responder);
            counters.end(Kind::Push, Role::Responder, Signal::Complete);
        });
        Ok(())
    }

    /// The client ends the connection: at once, or when its requests have ended.
    fn left(&mut self, failure: &Failure<'_>, context: &mut Context<'_>) {
        if failure.code == ErrorCode::CONNECTION_CLOSE {
            context.commands.take_leave();
            if self.streams.len() > 0 {
                self.marks.set(Marks::CLOSING, true);
                return;
            }
        }
        self.leave(context);
    }
}

/// A frame of a type that only an extension knows.
fn extended(extension: &Extension<'_>) -> Result<(), Close> {
    if extension.ignore {
        return Ok(());
    }
    let reason = format!("the extension {:#x} is not known here", extension.kind);
    Err(Close::new(CloseCode::UnexpectedFrame, reason))
}

/// Fragments that come behind one that was refused.
const LATE_FRAMES: u32 = 16;
