//! Frames from the client: where each belongs, and whether it may come now.
//!
//! Relies on `frame` for reading. Invariants: an item is taken only if it was asked for, before any of
//! it is kept; a frame for a stream that is over changes nothing.

use tiderace_base::{Close, CloseCode, Now, Span};
use tiderace_wire::{Command, Context};

use super::streams::Stream;
use super::{Marks, RSocketSession, State, faults};
use crate::fragment::{FragmentLimits, Taken};
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
        self.last_received = now.time;
        self.marks.set(Marks::PROBED, false);
        if let Some(kept) = &mut self.writer.kept {
            kept.received.count(header, frame.len());
        }
        let frame = Frame::read_body(header, rest)?;
        if frame.stream == 0 {
            return self.connection_frame(now, &frame.body, context);
        }
        let assembles = match &frame.body {
            Body::Request(request) => request.follows,
            // Whoever says that it is done does not say more.
            Body::Payload(item) => item.follows && !item.complete || self.assembles(frame.stream),
            _ => false,
        };
        if assembles {
            return self.assemble(now, &frame, context);
        }
        self.stream_frame(now, &frame, context)
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
            Body::Lease(lease) => self.leased(now, lease, context),
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

    /// Whether fragments of that stream wait for more.
    fn assembles(&self, stream: u32) -> bool {
        let cold = self.cold.as_ref().filter(|cold| !cold.assemblies.is_empty());
        cold.is_some_and(|cold| cold.assemblies.is_open(stream))
    }

    fn forget_fragments(&mut self, stream: u32) {
        let before = self.fragment_bytes();
        if let Some(cold) = &mut self.cold {
            cold.assemblies.forget(stream);
        }
        self.count_fragments(before);
    }

    /// Bytes of fragments that wait for the rest of their payloads.
    pub(super) fn fragment_bytes(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.assemblies.bytes())
    }

    /// They were so many until now.
    fn count_fragments(&self, before: usize) {
        let more = self.fragment_bytes().wrapping_sub(before);
        if more != 0 {
            self.writer.count(|counters| counters.fragments.add(more as u64));
        }
    }

    /// Whether the shard keeps as many fragments as it may.
    fn fragments_are_full(&self) -> bool {
        let most = self.options().fragments_bytes_shard_max;
        let counters = self.options().metrics.of(self.writer.shard);
        counters.is_some_and(|all| all.fragments.value() >= most)
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
            self.cold().stale += STALE_FRAMES;
            return Ok(());
        }
        let (limits, before) = (self.fragment_limits(), self.fragment_bytes());
        let taken = self.cold().assemblies.take(now.time, frame, &limits);
        self.count_fragments(before);
        match taken {
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
                self.bear(STALE_FRAMES);
                self.fault(Rule::Fragment)
            }
        }
    }

    fn fragment_limits(&self) -> FragmentLimits {
        let options = self.options();
        let message_bytes_max = options.message_bytes_max + options.metadata_bytes_max;
        FragmentLimits {
            message_bytes_max,
            total_bytes_max: options.fragments_bytes_max,
            messages_max: options.fragmented_max,
            // As many as the shortest allowed would make of the longest message.
            fragments_max: u32::try_from(message_bytes_max / options.fragment_bytes_min.max(1))
                .unwrap_or(u32::MAX),
            fragment_bytes_min: options.fragment_bytes_min,
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
            None => self.stale(stream),
        }
    }

    /// An item came that was not asked for: the stream ends, and what is on its way is borne.
    fn overflowed(&mut self, stream: u32, context: &mut Context<'_>) -> Result<(), Close> {
        if !matches!(self.streams.get(stream), Some(Stream::Channel(_) | Stream::Exchange(_))) {
            return self.stale(stream);
        }
        let reason = "an item came that was not asked for";
        let close = Close::new(CloseCode::UnexpectedFrame, reason);
        self.cut_off(stream, ErrorCode::INVALID, close, context);
        self.fault(Rule::Overflow)
    }

    /// So many frames for a stream that is over may be on their way.
    pub(super) fn bear(&mut self, frames: u32) {
        let stale = &mut self.cold().stale;
        *stale = stale.saturating_add(frames);
    }

    /// An item for no stream.
    fn stale(&mut self, stream: u32) -> Result<(), Close> {
        if !self.streams.may_have_been(stream) {
            return self.fault(Rule::UnknownStream);
        }
        match &mut self.cold {
            Some(cold) if cold.stale > 0 => {
                cold.stale -= 1;
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
                context.commands.push(Command::Credit { key, messages });
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
    pub(super) fn give_up(
        &mut self,
        stream: u32,
        close: Close,
        signal: Signal,
        context: &mut Context<'_>,
    ) {
        match self.end_stream(stream, signal) {
            Some(Stream::Echo(echo)) => self.echo_bytes -= echo.bytes() as u32,
            Some(Stream::Subscribed { key } | Stream::Serving { key, .. }) => {
                self.unsubscribe(key, context);
            }
            Some(Stream::Consuming(consumer)) => self.unsubscribe(consumer.key, context),
            Some(Stream::Channel(channel)) => {
                let granted = channel.granted();
                self.bear(granted.saturating_mul(FRAMES_PER_ITEM));
            }
            Some(Stream::Exchange(state)) => self.abandon_exchange(*state, close, context),
            Some(Stream::Waiting { .. }) | None => {}
        }
    }

    /// A sign of life.
    fn keep_alive(
        &mut self,
        now: Now,
        sign: &KeepAlive<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let options = &self.writer.options;
        let (rate, most) = (options.keepalives_max, options.keepalive_bytes_max);
        if !self.keepalives.allow(now.time, Span::from_secs(1) / rate.max(1), rate.max(1)) {
            let reason = format!("more than {rate} KEEPALIVE frames came in a second");
            return Err(Close::new(CloseCode::TooManySigns, reason));
        }
        if sign.data.len() > most {
            let reason = format!("a KEEPALIVE has more than {most} bytes of data");
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        self.reached(sign.position);
        if sign.respond {
            let kept = self.writer.kept.as_ref();
            let position = kept.map_or(0, |kept| kept.received.position());
            let answer = KeepAlive { respond: false, position, data: sign.data };
            let frame = Frame::connection(Body::KeepAlive(answer));
            self.writer.say(&frame, &mut context.output);
        }
        Ok(())
    }

    /// Asks a client that promised little whether it is there.
    pub(super) fn probe(&mut self, context: &mut Context<'_>) {
        let kept = self.writer.kept.as_ref();
        let position = kept.map_or(0, |kept| kept.received.position());
        let sign = KeepAlive { respond: true, position, data: b"" };
        self.writer.say(&Frame::connection(Body::KeepAlive(sign)), &mut context.output);
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

    /// Nothing more is to be said.
    pub(super) fn leave(&mut self, context: &mut Context<'_>) {
        self.state = State::Leaving;
        context.finish(CloseCode::Done);
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

/// Frames that an item may be in, for those that come late.
const FRAMES_PER_ITEM: u32 = 4;
/// Fragments that come behind one that was refused.
const STALE_FRAMES: u32 = 16;
