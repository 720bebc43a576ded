//! What is due: when the session wants to be called again, and what it does then.
//!
//! Relies on time passed in. Invariants: what is done moves the deadline; while its client is away, nothing is due but
//! what the broker is to be told, and the end of the wait.

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::Context;

use super::cold::AT_ONCE;
use super::echo_write;
use super::state::{Marks, RSocketSession, State};
use crate::frame::{Body, Frame, KeepAlive};

impl RSocketSession {
    /// When something is due next.
    pub(super) fn due_at(&self) -> Time {
        if self.is_done() {
            return AT_ONCE;
        }
        let kept = self.writer.kept.as_ref().map_or(Time::NEVER, |kept| kept.until());
        let detached = self.is_detached();
        let cold = self.cold.as_ref();
        let cold = cold.map_or(Time::NEVER, |cold| cold.deadline(self.options(), detached));
        let tick = if detached { Time::NEVER } else { self.tick };
        self.silent_at().min(kept).min(cold).min(tick)
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When the connection has to end.
    pub(super) fn do_due(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if self.is_done() {
            self.leave(context);
            return Ok(());
        }
        if self.silent_at() <= now.time {
            self.silence(now, context)?;
        }
        if self.writer.kept.as_ref().is_some_and(|kept| kept.until() <= now.time) {
            return Err(CloseCode::ResumeTimeout.into());
        }
        if self.tick <= now.time
            && !self.is_detached()
            && let Some(echo) = self.writer.options.echo
        {
            let (streams, writer) = (&mut self.streams, &mut self.writer);
            let due = self.tick;
            self.tick =
                echo_write::tick(&echo, due, now.time, streams, writer, &mut context.output);
        }
        self.do_due_cold(now, context)
    }

    /// What is due of what is rarely there.
    fn do_due_cold(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        let timeout = self.options().fragments_timeout;
        let detached = self.is_detached();
        let Some(cold) = &mut self.cold else { return Ok(()) };
        for command in cold.deferred.drain(..) {
            context.commands.push(command);
        }
        if detached {
            return Ok(());
        }
        if let Some((stream, begun)) = cold.assemblies.oldest()
            && begun + timeout <= now.time
        {
            let reason =
                format!("the fragments of stream {stream} did not all come within {timeout:?}");
            return Err(Close::new(CloseCode::FrameTimeout, reason));
        }
        if cold.leases.as_ref().is_some_and(|leases| leases.renew_at() <= now.time) {
            self.grant_lease(now.time, context);
        }
        self.release_if_empty();
        Ok(())
    }

    /// Nothing has come for too long.
    fn silence(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if self.state != State::Established {
            let span = self.options().login_timeout;
            let reason = format!("no complete SETUP came, or no login was done, within {span:?}");
            return Err(Close::new(CloseCode::LoginTimeout, reason));
        }
        let unread = context.reading_paused.then(|| context.output.queue.len());
        if self.watch.silence(now.time, unread)? {
            let position = self.writer.kept.as_ref().map_or(0, |kept| kept.position());
            let sign = KeepAlive { respond: true, position, data: b"" };
            self.writer.say(&Frame::connection(Body::KeepAlive(sign)), &mut context.output);
        }
        Ok(())
    }

    /// When silence is too long.
    fn silent_at(&self) -> Time {
        match self.state {
            State::Fresh | State::LoggingIn | State::HandingOver => self.watch.login_until(),
            State::Leaving => Time::NEVER,
            State::Established if self.is_detached() => Time::NEVER,
            State::Established => self.watch.silent_at(),
        }
    }

    /// Whether the client wants to go, and nothing keeps it any more.
    fn is_done(&self) -> bool {
        self.marks.has(Marks::CLOSING)
            && self.state == State::Established
            && self.streams.len() == 0
    }
}
