//! Virtual hosts: several trees of names on one server, each for clients that name its host.
//!
//! ```text
//!   what a client of the host shop writes      what the server calls it
//!   orders/new                                 @shop/orders/new
//!   dsub/audit                                 dsub/@shop/audit
//!   $sys/presence/room                         $sys/presence/@shop/room
//!   temp/…, all else below $sys                the same
//! ```
//! The broker puts the [`Root`] of a session's host before the names in its commands, and takes it off those that it
//! is told; protocols know nothing of it. What the server finds by its first levels keeps them, with the host's
//! level behind. Relies on paths and patterns. Invariant: whatever a session of a host names is below its root, or a
//! temporary destination, or the server's own.

mod commands;
mod replies;

use std::borrow::Cow;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::{Level, Path, Pattern};

use crate::operation::DURABLE;
use crate::{bad_name, shown};

/// How the first level of a host's tree begins.
const MARK: char = '@';

/// What the server finds by its first levels, whatever host it is of.
const FRONTS: [&str; 4] = ["", "dsub/", "$sys/presence/", "$sys/missing/"];

/// Where the names of one virtual host lie. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root(Arc<str>);

/// Where the level of a host goes in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere: the name is the same for all hosts.
    Nowhere,
    /// Behind so many levels.
    Behind(usize),
}

impl Root {
    /// That of the host with a name; see [`is_host_name`].
    pub fn of(host: &str) -> Root {
        Root(format!("{MARK}{host}").into())
    }

    /// The first level of the host's tree.
    pub fn level(&self) -> &str {
        &self.0
    }

    /// What a session of the host means by a path.
    ///
    /// # Errors
    /// When that would be too long or too deep.
    pub fn path(&self, path: &Path) -> Result<Path, Close> {
        let mut levels = path.levels();
        match place([levels.next(), levels.next(), levels.next()]) {
            Place::Nowhere => Ok(path.clone()),
            Place::Behind(behind) => {
                path.with_level(behind, &self.0).map_err(|error| bad_name(path.as_str(), error))
            }
        }
    }

    /// What a session of the host means by a pattern.
    ///
    /// # Errors
    /// When that would be too long or too deep.
    pub fn pattern(&self, pattern: &Pattern) -> Result<Pattern, Close> {
        let level = |at: usize| match pattern.levels().get(at)? {
            Level::Literal(text) => Some(&**text),
            _ => Some("*"),
        };
        match place([level(0), level(1), level(2)]) {
            Place::Nowhere => Ok(pattern.clone()),
            Place::Behind(behind) => pattern
                .with_level(behind, &self.0)
                .map_err(|error| bad_name(pattern.as_str(), error)),
        }
    }

    /// How a session of the host calls a path, if it calls it otherwise than the server.
    pub fn without(&self, path: &Path) -> Option<Path> {
        let (front, rest) = self.split(path.as_str())?;
        Path::parse(&[front, rest].concat()).ok()
    }

    /// Whether a path is one of the host.
    pub fn holds(&self, path: &Path) -> bool {
        self.split(path.as_str()).is_some()
    }

    /// A text in which names occur, as a session of the host is told it.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for level in self.spellings() {
            if text.contains(&level) {
                text = Cow::Owned(text.replace(&level, ""));
            }
        }
        text
    }

    /// Whether a path or pattern, as it is written, is one of the host's tree.
    fn begins(&self, text: &str) -> bool {
        let text = text.strip_prefix('?').unwrap_or(text);
        self.spellings().iter().any(|level| text.starts_with(level))
    }

    /// How the level is written in names, and among regular expressions.
    fn spellings(&self) -> [String; 2] {
        [format!("{}/", self.0), format!("{}/", self.0.replace('-', r"\-"))]
    }

    /// What stands before and behind the host's level.
    fn split<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        FRONTS.iter().find_map(|front| {
            let rest = text.strip_prefix(front)?;
            let rest = rest.strip_prefix(&*self.0)?.strip_prefix('/')?;
            Some((text.get(..front.len())?, rest))
        })
    }

    /// Why a session of the host may not do something that concerns more than its host.
    fn only_whole(what: &str) -> Close {
        let reason = format!(
            "{what} are those of the whole server; log in under a name that is no virtual host's"
        );
        Close::new(CloseCode::NotAuthorised, reason)
    }
}

/// Whether a text can be the name of a virtual host: letters, digits, `-` and `_`.
pub fn is_host_name(text: &str) -> bool {
    (1..=HOST_NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Bytes of the name of a virtual host, which is part of every name there.
const HOST_NAME_BYTES_MAX: usize = 64;

/// Where the level of a host goes in a name with these first levels.
fn place(levels: [Option<&str>; 3]) -> Place {
    match levels {
        [Some("temp"), Some(_), _] => Place::Nowhere,
        [Some("$sys"), Some("presence" | "missing"), Some(_)] => Place::Behind(2),
        [Some("$sys"), ..] => Place::Nowhere,
        [Some(DURABLE), Some(_), _] => Place::Behind(1),
        _ => Place::Behind(0),
    }
}

/// A path as the host calls it to which it belongs; itself if it belongs to none.
#[inline]
pub fn within_host(path: &str) -> &str {
    match path.strip_prefix(MARK) {
        None => path,
        Some(rest) => rest.split_once('/').map_or(path, |(_, rest)| rest),
    }
}

/// The root of the host that a path belongs to.
#[inline]
pub fn root_of(path: &Path) -> Option<Root> {
    let text = path.as_str();
    let behind = FRONTS.iter().find_map(|front| text.strip_prefix(front)?.strip_prefix(MARK))?;
    behind.split_once('/').map(|(host, _)| Root::of(host))
}

/// What a path is called in its virtual host; itself if it belongs to none.
pub fn own_name(path: &Path) -> Cow<'_, str> {
    match root_of(path).and_then(|root| root.without(path)) {
        Some(own) => Cow::Owned(own.as_str().to_owned()),
        None => Cow::Borrowed(path.as_str()),
    }
}

/// Whether the first level of a pattern is that of a host.
#[inline]
pub fn names_host(pattern: &Pattern) -> bool {
    matches!(pattern.levels().first(), Some(Level::Literal(text)) if text.starts_with(MARK))
}

/// The name of a host without its port, in small letters, as far as it can be one; for tables.
pub fn host_name(text: &str) -> Option<String> {
    let text = text.trim();
    let name = match text.strip_prefix('[') {
        // An address of IPv6.
        Some(rest) => rest.split_once(']')?.0,
        None => text.split_once(':').map_or(text, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = (1..=HOST_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| name.to_ascii_lowercase())
}

/// Bytes of a host's name (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// The virtual hosts of a server, and the names by which clients may call them.
#[derive(Clone, Debug, Default)]
pub struct VirtualHosts {
    /// In the order of the configuration.
    hosts: Vec<VirtualHost>,
    /// Whether clients that name no virtual host are refused.
    is_closed: bool,
}

/// One virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualHost {
    /// Its name: one level of a path.
    pub name: Arc<str>,
    /// What clients call it: names in small letters, or `*.` and the end of names.
    pub hosts: Vec<Box<str>>,
}

/// What a client has said of the host that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamedHost {
    /// Nothing.
    #[default]
    None,
    /// Something that is the name of no virtual host.
    Unknown(Box<str>),
    /// A virtual host.
    Known(Arc<str>),
}

/// The name of who may log in under any host and sees the whole tree.
pub const EVERY_HOST: &str = "*";

impl VirtualHosts {
    /// These; `is_closed` says whether clients that name none of them are refused.
    pub fn new(hosts: Vec<VirtualHost>, is_closed: bool) -> VirtualHosts {
        VirtualHosts { hosts, is_closed }
    }

    /// Whether there are none, so that no name of a host means anything.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// What a client means that names a host.
    pub fn named(&self, text: &str) -> NamedHost {
        if text.is_empty() {
            return NamedHost::None;
        }
        let known = host_name(text).and_then(|name| self.find(&name));
        match known {
            Some(name) => NamedHost::Known(name.clone()),
            None => NamedHost::Unknown(shown(text).into()),
        }
    }

    /// A name that is spelled out goes before the end of names, of which the longest counts.
    fn find(&self, name: &str) -> Option<&Arc<str>> {
        let rank = |known: &str| match known.strip_prefix('*') {
            None => (known == name).then_some(usize::MAX),
            Some(end) => (name.len() > end.len() && name.ends_with(end)).then_some(end.len()),
        };
        let of = |host: &VirtualHost| host.hosts.iter().filter_map(|known| rank(known)).max();
        let ranked = self.hosts.iter().filter_map(|host| Some((of(host)?, host)));
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, host)| &host.name)
    }

    /// The host in which somebody is who has named one and is bound to `bound`; absent for the whole tree.
    ///
    /// # Errors
    /// Says under which host he may log in.
    pub fn admit(
        &self,
        named: &NamedHost,
        bound: Option<&Arc<str>>,
    ) -> Result<Option<Arc<str>>, Close> {
        let wrong = |reason: String| Err(Close::new(CloseCode::WrongHost, reason));
        match (bound, named) {
            (Some(bound), _) if **bound == *EVERY_HOST => Ok(None),
            (Some(bound), NamedHost::None) => Ok(Some(bound.clone())),
            (Some(bound), NamedHost::Known(name)) if name == bound => Ok(Some(bound.clone())),
            (Some(_), NamedHost::Known(name)) => {
                wrong(format!("this user belongs to another virtual host than `{name}`"))
            }
            (Some(_), NamedHost::Unknown(text)) => wrong(format!(
                "`{text}` is not the name of the virtual host that this user belongs to"
            )),
            (None, NamedHost::Known(name)) => Ok(Some(name.clone())),
            (None, _) if !self.is_closed => Ok(None),
            (None, NamedHost::Unknown(text)) => {
                wrong(format!("there is no virtual host `{text}`; connect by the name of one"))
            }
            (None, NamedHost::None) => {
                wrong("this server wants the name of a virtual host; connect by one".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests;
