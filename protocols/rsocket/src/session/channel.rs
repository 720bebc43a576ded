//! Request-channels that the server answers itself: an item back, or an acknowledgement, for each.
//!
//! Relies on the client's demand for answers: only as many items are asked for as can be answered, so
//! nothing has to wait here. Invariant: items asked for and answers under way are never more than the
//! client wants.

use tiderace_base::Now;
use tiderace_wire::{Context, Destination, Flags, Output};

use super::RSocketSession;
use super::describe::{Asked, Wishes};
use super::rare::Waiting;
use super::request::Begin;
use super::streams::Stream;
use crate::frame::{Item, Payload, Request};
use crate::metrics::Signal;

/// What is done with the items of a channel.
#[derive(Debug)]
pub(super) enum Work {
    /// They come back.
    Echo,
    /// They are published there, so.
    Publish(Box<(Destination, Flags, Option<u64>)>),
}

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    work: Work,
    /// Answers that are wanted.
    demand: u64,
    /// Items that may come.
    granted: u32,
    /// Answers that the broker owes.
    pending: u32,
    /// Whether the client has said all.
    said_last: bool,
}

impl Channel {
    /// A channel whose first item has come with the request.
    pub(super) fn new(work: Work, request: &Request<'_>) -> Channel {
        Channel {
            work,
            demand: u64::from(request.credit),
            granted: 0,
            pending: 0,
            said_last: request.complete,
        }
    }

    /// Whether an item may come.
    pub(super) fn expects(&self) -> bool {
        self.granted > 0 && !self.said_last
    }

    /// Items that may come.
    pub(super) fn granted(&self) -> u32 {
        self.granted
    }

    /// How many more items to ask for.
    fn grant(&mut self, window: u32) -> Option<u32> {
        if self.said_last {
            return None;
        }
        let free = self.demand.saturating_sub(u64::from(self.pending));
        let room = u32::try_from(free).unwrap_or(u32::MAX).min(window);
        // Not one by one, unless no more are wanted.
        if room == 0 || self.granted > room / 2 {
            return None;
        }
        let more = room - self.granted;
        self.granted = room;
        Some(more)
    }
}

impl RSocketSession {
    /// Begins a channel with its first item, `payload` if that is to come back.
    pub(super) fn begin_channel(
        &mut self,
        begin: &Begin<'_>,
        mut channel: Channel,
        payload: Payload<'_>,
        context: &mut Context<'_>,
    ) {
        let stream = begin.stream;
        match channel.work {
            Work::Echo => {
                channel.demand -= 1;
                self.outlet.item(stream, payload, false, &mut context.output);
            }
            Work::Publish(_) => channel.pending += 1,
        }
        self.streams.insert(stream, Stream::Channel(Box::new(channel)));
        self.go_on(stream, &mut context.output);
    }

    /// Asks for more items, or ends the channel if all is done.
    fn go_on(&mut self, stream: u32, output: &mut Output<'_>) {
        let window = self.outlet.options.channel_window;
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return };
        if channel.said_last && channel.pending == 0 {
            self.outlet.complete(stream, output);
            self.end_stream(stream, Signal::Complete);
        } else if let Some(items) = channel.grant(window) {
            self.outlet.request_n(stream, items, output);
        }
    }

    /// An item, or the client's last word.
    pub(super) fn channel_item(
        &mut self,
        stream: u32,
        item: &Item<'_>,
        now: Now,
        context: &mut Context<'_>,
    ) {
        if item.next {
            let result = self.work_on(stream, &item.payload, now, context);
            if let Err(close) = result {
                let granted = self.channel_granted(stream);
                self.bear(granted);
                return self.fail(stream, &close, &mut context.output);
            }
        }
        if let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) {
            channel.said_last |= item.complete;
        }
        self.go_on(stream, &mut context.output);
    }

    fn work_on(
        &mut self,
        stream: u32,
        payload: &Payload<'_>,
        now: Now,
        context: &mut Context<'_>,
    ) -> Result<(), tiderace_base::Close> {
        self.check_size(payload)?;
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return Ok(()) };
        channel.granted -= 1;
        let Work::Publish(work) = &channel.work else {
            channel.demand = channel.demand.saturating_sub(1);
            self.outlet.item(stream, *payload, false, &mut context.output);
            return Ok(());
        };
        let (destination, flags, ttl_ms) = (work.0.clone(), work.1, work.2);
        channel.pending += 1;
        let mut asked: Asked<'_> = self.describe(payload.metadata)?;
        // What the first item said holds for those that say nothing.
        if payload.metadata.is_none() {
            asked.wishes = Wishes { flags, ttl_ms, ..Wishes::default() };
        }
        let token = self.ask(Waiting::Item(stream));
        self.publish(now, &destination, &asked, payload.data, Some(token), context);
        Ok(())
    }

    /// A published item has been taken.
    pub(super) fn item_done(&mut self, stream: u32, output: &mut Output<'_>) {
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return };
        channel.pending = channel.pending.saturating_sub(1);
        channel.demand = channel.demand.saturating_sub(1);
        self.outlet.item(stream, Payload::default(), false, output);
        self.go_on(stream, output);
    }

    /// More answers are wanted.
    pub(super) fn channel_demand(&mut self, stream: u32, items: u32, context: &mut Context<'_>) {
        if let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) {
            channel.demand = channel.demand.saturating_add(u64::from(items));
            self.go_on(stream, &mut context.output);
        }
    }

    /// Items that may still come of a channel.
    pub(super) fn channel_granted(&self, stream: u32) -> u32 {
        match self.streams.get(stream) {
            Some(Stream::Channel(channel)) => channel.granted,
            _ => 0,
        }
    }
}
