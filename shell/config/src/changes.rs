//! What of a configuration that is read again while the server runs is held to, and when.
//!
//! Relies on the table of options. Invariant: what is not named here is held to at the next start, and not before.

use tiderace_wire::{Applies, ConfigChange};

use crate::config::Config;
use crate::load::Loaded;
use crate::sections::SECTIONS;
use crate::sections::auth::AuthConfig;
use crate::sections::operations::LogConfig;
use crate::sections::server::ServerConfig;
use crate::sections::tls::TlsConfig;
use crate::spec::OptionSpec;
use crate::table::Table;

/// Sections that are held to at once, as a whole.
const NOW: [&str; 5] = ["user", "token", "jwt", "rule", "limit"];
/// Single options that are held to at once.
const OPTIONS_NOW: [&str; 4] =
    ["log.level", "server.drain_over", "server.drain_delay", "server.drain_to"];
/// Sections of which connections get to know that come from then on.
const NEW_CONNECTIONS: [&str; 1] = ["certificate"];
/// Single options of which connections get to know that come from then on, if TLS was spoken before.
const OPTIONS_NEW_CONNECTIONS: [&str; 5] = [
    "tls.certificate",
    "tls.key",
    "tls.version_min",
    "tls.client_authorities",
    "tls.client_certificates",
];

/// Of these, what says who may come in, and who may do what.
pub const IDENTITIES: [&str; 4] = ["user", "token", "jwt", "rule"];

/// What is taken over of a configuration that is read again.
#[derive(Clone, Copy, Debug)]
pub struct TakenOver {
    /// Users, tokens, issuers and rules.
    pub identities: bool,
    /// What only new connections get to know.
    pub for_new_connections: bool,
}

impl OptionSpec {
    /// When it is held to if it has changed when the configuration is read again.
    pub fn applies(&self) -> Applies {
        let (key, section) = (&self.key, &self.section());
        if NOW.contains(section) || OPTIONS_NOW.contains(key) {
            Applies::Now
        } else if NEW_CONNECTIONS.contains(section) || OPTIONS_NEW_CONNECTIONS.contains(key) {
            Applies::NewConnections
        } else {
            Applies::Restart
        }
    }
}

impl Loaded {
    /// What another configuration says otherwise, in the order of the table of options: single options, and sections that
    /// may stand several times as a whole.
    pub fn changes(&self, other: &Loaded) -> Vec<ConfigChange> {
        let mut changes = Vec::new();
        for section in SECTIONS {
            let of = |loaded: &Loaded| -> Vec<Table> {
                let tables = loaded.tables.iter().filter(|it| it.section.name == section.name);
                tables.cloned().collect()
            };
            let (before, after) = (of(self), of(other));
            if !section.repeated {
                let differs = |option: &&OptionSpec| {
                    value_of(&before, option.key) != value_of(&after, option.key)
                };
                changes.extend(section.options.iter().filter(differs).map(|option| ConfigChange {
                    option: option.key.into(),
                    applies: option.applies(),
                }));
                continue;
            }
            if !are_same(&before, &after) || self.secrets_differ(other, section.name) {
                let applies = section.options.iter().map(OptionSpec::applies).max();
                let applies = applies.unwrap_or(Applies::Restart);
                changes.push(ConfigChange { option: section.name.into(), applies });
            }
        }
        changes
    }

    /// Whether files or variables with secrets say something else, though they are named as before.
    fn secrets_differ(&self, other: &Loaded, section: &str) -> bool {
        let (before, after) = (&self.config.auth, &other.config.auth);
        match section {
            "user" => before.users != after.users,
            "token" => before.tokens != after.tokens,
            "jwt" => before.jwt != after.jwt,
            // One that was put may stand in the file by now.
            "rule" => before.rules != after.rules,
            _ => false,
        }
    }

    /// Takes over what another configuration says, as far as that is held to before the next start.
    pub fn take_over(&mut self, other: &Loaded, what: TakenOver) {
        let TakenOver { identities, for_new_connections } = what;
        let is_taken = move |option: &OptionSpec| match option.applies() {
            Applies::Now => identities || !IDENTITIES.contains(&option.section()),
            Applies::NewConnections => for_new_connections,
            Applies::Restart => false,
        };
        let Config { server, auth, tls, log, .. } = &self.config;
        let new = &other.config;
        let who = if identities { &new.auth } else { auth };
        let secure = if for_new_connections { &new.tls } else { tls };
        let certificates = if for_new_connections { new } else { &self.config };
        self.config = Config {
            server: ServerConfig {
                drain_over: new.server.drain_over,
                drain_delay: new.server.drain_delay,
                drain_to: new.server.drain_to.clone(),
                ..server.clone()
            },
            auth: AuthConfig {
                users: who.users.clone(),
                tokens: who.tokens.clone(),
                jwt: who.jwt.clone(),
                rules: who.rules.clone(),
                ..auth.clone()
            },
            tls: TlsConfig {
                certificate: secure.certificate.clone(),
                key: secure.key.clone(),
                version_min: secure.version_min,
                client_authorities: secure.client_authorities.clone(),
                client_certificates: secure.client_certificates,
                ..tls.clone()
            },
            log: LogConfig { level: new.log.level, ..log.clone() },
            certificates: certificates.certificates.clone(),
            client_limits: new.client_limits.clone(),
            ..self.config.clone()
        };
        self.tables = SECTIONS
            .iter()
            .flat_map(|section| self.tables_with(other, section.name, &is_taken))
            .collect();
    }

    /// The tables of a section, with what is taken over from another configuration.
    fn tables_with(
        &self,
        other: &Loaded,
        section: &str,
        is_taken: &dyn Fn(&OptionSpec) -> bool,
    ) -> Vec<Table> {
        let of = |loaded: &Loaded| -> Vec<Table> {
            loaded.tables.iter().filter(|it| it.section.name == section).cloned().collect()
        };
        let (mut own, new) = (of(self), of(other));
        let repeats = SECTIONS.iter().any(|it| it.name == section && it.repeated);
        if repeats {
            let options = SECTIONS.iter().find(|it| it.name == section).map(|it| it.options);
            let all = options.unwrap_or_default().iter().all(is_taken);
            return if all { new } else { own };
        }
        for (table, new) in own.iter_mut().zip(new) {
            table.settings.retain(|setting| !is_taken(setting.spec));
            table.settings.extend(new.settings.into_iter().filter(|it| is_taken(it.spec)));
            let place = |key| table.section.options.iter().position(|option| option.key == key);
            table.settings.sort_by_key(|setting| place(setting.spec.key));
        }
        own
    }
}

fn value_of<'a>(tables: &'a [Table], key: &str) -> Option<&'a crate::kind::Value> {
    let settings = tables.iter().flat_map(|table| &table.settings);
    settings.filter(|setting| setting.spec.key == key).map(|setting| &setting.value).next()
}

fn are_same(before: &[Table], after: &[Table]) -> bool {
    let values = |table: &Table| -> Vec<_> {
        table.settings.iter().map(|it| (it.spec.key, it.value.clone())).collect()
    };
    before.len() == after.len()
        && before.iter().zip(after).all(|(one, other)| values(one) == values(other))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sources::{FileSource, Sources};

    fn loaded(text: &str) -> Loaded {
        loaded_with(text, "swordfish")
    }

    fn loaded_with(text: &str, secret: &str) -> Loaded {
        let text = format!("server.listen = [\"127.0.0.1:1\"]\n{text}");
        let sources = Sources {
            file: Some(FileSource { name: "t.toml".to_owned(), text }),
            environment: Vec::new(),
            flags: Vec::new(),
            tables: Vec::new(),
            development: false,
            read_secret: &|_: &Path| Ok(secret.to_owned()),
        };
        crate::load(&sources).unwrap()
    }

    fn said(before: &Loaded, after: &Loaded) -> Vec<(String, Applies)> {
        let changes = before.changes(after).into_iter();
        changes.map(|change| (change.option.into(), change.applies)).collect()
    }

    const ALL: TakenOver = TakenOver { identities: true, for_new_connections: true };
    const USER: &str = "[[user]]\nname = \"ann\"\npassword = \"file:/ann\"\n\
                        [[rule]]\nallow = [\"publish\"]\nprincipals = [\"*\"]\n";
    const RULE: &str = "[[rule]]\nallow = [\"subscribe\"]\nprincipals = [\"*\"]\n";

    #[test]
    fn each_name_here_is_an_option_or_a_section() {
        let all: Vec<&OptionSpec> = SECTIONS.iter().flat_map(|it| it.options).collect();
        for key in OPTIONS_NOW.iter().chain(&OPTIONS_NEW_CONNECTIONS) {
            assert!(all.iter().any(|option| option.key == *key), "{key}");
        }
        for name in NOW.iter().chain(&NEW_CONNECTIONS) {
            assert!(all.iter().any(|option| option.section() == *name), "{name}");
        }
    }

    #[test]
    fn changes_are_told_with_when_they_are_held_to() {
        let before = loaded(USER);
        assert!(said(&before, &loaded(USER)).is_empty());
        let after = loaded(&format!("log.level = \"debug\"\nserver.shards = 3\n{USER}{RULE}"));
        let expected = [
            ("server.shards", Applies::Restart),
            ("rule", Applies::Now),
            ("log.level", Applies::Now),
        ];
        let mut found = said(&before, &after);
        found.sort();
        let mut expected = expected.map(|(option, applies)| (option.to_owned(), applies)).to_vec();
        expected.sort();
        assert_eq!(found, expected);
        let other = loaded_with(USER, "another");
        assert_eq!(
            said(&before, &other),
            [("user".to_owned(), Applies::Now)],
            "the file's content"
        );
    }

    #[test]
    fn what_is_taken_over_is_no_change_any_more() {
        let mut running = loaded(USER);
        let options = "log.level = \"debug\"\nserver.shards = 3\nserver.drain_over = \"9s\"\n";
        let after = loaded(&format!("{options}{RULE}"));
        running.take_over(&after, ALL);
        assert_eq!(said(&running, &after), [("server.shards".to_owned(), Applies::Restart)]);
        assert_eq!(running.config.auth, after.config.auth);
        assert_eq!(running.config.log, after.config.log);
        assert_ne!(running.config.server.shards, 3);
        assert_eq!(running.config.server.drain_over, after.config.server.drain_over);
        running.take_over(&loaded(USER), ALL);
        assert!(said(&running, &loaded(USER)).is_empty());
        // What must not be taken apart is left as it is.
        running.take_over(&after, TakenOver { identities: false, ..ALL });
        assert_eq!(running.config.auth, loaded(USER).config.auth);
        let mut left: Vec<_> =
            said(&running, &after).into_iter().map(|(option, _)| option).collect();
        left.sort();
        assert_eq!(left, ["rule", "server.shards", "user"]);
    }
}
