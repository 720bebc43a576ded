//! DECLARE and PUBLISH.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Context, Destination, Flags, Kind, Meta, QueueFields, properties};

use super::{NativeSession, refuse};
use crate::codec::{self, Content, Publish, flag};

impl NativeSession {
    pub(super) fn declare(&mut self, declared: u32, kind: Kind, path: &str) -> Result<(), Close> {
        let most = self.options.declarations_max;
        let place = (declared as usize).checked_sub(1).filter(|place| *place < most);
        let Some(place) = place else {
            let reason = format!("declared ids are 1 to {most}");
            return Err(Close::new(CloseCode::BadHeader, reason));
        };
        // There is no answer that could say so in a milder way.
        let destination = Destination { kind, path: self.path(path)? };
        let known = &mut self.cold().declared;
        if known.len() <= place {
            known.resize(place + 1, None);
        }
        if let Some(slot) = known.get_mut(place) {
            *slot = Some(destination);
        }
        Ok(())
    }

    pub(super) fn publish(
        &mut self,
        now: Now,
        message: &Publish<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = self.token(message.request)?;
        if let Err(close) = self.check_size(message.body) {
            return refuse(message.request, close, context);
        }
        let has = |flag| message.flags & flag != 0;
        if has(flag::RETAIN) && has(flag::REMOVE) {
            let reason = "a message cannot become the current value and remove it";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        let parsed;
        let destination = match self.declared(message.destination)? {
            Some(destination) => destination,
            None => match self.in_full(message.destination) {
                Ok(destination) => {
                    parsed = destination;
                    &parsed
                }
                Err(close) => return refuse(message.request, close, context),
            },
        };
        if destination.kind == Kind::Service {
            let reason = "a service is called, not published to";
            let close = Close::new(CloseCode::BadDestination, reason);
            return refuse(message.request, close, context);
        }
        let mut flags = Flags::NONE;
        for (bit, mark) in [
            (flag::RETAIN, Flags::RETAIN),
            (flag::REMOVE, Flags::RETAIN_REMOVE),
            (flag::PERSISTENT, Flags::PERSISTENT),
        ] {
            if has(bit) {
                flags = flags | mark;
            }
        }
        let fields = match has(flag::QUEUE_FIELDS) {
            true => match queue_fields(now, destination.kind, message.properties) {
                Ok(fields) => Some(fields),
                Err(close) => return refuse(message.request, close, context),
            },
            false => None,
        };
        if message.properties.contains(&b'\\') {
            flags = flags | Flags::ESCAPED;
        }
        let block = context.commands.message(destination);
        let content = Content::of(message.flags).line();
        let room = content.len() + message.properties.len() + message.body.len();
        match block.capacity() {
            // The first of its run and mostly the only one.
            0 => block.reserve_exact(room),
            _ => block.reserve(room),
        }
        block.extend_from_slice(content);
        match fields {
            None => block.extend_from_slice(message.properties),
            Some((properties, marks)) => {
                flags = flags | marks;
                block.extend_from_slice(&properties);
            }
        }
        let expires_ms = message.expires_ms.map(|span| now.wall_ms.saturating_add(span));
        context.commands.publish(message.body, Meta { flags, expires_ms }, token);
        Ok(())
    }

    pub(super) fn check_size(&self, body: &[u8]) -> Result<(), Close> {
        let most = self.options.message_bytes_max;
        if body.len() <= most {
            return Ok(());
        }
        let reason = format!("a body has {} bytes; the limit is {most}", body.len());
        Err(Close::new(CloseCode::FrameTooLarge, reason))
    }

    /// The destination that an id was declared for; `None` if it is given in full.
    pub(super) fn declared(
        &self,
        destination: codec::Destination<'_>,
    ) -> Result<Option<&Destination>, Close> {
        let codec::Destination::Declared(declared) = destination else { return Ok(None) };
        let place = (declared as usize).wrapping_sub(1);
        let known = self.cold.as_ref().and_then(|cold| cold.declared.get(place)?.as_ref());
        if known.is_some() {
            return Ok(known);
        }
        let reason = format!("the id {declared} was not declared");
        Err(Close::new(CloseCode::BadHeader, reason))
    }

    /// A destination that is given in full.
    pub(super) fn in_full(
        &self,
        destination: codec::Destination<'_>,
    ) -> Result<Destination, Close> {
        match destination {
            codec::Destination::Path(kind, path) => {
                Ok(Destination { kind, path: self.path(path)? })
            }
            codec::Destination::Declared(_) => Err(CloseCode::BadDestination.into()),
        }
    }
}

/// The properties of a message that says something to its queue, what it says in the form in which that is kept; the
/// marks that go with it.
#[cold]
fn queue_fields(now: Now, kind: Kind, given: &[u8]) -> Result<(Vec<u8>, Flags), Close> {
    let mut block = Vec::with_capacity(given.len() + 32);
    let marks = QueueFields::read(given)?.append(now, kind, &mut block)?;
    for line in given.split_inclusive(|byte| *byte == b'\n') {
        let name = properties::raw(line).next().map(|(name, _)| name);
        if !name.is_some_and(QueueFields::has) {
            block.extend_from_slice(line);
        }
    }
    Ok((block, marks))
}
