//! Small documents by HTTP, for threads that may wait.
//!
//! Relies on `ureq` over the same TLS as everything else. Invariants: an answer is bounded in time and in bytes;
//! redirections are not followed, so that nothing comes from elsewhere than configured.

use std::sync::Arc;
use std::time::Duration;

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
pub(crate) struct Fetch(Agent);

impl Fetch {
    /// One that trusts the authorities of a file, or those of the system.
    ///
    /// # Errors
    /// When the file cannot be read, or has none.
    pub(crate) fn new(authorities: Option<&str>) -> anyhow::Result<Fetch> {
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
            .timeout_global(Some(TIME_MAX))
            .max_redirects(0)
            .max_redirects_will_error(true)
            .proxy(None)
            .user_agent(concat!("tiderace/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Ok(Fetch(config.into()))
    }

    /// The text there.
    ///
    /// # Errors
    /// Says why there is none.
    pub(crate) fn get(&self, address: &str) -> Result<String, String> {
        let answer = self.0.get(address).header("Accept", "application/json").call();
        let mut answer = answer.map_err(|error| format!("{address}: {error}"))?;
        let body = answer.body_mut().with_config().limit(BYTES_MAX).read_to_string();
        body.map_err(|error| format!("{address}: {error}"))
    }
}

/// Where systems keep the authorities that they trust.
pub(crate) const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
