//! Messages that are traced: marked on their way to the broker, told when the broker says what has become of them.
//!
//! Relies on [`crate::spans`]. Invariant: a shard that traces nothing asks once for each call of a session whether it does,
//! and once in a turn.

use tiderace_base::Key;
use tiderace_broker::SpanFact;

use crate::connection::NO_PROTOCOL;
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Marks the messages that are to be traced of those that a client sends by a protocol; not those of the server itself.
    #[cold]
    pub(crate) fn choose_traced(&mut self, key: Key) {
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        let Some(protocol) = live.map(|live| live.protocol).filter(|it| *it != NO_PROTOCOL) else {
            return;
        };
        let found = self.shared.services.protocols.get(usize::from(protocol));
        let protocol = found.map_or("", |it| it.name);
        if let Some(spans) = &mut self.spans {
            spans.choose(self.now, protocol, &mut self.commands);
        }
    }

    /// Takes what has become of messages out of effects.
    #[cold]
    pub(crate) fn take_spans(&mut self, facts: &mut Vec<SpanFact>) {
        match &mut self.spans {
            Some(spans) => spans.take(self.now, facts),
            None => facts.clear(),
        }
    }

    /// The end of a turn of a shard that traces.
    #[cold]
    pub(crate) fn end_turn_of_spans(&mut self) {
        let now = self.now;
        if let Some(spans) = &mut self.spans {
            spans.take(now, &mut self.effects.spans);
            spans.end_turn(now);
        }
    }

    /// The shard ends.
    pub(crate) fn finish_spans(&mut self) {
        if let Some(spans) = &mut self.spans {
            spans.finish(self.now);
        }
    }
}
