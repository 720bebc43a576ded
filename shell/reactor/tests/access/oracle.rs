//! What is allowed, told from the documentation alone: nothing here calls the code under test.

use std::collections::{BTreeMap, BTreeSet};

/// What somebody tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Publish,
    Subscribe,
    SubscribePattern,
    Send,
    Receive,
    Create,
    CreateWithValue,
    Update,
    UpdateIf,
    Patch,
    History,
    Lock,
    Claim,
    Will,
    ShowQueue,
    Peek,
    Purge,
    Pause,
    Move,
}

/// Where messages are moved to.
pub const MOVED_TO: &str = "other/moved";

pub const VERBS: [Verb; 19] = [
    Verb::Publish,
    Verb::Subscribe,
    Verb::SubscribePattern,
    Verb::Send,
    Verb::Receive,
    Verb::Create,
    Verb::CreateWithValue,
    Verb::Update,
    Verb::UpdateIf,
    Verb::Patch,
    Verb::History,
    Verb::Lock,
    Verb::Claim,
    Verb::Will,
    Verb::ShowQueue,
    Verb::Peek,
    Verb::Purge,
    Verb::Pause,
    Verb::Move,
];

/// One attempt.
#[derive(Clone, Debug)]
pub struct Deed {
    pub verb: Verb,
    /// The canonical path, or a pattern for [`Verb::SubscribePattern`].
    pub path: String,
    /// The owner that a specification names.
    pub owner: Option<&'static str>,
}

/// A line of the rules.
#[derive(Clone, Debug)]
pub struct Rule {
    pub allow: bool,
    pub actions: BTreeSet<&'static str>,
    /// `*`, `anonymous`, `@group` or a name.
    pub who: &'static str,
    pub path: &'static str,
    /// `topic`, `queue` or nothing for both.
    pub kind: &'static str,
}

/// The rules, and what is there.
#[derive(Debug, Default)]
pub struct Oracle {
    pub rules: Vec<Rule>,
    /// The owners of the topics that are there, and that there are such.
    pub topics: BTreeMap<String, Option<&'static str>>,
}

/// Who tries: the name (empty for nobody), and below which path its temporary destinations are.
#[derive(Clone, Debug)]
pub struct Who<'a> {
    pub name: &'a str,
    pub temporary: Option<&'a str>,
    /// All paths that some session has for its temporary destinations, or looks like such.
    pub names: &'a [String],
}

impl Oracle {
    /// Whether it is allowed.
    pub fn allows(&self, who: &Who<'_>, deed: &Deed) -> bool {
        let path = deed.path.as_str();
        if path.starts_with("temp/") {
            return allows_temporary(who, deed);
        }
        let topic = |action| self.by_rules(who, action, "topic", path) || self.owns(who, path);
        let publishes = || !is_reserved(path) && topic("publish");
        let manages = || !is_reserved(path) && self.by_rules(who, "manage", "queue", path);
        let creates = || {
            let is_there = self.topics.contains_key(path);
            let as_owner = is_there && self.owns(who, path);
            let named = deed.owner.is_none_or(|owner| {
                let own = !who.name.is_empty() && owner == who.name;
                let may = own || self.by_rules(who, "admin", "topic", path) || self.owns(who, path);
                let configured = configured_owner(path) == Some(owner);
                configured || may && !is_private_to_others(owner, owner == who.name, path)
            });
            named && !is_reserved(path) && (as_owner || self.by_rules(who, "create", "topic", path))
        };
        match deed.verb {
            Verb::Publish | Verb::Lock | Verb::Claim | Verb::Will | Verb::Update => publishes(),
            Verb::UpdateIf | Verb::Patch => publishes() && topic("subscribe"),
            Verb::Subscribe | Verb::History => topic("subscribe"),
            Verb::SubscribePattern => self.somewhere(who, path),
            Verb::Send => !is_reserved(path) && self.by_rules(who, "send", "queue", path),
            Verb::Receive | Verb::Peek => self.by_rules(who, "receive", "queue", path),
            Verb::ShowQueue => self.by_rules(who, "browse", "queue", path),
            Verb::Purge | Verb::Pause => manages(),
            Verb::Move => manages() && self.by_rules(who, "send", "queue", MOVED_TO),
            Verb::Create => creates(),
            Verb::CreateWithValue => {
                let named = deed.owner.or(configured_owner(path));
                let owner = !who.name.is_empty() && named == Some(who.name);
                let there = self.topics.contains_key(path);
                // Who owns it by the configuration does not if it is made as somebody else's.
                let by_rules = !is_reserved(path) && self.by_rules(who, "publish", "topic", path);
                creates() && (there || by_rules || owner && !is_private(path))
            }
        }
    }

    /// What has changed, if it was done.
    pub fn done(&mut self, deed: &Deed) {
        if matches!(deed.verb, Verb::Create | Verb::CreateWithValue) {
            let owner = deed.owner.or(configured_owner(&deed.path));
            self.topics.entry(deed.path.clone()).or_insert(owner);
        }
        // A publication makes a topic that nobody owns, also if it has a condition that holds.
        let publishes = matches!(deed.verb, Verb::Publish | Verb::Update | Verb::UpdateIf);
        if publishes && !deed.path.starts_with("temp/") {
            let owner = configured_owner(&deed.path);
            self.topics.entry(deed.path.clone()).or_insert(owner);
        }
    }

    fn owns(&self, who: &Who<'_>, path: &str) -> bool {
        let owner = self.topics.get(path).copied().unwrap_or_else(|| configured_owner(path));
        !who.name.is_empty() && owner == Some(who.name) && !is_private(path) && !is_reserved(path)
    }

    fn by_rules(&self, who: &Who<'_>, action: &str, kind: &str, path: &str) -> bool {
        let listens = matches!(action, "browse" | "manage" | "subscribe" | "receive");
        let own = private_owner(path).map(|(kind, name)| is_own(who, kind, name));
        if listens && own == Some(false) {
            return false;
        }
        let concerned = |rule: &&Rule| {
            rule.actions.contains(action)
                && is_meant(who, rule.who)
                && (rule.kind.is_empty() || rule.kind == kind)
        };
        let mut rules = self.rules.iter().filter(concerned);
        let denied = rules.clone().any(|rule| !rule.allow && fits(rule.path, path));
        let reaches = |rule: &Rule| {
            let hidden = path.starts_with('$') && !rule.path.starts_with('$');
            rule.allow && !hidden && fits(rule.path, path)
        };
        !denied && (listens && own == Some(true) || rules.any(reaches))
    }

    /// A pattern of topics is accepted if something may be subscribed to; what it shows is decided
    /// topic by topic.
    fn somewhere(&self, who: &Who<'_>, pattern: &str) -> bool {
        if let Some((kind, name)) = private_owner(pattern).filter(|(_, name)| !name.contains('*')) {
            return is_own(who, kind, name);
        }
        self.rules
            .iter()
            .any(|rule| rule.allow && rule.actions.contains("subscribe") && is_meant(who, rule.who))
    }
}

/// The owner that the configuration names for topics that were not created as something else.
fn configured_owner(path: &str) -> Option<&'static str> {
    path.starts_with("conf/").then_some("ann")
}

/// Below `temp/` messages are sent to sessions by those who know a name, and each session listens below
/// its own name; nothing else is done there.
fn allows_temporary(who: &Who<'_>, deed: &Deed) -> bool {
    let own = who.temporary.is_some_and(|own| deed.path.starts_with(&format!("{own}/")));
    let named = who.names.iter().any(|name| deed.path.starts_with(&format!("{name}/")));
    match deed.verb {
        Verb::Publish | Verb::Send | Verb::Will => named,
        Verb::Subscribe | Verb::Receive | Verb::ShowQueue | Verb::Peek => own,
        _ => false,
    }
}

fn is_reserved(path: &str) -> bool {
    path == "$sys" || path.starts_with("$sys/")
}

fn private_owner(path: &str) -> Option<(&str, &str)> {
    let mut levels = path.split('/');
    let (kind, name) = (levels.next()?, levels.next()?);
    matches!(kind, "user" | "group").then_some((kind, name))
}

fn is_private(path: &str) -> bool {
    private_owner(path).is_some()
}

fn is_own(who: &Who<'_>, kind: &str, name: &str) -> bool {
    match kind {
        "user" => !who.name.is_empty() && who.name == name,
        _ => groups_of(who.name).contains(&name),
    }
}

/// Nobody knows the groups of somebody who is not there.
fn is_private_to_others(owner: &str, is_here: bool, path: &str) -> bool {
    match private_owner(path) {
        Some(("user", name)) => name != owner,
        Some((_, name)) => is_here && !groups_of(owner).contains(&name),
        None => false,
    }
}

/// Bob is in operations; nobody else is in any group.
pub fn groups_of(name: &str) -> &'static [&'static str] {
    if name == "bob" { &["ops"] } else { &[] }
}

fn is_meant(who: &Who<'_>, whom: &str) -> bool {
    match whom {
        "*" => true,
        "anonymous" => who.name.is_empty(),
        group if group.starts_with('@') => groups_of(who.name).contains(&&group[1..]),
        name => who.name == name,
    }
}

/// Whether a pattern of `*` for a level and a last `**` for all below names a path.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) =
        (pattern.split('/').collect(), path.split('/').collect());
    let open = pattern.last() == Some(&"**");
    let fixed = if open { &pattern[..pattern.len() - 1] } else { &pattern[..] };
    let long_enough = if open { path.len() >= fixed.len() } else { path.len() == fixed.len() };
    long_enough && fixed.iter().zip(&path).all(|(level, name)| *level == "*" || level == name)
}
