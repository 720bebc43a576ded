//! Requests: whether each may begin, and what it begins.
//!
//! Relies on `route` for whom it is for. Invariants: a request that meets a limit is answered and
//! forgotten; one that begins is in the table of streams until it ends, fire-and-forget aside.

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{Context, Kind as DestinationKind};

use super::begin::Begin;
use super::channel::{Channel, Work};
use super::describe::Asked;
use super::echo::Echo;
use super::faults;
use super::route::Route;
use super::state::{Marks, RSocketSession};
use super::streams::Stream;
use crate::frame::{Interaction, Payload, Request};
use crate::metrics::{Kind, Rejection, Role, Rule, Signal};

impl RSocketSession {
    /// A request has come, whole.
    pub(super) fn request(
        &mut self,
        now: Now,
        stream: u32,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let kind = Kind::from(request.interaction);
        self.writer.count(|counters| counters.start(kind, Role::Responder));
        let begin = Begin { stream, request, now };
        let refusal = match self.admit(&begin)? {
            Some((rejection, close)) => {
                self.writer.count(|counters| counters.reject(rejection));
                let (code, _) = faults::stream_code(close.code);
                Some((code, faults::sentence(&close)))
            }
            None => self.begin(&begin, context).err().map(|close| {
                let (code, rejection) = faults::stream_code(close.code);
                self.writer
                    .count(|counters| counters.reject(rejection.unwrap_or(Rejection::Other)));
                (code, faults::sentence(&close))
            }),
        };
        let forgets = request.interaction == Interaction::FireAndForget;
        match refusal {
            Some((code, text)) => {
                if !forgets {
                    self.writer.error(stream, code, &text, &mut context.output);
                }
                self.writer.count(|counters| counters.end(kind, Role::Responder, Signal::Error));
            }
            None if forgets => {
                self.writer.count(|counters| counters.end(kind, Role::Responder, Signal::Complete));
            }
            None => {}
        }
        Ok(())
    }

    /// Why a request cannot begin, if it meets a limit.
    fn admit(&mut self, begin: &Begin<'_>) -> Result<Option<(Rejection, Close)>, Close> {
        let refuse =
            |rejection, code, reason: &'static str| Ok(Some((rejection, Close::new(code, reason))));
        let request = begin.request;
        if request.interaction.has_credit() && request.credit == 0 {
            self.fault(Rule::Demand)?;
            let reason = "a request begins with a demand above zero";
            return refuse(Rejection::Other, CloseCode::BadFrame, reason);
        }
        if self.marks.has(Marks::CLOSING) {
            let reason = "the connection was said to end; begin requests on another one";
            return refuse(Rejection::Other, CloseCode::ShuttingDown, reason);
        }
        let leases = self.cold.as_mut().and_then(|cold| cold.leases.as_mut());
        if let Some(leases) = leases
            && !leases.take()
        {
            self.fault(Rule::Lease)?;
            let reason = "no lease allows a request now; wait for one";
            return refuse(Rejection::Lease, CloseCode::TooManyCalls, reason);
        }
        if self.streams.len() >= self.options().streams_max {
            let reason = "too many requests of this connection are open";
            return refuse(Rejection::Streams, CloseCode::TooManyCalls, reason);
        }
        let most = self.options().streams_shard_max;
        let open = self.options().metrics.of(self.writer.shard).map_or(0, |all| all.open());
        // This one counts already.
        if open > most {
            let reason = "too many requests are open on this server";
            return refuse(Rejection::Node, CloseCode::ServiceBusy, reason);
        }
        Ok(None)
    }

    fn begin(&mut self, begin: &Begin<'_>, context: &mut Context<'_>) -> Result<(), Close> {
        self.check_size(&begin.request.payload)?;
        let asked = self.describe(begin.request.payload.metadata)?;
        match Route::of(asked.route, self.options().echo.is_some()) {
            Route::Echo => self.begin_echo(begin, &asked, context),
            Route::Operate => self.operate(begin, context),
            Route::Serve(path) => self.serve(begin, path, context),
            Route::Destination(DestinationKind::Service, path) => {
                self.call(begin, path, &asked, context)
            }
            Route::Destination(kind, path) => match begin.request.interaction {
                Interaction::Stream => self.subscribe(begin, kind, path, &asked, context),
                Interaction::Channel => self.begin_publishing(begin, kind, path, &asked, context),
                Interaction::Response | Interaction::FireAndForget => {
                    self.publish_or_fetch(begin, kind, path, &asked, context)
                }
            },
            Route::Nowhere => {
                let reason = "the request has no route; name a topic, `queue:NAME` or \
                              `service:NAME` in routing metadata";
                Err(Close::new(CloseCode::BadDestination, reason))
            }
        }
    }

    fn begin_echo(
        &mut self,
        begin: &Begin<'_>,
        asked: &Asked<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Begin { stream, request, now } = *begin;
        let Some(options) = self.options().echo else { return Ok(()) };
        // Metadata that only names the route is of no use to the client.
        let metadata = request.payload.metadata.filter(|_| asked.route.is_none());
        let payload = Payload { metadata, data: request.payload.data };
        match request.interaction {
            Interaction::FireAndForget => {}
            Interaction::Response => {
                self.writer.item(stream, payload, true, &mut context.output);
                self.writer.count(|counters| {
                    counters.end(Kind::Response, Role::Responder, Signal::Complete);
                });
            }
            Interaction::Stream => {
                let echo = Echo::new(request.credit, payload);
                let kept = self.streams.echo_bytes() + echo.bytes();
                if kept > options.bytes_max {
                    let reason = format!(
                        "the payloads of echo streams have more than {} bytes",
                        options.bytes_max
                    );
                    return Err(Close::new(CloseCode::MemoryFull, reason));
                }
                self.streams.insert(stream, Stream::Echo(echo));
                if options.interval.is_zero() {
                    self.marks.set(Marks::WRITES, true);
                } else if self.tick == Time::NEVER {
                    self.tick = now.time + options.interval;
                }
            }
            Interaction::Channel => {
                let channel = Channel::new(Work::Echo, request);
                self.begin_channel(begin, channel, payload, context);
            }
        }
        Ok(())
    }
}
