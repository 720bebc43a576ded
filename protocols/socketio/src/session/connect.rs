//! Coming into namespaces and leaving them.
//!
//! ```text
//!   Asked ──login──▶ Joining ──subscribed──▶ Connected ──DISCONNECT──▶ gone
//!     └── `/` has nothing to subscribe to ──────▲
//! ```
//! Relies on the broker for who the client is; the first namespace's credentials are the session's.
//! Invariant: a namespace's number is not used again before all that is asked for it is forgotten.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Time};
use tiderace_value::Json;
use tiderace_wire::{Command, Context, Credentials, Output, Position};

use super::event::Event;
use super::namespace::{Namespace, Standing};
use super::recover::Resumed;
use super::state::{Login, LoginFor, SocketSession, Version};
use super::trail::Resume;
use crate::limits::LOGINS_MAX;
use crate::packet::Packet;
use crate::write::Text;
use crate::{ids, query};

impl SocketSession {
    pub(super) fn connect(
        &mut self,
        packet: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = packet.namespace;
        if self.namespaces.find(name).is_some() {
            if self.version == Version::V4 {
                return Ok(());
            }
            let reason = "the namespace is connected already";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        let refused = if name != "/" && !self.is_application(name) {
            Some(Close::new(CloseCode::BadDestination, "Invalid namespace"))
        } else if self.namespaces.free() >= self.options.namespaces_max.min(MOST) {
            let reason = "the connection has too many namespaces; leave some first";
            Some(Close::new(CloseCode::TooManySubscriptions, reason))
        } else {
            None
        };
        if let Some(close) = refused {
            self.write_refusal(name, &close, &mut context.output);
            return Ok(());
        }
        let auth = packet.data.and_then(query::of_object);
        let old = packet.query.filter(|_| self.version == Version::V4);
        let credentials = auth.or_else(|| old.and_then(query::of_query));
        let resume = packet.data.and_then(|data| self.asked_resume(data));
        self.enter(name, credentials, resume, context);
        Ok(())
    }

    /// Comes into a namespace, as soon as the client is known.
    pub(super) fn enter(
        &mut self,
        name: &str,
        credentials: Option<Credentials>,
        resume: Option<Resume>,
        context: &mut Context<'_>,
    ) {
        let (sid, pid) = self.new_ids();
        let number = self.namespaces.insert(Namespace::new(name, sid, pid));
        if let Some(resume) = resume {
            self.cold().resumes.insert(number, resume);
        }
        match self.login {
            Login::Done => self.admit(number, context),
            Login::Pending => {}
            Login::None => {
                let request = self.cold.as_ref().and_then(|cold| cold.credentials.clone());
                let credentials = credentials.or(request).unwrap_or_default();
                self.login = Login::Pending;
                self.cold().logins.push_back(LoginFor::Connect);
                context.commands.push(Command::Login(credentials));
            }
        }
    }

    fn new_ids(&mut self) -> (u64, u128) {
        self.connects = self.connects.wrapping_add(1);
        let secret = self.secret();
        (ids::socket(secret, self.connects), ids::recovery(secret, self.connects))
    }

    fn asked_resume(&self, data: Json<'_>) -> Option<Resume> {
        if !self.remembers() {
            return None;
        }
        let pid = ids::parse_recovery(&data.field("pid")?.as_text()?)?;
        let offset = data.field("offset").and_then(Json::as_text);
        Some(Resume::new(pid, offset.and_then(|text| Position::decode(&text))))
    }

    pub(super) fn logged_in(&mut self, name: Arc<str>, anonymous: bool, context: &mut Context<'_>) {
        (self.principal, self.anonymous) = (Some(name), anonymous);
        let whose = self.cold.as_mut().and_then(|cold| cold.logins.pop_front());
        if let Some(LoginFor::Event { namespace, ack }) = whose {
            return self.succeed(namespace, ack, None, &mut context.output);
        }
        self.login = Login::Done;
        if let Some(cold) = &mut self.cold {
            cold.credentials = None;
        }
        for number in self.namespaces.numbers(Standing::Asked) {
            self.admit(number, context);
        }
    }

    /// Shows the broker new credentials, such as a token that is valid for longer.
    pub(super) fn login_again(
        &mut self,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let credentials = query::of_object(event.value(0)?)
            .ok_or_else(|| event.wrong("its argument is {token} or {user, password}"))?;
        if self.cold().logins.len() >= LOGINS_MAX {
            return Err(CloseCode::TooManyLogins.into());
        }
        let (namespace, ack) = (event.namespace, event.ack);
        self.cold().logins.push_back(LoginFor::Event { namespace, ack });
        context.commands.push(Command::Login(credentials));
        Ok(())
    }

    /// The login that was asked for first was refused.
    pub(super) fn login_refused(&mut self, close: &Close, context: &mut Context<'_>) {
        match self.cold.as_mut().and_then(|cold| cold.logins.pop_front()) {
            Some(LoginFor::Event { namespace, ack }) => {
                self.fail(namespace, ack, "login", close, &mut context.output);
            }
            Some(LoginFor::Connect) | None => {
                self.login = Login::None;
                for number in self.namespaces.numbers(Standing::Asked) {
                    self.refuse_namespace(number, close, &mut context.output);
                }
            }
        }
    }

    /// The client is known: what is left to do before the namespace is connected?
    fn admit(&mut self, number: u8, context: &mut Context<'_>) {
        match self.resume(number, context) {
            Resumed::No => {}
            Resumed::Waits => return,
            Resumed::Failed => return self.go_on(number, false, context),
        }
        match self.namespaces.get(number).map(Namespace::is_main) {
            Some(true) => self.connected(number, context),
            Some(false) => {
                if let Err(close) = self.join_namespace(number, context) {
                    self.refuse_namespace(number, &close, &mut context.output);
                }
            }
            None => {}
        }
    }

    /// The subscriptions of a namespace that was before are made again: it goes on if nothing is missing, and
    /// else begins anew.
    pub(super) fn go_on(&mut self, number: u8, complete: bool, context: &mut Context<'_>) {
        if complete {
            return self.connected(number, context);
        }
        self.drop_subscriptions(number, context);
        let (sid, pid) = self.new_ids();
        if let Some(namespace) = self.namespaces.get_mut(number) {
            namespace.sid = sid;
            namespace.set_pid(pid);
        }
        self.admit(number, context);
    }

    /// Tells the client, and then what has waited for that.
    pub(super) fn connected(&mut self, number: u8, context: &mut Context<'_>) {
        let remembers = self.remembers();
        let version = self.version;
        let Some(namespace) = self.namespaces.get_mut(number) else { return };
        namespace.standing = Standing::Connected;
        self.deadline = Time::NEVER;
        let mut text = Text::new(b'0', namespace.name(), None);
        if version == Version::V5 {
            text.raw("{\"sid\":");
            text.text(&ids::spell_socket(namespace.sid));
            if remembers {
                text.raw(",\"pid\":");
                text.text(&ids::spell_recovery(namespace.pid()));
            }
            text.raw("}");
        }
        context.output.frame(text.bytes(), true);
        let keys = self.subscriptions.of(number);
        let held = match &mut self.cold {
            Some(cold) => cold.held.take(|key| keys.binary_search(&key).is_ok()),
            None => Vec::new(),
        };
        for held in held {
            held.pass(|delivery| self.pass_on(delivery, &mut context.output));
        }
    }

    /// Says no to a namespace and forgets it.
    pub(super) fn refuse_namespace(&mut self, number: u8, close: &Close, output: &mut Output<'_>) {
        if let Some(namespace) = self.namespaces.remove(number) {
            self.write_refusal(namespace.name(), close, output);
        }
        if let Some(cold) = &mut self.cold {
            cold.resumes.remove(&number);
        }
    }

    fn write_refusal(&self, name: &str, close: &Close, output: &mut Output<'_>) {
        let mut text = Text::new(b'4', name, None);
        if self.version == Version::V4 {
            text.text(&close.reason);
        } else {
            text.raw("{\"message\":");
            text.text(&close.reason);
            text.raw(",\"data\":{\"code\":");
            text.text(close.code.slug());
            text.raw("}}");
        }
        output.frame(text.bytes(), true);
    }

    /// The client leaves a namespace: all it had there ends.
    pub(super) fn leave_namespace(&mut self, number: u8, context: &mut Context<'_>) {
        self.drop_subscriptions(number, context);
        self.cancel_all(number, context);
        if let Some(cold) = &mut self.cold {
            cold.questions.forget_namespace(number);
            cold.resumes.remove(&number);
            for login in &mut cold.logins {
                if let LoginFor::Event { namespace, ack } = login
                    && *namespace == number
                {
                    (*namespace, *ack) = (u8::MAX, None);
                }
            }
        }
        self.namespaces.remove(number);
    }

    /// Ends all subscriptions of a namespace, and forgets what has waited for it.
    fn drop_subscriptions(&mut self, number: u8, context: &mut Context<'_>) {
        let keys = self.subscriptions.of(number);
        if let Some(cold) = &mut self.cold {
            cold.held.take(|key| keys.binary_search(&key).is_ok());
            cold.exchanges.forget_asked(&keys);
        }
        for key in keys {
            self.subscriptions.remove(key);
            context.commands.push(Command::Unsubscribe { key, confirm: None });
        }
    }
}

/// Numbers of namespaces are bytes, and one of them means none.
const MOST: usize = 255;
