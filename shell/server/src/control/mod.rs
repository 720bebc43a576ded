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
mod identities;
mod kept_identities;
mod reload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tiderace_base::{Close, CloseCode, SessionId, Span};
use tiderace_reactor::{NodeAnswer, Operator};
use tiderace_store::Backups;
use tiderace_wire::{
    AuditOutcome, AuditQuery, AuditRecord, ConfigChange, LogWord, NodeOperation, NodeReport,
    OperationResult,
};
use tracing::{error, info};

use backup::Backup;
pub(crate) use kept_identities::with_kept;
pub(crate) use reload::{Load, ReloadCounters, Reloader};

use crate::audit::AuditLog;
use crate::tls::CertificateWatch;
use crate::{logging, service_manager};

/// What may wait to be done. Each takes some milliseconds, or some tens of them for each password that has changed; one for a
/// backup waits for the disk, the first of it up to 8 s for the store.
const WAITING_MAX: usize = 16;

/// Sessions that have ended while as much as that waits: more than there can be readers of backups, unless somebody plays.
const ENDED_MAX: usize = 1024;
/// How long the thread waits after a defect before it goes on.
const PAUSE: Duration = Duration::from_secs(1);
/// Characters that are recorded of why a configuration was refused.
const REASON_CHARS_MAX: usize = 1_024;

/// What the thread is asked for.
enum Ask {
    /// To look whether SIGHUP has come.
    Wake,
    /// By a session that may.
    Operate(Box<(NodeOperation, NodeAnswer)>),
    /// To look whether a session that has ended was reading a backup.
    ReaderEnded(SessionId),
}

/// The way to the thread, for all others.
#[derive(Clone)]
pub(crate) struct Control {
    asks: SyncSender<Ask>,
    has_hung_up: Arc<AtomicBool>,
    ended: Arc<Ended>,
    audit: Arc<AuditLog>,
}

/// What has been asked for.
pub(crate) struct Asks {
    asks: Receiver<Ask>,
    has_hung_up: Arc<AtomicBool>,
    ended: Arc<Ended>,
}

/// Sessions that were reading a backup and have ended while the queue was full.
#[derive(Default)]
struct Ended(Mutex<Vec<SessionId>>);

impl Ended {
    fn add(&self, session: SessionId) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is not heard of keeps a backup for half a minute longer.
        if sessions.len() < ENDED_MAX {
            sessions.push(session);
        }
    }

    fn take(&self) -> Vec<SessionId> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Control {
    /// The way to the thread that takes what is asked for, and to the record of it.
    pub(crate) fn new(audit: Arc<AuditLog>) -> (Control, Asks) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let has_hung_up = Arc::new(AtomicBool::new(false));
        let ended = Arc::<Ended>::default();
        let asks = Asks { asks: receiver, has_hung_up, ended };
        let (has_hung_up, ended) = (asks.has_hung_up.clone(), asks.ended.clone());
        (Control { asks: sender, has_hung_up, ended, audit }, asks)
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
        if let NodeOperation::Audit(query) = &operation {
            // Who reads it again and again takes no place of those who have something to be done.
            return answer.send(Ok(page_of(&self.audit, query)));
        }
        let refused = match self.asks.try_send(Ask::Operate(Box::new((operation, answer)))) {
            Ok(()) => return,
            Err(TrySendError::Full(ask) | TrySendError::Disconnected(ask)) => ask,
        };
        if let Ask::Operate(asked) = refused {
            let (_, answer) = *asked;
            let reason = "the node has as much to do of that kind as it may; try again in a second";
            answer.send(Err(Close::new(CloseCode::TooMuchWork, reason)));
        }
    }

    fn record(&self, record: AuditRecord) {
        if self.audit.record(record) {
            // Before a full queue the thread is awake.
            let _ = self.asks.try_send(Ask::Wake);
        }
    }

    fn reader_ended(&self, session: SessionId) {
        if self.asks.try_send(Ask::ReaderEnded(session)).is_err() {
            // Before a full queue the thread is awake, and looks there when it has done all of that.
            self.ended.add(session);
        }
    }
}

/// What the thread looks after.
pub(crate) struct Duties {
    pub(crate) reloader: Reloader,
    /// Certificates, if TLS is spoken.
    pub(crate) certificates: Option<CertificateWatch>,
    /// Where backups come from, if there is a store.
    pub(crate) backups: Option<Backups>,
    /// The record of changes.
    pub(crate) audit: Arc<AuditLog>,
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
        log_asked_for: None,
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
    /// The level of the log that somebody has asked for instead of the configured one.
    log_asked_for: Option<LogWord>,
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
            let audit = self.duties.audit.until();
            let (reload, certificates) = (self.next_reload, self.next_certificates);
            let next = [self.log_until, reload, certificates, self.backup.until(), audit];
            let wait = next.into_iter().flatten().min();
            let wait = match asks.ended.is_empty() {
                true => wait.map_or(FOREVER, |at| at.saturating_duration_since(now)),
                false => Duration::ZERO,
            };
            let asked = asks.asks.recv_timeout(wait);
            let asked = match asked {
                Ok(ask) => Some(ask),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !carefully(|| self.act(asked, asks)) {
                // What was due may be so still, and is tried again from time to time.
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Does what was asked for, and what is due.
    fn act(&mut self, asked: Option<Ask>, asks: &Asks) {
        let is_idle = asked.is_none();
        match asked {
            Some(Ask::Operate(asked)) => {
                let (operation, answer) = *asked;
                let session = answer.session();
                answer.send(self.operate(&operation, session));
            }
            Some(Ask::ReaderEnded(session)) => self.backup.reader_ended(session),
            Some(Ask::Wake) | None => {}
        }
        if is_idle {
            // Behind all that they have asked for.
            asks.ended.take().into_iter().for_each(|session| self.backup.reader_ended(session));
        }
        if asks.has_hung_up.swap(false, Ordering::AcqRel) {
            self.hang_up();
        }
        let now = Instant::now();
        self.backup.forget_silent(now, is_idle);
        self.do_what_is_due(now);
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
            let outcome = self.duties.reloader.look(&mut self.duties.certificates);
            self.note_log_level(before);
            if let Some(outcome) = &outcome {
                self.record_reload("interval", outcome);
            }
            let interval = self.duties.reloader.interval();
            self.next_reload = (!interval.is_zero()).then(|| now + interval);
        }
        self.duties.audit.tell_left_out();
        if is_due(self.next_certificates)
            && let Some(watch) = &mut self.duties.certificates
        {
            watch.look();
            self.next_certificates = Some(now + watch.interval());
        }
    }

    fn hang_up(&mut self) {
        let outcome = self.reload(|duties| {
            if let Some(watch) = &mut duties.certificates {
                watch.read_again();
            }
        });
        self.record_reload("signal", &outcome);
    }

    /// Records a reload that no session has asked for.
    fn record_reload(&self, who: &str, outcome: &anyhow::Result<Vec<ConfigChange>>) {
        let outcome = match outcome {
            Ok(changes) => {
                let report = NodeReport::Reload { dry_run: false, changes: changes.clone() };
                let mut json = Vec::new();
                OperationResult::Node(Box::new(report)).write_json(&mut json, false);
                AuditOutcome::Done(String::from_utf8_lossy(&json).into())
            }
            Err(error) => {
                let Close { code, reason, .. } = refused(error);
                // A configuration may have very many problems.
                let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
                let reason = reason.into();
                AuditOutcome::Refused { code: code.slug(), reason }
            }
        };
        let (who, on) = (who.into(), "".into());
        let (via, from, verb) = (None, None, "reload");
        // Whatever is left out of them is looked for before this thread waits again.
        self.duties.audit.record(AuditRecord { who, via, from, verb, on, outcome });
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
        if level != before && self.log_asked_for.is_none() {
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
            NodeOperation::Identities(asked) => self.duties.reloader.identities(asked),
            NodeOperation::Explain(question) => {
                let told = self.duties.reloader.explain(question)?;
                Ok(NodeReport::Explained(Box::new(told)))
            }
            NodeOperation::Config(query) => {
                let page = self.duties.reloader.config(query, self.log_asked_for)?;
                Ok(NodeReport::Config(Box::new(page)))
            }
            NodeOperation::Audit(query) => Ok(page_of(&self.duties.audit, query)),
            NodeOperation::Log { level: None, .. } => {
                let level = self.log_as_configured();
                Ok(NodeReport::Log { level, lasts: None })
            }
            NodeOperation::Log { level: Some(level), lasts } => {
                let lasts = *lasts;
                logging::set_level(*level);
                self.log_asked_for = Some(*level);
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
        (self.log_until, self.log_asked_for) = (None, None);
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

/// Does something; false if that has failed by a defect, which the log tells with its place. Who had asked for it is told so, and
/// the thread goes on: without it nobody could look after the node any more.
fn carefully(act: impl FnOnce()) -> bool {
    let went_well = catch_unwind(AssertUnwindSafe(act)).is_ok();
    if !went_well {
        error!(
            event = "control-failed",
            "something that was asked of the node has failed by a defect of the server, which goes on; please report the line \
             `panic` before this one"
        );
    }
    went_well
}

/// A part of the record, as an answer.
fn page_of(audit: &AuditLog, query: &AuditQuery) -> NodeReport {
    NodeReport::Audit(Box::new(audit.page(query)))
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

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use tiderace_base::ShardId;

    use super::*;

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    #[test]
    fn the_end_of_a_reader_is_heard_of_however_much_waits() {
        let (control, asks) = Control::new(Arc::default());
        for _ in 0..WAITING_MAX {
            control.asks.try_send(Ask::Wake).unwrap();
        }
        control.reader_ended(session(7));
        assert!(!asks.ended.is_empty(), "the thread does not wait");
        assert_eq!(asks.ended.take(), [session(7)]);
        assert!(asks.ended.is_empty());
        asks.asks.try_iter().for_each(drop);
        control.reader_ended(session(8));
        assert!(matches!(asks.asks.try_recv(), Ok(Ask::ReaderEnded(ended)) if ended == session(8)));
        for slot in 0..2 * ENDED_MAX as u32 {
            asks.ended.add(session(slot));
        }
        assert_eq!(asks.ended.take().len(), ENDED_MAX);
    }

    #[test]
    fn a_defect_ends_what_has_it_and_not_the_thread() {
        assert!(carefully(|| ()));
        assert!(!carefully(|| panic!("a defect")));
    }
}
