//! The authorities that this machine trusts.

use std::io;

use tiderace_tls::{Authorities, Problem};

/// Why a machine trusts nobody.
#[derive(Debug, thiserror::Error)]
pub enum NoAuthorities {
    /// It has no certificates of authorities.
    #[error(
        "this system has no certificates of authorities{0}; install its package `ca-certificates`, or name a file with those that are trusted by `tls_ca_file`"
    )]
    None(String),
    /// None of them can be used.
    #[error("none of this system's certificates of authorities can be used: {0}")]
    Useless(#[from] Problem),
}

/// The authorities that this machine trusts. Reads files, so not on a shard; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
///
/// # Errors
/// When there are none.
pub fn system_authorities() -> Result<Authorities, NoAuthorities> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let error = found.errors.first().map(|error| io::Error::other(error.to_string()));
        return Err(NoAuthorities::None(
            error.map_or_else(String::new, |error| format!(" ({error})")),
        ));
    }
    Ok(Authorities::from_der(found.certs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_trusts_somebody_or_it_is_said_what_to_do() {
        match system_authorities() {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("tls_ca_file"), "{error}"),
        }
    }
}
