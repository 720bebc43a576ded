//! A stream of events: what was missed, what is retained, and then what is published.
//!
//! Relies on runs and their shared encodings. Invariants: what is shared holds nothing of one
//! session; the last event of each turn, and it alone, carries the position behind it, so a client
//! that comes back with the last position it saw misses nothing.

use tiderace_base::Close;
use tiderace_value::append_text;
use tiderace_wire::{Delivery, EncodingKey, Numbering, Output, Position, Response};

use crate::encode::{self, Form};
use crate::limits::EARLY_BYTES_MAX;
use crate::options::EventsOptions;

/// The protocol's letter in encoding keys.
const LETTER: u8 = b'E';

/// One client's stream.
#[derive(Debug)]
pub(super) struct Stream {
    position: Position,
    /// Where the client left off in an earlier life of the server, until that is known to go on.
    earlier: Option<Position>,
    form: Form,
    /// Whether an event is written but for its end.
    open: bool,
    /// What is to be said about what the client missed.
    recovered: Option<bool>,
    /// Whether the position has moved without a message.
    moved: bool,
    /// What was to be said before the stream began.
    early: Vec<u8>,
    /// Whether it has been said where the stream begins.
    is_ready: bool,
    /// Whether only its head is asked for.
    is_head: bool,
}

impl Stream {
    /// A stream that begins at a position, or anew; `lost` if the client named one that is none.
    pub(super) fn new(
        form: Form,
        epoch: u64,
        since: Option<Position>,
        lost: bool,
        is_head: bool,
    ) -> Stream {
        let is_present = since.as_ref().is_some_and(|position| position.epoch == epoch);
        let (present, earlier) = if is_present { (since, None) } else { (None, since) };
        Stream {
            position: present.unwrap_or_else(|| Position::new(epoch)),
            earlier,
            form,
            open: false,
            recovered: lost.then_some(false),
            moved: false,
            early: Vec::new(),
            is_ready: false,
            is_head,
        }
    }

    /// Whether only its head is asked for.
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// The life of the server in which its position began.
    pub(super) fn epoch(&self) -> u64 {
        self.position.epoch
    }

    /// The position has moved, although no message came.
    pub(super) fn reached(&mut self, numbering: Numbering, sequence: u64) {
        self.position.advance_to(numbering, sequence);
        self.moved = true;
    }

    /// The broker has looked for what was missed.
    pub(super) fn recovered(&mut self, complete: bool) {
        self.recovered = Some(complete);
        let earlier = self.earlier.take().filter(|_| complete);
        if let Some(earlier) = earlier {
            // Of what it tells of other lives it is not known which of them go on in this one.
            let goes_on =
                earlier.seen().iter().all(|(numbering, _)| numbering.is_of(earlier.epoch));
            for (numbering, number) in earlier.seen() {
                match goes_on {
                    // Numbers rise from life to life, so it stands there in this one as well.
                    true => self.position.advance(numbering.home(), *number),
                    false => self.position.advance_to(*numbering, *number),
                }
            }
        }
        if !complete {
            self.position = Position::new(self.position.epoch);
        }
    }

    /// The head of the stream and what it begins with: where, if that is known.
    pub(super) fn head(&mut self, options: &EventsOptions, is_ready: bool) -> Response {
        let mut body = Vec::new();
        let kind = match self.form {
            Form::Plain | Form::Object => {
                body.extend_from_slice(b"retry: ");
                let retry = options.retry.as_millis();
                body.extend_from_slice(retry.to_string().as_bytes());
                body.push(b'\n');
                "text/event-stream"
            }
            Form::Lines => "application/x-ndjson",
        };
        if is_ready {
            self.say_ready(&mut body);
        }
        body.append(&mut self.early);
        Response::new(200, kind, body)
            .with("Cache-Control", "no-store, no-transform")
            .with("X-Accel-Buffering", "no")
    }

    fn say_ready(&mut self, out: &mut Vec<u8>) {
        let event = match self.recovered {
            None => "ready",
            Some(true) => "recovered",
            Some(false) => "gap",
        };
        self.is_ready = true;
        encode::notice(self.form, event, b"", Some(&self.position.encode()), out);
    }

    /// The subscription is made behind what the stream had to say early.
    pub(super) fn ready(&mut self, output: &mut Output<'_>) {
        if !self.is_ready {
            piece(output, |out| self.say_ready(out));
        }
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let run = delivery.run.run();
        let form = self.form;
        if std::mem::replace(&mut self.open, true) {
            piece(output, |out| encode::end(form, None, out));
        }
        self.position.advance(run.home(), delivery.reached);
        if let Some((numbering, sequence)) = delivery.reached_upstream() {
            self.position.advance_to(numbering, sequence);
        }
        if delivery.is_whole() {
            let form_key = EncodingKey::form(LETTER, form.id(), output.framing.id());
            let key = EncodingKey { form: form_key, variant: &[] };
            let write = |out: &mut Vec<u8>| {
                let mut events = Vec::with_capacity(out.capacity());
                encode::run(form, run, 0, run.len(), &mut events);
                output.framing.write(&events, true, out);
            };
            if delivery.run.write_encoded(key, output.queue, write) {
                return;
            }
        }
        piece(output, |out| encode::run(form, run, delivery.from, delivery.to, out));
    }

    /// Ends the turn's last event; says whether there was one.
    pub(super) fn flush(&mut self, output: &mut Output<'_>) -> bool {
        if !std::mem::take(&mut self.open) {
            return false;
        }
        self.moved = false;
        let position = self.position.encode();
        piece(output, |out| encode::end(self.form, Some(&position), out));
        true
    }

    pub(super) fn heart_beat(&mut self, output: &mut Output<'_>) {
        let moved = std::mem::take(&mut self.moved);
        let position = moved.then(|| self.position.encode());
        piece(output, |out| encode::heart_beat(self.form, position.as_deref(), out));
    }

    /// A topic has come or gone before the stream has begun: whether it is to begin with that, since no more
    /// is said early.
    pub(super) fn early_notice(&mut self, event: &str, members: &[u8]) -> bool {
        encode::notice(self.form, event, members, None, &mut self.early);
        self.early.len() > EARLY_BYTES_MAX
    }

    /// A topic has come or gone.
    pub(super) fn notice(&mut self, event: &str, members: &[u8], output: &mut Output<'_>) {
        self.flush(output);
        piece(output, |out| encode::notice(self.form, event, members, None, out));
    }

    pub(super) fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        self.flush(output);
        let mut members = b"\"code\":".to_vec();
        append_text(&mut members, close.code.slug());
        members.extend_from_slice(b",\"message\":");
        append_text(&mut members, &close.reason);
        if let Some(addresses) = &close.addresses {
            members.extend_from_slice(b",\"addresses\":[");
            for (place, address) in addresses.iter().enumerate() {
                members.extend_from_slice(if place == 0 { b"" } else { b"," });
                append_text(&mut members, address);
            }
            members.push(b']');
        }
        piece(output, |out| encode::notice(self.form, "end", &members, None, out));
    }
}

/// Writes a piece of the answer in the framing of what carries it.
fn piece(output: &mut Output<'_>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    output.frame(&bytes, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::ShardId;

    fn recovered(since: Position) -> Position {
        let mut stream = Stream::new(Form::Plain, 2, Some(since), false, false);
        stream.recovered(true);
        stream.position
    }

    #[test]
    fn numbers_of_an_earlier_life_stand_in_this_one() {
        let mut since = Position::new(1);
        since.advance(ShardId(3), 7);
        assert_eq!(recovered(since).of(ShardId(3)), 7);
    }

    #[test]
    fn numbers_of_another_node_are_not_taken_for_those_of_this_one() {
        let here = Numbering::new(2, ShardId(0));
        let mut since = Position::new(77);
        since.advance(ShardId(0), 1_000_000);
        since.advance(ShardId(1), 1_000_000);
        since.advance_to(here, 9);
        let position = recovered(since.clone());
        assert_eq!((position.of(ShardId(0)), position.of(ShardId(1))), (9, 0));
        for (numbering, number) in since.seen() {
            assert_eq!(position.number(*numbering), Some(*number));
        }
    }
}
