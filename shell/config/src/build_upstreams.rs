//! The servers whose topics this one passes on, with the checks that concern several of them.
//!
//! Relies on `load` having checked each value alone. Invariants: a topic has one home, here or at one upstream; this
//! server is no upstream of its own.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use tiderace_base::UpstreamUrl;
use tiderace_topics::{Path, Pattern};

use crate::kind::Value;
use crate::problem::Problems;
use crate::resolve::resolve;
use crate::secret::Secret;
use crate::sections::server::ListenerConfig;
use crate::sections::upstreams::{UpstreamConfig, UpstreamSection};
use crate::sources::Sources;
use crate::table::{Table, origin_of};
use crate::units;

/// Addresses of one upstream.
const URLS_MAX: usize = 16;
/// Patterns of topics, and of services, of one upstream: each topic is compared with all of them.
const TOPICS_MAX: usize = 256;
/// Bytes of the name of a node, as far as it is told to other nodes.
const NODE_BYTES_MAX: usize = 64;

/// All of them.
pub(crate) fn build(
    tables: &[Table],
    listeners: &[ListenerConfig],
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Vec<UpstreamConfig> {
    let mut known: Vec<UpstreamConfig> = Vec::new();
    let mut names = HashSet::new();
    for table in tables.iter().filter(|table| table.section.name == "upstream") {
        let Some(section) = table.fill(UpstreamSection::from_values) else { continue };
        if !names.insert(section.name.clone()) {
            let message =
                format!("there is already an upstream {:?}; names are unique", section.name);
            problems.add(table.origin_of("name"), message);
        }
        if !is_upstream_name(&section.name) {
            let message = format!(
                "upstream.name: {:?} is no name of an upstream; use up to {NODE_BYTES_MAX} letters, digits, `-`, `_` and `.`",
                section.name
            );
            problems.add(table.origin_of("name"), message);
        }
        check_topics(table, &section, &known, problems);
        check_services(table, &section, &known, problems);
        let urls = urls(table, &section, listeners, problems);
        let remove_after = remove_after(&section.when_away).unwrap_or_else(|| {
            let message = format!(
                "upstream.when_away: {:?} is neither \"keep\" nor \"remove after DURATION\", such as \
                 \"remove after 10min\"",
                section.when_away
            );
            problems.add(table.origin_of("when_away"), message);
            None
        });
        let (token, login) = identity(table, &section, sources, problems);
        let tls_identity = tls_identity(table, &section, problems);
        let UpstreamSection {
            name,
            topics,
            services,
            queues,
            tls_ca_file,
            linger,
            timeout,
            eager,
            write,
            ..
        } = section;
        known.push(UpstreamConfig {
            name,
            urls,
            topics,
            services,
            queues,
            token,
            login,
            tls_ca_file,
            tls_identity,
            linger,
            timeout,
            remove_after,
            eager,
            write,
        });
    }
    known
}

/// What this server publishes itself is not an upstream's.
pub(crate) fn check(
    upstreams: &[UpstreamConfig],
    node: Option<&str>,
    tables: &[Table],
    problems: &mut Problems,
) {
    if let Some(node) = node.filter(|node| node.len() > NODE_BYTES_MAX) {
        let message =
            format!("server.node: {node:?} is longer than {NODE_BYTES_MAX} bytes; shorten it");
        problems.add(origin_of(tables, "server.node"), message);
    }
    check_queues_here(upstreams, tables, problems);
    let owner = |path: &Path| {
        let has = |upstream: &&UpstreamConfig| upstream.topics.iter().any(|it| it.matches(path));
        upstreams.iter().find(has)
    };
    for table in tables.iter().filter(|table| table.section.name == "feed") {
        for setting in table.settings.iter().filter(|setting| setting.spec.name() == "path") {
            let Value::Text(text) = &setting.value else { continue };
            let path = Path::parse(&format!("{text}/EUR-USD")).ok();
            if let Some(upstream) = path.as_ref().and_then(owner) {
                let message = format!(
                    "feed.path: topics below {text:?} come from the upstream {:?}, so this server cannot publish them; \
                     take them out of upstream.topics, or the feed away",
                    upstream.name
                );
                problems.add(setting.origin.clone(), message);
            }
        }
    }
}

/// What is written of this server's queues is not of an upstream's, where it would change nothing, and their dead letters
/// are not put where only an upstream's queues are seen.
fn check_queues_here(upstreams: &[UpstreamConfig], tables: &[Table], problems: &mut Problems) {
    let all = || upstreams.iter().flat_map(|it| it.queues.iter().map(move |own| (&*it.name, own)));
    // All queues are the upstream's: there are none here whose dead letters would be lost.
    let has_own = !all().any(|(_, own)| own.as_str() == "**");
    for table in tables.iter().filter(|table| matches!(table.section.name, "queue" | "queues")) {
        let of = |name: &str| table.settings.iter().find(|it| it.spec.name() == name);
        let rule = of("match").and_then(|setting| match &setting.value {
            Value::Pattern(pattern) => Some((pattern, setting)),
            _ => None,
        });
        if let Some((pattern, setting)) = rule {
            let text = pattern.as_str();
            if let Some((upstream, _)) = all().find(|(_, own)| own.contains(pattern)) {
                let message = format!(
                    "queue.match: all queues of {text:?} live at the upstream {upstream:?}; write this section into that \
                     server's configuration, here it would change nothing"
                );
                problems.add(setting.origin.clone(), message);
                continue;
            }
            let mirrors = of("mirrored").is_some_and(|it| it.value == Value::Boolean(true));
            let elsewhere = all().find(|(_, own)| mirrors && own.overlaps(pattern));
            if let Some((upstream, own)) = elsewhere {
                let message = format!(
                    "queue.mirrored: {:?} of the upstream {upstream:?} and {text:?} name the same queues, and a queue that \
                     lives elsewhere is not mirrored here",
                    own.as_str()
                );
                problems.add(setting.origin.clone(), message);
            }
        }
        let Some(setting) = of("dead_letter").filter(|_| has_own) else { continue };
        let Value::Text(text) = &setting.value else { continue };
        let Ok(dead_letters) = Pattern::parse(&text.replace("{queue}", "**")) else { continue };
        if let Some((upstream, own)) = all().find(|(_, own)| own.overlaps(&dead_letters)) {
            let message = format!(
                "{}: dead letters of this server's queues would be in queues of {text:?}, but {:?} live at the upstream \
                 {upstream:?}, and nobody would see them here; give them another name, such as \"dlq-here/{{queue}}\"",
                setting.spec.key,
                own.as_str()
            );
            problems.add(setting.origin.clone(), message);
        }
    }
}

fn check_topics(
    table: &Table,
    section: &UpstreamSection,
    others: &[UpstreamConfig],
    problems: &mut Problems,
) {
    let count = section.topics.len();
    if count > TOPICS_MAX || (count == 0 && section.queues.is_empty()) {
        let message = format!(
            "upstream.topics: 1 to {TOPICS_MAX} patterns are possible, but {count} are listed; \"**\" stands for all topics"
        );
        return problems.add(table.origin_of("topics"), message);
    }
    let topics: Vec<_> = others.iter().map(|other| (&*other.name, &*other.topics)).collect();
    check_patterns(table, "topics", (&section.topics, &topics), problems);
    let count = section.queues.len();
    if count > TOPICS_MAX {
        let message = format!(
            "upstream.queues: up to {TOPICS_MAX} patterns are possible, but {count} are listed; \"**\" stands for all queues"
        );
        return problems.add(table.origin_of("queues"), message);
    }
    let queues: Vec<_> = others.iter().map(|other| (&*other.name, &*other.queues)).collect();
    check_patterns(table, "queues", (&section.queues, &queues), problems);
}

/// What one upstream has is no other's, and not this server's own.
fn check_patterns(
    table: &Table,
    what: &str,
    (own, others): (&[Pattern], &[(&str, &[Pattern])]),
    problems: &mut Problems,
) {
    let mut wrong = |message: String| {
        problems.add(table.origin_of(what), format!("upstream.{what}: {message}"));
    };
    let one = what.trim_end_matches('s');
    for pattern in own {
        let text = pattern.as_str();
        if text.starts_with('$') {
            wrong(format!(
                "{text:?} names {what} below `$`, which are every server's own; take it out"
            ));
        }
        let twins = others.iter().flat_map(|(name, all)| all.iter().map(move |it| (*name, it)));
        for (other, twin) in twins.filter(|(_, twin)| twin.overlaps(pattern)).take(1) {
            let twin = twin.as_str();
            wrong(format!(
                "{text:?} and {twin:?} of the upstream {other:?} name the same {what}, but a {one} comes from one \
                 upstream; for servers that have the same {what} write one upstream with several `urls`"
            ));
        }
    }
}

fn check_services(
    table: &Table,
    section: &UpstreamSection,
    others: &[UpstreamConfig],
    problems: &mut Problems,
) {
    let mut wrong = |message: String| {
        problems.add(table.origin_of("services"), format!("upstream.services: {message}"))
    };
    if section.services.len() > TOPICS_MAX {
        let found = section.services.len();
        wrong(format!("up to {TOPICS_MAX} patterns are possible, but {found} are listed"));
    }
    for pattern in &section.services {
        let text = pattern.as_str();
        if text.starts_with('$') {
            wrong(format!(
                "{text:?} names services below `$`, which are every server's own; take it out"
            ));
        }
        let twins = |other: &UpstreamConfig| {
            let twin = other.services.iter().find(|it| it.overlaps(pattern))?;
            Some((other.name.clone(), twin.as_str().to_owned()))
        };
        if let Some((name, twin)) = others.iter().find_map(twins) {
            wrong(format!(
                "{text:?} and {twin:?} of the upstream {name:?} name the same services, but a call goes to one upstream; \
                 for servers that are called for the same services write one upstream with several `urls`"
            ));
        }
    }
}

fn urls(
    table: &Table,
    section: &UpstreamSection,
    listeners: &[ListenerConfig],
    problems: &mut Problems,
) -> Vec<UpstreamUrl> {
    let mut wrong = |message: String| {
        problems.add(table.origin_of("urls"), format!("upstream.urls: {message}"))
    };
    if !(1..=URLS_MAX).contains(&section.urls.len()) {
        let found = section.urls.len();
        wrong(format!("1 to {URLS_MAX} addresses are possible, but {found} are listed"));
    }
    let mut urls: Vec<UpstreamUrl> = Vec::new();
    for text in &section.urls {
        match text.parse::<UpstreamUrl>() {
            Err(error) => wrong(error.to_string()),
            Ok(url) if urls.contains(&url) => wrong(format!("{text:?} stands twice")),
            Ok(url) => {
                if let Some(own) = listeners.iter().find(|own| leads_to(&url, own.address)) {
                    wrong(format!(
                        "{text:?} leads to this server itself, which listens on {}; name the server where the topics \
                         are published",
                        own.address
                    ));
                }
                urls.push(url);
            }
        }
    }
    urls
}

/// It is a level of a path, a label of metrics and a word of sentences.
fn is_upstream_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= NODE_BYTES_MAX && name.bytes().all(is_plain)
}

/// Whether an address is that of a listener of this machine, as far as that is seen without asking for names.
fn leads_to(url: &UpstreamUrl, listener: SocketAddr) -> bool {
    let is_own = match url.address().map(|address| address.ip()) {
        Some(ip) => ip == listener.ip() || (listener.ip().is_unspecified() && ip.is_loopback()),
        None => {
            let is_local = url.host().eq_ignore_ascii_case("localhost");
            is_local && (listener.ip().is_unspecified() || listener.ip().is_loopback())
        }
    };
    is_own && url.port() == listener.port()
}

/// The absence after which topics are removed, if they are; nothing for any other text.
fn remove_after(text: &str) -> Option<Option<Duration>> {
    if text == "keep" {
        return Some(None);
    }
    let span = units::parse_duration(text.strip_prefix("remove after ")?)?;
    (span <= AWAY_MAX).then_some(Some(span))
}

/// The longest absence after which topics are removed: a month.
const AWAY_MAX: Duration = Duration::from_secs(31 * 86_400);

/// The certificate that is shown there, and its key.
fn tls_identity(
    table: &Table,
    section: &UpstreamSection,
    problems: &mut Problems,
) -> Option<(String, String)> {
    let (has, needs) = match (&section.tls_certificate, &section.tls_key) {
        (Some(_), None) => ("tls_certificate", "tls_key"),
        (None, Some(_)) => ("tls_key", "tls_certificate"),
        (certificate, key) => return certificate.clone().zip(key.clone()),
    };
    problems.add(table.origin_of(has), format!("upstream.{has} needs upstream.{needs}"));
    None
}

/// Token, or name and password.
fn identity(
    table: &Table,
    section: &UpstreamSection,
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> (Option<Secret>, Option<(String, Secret)>) {
    if table.refuses(&["token", "password"]) {
        return (None, None);
    }
    if section.user.is_some() != section.password.is_some() {
        let (has, needs) = match section.user {
            Some(_) => ("user", "password"),
            None => ("password", "user"),
        };
        let message = format!("upstream.{has} needs upstream.{needs}");
        problems.add(table.origin_of(has), message);
    }
    if section.user.is_some() && section.token.is_some() {
        let message =
            "upstream.token: log in with either `token` or `user` and `password`, not with both";
        problems.add(table.origin_of("token"), message);
    }
    let mut secret = |name: &str, source| {
        resolve(source, &format!("upstream.{name}"), table.origin_of(name), sources, problems)
    };
    let token = section.token.as_ref().and_then(|source| secret("token", source));
    let password = section.password.as_ref().and_then(|source| secret("password", source));
    (token, section.user.clone().zip(password))
}
