//! SETUP, the login, and what comes before it is decided.
//!
//! Relies on the broker for who the client is. Invariants: whatever SETUP asks for is checked before
//! anything is asked of the broker; what comes behind it waits within a bound.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Command, Context, Credentials};

use super::describe::{SetupMimes, authentication_of};
use super::early::EarlyFrames;
use super::kept::Kept;
use super::resume::check_version;
use super::state::{Marks, RSocketSession, State};
use crate::frame::Setup;
use crate::metadata::{Authentication, Described, Mime};

impl RSocketSession {
    /// SETUP, the first frame of a session.
    ///
    /// # Errors
    /// When what it says cannot be.
    pub(super) fn setup(
        &mut self,
        setup: &Setup<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
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
        self.watch.set_lifetime(setup.lifetime_ms, &self.writer.options);
        self.mimes = SetupMimes::new(metadata_mime, data_mime);
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

    /// Who SETUP says the client is.
    fn credentials(
        &mut self,
        mime: Mime<'_>,
        metadata: Option<&[u8]>,
    ) -> Result<Credentials, Close> {
        let Some(metadata) = metadata else { return Ok(Credentials::default()) };
        let mut raw = None;
        let (mut older, mut host) = (None, None);
        let wrong = |error: crate::metadata::MetadataError| {
            Close::new(CloseCode::BadHeader, error.to_string())
        };
        let described = Described::read_with(mime, metadata, |mime, bytes| match mime.name() {
            Some(OLD_BEARER) => older = std::str::from_utf8(bytes).ok(),
            Some(HOST) => host = std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => {}
        })
        .map_err(wrong)?;
        if mime == Mime::AUTHENTICATION {
            raw = Some(metadata);
        } else if described.authentication.is_some() {
            raw = authentication_of(metadata);
        }
        let credentials = match (described.authentication, older) {
            (None, None) => return Ok(Credentials { host, ..Credentials::default() }),
            (None, Some(token)) => {
                Credentials { token: Some(token.to_owned()), ..Credentials::default() }
            }
            (Some(Authentication::Simple { user, password }), _) => Credentials {
                login: Some(user.to_owned()),
                passcode: Some(password.to_owned()),
                ..Credentials::default()
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
        Ok(Credentials { host, ..credentials })
    }

    /// The login was accepted. The frames that came before that, whose turn it is now.
    pub(super) fn logged_in(
        &mut self,
        now: Now,
        name: Option<Arc<str>>,
        context: &mut Context<'_>,
    ) -> EarlyFrames {
        if self.state != State::LoggingIn {
            return EarlyFrames::default();
        }
        self.name = name;
        self.state = State::Established;
        self.watch.restart(now.time);
        self.writer.count(|counters| counters.opened.add(1));
        let cold = self.cold();
        let secret = cold.secret;
        if let Some(token) = cold.token.take() {
            context.use_client_session_id(token);
            self.writer.kept = Some(Box::new(Kept::new(secret)));
            // Until it is refused: requests are answered meanwhile, and the connection may be cut.
            self.marks.set(Marks::HAS_SESSION_ID, true);
        }
        self.grant_lease(now.time, context);
        std::mem::take(&mut self.cold().early)
    }
}

/// The MIME type of that name.
fn mime_of(name: &[u8]) -> Option<Mime<'_>> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii())?;
    Some(Mime::named(name))
}

/// The name by which a client wants to reach the server.
const HOST: &str = "message/x.tiderace.host";
/// What Spring called a bearer token before the specification had one.
const OLD_BEARER: &str = "message/x.rsocket.authentication.bearer.v0";
