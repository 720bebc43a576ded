//! Small documents by HTTP, for threads that may wait.
//!
//! Relies on `ureq` over the same TLS as everything else. Invariants: an answer is bounded in time and in bytes;
//! redirections are not followed, so that nothing comes from elsewhere than configured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// From the name to the last byte. Below the time that a login may take, so that a token may wait for its key.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Key sets have some kilobytes.
const BYTES_MAX: u64 = 1 << 20;

/// Asks by HTTP or HTTPS.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    agent: Agent,
    time_max: Duration,
}

/// Answers to logins have some hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

impl Fetch {
    /// One that trusts the authorities of a file, or those of the system.
    ///
    /// # Errors
    /// When the file cannot be read, or has none.
    pub(crate) fn new(authorities: Option<&str>) -> anyhow::Result<Fetch> {
        Fetch::with(authorities, TIME_MAX, 1)
    }

    /// The same, with a time for each request and so many connections that are kept for the next.
    ///
    /// # Errors
    /// When the file cannot be read, or has none.
    pub(crate) fn with(
        authorities: Option<&str>,
        time_max: Duration,
        connections: usize,
    ) -> anyhow::Result<Fetch> {
        let found = match authorities {
            Some(file) => Some(file),
            None => {
                SYSTEM_AUTHORITIES.iter().copied().find(|file| std::path::Path::new(file).exists())
            }
        };
        let mut roots = Vec::new();
        if let Some(file) = found {
            for certificate in CertificateDer::pem_file_iter(file)
                .map_err(|error| anyhow::anyhow!("{file}: {error}"))?
            {
                let certificate =
                    certificate.map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
                roots.push(Certificate::from_der(&certificate).to_owned());
            }
            if roots.is_empty() {
                anyhow::bail!("{file} has no certificate of an authority");
            }
        }
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::from(roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(time_max))
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .max_redirects(0)
            .max_redirects_will_error(true)
            .proxy(None)
            .user_agent(concat!("tiderace/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Ok(Fetch { agent: config.into(), time_max })
    }

    /// The text there.
    ///
    /// # Errors
    /// Says why there is none.
    pub(crate) fn get(&self, address: &str) -> Result<String, String> {
        let answer = self.agent.get(address).header("Accept", "application/json").call();
        let mut answer = answer.map_err(|error| format!("{address}: {error}"))?;
        let body = answer.body_mut().with_config().limit(BYTES_MAX).read_to_string();
        body.map_err(|error| format!("{address}: {error}"))
    }

    /// Posts a JSON text; the answer, whatever it is. One that leads elsewhere is not followed.
    ///
    /// # Errors
    /// Says why there is no answer.
    pub(crate) fn post(
        &self,
        address: &str,
        headers: &[(String, String)],
        text: &str,
    ) -> Result<Answer, String> {
        // What stands behind a question mark may be a secret, and the problem gets into the log.
        let place = address.split(['?', '#']).next().unwrap_or_default();
        let problem = |error: ureq::Error| format!("{place}: {error}");
        let begin = Instant::now();
        let send = || {
            // Both attempts together take no longer than one may.
            let left = self.time_max.saturating_sub(begin.elapsed());
            let request = self.agent.post(address).config().http_status_as_error(false);
            let mut request =
                request.timeout_global(Some(left)).max_redirects_will_error(false).build();
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let request = request.header("Accept", "application/json");
            request.header("Content-Type", "application/json").send(text)
        };
        // A connection that was kept may have been closed by the other side meanwhile.
        let answer = match send() {
            Err(ureq::Error::Io(error)) if error.kind() != std::io::ErrorKind::TimedOut => send(),
            answer => answer,
        };
        let mut answer = answer.map_err(problem)?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("Retry-After").and_then(|it| it.to_str().ok());
        let retry_after =
            retry_after.and_then(|it| it.trim().parse().ok()).map(Duration::from_secs);
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        Ok(Answer { status, text: text.map_err(problem), retry_after })
    }
}

/// What has come of a text that was posted.
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: u16,
    /// Its text, or why it cannot be read.
    pub(crate) text: Result<String, String>,
    /// For how long the other side wants to be left alone, if it says so in seconds.
    pub(crate) retry_after: Option<Duration>,
}

/// Where systems keep the authorities that they trust.
pub(crate) const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
