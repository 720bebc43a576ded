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
use tiderace_base::{Close, CloseCode, Sample, SampleValue};
use tiderace_broker::AccessChange;
use tiderace_config::{
    Config, IDENTITIES, Loaded, Origin, PutIdentities, Running, ServerConfig, Table, TakenOver,
    WithPut,
};
use tiderace_reactor::NodeControl;
use tiderace_wire::{
    Applies, ConfigChange, ConfigPage, ConfigQuery, Explanation, LogWord, Question,
};
use tracing::{info, warn};

use super::kept_identities::tell_unused;
use crate::identities::{self, SignedTokens};
use crate::metrics::{CONFIG_REFUSED, CONFIG_RELOADS};
use crate::monitor::Monitor;
use crate::persistence::Persistence;
use crate::tls::{self, CertificateWatch, Read};
use crate::{compose, events, explain, logging, rules, socketio};

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
    /// Whether the last reading has failed.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed) > 0
    }

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
    /// The configuration that was read last and could be used.
    pub(crate) read: Vec<Table>,
    /// Users, tokens and rules that were put while it ran.
    pub(crate) put: PutIdentities,
    /// Where those are kept.
    pub(crate) persistence: Option<Arc<Persistence>>,
    pub(crate) worker: AuthWorker,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) signed: SignedTokens,
    pub(crate) node: NodeControl,
    pub(crate) monitor: Arc<Monitor>,
    /// How the server ends, for who ends it.
    pub(crate) ending: Arc<RwLock<ServerConfig>>,
    /// What the log has said last of what was put and is not used.
    pub(crate) told_put: [Vec<String>; 2],
    /// The last problem that was said of a configuration that nobody had asked to be read.
    pub(crate) told: Option<String>,
}

/// Everything that another configuration needs, made.
struct Made {
    next: Loaded,
    read: Vec<Table>,
    changes: Vec<ConfigChange>,
    verifier: Arc<Verifier>,
    signed: SignedTokens,
    secured: Option<Read>,
    /// What was put while the server ran, if it may be.
    with: Option<WithPut>,
}

/// Other users, tokens and rules, made.
pub(super) struct MadeIdentities {
    next: Loaded,
    verifier: Arc<Verifier>,
    /// Issuers, if these have to tell other claims.
    signed: Option<SignedTokens>,
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

    /// Whether somebody may do something by the rules that hold now, and why.
    ///
    /// # Errors
    /// Says what of the question makes no sense.
    pub(crate) fn explain(&self, question: &Question) -> Result<Explanation, Close> {
        let rules = self.monitor.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        explain::explain(question, &rules, &self.running)
    }

    /// What the server holds to, and what of the configuration that was read last waits; somebody may have asked for another level
    /// of the log.
    ///
    /// # Errors
    /// Says what of the question makes no sense.
    pub(crate) fn config(
        &self,
        query: &ConfigQuery,
        asked_for: Option<LogWord>,
    ) -> Result<ConfigPage, Close> {
        let asked_for = asked_for.map(|level| (level.as_str().to_owned(), Origin::Put));
        let of_environment = || {
            let filter = logging::of_environment()?;
            Some((filter, Origin::Environment(logging::VARIABLE.to_owned())))
        };
        let log_level = asked_for.or_else(of_environment);
        let running = Running { held: &self.running, read: &self.read, log_level };
        running.page(query).map_err(|wrong| Close::new(CloseCode::BadOperation, wrong))
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
        let made = self.make();
        self.finish(made, certificates)
    }

    /// Looks whether the configuration says something else, and holds to it then; what has come of it. A problem is said once.
    pub(crate) fn look(
        &mut self,
        certificates: &mut Option<CertificateWatch>,
    ) -> Option<anyhow::Result<Vec<ConfigChange>>> {
        let made = self.make();
        let problem = made.as_ref().err().map(|error| format!("{error:#}"));
        let is_news = match &made {
            Ok(made) => made.changes.iter().any(|change| change.applies != Applies::Restart),
            Err(_) => self.told != problem,
        };
        let mut outcome = None;
        if is_news {
            outcome = Some(self.finish(made, certificates));
        } else if let Ok(made) = made {
            // What waits for the next start is no news, and is told to who asks.
            self.read = made.read;
            self.monitor.reloads.is_refused.store(0, Ordering::Relaxed);
        }
        self.told = problem;
        outcome
    }

    fn finish(
        &mut self,
        made: anyhow::Result<Made>,
        certificates: &mut Option<CertificateWatch>,
    ) -> anyhow::Result<Vec<ConfigChange>> {
        let applied = made.and_then(|made| self.apply(made, certificates));
        let counters = &self.monitor.reloads;
        counters.is_refused.store(u64::from(applied.is_err()), Ordering::Relaxed);
        match &applied {
            Ok(changes) => {
                counters.done.fetch_add(1, Ordering::Relaxed);
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

    /// What of another configuration is held to before the next start.
    fn taken_over(&self, next: &Loaded) -> TakenOver {
        let (before, after) = (&self.running.config, &next.config);
        let is_on = |loaded: &Loaded| loaded.config.tls.is_on(&loaded.config.certificates);
        let names = |config: &Config| {
            let tls = &config.tls;
            (tls.client_names.clone(), tls.client_groups.clone(), tls.client_host.clone())
        };
        // What the server is asked about logins it keeps the claims of that rules name.
        let asks_the_same = before.auth.http == after.auth.http
            && (before.auth.http.is_none()
                || identities::claims_of_rules(&before.auth)
                    == identities::claims_of_rules(&after.auth));
        TakenOver {
            // Half of them would be another server than either of the two configurations describes.
            identities: asks_the_same
                && names(before) == names(after)
                && before.auth.is_enforced() == after.auth.is_enforced(),
            for_new_connections: is_on(&self.running) && is_on(next),
        }
    }

    fn make(&self) -> anyhow::Result<Made> {
        let loaded = (self.load)()?;
        check(&loaded)?;
        if !self.running.config.auth.managed {
            return self.make_of(loaded);
        }
        let with = loaded.with_put(&self.put)?;
        let mut made = self.make_of(with.loaded.clone())?;
        made.with = Some(with);
        Ok(made)
    }

    /// Everything that this configuration needs.
    fn make_of(&self, loaded: Loaded) -> anyhow::Result<Made> {
        let what = self.taken_over(&loaded);
        let mut changes = self.running.changes(&loaded);
        for change in &mut changes {
            let is_late = match change.applies {
                Applies::Now => !what.identities && IDENTITIES.contains(&&*change.option),
                Applies::NewConnections => !what.for_new_connections,
                Applies::Restart => true,
            };
            if is_late {
                change.applies = Applies::Restart;
            }
        }
        let mut next = self.running.clone();
        next.take_over(&loaded, what);
        let auth = &next.config.auth;
        let verifier = Arc::new(identities::verifier(auth, Some(&self.verifier))?);
        let signed = identities::signed_tokens(auth, verifier.marks(), Some(&self.signed))?;
        if !signed.accepts_the_same(&self.signed) && !has(&changes, "jwt") {
            // The file of a key has another one.
            changes.push(ConfigChange { option: "jwt".into(), applies: Applies::Now });
        }
        let secured = tls::read(&next.config)?;
        let read = loaded.tables;
        Ok(Made { next, read, changes, verifier, signed, secured, with: None })
    }

    /// What other users, tokens and rules need, and nothing else of the configuration.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub(super) fn make_identities(&self, next: Loaded) -> anyhow::Result<MadeIdentities> {
        let auth = &next.config.auth;
        let verifier = Arc::new(identities::verifier(auth, Some(&self.verifier))?);
        let claims = identities::claims_of_rules;
        let is_same = claims(auth) == claims(&self.running.config.auth);
        let signed = match is_same {
            true => None,
            false => Some(identities::signed_tokens(auth, verifier.marks(), Some(&self.signed))?),
        };
        Ok(MadeIdentities { next, verifier, signed })
    }

    /// Holds to these.
    pub(super) fn apply_identities(&mut self, made: MadeIdentities, has_other_rules: bool) {
        let MadeIdentities { next, verifier, signed } = made;
        let mut before = None;
        if let Some(mut signed) = signed {
            match signed.fetch_keys(&self.worker.handle(), Some(&mut self.signed)) {
                Ok(()) => before = Some(std::mem::replace(&mut self.signed, signed)),
                Err(error) => warn!(
                    event = "claims-not-read",
                    %error,
                    "the thread that fetches keys could not be started, so claims that rules name for the first time are not read of tokens; reload the configuration"
                ),
            }
        }
        self.verifier = verifier;
        self.change_access(&next, has_other_rules);
        self.running = next;
        // Keys that are being fetched for nobody any more are waited for at last.
        drop(before);
    }

    /// Others may come in, and, if so, other rules decide.
    fn change_access(&self, next: &Loaded, has_other_rules: bool) {
        let auth = &next.config.auth;
        self.worker.change(self.verifier.clone(), self.signed.issuers.clone());
        let rules = has_other_rules.then(|| rules::rules(auth));
        if let Some(rules) = &rules {
            self.monitor.change_rules(rules.clone());
        }
        self.node.change_access(AccessChange {
            verify_logins: auth.is_enforced(),
            rules,
            limits: compose::limits(&next.config),
            credentials: identities::accepted(auth, &self.verifier, &self.signed),
        });
    }

    fn apply(
        &mut self,
        made: Made,
        certificates: &mut Option<CertificateWatch>,
    ) -> anyhow::Result<Vec<ConfigChange>> {
        let Made { next, read, changes, verifier, mut signed, secured, with } = made;
        let is_other = |option: &str| {
            let mut changes = changes.iter();
            changes.any(|it| &*it.option == option && it.applies == Applies::Now)
        };
        signed
            .fetch_keys(&self.worker.handle(), Some(&mut self.signed))
            .context("the thread that fetches keys could not be started")?;
        let before = std::mem::replace(&mut self.signed, signed);
        if IDENTITIES.iter().any(|section| is_other(section)) || is_other("limit") {
            self.verifier = verifier;
            self.change_access(&next, is_other("rule"));
        }
        if let (Some(watch), Some(read)) = (certificates, secured) {
            watch.change(&next.config, &read);
        }
        *self.ending.write().unwrap_or_else(PoisonError::into_inner) = next.config.server.clone();
        if let Some(with) = with
            && self.told_put != [with.hidden.clone(), with.left_out.clone()]
        {
            tell_unused(&with);
            self.told_put = [with.hidden, with.left_out];
        }
        (self.running, self.read) = (next, read);
        // Keys that are being fetched for nobody any more are waited for at last.
        drop(before);
        Ok(changes)
    }
}

/// What the server would do with a configuration at its start and that could fail, but for what takes hold of something.
fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let config = &loaded.config;
    compose::broker(config, 1 << 30)?;
    events::options(config)?;
    socketio::options(config)?;
    tls::read(config)?;
    Ok(())
}

fn has(changes: &[ConfigChange], option: &str) -> bool {
    changes.iter().any(|change| &*change.option == option)
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
