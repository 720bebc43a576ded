//! Why a secured connection fails, in few kinds that can be counted, and in a sentence.

use rustls::{AlertDescription, CertificateError, Error};

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The other side sent an alert: as a rule a client that does not trust the server's certificate.
    Alert,
    /// The other side's certificate is missing or not accepted.
    Certificate,
    /// The other side hung up before the handshake was over.
    Gone,
    /// Client and server share no version, cipher or application protocol.
    Incompatible,
    /// The bytes are no TLS, or were changed on their way.
    Malformed,
    /// The other side does what nobody needs to do.
    Misbehaviour,
    /// The handshake took too long.
    Timeout,
    /// The client's address has too many handshakes under way.
    TooMany,
    /// This side failed.
    Internal,
}

/// All kinds with their names in metrics, in the order of the names.
pub const FAILURES: &[(FailureKind, &str)] = &[
    (FailureKind::Alert, "alert"),
    (FailureKind::Certificate, "certificate"),
    (FailureKind::Gone, "gone"),
    (FailureKind::Incompatible, "incompatible"),
    (FailureKind::Internal, "internal"),
    (FailureKind::Malformed, "malformed"),
    (FailureKind::Misbehaviour, "misbehaviour"),
    (FailureKind::Timeout, "timeout"),
    (FailureKind::TooMany, "too-many"),
];

impl FailureKind {
    /// Its place in [`FAILURES`].
    pub fn index(self) -> usize {
        FAILURES.iter().position(|(kind, _)| *kind == self).unwrap_or(0)
    }
}

/// The end of a secured connection that was not meant to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What happened, for people.
    pub sentence: String,
}

impl Failure {
    /// More is announced than anybody needs to send.
    pub(crate) fn too_large() -> Failure {
        let sentence = "TLS failed: a message of the handshake is too large".to_owned();
        Failure { kind: FailureKind::Misbehaviour, sentence }
    }

    /// A defect of this side.
    pub fn internal(sentence: &str) -> Failure {
        Failure { kind: FailureKind::Internal, sentence: sentence.to_owned() }
    }
}

impl Failure {
    /// What an error means for a server.
    pub(crate) fn of_server(error: &Error) -> Failure {
        let hint = match error {
            Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired,
            ) => "; the client does not trust this server's certificate",
            Error::NoApplicationProtocol => {
                "; the client asks for application protocols (ALPN) that are not spoken here"
            }
            _ => "",
        };
        Failure { kind: kind(error), sentence: format!("TLS failed: {error}{hint}") }
    }

    /// What an error means for a client: what is wrong with the server, and what to do about it.
    pub(crate) fn of_client(error: &Error) -> Failure {
        let sentence = match error {
            Error::InvalidCertificate(error) => {
                format!("TLS failed: {}", distrust(error))
            }
            Error::InvalidMessage(_) => {
                "TLS failed: what answers on that port does not speak TLS; \
                 `ws://` is for ports without it"
                    .to_owned()
            }
            Error::AlertReceived(AlertDescription::CertificateRequired) => {
                "TLS failed: the server asks for a client's certificate; name one by `tls_certificate` and its key by `tls_key`"
                    .to_owned()
            }
            Error::AlertReceived(AlertDescription::CertificateExpired) => {
                "TLS failed: the certificate of `tls_certificate` has expired; renew it, and look at the clocks of both machines"
                    .to_owned()
            }
            Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                // An authority of the same name, with another key.
                | AlertDescription::DecryptError,
            ) => format!(
                "TLS failed: {error}; the server does not take the certificate of `tls_certificate`: it wants one signed by an authority \
                 that it trusts"
            ),
            Error::AlertReceived(
                AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
            ) => format!("TLS failed: {error}; the server speaks no version from 1.2 on, or asks for a client's certificate (`tls_certificate`)"),
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                format!("TLS failed: {error}; the server does not speak HTTP/1.1 there")
            }
            error => format!("TLS failed: {error}"),
        };
        Failure { kind: kind(error), sentence }
    }
}

/// Why a server's certificate is not believed.
fn distrust(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "the server's certificate is signed by an authority that is not known here; name the \
             file with that authority's certificate by `tls_ca_file`"
                .to_owned()
        }
        // Two certificates that sign for themselves may have one name and two keys.
        CertificateError::BadSignature => {
            "the server's certificate is not signed by the authority of that name that is known \
             here; `tls_ca_file` has to hold the present certificate of that authority"
                .to_owned()
        }
        CertificateError::Expired => {
            "the server's certificate has expired; renew it there, and look at the clock here"
                .to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / 86_400;
            format!(
                "the server's certificate expired {days} days ago; renew it there, and look at the clock here"
            )
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; look at the clocks of both machines"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "{error}; connect by a name that the certificate has, or have it made for this one"
            )
        }
        // What `openssl req -x509` makes unless it is told otherwise; rustls has no name of its own for it.
        CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority (CA:TRUE) as its own; have it made \
             with `basicConstraints=CA:FALSE`, or signed by that authority"
                .to_owned()
        }
        error => format!("the server's certificate cannot be used: {error}"),
    }
}

fn kind(error: &Error) -> FailureKind {
    match error {
        Error::AlertReceived(_) => FailureKind::Alert,
        Error::NoCertificatesPresented
        | Error::InvalidCertificate(_)
        | Error::InvalidCertRevocationList(_) => FailureKind::Certificate,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => FailureKind::Incompatible,
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::DecryptError
        | Error::PeerSentOversizedRecord => FailureKind::Malformed,
        Error::PeerMisbehaved(_) => FailureKind::Misbehaviour,
        _ => FailureKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_name_and_place() {
        for (index, (kind, name)) in FAILURES.iter().enumerate() {
            assert_eq!(kind.index(), index, "{name}");
        }
        assert!(FAILURES.is_sorted_by_key(|(_, name)| *name));
        let failure = Failure::of_server(&Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!(failure.kind, FailureKind::Alert);
        assert!(failure.to_string().contains("does not trust"), "{failure}");
        assert_eq!(Failure::of_client(&Error::DecryptError).kind, FailureKind::Malformed);
    }
}
