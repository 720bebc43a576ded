//! SETUP, the login, and what comes before it is decided.
//!
//! Relies on the broker for who the client is. Invariants: whatever SETUP asks for is checked before
//! anything is asked of the broker; what comes behind it waits within a bound.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Span};
use tiderace_wire::{Command, Context, Credentials, Intake};

use super::resume::{Kept, check_version};
use super::{Marks, RSocketSession, State, describe};
use crate::frame::{Body, Frame, Header, Setup};
use crate::metadata::{Authentication, Described, Mime};
use tiderace_base::limits::EARLY_BYTES_MAX;

impl RSocketSession {
    /// The first frame of a connection.
    pub(super) fn first_frame(
        &mut self,
        header: Header,
        rest: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let frame = Frame::read_body(header, rest)?;
        match frame {
            Frame { stream: 0, body: Body::Setup(setup) } => self.setup(&setup, context),
            Frame { stream: 0, body: Body::Resume(resume) } => self.resume(&resume, context),
            _ => {
                let reason = "SETUP or RESUME has to be the first frame, on stream 0";
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
        }
    }

    fn setup(&mut self, setup: &Setup<'_>, context: &mut Context<'_>) -> Result<(), Close> {
        check_version(setup.version)?;
        let wrong = |reason: &'static str| Err(Close::new(CloseCode::BadHeader, reason));
        if setup.interval_ms == 0 || setup.lifetime_ms == 0 {
            return wrong("the keep-alive interval and the max lifetime of SETUP are above zero");
        }
        let rate = self.options().keepalives_max.max(1);
        if u64::from(setup.interval_ms) * u64::from(rate) < 1000 {
            let reason = format!(
                "SETUP promises a KEEPALIVE every {} ms, and {rate} a second may come; choose an interval of {} ms or more",
                setup.interval_ms,
                1000_u32.div_ceil(rate)
            );
            return Err(Close::new(CloseCode::TooManySigns, reason));
        }
        let (Some(metadata_mime), Some(data_mime)) =
            (mime_of(setup.metadata_mime), mime_of(setup.data_mime))
        else {
            return wrong("the MIME types of SETUP are ASCII text");
        };
        if setup.token.is_some() && self.options().resume.is_none() {
            let reason = "sessions are not kept here; begin without a token";
            return Err(Close::new(CloseCode::TooManyDetached, reason));
        }
        self.set_lifetime(setup.lifetime_ms);
        self.metadata_mime = metadata_mime.id().unwrap_or(describe::OTHER_MIME);
        self.data_mime = data_mime.id().unwrap_or(describe::OTHER_MIME);
        if let (None, Some(name)) = (data_mime.id(), data_mime.name())
            && !matches!(name, "" | "application/binary")
        {
            self.cold().data_mime = Some(name.into());
        }
        let credentials = self.credentials(metadata_mime, setup.payload.metadata)?;
        let cold = self.cold();
        cold.token = setup.token.map(Box::from);
        if setup.lease {
            cold.leases = Some(Box::default());
        }
        self.state = State::LoggingIn;
        context.commands.push(Command::Login(credentials));
        Ok(())
    }

    /// Within what is borne here; a client that promised less is asked now and then.
    fn set_lifetime(&mut self, wanted_ms: u32) {
        let (min, max) = (self.options().lifetime_min, self.options().lifetime_max);
        let wanted = Span::from_millis(u64::from(wanted_ms));
        let lifetime = wanted.min(max).max(min);
        self.lifetime_ms = u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX);
        self.marks.set(Marks::PROBES, wanted > max);
    }

    /// Who SETUP says the client is.
    fn credentials(
        &mut self,
        mime: Mime<'_>,
        metadata: Option<&[u8]>,
    ) -> Result<Credentials, Close> {
        let Some(metadata) = metadata else { return Ok(Credentials::default()) };
        let mut raw = None;
        let mut older = None;
        let wrong = |error: crate::metadata::MetadataError| {
            Close::new(CloseCode::BadHeader, error.to_string())
        };
        let described = Described::read_with(mime, metadata, |mime, bytes| {
            if mime.name() == Some(OLD_BEARER) {
                older = std::str::from_utf8(bytes).ok();
            }
        })
        .map_err(wrong)?;
        if mime == Mime::AUTHENTICATION {
            raw = Some(metadata);
        } else if described.authentication.is_some() {
            raw = describe::authentication_of(metadata);
        }
        let credentials = match (described.authentication, older) {
            (None, None) => return Ok(Credentials::default()),
            (None, Some(token)) => {
                Credentials { token: Some(token.to_owned()), ..Credentials::default() }
            }
            (Some(Authentication::Simple { user, password }), _) => Credentials {
                login: Some(user.to_owned()),
                passcode: Some(password.to_owned()),
                token: None,
            },
            (Some(Authentication::Bearer(token)), _) => {
                Credentials { token: Some(token.to_owned()), ..Credentials::default() }
            }
            (Some(_), _) => {
                let reason = "credentials are `simple` or `bearer`";
                return Err(Close::new(CloseCode::LoginFailed, reason));
            }
        };
        self.cold().authentication = raw.map(Box::from);
        Ok(credentials)
    }

    /// Keeps a message that came before the login was decided.
    pub(super) fn keep_early(&mut self, frame: &[u8]) -> Result<(), Close> {
        let early = &mut self.cold().early;
        if early.len() + frame.len() + LENGTH_BYTES > EARLY_BYTES_MAX {
            let reason = format!(
                "more than {EARLY_BYTES_MAX} bytes came before the login was done; wait for an answer"
            );
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        early.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        early.extend_from_slice(frame);
        Ok(())
    }

    /// The login was accepted.
    pub(super) fn logged_in(
        &mut self,
        now: Now,
        name: Option<Arc<str>>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.state != State::LoggingIn {
            return Ok(());
        }
        self.name = name;
        self.state = State::Established;
        self.last_received = now.time;
        self.writer.count(|counters| counters.opened.add(1));
        let cold = self.cold();
        let secret = cold.secret;
        if let Some(token) = cold.token.take() {
            context.use_client_session_id(token);
            self.writer.kept = Some(Box::new(Kept::new(secret)));
            // Until it is refused: requests are answered meanwhile, and the connection may be cut.
            self.marks.set(Marks::ALIASED, true);
        }
        self.grant_lease(now, &mut context.output);
        let early = std::mem::take(&mut self.cold().early);
        let mut rest = early.as_slice();
        let intake = Intake::begin();
        while let Some((len, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
            let len = u32::from_be_bytes(*len) as usize;
            let (frame, behind) = behind.split_at_checked(len).unwrap_or_default();
            rest = behind;
            if self.state == State::Established {
                self.frame(now, frame, context)?;
                intake.check_whole("what came before the login was done")?;
            }
        }
        Ok(())
    }
}

/// The MIME type of that name.
fn mime_of(name: &[u8]) -> Option<Mime<'_>> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii())?;
    Some(Mime::named(name))
}

/// Bytes of the length before an early frame.
const LENGTH_BYTES: usize = 4;
/// What Spring called a bearer token before the specification had one.
const OLD_BEARER: &str = "message/x.rsocket.authentication.bearer.v0";
