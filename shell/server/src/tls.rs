//! Certificates and keys: read at the start, looked at again while the server runs.
//!
//! Files are read on threads that may wait, never on a shard; shards are given finished settings. Invariants:
//! the server starts only with files that can be used; files that have become useless change nothing but
//! the log, and connections go on with what was there before.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use tiderace_base::{Sample, SampleValue};
use tiderace_config::{ClientCertificateUse, Config, TlsVersion};
use tiderace_reactor::NodeControl;
use tiderace_tls::{Choices, ClientCertificates, Identity, Problem, Settings, Version};
use tracing::{info, warn};

use crate::alarms::Holds;
use crate::metrics::{TLS_EXPIRY, TLS_RELOADS};

/// What there is to know of the certificates, for metrics.
#[derive(Debug, Default)]
pub(crate) struct TlsState {
    /// When each of them begins and ends.
    validities: Mutex<Vec<Validity>>,
    /// Times that changed files were taken.
    pub(crate) reloads: AtomicU64,
    /// Times that changed files could not be used.
    pub(crate) failures: AtomicU64,
    /// Whether the last reading of changed files has failed.
    were_refused: AtomicBool,
}

impl TlsState {
    /// At the start.
    pub(crate) fn new(validities: Vec<Validity>) -> TlsState {
        TlsState { validities: Mutex::new(validities), ..TlsState::default() }
    }

    fn validities(&self) -> MutexGuard<'_, Vec<Validity>> {
        self.validities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long the certificates hold from now on.
    pub(crate) fn look_at_certificates(&self, holds: &mut Vec<Holds>) {
        let now = seconds();
        holds.clear();
        holds.extend(self.validities().iter().map(|validity| validity.holds(now)));
    }

    /// Whether changed files could not be used when they were read last.
    pub(crate) fn were_refused(&self) -> bool {
        self.were_refused.load(Ordering::Relaxed)
    }

    /// The metrics.
    pub(crate) fn samples(&self) -> [Sample<'static>; 3] {
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let reloads = |outcome, cell| {
            let value = SampleValue::Number(value(cell));
            Sample { row: &TLS_RELOADS, labels: vec![outcome], value }
        };
        [
            Sample::number(&TLS_EXPIRY, first_end(&self.validities())),
            reloads("done", &self.reloads),
            reloads("failed", &self.failures),
        ]
    }
}

/// When a certificate begins and ends to hold, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    /// For how long it holds from then on.
    pub(crate) fn holds(self, now: u64) -> Holds {
        Holds {
            lifetime: self.not_after.saturating_sub(self.not_before),
            left: self.not_after.saturating_sub_unsigned(now),
        }
    }
}

/// When the first of them ends, in seconds since 1970.
fn first_end(validities: &[Validity]) -> u64 {
    let first = validities.iter().map(|validity| validity.not_after).min();
    first.unwrap_or(i64::MAX).max(0).unsigned_abs()
}

/// Settings made from files.
pub(crate) struct Read {
    pub(crate) settings: Settings,
    /// Of each certificate.
    pub(crate) validities: Vec<Validity>,
}

/// Reads what the configuration names; nothing if TLS is not spoken.
///
/// # Errors
/// Which file is wrong, how, and what to do.
pub(crate) fn read(config: &Config) -> anyhow::Result<Option<Read>> {
    let tls = &config.tls;
    if !tls.is_on(&config.certificates) {
        return Ok(None);
    }
    let mut identities = Vec::new();
    if tls.self_signed {
        identities.push(self_signed()?);
    }
    for (chain, key) in pairs(config) {
        identities.push(identity(chain, key)?);
    }
    let validity = |identity: &Identity| {
        let facts = identity.certificate();
        Validity { not_before: facts.not_before, not_after: facts.not_after }
    };
    let validities = identities.iter().map(validity).collect();
    let settings = Settings::new(Choices {
        identities,
        version_min: match tls.version_min {
            TlsVersion::Tls12 => Version::Tls12,
            TlsVersion::Tls13 => Version::Tls13,
        },
        clients: clients(config)?,
        alpn: alpn(config),
        clock: seconds,
    })
    .context("tls")?;
    Ok(Some(Read { settings, validities }))
}

/// The chain and the key of each certificate.
fn pairs(config: &Config) -> impl Iterator<Item = (&str, &str)> {
    let first = config.tls.certificate.as_deref().zip(config.tls.key.as_deref());
    let others = config.certificates.iter().map(|one| (one.chain.as_str(), one.key.as_str()));
    first.into_iter().chain(others)
}

/// Reads a certificate and its key.
///
/// # Errors
/// Which file is wrong, how, and what to do.
pub(crate) fn identity(chain: &str, key: &str) -> anyhow::Result<Identity> {
    let chain_pem = open("certificate", chain)?;
    let key_pem = open("private key", key)?;
    let identity = Identity::from_pem(&chain_pem, &key_pem).map_err(|problem| {
        let (what, file) = match problem {
            Problem::NoKey | Problem::BadKey(_) | Problem::KeyMismatch => ("private key", key),
            // Certificates are looked at first, so the chain is good PEM if the key is spoken of.
            Problem::Pem(_) if Identity::has_certificate(&chain_pem) => ("private key", key),
            _ => ("certificate", chain),
        };
        anyhow::anyhow!("the {what} {file} {problem}")
    })?;
    check_permissions(key)?;
    let now = seconds() as i64;
    let facts = identity.certificate();
    if facts.not_after < now {
        bail!(
            "the certificate {chain} expired {} ago: nobody would accept it; renew it",
            days(now - facts.not_after)
        );
    }
    if facts.not_before > now {
        bail!(
            "the certificate {chain} holds only in {}: nobody would accept it; is this machine's clock right?",
            days(facts.not_before - now)
        );
    }
    Ok(identity)
}

fn days(seconds: i64) -> String {
    match seconds {
        ..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn open(what: &str, file: &str) -> anyhow::Result<Vec<u8>> {
    let size = std::fs::metadata(file).map(|data| data.len());
    if size.is_ok_and(|size| size > FILE_BYTES_MAX) {
        bail!("the {what} {file} has more than {FILE_BYTES_MAX} bytes; is it the right file?");
    }
    std::fs::read(file).with_context(|| {
        format!("the {what} {file} cannot be read; is the path right, and may this user read it?")
    })
}

/// A key that everybody on the machine can read is no secret.
fn check_permissions(key: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(key).map(|data| data.permissions().mode()).unwrap_or_default();
    if mode & 0o007 != 0 {
        bail!("everybody on this machine may open the private key {key}: run `chmod o= {key}`");
    }
    Ok(())
}

fn clients(config: &Config) -> anyhow::Result<ClientCertificates> {
    let Some(file) = &config.tls.client_authorities else {
        return Ok(ClientCertificates::Unasked);
    };
    let pem = open("file of authorities", file)?;
    let is_required = config.tls.client_certificates == ClientCertificateUse::Required;
    ClientCertificates::from_pem(&pem, is_required)
        .map_err(|problem| anyhow::anyhow!("the file of authorities {file} {problem}"))
}

/// What is spoken to clients that ask, best first. Those that do not ask are told apart by their first
/// bytes, as everywhere.
fn alpn(config: &Config) -> Vec<Vec<u8>> {
    let http2 = config.http2.enabled.then(|| b"h2".to_vec());
    http2.into_iter().chain([b"http/1.1".to_vec()]).collect()
}

/// A certificate for this machine's own names.
fn self_signed() -> anyhow::Result<Identity> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names)
        .context("tls.self_signed: a certificate cannot be made")?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Ok(Identity::from_pem(chain.as_bytes(), key.as_bytes())?)
}

/// The files of a server that speaks TLS, looked at again while it runs.
pub(crate) struct CertificateWatch {
    config: Config,
    node: NodeControl,
    state: Arc<TlsState>,
    seen: Fingerprint,
}

impl CertificateWatch {
    /// Of the files that the server has begun with.
    pub(crate) fn new(
        config: &Config,
        node: NodeControl,
        state: Arc<TlsState>,
    ) -> CertificateWatch {
        CertificateWatch { config: config.clone(), node, state, seen: fingerprint(config) }
    }

    /// How often the files are looked at; zero: only when that is asked for.
    pub(crate) fn interval(&self) -> Duration {
        self.config.tls.reload_interval
    }

    /// Looks whether the files have changed, and reads them then.
    pub(crate) fn look(&mut self) {
        if fingerprint(&self.config) != self.seen {
            self.read_again();
        }
    }

    /// Reads the files again.
    pub(crate) fn read_again(&mut self) {
        self.seen = fingerprint(&self.config);
        match read(&self.config) {
            Ok(Some(read)) => {
                self.take(&read);
                info!(
                    event = "certificates-reloaded",
                    "certificates were read again; connections that come from now on get them"
                );
            }
            Ok(None) => {}
            Err(error) => {
                self.state.failures.fetch_add(1, Ordering::Relaxed);
                self.state.were_refused.store(true, Ordering::Relaxed);
                warn!(
                    event = "certificates-not-reloaded",
                    "certificates have changed and cannot be used, so the server goes on with those it has: {error:#}"
                );
            }
        }
    }

    /// Other files count from now on, which have been read.
    pub(crate) fn change(&mut self, config: &Config, read: &Read) {
        self.config = config.clone();
        self.seen = fingerprint(config);
        self.take(read);
    }

    fn take(&self, read: &Read) {
        self.node.secure(&read.settings);
        self.state.validities().clone_from(&read.validities);
        self.state.reloads.fetch_add(1, Ordering::Relaxed);
        self.state.were_refused.store(false, Ordering::Relaxed);
    }
}

/// When each file was changed, and how large it is.
type Fingerprint = Vec<Option<(SystemTime, u64)>>;

/// What of the files changes when they do. A renewal replaces several files one after the other; if that
/// was seen halfway, the second look finds the rest.
fn fingerprint(config: &Config) -> Fingerprint {
    let of = |file: &str| {
        let data = std::fs::metadata(Path::new(file)).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    let authorities = config.tls.client_authorities.as_deref();
    pairs(config).flat_map(|(chain, key)| [chain, key]).chain(authorities).map(of).collect()
}

/// The time of day, in seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// No chain of certificates is that long.
const FILE_BYTES_MAX: u64 = 1 << 20;
