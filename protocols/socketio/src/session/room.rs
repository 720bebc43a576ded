//! Application namespaces: what clients emit is passed on, rooms are topics.
//!
//! ```text
//!   /app            ⇄  topic io/app          everybody in the namespace
//!   room r of /app  ⇄  topic io/app/r        who has joined it
//!   emit(name, x)   ⇄  property event:name, body x
//!   emit(name, …)   ⇄  the same, with arguments:list and an array of them
//! ```
//! Relies on the broker's rules for who may join and emit. Invariant: what a back end publishes in
//! this form is the event that clients get, and the other way round.

use tiderace_base::Close;
use tiderace_value::{Json, JsonKind};
use tiderace_wire::{Context, Destination, Kind, Meta, properties};

use super::event::Event;
use super::namespace::Standing;
use super::state::SocketSession;
use super::subscribe::Begins;
use super::subscriptions::{Listening, Subscription};
use crate::body::body_of;
use crate::ids;

impl SocketSession {
    /// Whether the namespace passes its clients' events on.
    pub(super) fn is_application(&self, name: &str) -> bool {
        let listed = &self.options.application_namespaces;
        if listed.iter().any(|known| known == name) {
            return true;
        }
        let single = name.strip_prefix('/').is_some_and(|level| !level.contains('/'));
        single && listed.iter().any(|known| known == "*") && self.room_path(name, "").is_ok()
    }

    /// Subscribes a client that comes into a namespace to the namespace's own topic.
    pub(super) fn join_namespace(
        &mut self,
        number: u8,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if let Some(namespace) = self.namespaces.get_mut(number) {
            namespace.standing = Standing::Joining;
        }
        self.listen(self.room(number, ""), Begins::default(), (None, "connect"), context)
    }

    fn room(&self, namespace: u8, name: &str) -> Subscription {
        Subscription {
            name: name.into(),
            choices: None,
            namespace,
            listening: Listening::Room,
            recoverable: self.options.application_recovery && self.remembers(),
            explicit: false,
            snapshot: true,
        }
    }

    /// An event in an application namespace: `join(room, ack?)`, `leave(room, ack?)`,
    /// `to(room, name, …)`, or one of the application's own.
    pub(super) fn room_event(
        &mut self,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match &*event.name {
            "join" => {
                let room = event.text(0)?;
                if room.is_empty() {
                    return Err(event.wrong("a room has a name"));
                }
                {
                    let room = self.room(event.namespace, &room);
                    self.listen(room, Begins::default(), (event.ack, "join"), context)
                }
            }
            "leave" => {
                if event.text(0)?.is_empty() {
                    return Err(event.wrong("a room has a name"));
                }
                self.stop_listening(event, "leave", Listening::Room, context)
            }
            "to" => {
                let room = event.text(0)?;
                let name = event.value(1)?;
                let name = name.as_text();
                let name = name.ok_or_else(|| event.wrong("its second argument is an event"))?;
                let all = format!("[{}", event.rest);
                let arguments = parsed(event, &all)?;
                let mut elements = arguments.elements();
                elements.nth(1);
                self.emit(event, &room, &name, elements.rest(), context)
            }
            _ => self.emit(event, "", &event.name, event.rest, context),
        }
    }

    /// Publishes an event; `rest` is its arguments and a closing bracket.
    fn emit(
        &mut self,
        event: &Event<'_>,
        room: &str,
        name: &str,
        rest: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let namespace = self.namespaces.get(event.namespace);
        let Some(namespace) = namespace else { return Ok(()) };
        let path = self.room_path(namespace.name(), room)?;
        let all = format!("[{rest}");
        let arguments = parsed(event, &all)?;
        let mut elements = arguments.elements();
        let single = elements.next().filter(|_| elements.next().is_none());
        let (body, content_type) = body_of(single.unwrap_or(arguments), event.attachments);
        let mut block = Vec::with_capacity(96);
        properties::append(&mut block, "content-type", content_type);
        properties::append(&mut block, "event", name);
        if single.is_none() {
            properties::append(&mut block, "arguments", "list");
        }
        properties::append(&mut block, "from", &ids::spell_socket(namespace.sid));
        let destination = Destination { kind: Kind::Topic, path };
        self.put(event, "emit", &destination, &block, &body, Meta::default(), context)
    }
}

fn parsed<'a>(event: &Event<'_>, text: &'a str) -> Result<Json<'a>, Close> {
    let parsed = Json::parse(text.as_bytes(), tiderace_value::DEPTH_MAX).ok();
    let array = parsed.filter(|parsed| parsed.kind() == JsonKind::Array);
    array.ok_or_else(|| event.wrong("its arguments are out of order"))
}
