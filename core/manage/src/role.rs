//! Roles: names for what those who look after a server usually may.
//!
//! A rule of the configuration gives a role, and stands for the rules that make it. They count beside all others.

/// A name for rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks, and keeps the server going.
    Operator,
    /// Does all of it.
    Admin,
}

/// A rule of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The actions that it allows.
    pub allow: &'static [&'static str],
    /// For which kind of destinations.
    pub kind: Kind,
    /// Where.
    pub paths: &'static [&'static str],
}

/// Kinds of destinations, as rules name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All.
    Any,
    /// Queues.
    Queue,
    /// Services.
    Service,
    /// Topics.
    Topic,
}

/// What has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The action.
    pub action: &'static str,
    /// For which kind of destinations.
    pub kind: Kind,
    /// Where: a path, or the pattern of those of which one is meant.
    pub at: &'static str,
    /// Which one of those, for people; nothing if the path says it.
    pub which: &'static str,
}

impl Role {
    /// All of them, each of which may what those before it may.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// Their names.
    pub const NAMES: &[&str] = &[Role::ALL[0].name(), Role::ALL[1].name(), Role::ALL[2].name()];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The rules that make it.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Role::Viewer => &[
                Rule { allow: &["monitor"], kind: Kind::Any, paths: NODE },
                Rule { allow: &["browse"], kind: Kind::Any, paths: ALL },
            ],
            Role::Operator => &[
                Rule { allow: &["monitor", "operate"], kind: Kind::Any, paths: NODE },
                Rule { allow: &["browse"], kind: Kind::Any, paths: ALL },
                Rule { allow: &["manage", "receive", "send"], kind: Kind::Queue, paths: ALL },
            ],
            Role::Admin => &[
                Rule { allow: &["monitor", "operate", "admin"], kind: Kind::Any, paths: NODE },
                Rule { allow: &["browse"], kind: Kind::Any, paths: ALL },
                Rule {
                    allow: &["manage", "receive", "send", "create"],
                    kind: Kind::Queue,
                    paths: ALL,
                },
                Rule { allow: &["subscribe"], kind: Kind::Topic, paths: ALL },
            ],
        }
    }
}

/// What is told of the node, and asked of it.
const NODE: &[&str] = &["$sys/**"];
/// All other paths.
const ALL: &[&str] = &["**"];

impl Kind {
    /// Its name in rules.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Any => "any",
            Kind::Queue => "queue",
            Kind::Service => "service",
            Kind::Topic => "topic",
        }
    }
}

impl Rule {
    /// The rule as the configuration has it, for those principals.
    pub fn to_toml(self, principals: &[&str]) -> String {
        rule(self.allow, self.kind, self.paths, principals)
    }
}

fn rule(allow: &[&str], kind: Kind, paths: &[&str], principals: &[&str]) -> String {
    let kind = match kind {
        Kind::Any => String::new(),
        kind => format!("kind = \"{}\"\n", kind.name()),
    };
    format!("[[rule]]\nallow = {allow:?}\nprincipals = {principals:?}\n{kind}paths = {paths:?}\n")
}

impl Right {
    /// What lies there of the node.
    pub(crate) const fn node(action: &'static str, at: &'static str) -> Right {
        Right { action, kind: Kind::Any, at, which: "" }
    }

    /// Some destinations, which are said for people.
    pub(crate) const fn of(action: &'static str, kind: Kind, which: &'static str) -> Right {
        Right { action, kind, at: "**", which }
    }

    /// A queue that is named, or those that are to be shown.
    pub(crate) const fn queue(action: &'static str) -> Right {
        Right::of(action, Kind::Queue, "the queue")
    }

    /// The rule that gives this right and no other, as the configuration has it.
    pub fn to_toml(self, principals: &[&str]) -> String {
        rule(&[self.action], self.kind, &[self.at], principals)
    }
}

impl std::fmt::Display for Right {
    /// As documents show it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Right { action, at, which, .. } = self;
        match *which {
            "" => write!(f, "`{action}` on `{at}`"),
            which => write!(f, "`{action}` on {which}"),
        }
    }
}
