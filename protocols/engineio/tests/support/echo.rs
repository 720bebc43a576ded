//! A protocol inside: says messages back, and a few words make it do other things.

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{Context, Delivery, Incoming, Opening, Output, Progress, Reply, Session};

struct Echo {
    greeting: Option<String>,
    wakes: Time,
    kept: Vec<Vec<u8>>,
}

/// A query with `greet=TEXT` makes it speak first.
pub(super) fn open(opening: &Opening<'_>) -> Box<dyn Session> {
    let greeting = opening.request.and_then(|request| request.query_value("greet"));
    let greeting = greeting.map(str::to_owned);
    Box::new(Echo { greeting, wakes: Time::NEVER, kept: Vec::new() })
}

impl Session for Echo {
    fn begin(&mut self, _: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if let Some(greeting) = self.greeting.take() {
            context.output.frame(greeting.as_bytes(), true);
        }
        Ok(())
    }

    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        panic!("it takes messages");
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        now: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match message.bytes {
            b"fail" => return Err(Close::new(CloseCode::LoginFailed, "no such name")),
            b"leave" => {
                context.output.frame(b"left", true);
                context.finish(CloseCode::Done);
            }
            b"wake" => self.wakes = now.time + tiderace_base::Span::from_secs(1),
            b"quiet" => {}
            b"three" => {
                for word in ["one", "two", "three"] {
                    context.output.frame(word.as_bytes(), true);
                }
            }
            // Would go on with the rest in the next turn.
            [letter, b'|', rest @ ..] => {
                context.output.frame(&[*letter], message.text);
                context.yield_turn(message.bytes.len() - rest.len());
            }
            bytes => context.output.frame(bytes, message.text),
        }
        Ok(())
    }

    fn reply(&mut self, _: Now, _: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        for message in (delivery.from..delivery.to).filter_map(|at| delivery.run.run().message(at))
        {
            if message.body.starts_with(b"later") {
                self.kept.push(message.body.to_vec());
                continue;
            }
            output.frame(message.body, std::str::from_utf8(message.body).is_ok());
        }
    }

    fn flush(&mut self, _: Now, output: &mut Output<'_>) {
        for kept in self.kept.drain(..) {
            output.frame(&kept, true);
        }
    }

    fn deadline(&self) -> Time {
        self.wakes
    }

    fn expire(&mut self, _: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.wakes = Time::NEVER;
        context.output.frame(b"awake", true);
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        output.frame(format!("bye {}", close.code.slug()).as_bytes(), true);
    }

    fn is_established(&self) -> bool {
        true
    }
}
