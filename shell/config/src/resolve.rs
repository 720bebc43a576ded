//! From where a secret is to the secret.
//!
//! Relies on the sources for files and the environment. Invariant: an empty secret is a problem, not a secret.

use std::path::Path;

use crate::problem::{Origin, Problems};
use crate::secret::{Secret, SecretSource};
use crate::sources::Sources;

/// Reads the secret a reference points to.
pub(crate) fn resolve(
    source: &SecretSource,
    key: &str,
    origin: Origin,
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<Secret> {
    let text = match source {
        SecretSource::Environment(name) => {
            let value = sources.environment.iter().find(|(variable, _)| variable == name);
            value
                .map(|(_, value)| value.clone())
                .ok_or_else(|| "the variable is not set".to_owned())
        }
        SecretSource::File(path) => {
            (sources.read_secret)(Path::new(path)).map_err(|error| error.to_string())
        }
        SecretSource::Hash(text) => Ok(text.clone()),
    };
    match text {
        // Editors end a file with a line break that is not part of the secret.
        Ok(text) if !text.trim_end_matches(['\r', '\n']).is_empty() => {
            Some(Secret::new(text.trim_end_matches(['\r', '\n'])))
        }
        Ok(_) => {
            problems.add(origin, format!("{key}: {source} is empty; put the secret there"));
            None
        }
        Err(reason) => {
            problems.add(origin, format!("{key}: {source} cannot be read: {reason}"));
            None
        }
    }
}
