//! A secret read from a file or the environment, which no log line can show.
//!
//! Relies on nothing. Invariant: neither `Debug` nor `Display` prints the content.

use std::fmt;

/// A secret text. `Debug` prints a placeholder; [`Secret::expose`] is the only way to the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(text.into())
    }

    /// The content, for the code that hashes or compares it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Where a secret comes from, as written in the configuration.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// `file:/path`: the content of that file without its last line break.
    File(String),
    /// `env:NAME`: the value of that environment variable.
    Environment(String),
    /// A one-way hash, which may stand in the file itself.
    Hash(String),
}

impl SecretSource {
    /// Reads the `file:` and `env:` forms.
    pub(crate) fn parse_reference(text: &str) -> Option<SecretSource> {
        if let Some(path) = text.strip_prefix("file:") {
            return (!path.is_empty()).then(|| SecretSource::File(path.to_owned()));
        }
        let name = text.strip_prefix("env:")?;
        (!name.is_empty()).then(|| SecretSource::Environment(name.to_owned()))
    }
}

/// The reference itself is no secret and is shown; a hash is masked.
impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::File(path) => write!(f, "file:{path}"),
            SecretSource::Environment(name) => write!(f, "env:{name}"),
            SecretSource::Hash(_) => f.write_str("***"),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
