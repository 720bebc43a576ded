//! Users, tokens and rules that are put and removed while the server runs.
//!
//! Who runs the node keeps them, and says what is wrong with one; what is asked for and told is data here. Invariants: a password or a
//! hash is shown to nobody, in no list and in no log; lists come a page at a time.

use std::fmt;

use tiderace_base::Span;
use tiderace_value::append_text;

/// Where rules are looked up for who may see and change who may come in.
pub const IDENTITIES: &str = "$sys/identities";
/// How long a token may be good for, at most.
pub const TOKEN_TIME_MAX: Span = Span::from_secs(3_650 * 86_400);

/// Entries of a page, if nobody says how many, and at most.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;
/// What an entry takes as JSON beside its texts.
const ENTRY_BYTES: usize = 128;

/// What is put and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKind {
    /// Who logs in with a name and a password.
    User,
    /// What stands for a principal.
    Token,
    /// What somebody may do, or may not.
    Rule,
}

impl IdentityKind {
    /// Its name, which is that of the section of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            IdentityKind::User => "user",
            IdentityKind::Token => "token",
            IdentityKind::Rule => "rule",
        }
    }
}

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Box<str>);

impl Hidden {
    /// This text.
    pub fn new(text: &str) -> Hidden {
        Hidden(text.into())
    }

    /// The text, for who has to check or keep it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(***)")
    }
}

/// What is asked about users, tokens and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityOperation {
    /// A page of those that there are.
    List {
        /// Of these.
        kind: IdentityKind,
        /// Behind that number.
        after: u64,
        /// At most so many; zero: as many as is usual. The server has a limit of its own.
        limit: u32,
    },
    /// Puts one in place of the one of that name.
    Put {
        /// Its name.
        name: Box<str>,
        /// What it is.
        what: Box<NewIdentity>,
        /// Whether nothing is to be changed.
        dry_run: bool,
    },
    /// Removes one that was put.
    Remove {
        /// Of these.
        kind: IdentityKind,
        /// Its name.
        name: Box<str>,
        /// Whether nothing is to be changed.
        dry_run: bool,
    },
}

/// What is put, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewIdentity {
    /// Who logs in with a name and a password.
    User {
        /// The password; absent with the hash: the one that the user has.
        password: Option<Hidden>,
        /// An argon2id hash of it.
        password_hash: Option<Hidden>,
        /// Its groups.
        groups: Vec<Box<str>>,
        /// The virtual host that it is bound to.
        host: Option<Box<str>>,
    },
    /// What stands for a principal.
    Token {
        /// `sha256:` and the hash of the token; absent: the one that there is.
        secret: Option<Hidden>,
        /// Who its bearer is; absent: who is called like the token.
        principal: Option<Box<str>>,
        /// The bearer's groups.
        groups: Vec<Box<str>>,
        /// The virtual host that its bearer is bound to.
        host: Option<Box<str>>,
        /// For how long it is good; absent: without an end.
        lasts: Option<Span>,
    },
    /// What somebody may do, or may not.
    Rule {
        /// The actions that it allows.
        allow: Vec<Box<str>>,
        /// Those that it denies.
        deny: Vec<Box<str>>,
        /// The role that it gives.
        role: Option<Box<str>>,
        /// Whom it concerns.
        principals: Vec<Box<str>>,
        /// Where; empty: everywhere.
        paths: Vec<Box<str>>,
        /// The kind of destinations.
        kind: Option<Box<str>>,
    },
}

impl NewIdentity {
    /// What kind it is of.
    pub fn kind(&self) -> IdentityKind {
        match self {
            NewIdentity::User { .. } => IdentityKind::User,
            NewIdentity::Token { .. } => IdentityKind::Token,
            NewIdentity::Rule { .. } => IdentityKind::Rule,
        }
    }

    /// What of it may be recorded.
    pub(super) fn audited(&self) -> String {
        let list = |name: &str, texts: &[Box<str>]| {
            (!texts.is_empty()).then(|| format!("{name}={}", texts.join(",")))
        };
        let text = |name: &str, text: &Option<Box<str>>| {
            text.as_ref().map(|text| format!("{name}={text}"))
        };
        let parts = match self {
            NewIdentity::User { password, password_hash, groups, host } => {
                let is_new = password.is_some() || password_hash.is_some();
                vec![
                    list("groups", groups),
                    text("host", host),
                    is_new.then(|| "password=***".to_owned()),
                ]
            }
            NewIdentity::Token { secret, principal, groups, host, lasts } => vec![
                text("principal", principal),
                list("groups", groups),
                text("host", host),
                lasts.map(|lasts| format!("for={}ms", lasts.as_millis())),
                secret.as_ref().map(|_| "secret=***".to_owned()),
            ],
            NewIdentity::Rule { allow, deny, role, principals, paths, kind } => vec![
                list("allow", allow),
                list("deny", deny),
                text("role", role),
                list("principals", principals),
                list("paths", paths),
                text("kind", kind),
            ],
        };
        parts.into_iter().flatten().map(|part| format!(" {part}")).collect()
    }

    fn bytes(&self) -> usize {
        let all = |lists: &[&Vec<Box<str>>]| -> usize {
            lists.iter().flat_map(|list| list.iter()).map(|text| text.len() + 16).sum()
        };
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        let hidden = |text: &Option<Hidden>| text.as_ref().map_or(0, |text| text.0.len());
        match self {
            NewIdentity::User { password, password_hash, groups, host } => {
                hidden(password) + hidden(password_hash) + all(&[groups]) + text(host)
            }
            NewIdentity::Token { secret, principal, groups, host, .. } => {
                hidden(secret) + text(principal) + all(&[groups]) + text(host)
            }
            NewIdentity::Rule { allow, deny, role, principals, paths, kind } => {
                all(&[allow, deny, principals, paths]) + text(role) + text(kind)
            }
        }
    }
}

impl IdentityOperation {
    /// The name of the verb, which stands behind `do`.
    pub(super) fn word(&self) -> &'static str {
        let (kind, [user, token, rule]) = match self {
            IdentityOperation::List { kind, .. } => (*kind, ["users", "tokens", "rules"]),
            IdentityOperation::Put { what, .. } => {
                (what.kind(), ["put-user", "put-token", "put-rule"])
            }
            IdentityOperation::Remove { kind, .. } => {
                (*kind, ["remove-user", "remove-token", "remove-rule"])
            }
        };
        match kind {
            IdentityKind::User => user,
            IdentityKind::Token => token,
            IdentityKind::Rule => rule,
        }
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        size_of::<IdentityOperation>()
            + match self {
                IdentityOperation::List { .. } => 0,
                IdentityOperation::Put { name, what, .. } => {
                    name.len() + size_of::<NewIdentity>() + what.bytes()
                }
                IdentityOperation::Remove { name, .. } => name.len(),
            }
    }

    /// How many entries a page may have.
    pub fn entries_max(limit: u32) -> usize {
        let limit = if limit == 0 { LIMIT_DEFAULT } else { limit };
        limit.min(LIMIT_MAX) as usize
    }
}

/// A page of users, tokens or rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityPage {
    /// What they are.
    pub kind: IdentityKind,
    /// In the order in which they hold.
    pub entries: Vec<IdentityEntry>,
    /// How many there are, behind this page and before it as well.
    pub matched: u64,
    /// Whether there are more behind it.
    pub more: bool,
}

/// A user, a token or a rule, without what proves who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityEntry {
    /// Its number, from 1 on.
    pub number: u64,
    /// Its name; rules of the configuration may have none.
    pub name: Option<Box<str>>,
    /// Where it stands: a place of the configuration, or that it was put.
    pub from: Box<str>,
    /// What else there is to say, in the order in which it is told.
    pub members: Vec<(&'static str, IdentityMember)>,
}

/// Something that is told of a user, a token or a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityMember {
    /// A text.
    Text(Box<str>),
    /// Texts.
    Texts(Vec<Box<str>>),
    /// A moment, in milliseconds since 1970.
    Time(u64),
}

/// What has become of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityChange {
    /// There was none of that name.
    Added,
    /// It is another one now, or is said again.
    Changed,
    /// It is gone.
    Removed,
    /// There is none of that name.
    Missing,
}

impl IdentityChange {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            IdentityChange::Added => "added",
            IdentityChange::Changed => "changed",
            IdentityChange::Removed => "removed",
            IdentityChange::Missing => "missing",
        }
    }
}

impl IdentityPage {
    /// Bytes of its texts, with what is written around them.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(IdentityEntry::bytes).sum()
    }

    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let head = format!("{{\"{}s\":[", self.kind.name());
        out.extend_from_slice(head.as_bytes());
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            entry.write_json(out);
        }
        let tail = format!("],\"matched\":{},\"more\":{}", self.matched, self.more);
        out.extend_from_slice(tail.as_bytes());
        if let Some(last) = self.entries.last().filter(|_| self.more) {
            out.extend_from_slice(format!(",\"next\":{}", last.number).as_bytes());
        }
        out.push(b'}');
    }
}

impl IdentityEntry {
    /// Bytes of its texts, with what is written around them.
    pub fn bytes(&self) -> usize {
        let member = |member: &IdentityMember| match member {
            IdentityMember::Text(text) => text.len(),
            IdentityMember::Texts(texts) => texts.iter().map(|text| text.len() + 3).sum(),
            IdentityMember::Time(_) => 16,
        };
        let members = self.members.iter().map(|(name, value)| name.len() + member(value));
        let name = self.name.as_ref().map_or(0, |name| name.len());
        ENTRY_BYTES + name + self.from.len() + members.sum::<usize>()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{{\"number\":{}", self.number).as_bytes());
        if let Some(name) = &self.name {
            out.extend_from_slice(b",\"name\":");
            append_text(out, name);
        }
        for (name, member) in &self.members {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            match member {
                IdentityMember::Text(text) => append_text(out, text),
                IdentityMember::Time(time) => out.extend_from_slice(time.to_string().as_bytes()),
                IdentityMember::Texts(texts) => {
                    out.push(b'[');
                    for (place, text) in texts.iter().enumerate() {
                        if place > 0 {
                            out.push(b',');
                        }
                        append_text(out, text);
                    }
                    out.push(b']');
                }
            }
        }
        out.extend_from_slice(b",\"from\":");
        append_text(out, &self.from);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_is_json() {
        let texts =
            |texts: &[&str]| IdentityMember::Texts(texts.iter().map(|it| (*it).into()).collect());
        let entry = |number, name: Option<&str>| IdentityEntry {
            number,
            name: name.map(Into::into),
            from: "a \"file\"".into(),
            members: vec![
                ("groups", texts(&["a", "b"])),
                ("host", IdentityMember::Text("shop".into())),
                ("until", IdentityMember::Time(7)),
            ],
        };
        let json = |page: &IdentityPage| {
            let mut out = Vec::new();
            page.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        let entries = vec![entry(1, Some("ann")), entry(2, None)];
        let page = IdentityPage { kind: IdentityKind::Token, entries, matched: 3, more: true };
        let expected = concat!(
            r#"{"tokens":[{"number":1,"name":"ann","groups":["a","b"],"host":"shop","until":7,"from":"a \"file\""},"#,
            r#"{"number":2,"groups":["a","b"],"host":"shop","until":7,"from":"a \"file\""}],"matched":3,"more":true,"next":2}"#
        );
        assert_eq!(json(&page), expected);
        assert!(page.bytes() > 2 * ENTRY_BYTES);
        let none =
            IdentityPage { kind: IdentityKind::User, entries: vec![], matched: 0, more: false };
        assert_eq!(json(&none), r#"{"users":[],"matched":0,"more":false}"#);
    }

    #[test]
    fn what_proves_who_somebody_is_is_shown_nowhere() {
        let hidden = || Some(Hidden::new("swordfish"));
        let user = NewIdentity::User {
            password: hidden(),
            password_hash: hidden(),
            groups: vec!["sales".into(), "desk".into()],
            host: Some("shop".into()),
        };
        let token = NewIdentity::Token {
            secret: hidden(),
            principal: Some("feed".into()),
            groups: vec![],
            host: None,
            lasts: Some(Span::from_secs(1)),
        };
        assert_eq!(user.audited(), " groups=sales,desk host=shop password=***");
        assert_eq!(token.audited(), " principal=feed for=1000ms secret=***");
        let put =
            IdentityOperation::Put { name: "ann".into(), what: Box::new(user), dry_run: false };
        assert!(!format!("{put:?} {token:?}").contains("swordfish"));
        assert!(put.bytes() > 2 * "swordfish".len());
    }
}
