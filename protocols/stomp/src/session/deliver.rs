//! Messages on their way to the client.
//!
//! Relies on runs and their shared encodings. Invariant: subscribers whose frames are equal byte
//! for byte share one encoding; every other frame is written straight into the write block.

use tiderace_topics::Path;
use tiderace_wire::{
    Delivery, Destination, Kind, Output, Run, SOURCE_TOPIC, is_durable, number_of, properties,
};

use super::message::{form_key, write, write_large, write_tagged};
use super::state::StompSession;
use super::subscription::{AckMode, Subscription};
use crate::destination::{spell_destination, spell_own_temporary};
use crate::encode::{self, Form, Sequence};
use crate::header::append_value;

/// Letters of the protocol's wire forms: whole runs, and heads of frames whose body goes apart.
const WHOLE: u8 = b'S';
const HEAD: u8 = b's';

impl StompSession {
    /// Encodes the messages of one delivery.
    pub(super) fn write_messages(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(subscription) = self.subscription(delivery.key) else {
            return;
        };
        let run = delivery.run.run();
        let (line, is_own) = self.destination_line(subscription, delivery);
        let framing = output.framing;
        let form = Form {
            framing,
            version: self.version,
            prefix: &[],
            destination: &line,
            home: run.home().0,
            redeliveries: delivery.redeliveries,
            sequence: None,
            update: None,
        };
        let sequence = sequence_of(subscription, run);
        let shareable = delivery.redeliveries == 0 && !is_own;
        let is_large = run.is_large();
        let is_auto = subscription.mode == AckMode::Auto;
        if subscription.codec != 0 {
            let (lines, name) = (subscription.lines(), subscription.sequence().map(Vec::from));
            let sequence = sequence.zip(name.as_deref());
            let sequence = sequence.map(|(it, name)| Sequence { name, ..it });
            let form = Form { prefix: &lines, sequence, ..form };
            return self.write_updates(form, shareable, delivery, output);
        }
        let form = Form { sequence, ..form };
        if is_auto && shareable && !is_large && delivery.is_whole() {
            let key = form_key(WHOLE, self.version, framing, subscription);
            let write = |out: &mut Vec<u8>| {
                let lines = subscription.lines();
                let form = Form { prefix: &lines, ..form };
                for message in run.messages() {
                    encode::message(&form, &message, None, out);
                }
            };
            if delivery.run.write_encoded(key, output.queue, write) {
                return;
            }
        }
        let lines = subscription.lines();
        let form = Form { prefix: &lines, ..form };
        if !is_auto {
            let first = self.cold.as_ref().map_or(0, |cold| cold.tags) + 1;
            let tags = write_tagged(&form, delivery, first, output);
            self.remember(delivery, tags);
            return;
        }
        if is_large {
            let key = shareable.then(|| form_key(HEAD, self.version, framing, subscription));
            return write_large(&form, key, delivery, output);
        }
        for index in delivery.from..delivery.to {
            if let Some(message) = run.message(index) {
                write(&form, index, &message, None, delivery, output);
            }
        }
    }

    /// The `destination` line where the subscription's own lines do not hold it, and whether only
    /// this session spells it like that.
    fn destination_line(
        &self,
        subscription: &Subscription,
        delivery: &Delivery<'_>,
    ) -> (Vec<u8>, bool) {
        let Some(style) = subscription.style else {
            return (Vec::new(), false);
        };
        let source = source_topic(delivery);
        let destination = source.as_ref().unwrap_or(delivery.run.run().destination());
        let own = spell_own_temporary(destination, &self.temporary, style);
        let is_own = own.is_some();
        let text = own.unwrap_or_else(|| spell_destination(destination, style));
        let mut line = b"destination:".to_vec();
        append_value(&mut line, self.version, &text);
        line.push(b'\n');
        (line, is_own)
    }

    /// Notes what the client will have to acknowledge.
    fn remember(&mut self, delivery: &Delivery<'_>, tags: u64) {
        let run = delivery.run.run();
        let cold = self.cold();
        let first = cold.tags + 1;
        cold.tags += tags;
        let Some(subscription) = self.subscriptions.get_mut(delivery.key) else {
            return;
        };
        let unacked = subscription.unacked.get_or_insert_default();
        for (tag, index) in (first..).zip(delivery.from..delivery.to) {
            unacked.push(tag, run.home().0, run.first() + index as u64);
        }
    }
}

/// How the messages of a run say which number they have in their destination, if the subscription wants that.
fn sequence_of<'a>(subscription: &'a Subscription, run: &Run) -> Option<Sequence<'a>> {
    let name = subscription.sequence()?;
    let first = match run.destination().kind {
        Kind::Queue => number_of(run.queue_version()),
        Kind::Topic | Kind::Service => run.version(),
    };
    Some(Sequence { name, ahead: first.wrapping_sub(run.first()) })
}

/// The topic to which the messages of a durable subscription were published: those of a run to one.
fn source_topic(delivery: &Delivery<'_>) -> Option<Destination> {
    let run = delivery.run.run();
    if !is_durable(&run.destination().path) {
        return None;
    }
    let source = properties::find(run.message(delivery.from)?.properties, SOURCE_TOPIC)?;
    Some(Destination { kind: Kind::Topic, path: Path::parse(&source).ok()? })
}
