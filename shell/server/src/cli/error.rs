//! What can go wrong between a command and the server that it speaks to.

use std::io;
use std::time::Duration;

/// How long connecting and a single answer may take.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the server closed the connection; its log says why")]
    Closed,
    #[error(
        "{place} does not answer: {reason}; start a server there with `tiderace`, or name another with -h and -p"
    )]
    Connect { place: String, reason: String },
    #[error("the connection broke: {0}; run the command again")]
    Io(io::Error),
    #[error("no secured connection with {place}: {reason}")]
    Secure { place: String, reason: String },
    #[error("the server says no: {message}{hint}")]
    Refused { message: String, hint: &'static str },
    #[error("the server did not answer within {} s; is it such a server, and is it overloaded?", .0.as_secs())]
    Silent(Duration),
    #[error(
        "{place} speaks TLS only; add --tls, or --ca and the file of the authority that signed its certificate"
    )]
    Unsecured { place: String },
    #[error("that is not the server that was expected: {0}; name one with -h and -p")]
    Unexpected(String),
}
