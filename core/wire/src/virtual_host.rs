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
//! level behind. Relies on paths and patterns. Invariants: whatever a session of a host names is below its root, or a
//! temporary destination, or the server's own; it is told of nothing else.

mod commands;
mod replies;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::{Level, Path, Pattern, as_expression, is_at_or_below};

use crate::operation::DURABLE;
use crate::{Kind, bad_name, shown};

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
    pub fn path(&self, kind: Kind, path: &Path) -> Result<Path, Close> {
        let mut levels = path.levels();
        match place(kind, [levels.next(), levels.next(), levels.next()]) {
            Place::Nowhere => Ok(path.clone()),
            Place::Behind(behind) => {
                path.with_level(behind, &self.0).map_err(|error| bad_name(path.as_str(), error))
            }
        }
    }

    /// What a session of the host means by a pattern.
    ///
    /// # Errors
    /// When that would be too long or too deep, or the pattern leaves open whether it names what is told of other hosts.
    pub fn pattern(&self, kind: Kind, pattern: &Pattern) -> Result<Pattern, Close> {
        if leaves_open(pattern) {
            let reason = format!(
                "`{}` could name what $sys tells of other virtual hosts: spell out the level behind $sys, as in $sys/presence/**",
                shown(pattern.as_str())
            );
            return Err(Close::new(CloseCode::BadDestination, reason));
        }
        let level = |at: usize| match pattern.levels().get(at)? {
            Level::Literal(text) => Some(&**text),
            _ => Some("*"),
        };
        match place(kind, [level(0), level(1), level(2)]) {
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

    /// Whether a session of the host is told of a path, should one of its patterns name it: of its host's own, of
    /// temporary destinations, and of what the server says of no host.
    pub fn shows(&self, path: &Path) -> bool {
        let text = path.as_str();
        let is_told = |rest: &str| TOLD_OF.iter().any(|told| is_at_or_below(rest, told));
        match text.strip_prefix("$sys") {
            Some("") => true,
            Some(rest) if rest.starts_with('/') && !is_told(rest) => true,
            _ => text.starts_with("temp/") || self.split(text).is_some(),
        }
    }

    /// A path or pattern as it is written, as a session of the host calls it, if it is one of the host.
    fn name(&self, text: &str) -> Option<String> {
        let Some(expressions) = text.strip_prefix('?') else {
            return self.split(text).map(|(front, rest)| [front, rest].concat());
        };
        let level = as_expression(&self.0);
        FRONTS.iter().find_map(|front| {
            let front = as_expression(front);
            let rest = expressions.strip_prefix(&*front)?.strip_prefix(&*level)?;
            Some(["?", &front, rest.strip_prefix('/')?].concat())
        })
    }

    /// Names with a comma between them, as a session of the host calls them.
    fn names(&self, text: &str) -> String {
        let own = |name: &str| self.name(name).unwrap_or_else(|| name.to_owned());
        text.split(',').map(own).collect::<Vec<_>>().join(",")
    }

    /// A sentence in which names occur, as a session of the host is told it: where a name of the host begins, its level
    /// is left out. That is a guess, so nothing but sentences is told so.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let (mut told, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(&*self.0) {
            let (before, level) = rest.split_at(at);
            let before_it = text.get(..text.len() - level.len()).unwrap_or_default();
            let behind = level.strip_prefix(&*self.0).unwrap_or_default();
            told.push_str(before);
            rest = match behind.strip_prefix('/').filter(|_| begins_name(before_it)) {
                Some(name) => name,
                None => {
                    told.push_str(&self.0);
                    behind
                }
            };
        }
        if told.len() + rest.len() == text.len() {
            return Cow::Borrowed(text);
        }
        told.push_str(rest);
        Cow::Owned(told)
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

/// Behind `$sys`, where the server tells of topics: below that the names of a host have its level. There itself it tells of
/// patterns, which are those of all hosts.
const TOLD_OF: [&str; 2] = ["/presence", "/missing"];

/// Whether a pattern below `$sys` could name what is told of topics without saying so, and so of those of all hosts. A first
/// level that is not spelled out names nothing below `$sys`.
fn leaves_open(pattern: &Pattern) -> bool {
    let (first, second, deeper) = match pattern.levels() {
        [first, Level::Rest] => (first, &Level::Rest, true),
        [first, second, deeper @ ..] => (first, second, !deeper.is_empty()),
        _ => return false,
    };
    let is_open = || !matches!(second, Level::Literal(_));
    deeper
        && matches!(first, Level::Literal(text) if **text == *"$sys")
        && is_open()
        && TOLD_OF.iter().any(|told| second.fits(told.trim_start_matches('/')))
}

/// Whether a name may begin behind a text.
fn begins_name(text: &str) -> bool {
    let fronts = FRONTS.iter().filter(|front| !front.is_empty());
    let before = fronts.copied().find_map(|front| text.strip_suffix(front)).unwrap_or(text);
    !before.ends_with(|last: char| last.is_alphanumeric() || "/-_.@$".contains(last))
}

/// Where the level of a host goes in a name with these first levels.
fn place(kind: Kind, levels: [Option<&str>; 3]) -> Place {
    match levels {
        [Some("temp"), Some(_), _] => Place::Nowhere,
        [Some("$sys"), Some("presence" | "missing"), Some(_)] => Place::Behind(2),
        [Some("$sys"), ..] => Place::Nowhere,
        [Some(DURABLE), Some(_), _] if kind == Kind::Queue => Place::Behind(1),
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

/// The name of the host that a path belongs to.
#[inline]
pub fn host_of(path: &Path) -> Option<&str> {
    let text = path.as_str();
    let behind = FRONTS.iter().find_map(|front| text.strip_prefix(front)?.strip_prefix(MARK))?;
    behind.split_once('/').map(|(host, _)| host)
}

/// The root of the host that a path belongs to.
#[inline]
pub fn root_of(path: &Path) -> Option<Root> {
    host_of(path).map(Root::of)
}

/// What a path is called in its virtual host; itself if it belongs to none.
pub fn own_name(path: &Path) -> Cow<'_, str> {
    match root_of(path).and_then(|root| root.without(path)) {
        Some(own) => Cow::Owned(own.as_str().to_owned()),
        None => Cow::Borrowed(path.as_str()),
    }
}

/// How what lies at a path calls another one: as their host does, if that is one; absent if it has no name there.
pub fn called_at(path: &Path, called: &Path) -> Option<Path> {
    match root_of(path) {
        None => Some(called.clone()),
        Some(root) => root.without(called),
    }
}

/// The queue that what lies at a path means by such a name.
pub fn meant_at(path: &Path, name: &str) -> Option<Path> {
    let name = Path::parse(name).ok()?;
    match root_of(path) {
        None => Some(name),
        Some(root) => root.path(Kind::Queue, &name).ok(),
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
    /// Their names.
    names: HashSet<Arc<str>>,
    /// By what clients call them, spelled out.
    spelled: HashMap<Box<str>, Arc<str>>,
    /// By ends of what clients call them, from the dot on; the longest first.
    ends: Vec<(Box<str>, Arc<str>)>,
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
        let mut made = VirtualHosts { is_closed, ..VirtualHosts::default() };
        for host in hosts {
            for called in host.hosts {
                match called.strip_prefix('*') {
                    Some(end) => made.ends.push((end.into(), host.name.clone())),
                    None => drop(made.spelled.insert(called, host.name.clone())),
                }
            }
            made.names.insert(host.name);
        }
        made.ends.sort_by_key(|(end, _)| Reverse(end.len()));
        made
    }

    /// Whether there are none, so that no name of a host means anything.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
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

    /// The virtual host that has that name itself, which need not be one that clients connect by.
    pub fn by_name(&self, name: &str) -> NamedHost {
        match self.names.get(name) {
            Some(name) => NamedHost::Known(name.clone()),
            None => NamedHost::Unknown(shown(name).into()),
        }
    }

    /// A name that is spelled out goes before the end of names, of which the longest counts.
    fn find(&self, name: &str) -> Option<&Arc<str>> {
        let fits = |end: &str| name.len() > end.len() && name.ends_with(end);
        let by_end = || self.ends.iter().find(|(end, _)| fits(end)).map(|(_, host)| host);
        self.spelled.get(name).or_else(by_end)
    }

    /// Whether who sees the whole tree may name a destination: not one that would be in a virtual host without a name
    /// there, or would have the name of something else.
    ///
    /// # Errors
    /// Says how the name is understood.
    pub fn check_whole(&self, kind: Kind, path: &Path) -> Result<(), Close> {
        if self.is_misnamed(kind, path.as_str()) {
            let reason = format!(
                "`{path}` is no name in a virtual host: there it would be none, or that of something else; durable subscriptions are at dsub/@NAME/…, what is below $sys and temp/ has no host before it"
            );
            return Err(Close::new(CloseCode::BadDestination, reason));
        }
        Ok(())
    }

    fn is_misnamed(&self, kind: Kind, text: &str) -> bool {
        let durable = text.strip_prefix(DURABLE).and_then(|rest| rest.strip_prefix('/'));
        let Some(rest) = durable.unwrap_or(text).strip_prefix(MARK) else { return false };
        let (name, own) = rest.split_once('/').unwrap_or((rest, ""));
        let mut levels = own.split('/');
        let first = (levels.next(), levels.next());
        let is_own = |own: (Option<&str>, Option<&str>)| match own {
            (Some(""), _) => true,
            _ if durable.is_some() => false,
            (Some("$sys"), _) | (Some("temp"), Some(_)) => true,
            (Some(DURABLE), Some(_)) => kind == Kind::Queue,
            _ => false,
        };
        self.names.contains(name) && is_own(first)
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
