//! Other servers, whose topics this one passes on.

use std::time::Duration;

use tiderace_base::UpstreamUrl;
use tiderace_topics::Pattern;

use crate::kind::Kind;
use crate::secret::{Secret, SecretSource};
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::section;

section! {
    /// Another server, some of whose topics this one passes on as an [edge](edges.md) of it: it subscribes there to what its own clients ask for, each topic once. What these clients publish and do there is refused, or passed on with `write`.
    "upstream" LIST UpstreamSection {
        /// Its name here, for logs, metrics and `$sys/upstreams/NAME`.
        "name" name: String = Required, Kind::Name;
        /// Where it listens: `wss://HOST[:PORT][/PATH]`, `https://` or `tls://` are secured, `ws://`, `http://` and `tcp://` are plain text; all of them lead to the same. Of several, for servers of which each has all these topics, one is used at a time, from a random one on.
        "urls" urls: Vec<String> = Required, Kind::List(&Kind::Text);
        /// The topics that are its own, by patterns; all others are this server's. Topics below `$` are every server's own. May be empty if there are `queues`.
        "topics" topics: Vec<Pattern> = Required, Kind::List(&Kind::Pattern);
        /// Services that it is called for, by patterns: while no client here serves them, calls of clients here go to it, and what clients here serve is called from there as well. For calls this server needs the right `relay` there ([authentication.md](authentication.md#edges)), to be called the right `serve`. Services below `$` are every server's own.
        "services" services: Vec<Pattern> = Is(""), Kind::List(&Kind::Pattern);
        /// The queues that live there, by patterns; all others are this server's. What clients here send to them, consume from them and do with them is passed on, with or without `write`; this server needs the right `relay` there ([authentication.md](authentication.md#edges)).
        "queues" queues: Vec<Pattern> = Is(""), Kind::List(&Kind::Pattern);
        /// The token that this server logs in with there, from `file:PATH` or `env:NAME`. Neither this nor `user`: it comes as anybody.
        "token" token: Option<SecretSource> = Absent, Kind::Secret { hash: None };
        /// The name that this server logs in with there; needs `password`.
        "user" user: Option<String> = Absent, Kind::Text;
        /// The password of `user`, from `file:PATH` or `env:NAME`.
        "password" password: Option<SecretSource> = Absent, Kind::Secret { hash: None };
        /// File with the authorities, in PEM, whose certificates are trusted at secured addresses. Not set: those of the system.
        "tls_ca_file" tls_ca_file: Option<String> = Absent, Kind::Text;
        /// File with the certificate, in PEM, that this server shows at secured addresses that ask for one, and those that lead from it to an authority; needs `tls_key`.
        "tls_certificate" tls_certificate: Option<String> = Absent, Kind::Text;
        /// File with the private key of `tls_certificate`, in PEM, not encrypted and not readable by everybody.
        "tls_key" tls_key: Option<String> = Absent, Kind::Text;
        /// How long a subscription there goes on after the last client here has left.
        "linger" linger: Duration = Is("30s"), Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) };
        /// How long clients that subscribe wait while it is away; then they get what is known here.
        "timeout" timeout: Duration = Is("5s"), Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(600) };
        /// What becomes of its topics while it is away: `keep`, they stay as they were; or `remove after DURATION`, such as `remove after 10min`: when it has been away for so long, they are removed here and clients are told so.
        "when_away" when_away: String = Is("keep"), Kind::Text;
        /// Subscribe to all of its topics, whether clients here ask for them or not, so that every value is here and fetches of this server are answered.
        "eager" eager: bool = Is("false"), Kind::Boolean;
        /// Pass on what clients here publish to its topics and do with them: it answers, and decides by its own rules whether the client may. This server needs the right `relay` there ([authentication.md](authentication.md#edges)). Otherwise it is refused here.
        "write" write: bool = Is("false"), Kind::Boolean;
    }
}

/// Another server, some of whose topics this one passes on.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamConfig {
    /// Its name here.
    pub name: String,
    /// Where it listens; at least one.
    pub urls: Vec<UpstreamUrl>,
    /// The topics that are its own; at least one pattern if there are no queues.
    pub topics: Vec<Pattern>,
    /// The services that it is called for.
    pub services: Vec<Pattern>,
    /// The queues that live there.
    pub queues: Vec<Pattern>,
    /// The token of this server there.
    pub token: Option<Secret>,
    /// Name and password of this server there.
    pub login: Option<(String, Secret)>,
    /// A file with the authorities whose certificates are trusted there.
    pub tls_ca_file: Option<String>,
    /// The files of the certificate that is shown there, and of its key.
    pub tls_identity: Option<(String, String)>,
    /// How long a subscription goes on after the last client has left.
    pub linger: Duration,
    /// How long clients that subscribe wait while it is away.
    pub timeout: Duration,
    /// After which absence its topics are removed; `None`: they stay.
    pub remove_after: Option<Duration>,
    /// Whether all of its topics are subscribed to.
    pub eager: bool,
    /// Whether what clients publish and do there is passed on.
    pub write: bool,
}
