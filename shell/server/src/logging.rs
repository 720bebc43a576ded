//! Logs on standard error: short lines of text for people on a terminal, JSON lines otherwise. Colours are for
//! terminals alone.
//!
//! Lines are written by a thread of their own. A thread that has something to say puts the line into a
//! bounded queue and goes on; what does not fit, or cannot be written, is dropped and counted. Invariant: no
//! shard ever waits for a reader of the log, and nothing that happens to standard error ends the process.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiderace_base::Sample;
use tiderace_config::{LogConfig, LogFormat, LogLevel};
use tiderace_wire::LogWord;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::reload;

use crate::metrics::LOG_LINES_DROPPED;

/// The log of this process, once it has begun.
static LOG: OnceLock<LogQueue> = OnceLock::new();

/// Puts another filter before the log.
type SetFilter = Box<dyn Fn(EnvFilter) + Send + Sync>;

/// The variable that outweighs the configured level.
pub(crate) const VARIABLE: &str = EnvFilter::DEFAULT_ENV;

/// Changes which lines are written.
static FILTER: OnceLock<SetFilter> = OnceLock::new();

/// The level of the configuration, as everywhere else.
pub(crate) fn word(level: LogLevel) -> LogWord {
    match level {
        LogLevel::Debug => LogWord::Debug,
        LogLevel::Error => LogWord::Error,
        LogLevel::Info => LogWord::Info,
        LogLevel::Trace => LogWord::Trace,
        LogLevel::Warn => LogWord::Warn,
    }
}

/// Writes lines of that level from now on, whatever was configured.
pub(crate) fn set_level(level: LogWord) {
    set(EnvFilter::new(level.as_str()));
}

/// Writes lines as the configuration says from now on; `RUST_LOG` overrides it, as at the start.
pub(crate) fn set_configured(level: LogWord) {
    set(configured(level));
}

fn set(filter: EnvFilter) {
    if let Some(set) = FILTER.get() {
        set(filter);
    }
}

fn configured(level: LogWord) -> EnvFilter {
    let filter = of_environment().and_then(|text| EnvFilter::try_new(text).ok());
    filter.unwrap_or_else(|| EnvFilter::new(level.as_str()))
}

/// What the environment says of the lines that are written, if that outweighs the configuration.
pub(crate) fn of_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|text| EnvFilter::try_new(text).is_ok())
}

/// Starts logging. `RUST_LOG` overrides the configured level.
pub(crate) fn start(config: &LogConfig) {
    let filter = configured(word(config.level));
    let is_terminal = io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let queue = LOG.get_or_init(|| {
        let (queue, lines) = LogQueue::new();
        let writer = queue.clone();
        let thread = std::thread::Builder::new().name("log".to_owned());
        // Not `io::stderr()`: its lock would be held as long as a write waits for a reader.
        let to = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        // Without file or thread all lines are dropped and counted, and the server runs.
        let _ = to.and_then(|to| thread.spawn(move || writer.write_lines(&lines, to)));
        queue
    });
    // A queue takes everything, so there are no errors to tell; telling them would write to standard error.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone())
        .log_internal_errors(false);
    // A second start, as in tests, keeps the first one's settings.
    if json {
        let builder = builder.json().flatten_event(true).with_filter_reloading();
        keep_filter(builder.reload_handle());
        let _ = builder.try_init();
    } else if is_terminal {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let short = builder.compact().with_target(false).with_timer(Clock);
        let builder = short.with_ansi(has_colours).with_filter_reloading();
        keep_filter(builder.reload_handle());
        let _ = builder.try_init();
    } else {
        let builder = builder.with_target(false).with_ansi(false).with_filter_reloading();
        keep_filter(builder.reload_handle());
        let _ = builder.try_init();
    }
    log_panics();
}

/// Keeps the way to change what is written, of the log that begins first.
fn keep_filter<S: 'static>(handle: reload::Handle<EnvFilter, S>) {
    // It fails only when there is no log any more.
    let set = move |filter| drop(handle.reload(filter));
    let _ = FILTER.set(Box::new(set));
}

/// The time of day, in UTC: people at a terminal know which day it is.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write!(to, "{}", time_of_day(now))
    }
}

/// Hours, minutes, seconds and milliseconds of a time since 1970.
fn time_of_day(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, since_1970.subsec_millis())
}

/// Waits until what was logged is written, but not for a reader that does not read; says whether all is. To be
/// called before the process ends.
pub(crate) fn finish() -> bool {
    LOG.get().is_none_or(|queue| queue.wait(FINISH_TIMEOUT))
}

/// The metric.
pub(crate) fn sample() -> Sample<'static> {
    Sample::number(&LOG_LINES_DROPPED, dropped())
}

/// Lines that were dropped.
pub(crate) fn dropped() -> u64 {
    LOG.get().map_or(0, |queue| queue.shared.dropped.load(Ordering::Relaxed))
}

/// A panic is a line of the log like any other: the default hook would write to standard error itself, and
/// wait if nobody reads.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let literal = payload.downcast_ref::<&str>().copied();
        let formatted = payload.downcast_ref::<String>().map(String::as_str);
        let message = literal.or(formatted).unwrap_or("a panic without a message");
        tracing::error!(event = "panic", thread, place, message, "a defect of the server");
    }));
}

/// Takes lines without waiting.
#[derive(Clone)]
struct LogQueue {
    lines: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Bytes of lines that wait, the one that is being written included.
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl LogQueue {
    fn new() -> (LogQueue, Receiver<Vec<u8>>) {
        let (lines, receiver) = sync_channel(LINES_MAX);
        (LogQueue { lines, shared: Arc::default() }, receiver)
    }

    /// Takes a line, or drops and counts it.
    fn push(&self, line: Vec<u8>) {
        let bytes = line.len();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let refused = if waiting.saturating_add(bytes) > BYTES_MAX {
            true
        } else {
            match self.lines.try_send(line) {
                Ok(()) => false,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => true,
            }
        };
        if refused {
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes lines as long as there are any senders; tells of lost ones as soon as a line was written again.
    fn write_lines(&self, lines: &Receiver<Vec<u8>>, mut to: impl Write) {
        let mut told = 0;
        for line in lines {
            let written = to.write_all(&line).and_then(|()| to.flush());
            self.shared.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            if written.is_err() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let dropped = self.shared.dropped.load(Ordering::Relaxed);
            if dropped > told {
                let lines = dropped - told;
                told = dropped;
                tracing::warn!(
                    event = "log-lines-dropped",
                    lines,
                    "lines of the log were dropped: standard error was not read, or could not be written to"
                );
            }
        }
    }

    /// Waits until nothing waits, at most so long; says whether that is so.
    fn wait(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        let waits = || self.shared.waiting_bytes.load(Ordering::Relaxed) > 0;
        while waits() && begun.elapsed() < timeout {
            std::thread::sleep(FINISH_STEP);
        }
        !waits()
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = QueuedLine<'a>;

    fn make_writer(&'a self) -> QueuedLine<'a> {
        QueuedLine { queue: self, bytes: Vec::new() }
    }
}

/// One line, which is queued when it is whole.
struct QueuedLine<'a> {
    queue: &'a LogQueue,
    bytes: Vec<u8>,
}

impl Write for QueuedLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for QueuedLine<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.queue.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Lines that may wait to be written.
const LINES_MAX: usize = 8192;
/// Bytes of lines that may wait to be written.
const BYTES_MAX: usize = 4 << 20;
/// How long a process that ends waits for its log to be written.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks.
const FINISH_STEP: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_day() {
        assert_eq!(time_of_day(Duration::ZERO), "00:00:00.000");
        assert_eq!(time_of_day(Duration::from_millis(86_400_000 * 3 + 45_296_007)), "12:34:56.007");
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (queue, lines) = LogQueue::new();
        for _ in 0..LINES_MAX + 3 {
            queue.push(b"line\n".to_vec());
        }
        let dropped = || queue.shared.dropped.load(Ordering::Relaxed);
        assert_eq!(dropped(), 3);
        assert_eq!(queue.shared.waiting_bytes.load(Ordering::Relaxed), LINES_MAX * 5);
        while lines.try_recv().is_ok() {}
        queue.shared.waiting_bytes.store(0, Ordering::Relaxed);
        queue.push(vec![b'x'; BYTES_MAX]);
        queue.push(b"y".to_vec());
        assert_eq!(dropped(), 4, "bytes are bounded as well");
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        struct FullDevice;
        impl Write for FullDevice {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (queue, lines) = LogQueue::new();
        queue.push(b"one\n".to_vec());
        queue.push(b"two\n".to_vec());
        let shared = Arc::clone(&queue.shared);
        let LogQueue { lines: sender, .. } = queue;
        let (other, _) = LogQueue::new();
        let writer = LogQueue { shared: Arc::clone(&shared), lines: other.lines };
        drop(sender);
        writer.write_lines(&lines, FullDevice);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 2);
        assert_eq!(shared.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
