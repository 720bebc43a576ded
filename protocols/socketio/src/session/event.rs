//! Events of clients: their arguments, and who takes them.
//!
//! Relies on packets having been checked. Invariant: a mistake in an event costs its answer, never
//! the connection.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_topics::Path;
use tiderace_value::{Json, JsonKind};
use tiderace_wire::{Command, Context, Kind, Target, parse_path, parse_selector, shown};

use super::SocketSession;
use super::connect::LoginFor;
use super::namespace::Namespace;
use super::subscriptions::Listening;
use crate::limits::LOGINS_MAX;
use crate::query;

/// One event of a client.
pub(super) struct Event<'a> {
    /// The number of its namespace.
    pub(super) namespace: u8,
    pub(super) ack: Option<u64>,
    pub(super) name: Cow<'a, str>,
    pub(super) attachments: &'a [Vec<u8>],
    arguments: [Option<Json<'a>>; 3],
    /// All arguments as they were written, joined by commas, and the closing bracket.
    pub(super) rest: &'a str,
}

impl<'a> Event<'a> {
    pub(super) fn new(
        namespace: u8,
        ack: Option<u64>,
        data: Json<'a>,
        attachments: &'a [Vec<u8>],
    ) -> Event<'a> {
        let mut elements = data.elements();
        let name = elements.next().unwrap_or(Json::NULL);
        let name = name.as_text().unwrap_or(Cow::Borrowed(name.text()));
        let rest = elements.rest();
        let arguments = [elements.next(), elements.next(), elements.next()];
        Event { namespace, ack, name, attachments, arguments, rest }
    }

    /// The argument at that place.
    pub(super) fn argument(&self, place: usize) -> Option<Json<'a>> {
        self.arguments.get(place).copied().flatten()
    }

    /// An argument that must be there.
    pub(super) fn value(&self, place: usize) -> Result<Json<'a>, Close> {
        self.argument(place).ok_or_else(|| self.wrong("an argument is missing"))
    }

    /// A name that must be there.
    pub(super) fn text(&self, place: usize) -> Result<Cow<'a, str>, Close> {
        let text = self.argument(place).and_then(Json::as_text);
        text.ok_or_else(|| self.wrong("its first argument is a string"))
    }

    /// The options at that place: an object, or nothing.
    pub(super) fn options(&self, place: usize) -> Result<Json<'a>, Close> {
        match self.argument(place) {
            None => Ok(Json::NULL),
            Some(options) if matches!(options.kind(), JsonKind::Object | JsonKind::Null) => {
                Ok(options)
            }
            Some(_) => Err(self.wrong("its options are an object")),
        }
    }

    /// An option that is true or false.
    pub(super) fn truth(&self, options: Json<'_>, name: &str, usual: bool) -> Result<bool, Close> {
        match options.field(name) {
            None => Ok(usual),
            Some(value) if value.is_null() => Ok(usual),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| self.wrong(&format!("its option `{name}` is true or false"))),
        }
    }

    /// An option that is a whole number.
    pub(super) fn number(&self, options: Json<'_>, name: &str) -> Result<Option<u64>, Close> {
        match options.field(name) {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => value
                .as_unsigned()
                .map(Some)
                .ok_or_else(|| self.wrong(&format!("its option `{name}` is a whole number"))),
        }
    }

    /// Says what is wrong with the event.
    pub(super) fn wrong(&self, what: &str) -> Close {
        Close::new(CloseCode::BadFrame, format!("`{}`: {what}", shown(&self.name)))
    }
}

impl SocketSession {
    pub(super) fn event(
        &mut self,
        now: Now,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let main = self.namespaces.get(event.namespace).is_some_and(Namespace::is_main);
        let result = if main {
            self.main_event(now, event, context)
        } else {
            self.room_event(event, context)
        };
        result.or_else(|close| {
            let name = shown(&event.name).into_owned();
            let (namespace, ack) = (event.namespace, event.ack);
            close.answered(|close| self.fail(namespace, ack, &name, close, &mut context.output))
        })
    }

    fn main_event(
        &mut self,
        now: Now,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match &*event.name {
            "publish" => self.publish(now, event, "publish", Kind::Topic, context),
            "send" => self.publish(now, event, "send", Kind::Queue, context),
            "subscribe" => self.subscribe(event, context),
            "unsubscribe" => self.stop_listening(event, "unsubscribe", Listening::Topic, context),
            "receive" => self.consume(event, "receive", Listening::Queue, context),
            "cancel" => self.stop_listening(event, "cancel", Listening::Queue, context),
            "serve" => self.consume(event, "serve", Listening::Service, context),
            "unserve" => self.stop_listening(event, "unserve", Listening::Service, context),
            "call" => self.call(event, true, context),
            "open" => self.call(event, false, context),
            "say" => self.say(event, context),
            "end" => self.end(event, context),
            "operate" => self.operate(now, event, context),
            "login" => self.login_again(event, context),
            _ => {
                let reason = format!("`{}` is no event of the server", shown(&event.name));
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
        }
    }

    /// Shows the broker new credentials, such as a token that is valid for longer.
    fn login_again(&mut self, event: &Event<'_>, context: &mut Context<'_>) -> Result<(), Close> {
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

    /// The path of that name; `~/` begins with the client's own.
    pub(super) fn path(&self, name: &str) -> Result<Path, Close> {
        parse_path(name, self.owner())
    }

    /// Whose topics `~/` stands for: nobody's for anonymous clients.
    fn owner(&self) -> Option<&str> {
        self.principal.as_deref().filter(|_| !self.anonymous)
    }

    /// What a name of topics stands for: one, or a selector of many.
    pub(super) fn topics(&self, name: &str) -> Result<Vec<Target>, Close> {
        let selector = parse_selector(name, self.owner())?;
        Ok(Target::of(Kind::Topic, selector))
    }
}
