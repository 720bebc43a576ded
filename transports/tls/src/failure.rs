//! Why a secured connection fails, in few kinds that can be counted, and in a sentence.

use rustls::{AlertDescription, Error};

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The client sent an alert: as a rule it does not trust the server's certificate.
    Alert,
    /// The client's certificate is missing or not accepted.
    Certificate,
    /// The client hung up before the handshake was over.
    Gone,
    /// Client and server share no version, cipher or application protocol.
    Incompatible,
    /// The bytes are no TLS, or were changed on their way.
    Malformed,
    /// The client does what no client needs to do.
    Misbehaviour,
    /// The handshake took too long.
    Timeout,
    /// The client's address has too many handshakes under way.
    TooMany,
    /// The server failed.
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
    /// More is announced than any client needs to send.
    pub(crate) fn too_large() -> Failure {
        let sentence = "TLS failed: a message of the handshake is too large".to_owned();
        Failure { kind: FailureKind::Misbehaviour, sentence }
    }

    /// A defect of the server's.
    pub fn internal(sentence: &str) -> Failure {
        Failure { kind: FailureKind::Internal, sentence: sentence.to_owned() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let kind = match &error {
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
        };
        let hint = match &error {
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
        Failure { kind, sentence: format!("TLS failed: {error}{hint}") }
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
        let failure = Failure::from(Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!(failure.kind, FailureKind::Alert);
        assert!(failure.to_string().contains("does not trust"), "{failure}");
        assert_eq!(Failure::from(Error::DecryptError).kind, FailureKind::Malformed);
    }
}
