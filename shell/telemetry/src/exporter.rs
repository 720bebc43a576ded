//! The one thread that exports: spans into batches, batches to the collector.
//!
//! Relies on a closure that posts a text and that ends by itself within a time. Invariants: a batch is repeated only where
//! the protocol says that this may help, and not for ever; at the end of the server nobody waits for the collector longer
//! than is said.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::otlp::{Resource, encode, rejected};
use crate::queue::SpanQueue;
use crate::span::Span;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its status.
    pub status: u16,
    /// Its text; empty if it could not be read.
    pub text: String,
    /// For how long the collector wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// Posts a JSON text; the error says why there is no answer. Called on a thread that may wait, for as long as a request
/// may take.
pub type Post = Box<dyn FnMut(&str) -> Result<Posted, String> + Send>;

/// How spans are exported.
#[derive(Clone, Debug)]
pub struct ExporterOptions {
    /// Spans that may wait.
    pub waiting_max: usize,
    /// Spans of one request.
    pub batch_max: usize,
    /// How long a span may wait for others.
    pub batch_delay: Duration,
    /// For how long a batch is repeated that the collector could not take.
    pub retry_max: Duration,
    /// Who exports.
    pub resource: Resource,
}

/// Owns the thread.
#[derive(Debug)]
pub struct Exporter {
    queue: Arc<SpanQueue>,
    stop: Sender<()>,
    done: Receiver<()>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn start(options: ExporterOptions, post: Post) -> io::Result<Exporter> {
        let (queue, spans) = SpanQueue::new(options.waiting_max);
        let queue = Arc::new(queue);
        let (stop, stopped) = channel();
        let (end, done) = channel();
        let counted = queue.clone();
        let exporting = Exporting {
            queue: counted,
            spans,
            stopped,
            options,
            post,
            is_stopped: false,
            lost: 0,
            told: None,
        };
        thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            exporting.run();
            // Nobody waits for it if the server has not waited so long.
            let _ = end.send(());
        })?;
        Ok(Exporter { queue, stop, done })
    }

    /// Where shards put spans.
    pub fn queue(&self) -> &Arc<SpanQueue> {
        &self.queue
    }

    /// Exports what is there, and ends; what is not exported by then is lost. Whether all was tried within that time.
    pub fn finish(self, most: Duration) -> bool {
        // It cannot be told to stop if it has failed.
        let _ = self.stop.send(());
        self.queue.wake();
        self.done.recv_timeout(most) != Err(RecvTimeoutError::Timeout)
    }
}

/// What the thread has.
struct Exporting {
    queue: Arc<SpanQueue>,
    spans: Receiver<Vec<Span>>,
    stopped: Receiver<()>,
    options: ExporterOptions,
    post: Post,
    is_stopped: bool,
    /// Spans that are lost since the log has said so last, and when that was.
    lost: u64,
    told: Option<Instant>,
}

impl Exporting {
    fn run(mut self) {
        while !self.is_stopped {
            let batch = self.collect();
            self.export_all(&batch);
        }
        // What else is there goes along; nothing more comes.
        let rest: Vec<Span> = self.spans.try_iter().flatten().collect();
        self.export_all(&rest);
    }

    fn export_all(&mut self, spans: &[Span]) {
        for part in spans.chunks(self.options.batch_max.max(1)) {
            self.export(part);
            self.queue.take(part.len());
        }
    }

    /// Spans for one request, or a few more: what came in one turn stays together.
    fn collect(&mut self) -> Vec<Span> {
        let Ok(mut batch) = self.spans.recv() else {
            self.is_stopped = true;
            return Vec::new();
        };
        let due = Instant::now() + self.options.batch_delay;
        while !self.has_stopped() && batch.len() < self.options.batch_max {
            let left = due.saturating_duration_since(Instant::now());
            match self.spans.recv_timeout(left) {
                Ok(more) => batch.extend(more),
                Err(_) => return batch,
            }
        }
        batch
    }

    fn has_stopped(&mut self) -> bool {
        self.is_stopped |= self.stopped.try_recv().is_ok();
        self.is_stopped
    }

    /// Posts one batch, again if that may help.
    fn export(&mut self, batch: &[Span]) {
        let text = encode(&self.options.resource, batch);
        let (count, begin) = (batch.len() as u64, Instant::now());
        let mut pause = FIRST_PAUSE;
        loop {
            let mut wanted = Duration::ZERO;
            let (problem, may_help) = match (self.post)(&text) {
                Ok(Posted { status: 200..=299, text, .. }) => {
                    let rejected = rejected(&text).min(count);
                    if rejected > 0 {
                        tracing::warn!(
                            event = "spans-rejected",
                            spans = rejected,
                            "the collector did not take all spans"
                        );
                    }
                    self.queue.counters().add_rejected(rejected);
                    return self.queue.counters().add_exported(count - rejected);
                }
                Ok(Posted { status, retry_after, .. }) => {
                    wanted = retry_after.unwrap_or_default();
                    (format!("the collector answers {status}"), RETRIABLE.contains(&status))
                }
                Err(problem) => (problem, true),
            };
            self.queue.counters().add_failed_request();
            let wait = pause.max(wanted);
            let is_late = begin.elapsed().saturating_add(wait) > self.options.retry_max;
            if !may_help || is_late || self.pause(wait) {
                self.tell_lost(count, &problem);
                return self.queue.counters().add_failed(count);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Says in the log that spans are lost, once in a while for all of them.
    fn tell_lost(&mut self, count: u64, problem: &str) {
        self.lost += count;
        if self.told.is_some_and(|told| told.elapsed() < TOLD_INTERVAL) {
            return;
        }
        let spans = std::mem::take(&mut self.lost);
        self.told = Some(Instant::now());
        tracing::warn!(
            event = "spans-not-exported",
            spans,
            problem,
            "spans are lost: the collector did not take them"
        );
    }

    /// Waits before the next attempt; whether the server ends meanwhile.
    fn pause(&mut self, pause: Duration) -> bool {
        self.is_stopped =
            self.is_stopped || self.stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
        self.is_stopped
    }
}

/// Statuses that OTLP/HTTP wants requests to be repeated after.
const RETRIABLE: [u16; 4] = [429, 502, 503, 504];
/// How long the first repetition waits; each waits twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Between two lines of the log about spans that are lost.
const TOLD_INTERVAL: Duration = Duration::from_secs(10);
