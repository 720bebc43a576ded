//! Who may connect, and what each may do.

use std::fmt;
use std::time::Duration;

use tiderace_topics::Pattern;

use super::auth_http::AuthHttpConfig;
use crate::kind::Kind;
use crate::moment::Moment;
use crate::secret::{Secret, SecretSource};
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

section! {
    /// Logins in general.
    "auth" TABLE AuthSection {
        /// Accept a listener that other machines can reach although anybody could log in. For closed networks only.
        "allow_anonymous" allow_anonymous: bool = Is("false"), Kind::Boolean, flag("insecure-allow-anonymous");
        /// Failed logins of one user name from one address within `login_failure_window` after which further ones are refused unheard.
        "login_failures_max" login_failures_max: u32 = Is("5"), Kind::Integer { min: 1, max: 1_000_000 }, zero("no limit");
        /// Let who may `admin` on `$sys/identities` [put and remove users, tokens and rules](identities.md) while the server runs. They are kept in the store, so there has to be one. Then logins are verified also if the file names nobody.
        "managed" managed: bool = Is("false"), Kind::Boolean;
        /// The time over which failed logins are counted.
        "login_failure_window" login_failure_window: Duration = Is("60s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) };
    }
}

section! {
    /// A user who logs in with name and password. Exactly one of `password_hash` and `password` is needed.
    "user" LIST UserSection {
        /// Login name.
        "name" name: String = Required, Kind::Name;
        /// Argon2id hash of the password, as `tiderace password` prints it.
        "password_hash" password_hash: Option<SecretSource> = Absent, Kind::Secret { hash: Some("$argon2id$") };
        /// The password itself, from `file:PATH` or `env:NAME`.
        "password" password: Option<SecretSource> = Absent, Kind::Secret { hash: None };
        /// Groups the user belongs to, for rules.
        "groups" groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// The [virtual host](virtual-hosts.md) that the user is bound to: under another one the login is refused. `*`: the whole tree, under whatever host. Not set: the host that the client names.
        "host" host: Option<String> = Absent, Kind::Text;
    }
}

section! {
    /// A static token that stands for a principal.
    "token" LIST TokenSection {
        /// Name of the token in logs.
        "name" name: String = Required, Kind::Name;
        /// `sha256:` and the hash of the token in hexadecimal, as `tiderace password --token` prints it; or the token itself from `file:PATH` or `env:NAME`.
        "secret" secret: SecretSource = Required, Kind::Secret { hash: Some("sha256:") };
        /// Who its bearer is, for rules; the token's name if absent.
        "principal" principal: Option<String> = Absent, Kind::Name;
        /// Groups its bearer belongs to, for rules.
        "groups" groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// The [virtual host](virtual-hosts.md) that its bearer is bound to, as of a user.
        "host" host: Option<String> = Absent, Kind::Text;
        /// Until when it is good, such as `"2027-01-31T12:00:00Z"`: sessions that began with it end then. Not set: until it is removed.
        "until" until: Option<Moment> = Absent, Kind::Moment;
    }
}

section! {
    /// Somebody whose [signed tokens](authentication.md#signed-tokens) (JSON Web Tokens) are accepted. Exactly one of `secret`, `public_key` and `keys` is needed.
    "jwt" LIST JwtSection {
        /// Name of the issuer in logs.
        "name" name: String = Required, Kind::Name;
        /// A secret of 32 bytes or more that signs with HS256, HS384 or HS512, from `file:PATH` or `env:NAME`.
        "secret" secret: Option<SecretSource> = Absent, Kind::Secret { hash: None };
        /// File with a public key in PEM: RSA, EC on P-256 or P-384, or Ed25519.
        "public_key" public_key: Option<String> = Absent, Kind::Text;
        /// A JSON Web Key Set: a file, or an address that begins with `https://`, or with `http://` on this machine. It is read again at every `keys_interval`, and when a token names a key that is not known; the keys of before hold while it cannot be read.
        "keys" keys: Option<String> = Absent, Kind::Text;
        /// How often `keys` are read again.
        "keys_interval" keys_interval: Duration = Is("600s"), Kind::Duration { min: Duration::from_secs(10), max: Duration::from_secs(86_400) };
        /// File with the authorities, in PEM, whose certificates are trusted at the address of `keys`. Not set: those of the system.
        "keys_authorities" keys_authorities: Option<String> = Absent, Kind::Text;
        /// The only algorithms that are accepted. Empty: HS256 of a secret, and of a public key all of its kind. A key is never used for algorithms of another kind, whatever a token says.
        "algorithms" algorithms: Vec<JwtAlgorithm> = Is(""), Kind::List(&Kind::Choice(JwtAlgorithm::WORDS));
        /// What the claim `iss` must be. Not set: anything, or nothing.
        "issuer" issuer: Option<String> = Absent, Kind::Text;
        /// Names of this server, of which `aud` must have one. Empty: a token with `aud` is for somebody else and refused.
        "audience" audience: Vec<String> = Is(""), Kind::List(&Kind::Text);
        /// How far the issuer's clock may be from this one: tokens hold so much longer than `exp`, and so much before `nbf`.
        "leeway" leeway: Duration = Is("30s"), Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(600) };
        /// The claim that is the client's name, for rules. A dot leads into an object.
        "name_claim" name_claim: String = Is("sub"), Kind::Text;
        /// The claim with the client's groups, for rules: a list, or words with spaces between.
        "groups_claim" groups_claim: String = Is("groups"), Kind::Text;
        /// Groups that every bearer belongs to.
        "groups" groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// The [virtual host](virtual-hosts.md) that bearers are bound to, as of a user.
        "host" host: Option<String> = Absent, Kind::Text;
    }
}

choice! {
    /// How a token is signed.
    JwtAlgorithm {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// HMAC with SHA-384.
        Hs384 = "HS384",
        /// HMAC with SHA-512.
        Hs512 = "HS512",
        /// RSA, PKCS #1 v1.5, with SHA-256.
        Rs256 = "RS256",
        /// RSA, PKCS #1 v1.5, with SHA-384.
        Rs384 = "RS384",
        /// RSA, PKCS #1 v1.5, with SHA-512.
        Rs512 = "RS512",
        /// RSA, PSS, with SHA-256.
        Ps256 = "PS256",
        /// RSA, PSS, with SHA-384.
        Ps384 = "PS384",
        /// RSA, PSS, with SHA-512.
        Ps512 = "PS512",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// ECDSA on P-384 with SHA-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

section! {
    /// What somebody may or may not do. A denial outweighs every permission; what no rule allows is refused as soon as any user, token or rule is configured. Below `user/NAME` and `group/NAME` only that user or that group's members listen, without a rule and whatever rules allow to others; who may send there is a matter of rules.
    "rule" LIST RuleSection {
        /// Its name, for lists and for those who look after rules.
        "name" name: Option<String> = Absent, Kind::Name;
        /// Actions that are allowed. Exactly one of `allow`, `deny` and `role` is needed.
        "allow" allow: Option<Vec<Action>> = Absent, Kind::List(&Kind::Choice(Action::WORDS));
        /// Actions that are refused.
        "deny" deny: Option<Vec<Action>> = Absent, Kind::List(&Kind::Choice(Action::WORDS));
        /// A [role](management.md#who-may), which stands for several rules with paths of their own. Such a rule has `principals`, and neither `paths` nor `kind`.
        "role" role: Option<Role> = Absent, Kind::Choice(Role::WORDS);
        /// Whom it concerns: `user:NAME`, `group:NAME`, `anonymous`, or `*` for everybody.
        "principals" principals: Vec<String> = Required, Kind::List(&Kind::Text);
        /// The destinations it concerns. A level may be `{user}`, the client's name; `{group}`, any of its groups; or `{claim.NAME}`, a value of that claim of its [signed token](authentication.md#signed-tokens). Who has no such value is allowed nothing there, and denied everything.
        "paths" paths: Vec<Pattern> = Is("**"), Kind::List(&Kind::Pattern);
        /// The kind of destinations it concerns.
        "kind" kind: RuleKind = Is("any"), Kind::Choice(RuleKind::WORDS);
    }
}

choice! {
    /// What somebody wants to do.
    Action {
        /// Everything that changes the server, and [backups](backup.md) of all that it has stored.
        Admin = "admin",
        /// List queues, services and topics without their values, and, on `$sys/sessions`, sessions.
        Browse = "browse",
        /// Call a service.
        Call = "call",
        /// Bring a topic or queue into being.
        Create = "create",
        /// Purge a queue, pause it, and move its messages to queues that one may send to.
        Manage = "manage",
        /// Read metrics and state.
        Monitor = "monitor",
        /// On `$sys/sessions`: end sessions; on `$sys/blocks`: keep clients out; on `$sys/drain`: send clients elsewhere; on `$sys/log`: say which lines the log gets; on `$sys/trace`: trace sessions. `admin` allows that as well.
        Operate = "operate",
        /// Send a message to a topic.
        Publish = "publish",
        /// Consume from a queue.
        Receive = "receive",
        /// As an edge: pass on what its own clients ask for there. Each of them needs the right to do it besides.
        Relay = "relay",
        /// Send a message to a queue.
        Send = "send",
        /// Answer the calls of a service.
        Serve = "serve",
        /// Receive the messages of a topic.
        Subscribe = "subscribe",
    }
}

choice! {
    /// A name for what those who look after a server usually may.
    Role {
        /// Look at sessions, queues, services, metrics and alarms.
        Viewer = "viewer",
        /// That, and keep the server going: end and block sessions, drain it, and take, send, move and purge messages of all queues.
        Operator = "operator",
        /// That, and see and change the configuration, who may come in and what they may, make backups, create queues, and receive what is published on all topics.
        Admin = "admin",
    }
}

choice! {
    /// The kind of destination a rule concerns.
    RuleKind {
        /// Topics, queues and services.
        Any = "any",
        /// Queues only.
        Queue = "queue",
        /// Services only.
        Service = "service",
        /// Topics only.
        Topic = "topic",
    }
}

/// Logins, users, tokens and rules.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthConfig {
    /// A public listener without users or tokens is accepted.
    pub allow_anonymous: bool,
    /// Failed logins per user name and address and window; 0 is no limit.
    pub login_failures_max: u32,
    /// The time over which failed logins are counted.
    pub login_failure_window: Duration,
    /// Users, tokens and rules may be put and removed while the server runs.
    pub managed: bool,
    /// Users, in the order of the file.
    pub users: Vec<UserConfig>,
    /// Tokens, in the order of the file.
    pub tokens: Vec<TokenConfig>,
    /// Issuers of signed tokens, in the order of the file.
    pub jwt: Vec<JwtConfig>,
    /// The server that is asked about all others, if there is one.
    pub http: Option<AuthHttpConfig>,
    /// Certificates of clients say who they are.
    pub has_client_names: bool,
    /// Rules, in the order of the file.
    pub rules: Vec<RuleConfig>,
}

impl AuthConfig {
    /// Rules decide; otherwise everything is allowed.
    pub fn is_enforced(&self) -> bool {
        self.has_logins() || !self.rules.is_empty()
    }

    /// Somebody can log in.
    pub fn has_logins(&self) -> bool {
        let is_known = self.managed
            || !(self.users.is_empty() && self.tokens.is_empty() && self.jwt.is_empty());
        is_known || self.http.is_some() || self.has_client_names
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq)]
pub struct UserConfig {
    /// Login name.
    pub name: String,
    /// How the password is known.
    pub password: UserPassword,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// The virtual host of the user, or `*`.
    pub host: Option<String>,
    /// Whether it was put while the server ran.
    pub is_put: bool,
}

/// How a password is known.
#[derive(Clone, PartialEq)]
pub enum UserPassword {
    /// As an argon2id hash in PHC form.
    Hash(String),
    /// In clear, from a file or the environment; to be hashed at once and dropped.
    Plain(Secret),
}

impl fmt::Debug for UserPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UserPassword::Hash(_) => "Hash(***)",
            UserPassword::Plain(_) => "Plain(***)",
        })
    }
}

/// A static token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenConfig {
    /// Name in logs.
    pub name: String,
    /// How the token is known.
    pub secret: TokenSecret,
    /// Who its bearer is.
    pub principal: String,
    /// Groups of its bearer.
    pub groups: Vec<String>,
    /// The virtual host of its bearer, or `*`.
    pub host: Option<String>,
    /// Until when it is good.
    pub until: Option<Moment>,
    /// Whether it was put while the server ran.
    pub is_put: bool,
}

/// How a token is known.
#[derive(Clone, PartialEq)]
pub enum TokenSecret {
    /// As the SHA-256 of the token.
    Digest([u8; 32]),
    /// In clear, from a file or the environment; to be hashed at once and dropped.
    Plain(Secret),
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenSecret::Digest(_) => "Digest(***)",
            TokenSecret::Plain(_) => "Plain(***)",
        })
    }
}

/// An issuer of signed tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct JwtConfig {
    /// Name in logs.
    pub name: String,
    /// Its keys.
    pub keys: JwtKeys,
    /// The only algorithms; empty for those that the keys are for.
    pub algorithms: Vec<JwtAlgorithm>,
    /// What `iss` must be.
    pub issuer: Option<String>,
    /// Of these, `aud` must have one.
    pub audience: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The claim that is the name.
    pub name_claim: String,
    /// The claim with the groups.
    pub groups_claim: String,
    /// Groups of every bearer.
    pub groups: Vec<String>,
    /// The virtual host of every bearer, or `*`.
    pub host: Option<String>,
}

/// Where keys come from.
#[derive(Debug, Clone, PartialEq)]
pub enum JwtKeys {
    /// A shared secret.
    Secret(Secret),
    /// A file with a public key in PEM.
    PublicKey(String),
    /// A key set.
    Set {
        /// A file or an address.
        place: String,
        /// How often it is read again.
        interval: Duration,
        /// A file with the authorities whose certificates are trusted there.
        authorities: Option<String>,
    },
}

/// What somebody may or may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleConfig {
    /// Its name.
    pub name: Option<String>,
    /// Whether it was put while the server ran.
    pub is_put: bool,
    /// Whom it concerns.
    pub principals: Vec<PrincipalMatch>,
    /// What it says of them.
    pub effect: RuleEffect,
}

/// What a rule says of those whom it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleEffect {
    /// They may do some things somewhere, or may not.
    Actions {
        /// `true` allows, `false` denies.
        allow: bool,
        /// The actions concerned.
        actions: Vec<Action>,
        /// Patterns of the destinations concerned.
        paths: Vec<Pattern>,
        /// The kind of destinations concerned.
        kind: RuleKind,
    },
    /// They have a role.
    Role(Role),
}

impl RuleConfig {
    /// Whether it allows something.
    pub fn allows(&self) -> bool {
        match self.effect {
            RuleEffect::Actions { allow, .. } => allow,
            RuleEffect::Role(_) => true,
        }
    }

    /// The patterns of destinations that it names itself; a role has its own.
    pub fn paths(&self) -> &[Pattern] {
        match &self.effect {
            RuleEffect::Actions { paths, .. } => paths,
            RuleEffect::Role(_) => &[],
        }
    }
}

/// Whom a rule concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrincipalMatch {
    /// Clients that did not log in.
    Anonymous,
    /// Everybody, logged in or not.
    Everybody,
    /// The members of a group.
    Group(String),
    /// One user or bearer of a token.
    User(String),
}

impl PrincipalMatch {
    pub(crate) fn parse(text: &str) -> Option<PrincipalMatch> {
        match text.split_once(':') {
            None if text == "*" => Some(PrincipalMatch::Everybody),
            None if text == "anonymous" => Some(PrincipalMatch::Anonymous),
            Some(("group", name)) if !name.is_empty() => {
                Some(PrincipalMatch::Group(name.to_owned()))
            }
            Some(("user", name)) if !name.is_empty() => Some(PrincipalMatch::User(name.to_owned())),
            _ => None,
        }
    }
}
