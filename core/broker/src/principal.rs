//! Who a client is, and which paths are its own or kept from it.
//!
//! Relies on claims. Invariant: nobody but the server is called `*`, and nobody `uid:` and a number who has not come by the admin
//! socket; an anonymous client owns nothing.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, is_local_name};
use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{Credentials, EVERY_HOST, Entrance, host_of, within_host};

use crate::claims::Claims;
use crate::credential_id::CredentialId;

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The identity's name; never holds wildcards.
    pub name: Arc<str>,
    /// The groups it belongs to.
    pub groups: Arc<[Arc<str>]>,
    /// Whether the name is not authenticated.
    pub anonymous: bool,
    /// Before the login: the virtual host to which it is bound, or `*` for the whole tree whatever its client names.
    /// From then on: the host that it is in.
    pub host: Option<Arc<str>>,
    /// What its login says besides, as far as rules ask for it.
    pub claims: Claims,
    /// Of a principal of another node, which passes on what it asks for: as whom that node is here. It may do what both
    /// may.
    pub relayed_by: Option<Arc<Principal>>,
    /// What it has logged in with.
    pub credential: CredentialId,
    /// By which way it has come.
    pub entrance: Entrance,
}

impl Principal {
    /// A client that did not say who it is.
    pub fn anonymous() -> Principal {
        let (anonymous, credential) = (true, CredentialId::NOTHING);
        Principal { anonymous, credential, ..Principal::named("anonymous") }
    }

    /// A client of that name, without groups, host and claims.
    pub fn named(name: impl Into<Arc<str>>) -> Principal {
        Principal {
            name: name.into(),
            groups: [].into(),
            anonymous: false,
            host: None,
            claims: Claims::default(),
            relayed_by: None,
            credential: CredentialId::LASTING,
            entrance: Entrance::Rules,
        }
    }

    /// A process of that user that has come by the admin socket and need not log in.
    pub fn local(user: u32) -> Principal {
        Principal {
            host: Some(EVERY_HOST.into()),
            entrance: Entrance::Admin(user),
            ..Principal::named(format!("{LOCAL}{user}"))
        }
    }

    /// Who has come by the admin socket and shows nothing.
    pub(crate) fn unasked(shown: &Credentials, entrance: Entrance) -> Option<Principal> {
        match entrance {
            Entrance::Admin(user) if shown.are_absent() => Some(Principal::local(user)),
            _ => None,
        }
    }

    /// Whether it is one of those.
    pub fn is_local(&self) -> bool {
        matches!(self.entrance, Entrance::Admin(_))
    }

    /// The same of somebody who has logged in, which makes him nobody else on the admin socket.
    ///
    /// # Errors
    /// When the name is one of those who need not log in there.
    pub fn logged_in_by(self, entrance: Entrance) -> Result<Principal, Close> {
        if is_local_name(&self.name) {
            let reason = format!(
                "nobody logs in as {}: `{LOCAL}` and a number is the name of processes on the admin socket",
                self.name
            );
            return Err(Close::new(CloseCode::LoginFailed, reason));
        }
        let entrance = match entrance {
            Entrance::Admin(_) => Entrance::Rules,
            entrance => entrance,
        };
        Ok(Principal { entrance, ..self })
    }

    /// Whether it is the same one, whatever it has logged in with.
    pub(crate) fn is_same_as(&self, other: &Principal) -> bool {
        *self == Principal { credential: self.credential, ..other.clone() }
    }

    /// Whether what begins with these levels is its own; `None` if it is nobody's.
    fn owns(&self, kind: Option<&str>, name: Option<&str>) -> Option<bool> {
        match (kind, name) {
            (Some("user"), Some(name)) => Some(!self.anonymous && *self.name == *name),
            (Some("group"), Some(name)) => {
                Some(!self.anonymous && self.groups.iter().any(|group| **group == *name))
            }
            _ => None,
        }
    }

    /// Whether traces may be its own: who looks after the node is of no virtual host, where somebody of that name is somebody else, and comes by
    /// no way for clients.
    fn may_trace(&self) -> bool {
        self.host.is_none() && self.entrance != Entrance::Clients
    }

    /// Whether the path is private to others.
    pub(crate) fn is_kept_from(&self, path: &Path) -> bool {
        self.owns_path(path) == Some(false)
    }

    pub(crate) fn owns_path(&self, path: &Path) -> Option<bool> {
        if let Some(traced) = path.as_str().strip_prefix(TRACES) {
            let mut levels = traced.split('/');
            let owns = self.owns(levels.next(), levels.next())?;
            return Some(owns && self.may_trace());
        }
        let mut levels = within_host(subject_of(path.as_str())).split('/');
        self.owns(levels.next(), levels.next())
    }

    /// Of a pattern whose first two levels are no wildcards; any other reaches nothing private.
    pub(crate) fn owns_pattern(&self, pattern: &Pattern) -> Option<bool> {
        let mut levels = pattern.levels().iter().map(|level| match level {
            Level::Literal(text) => Some(&**text),
            _ => None,
        });
        let mut traced = levels.clone();
        if traced.next() == Some(Some("$sys")) && traced.next() == Some(Some("trace")) {
            let owns = self.owns(traced.next().flatten(), traced.next().flatten())?;
            return Some(owns && self.may_trace());
        }
        let mut about = levels.clone();
        if about.next() == Some(Some("$sys"))
            && matches!(about.next(), Some(Some("presence" | "missing")))
        {
            levels = about;
        }
        let mut of_host = levels.clone();
        if of_host.next().flatten().is_some_and(|level| level.starts_with('@')) {
            levels = of_host;
        }
        self.owns(levels.next().flatten(), levels.next().flatten())
    }

    /// The server itself, which no rule holds back. Nobody else can have the name: names hold no
    /// wildcards.
    pub fn server() -> Principal {
        Principal::named("*")
    }

    /// Whether it may be the owner of what is at a path: owners are those of that name in the virtual host of the path. For
    /// principals of other nodes the rules alone decide.
    pub(crate) fn may_own_at(&self, path: &Path) -> bool {
        self.relayed_by.is_none() && !self.anonymous && self.host.as_deref() == host_of(path)
    }

    /// Its name where those of one name in several virtual hosts are counted apart.
    pub(crate) fn whole_name(&self) -> Arc<str> {
        match &self.host {
            None => self.name.clone(),
            Some(host) => ["@", host, "/", &self.name].concat().into(),
        }
    }

    /// Whether that is its name; one of a virtual host is called `@HOST/NAME`.
    pub fn is_called(&self, name: &str) -> bool {
        match &self.host {
            None => *self.name == *name,
            Some(host) => {
                let rest = name.strip_prefix('@').and_then(|rest| rest.strip_prefix(&**host));
                rest.and_then(|rest| rest.strip_prefix('/')) == Some(&*self.name)
            }
        }
    }

    pub(crate) fn is_server(&self) -> bool {
        &*self.name == "*"
    }
}

/// How the names of those begin who have come by the admin socket and need not log in.
pub const LOCAL: &str = tiderace_base::LOCAL_NAMES;

/// Below this the server says who subscribes to a topic, and below that of whom nobody knows it.
pub(crate) const PRESENCE: &str = "$sys/presence/";
pub(crate) const MISSING: &str = "$sys/missing/";
/// Below this are the events of traces; what stands below `user/NAME` there is for that principal.
const TRACES: &str = "$sys/trace/";

/// The path that a path speaks of: mostly itself.
pub(crate) fn subject_of(path: &str) -> &str {
    let present = path.strip_prefix(PRESENCE).and_then(|rest| rest.rsplit_once('/'));
    present.map(|(subject, _)| subject).or(path.strip_prefix(MISSING)).unwrap_or(path)
}
