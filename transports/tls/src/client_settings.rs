//! What connections to another server share: whom they trust, and what they speak.
//!
//! Built once from bytes and checked as a whole, as the settings of a server are. Cheap to clone; connections that share
//! one value also share what lets them come back to their server by a short handshake.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::settings::{Clock, GivenTime, Identity, Problem, certificates, provider, versions};
use crate::version::Version;

/// Those whose signature on a server's certificate is believed.
#[derive(Clone, Debug)]
pub struct Authorities(Arc<RootCertStore>);

impl Authorities {
    /// Reads certificates in PEM: of authorities, or that of a server that signs for itself.
    ///
    /// # Errors
    /// When there is none, or one of them cannot be used.
    pub fn from_pem(pem: &[u8]) -> Result<Authorities, Problem> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            let refused = |error: rustls::Error| Problem::BadAuthorities(error.to_string());
            roots.add(certificate).map_err(refused)?;
        }
        Ok(Authorities(Arc::new(roots)))
    }

    /// Takes certificates in DER as a system keeps them, among which some may be of no use.
    ///
    /// # Errors
    /// When none of them can be used.
    pub fn from_der(
        certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Authorities, Problem> {
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 { Err(Problem::NoCertificate) } else { Ok(Authorities(Arc::new(roots))) }
    }
}

/// What the caller decides of connections to servers.
#[derive(Debug)]
pub struct ClientChoices {
    /// Whom they trust.
    pub authorities: Authorities,
    /// Who they are, to servers that ask for a client's certificate.
    pub identity: Option<Identity>,
    /// The lowest version that is spoken.
    pub version_min: Version,
    /// Application protocols, best first.
    pub alpn: Vec<Vec<u8>>,
    /// The time of day, for certificates.
    pub clock: Clock,
}

/// What connections to one server share.
#[derive(Clone)]
pub struct ClientSettings(Arc<ClientConfig>);

impl ClientSettings {
    /// Puts the choices together.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn new(choices: ClientChoices) -> Result<ClientSettings, Problem> {
        let clock = Arc::new(GivenTime(choices.clock));
        let builder = ClientConfig::builder_with_details(Arc::new(provider()), clock)
            .with_protocol_versions(versions(choices.version_min))
            .map_err(|error| Problem::Library(error.to_string()))?;
        let builder = builder.with_root_certificates(choices.authorities.0);
        let mut config = match choices.identity {
            Some(identity) => builder.with_client_cert_resolver(Arc::new(identity.shown())),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = choices.alpn;
        // What is sent early can be sent again by anybody who hears it.
        config.enable_early_data = false;
        config.resumption = Resumption::in_memory_sessions(SESSIONS_KEPT);
        Ok(ClientSettings(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").finish_non_exhaustive()
    }
}

/// Servers whose tickets are kept: settings are for the addresses of one.
const SESSIONS_KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_or_what_is_wrong_is_said() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        assert!(Authorities::from_pem(made.cert.pem().as_bytes()).is_ok());
        let key = made.signing_key.serialize_pem();
        assert_eq!(Authorities::from_pem(key.as_bytes()).err(), Some(Problem::NoCertificate));
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let refused = Authorities::from_pem(empty.as_bytes()).err();
        assert!(matches!(refused, Some(Problem::BadAuthorities(_))), "{refused:?}");
        let useless = CertificateDer::from(vec![0, 0, 0]);
        assert!(Authorities::from_der([useless.clone()]).is_err());
        assert!(Authorities::from_der([useless, made.cert.der().clone()]).is_ok());
    }
}
