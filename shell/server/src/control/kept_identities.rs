//! What was put of users, tokens and rules in earlier lives of the server.
//!
//! Relies on the store to have kept it. Invariant: what cannot be used lets nobody in, and a rule that cannot be used is
//! never left out, since it may deny something: the server does not start then, as with a rule of its file.

use tiderace_config::{Loaded, PutIdentities, WithPut};
use tracing::{error, warn};

use crate::persistence::Persistence;

/// By this name the store keeps what was put.
pub(super) const KEPT_AS: &str = "identities";
/// The configuration with what was put in an earlier life of the server, and that alone.
///
/// # Errors
/// When what is kept cannot be used: who may come in is known as a whole or not at all.
pub(crate) fn with_kept(
    loaded: Loaded,
    persistence: Option<&Persistence>,
) -> anyhow::Result<(Loaded, PutIdentities)> {
    let kept = persistence.filter(|_| loaded.config.auth.managed);
    if kept.is_some_and(Persistence::is_damaged) {
        error!(
            event = "identities-perhaps-lost",
            "something of the store is lost, which may be the last changes of users, tokens and rules: look at `tiderace users ls`, `tokens ls` and `rules ls`"
        );
    }
    let Some(kept) = kept.and_then(|persistence| persistence.value(KEPT_AS)) else {
        return Ok((loaded, PutIdentities::default()));
    };
    let wrong = |reason: String| {
        anyhow::anyhow!(
            "the users, tokens and rules that were put while the server ran cannot be used: {reason}; \
             with `auth.managed = false` the server starts without them"
        )
    };
    let text = String::from_utf8(kept).map_err(|_| wrong("they are no text".to_owned()))?;
    let put = PutIdentities::parse(&text).map_err(wrong)?;
    let with = loaded.with_put(&put).map_err(|problems| wrong(problems.to_string()))?;
    tell_unused(&with);
    Ok((with.loaded, put))
}

/// Says what of it does not count.
pub(super) fn tell_unused(with: &WithPut) {
    if !with.hidden.is_empty() {
        warn!(
            event = "identities-hidden",
            names = with.hidden.join(", "),
            "these were put while the server ran and stand in the configuration as well, which goes before"
        );
    }
    if !with.left_out.is_empty() {
        error!(
            event = "identities-left-out",
            reasons = with.left_out.join("; "),
            "these were put while the server ran and cannot be used any more, so nobody comes in by them"
        );
    }
}
