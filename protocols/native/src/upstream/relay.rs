//! Requests of this node's clients, and what the upstream answers.
//!
//! Each message of a run is a request of its own, so that nothing of a run that the upstream divides is taken or refused
//! untold. Relies on the broker for how much is under way. Invariants: what the upstream would end the connection for is
//! refused here, since it would end that of all clients; each request is answered once, when all of it is.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Context, EndPrincipal, Flags, FromUpstream, Message, Operation, OperationResult, Output, Run,
};

use super::fault::broken;
use super::subscriptions::Request;
use super::{State, UpstreamSession};
use crate::codec::{
    AsMessage, ClientMessage, Destination, OperateMessage, PrincipalMessage, Publish,
    check_properties, flag, split_content,
};
use crate::limits::{AS_MESSAGES_MAX, BATCH_BYTES_MAX, BESIDE_BODY_BYTES_MIN};

impl UpstreamSession {
    /// Messages of a client of this node.
    pub(super) fn relay_messages(
        &mut self,
        now: Now,
        (number, principal): (u32, Arc<EndPrincipal>),
        run: &Run,
        context: &mut Context<'_>,
    ) {
        let path = run.destination().path.as_str();
        let checked = self.check_relay(&principal).and_then(|()| {
            run.messages().try_for_each(|message| self.check_message(path, &message))
        });
        if let Err(close) = checked {
            return self
                .tell(FromUpstream::Answered { request: number, result: Err(close) }, context);
        }
        self.relays.begin(number, run.len());
        let batch_bytes_max = BATCH_BYTES_MAX.min(self.relays.message_bytes_max);
        let (mut messages, mut count) = (Vec::new(), 0);
        for message in run.messages() {
            let (content, properties) = split_content(message.properties);
            let room = HEAD_BYTES + path.len() + properties.len() + message.body.len();
            if count == AS_MESSAGES_MAX || count > 0 && messages.len() + room > batch_bytes_max {
                self.say_as(&principal, &messages, &mut context.output);
                messages.clear();
                count = 0;
            }
            let request = self.subscriptions.request(Request::Relayed(number));
            let marks = [
                (Flags::RETAIN, flag::RETAIN),
                (Flags::RETAIN_REMOVE, flag::REMOVE),
                (Flags::PERSISTENT, flag::PERSISTENT),
            ];
            let marks = marks.iter().filter(|(mark, _)| message.flags.contains(*mark));
            let fields = if has_queue_fields(&message) { flag::QUEUE_FIELDS } else { 0 };
            let publish = Publish {
                request,
                flags: marks.fold(content.bits() | fields, |all, (_, bit)| all | bit),
                destination: Destination::Path(run.destination().kind, path),
                expires_ms: message.expires_ms.map(|at| at.saturating_sub(now.wall_ms)),
                properties,
                body: message.body,
            };
            ClientMessage::Publish(publish).write(&mut messages);
            count += 1;
        }
        self.say_as(&principal, &messages, &mut context.output);
    }

    /// An operation of a client of this node.
    pub(super) fn relay_operation(
        &mut self,
        (number, principal): (u32, Arc<EndPrincipal>),
        operation: &Operation,
        context: &mut Context<'_>,
    ) {
        let mut text = Vec::new();
        let written = self.check_relay(&principal).and_then(|()| {
            let body = operation.write_json(&mut text);
            let body = body.ok_or_else(|| Close::from(CloseCode::BadRequest))?;
            let text = std::str::from_utf8(&text).map_err(|_| Close::from(CloseCode::BadText))?;
            self.check_bytes(text.len() + body.map_or(0, <[u8]>::len), 0)?;
            Ok((text, body))
        });
        let (operation, body) = match written {
            Ok(written) => written,
            Err(close) => {
                let result = Err(close);
                return self.tell(FromUpstream::Answered { request: number, result }, context);
            }
        };
        self.relays.begin(number, 1);
        let request = self.subscriptions.request(Request::Relayed(number));
        let mut message = Vec::new();
        ClientMessage::Operate(OperateMessage { request, operation, body }).write(&mut message);
        self.say_as(&principal, &message, &mut context.output);
    }

    /// A request of the protocol that belongs to one of a client is answered.
    pub(super) fn relay_answered(
        &mut self,
        number: u32,
        answer: Result<OperationResult, Close>,
        context: &mut Context<'_>,
    ) {
        if let Some(result) = self.relays.answered(number, answer) {
            self.tell(FromUpstream::Answered { request: number, result }, context);
        }
    }

    /// RESULT.
    pub(super) fn resulted(
        &mut self,
        request: u32,
        text: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Some(Request::Relayed(number)) = self.subscriptions.waiting(request) else {
            return Err(broken("a RESULT answers nothing that was asked"));
        };
        let result = OperationResult::parse(text.as_bytes())
            .ok_or_else(|| broken("a RESULT does not say what came of its operation"))?;
        self.subscriptions.answered(request);
        self.relay_answered(number, Ok(result), context);
        Ok(())
    }

    /// Says messages for a principal, of whom the upstream is told first if it does not know that one.
    pub(super) fn say_as(
        &mut self,
        principal: &Arc<EndPrincipal>,
        messages: &[u8],
        output: &mut Output<'_>,
    ) {
        let (id, is_new) = self.relays.id_of(principal);
        let mut bytes = Vec::new();
        if is_new {
            // Apart, so that the upstream takes each message of the transport, however long both are.
            ClientMessage::Principal(PrincipalMessage::of(id, principal)).write(&mut bytes);
            output.frame(&bytes, false);
            bytes.clear();
        }
        bytes.reserve(messages.len() + HEAD_BYTES);
        ClientMessage::As(AsMessage { principal: id, messages }).write(&mut bytes);
        output.frame(&bytes, false);
    }

    pub(super) fn check_relay(&self, principal: &EndPrincipal) -> Result<(), Close> {
        if self.state != State::Up || !self.relays.are_taken {
            let reason = "the upstream does not take requests of this node's clients";
            return Err(Close::new(CloseCode::UpstreamAway, reason));
        }
        // Each text has its length before it.
        let rows = principal.groups().len() + 2 * principal.claims().len();
        let (bytes, most) = (principal.bytes() + 3 * rows, self.relays.message_bytes_max);
        if bytes <= most.saturating_add(BESIDE_BODY_BYTES_MIN - HEAD_BYTES) {
            return Ok(());
        }
        let reason = format!(
            "the groups and claims of {} have {bytes} bytes; the server that keeps the topic takes {most} at a time",
            principal.name()
        );
        Err(Close::new(CloseCode::NotAuthorised, reason))
    }

    pub(super) fn check_message(&self, path: &str, message: &Message<'_>) -> Result<(), Close> {
        let (_, properties) = split_content(message.properties);
        check_properties(properties).map_err(|_| {
            let reason = "properties are passed on to another server only up to 65536 bytes, as lines of `name:value`";
            Close::new(CloseCode::BadHeader, reason)
        })?;
        self.check_bytes(message.body.len() + properties.len(), path.len())
    }

    /// Whether the upstream takes so many bytes, beside so many of a path.
    fn check_bytes(&self, bytes: usize, of_path: usize) -> Result<(), Close> {
        let most = self.relays.message_bytes_max;
        let whole = most.saturating_add(BESIDE_BODY_BYTES_MIN - HEAD_BYTES);
        if bytes <= most && bytes + of_path <= whole {
            return Ok(());
        }
        let reason = format!(
            "it has {bytes} bytes, beside {of_path} of its path; the server that keeps the topic takes {most}"
        );
        Err(Close::new(CloseCode::BodyTooLarge, reason))
    }
}

/// Whether the properties say something to a queue: the upstream would take them for properties like others.
fn has_queue_fields(message: &Message<'_>) -> bool {
    let marks = [Flags::DELAYED, Flags::GROUPED];
    marks.iter().any(|mark| message.flags.contains(*mark))
        || message.flags.priority() != Flags::NONE.priority()
}

/// Types, lengths and ids of a message of the protocol and of the AS around it.
const HEAD_BYTES: usize = 64;
