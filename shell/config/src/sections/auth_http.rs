//! Another server that is asked who may log in.

use std::fmt;
use std::time::Duration;

use crate::kind::Kind;
use crate::secret::{Secret, SecretSource};
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

section! {
    /// A server of yours that is asked by HTTP about those who are no `[[user]]` and show no `[[token]]` and no token of a `[[jwt]]`: [call-outs](authentication.md#asking-a-server-of-yours). It is on if `login_url` is set.
    "auth_http" TABLE AuthHttpSection {
        /// Address that is asked about logins; it begins with `https://`, or with `http://` on this machine.
        "login_url" login_url: Option<String> = Absent, Kind::Text;
        /// File with the authorities, in PEM, whose certificates are trusted there. Not set: those of the system.
        "authorities" authorities: Option<String> = Absent, Kind::Text;
        /// Time for one question, from the name to the last byte. Below `limits.login_timeout`.
        "timeout" timeout: Duration = Is("2s"), Kind::Duration { min: Duration::from_millis(50), max: Duration::from_secs(60) };
        /// Questions under way at a time; each has a thread. One client address gets at most as many of them as it leaves free.
        "in_flight_max" in_flight_max: usize = Is("16"), Kind::Integer { min: 2, max: 256 };
        /// Logins that may wait for answers; those beyond are refused with `too-many-logins`. One client address, and one name, gets at most as many as it leaves free.
        "waiting_max" waiting_max: usize = Is("1024"), Kind::Integer { min: 1, max: 1_000_000 };
        /// For how long an acceptance is remembered, if the answer does not say less.
        "accepted_time" accepted_time: Duration = Is("60s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) }, zero("each login is asked about");
        /// For how long a refusal is remembered, if the answer does not say less.
        "refused_time" refused_time: Duration = Is("5s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) }, zero("each login is asked about");
        /// Acceptances that are remembered, and as many refusals besides. Each takes some 400 bytes besides its groups and claims; credentials are not kept.
        "cache_entries_max" cache_entries_max: usize = Is("10000"), Kind::Integer { min: 1, max: 10_000_000 }, zero("none");
        /// What is done with logins that there is no answer about.
        "unanswered" unanswered: UnansweredLogins = Is("deny"), Kind::Choice(UnansweredLogins::WORDS);
        /// For how long an acceptance may be used with `unanswered = "cached"`.
        "unanswered_time" unanswered_time: Duration = Is("1h"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(7 * 86_400) };
        /// Who clients are with `unanswered = "allow"`, for rules.
        "unanswered_user" unanswered_user: Option<String> = Absent, Kind::Name;
        /// Groups of `unanswered_user`, for rules.
        "unanswered_groups" unanswered_groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// Groups that everybody belongs to who is accepted, besides those of the answer.
        "groups" groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// The [virtual host](virtual-hosts.md) that they are bound to, as of a user, unless the answer has a `host`.
        "host" host: Option<String> = Absent, Kind::Text;
    }
}

section! {
    /// A field of the requests to the addresses of `[auth_http]`, such as one that says who asks.
    "auth_http_header" LIST AuthHttpHeaderSection {
        /// Name of the field, such as `Authorization`.
        "name" name: String = Required, Kind::Name;
        /// Its value, from `file:PATH` or `env:NAME`.
        "value" value: SecretSource = Required, Kind::Secret { hash: None };
    }
}

choice! {
    /// What is done with logins that nobody answers about.
    UnansweredLogins {
        /// They are refused with `login-unavailable`.
        Deny = "deny",
        /// Who was accepted with the same credentials, within `unanswered_time`, is accepted again; others are refused.
        Cached = "cached",
        /// Everybody is accepted as `unanswered_user`, whatever the credentials.
        Allow = "allow",
    }
}

/// Another server that is asked about logins.
#[derive(Clone, PartialEq)]
pub struct AuthHttpConfig {
    /// Where.
    pub login_url: String,
    /// File with authorities that are trusted there.
    pub authorities: Option<String>,
    /// Time for one question.
    pub timeout: Duration,
    /// Fields of each request.
    pub headers: Vec<(String, Secret)>,
    /// Questions under way.
    pub in_flight_max: usize,
    /// Logins that may wait.
    pub waiting_max: usize,
    /// How long an acceptance is remembered.
    pub accepted_time: Duration,
    /// How long a refusal is remembered.
    pub refused_time: Duration,
    /// How many of each are remembered.
    pub cache_entries_max: usize,
    /// What is done without an answer.
    pub unanswered: Unanswered,
    /// Groups of everybody.
    pub groups: Vec<String>,
    /// The virtual host of everybody, or `*`.
    pub host: Option<String>,
}

impl fmt::Debug for AuthHttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthHttpConfig").field("login_url", &self.login_url).finish_non_exhaustive()
    }
}

/// What is done with logins that nobody answers about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// They are refused.
    Deny,
    /// Who was accepted within this time is accepted.
    Cached(Duration),
    /// Everybody is accepted as this user, with these groups.
    Allow(String, Vec<String>),
}
