//! Somebody who is connected, as rules see them.
//!
//! Relies on nothing. Invariant: only an anonymous principal has no name.

use std::sync::Arc;

/// Somebody who is connected. Cloning is cheap: sessions of one user share the texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    name: Option<Arc<str>>,
    groups: Arc<[Arc<str>]>,
    host: Option<Arc<str>>,
}

impl Principal {
    /// A client that did not log in.
    pub fn anonymous() -> Principal {
        Principal { name: None, groups: Arc::from([]), host: None }
    }

    /// Somebody who logged in.
    pub fn named(name: &str, groups: impl IntoIterator<Item = impl AsRef<str>>) -> Principal {
        let groups = groups.into_iter().map(|group| Arc::from(group.as_ref())).collect();
        Principal { name: Some(Arc::from(name)), groups, host: None }
    }

    /// The same, bound to a virtual host, or to the whole tree as `*`, if that is something.
    #[must_use]
    pub fn bound(self, host: Option<&str>) -> Principal {
        Principal { host: host.map(Arc::from), ..self }
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
