//! Clients that serve: they register by a request-stream or request-channel to `serve:NAME`, and are
//! sent requests.
//!
//! The demand of the registration is the number of exchanges that may be open with the client. An empty
//! item tells it that it serves. Registered by a request-stream it gets calls as request-response and
//! conversations as request-channel; registered by a request-channel it gets both as request-channel, so
//! that it can answer a call with many items.
//!
//! Relies on `exchange` for what follows the first message. Invariant: without a lease of the client's,
//! where it gives leases, nothing is asked of it.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Command, Context, Delivery, Destination, Exchange, Kind, Output, Prefetch, Subscribe,
    SubscriptionKey, Target, properties,
};

use super::begin::Begin;
use super::cold::Waiting;
use super::describe::{PROPERTIES_MIME, TRACING};
use super::exchange_state::ExchangeState;
use super::state::RSocketSession;
use super::streams::{Form, Stream};
use crate::frame::{Body, Frame, Interaction, Payload, Request};
use crate::limits::{TAG_BYTES_MAX, WINDOW_MAX};
use crate::metadata::{Mime, Tracing, write_entry, write_tag};
use crate::metrics::Role;

impl RSocketSession {
    /// A client wants to serve.
    pub(super) fn serve(
        &mut self,
        begin: &Begin<'_>,
        path: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Begin { stream, request, .. } = *begin;
        if !request.interaction.has_credit() {
            let reason =
                "who serves registers by a request-stream or request-channel, which stays open";
            return Err(Close::new(CloseCode::BadOperation, reason));
        }
        if self.streams.subscriptions() >= self.options().subscriptions_max {
            return Err(CloseCode::TooManySubscriptions.into());
        }
        let path = self.path(path)?;
        let channel = request.interaction == Interaction::Channel;
        let form = Form::default().with(Form::SERVICE, true);
        let key = self.streams.take_key(stream, form);
        self.streams.insert(stream, Stream::Serving { key, channel });
        let token = self.ask(Waiting::Serve(stream, key));
        let target = Target::Exact(Destination { kind: Kind::Service, path });
        let messages = request.credit.min(WINDOW_MAX);
        context.commands.push(Command::Subscribe(Box::new(Subscribe {
            prefetch: Some(Prefetch { messages, bytes: 0 }),
            confirm: Some(token),
            retained: false,
            ..Subscribe::new(key, vec![target])
        })));
        Ok(())
    }

    /// The client serves from now on.
    pub(super) fn serves(&mut self, stream: u32, key: SubscriptionKey, output: &mut Output<'_>) {
        if self.streams.has_key(stream, key) {
            self.writer.item(stream, Payload::default(), false, output);
        }
    }

    /// An exchange begins with a client that serves.
    pub(super) fn serve_request(
        &mut self,
        now: Now,
        exchange: &Exchange,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let registration = self.streams.by_key(delivery.key).map(|slot| slot.stream);
        let registration = registration.and_then(|stream| self.streams.get(stream));
        let Some(Stream::Serving { channel, .. }) = registration else {
            return self.cancel_later(exchange.key, CloseCode::ResponderGone.into());
        };
        let once = exchange.last && !*channel;
        let interaction = if once { Interaction::Response } else { Interaction::Channel };
        let leases = self.cold.as_mut().and_then(|cold| cold.leases.as_mut());
        if leases.is_some_and(|leases| !leases.spend(now.time)) {
            let reason = "who serves has given no lease for another request";
            let close = Close::new(CloseCode::ServiceBusy, reason);
            return self.cancel_later(exchange.key, close);
        }
        let run = delivery.run.run();
        let Some(message) = run.message(delivery.from) else { return };
        let stream = self.streams.next_own();
        self.writer.count(|counters| counters.start(interaction.into(), Role::Requester));
        let wanted = if once { Some(1) } else { exchange.credit.map(|credit| credit.max(1)) };
        let mut state = ExchangeState::new(exchange.key, interaction, 0)
            .wanting(wanted)
            .with_last(false, exchange.last);
        let granted = state.grant(self.options().channel_window);
        state.properties = self.mimes.is_composite();
        self.streams.insert(stream, Stream::Exchange(Box::new(state)));
        self.cold().served.insert(exchange.key.number, stream);
        let path = run.destination().path.as_str();
        let metadata = self.request_metadata(path, message.properties);
        let payload = Payload { metadata: metadata.as_deref(), data: message.body };
        let credit = if once { 0 } else { granted };
        let complete = exchange.last && !once;
        let request = Request { interaction, follows: false, complete, credit, payload };
        self.writer.send(Frame { stream, body: Body::Request(request) }, output);
    }

    /// What a request of ours says of itself: the service, and the properties of its message.
    fn request_metadata(&self, path: &str, block: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(path.len() + block.len() + ENTRIES_BYTES);
        let mut tag = Vec::with_capacity(path.len() + 1);
        // Longer ones have no tag; their responder tells them by their properties.
        if path.len() <= TAG_BYTES_MAX {
            write_tag(path, &mut tag);
        }
        if self.mimes.is_composite() {
            write_entry(Mime::ROUTING, &tag, &mut out);
            if let Some(tracing) = properties::find(block, TRACING)
                && let Some(tracing) = Tracing::from_b3(&tracing)
            {
                let mut bytes = Vec::new();
                tracing.write(&mut bytes);
                write_entry(Mime::TRACING, &bytes, &mut out);
            }
            if !block.is_empty() {
                write_entry(Mime::Name(PROPERTIES_MIME), block, &mut out);
            }
        } else if self.mimes.metadata_is(Mime::ROUTING) {
            out = tag;
        } else if self.mimes.metadata_is(Mime::TEXT) {
            out.extend_from_slice(path.as_bytes());
        }
        (!out.is_empty()).then_some(out)
    }
}

/// What entries have besides their content.
const ENTRIES_BYTES: usize = 48;
