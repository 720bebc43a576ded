//! Coming back: a client that has lost its connection goes on with its session on another one.
//!
//! ```text
//!   connection gone ─▶ detached ─▶ RESUME on a new connection ─▶ handed over ─▶ RESUME_OK, what is missing
//!                          └─▶ window over ─▶ end
//! ```
//! Relies on the event loop for finding the session by its token. Invariants: what is kept counts into
//! the shard's budget; a RESUME that does not fit changes nothing.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Context, HandOver};

use super::state::{Marks, RSocketSession, State};
use crate::frame::{Body, Frame, Header, Resume, VERSION};

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
        kept.admits(&resume)
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
        self.watch.restart(now.time);
        let body = Frame::read_body(header, rest)?.body;
        let (Body::Resume(resume), Some(kept)) = (body, &mut self.writer.kept) else {
            return Err(Close::new(CloseCode::UnexpectedFrame, "RESUME has to come first"));
        };
        kept.attach();
        let freed = kept.trim(resume.received);
        let ok = Frame::connection(Body::ResumeOk(kept.position()));
        ok.write(context.output.framing, context.output.queue.tail());
        let (mut frames, mut bytes) = (1, ok.len());
        kept.each_sent(|frame| {
            write_again(frame, &mut context.output);
            frames += 1;
            bytes += frame.len();
        });
        if let Some(cold) = &mut self.cold {
            cold.assemblies.go_on(now.time);
        }
        // A lease does not outlive its connection.
        self.grant_lease(now.time, context);
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
        let freed = kept.trim(position);
        self.writer.count(|counters| counters.retained.sub(freed as u64));
    }

    /// The connection is gone: whether the session waits for another one.
    pub(super) fn wait_for_return(&mut self, now: Now) -> bool {
        let window = self.writer.options.resume.as_ref().map(|resume| resume.window);
        let (Some(window), Some(kept)) = (window, &mut self.writer.kept) else { return false };
        // Who said that the connection is to end does not come back.
        let comes_back = self.marks.has(Marks::HAS_SESSION_ID) && !self.marks.has(Marks::CLOSING);
        if self.state != State::Established || !comes_back {
            return false;
        }
        kept.detach(now.time + window);
        true
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
