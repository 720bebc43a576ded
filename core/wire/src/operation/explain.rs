//! Questions about what somebody may do, and their answers.
//!
//! Who runs the node answers them, by its rules. Invariant: a question names an action that the rules know.

use tiderace_base::is_name;
use tiderace_topics::Path;
use tiderace_value::append_text;

use crate::{Kind, shown};

/// Groups of a question, and claims, at most.
pub(super) const TEXTS_MAX: usize = 64;
/// How who does not log in is called.
const ANONYMOUS: &str = "anonymous";
/// What stands before a virtual host.
const MARK: char = '@';

/// How who asks calls a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    /// Its name; absent for who does not log in.
    pub name: Option<Box<str>>,
    /// The virtual host by which it connects, if it names one.
    pub host: Option<Box<str>>,
}

impl ClientName {
    /// Who is meant by a name: `anonymous`, and `@HOST/` before it for who connects by a virtual host.
    ///
    /// # Errors
    /// Says what a name is.
    pub fn parse(text: &str) -> Result<ClientName, String> {
        let (host, name) = match text.strip_prefix(MARK).and_then(|rest| rest.split_once('/')) {
            Some((host, name)) => (Some(host), name),
            None => (None, text),
        };
        if !is_name(name) || host.is_some_and(|host| !is_name(host)) {
            let shown = shown(text);
            return Err(format!("`{shown}` is no name; write one, `anonymous` or `@HOST/NAME`"));
        }
        let name = (name != ANONYMOUS).then(|| name.into());
        Ok(ClientName { name, host: host.map(Into::into) })
    }
}

/// Whether somebody may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who.
    pub who: ClientName,
    /// Groups besides those that the configuration gives.
    pub groups: Vec<Box<str>>,
    /// Claims of the login: names and values.
    pub claims: Vec<(Box<str>, Box<str>)>,
    /// What: an action of the rules.
    pub action: &'static str,
    /// On what; absent: on what the action is for.
    pub kind: Option<Kind>,
    /// Where, as that client writes it.
    pub path: Path,
}

impl Question {
    /// Whether all of it can be said of one client.
    ///
    /// # Errors
    /// Says what cannot.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_anonymous = self.who.name.is_none();
        match is_anonymous && !(self.groups.is_empty() && self.claims.is_empty()) {
            true => Err("who does not log in has neither groups nor claims"),
            false => Ok(()),
        }
    }

    /// A claim that is written as `NAME=VALUE`.
    ///
    /// # Errors
    /// Says how one is written.
    pub fn claim(text: &str) -> Result<(Box<str>, Box<str>), String> {
        let parts = text.split_once('=').map(|(name, value)| (name.into(), value.into()));
        parts.ok_or_else(|| format!("`{}` is no claim; write NAME=VALUE", shown(text)))
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let names =
            self.who.name.iter().chain(&self.who.host).chain(&self.groups).map(|text| text.len());
        let claims = self.claims.iter().map(|(name, value)| name.len() + value.len());
        let entries = 16 * self.groups.len() + 32 * self.claims.len();
        size_of::<Question>()
            + self.path.as_str().len()
            + entries
            + names.chain(claims).sum::<usize>()
    }
}

/// Whether somebody may do something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it may.
    pub is_allowed: bool,
    /// On what.
    pub kind: Kind,
    /// Where, as the server calls it.
    pub path: Path,
    /// What decides, in a word.
    pub why: &'static str,
    /// The number of the rule that decides, from 1 on in the order of the configuration.
    pub rule: Option<u64>,
    /// What decides, in a sentence that goes on behind a colon.
    pub says: Box<str>,
}

impl Explanation {
    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let Explanation { is_allowed, kind, path, why, rule, says } = self;
        let kind = kind.name();
        let head = format!(r#"{{"allowed":{is_allowed},"kind":"{kind}","path":"#);
        out.extend_from_slice(head.as_bytes());
        append_text(out, path.as_str());
        let rule = rule.map(|rule| format!(",\"rule\":{rule}")).unwrap_or_default();
        out.extend_from_slice(format!(r#","why":"{why}"{rule},"says":"#).as_bytes());
        append_text(out, says);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_explanation_is_json() {
        let json = |explanation: &Explanation| {
            let mut out = Vec::new();
            explanation.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        let explanation = Explanation {
            is_allowed: true,
            kind: Kind::Queue,
            path: Path::parse("jobs").unwrap(),
            why: "rule",
            rule: Some(3),
            says: "a \"rule\"".into(),
        };
        let expected = r#"{"allowed":true,"kind":"queue","path":"jobs","why":"rule","rule":3,"says":"a \"rule\""}"#;
        assert_eq!(json(&explanation), expected);
        let none = Explanation { is_allowed: false, why: "nothing", rule: None, ..explanation };
        let expected =
            r#"{"allowed":false,"kind":"queue","path":"jobs","why":"nothing","says":"a \"rule\""}"#;
        assert_eq!(json(&none), expected);
    }
}
