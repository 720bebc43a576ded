//! The configuration that is read again while the server runs: whole or not at all.
//!
//! Everything that could fail is made first: the texts are checked as at the start, passwords hashed, keys and
//! certificates read. Then it is handed out, which cannot fail. Relies on `tiderace_config` for what of it is held to
//! before the next start. Invariant: a configuration that cannot be used changes nothing but the log and the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use tiderace_auth::{AuthWorker, Verifier};
use tiderace_base::{Sample, SampleValue};
use tiderace_broker::AccessChange;
use tiderace_config::{Loaded, ServerConfig};
use tiderace_reactor::NodeControl;
use tiderace_wire::{Applies, ConfigChange, LogWord};
use tracing::{info, warn};

use crate::identities::{self, SignedTokens};
use crate::metrics::{CONFIG_REFUSED, CONFIG_RELOADS};
use crate::monitor::Monitor;
use crate::tls::{self, CertificateWatch, Read};
use crate::{compose, logging};

/// Reads the configuration as at the start.
pub(crate) type Load = Box<dyn Fn() -> anyhow::Result<Loaded> + Send>;

/// What has come of it, for metrics.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounters {
    done: AtomicU64,
    failed: AtomicU64,
    /// Whether the last one failed.
    is_refused: AtomicU64,
}

impl ReloadCounters {
    /// The metrics.
    pub(crate) fn samples(&self) -> [Sample<'static>; 3] {
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let reloads = |outcome, cell| {
            let value = SampleValue::Number(value(cell));
            Sample { row: &CONFIG_RELOADS, labels: vec![outcome], value }
        };
        [
            reloads("done", &self.done),
            reloads("failed", &self.failed),
            Sample::number(&CONFIG_REFUSED, value(&self.is_refused)),
        ]
    }
}

/// What is changed when the configuration is.
pub(crate) struct Reloader {
    pub(crate) load: Load,
    /// What the server runs by.
    pub(crate) running: Loaded,
    pub(crate) worker: AuthWorker,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) signed: SignedTokens,
    pub(crate) node: NodeControl,
    pub(crate) monitor: Arc<Monitor>,
    /// How the server ends, for who ends it.
    pub(crate) ending: Arc<RwLock<ServerConfig>>,
    /// The last problem that was said of a configuration that nobody had asked to be read.
    pub(crate) told: Option<String>,
}

/// Everything that another configuration needs, made.
struct Made {
    next: Loaded,
    changes: Vec<ConfigChange>,
    verifier: Arc<Verifier>,
    signed: SignedTokens,
    access: AccessChange,
    secured: Option<Read>,
}

impl Reloader {
    /// How often the configuration is looked at without being asked; zero: never.
    pub(crate) fn interval(&self) -> Duration {
        self.running.config.server.reload_interval
    }

    /// The level of the log that is configured.
    pub(crate) fn log_level(&self) -> LogWord {
        logging::word(self.running.config.log.level)
    }

    /// Reads the configuration, and says what holding to it would change.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn try_out(&self) -> anyhow::Result<Vec<ConfigChange>> {
        Ok(self.make()?.changes)
    }

    /// Reads the configuration and holds to it; says what has changed.
    ///
    /// # Errors
    /// Why it cannot be used: nothing has changed.
    pub(crate) fn reload(
        &mut self,
        certificates: &mut Option<CertificateWatch>,
    ) -> anyhow::Result<Vec<ConfigChange>> {
        let applied = self.make().and_then(|made| self.apply(made, certificates));
        let counters = &self.monitor.reloads;
        counters.is_refused.store(u64::from(applied.is_err()), Ordering::Relaxed);
        match &applied {
            Ok(changes) => {
                counters.done.fetch_add(1, Ordering::Relaxed);
                self.told = None;
                log_changes(changes);
            }
            Err(error) => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                warn!(
                    event = "configuration-refused",
                    "the configuration was read again and cannot be used, so the server goes on as before: {error:#}"
                );
            }
        }
        applied
    }

    /// Looks whether the configuration says something else, and holds to it then.
    pub(crate) fn look(&mut self, certificates: &mut Option<CertificateWatch>) {
        match (self.load)() {
            Ok(next) => {
                let changes = self.changes(&next);
                if changes.iter().any(|change| change.applies != Applies::Restart) {
                    // The log says what has come of it.
                    let _ = self.reload(certificates);
                } else if self.told.take().is_some() {
                    self.monitor.reloads.is_refused.store(0, Ordering::Relaxed);
                }
            }
            Err(error) => {
                let problem = format!("{error:#}");
                if self.told.as_ref() != Some(&problem) {
                    // Counts and says it, once for each problem.
                    let _ = self.reload(certificates);
                    self.told = Some(problem);
                }
            }
        }
    }

    /// What another configuration would change, and when.
    fn changes(&self, next: &Loaded) -> Vec<ConfigChange> {
        let mut changes = self.running.changes(next);
        if !self.keeps_tls(next) {
            let late = changes.iter_mut().filter(|it| it.applies == Applies::NewConnections);
            late.for_each(|change| change.applies = Applies::Restart);
        }
        changes
    }

    /// Whether TLS is spoken before and after.
    fn keeps_tls(&self, next: &Loaded) -> bool {
        let is_on = |loaded: &Loaded| loaded.config.tls.is_on(&loaded.config.certificates);
        is_on(&self.running) && is_on(next)
    }

    fn make(&self) -> anyhow::Result<Made> {
        let loaded = (self.load)()?;
        let changes = self.changes(&loaded);
        let mut next = self.running.clone();
        next.take_over(&loaded, self.keeps_tls(&loaded));
        let auth = &next.config.auth;
        let verifier = Arc::new(identities::verifier(auth, Some(&self.verifier))?);
        let signed = identities::signed_tokens(auth, verifier.marks(), Some(&self.signed))?;
        let access = AccessChange {
            verify_logins: auth.is_enforced(),
            rules: compose::rules(auth),
            limits: compose::limits(&next.config),
            credentials: identities::accepted(auth, &verifier),
        };
        let secured = tls::read(&next.config)?;
        Ok(Made { next, changes, verifier, signed, access, secured })
    }

    fn apply(
        &mut self,
        made: Made,
        certificates: &mut Option<CertificateWatch>,
    ) -> anyhow::Result<Vec<ConfigChange>> {
        let Made { next, changes, verifier, mut signed, access, secured } = made;
        let issuers = signed.issuers.clone();
        signed
            .fetch_keys(&self.worker.handle(), Some(&mut self.signed))
            .context("the thread that fetches keys could not be started")?;
        self.signed = signed;
        self.worker.change(verifier.clone(), issuers);
        self.verifier = verifier;
        self.monitor.change_rules(access.rules.clone());
        self.node.change_access(access);
        if let (Some(watch), Some(read)) = (certificates, secured) {
            watch.change(&next.config, &read);
        }
        if next.config.log.level != self.running.config.log.level {
            logging::set_configured(logging::word(next.config.log.level));
        }
        *self.ending.write().unwrap_or_else(PoisonError::into_inner) = next.config.server.clone();
        self.running = next;
        Ok(changes)
    }
}

fn log_changes(changes: &[ConfigChange]) {
    let of = |applies: Applies| {
        let changes = changes.iter().filter(|change| change.applies == applies);
        changes.map(|change| &*change.option).collect::<Vec<_>>().join(", ")
    };
    info!(
        event = "configuration-reloaded",
        now = of(Applies::Now),
        new_connections = of(Applies::NewConnections),
        restart = of(Applies::Restart),
        "the configuration was read again; what `restart` names is held to at the next start"
    );
}
