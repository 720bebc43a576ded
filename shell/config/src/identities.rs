//! Users, tokens and rules that are put while a server runs, beside those of its configuration.
//!
//! They are written as the file writes them, so that one reader and one set of checks is there for both. Relies on the caller to keep
//! the text. Invariants: what stands in the file is never changed by them, and goes before what was put by the same name; the text
//! holds no password in clear, nor a place where one is.

use std::path::Path;
use std::{fmt, io};

use toml::{Table as Entry, Value};

use crate::build_auth;
use crate::build_hosts;
use crate::file;
use crate::load::Loaded;
use crate::problem::{FileText, Origin, Problems};
use crate::sections::SECTIONS;
use crate::sources::Sources;
use crate::table::Table;

/// The sections that may be put.
const PUT: [&str; 3] = ["user", "token", "rule"];

/// What was put, by section and name, in the order in which it came.
#[derive(Clone, Default, PartialEq)]
pub struct PutIdentities {
    document: Entry,
}

impl fmt::Debug for PutIdentities {
    /// How many they are: hashes are shown nowhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutIdentities").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl PutIdentities {
    /// What a text says that [`PutIdentities::to_text`] has made.
    ///
    /// # Errors
    /// Where it is no TOML, or says something else.
    pub fn parse(text: &str) -> Result<PutIdentities, String> {
        let document: Entry = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        for (section, entries) in &document {
            let is_list = entries
                .as_array()
                .is_some_and(|all| all.iter().all(|entry| name_of(entry).is_some()));
            if !PUT.contains(&section.as_str()) || !is_list {
                return Err(format!("`{section}` is nothing that can be put"));
            }
        }
        Ok(PutIdentities { document })
    }

    /// The text that is kept.
    pub fn to_text(&self) -> String {
        self.document.to_string()
    }

    /// The entry of that name.
    pub fn get(&self, section: &str, name: &str) -> Option<&Entry> {
        let entries = self.document.get(section)?.as_array()?;
        entries.iter().find(|entry| name_of(entry) == Some(name))?.as_table()
    }

    /// Puts an entry, which has its name, in place of the one of that name, or behind all others. Whether there was one.
    pub fn put(&mut self, section: &str, name: &str, mut entry: Entry) -> bool {
        entry.insert("name".to_owned(), Value::String(name.to_owned()));
        let entries = self.document.entry(section).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(entries) = entries else { return false };
        match entries.iter_mut().find(|entry| name_of(entry) == Some(name)) {
            Some(before) => {
                *before = Value::Table(entry);
                true
            }
            None => {
                entries.push(Value::Table(entry));
                false
            }
        }
    }

    /// Removes the entry of that name. Whether there was one.
    pub fn remove(&mut self, section: &str, name: &str) -> bool {
        let Some(Value::Array(entries)) = self.document.get_mut(section) else { return false };
        let before = entries.len();
        entries.retain(|entry| name_of(entry) != Some(name));
        before != entries.len()
    }

    /// All of them with their sections.
    fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        let lists = self.document.iter();
        let lists = lists.filter_map(|(section, entries)| Some((section, entries.as_array()?)));
        lists.flat_map(|(section, entries)| entries.iter().map(move |it| (section.as_str(), it)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.document.values().filter_map(Value::as_array).map(Vec::len).sum()
    }
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name")?.as_str()
}

/// A configuration with what was put.
#[derive(Clone, Debug)]
pub struct WithPut {
    /// The configuration.
    pub loaded: Loaded,
    /// What of it counts for nothing, because the file has that name: kinds and names.
    pub hidden: Vec<String>,
    /// Users and tokens that cannot be used, with what is wrong.
    pub left_out: Vec<String>,
}

impl Loaded {
    /// The same with these in place of all that was put before. Users and tokens that cannot be used are left out: then fewer may come
    /// in. A rule that cannot be used may deny something.
    ///
    /// # Errors
    /// Every problem of the rules that were put.
    pub fn with_put(&self, put: &PutIdentities) -> Result<WithPut, Problems> {
        let mut config = self.config.clone();
        let auth = &mut config.auth;
        auth.users.retain(|user| !user.is_put);
        auth.tokens.retain(|token| !token.is_put);
        auth.rules.retain(|rule| !rule.is_put);
        let hosts = config.hosts.iter().map(|host| host.name.clone()).collect();
        let own: Vec<&Table> = self.tables.iter().filter(|it| it.origin != Origin::Put).collect();
        let (mut new, mut hidden, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        let mut problems = Problems::default();
        for (section, entry) in put.entries() {
            let name = name_of(entry).unwrap_or_default();
            let is_named = |it: &&Table| it.section.name == section && it.name() == Some(name);
            if own.iter().copied().any(|it| is_named(&it)) {
                hidden.push(format!("{section} {name}"));
                continue;
            }
            let mut wrong = Problems::default();
            let table = table_of(section, entry, &mut wrong);
            if let Some(table) = table.filter(|_| wrong.0.is_empty()) {
                build_auth::identity(auth, &table, &sources(), &mut wrong);
                build_hosts::check_bindings(std::slice::from_ref(&table), &hosts, &mut wrong);
                new.push(table);
            }
            if wrong.0.is_empty() {
                continue;
            }
            let said =
                wrong.0.iter().map(|problem| format!("{section} {name}: {}", problem.message));
            if section == "rule" {
                said.for_each(|message| problems.add(Origin::Put, message));
                continue;
            }
            left_out.extend(said);
            new.retain(|it| !is_named(&it));
            auth.users.retain(|user| !(user.is_put && section == "user" && user.name == name));
            auth.tokens.retain(|token| !(token.is_put && section == "token" && token.name == name));
        }
        if !problems.0.is_empty() {
            return Err(problems);
        }
        let all: Vec<&Table> = own.into_iter().chain(&new).collect();
        let of = |name: &'static str| all.iter().filter(move |it| it.section.name == name);
        let tables = SECTIONS.iter().flat_map(|section| of(section.name));
        let tables: Vec<Table> = tables.map(|table| (*table).clone()).collect();
        Ok(WithPut { loaded: Loaded { config, tables }, hidden, left_out })
    }
}

/// An entry as a table of the configuration.
fn table_of(section: &str, entry: &Value, problems: &mut Problems) -> Option<Table> {
    let mut document = Entry::new();
    document.insert(section.to_owned(), Value::Array(vec![entry.clone()]));
    let text = document.to_string();
    // Where it stands in the text says nothing to who has put it.
    let mut table = file::read(&FileText::new("put", &text), problems).tables.pop()?;
    table.origin = Origin::Put;
    let set = table.settings.iter_mut().filter(|setting| setting.origin != Origin::Default);
    set.for_each(|setting| setting.origin = Origin::Put);
    Some(table)
}

/// What an entry may take from elsewhere: nothing.
fn sources() -> Sources<'static> {
    Sources {
        file: None,
        environment: Vec::new(),
        flags: Vec::new(),
        tables: Vec::new(),
        development: false,
        read_secret: &|_: &Path| Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sources::FileSource;

    fn loaded(text: &str) -> Loaded {
        let text = format!(
            "server.listen = [\"127.0.0.1:1\"]\nstore.directory = \"/s\"\nauth.managed = true\n{text}"
        );
        let sources = Sources {
            file: Some(FileSource { name: "t.toml".to_owned(), text }),
            environment: Vec::new(),
            flags: Vec::new(),
            tables: Vec::new(),
            development: false,
            read_secret: &|_: &Path| Ok("swordfish".to_owned()),
        };
        crate::load(&sources).unwrap()
    }

    fn entry(text: &str) -> Entry {
        toml::from_str(text).unwrap()
    }

    const USER: &str = "password_hash = \"$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA\"\n";

    #[test]
    fn what_was_put_is_kept_as_text_and_read_again() {
        let mut put = PutIdentities::default();
        assert!(!put.put("user", "bob", entry(USER)));
        assert!(!put.put("user", "ann \"a\"", entry("groups = [\"a\"]")));
        assert!(put.put("user", "bob", entry("host = \"shop\"")));
        assert!(!put.put("rule", "bob", entry("")));
        assert_eq!(put.count(), 3);
        let again = PutIdentities::parse(&put.to_text()).unwrap();
        assert_eq!(again, put);
        assert_eq!(again.get("user", "bob").unwrap()["host"].as_str(), Some("shop"));
        assert!(again.get("token", "bob").is_none());
        assert!(put.remove("user", "bob") && !put.remove("user", "bob"));
        assert!(!put.remove("token", "bob"));
        assert_eq!(PutIdentities::parse("").unwrap(), PutIdentities::default());
        for wrong in
            ["[", "user = 1", "[[user]]\ngroups = []", "[[jwt]]\nname = \"a\"", "server.shards = 1"]
        {
            assert!(PutIdentities::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_put_stands_behind_the_file_and_takes_the_place_of_what_was_put_before() {
        let file = "[[user]]\nname = \"ann\"\npassword = \"file:/ann\"\n[[rule]]\nallow = [\"publish\"]\nprincipals = [\"*\"]\n";
        let mut put = PutIdentities::default();
        put.put("user", "bob", entry(USER));
        put.put("user", "ann", entry(USER));
        put.put("rule", "r", entry("deny = [\"publish\"]\nprincipals = [\"group:nobody\"]"));
        put.put(
            "token",
            "t",
            entry(&format!("secret = \"sha256:{}\"\nuntil = 2027-01-31T12:00:00Z", "0".repeat(64))),
        );
        let WithPut { loaded: first, hidden, left_out } = loaded(file).with_put(&put).unwrap();
        assert_eq!(hidden, ["user ann"]);
        assert!(left_out.is_empty(), "{left_out:?}");
        let names = |it: &Loaded| -> Vec<String> {
            it.config
                .auth
                .users
                .iter()
                .map(|user| format!("{} {}", user.name, user.is_put))
                .collect()
        };
        assert_eq!(names(&first), ["ann false", "bob true"]);
        assert_eq!(first.config.auth.rules.len(), 2);
        assert_eq!(first.config.auth.tokens[0].until.map(|it| it.unix()), Some(1_801_396_800));
        let sections: Vec<&str> = first.tables.iter().map(|table| table.section.name).collect();
        let place = |name| sections.iter().rposition(|it| *it == name);
        assert!(place("user") < place("token") && place("token") < place("rule"));
        assert!(put.remove("user", "bob"));
        let second = first.with_put(&put).unwrap().loaded;
        assert_eq!(names(&second), ["ann false"]);
        let changes: Vec<_> = first.changes(&second).into_iter().map(|it| it.option).collect();
        assert_eq!(changes, ["user".into()]);
    }

    #[test]
    fn what_cannot_be_used_is_refused_as_the_file_would_be() {
        let file = loaded("");
        let said = |section: &str, text: &str| {
            let mut put = PutIdentities::default();
            put.put(section, "x", entry(text));
            match file.with_put(&put) {
                Err(problems) => problems.to_string(),
                Ok(with) => {
                    let auth = &with.loaded.config.auth;
                    assert!(auth.users.is_empty() && auth.tokens.is_empty() && section != "rule");
                    assert_eq!(with.loaded.tables.len(), file.tables.len(), "{section} {text}");
                    with.left_out.join("\n")
                }
            }
        };
        for (section, text, expected) in [
            ("user", "", "needs exactly one of"),
            ("user", "password = \"file:/etc/passwd\"", "cannot be read"),
            ("user", "password = \"env:HOME\"", "HOME"),
            ("user", &format!("{USER}host = \"shop\""), "no [[virtual_host]]"),
            ("user", &format!("{USER}colour = \"red\""), "unknown key `colour`"),
            ("token", "secret = \"abc\"", "expected a hash"),
            ("rule", "principals = [\"*\"]", "exactly one of `allow`, `deny` and `role`"),
            ("rule", "role = \"king\"\nprincipals = [\"*\"]", "expected one of"),
            (
                "rule",
                "role = \"viewer\"\nprincipals = [\"*\"]\npaths = [\"a\"]",
                "the role says where",
            ),
            ("rule", "allow = [\"fly\"]\nprincipals = [\"*\"]", "expected one of"),
            ("rule", "allow = [\"send\"]\nprincipals = [\"bob\"]", "names nobody"),
            ("rule", "allow = [\"send\"]\nprincipals = [\"*\"]\npaths = [\"a/**/b\"]", "pattern"),
        ] {
            let said = said(section, text);
            assert!(
                said.contains(expected) && said.starts_with(&format!("{section} x: ")),
                "{section} {text}: {said}"
            );
        }
    }
}
