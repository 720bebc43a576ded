//! What can go wrong between a command and the server that it speaks to, and the exit codes that say so to scripts.

use std::io;
use std::time::Duration;

/// How long connecting and a single answer may take.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the server closed the connection; its log says why, if it was not killed")]
    Closed,
    #[error(
        "{place} does not answer: {reason}; start a server there with `tiderace`, or name another with -s"
    )]
    Connect { place: String, reason: String },
    /// The server has ended the session and wants its client to come back, within so many milliseconds.
    #[error("the server ended the session: {message}")]
    Ended { message: String, reconnect_ms: u64, addresses: Vec<String> },
    #[error("the connection broke: {0}; run the command again")]
    Io(io::Error),
    #[error("no secured connection with {place}: {reason}")]
    Secure { place: String, reason: String },
    #[error("the server says no: {message}{hint}")]
    Refused { message: String, hint: &'static str },
    #[error("the server did not answer within {} s; is it such a server, and is it overloaded?", .0.as_secs())]
    Silent(Duration),
    /// What was asked for is not there; the server has no code for it, since it answered with an empty list.
    #[error("{0}")]
    Missing(String),
    /// What was waited for has not come in time.
    #[error("{0}")]
    TimedOut(String),
    #[error(
        "{place} speaks TLS only; add --tls, or --ca and the file of the authority that signed its certificate"
    )]
    Unsecured { place: String },
    #[error("that is not the server that was expected: {0}; name one with -s and -p")]
    Unexpected(String),
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl ClientError {
    /// Whether the connection is gone and another one may do better.
    pub(super) fn is_lost(&self) -> bool {
        use ClientError::{Closed, Ended, Io, Silent};
        matches!(self, Closed | Ended { .. } | Io(_) | Silent(_))
    }

    /// Whether further attempts are of no use: the server, or this command line, says no.
    pub(super) fn is_final(&self) -> bool {
        use ClientError::{Refused, Unsecured, Usage};
        matches!(self, Refused { .. } | Unsecured { .. } | Usage(_))
    }

    fn exit(&self) -> Exit {
        match self {
            ClientError::Usage(_) => Exit::Usage,
            ClientError::Refused { .. } | ClientError::Missing(_) => Exit::Refused,
            ClientError::Silent(_) | ClientError::TimedOut(_) => Exit::TimedOut,
            ClientError::Closed
            | ClientError::Connect { .. }
            | ClientError::Ended { .. }
            | ClientError::Io(_)
            | ClientError::Secure { .. }
            | ClientError::Unsecured { .. }
            | ClientError::Unexpected(_) => Exit::Unreachable,
        }
    }
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Failed = 1,
    Usage = 2,
    Refused = 3,
    Unreachable = 4,
    TimedOut = 5,
}

impl Exit {
    /// How a command ends that has failed like this.
    pub(super) fn of(error: &anyhow::Error) -> Exit {
        let known = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>());
        known.map_or(Exit::Failed, ClientError::exit)
    }
}

/// The exit codes, for `--help`.
pub(super) const EXIT_CODES: &str = "Exit codes:
  0  done
  1  failed, for instance at a file
  2  the command line makes no sense
  3  refused by the server or by the service that was called, or not there
  4  no server there, or the connection was lost
  5  timed out";

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn scripts_can_tell_failures_apart() {
        let refused = ClientError::Refused { message: "no".to_owned(), hint: "" };
        let connect = ClientError::Connect { place: "a:1".to_owned(), reason: "no".to_owned() };
        for (error, expected) in [
            (anyhow!("a file"), Exit::Failed),
            (ClientError::Usage("x".to_owned()).into(), Exit::Usage),
            (refused.into(), Exit::Refused),
            (anyhow::Error::new(connect).context("more"), Exit::Unreachable),
            (ClientError::TimedOut("x".to_owned()).into(), Exit::TimedOut),
            (ClientError::Silent(ANSWER_TIMEOUT).into(), Exit::TimedOut),
        ] {
            assert_eq!(Exit::of(&error), expected, "{error:#}");
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", expected as u8)));
        }
    }
}
