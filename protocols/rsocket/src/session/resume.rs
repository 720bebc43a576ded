//! Coming back: what is kept of what was sent, and how far the client has come.
//!
//! ```text
//!   connection gone ─▶ detached ─▶ RESUME on a new connection ─▶ handed over ─▶ RESUME_OK, what is missing
//!                          └─▶ window over ─▶ end
//! ```
//! Relies on the event loop for finding the session by its token. Invariants: what is kept counts into
//! the shard's budget; a RESUME that does not fit changes nothing.

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{Context, HandOver};

use super::{Marks, RSocketSession, State};
use crate::frame::{Body, Frame, Header, Resume, VERSION};
use crate::limits::SCRATCH_BYTES_MAX;
use crate::position::{Received, Retained};

/// What is kept for a client that may come back.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) sent: Retained,
    pub(super) received: Received,
    /// Of the session's ticket.
    pub(super) secret: u128,
    /// A frame on its way.
    scratch: Vec<u8>,
    /// When the session ends, while it is detached.
    until: Option<Time>,
}

impl Kept {
    /// Nothing yet, for the session with that secret.
    pub(super) fn new(secret: u128) -> Kept {
        Kept { secret, ..Kept::default() }
    }

    /// Keeps a frame, within so many bytes; how many more, or fewer, are kept now.
    pub(super) fn keep(&mut self, frame: &Frame<'_>, bytes_max: usize) -> isize {
        if !frame.header().counts() {
            return 0;
        }
        let before = self.sent.bytes();
        self.scratch.clear();
        frame.write_bare(&mut self.scratch);
        self.sent.keep(&self.scratch, bytes_max);
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        self.sent.bytes() as isize - before as isize
    }

    /// When the session ends if nobody comes for it.
    pub(super) fn until(&self) -> Time {
        self.until.unwrap_or(Time::NEVER)
    }

    pub(super) fn is_detached(&self) -> bool {
        self.until.is_some()
    }
}

impl RSocketSession {
    /// The client wants to go on where it was: on to the session that it had.
    pub(super) fn resume(
        &mut self,
        resume: &Resume<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.marks.set(Marks::RESUMING, true);
        // rsocket-js writes the halves the wrong way round, here alone.
        if resume.version != (VERSION.1, VERSION.0) {
            check_version(resume.version)?;
        }
        if self.writer.options.resume.is_none() {
            let reason = "sessions are not kept here; begin a new one with SETUP";
            return Err(Close::new(CloseCode::ResumeTimeout, reason));
        }
        if self.marks.has(Marks::UNKNOWN) {
            self.writer.count(|counters| counters.not_resumed.add(1));
            let reason = "no session can be gone on with by that token and position; begin a new one with SETUP";
            return Err(Close::new(CloseCode::ResumeTimeout, reason));
        }
        context.hand_over(HandOver::ClientSessionId(resume.token.into()));
        self.state = State::HandingOver;
        Ok(())
    }

    /// Whether these first bytes are a RESUME from a position that this session can go on from.
    pub(super) fn admits_frame(&self, frame: &[u8]) -> bool {
        let Some(kept) = &self.writer.kept else { return false };
        let Ok(Frame { stream: 0, body: Body::Resume(resume) }) = Frame::read(frame) else {
            return false;
        };
        resume.available <= kept.received.position() && kept.sent.reaches(resume.received)
    }

    /// The first frame of the connection that carries the session from now on.
    pub(super) fn resumed(
        &mut self,
        now: Now,
        header: Header,
        rest: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.marks.set(Marks::AWAITS_RESUME, false);
        self.last_received = now.time;
        let body = Frame::read_body(header, rest)?.body;
        let (Body::Resume(resume), Some(kept)) = (body, &mut self.writer.kept) else {
            return Err(Close::new(CloseCode::UnexpectedFrame, "RESUME has to come first"));
        };
        kept.until = None;
        let position = kept.received.position();
        let before = kept.sent.bytes();
        kept.sent.trim(resume.received);
        let mut sent = std::mem::take(&mut kept.sent);
        let freed = before - sent.bytes();
        let ok = Frame::connection(Body::ResumeOk(position));
        ok.write(context.output.framing, context.output.queue.tail());
        let (mut frames, mut bytes) = (1, ok.len());
        sent.each(|frame| {
            write_again(frame, &mut context.output);
            frames += 1;
            bytes += frame.len();
        });
        if let Some(kept) = &mut self.writer.kept {
            kept.sent = sent;
        }
        if let Some(cold) = &mut self.cold {
            cold.assemblies.go_on(now.time);
        }
        // A lease does not outlive its connection.
        self.grant_lease(now, &mut context.output);
        self.writer.count(|counters| {
            counters.resumed.add(1);
            counters.retained.sub(freed as u64);
            counters.sent(frames, bytes);
        });
        Ok(())
    }

    /// The client has everything up to this position.
    pub(super) fn reached(&mut self, position: u64) {
        let Some(kept) = &mut self.writer.kept else { return };
        let before = kept.sent.bytes();
        kept.sent.trim(position);
        let freed = before - kept.sent.bytes();
        self.writer.count(|counters| counters.retained.sub(freed as u64));
    }

    /// The connection is gone: whether the session waits for another one.
    pub(super) fn wait_for_return(&mut self, now: Now) -> bool {
        let window = self.writer.options.resume.as_ref().map(|resume| resume.window);
        let (Some(window), Some(kept)) = (window, &mut self.writer.kept) else { return false };
        // Who said that the connection is to end does not come back.
        let comes_back = self.marks.has(Marks::ALIASED) && !self.marks.has(Marks::CLOSING);
        if self.state != State::Established || !comes_back {
            return false;
        }
        kept.until = Some(now.time + window);
        true
    }

    pub(super) fn is_detached(&self) -> bool {
        self.writer.kept.as_ref().is_some_and(|kept| kept.is_detached())
    }
}

/// Writes a frame that was kept.
fn write_again(frame: &[u8], output: &mut tiderace_wire::Output<'_>) {
    use tiderace_wire::Framing;
    match output.framing {
        Framing::Stream => {
            let [_, a, b, c] = (frame.len() as u32).to_be_bytes();
            output.queue.tail().extend_from_slice(&[a, b, c]);
            output.queue.tail().extend_from_slice(frame);
        }
        framing => framing.write(frame, false, output.queue.tail()),
    }
}

/// Whether the version is one that is spoken here.
pub(super) fn check_version((major, minor): (u16, u16)) -> Result<(), Close> {
    if major == VERSION.0 {
        return Ok(());
    }
    let reason = format!(
        "version {major}.{minor} of RSocket is not spoken here; speak {}.{}",
        VERSION.0, VERSION.1
    );
    Err(Close::new(CloseCode::UnsupportedVersion, reason))
}
