//! What is done for the node as a whole while it runs, on a thread that may wait: reading the configuration and certificates
//! again, the level of the log, and backups.
//!
//! ```text
//!   SIGHUP ───────────────┐
//!   `reload`, `log`, … ───┼─▶ one thread, one thing after the other ─▶ shards (`NodeControl`), logins, monitor, log
//!   intervals ────────────┘                     └─▶ answer
//! ```
//! Relies on `reload` for the configuration and on `tls` for certificates. Invariant: who asks is answered, and never waits on
//! a shard.

mod backup;
mod reload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use tiderace_base::{Close, CloseCode, SessionId, Span};
use tiderace_reactor::{NodeAnswer, Operator};
use tiderace_store::Backups;
use tiderace_wire::{ConfigChange, LogWord, NodeOperation, NodeReport};
use tracing::info;

use backup::Backup;
pub(crate) use reload::{Load, ReloadCounters, Reloader};

use crate::tls::CertificateWatch;
use crate::{logging, service_manager};

/// What may wait to be done. Each takes some milliseconds, or some tens of them for each password that has changed; one for a
/// backup waits for the disk, the first of it up to 8 s for the store.
const WAITING_MAX: usize = 16;

/// What the thread is asked for.
enum Ask {
    /// To look whether SIGHUP has come.
    Wake,
    /// By a session that may.
    Operate(NodeOperation, NodeAnswer),
    /// To look whether a session that has ended was reading a backup.
    ReaderEnded(SessionId),
}

/// The way to the thread, for all others.
#[derive(Clone)]
pub(crate) struct Control {
    asks: SyncSender<Ask>,
    has_hung_up: Arc<AtomicBool>,
}

/// What has been asked for.
pub(crate) struct Asks {
    asks: Receiver<Ask>,
    has_hung_up: Arc<AtomicBool>,
}

impl Control {
    /// The way to the thread that takes what is asked for.
    pub(crate) fn new() -> (Control, Asks) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let has_hung_up = Arc::new(AtomicBool::new(false));
        let control = Control { asks: sender, has_hung_up: has_hung_up.clone() };
        (control, Asks { asks: receiver, has_hung_up })
    }

    /// SIGHUP has come: what can be read again is, once for those that come before that is done.
    pub(crate) fn hang_up(&self) {
        self.has_hung_up.store(true, Ordering::Release);
        // Before a full queue the thread is awake.
        let _ = self.asks.try_send(Ask::Wake);
    }
}

impl Operator for Control {
    fn operate(&self, operation: NodeOperation, answer: NodeAnswer) {
        let refused = match self.asks.try_send(Ask::Operate(operation, answer)) {
            Ok(()) => return,
            Err(TrySendError::Full(ask) | TrySendError::Disconnected(ask)) => ask,
        };
        if let Ask::Operate(_, answer) = refused {
            let reason = "the node has as much to do of that kind as it may; try again in a second";
            answer.send(Err(Close::new(CloseCode::TooMuchWork, reason)));
        }
    }

    fn reader_ended(&self, session: SessionId) {
        // A backup whose reader's end is not heard of is over when nobody has read on for long enough.
        let _ = self.asks.try_send(Ask::ReaderEnded(session));
    }
}

/// What the thread looks after.
pub(crate) struct Duties {
    pub(crate) reloader: Reloader,
    /// Certificates, if TLS is spoken.
    pub(crate) certificates: Option<CertificateWatch>,
    /// Where backups come from, if there is a store.
    pub(crate) backups: Option<Backups>,
    /// What the service manager is told of a server that runs as it is configured.
    pub(crate) serving: String,
}

/// Begins to do what is asked for, as long as the process runs.
///
/// # Errors
/// When the thread could not be started.
pub(crate) fn start(asks: Asks, duties: Duties) -> anyhow::Result<()> {
    let keeper = Keeper {
        backup: Backup::new(duties.backups.clone()),
        duties,
        log_is_asked_for: false,
        log_until: None,
        next_reload: None,
        next_certificates: None,
    };
    let thread = std::thread::Builder::new().name("control".to_owned());
    let thread = thread.spawn(move || keeper.run(&asks));
    thread.map(drop).context("the thread that looks after the node could not be started")
}

struct Keeper {
    duties: Duties,
    backup: Backup,
    /// Whether the log has another level than it is configured to have.
    log_is_asked_for: bool,
    /// Until when the log has another level than it is configured to have.
    log_until: Option<Instant>,
    next_reload: Option<Instant>,
    next_certificates: Option<Instant>,
}

impl Keeper {
    fn run(mut self, asks: &Asks) {
        self.plan(Instant::now());
        loop {
            let now = Instant::now();
            let next =
                [self.log_until, self.next_reload, self.next_certificates, self.backup.until()];
            let wait = next.into_iter().flatten().min();
            let wait = wait.map_or(FOREVER, |at| at.saturating_duration_since(now));
            let asked = asks.asks.recv_timeout(wait);
            let is_idle = matches!(asked, Err(RecvTimeoutError::Timeout));
            match asked {
                Ok(Ask::Operate(operation, answer)) => {
                    let session = answer.session();
                    answer.send(self.operate(&operation, session));
                }
                Ok(Ask::ReaderEnded(session)) => self.backup.reader_ended(session),
                Ok(Ask::Wake) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if asks.has_hung_up.swap(false, Ordering::AcqRel) {
                self.hang_up();
            }
            let now = Instant::now();
            self.backup.forget_silent(now, is_idle);
            self.do_what_is_due(now);
        }
    }

    /// When files are looked at again.
    fn plan(&mut self, now: Instant) {
        let after = |interval: Duration| (!interval.is_zero()).then(|| now + interval);
        self.next_reload = after(self.duties.reloader.interval());
        let certificates = self.duties.certificates.as_ref();
        self.next_certificates = certificates.and_then(|watch| after(watch.interval()));
    }

    fn do_what_is_due(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.log_until) {
            self.log_as_configured();
        }
        if is_due(self.next_reload) {
            let before = self.duties.reloader.log_level();
            self.duties.reloader.look(&mut self.duties.certificates);
            self.note_log_level(before);
            let interval = self.duties.reloader.interval();
            self.next_reload = (!interval.is_zero()).then(|| now + interval);
        }
        if is_due(self.next_certificates)
            && let Some(watch) = &mut self.duties.certificates
        {
            watch.look();
            self.next_certificates = Some(now + watch.interval());
        }
    }

    fn hang_up(&mut self) {
        // The log says what has come of it.
        let _ = self.reload(|duties| {
            if let Some(watch) = &mut duties.certificates {
                watch.read_again();
            }
        });
    }

    /// Reads the configuration again; `also` is done before the service manager hears that the server is ready.
    fn reload(&mut self, also: impl FnOnce(&mut Duties)) -> anyhow::Result<Vec<ConfigChange>> {
        service_manager::reloading();
        let before = self.duties.reloader.log_level();
        let changes = self.duties.reloader.reload(&mut self.duties.certificates);
        self.note_log_level(before);
        also(&mut self.duties);
        service_manager::ready(&match &changes {
            Ok(_) => self.duties.serving.clone(),
            Err(error) => {
                format!("Goes on as before; the new configuration was refused: {error:#}")
            }
        });
        changes
    }

    /// The log may be configured otherwise than before, which counts unless somebody has asked for another level.
    fn note_log_level(&self, before: LogWord) {
        let level = self.duties.reloader.log_level();
        if level != before && !self.log_is_asked_for {
            logging::set_configured(level);
        }
    }

    fn operate(
        &mut self,
        operation: &NodeOperation,
        session: SessionId,
    ) -> Result<NodeReport, Close> {
        match operation {
            NodeOperation::Reload { dry_run: true } => {
                let changes = self.duties.reloader.try_out().map_err(|error| refused(&error))?;
                Ok(NodeReport::Reload { dry_run: true, changes })
            }
            NodeOperation::Reload { dry_run: false } => {
                let changes = self.reload(|_| ()).map_err(|error| refused(&error))?;
                Ok(NodeReport::Reload { dry_run: false, changes })
            }
            NodeOperation::Backup { dry_run: true } => self.backup.look(),
            NodeOperation::Backup { dry_run: false } => self.backup.begin(session, &Instant::now),
            NodeOperation::BackupRead { backup, from } => {
                self.backup.read(session, (*backup, *from), &Instant::now)
            }
            NodeOperation::Log { level: None, .. } => {
                let level = self.log_as_configured();
                Ok(NodeReport::Log { level, lasts: None })
            }
            NodeOperation::Log { level: Some(level), lasts } => {
                let lasts = *lasts;
                logging::set_level(*level);
                self.log_is_asked_for = true;
                self.log_until = lasts.map(|span| Instant::now() + duration(span));
                info!(
                    event = "log-level",
                    level = level.as_str(),
                    for_s = lasts.map(|span| span.as_secs_f32()),
                    "another level of the log was asked for"
                );
                Ok(NodeReport::Log { level: *level, lasts })
            }
        }
    }

    /// The log is written as the configuration says.
    fn log_as_configured(&mut self) -> LogWord {
        (self.log_until, self.log_is_asked_for) = (None, false);
        let level = self.duties.reloader.log_level();
        // Said before, so that it is written if the log says more now.
        info!(
            event = "log-level-over",
            level = level.as_str(),
            "the log is as it is configured again"
        );
        logging::set_configured(level);
        level
    }
}

/// What a client is told of a configuration that cannot be used.
fn refused(error: &anyhow::Error) -> Close {
    Close::new(CloseCode::BadConfiguration, format!("nothing was changed: {error:#}"))
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Nothing is due.
const FOREVER: Duration = Duration::from_secs(86_400);
