//! Spans of traced messages: which messages of a shard are traced, and what is told of them.
//!
//! ```text
//!   commands ─▶ marked ─▶ broker ─▶ what became of them ─▶ spans of the turn ─▶ the queue of the exporter
//! ```
//! Relies on `tiderace-telemetry` for the choice and for the way out. Invariants: deliveries that are waited for are bounded in
//! number and time; nothing here waits.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Weak;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tiderace_base::{CloseCode, Now, ShardId, Span as TimeSpan, Time};
use tiderace_broker::SpanFact;
use tiderace_telemetry::{Operation, Sampler, Span, SpanQueue};
use tiderace_wire::{
    Command, Commands, Destination, Kind, Run, SharedRun, SpanContext, Traced, TracedMessage,
};

use crate::options::SpanOptions;

/// Deliveries that are waited for at a time. When there are more, another is told as it is.
const WAITING_MAX: usize = 1024;
/// Deliveries that are looked at in a turn.
const LOOKS_PER_TURN: usize = 64;
/// Spans that are told in a turn; more are dropped, and counted.
const DONE_MAX: usize = 8_192;
/// For how long deliveries are waited for.
const WAITING_TIME_MAX: TimeSpan = TimeSpan::from_secs(10);
/// How far the clock of days and the one of turns may drift apart before spans follow the former.
const DRIFT_NANOS_MAX: u64 = 5_000_000;

/// What a shard knows of the messages that it traces.
#[derive(Debug)]
pub(crate) struct ShardSpans {
    shard: u16,
    sampler: Sampler,
    queue: Arc<SpanQueue>,
    waiting: VecDeque<Waiting>,
    done: Vec<Span>,
    since_1970: Arc<AtomicU64>,
}

/// Messages that are being delivered.
#[derive(Debug)]
struct Waiting {
    since: Time,
    traced: Arc<Traced>,
    destination: Destination,
    range: Range<u32>,
    deliveries: usize,
    redeliveries: u32,
    run: Weak<SharedRun>,
}

impl ShardSpans {
    pub(crate) fn new(options: &SpanOptions, shard: ShardId) -> ShardSpans {
        // Shards of a server differ in what nothing else is different in.
        let seed = options.seed ^ u128::from(shard.0) << 64;
        ShardSpans {
            shard: shard.0,
            sampler: Sampler::new(options.sampling, seed),
            queue: options.queue.clone(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            since_1970: options.since_1970.clone(),
        }
    }

    /// Marks the messages that are to be traced of those that a session sends.
    pub(crate) fn choose(&mut self, now: Now, protocol: &'static str, commands: &mut Commands) {
        let second = now.wall_ms / 1_000;
        for command in commands.each_mut() {
            match command {
                Command::Publish { run, .. } => self.choose_of_run(second, protocol, run),
                Command::Call(call) => {
                    if let Some(context) = self.sampler.choose(second, &call.properties) {
                        let bytes = call.body.len() as u64;
                        let messages = [TracedMessage { index: 0, bytes, context }].into();
                        let traced = Traced { published: now.time, protocol, messages };
                        call.traced = Some(Arc::new(traced));
                    }
                }
                _ => {}
            }
        }
    }

    fn choose_of_run(&mut self, second: u64, protocol: &'static str, run: &mut Run) {
        let mut messages = Vec::new();
        for (index, message) in (0..).zip(run.messages()) {
            if let Some(context) = self.sampler.choose(second, message.properties) {
                let bytes = message.body.len() as u64;
                messages.push(TracedMessage { index, bytes, context });
            }
        }
        if !messages.is_empty() {
            let published = run.published();
            run.set_traced(Arc::new(Traced { published, protocol, messages: messages.into() }));
        }
    }

    /// Takes what has become of messages.
    pub(crate) fn take(&mut self, now: Now, facts: &mut Vec<SpanFact>) {
        self.follow_clock(now);
        for fact in facts.drain(..) {
            match fact {
                SpanFact::Published { traced, destination, refused } => {
                    self.tell_all(&traced, &destination, (Operation::Publish, refused), now.time);
                }
                SpanFact::Called { traced, service, ended } => {
                    let service = Destination { kind: Kind::Service, path: service };
                    self.tell_all(&traced, &service, (Operation::Request, ended), now.time);
                }
                SpanFact::Delivering {
                    traced,
                    destination,
                    range,
                    deliveries,
                    redeliveries,
                    run,
                } => {
                    let since = now.time;
                    self.wait_for(Waiting {
                        since,
                        traced,
                        destination,
                        range,
                        deliveries,
                        redeliveries,
                        run,
                    });
                }
            }
        }
    }

    fn wait_for(&mut self, new: Waiting) {
        if self.waiting.len() == WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.tell_delivered(&oldest, new.since);
        }
        self.waiting.push_back(new);
    }

    /// Tells of each message what was done with it since its bytes were read.
    fn tell_all(
        &mut self,
        traced: &Traced,
        destination: &Destination,
        (operation, error): (Operation, Option<CloseCode>),
        to: Time,
    ) {
        for message in &traced.messages {
            let told = Told { context: message.context, operation };
            let about = (destination, traced, message.bytes);
            self.tell(told, about, (traced.published, to), error);
        }
    }

    /// The end of a turn: what has been delivered in it, and what is waited for no longer.
    pub(crate) fn end_turn(&mut self, now: Now) {
        // Some each turn, in a circle: others have to wait for the end of this turn.
        for _ in 0..self.waiting.len().min(LOOKS_PER_TURN) {
            let Some(it) = self.waiting.pop_front() else { break };
            let goes_on = it.run.strong_count() > 0 && now.time.since(it.since) < WAITING_TIME_MAX;
            match goes_on {
                true => self.waiting.push_back(it),
                false => self.tell_delivered(&it, now.time),
            }
        }
        if !self.done.is_empty() {
            self.queue.offer(std::mem::take(&mut self.done));
        }
    }

    /// Nothing is waited for any more.
    pub(crate) fn finish(&mut self, now: Now) {
        for it in std::mem::take(&mut self.waiting) {
            self.tell_delivered(&it, now.time);
        }
        self.end_turn(now);
    }

    fn tell_delivered(&mut self, it: &Waiting, to: Time) {
        let (deliveries, waiting) = (it.deliveries as u64, it.run.strong_count() as u64);
        let redeliveries = it.redeliveries;
        for message in it.traced.messages.iter().filter(|one| it.range.contains(&one.index)) {
            let SpanContext { trace, span, .. } = message.context;
            let context = SpanContext { trace, span: self.sampler.span(), parent: Some(span) };
            let operation = Operation::Deliver { deliveries, waiting, redeliveries };
            let told = Told { context, operation };
            let about = (&it.destination, &*it.traced, message.bytes);
            self.tell(told, about, (it.since, to), None);
        }
    }

    fn tell(
        &mut self,
        Told { context, operation }: Told,
        (destination, traced, bytes): (&Destination, &Traced, u64),
        (from, to): (Time, Time),
        error: Option<CloseCode>,
    ) {
        if self.done.len() >= DONE_MAX {
            return self.queue.leave_out(1);
        }
        let since_1970 = self.since_1970.load(Ordering::Relaxed);
        self.done.push(Span {
            context,
            operation,
            destination: destination.clone(),
            protocol: traced.protocol,
            bytes,
            start_nanos: since_1970.wrapping_add(from.as_nanos()),
            end_nanos: since_1970.wrapping_add(to.as_nanos()),
            shard: self.shard,
            error: error.map(CloseCode::slug),
        });
    }

    /// The clock of days goes by milliseconds, so that following it at each turn would have spans end before they begin.
    fn follow_clock(&mut self, now: Now) {
        let nanos = now.wall_ms.saturating_mul(1_000_000).wrapping_sub(now.time.as_nanos());
        let known = self.since_1970.load(Ordering::Relaxed);
        let drift = (nanos.wrapping_sub(known) as i64).unsigned_abs();
        if drift > DRIFT_NANOS_MAX {
            self.since_1970.store(nanos, Ordering::Relaxed);
        }
    }
}

/// What is told, and where in the trace.
struct Told {
    context: SpanContext,
    operation: Operation,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::{NonZeroU64, NonZeroU128};
    use std::rc::Rc;
    use std::sync::mpsc::Receiver;

    use tiderace_telemetry::Sampling;
    use tiderace_topics::Path;
    use tiderace_wire::{SpanId, TraceId};

    use super::*;

    /// The span in which messages are published.
    const PUBLISHED: SpanId = SpanId(NonZeroU64::MIN);

    fn shard(spans_max: usize) -> (ShardSpans, Receiver<Vec<Span>>) {
        let (queue, told) = SpanQueue::new(spans_max);
        let sampling = Sampling { per_million: 0, follow_parents: true };
        let since_1970 = Arc::new(AtomicU64::new(0));
        let options = SpanOptions { sampling, queue: Arc::new(queue), seed: 7, since_1970 };
        (ShardSpans::new(&options, ShardId(1)), told)
    }

    /// So long after the beginning, which the clock of days has as zero.
    fn at(millis: u64) -> Now {
        Now { time: Time::ZERO + TimeSpan::from_millis(millis), wall_ms: millis }
    }

    /// A message of so many bytes, by which it is known.
    fn traced(bytes: u64) -> Arc<Traced> {
        let trace = TraceId(NonZeroU128::MIN);
        let context = SpanContext { trace, span: PUBLISHED, parent: None };
        let messages = [TracedMessage { index: 0, bytes, context }].into();
        Arc::new(Traced { published: Time::ZERO, protocol: "stomp", messages })
    }

    fn topic() -> Destination {
        Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() }
    }

    fn delivering(bytes: u64, run: &Rc<SharedRun>) -> SpanFact {
        let (traced, destination) = (traced(bytes), topic());
        let run = Rc::downgrade(run);
        SpanFact::Delivering {
            traced,
            destination,
            range: 0..1,
            deliveries: 3,
            redeliveries: 0,
            run,
        }
    }

    fn run() -> Rc<SharedRun> {
        let run = Run::single(topic(), Time::ZERO, b"", b"x", Default::default());
        Rc::new(SharedRun::new(Arc::new(run)))
    }

    /// The sizes of the messages of which something has been told.
    fn sizes(told: &Receiver<Vec<Span>>) -> Vec<u64> {
        told.try_iter().flatten().map(|span| span.bytes).collect()
    }

    #[test]
    fn a_delivery_is_told_when_nobody_has_its_bytes_any_more_or_after_a_while() {
        let (mut spans, told) = shard(100);
        let (quick, slow) = (run(), run());
        spans.take(at(0), &mut vec![delivering(1, &quick), delivering(2, &slow)]);
        spans.end_turn(at(1));
        assert!(sizes(&told).is_empty());
        drop(quick);
        spans.end_turn(at(2));
        assert_eq!(sizes(&told), [1]);
        spans.end_turn(at(9_999));
        assert!(sizes(&told).is_empty());
        spans.end_turn(at(10_000));
        let [span] = &told.try_iter().flatten().collect::<Vec<_>>()[..] else { panic!() };
        let waits = Operation::Deliver { deliveries: 3, waiting: 1, redeliveries: 0 };
        assert_eq!((span.operation, span.bytes, span.shard), (waits, 2, 1));
        assert_eq!((span.start_nanos, span.end_nanos), (0, 10_000_000_000));
        assert_eq!(span.context.parent, Some(PUBLISHED));
    }

    #[test]
    fn only_so_many_deliveries_are_waited_for_and_the_oldest_is_told_for_another() {
        let (mut spans, told) = shard(2 * WAITING_MAX);
        let slow = run();
        let facts = (0..WAITING_MAX as u64 + 2).map(|bytes| delivering(bytes, &slow));
        spans.take(at(0), &mut facts.collect());
        spans.end_turn(at(1));
        assert_eq!(sizes(&told), [0, 1]);
        spans.finish(at(2));
        assert_eq!(sizes(&told).len(), WAITING_MAX);
    }

    #[test]
    fn a_turn_tells_only_so_much_and_counts_the_rest() {
        let (mut spans, told) = shard(2 * DONE_MAX);
        let published =
            || SpanFact::Published { traced: traced(1), destination: topic(), refused: None };
        spans.take(at(0), &mut (0..DONE_MAX + 5).map(|_| published()).collect());
        spans.end_turn(at(0));
        assert_eq!((sizes(&told).len(), spans.queue.counters().full()), (DONE_MAX, 5));
    }

    #[test]
    fn spans_follow_the_clock_of_days_when_it_is_set_and_not_at_every_turn() {
        let (mut spans, told) = shard(100);
        let mut ends = |now: Now| {
            let refused = None;
            let facts = SpanFact::Published { traced: traced(1), destination: topic(), refused };
            spans.take(now, &mut vec![facts]);
            spans.end_turn(now);
            told.try_iter().flatten().next().unwrap().end_nanos / 1_000_000
        };
        assert_eq!(ends(at(10)), 10);
        // Some milliseconds apart: what rounding brings.
        assert_eq!(ends(Now { wall_ms: 24, ..at(20) }), 20);
        // Somebody has set the clock, and sets it back.
        assert_eq!(ends(Now { wall_ms: 3_600_030, ..at(30) }), 3_600_030);
        assert_eq!(ends(at(40)), 40);
    }
}
