//! The publisher inside the server: one message to each topic in turn, at a steady rate.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tiderace_base::{Close, Now, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Context, Delivery, Destination, Kind, Meta, Open, Output, Progress, Reply, Session,
};

/// What is published.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Topics, `clients/0` and so on.
    pub topics: usize,
    /// Bytes of each message.
    pub body_bytes: usize,
    /// Messages per second, to be set when all clients are there; zero before.
    pub rate: Arc<AtomicU64>,
}

/// The internal session that carries out a plan.
pub fn internal_session(plan: Plan) -> Arc<Open> {
    Arc::new(move |_| {
        Box::new(Publisher {
            plan: plan.clone(),
            due: Time::ZERO,
            known: false,
            turn: 0,
            begun: None,
            sent: 0,
            scratch: Cell::default(),
        })
    })
}

struct Publisher {
    plan: Plan,
    due: Time,
    known: bool,
    /// The next topic.
    turn: usize,
    begun: Option<Time>,
    sent: u64,
    scratch: Cell<Vec<u8>>,
}

impl Publisher {
    fn publish(&mut self, now: Now, context: &mut Context<'_>) {
        let rate = self.plan.rate.load(Ordering::Relaxed);
        if rate == 0 {
            self.begun = None;
            return;
        }
        let begun = *self.begun.get_or_insert_with(|| {
            self.sent = 0;
            now.time
        });
        let owed = (now.time.since(begun).as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
        let mut body = self.scratch.take();
        body.resize(self.plan.body_bytes, b'.');
        let stamp = now.time.as_nanos().to_be_bytes();
        if let Some(head) = body.first_chunk_mut::<8>() {
            *head = stamp;
        }
        for _ in 0..owed.saturating_sub(self.sent).min(MESSAGES_PER_TURN) {
            self.sent += 1;
            let topic = self.turn;
            self.turn = (self.turn + 1) % self.plan.topics;
            let Ok(path) = Path::parse(&format!("clients/{topic}")) else { continue };
            context.commands.message(&Destination { kind: Kind::Topic, path });
            context.commands.publish(&body, Meta::default(), None);
        }
        self.scratch.set(body);
    }
}

impl Session for Publisher {
    fn receive(&mut self, _: Now, input: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn reply(&mut self, _: Now, reply: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        self.known |= matches!(reply, Reply::LoggedIn { .. });
        Ok(())
    }

    fn deliver(&mut self, _: Now, _: &Delivery<'_>, _: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.due = now.time + Span::from_micros(200);
        if self.known {
            self.publish(now, context);
        }
        Ok(())
    }

    fn goodbye(&mut self, _: &Close, _: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

/// One turn publishes no more than that, so that latency is the server's and not the batch's.
const MESSAGES_PER_TURN: u64 = 256;
