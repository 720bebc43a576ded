//! Request-channels that the server answers itself: an item back, or an acknowledgement, for each.
//!
//! Relies on the client's demand for answers: only as many items are asked for as can be answered, so
//! nothing has to wait here. Invariant: items asked for and answers under way are never more than the
//! client wants.

use tiderace_base::{Close, Now};
use tiderace_wire::{Context, Kind, Output};

use super::begin::Begin;
use super::channel::{Channel, Work};
use super::cold::Waiting;
use super::describe::Asked;
use super::state::RSocketSession;
use super::streams::Stream;
use crate::frame::{Item, Payload};
use crate::metrics::Signal;

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
                self.writer.item(stream, payload, false, &mut context.output);
            }
            Work::Publish(_) => channel.pending += 1,
        }
        self.streams.insert(stream, Stream::Channel(Box::new(channel)));
        self.go_on(stream, &mut context.output);
    }

    /// A request-channel of a topic or queue: each item is published.
    pub(super) fn begin_publishing(
        &mut self,
        begin: &Begin<'_>,
        kind: Kind,
        path: &str,
        asked: &Asked<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let destination = self.known_destination(kind, path)?;
        let fields = asked.options.queue_fields(begin.now, kind)?;
        let token = self.ask(Waiting::Item(begin.stream));
        self.publish(
            begin.now,
            (&destination, &fields),
            asked,
            begin.request.payload.data,
            Some(token),
            context,
        );
        let work = Work::Publish(Box::new((destination, asked.options.lasting())));
        let channel = Channel::new(work, begin.request);
        self.begin_channel(begin, channel, Payload::default(), context);
        Ok(())
    }

    /// Asks for more items, or ends the channel if all is done.
    fn go_on(&mut self, stream: u32, output: &mut Output<'_>) {
        let window = self.writer.options.channel_window;
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return };
        if channel.sent_last && channel.pending == 0 {
            self.writer.complete(stream, output);
            self.end_stream(stream, Signal::Complete);
        } else if let Some(items) = channel.grant(window) {
            self.writer.request_n(stream, items, output);
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
                self.expect_late(granted);
                return self.fail(stream, &close, &mut context.output);
            }
        }
        if let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) {
            channel.sent_last |= item.complete;
        }
        self.go_on(stream, &mut context.output);
    }

    fn work_on(
        &mut self,
        stream: u32,
        payload: &Payload<'_>,
        now: Now,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.check_size(payload)?;
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return Ok(()) };
        channel.granted -= 1;
        let Work::Publish(work) = &channel.work else {
            channel.demand = channel.demand.saturating_sub(1);
            self.writer.item(stream, *payload, false, &mut context.output);
            return Ok(());
        };
        let (destination, lasting) = (work.0.clone(), work.1.lasting());
        channel.pending += 1;
        let mut asked: Asked<'_> = self.describe(payload.metadata)?;
        // What the first item said holds for those that say nothing.
        if payload.metadata.is_none() {
            asked.options = lasting;
        }
        let fields = asked.options.queue_fields(now, destination.kind)?;
        let token = self.ask(Waiting::Item(stream));
        self.publish(now, (&destination, &fields), &asked, payload.data, Some(token), context);
        Ok(())
    }

    /// A published item has been taken.
    pub(super) fn item_done(&mut self, stream: u32, output: &mut Output<'_>) {
        let Some(Stream::Channel(channel)) = self.streams.get_mut(stream) else { return };
        channel.pending = channel.pending.saturating_sub(1);
        channel.demand = channel.demand.saturating_sub(1);
        self.writer.item(stream, Payload::default(), false, output);
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
