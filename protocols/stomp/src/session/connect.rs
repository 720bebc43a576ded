//! CONNECT and STOMP: version, heart-beats, credentials (STOMP 1.2, "Connecting").
//!
//! Relies on the broker to judge the credentials. Invariant: nothing but a login is asked of the
//! broker before the login is answered.

use std::borrow::Cow;

use tiderace_base::{Close, Now, Span};
use tiderace_wire::{Command, Context, Credentials};

use super::heart_beat::interval;
use super::request::{Request, number};
use super::state::{State, StompSession};
use crate::error::{bad_header, shown};
use crate::header::Headers;
use crate::server_frame::{self, Connected};
use crate::version::Version;

impl StompSession {
    pub(super) fn connect(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let version = request.version()?;
        self.version = version;
        let headers = Headers { version, ..request.headers };
        let request = Request { command: request.command, headers };
        if version > Version::V10 {
            self.agree_on_heart_beats(&request)?;
        }
        let credentials = credentials(&request)?;
        self.named = credentials != Credentials::default();
        let host = request.find("host")?.filter(|host| !host.is_empty());
        let credentials = Credentials { host: host.map(Cow::into_owned), ..credentials };
        self.state = State::LoggingIn;
        self.heart_beat.login_pending();
        context.commands.push(Command::Login(credentials));
        Ok(())
    }

    /// The login succeeded: the conversation begins.
    pub(super) fn logged_in(&mut self, now: Now, name: &str, context: &mut Context<'_>) {
        if self.state != State::LoggingIn {
            return;
        }
        self.state = State::Established;
        self.heart_beat.begin(now.time);
        // What was not agreed on is not announced either: some clients take the announcement for
        // the agreement.
        let (sends, receives) = self.heart_beat.agreed();
        let offers = (
            if sends { self.options.heart_beat_send } else { Span::ZERO },
            if receives { self.options.heart_beat_receive } else { Span::ZERO },
        );
        let connected = Connected {
            version: self.version,
            server: &self.options.server,
            session: self.temporary.session(),
            heart_beat: (self.version > Version::V10).then_some(offers),
            user: (self.named && !name.is_empty()).then_some(name),
        };
        server_frame::connected(&connected, &mut context.output);
    }

    fn agree_on_heart_beats(&mut self, request: &Request<'_>) -> Result<(), Close> {
        let Some(text) = request.headers.find_raw("heart-beat") else {
            return Ok(());
        };
        let pair = text.split(|byte| *byte == b',').map(number).collect::<Option<Vec<u64>>>();
        let Some(&[can, wants]) = pair.as_deref() else {
            let text = format_args!(
                "`heart-beat:{}` is not two numbers of milliseconds, joined by a comma.",
                shown(text)
            );
            return Err(bad_header(request.command, text));
        };
        let milliseconds = |span: std::time::Duration| span.as_millis() as u64;
        let send = interval(milliseconds(self.options.heart_beat_send), wants);
        let receive = interval(can, milliseconds(self.options.heart_beat_receive));
        self.heart_beat.agree(send, receive);
        Ok(())
    }
}

/// Who the client says it is. A token comes as `token`, as `Authorization: Bearer`, or as the
/// passcode of an empty login.
fn credentials(request: &Request<'_>) -> Result<Credentials, Close> {
    let find = |name: &str| -> Result<Option<String>, Close> {
        let value = request.find(name)?;
        Ok(value.filter(|value| !value.is_empty()).map(|value| value.into_owned()))
    };
    let (login, passcode, token) = (find("login")?, find("passcode")?, find("token")?);
    let mut credentials = Credentials { login, passcode, token, host: None };
    if credentials.token.is_none()
        && let Some(value) = find("Authorization")?
        && let Some(token) = value.strip_prefix("Bearer ")
    {
        credentials.token = Some(token.trim().to_owned());
    }
    if credentials.login.is_none() && credentials.token.is_none() {
        credentials.token = credentials.passcode.take();
    }
    Ok(credentials)
}
