//! What a server that is asked has answered.
//!
//! Relies on `claims`. Invariant: what cannot be understood is no answer, neither an acceptance nor a refusal; a reason
//! that reaches a client is short and one line.

use std::sync::Arc;

use serde_json::Value;
use tiderace_base::is_name;

use crate::claims::{claims_of, groups_of};
use crate::principal::Principal;

/// Values of claims in an answer that rules name, at most.
const CLAIMS_MAX: usize = 1_024;
/// Characters of a reason that reach the client.
const REASON_CHARS_MAX: usize = 200;

/// An answer by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// An answer that was understood.
#[derive(Debug, PartialEq)]
pub(crate) struct Judgement {
    /// The rest of an answer that allows; or why it does not, if it says so.
    pub(crate) verdict: Result<Value, Option<Arc<str>>>,
    /// For how long it may be remembered, in seconds, if it says so.
    pub(crate) cache: Option<u64>,
}

/// What somebody is besides what an answer says.
#[derive(Clone, Debug, Default)]
pub struct CalloutProfile {
    /// Groups that everybody belongs to.
    pub groups: Vec<String>,
    /// The virtual host that everybody is bound to, or `*`.
    pub host: Option<String>,
    /// Claims that rules name.
    pub claims: Vec<String>,
}

impl Reply {
    /// Whether the status finds fault with the question, so that the server is there and may well answer others.
    pub(crate) fn is_about_the_question(&self) -> bool {
        matches!(self.status, 400 | 413 | 414 | 422 | 431)
    }

    /// Reads it: 200 with an object that has `allow`, or 401 or 403, perhaps with a reason.
    pub(crate) fn judge(&self) -> Result<Judgement, String> {
        let object = serde_json::from_str::<Value>(&self.body).ok().filter(Value::is_object);
        let (allows, object) = match (self.status, object) {
            (401 | 403, object) => (false, object.unwrap_or(Value::Null)),
            (200, None) => return Err("the answer is no JSON object".to_owned()),
            (200, Some(object)) => match object.get("allow") {
                Some(Value::Bool(allows)) => (*allows, object),
                _ => return Err("the answer has no `allow` that is true or false".to_owned()),
            },
            (status, _) => return Err(format!("the status is {status}, not 200, 401 or 403")),
        };
        let cache = match object.get("cache") {
            None | Some(Value::Null) => None,
            Some(seconds) => Some(seconds.as_u64().ok_or("`cache` is no whole number of seconds")?),
        };
        let verdict = if allows { Ok(object) } else { Err(reason(&object)) };
        Ok(Judgement { verdict, cache })
    }
}

/// Why an answer refuses, if it says so.
fn reason(object: &Value) -> Option<Arc<str>> {
    let text = object.get("reason")?.as_str()?;
    let line: String = text.chars().filter(|c| !ends_line(*c)).take(REASON_CHARS_MAX).collect();
    (!line.is_empty()).then(|| line.into())
}

/// Of the separators of Unicode, those of lines and paragraphs are no control characters.
fn ends_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Who somebody is, from an answer that allows a login; `login` is the name that was asked about.
pub(crate) fn principal_of(
    object: &Value,
    login: Option<&str>,
    profile: &CalloutProfile,
) -> Result<Principal, String> {
    let name = match object.get("user") {
        None | Some(Value::Null) => login.ok_or("the answer has no `user`")?,
        Some(name) => name.as_str().unwrap_or_default(),
    };
    if !is_name(name) {
        return Err("`user` is no name: 1 to 128 characters without white space, control characters and wildcards".to_owned());
    }
    let groups =
        groups_of(object.get("groups"), &profile.groups).ok_or("`groups` is no list of names")?;
    let host = match object.get("host") {
        None | Some(Value::Null) => profile.host.as_deref(),
        Some(host) => Some(host.as_str().ok_or("`host` is no text")?),
    };
    let principal = Principal::named(name, groups).bound(host);
    let none = Value::Null;
    let claims = object.get("claims").unwrap_or(&none);
    let claims = claims_of(claims, &profile.claims);
    if claims.len() > CLAIMS_MAX {
        return Err(format!("`claims` has more than {CLAIMS_MAX} values that rules name"));
    }
    let principal = principal.claiming(claims);
    match object.get("expires") {
        None | Some(Value::Null) => Ok(principal),
        Some(until) => {
            let until =
                until.as_u64().ok_or("`expires` is no whole number of seconds since 1970")?;
            Ok(principal.until(until))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.to_owned() }
    }

    #[test]
    fn an_answer_allows_or_refuses_or_is_none() {
        let allowed = reply(200, r#"{"allow":true,"cache":7}"#).judge().unwrap();
        assert!(allowed.verdict.is_ok() && allowed.cache == Some(7));
        let refused = |reply: Reply| reply.judge().unwrap().verdict.unwrap_err();
        assert_eq!(refused(reply(200, r#"{"allow":false}"#)), None);
        let reason = refused(reply(403, "{\"reason\":\"your account\\nis\u{2028} locked\"}"));
        assert_eq!(reason.as_deref(), Some("your accountis locked"));
        assert_eq!(refused(reply(401, "<html>")), None);
        // A status that refuses outweighs what the body says.
        assert_eq!(refused(reply(403, r#"{"allow":true}"#)), None);
        for (status, body) in [
            (200, ""),
            (200, "[]"),
            (200, "{}"),
            (200, r#"{"allow":"true"}"#),
            (200, r#"{"allow":true,"cache":-1}"#),
            (204, ""),
            (301, ""),
            (404, r#"{"allow":true}"#),
            (500, r#"{"allow":true}"#),
        ] {
            assert!(reply(status, body).judge().is_err(), "{status} {body}");
        }
    }

    #[test]
    fn an_answer_says_who_somebody_is() {
        let profile = CalloutProfile {
            groups: vec!["all".to_owned()],
            host: Some("shop".to_owned()),
            claims: vec!["tenant".to_owned()],
        };
        let object = json!({
            "user": "ann", "groups": ["staff"], "claims": {"tenant": ["a", "b"], "other": 1}, "expires": 9,
        });
        let ann = principal_of(&object, Some("ANN"), &profile).unwrap();
        let expected = Principal::named("ann", ["all", "staff"])
            .bound(Some("shop"))
            .claiming([("tenant", "a".to_owned()), ("tenant", "b".to_owned())])
            .until(9);
        assert_eq!(ann, expected);
        let named = principal_of(&json!({"host": "*"}), Some("bob"), &profile).unwrap();
        assert_eq!(named, Principal::named("bob", ["all"]).bound(Some("*")));
        for bad in [
            json!({"user": "*"}),
            json!({"user": 7}),
            json!({"user": "a b"}),
            json!({"groups": [7]}),
            json!({"groups": {"a": 1}}),
            json!({"groups": ["#"]}),
            json!({"host": 1}),
            json!({"expires": "soon"}),
        ] {
            assert!(principal_of(&bad, Some("bob"), &profile).is_err(), "{bad}");
        }
        let many: Vec<u32> = (0..1_025).collect();
        let many = json!({"claims": {"tenant": many, "other": many}});
        assert!(principal_of(&many, Some("bob"), &profile).is_err(), "more than are remembered");
        assert!(principal_of(&json!({}), None, &profile).is_err(), "a token names nobody");
    }

    proptest! {
        #[test]
        fn no_answer_brings_it_down(status in 100u16..600, body in ".{0,200}") {
            let _ = reply(status, &body).judge();
        }
    }
}
