//! Somebody who is connected, as rules see them.
//!
//! Relies on nothing. Invariant: only an anonymous principal has no name.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::credential::CredentialMark;

/// Somebody who is connected. Cloning is cheap: sessions of one user share the texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    name: Option<Arc<str>>,
    groups: Arc<[Arc<str>]>,
    host: Option<Arc<str>>,
    claims: Arc<[(Arc<str>, Arc<str>)]>,
    until: Option<u64>,
    credential: Option<CredentialMark>,
}

impl Principal {
    /// A client that did not log in.
    pub fn anonymous() -> Principal {
        Principal {
            name: None,
            groups: Arc::from([]),
            host: None,
            claims: Arc::from([]),
            until: None,
            credential: None,
        }
    }

    /// Somebody who logged in.
    pub fn named(name: &str, groups: impl IntoIterator<Item = impl AsRef<str>>) -> Principal {
        let groups = groups.into_iter().map(|group| Arc::from(group.as_ref())).collect();
        Principal { name: Some(Arc::from(name)), groups, ..Principal::anonymous() }
    }

    /// The same, bound to a virtual host, or to the whole tree as `*`, if that is something.
    #[must_use]
    pub fn bound(self, host: Option<&str>) -> Principal {
        Principal { host: host.map(Arc::from), ..self }
    }

    /// The same with what the credentials say besides: names with values, of which a name may have several.
    #[must_use]
    pub(crate) fn claiming<'a>(
        self,
        claims: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Principal {
        let claims = claims.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Principal { claims, ..self }
    }

    /// The same until a moment, in seconds since 1970.
    #[must_use]
    pub fn until(self, until: u64) -> Principal {
        Principal { until: Some(until), ..self }
    }

    /// The same, who has shown that.
    #[must_use]
    pub fn shown_by(self, credential: CredentialMark) -> Principal {
        Principal { credential: Some(credential), ..self }
    }

    /// What it has shown, if the configuration may cease to accept it.
    pub fn credential(&self) -> Option<CredentialMark> {
        self.credential
    }

    /// The name; `None` for an anonymous client.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// The groups, in the order of the configuration.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }

    /// The virtual host that it is bound to, or `*` for the whole tree.
    pub fn host(&self) -> Option<&Arc<str>> {
        self.host.as_ref()
    }

    /// What the credentials say besides, as far as rules ask for it.
    pub fn claims(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.claims
    }

    /// When the credentials cease to be valid, in seconds since 1970; `None` if they do not.
    pub fn valid_until(&self) -> Option<u64> {
        self.until
    }

    /// Did not log in.
    pub fn is_anonymous(&self) -> bool {
        self.name.is_none()
    }
}

/// The name, as logs show it.
impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("anonymous"))
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
