//! How a connection to a server is secured: the options, and what to do when it cannot be.
//!
//! Relies on rustls, which the server uses as well. Invariant: a server is trusted by its certificate, or
//! because the person at the terminal said that anybody is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use crate::fetch::SYSTEM_AUTHORITIES;

/// Whether and how the connection is secured.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// Speak TLS; the server's certificate must be signed by an authority that this system trusts.
    #[arg(long, env = "TIDERACE_TLS")]
    tls: bool,
    /// Speak TLS, and trust the authorities of this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", env = "TIDERACE_CA")]
    ca: Option<PathBuf>,
    /// Speak TLS with any server, whatever certificate it shows: for servers on this machine.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Speak TLS, and show this certificate (PEM) to servers that want one of their clients.
    #[arg(long, value_name = "FILE", env = "TIDERACE_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of --cert (PEM).
    #[arg(long, value_name = "FILE", env = "TIDERACE_KEY", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether the connection is to be secured.
    pub(super) fn is_asked(&self) -> bool {
        self.tls || self.ca.is_some() || self.insecure || self.cert.is_some()
    }

    /// The same, secured in any case.
    pub(super) fn asked(self) -> TlsArgs {
        TlsArgs { tls: true, ..self }
    }

    /// What rustls is to know.
    pub(super) fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.insecure {
            let anybody = Arc::new(Anybody(provider));
            builder.dangerous().with_custom_certificate_verifier(anybody)
        } else {
            builder.with_root_certificates(self.authorities()?)
        };
        let Some((cert, key)) = self.cert.as_deref().zip(self.key.as_deref()) else {
            return Ok(builder.with_no_client_auth());
        };
        let (chain, private) = (certificates(cert)?, private_key(key)?);
        builder.with_client_auth_cert(chain, private).map_err(|error| {
            let (cert, key) = (cert.display(), key.display());
            format!("{cert} and {key} cannot be used: {error}; name a certificate with --cert and its own key with --key")
        })
    }

    /// Whom to trust: those of the file, or of the system's.
    fn authorities(&self) -> Result<RootCertStore, String> {
        let found = match &self.ca {
            Some(path) => certificates(path)?,
            None => {
                let found = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
                found.map_or_else(|| Ok(Vec::new()), certificates)?
            }
        };
        let mut roots = RootCertStore::empty();
        match roots.add_parsable_certificates(found) {
            (0, _) => {
                Err("this system has no authorities to trust; name a file of them with --ca"
                    .to_owned())
            }
            _ => Ok(roots),
        }
    }

    /// Why there is no secured connection with the host, and what to do.
    pub(super) fn reason(&self, host: &str, error: &io::Error) -> String {
        let failure = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let Some(failure) = failure else {
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("it does not answer; {PERHAPS_PLAIN}")
                }
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    format!("it closes the connection; its log may say why, and {PERHAPS_PLAIN}")
                }
                _ => error.to_string(),
            };
        };
        match failure {
            Error::InvalidCertificate(problem) => self.distrust(host, problem),
            Error::InvalidMessage(_) => format!("what it answers is no TLS; {PERHAPS_PLAIN}"),
            // What a port for plain text answers, ours among them.
            Error::AlertReceived(AlertDescription::ProtocolVersion) => {
                format!("it speaks no TLS there, or only versions before 1.2; {PERHAPS_PLAIN}")
            }
            Error::AlertReceived(alert) => match (&self.cert, alert) {
                (None, AlertDescription::CertificateRequired) => {
                    "it wants a certificate of its clients; name one with --cert, and its key with --key"
                        .to_owned()
                }
                (Some(cert), alert) if OF_CERTIFICATES.contains(alert) => format!(
                    "it does not take the certificate {} ({alert:?}); name one with --cert that is signed by an authority that the server trusts",
                    cert.display()
                ),
                _ => format!("it refuses ({alert:?}); its log says why"),
            },
            other => format!("{other}; is the right server there?"),
        }
    }

    /// What is wrong with the certificate of the host.
    fn distrust(&self, host: &str, problem: &CertificateError) -> String {
        match problem {
            // The name of the authority may be the same, and its key another.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                let nobody = match &self.ca {
                    Some(file) => format!("no authority of {}", file.display()),
                    None => "no authority that this system trusts".to_owned(),
                };
                format!(
                    "its certificate is signed by {nobody}; name the file of the one that signed it with --ca"
                )
            }
            CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
                format!(
                    "its certificate is for {} and not for {host}; name the server as that does with -h",
                    names.join(", ")
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is not for {host}; give it one that names this host")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; renew it, unless this machine's clock is wrong"
                    .to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate does not hold yet; is this machine's clock right?".to_owned()
            }
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is an authority's own (CA:TRUE), which servers cannot show; give it one that this authority has signed, or that says CA:FALSE".to_owned()
            }
            other => format!("its certificate cannot be used: {other}; give it another"),
        }
    }
}

/// A name as rustls tells it, such as `DnsName("localhost")`, without what kind of name it is.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// The certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("{} has no certificate (PEM); is it the right file?", path.display()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &impl std::fmt::Display) -> String {
    format!("{} cannot be read: {error}; is it the right file?", path.display())
}

/// Trusts every server.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Alerts that mean the certificate that was shown (RFC 8446 section 6.2).
const OF_CERTIFICATES: &[AlertDescription] = &[
    AlertDescription::AccessDenied,
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateUnknown,
    AlertDescription::DecryptError,
    AlertDescription::UnknownCA,
    AlertDescription::UnsupportedCertificate,
];
const PERHAPS_PLAIN: &str =
    "if it speaks plain text, leave out tls:// and the like, --tls, --ca, --insecure and --cert";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_what_to_do() {
        let tls = TlsArgs { tls: true, ..TlsArgs::default() };
        let certificate = |problem| Error::InvalidCertificate(problem);
        for (failure, expected) in [
            (certificate(CertificateError::UnknownIssuer), "with --ca"),
            (certificate(CertificateError::NotValidForName), "not for here; give"),
            (certificate(CertificateError::Expired), "renew it"),
            (certificate(CertificateError::NotValidYet), "clock right?"),
            (certificate(CertificateError::Revoked), "give it another"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "with --cert"),
            (Error::AlertReceived(AlertDescription::InternalError), "its log says why"),
            (Error::HandshakeNotComplete, "is the right server there?"),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, failure);
            let reason = tls.reason("here", &error);
            assert!(reason.contains(expected) && !reason.contains('\n'), "{reason}");
        }
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            let reason = tls.reason("here", &io::Error::from(kind));
            assert!(reason.starts_with("it does not answer; if it speaks plain text"), "{reason}");
        }
    }

    #[test]
    fn names_are_told_as_people_write_them() {
        let cases =
            [("DnsName(\"localhost\")", "localhost"), ("IpAddress(::1)", "::1"), ("a", "a")];
        for (told, expected) in cases {
            assert_eq!(bare(told), expected);
        }
    }
}
