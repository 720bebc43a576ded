//! What all secured connections of a server share: certificates, versions, who may come.
//!
//! Built once from bytes and checked as a whole, so that what could go wrong in a handshake by the
//! server's fault goes wrong at start, with a sentence that says what to do. Cheap to clone; a changed
//! configuration is another value, and connections keep the one they began with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};

use crate::certificate::Certificate;
use crate::version::Version;

/// The time of day, in seconds since 1970.
pub type Clock = fn() -> u64;

/// What the caller decides.
#[derive(Debug)]
pub struct Choices {
    /// Who the server is. A client that names a host gets the first whose certificate is for that host;
    /// all others get the first.
    pub identities: Vec<Identity>,
    /// The lowest version that is spoken.
    pub version_min: Version,
    /// Whether clients show certificates.
    pub clients: ClientCertificates,
    /// Application protocols, best first. A client that asks for some and for none of these is refused.
    pub alpn: Vec<Vec<u8>>,
    /// The time of day, for tickets and clients' certificates.
    pub clock: Clock,
}

/// Whether clients show certificates.
#[derive(Debug, Default)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    Unasked,
    /// They are asked, and one that is shown must be signed by one of the authorities.
    Optional(Vec<CertificateDer<'static>>),
    /// Without one nobody comes in.
    Required(Vec<CertificateDer<'static>>),
}

/// A certificate with its chain and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    facts: Certificate,
}

/// What is wrong with certificates or keys. The sentences go behind the name of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is no PEM.
    #[error("is no PEM: {0}")]
    Pem(String),
    /// It holds no certificate.
    #[error(
        "holds no certificate: a section `-----BEGIN CERTIFICATE-----` is needed, the server's own first"
    )]
    NoCertificate,
    /// It holds no key.
    #[error(
        "holds no private key: a section `-----BEGIN PRIVATE KEY-----` is needed, not encrypted"
    )]
    NoKey,
    /// The key cannot be used.
    #[error(
        "holds a key that cannot be used ({0}): RSA from 2048 bits, ECDSA P-256 or P-384, and Ed25519 can"
    )]
    BadKey(String),
    /// The certificate cannot be read.
    #[error("holds a certificate that cannot be read: {0}")]
    BadCertificate(String),
    /// Certificate and key do not belong together.
    #[error(
        "is not the key of the certificate: the two were made at different times, or belong to different hosts"
    )]
    KeyMismatch,
    /// The authorities cannot be used.
    #[error("cannot be used as authorities, whose signature on certificates is believed: {0}")]
    BadAuthorities(String),
    /// There is no identity.
    #[error("no certificate is configured")]
    NoIdentity,
    /// The library refused.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

impl Identity {
    /// Reads a chain, the server's own certificate first, and its key, both in PEM.
    ///
    /// # Errors
    /// Which of the two is wrong, and how: problems of the chain come first.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Identity, Problem> {
        let chain = certificates(chain)?;
        let facts = chain.first().and_then(|own| Certificate::read(own));
        let facts = facts
            .ok_or_else(|| Problem::BadCertificate("it is not in the form of X.509".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => Problem::NoKey,
            error => Problem::Pem(error.to_string()),
        })?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Problem::KeyMismatch,
            rustls::Error::InvalidCertificate(error) => Problem::BadCertificate(error.to_string()),
            error => Problem::BadKey(error.to_string()),
        })?;
        Ok(Identity { key: Arc::new(key), facts })
    }

    /// What is shown to a server that asks for it.
    pub(crate) fn shown(self) -> SingleCertAndKey {
        SingleCertAndKey::from(Arc::unwrap_or_clone(self.key))
    }

    /// Whether the text has a certificate, readable or not.
    pub fn has_certificate(pem: &[u8]) -> bool {
        certificates(pem).is_ok()
    }

    /// What its certificate says.
    pub fn certificate(&self) -> &Certificate {
        &self.facts
    }
}

impl ClientCertificates {
    /// Reads authorities in PEM.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn from_pem(authorities: &[u8], is_required: bool) -> Result<ClientCertificates, Problem> {
        let authorities = certificates(authorities)?;
        Ok(if is_required {
            ClientCertificates::Required(authorities)
        } else {
            ClientCertificates::Optional(authorities)
        })
    }
}

pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| Problem::Pem(error.to_string()))?;
    if found.is_empty() { Err(Problem::NoCertificate) } else { Ok(found) }
}

/// What all secured connections of a server share.
#[derive(Clone)]
pub struct Settings(Arc<ServerConfig>);

impl Settings {
    /// Puts the choices together.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn new(choices: Choices) -> Result<Settings, Problem> {
        if choices.identities.is_empty() {
            return Err(Problem::NoIdentity);
        }
        let library = |error: rustls::Error| Problem::Library(error.to_string());
        let provider = Arc::new(provider());
        let clock = Arc::new(GivenTime(choices.clock));
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), clock)
            .with_protocol_versions(versions(choices.version_min))
            .map_err(library)?;
        let (authorities, is_required) = match choices.clients {
            ClientCertificates::Unasked => (None, false),
            ClientCertificates::Optional(authorities) => (Some(authorities), false),
            ClientCertificates::Required(authorities) => (Some(authorities), true),
        };
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let refused = |error: String| Problem::BadAuthorities(error);
                let mut roots = RootCertStore::empty();
                for authority in authorities {
                    roots.add(authority).map_err(|error| refused(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier =
                    if is_required { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let keys = choices.identities.into_iter().map(|identity| identity.key).collect();
        let mut config = builder.with_cert_resolver(Arc::new(ByName(keys)));
        config.alpn_protocols = choices.alpn;
        // Early data can be replayed by anybody who hears it; rustls takes none unless told to, and this is
        // the place to see that.
        config.max_early_data_size = 0;
        // A ticket holds the state of its session, encrypted: coming back costs the server no memory.
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(library)?;
        config.send_tls13_tickets = 1;
        // Without this rustls keeps sessions of TLS 1.2 for clients that take no ticket.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Settings(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// The versions that are spoken, from the lowest on.
pub(crate) fn versions(lowest: Version) -> &'static [&'static rustls::SupportedProtocolVersion] {
    match lowest {
        Version::Tls12 => BOTH,
        Version::Tls13 => NEW,
    }
}

static BOTH: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];
static NEW: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The cryptography; docs/dependencies.md has the reasons.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Chooses a certificate by the name that a client asks for.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let is_for = |key: &&Arc<CertifiedKey>| {
            let (Some(asked), Some(own)) = (&asked, key.cert.first()) else { return false };
            let parsed = ParsedCertificate::try_from(own);
            parsed.is_ok_and(|parsed| verify_server_name(&parsed, asked).is_ok())
        };
        // One certificate is for everybody: whether it fits is the client's to judge.
        let found = if self.0.len() > 1 { self.0.iter().find(is_for) } else { None };
        found.or(self.0.first()).map(Arc::clone)
    }
}

pub(crate) struct GivenTime(pub(crate) Clock);

impl TimeProvider for GivenTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs((self.0)())))
    }
}

impl fmt::Debug for GivenTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenTime")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn what_is_wrong_with_files_is_said() {
        let (chain, key) = made("a.example");
        let (_, other) = made("b.example");
        let read = |chain: &str, key: &str| Identity::from_pem(chain.as_bytes(), key.as_bytes());
        assert!(read(&chain, &key).is_ok());
        assert!(read(&format!("{key}{chain}"), &format!("{chain}{key}")).is_ok());
        let wrong = |chain: &str, key: &str| read(chain, key).unwrap_err();
        assert_eq!(wrong(&key, &key), Problem::NoCertificate);
        assert_eq!(wrong("", &key), Problem::NoCertificate);
        assert_eq!(wrong(&chain, &chain), Problem::NoKey);
        assert_eq!(wrong(&chain, &other), Problem::KeyMismatch);
        let broken = "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n";
        assert!(matches!(wrong(broken, &key), Problem::Pem(_)));
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(wrong(empty, &key), Problem::BadCertificate(_)));
        let bad = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(matches!(wrong(&chain, bad), Problem::BadKey(_)));
        assert!(ClientCertificates::from_pem(key.as_bytes(), true).is_err());
    }

    #[test]
    fn without_an_identity_there_are_no_settings() {
        let choices = Choices {
            identities: Vec::new(),
            version_min: Version::Tls12,
            clients: ClientCertificates::Unasked,
            alpn: Vec::new(),
            clock: || 0,
        };
        assert_eq!(Settings::new(choices).err(), Some(Problem::NoIdentity));
    }
}
