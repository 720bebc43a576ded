//! What the server says.
//!
//! Relies on the table of streams. Invariants: what belongs to no stream is skipped, as the
//! specification wants it; the application hears each frame that is for it once, and whole.

use tiderace_base::Time;

use super::stream::{self, Stream};
use super::{Phase, Requester, RequesterError, millis};
use crate::fragment::Taken;
use crate::frame::{
    Body, ErrorCode, Failure, Frame, FrameError, Header, Interaction, Item, KeepAlive,
    PREFIX_BYTES, Request, Split, kind, split,
};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inbound {
    /// It was seen to, or means nothing.
    Nothing,
    /// The application hears of it.
    Frame,
    /// The same, and it ends the stream whether it says so or not.
    Last,
}

impl Requester {
    /// Takes bytes of a stream in, up to the next frame that the application has to hear of: items and
    /// ends of streams, credit for channels, requests, what is said about the connection, answers to
    /// [`Requester::keep_alive`]. Says how many bytes are done with; without a frame these are all
    /// that can be used before more have come. Frames in fragments are given as one.
    ///
    /// # Errors
    /// When the server breaks a rule; the conversation is over then.
    pub fn next<'a>(
        &'a mut self,
        now: Time,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Frame<'a>>), RequesterError> {
        let mut done = 0;
        while let Some(rest) = input.get(done..)
            && let Split::Frame(bytes) = self.checked(|max| split(rest, max))?
        {
            done += PREFIX_BYTES + bytes.len();
            match self.frame(now, bytes, out)? {
                (Inbound::Nothing, _) => {}
                (inbound, Some(frame)) => return Ok((done, Some(told(frame, inbound)))),
                (inbound, None) => return Ok((done, self.put_together(inbound))),
            }
        }
        Ok((done, None))
    }

    /// The same for a frame that the transport has marked.
    ///
    /// # Errors
    /// See [`Requester::next`].
    pub fn message<'a>(
        &'a mut self,
        now: Time,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Frame<'a>>, RequesterError> {
        let declared = bytes.len();
        self.checked(|max| match declared > max {
            true => Err(FrameError::TooLong { declared, max }),
            false => Ok(()),
        })?;
        Ok(match self.frame(now, bytes, out)? {
            (Inbound::Nothing, _) => None,
            (inbound, Some(frame)) => Some(told(frame, inbound)),
            (inbound, None) => self.put_together(inbound),
        })
    }

    fn checked<T>(
        &mut self,
        read: impl FnOnce(usize) -> Result<T, FrameError>,
    ) -> Result<T, RequesterError> {
        read(self.options.frame_bytes_max).map_err(|error| {
            self.phase = Phase::Closed;
            error.into()
        })
    }

    fn put_together(&mut self, inbound: Inbound) -> Option<Frame<'_>> {
        self.assembled.as_deref().map(|message| told(message.frame(), inbound))
    }

    /// What a frame means, and itself, if it is not one that was put together.
    fn frame<'a>(
        &mut self,
        now: Time,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(Inbound, Option<Frame<'a>>), RequesterError> {
        self.assembled = None;
        let read = self.read(now, bytes, out);
        if read.is_err() {
            self.phase = Phase::Closed;
        }
        read
    }

    fn read<'a>(
        &mut self,
        now: Time,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(Inbound, Option<Frame<'a>>), RequesterError> {
        self.last_received = now;
        let (header, rest) = Header::read(bytes)?;
        self.received.count(header, bytes.len());
        let frame = Frame::read_body(header, rest)?;
        let known = match &frame.body {
            Body::Request(_) => !self.streams.contains(frame.stream),
            Body::Payload(_) => self.streams.contains(frame.stream),
            _ => true,
        };
        if !known {
            return Ok((Inbound::Nothing, None));
        }
        match self.assemblies.take(now, &frame, &self.options.fragments)? {
            Taken::Whole => Ok((self.judge(now, &frame, out)?, Some(frame))),
            Taken::Kept => Ok((Inbound::Nothing, None)),
            Taken::Complete(message) => {
                let inbound = self.judge(now, &message.frame(), out)?;
                self.assembled = Some(Box::new(message));
                Ok((inbound, None))
            }
        }
    }

    fn judge(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Inbound, RequesterError> {
        let stream = frame.stream;
        match &frame.body {
            Body::Payload(item) => self.item(stream, item),
            Body::RequestN(items) => Ok(self.more(stream, *items)),
            Body::Error(failure) => Ok(self.failure(stream, failure)),
            Body::Cancel => Ok(self.cancelled(stream)),
            Body::Request(request) => Ok(self.asked(now, stream, request, out)),
            Body::KeepAlive(sign) => Ok(self.sign(sign, out)),
            Body::Lease(lease) => {
                self.lease = (now + millis(lease.ttl_ms), lease.requests);
                Ok(Inbound::Frame)
            }
            Body::MetadataPush(_) if stream == 0 => Ok(Inbound::Frame),
            Body::ResumeOk(received) => self.resumed(*received, out),
            Body::Extension(extension) if !extension.ignore => {
                Err(RequesterError::Unexpected(kind::EXT))
            }
            // A client ignores SETUP; nobody sends it RESUME.
            Body::Setup(_)
            | Body::Resume(_)
            | Body::MetadataPush(_)
            | Body::Extension(_)
            | Body::Ignored => Ok(Inbound::Nothing),
        }
    }

    fn item(&mut self, id: u32, item: &Item<'_>) -> Result<Inbound, RequesterError> {
        let Some(stream) = self.streams.find(id).filter(|stream| !stream.received_last) else {
            return Ok(Inbound::Nothing);
        };
        if item.next && !stream::take(&mut stream.granted) {
            return Err(RequesterError::Overflow(id));
        }
        let last = item.complete || stream.interaction == Interaction::Response;
        if last {
            stream.received_last = true;
            self.streams.remove_ended(id);
        }
        Ok(match (item.next || item.complete, last) {
            (false, false) => Inbound::Nothing,
            (_, true) => Inbound::Last,
            (_, false) => Inbound::Frame,
        })
    }

    fn more(&mut self, id: u32, items: u32) -> Inbound {
        let Some(stream) = self.streams.find(id).filter(|stream| !stream.sent) else {
            return Inbound::Nothing;
        };
        if !stream.interaction.has_credit() {
            return Inbound::Nothing;
        }
        stream::add(&mut stream.credit, items);
        Inbound::Frame
    }

    fn failure(&mut self, id: u32, failure: &Failure<'_>) -> Inbound {
        if id == 0 {
            // Refusals mean nothing once the conversation goes on; that it does, requests and leases
            // show, and a client that has none of them cannot know.
            let ends = failure.code != ErrorCode::CONNECTION_CLOSE;
            self.phase = if ends { Phase::Closed } else { Phase::Closing };
            return Inbound::Frame;
        }
        if self.streams.remove(id) { Inbound::Frame } else { Inbound::Nothing }
    }

    fn cancelled(&mut self, id: u32) -> Inbound {
        let Some(stream) = self.streams.find(id) else { return Inbound::Nothing };
        if stream.theirs {
            self.streams.remove(id);
            return Inbound::Frame;
        }
        if stream.sent {
            return Inbound::Nothing;
        }
        // Our items of a channel are not wanted any more.
        stream.sent = true;
        self.streams.remove_ended(id);
        Inbound::Frame
    }

    fn asked(&mut self, now: Time, id: u32, request: &Request<'_>, out: &mut Vec<u8>) -> Inbound {
        if id == 0 || id % 2 == 1 {
            return Inbound::Nothing;
        }
        let leased = !self.options.lease || (self.given.1 > 0 && now < self.given.0);
        if !leased || self.streams.theirs() >= self.options.requests_max {
            if request.interaction != Interaction::FireAndForget {
                let text = if leased { "too many requests are open" } else { "no lease" };
                self.outgoing.write(&Frame::error(id, ErrorCode::REJECTED, text), out);
            }
            return Inbound::Nothing;
        }
        if self.options.lease {
            self.given.1 -= 1;
        }
        let interaction = request.interaction;
        if interaction != Interaction::FireAndForget {
            let credit = if interaction.has_credit() { request.credit } else { 1 };
            let received_last = interaction != Interaction::Channel || request.complete;
            let (granted, theirs, sent) = (0, true, false);
            self.streams
                .insert(id, Stream { granted, credit, interaction, theirs, sent, received_last });
        }
        Inbound::Frame
    }

    fn sign(&mut self, sign: &KeepAlive<'_>, out: &mut Vec<u8>) -> Inbound {
        if let Some(retained) = self.outgoing.retained() {
            retained.trim(sign.position);
        }
        if !sign.respond {
            return Inbound::Frame;
        }
        let position = if self.options.token.is_some() { self.received.position() } else { 0 };
        let answer = KeepAlive { respond: false, position, data: sign.data };
        Frame::connection(Body::KeepAlive(answer)).write(self.outgoing.framing(), out);
        Inbound::Nothing
    }

    fn resumed(&mut self, received: u64, out: &mut Vec<u8>) -> Result<Inbound, RequesterError> {
        if self.phase != Phase::Resuming {
            return Err(RequesterError::Unexpected(kind::RESUME_OK));
        }
        if let Some(retained) = self.outgoing.retained() {
            if !retained.reaches(received) {
                let first = retained.first();
                return Err(RequesterError::NotRetained { received, first });
            }
            retained.trim(received);
        }
        self.phase = Phase::Open;
        self.outgoing.repeat(out);
        Ok(Inbound::Frame)
    }
}

/// The frame as the application sees it.
fn told(frame: Frame<'_>, inbound: Inbound) -> Frame<'_> {
    match frame.body {
        Body::Payload(item) if inbound == Inbound::Last => {
            Frame { stream: frame.stream, body: Body::Payload(Item { complete: true, ..item }) }
        }
        _ => frame,
    }
}
