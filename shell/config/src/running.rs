//! The options that a running server holds to, a page at a time, with what waits to be held to.
//!
//! Relies on `show` for what others may see of a value. Invariants: no secret is in an answer; a page is bounded, whatever the
//! configuration is; the order of options is that of the table of options, so that a page goes on where the one before has ended,
//! also if the configuration has changed meanwhile.

use std::borrow::Cow;

use tiderace_wire::{Applies, ConfigEntry, ConfigPage, ConfigQuery, ConfigTable, ConfigValue};

use crate::kind::Value;
use crate::load::Loaded;
use crate::problem::Origin;
use crate::sections::SECTIONS;
use crate::show::{self, Shown};
use crate::spec::{OptionSpec, SectionSpec};
use crate::suggest;
use crate::table::{Setting, Table, default_setting};

/// Bytes of a page, but for its first option.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// What a server runs by.
#[derive(Debug)]
pub struct Running<'a> {
    /// What it holds to.
    pub held: &'a Loaded,
    /// The configuration that was read last.
    pub read: &'a [Table],
    /// The level of the log, if somebody has asked for another one than the configuration has, and who.
    pub log_level: Option<(String, Origin)>,
}

/// Where an option stands among all: its section, its table there from 1 on, and its place in that table.
type Place = (usize, usize, usize);

/// An option of a table.
struct Row<'a> {
    place: Place,
    spec: &'static OptionSpec,
    /// The table, if its section may stand several times.
    table: Option<&'a Table>,
    held: Option<Cow<'a, Setting>>,
    /// What waits, if it is something else; inside nothing, if that is to hold.
    waiting: Option<Option<&'a Setting>>,
}

impl Running<'_> {
    /// The options that are asked for.
    ///
    /// # Errors
    /// Says which option or section there is not.
    pub fn page(&self, query: &ConfigQuery) -> Result<ConfigPage, String> {
        let under = query.under.as_deref();
        let is_under = |key: &str| {
            let rest = under.and_then(|under| key.strip_prefix(under));
            under.is_none() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut options = SECTIONS.iter().flat_map(|section| section.options);
        if !options.any(|option| is_under(option.key)) {
            let name = shortened(under.unwrap_or_default());
            let keys = SECTIONS.iter().flat_map(|section| section.options).map(|it| it.key);
            let names = SECTIONS.iter().map(|section| section.name).chain(keys);
            let near = suggest::did_you_mean(&name, names);
            return Err(format!("there is no option or section `{name}`{near}"));
        }
        let after = query.after.as_deref().map(place_of).transpose()?;
        let mut page = ConfigPage::default();
        let (mut bytes, entries_max) = (0, query.entries_max());
        for row in self.rows() {
            if !is_under(row.spec.key) || query.changed && !row.is_changed() {
                continue;
            }
            page.matched += 1;
            if page.more || after.is_some_and(|after| row.place <= after) {
                continue;
            }
            let entry = row.entry();
            bytes += entry.bytes();
            let is_first = page.options.is_empty();
            if page.options.len() < entries_max && (is_first || bytes <= PAGE_BYTES_MAX) {
                page.options.push(entry);
            } else {
                page.more = true;
            }
        }
        Ok(page)
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        SECTIONS.iter().enumerate().flat_map(move |(place, section)| {
            let tables = self.tables(section).into_iter().enumerate();
            tables.flat_map(move |(number, tables)| {
                section.options.iter().enumerate().map(move |(option, spec)| {
                    self.row((place, number + 1, option), (section, spec), tables)
                })
            })
        })
    }

    /// The tables of a section that hold, each with the one that waits in its place; behind them those that only wait.
    fn tables(&self, section: &SectionSpec) -> Vec<[Option<&Table>; 2]> {
        let is_of = |table: &&Table| table.section.name == section.name;
        // Nothing waits in the place of what was put while the server runs, which stands behind the rest.
        let is_put = |table: &Table| table.origin == Origin::Put;
        let mut read = self.read.iter().filter(is_of).filter(|table| !is_put(table));
        let held = self.held.tables.iter().filter(is_of);
        let mut tables: Vec<_> = held
            .map(|table| [Some(table), if is_put(table) { None } else { read.next() }])
            .collect();
        tables.extend(read.map(|table| [None, Some(table)]));
        tables
    }

    fn row<'a>(
        &'a self,
        place: Place,
        (section, spec): (&'static SectionSpec, &'static OptionSpec),
        [held, read]: [Option<&'a Table>; 2],
    ) -> Row<'a> {
        let of = |table: Option<&'a Table>, all: &[Table]| -> Option<&'a Setting> {
            let table = table?;
            let mut settings = table.settings.iter();
            settings.find(|it| it.spec.key == spec.key && show::holds(all, table, it))
        };
        let mut own = of(held, &self.held.tables).map(Cow::Borrowed);
        let other = of(read, self.read);
        if let (Some((level, origin)), "log.level") = (&self.log_level, spec.key) {
            let (value, origin) = (Value::Text(level.clone()), origin.clone());
            own = Some(Cow::Owned(Setting { spec, value, origin }));
        }
        let is_put = held.is_some_and(|table| table.origin == Origin::Put);
        let shown = |value: &Value| value.to_string();
        let is_same = match (&own, other) {
            // A level that was asked for is a text, and the same as one of the words of the option.
            (Some(own), Some(other)) => {
                own.value == other.value
                    || spec.key == "log.level" && shown(&own.value) == shown(&other.value)
            }
            (None, None) => true,
            _ => false,
        };
        let is_asked_for = spec.key == "log.level" && self.log_level.is_some();
        if is_same && !is_asked_for {
            // What has not changed may stand at another place by now.
            own = other.map(Cow::Borrowed);
        }
        // No start brings what a variable outweighs.
        let is_outweighed = |own: &Setting| matches!(own.origin, Origin::Environment(_));
        let is_outweighed = is_asked_for && own.as_deref().is_some_and(is_outweighed);
        let waiting = (!is_put && !is_same && !is_outweighed).then_some(other);
        let table = held.or(read).filter(|_| section.repeated);
        Row { place, spec, table, held: own, waiting }
    }
}

impl Row<'_> {
    fn is_changed(&self) -> bool {
        let is_set = |setting: &Setting| setting.origin != Origin::Default;
        // Of a table that only waits, what it does not say is no news.
        let waits = |waiting: Option<&Setting>| self.table.is_none() || waiting.is_some_and(is_set);
        self.held.as_deref().is_some_and(is_set) || self.waiting.is_some_and(waits)
    }

    fn entry(&self) -> ConfigEntry {
        let spec = self.spec;
        let own = self.held.as_deref().filter(|setting| setting.origin == Origin::Default);
        // Development mode has some of its own.
        let default = own.cloned().or_else(|| default_setting(spec, false));
        let table = self.table.map(|table| ConfigTable {
            number: self.place.1 as u64,
            name: table.name().map(Into::into),
        });
        ConfigEntry {
            option: spec.key,
            table,
            value: value_of(self.held.as_deref()),
            default: default.and_then(|setting| value_of(Some(&setting)).json),
            waiting: self.waiting.map(value_of),
            // What is not held to although it was read is held to at the next start, whatever goes for the option else.
            applies: match self.waiting {
                Some(_) if spec.key != "log.level" => Applies::Restart,
                _ => spec.applies(),
            },
            says: spec.doc.trim(),
        }
    }
}

/// A value as others may see it, and who says so.
fn value_of(setting: Option<&Setting>) -> ConfigValue {
    let shown = setting.map(|setting| show::shown(&setting.value));
    let left_out = shown.as_ref().map_or(0, |shown| shown.left_out);
    let json = shown.map(|Shown { json, .. }| json.into());
    let origin = setting.map_or(&Origin::Default, |setting| &setting.origin);
    ConfigValue { json, left_out, origin: origin.word(), from: origin.to_string().into() }
}

/// Where the option of that name stands: `log.level`, or `rule[3].allow`.
fn place_of(name: &str) -> Result<Place, String> {
    let found = || {
        let (section, option) = name.rsplit_once('.')?;
        let (section, number) = match section.split_once('[') {
            Some((section, number)) => (section, number.strip_suffix(']')?.parse().ok()?),
            None => (section, 1),
        };
        let place = SECTIONS.iter().position(|known| known.name == section)?;
        let mut options = SECTIONS.get(place)?.options.iter();
        Some((place, number, options.position(|known| known.name() == option)?))
    };
    found().ok_or_else(|| {
        let name = shortened(name);
        format!("`after` is what `next` was in the page before, not `{name}`")
    })
}

fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::changes::TakenOver;
    use crate::identities::PutIdentities;
    use crate::sources::{FileSource, FlagSource, Sources};

    fn loaded(text: &str) -> Loaded {
        let owned = |text: &str| text.to_owned();
        let sources = Sources {
            file: Some(FileSource { name: owned("t.toml"), text: owned(text) }),
            environment: vec![
                (owned("TIDERACE_SERVER__NODE"), owned("push-1")),
                (owned("SECRET"), owned("swordfish-of-the-environment")),
            ],
            flags: vec![FlagSource {
                flag: owned("--set"),
                key: owned("limits.headers_max"),
                value: owned("9"),
            }],
            tables: Vec::new(),
            development: false,
            read_secret: &|_: &Path| Ok("swordfish-of-a-file-of-32-bytes-or-more".to_owned()),
        };
        crate::load(&sources).unwrap()
    }

    /// All options that are asked for, a few at a time.
    fn all(running: &Running<'_>, under: &str, changed: bool) -> Vec<ConfigEntry> {
        let mut query = ConfigQuery { changed, limit: 7, ..ConfigQuery::default() };
        query.under = Some(under).filter(|under| !under.is_empty()).map(Into::into);
        let mut found = Vec::new();
        loop {
            let page = running.page(&query).unwrap();
            assert!(page.options.len() <= 7);
            found.extend(page.options);
            if !page.more {
                assert_eq!(page.matched, found.len() as u64);
                return found;
            }
            query.after = found.last().map(|entry| entry.key().into());
        }
    }

    fn of(held: &Loaded) -> Running<'_> {
        Running { held, read: &held.tables, log_level: None }
    }

    fn told(entries: &[ConfigEntry]) -> Vec<String> {
        let json = |json: &Option<Box<str>>| json.as_deref().unwrap_or("null").to_owned();
        let value = |it: &ConfigValue| format!("{} {} {}", json(&it.json), it.origin, it.from);
        let told = |it: &ConfigEntry| {
            let waits = it.waiting.as_ref().map(|it| format!(" waits {}", value(it)));
            let waits = waits.unwrap_or_default();
            format!("{} {} {}{waits}", it.key(), value(&it.value), json(&it.default))
        };
        entries.iter().map(told).collect()
    }

    const LISTEN: &str = "server.listen = [\"127.0.0.1:1\"]\n";

    #[test]
    fn each_option_is_told_with_who_says_so() {
        let held = loaded(&format!(
            "{LISTEN}[log]\nlevel = \"debug\"\n[[rule]]\nname = \"r\"\nallow = [\"publish\"]\nprincipals = [\"*\"]\n"
        ));
        let found = told(&all(&of(&held), "", true));
        let expected = [
            r#"server.node "push-1" environment environment variable TIDERACE_SERVER__NODE null"#,
            r#"server.listen ["127.0.0.1:1"] file t.toml:1:8 ["127.0.0.1:7800"]"#,
            r#"limits.headers_max 9 command-line --set 256"#,
            r#"rule[1].name "r" file t.toml:5:1 null"#,
            r#"rule[1].allow ["publish"] file t.toml:6:1 null"#,
            r#"rule[1].principals ["*"] file t.toml:7:1 null"#,
            r#"log.level "debug" file t.toml:3:1 "info""#,
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for line in expected {
            assert!(found.iter().any(|found| found == line), "{line} is not in {found:?}");
        }
        let every = all(&of(&held), "", false);
        let single = SECTIONS.iter().filter(|section| !section.repeated);
        let count = single.map(|section| section.options.len()).sum::<usize>();
        let rule = SECTIONS.iter().find(|section| section.name == "rule").unwrap();
        assert_eq!(every.len(), count + rule.options.len());
        let paths = every.iter().find(|entry| entry.key() == "rule[1].paths").unwrap();
        assert_eq!(
            (paths.value.origin, paths.value.json.as_deref()),
            ("default", Some("[\"**\"]"))
        );
        assert_eq!(paths.table.as_ref().unwrap().name.as_deref(), Some("r"));
        assert_eq!(paths.applies, Applies::Now);
        assert!(every.iter().all(|entry| entry.says.ends_with('.')));
    }

    #[test]
    fn sections_and_options_are_asked_for_by_name() {
        let held = loaded(LISTEN);
        let keys = |under: &str| {
            let entries = all(&of(&held), under, false);
            entries.iter().map(ConfigEntry::key).collect::<Vec<_>>()
        };
        assert_eq!(keys("log.level"), ["log.level"]);
        let auth = keys("auth");
        assert!(!auth.is_empty() && auth.iter().all(|key| key.starts_with("auth.")));
        assert!(keys("rule").is_empty());
        let said = |query: ConfigQuery| of(&held).page(&query).unwrap_err();
        let under = |text: &str| ConfigQuery { under: Some(text.into()), ..Default::default() };
        assert_eq!(
            said(under("log.lvel")),
            "there is no option or section `log.lvel`; did you mean `log.level`?"
        );
        assert!(said(under("")).contains("``") && said(under("lo")).contains("`lo`"));
        for wrong in ["", "log", "log.colour", "rule[x].allow", "rule[1.allow", "rule[-1].allow"] {
            let query = ConfigQuery { after: Some(wrong.into()), ..Default::default() };
            assert!(said(query).contains("`after`"), "{wrong}");
        }
        // One that is not there any more has its place, too.
        let query = ConfigQuery { after: Some("rule[7].allow".into()), ..Default::default() };
        let page = of(&held).page(&query).unwrap();
        let behind = SECTIONS.iter().skip_while(|section| section.name != "rule").skip(1);
        let next = behind.filter(|section| !section.repeated).flat_map(|it| it.options).next();
        assert_eq!(page.options[0].option, next.unwrap().key);
    }

    #[test]
    fn no_secret_is_in_any_answer() {
        let hash = "$argon2id$v=19$m=8,t=1,p=1$c3dvcmRmaXNo$c3dvcmRmaXNoLWhhc2g";
        let digest = "ab".repeat(32);
        let held = loaded(&format!(
            "{LISTEN}store.directory = \"/s\"\nauth.managed = true\n\
             server.drain_to = [\"wss://ann:swordfish@h/x\", \"wss://h/x?token=swordfish\"]\n\
             [auth_http]\nlogin_url = \"https://h/login?key=swordfish\"\n\
             [[auth_http_header]]\nname = \"Authorization\"\nvalue = \"file:/header\"\n\
             [telemetry]\nendpoint = \"https://h/v1/traces?key=swordfish\"\n\
             [[telemetry_header]]\nname = \"X-Key\"\nvalue = \"file:/key\"\n\
             [[user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n\
             [[user]]\nname = \"bob\"\npassword = \"env:SECRET\"\n\
             [[token]]\nname = \"t\"\nsecret = \"sha256:{digest}\"\n\
             [[token]]\nname = \"u\"\nsecret = \"file:/token\"\n\
             [[jwt]]\nname = \"i\"\nsecret = \"file:/jwt\"\n\
             [[jwt]]\nname = \"j\"\nkeys = \"https://swordfish@h/keys?swordfish\"\n\
             [[upstream]]\nname = \"a\"\nurls = [\"wss://h\"]\ntopics = [\"fx/**\"]\n\
             user = \"edge\"\npassword = \"file:/password\"\n\
             [[upstream]]\nname = \"b\"\nurls = [\"wss://h\"]\ntopics = [\"gx/**\"]\ntoken = \"file:/t\"\n"
        ));
        let mut put = PutIdentities::default();
        put.put("user", "eve", toml::from_str(&format!("password_hash = \"{hash}\"")).unwrap());
        let held = held.with_put(&put).unwrap().loaded;
        // What waits, and what is a default, are values as well.
        let before = loaded(&format!("{LISTEN}store.directory = \"/s\"\nauth.managed = true\n"));
        let waits = Running { held: &before, read: &held.tables, log_level: None };
        for running in [&of(&held), &waits] {
            let entries = all(running, "", false);
            let text = format!("{entries:?} {:?}", told(&entries));
            let told = told(&entries);
            assert!(
                !text.contains("swordfish")
                    && !text.contains("$argon2id$v")
                    && !text.contains("abab")
            );
            let masked = told.iter().filter(|line| line.contains("***")).count();
            assert!(masked >= 5, "{told:?}");
        }
        let told = told(&all(&of(&held), "", true));
        for line in [
            "user[1].password_hash \"***\" file t.toml:17:1 null",
            "user[2].password \"env:SECRET\" file t.toml:20:1 null",
            "user[3].password_hash \"***\" put put at run time null",
            "token[1].secret \"***\" file t.toml:23:1 null",
            "token[2].secret \"file:/token\" file t.toml:26:1 null",
            "auth_http.login_url \"https://h/login?***\" file t.toml:6:1 null",
            "telemetry.endpoint \"https://h/v1/traces?***\" file t.toml:11:1 null",
            "telemetry_header[1].value \"file:/key\" file t.toml:14:1 null",
            "jwt[2].keys \"https://***\" file t.toml:32:1 null",
        ] {
            assert!(told.iter().any(|found| found == line), "{line} is not in {told:?}");
        }
        let drain = told.iter().find(|line| line.starts_with("server.drain_to ")).unwrap();
        assert!(drain.contains(r#"["wss://***","wss://h/x?***"]"#), "{drain}");
        // Every option that may be a secret is of the kind that is masked, or a place of one.
        for option in SECTIONS.iter().flat_map(|section| section.options) {
            let words = ["password", "secret", "token", "hash", "value", "passphrase", "api_key"];
            let name = option.name();
            if words.contains(&name) || name.ends_with("_hash") || name.ends_with("_secret") {
                assert!(matches!(option.kind, crate::Kind::Secret { .. }), "{}", option.key);
            }
        }
    }

    #[test]
    fn what_waits_is_told_beside_what_holds() {
        let rule = "[[rule]]\nname = \"r\"\nallow = [\"publish\"]\nprincipals = [\"*\"]\n";
        let listener = |port: u16| format!("[[listener]]\naddress = \"127.0.0.1:{port}\"\n");
        let mut held = loaded(&format!("server.shards = 1\n{}{rule}", listener(1)));
        let read = loaded(&format!(
            "log.level = \"warn\"\nserver.shards = 2\n{}{}{rule}",
            listener(1),
            listener(2)
        ));
        held.take_over(&read, TakenOver { identities: true, for_new_connections: true });
        let running = Running { held: &held, read: &read.tables, log_level: None };
        let waits = |running: &Running<'_>| {
            let mut entries = all(running, "", true);
            entries.retain(|entry| entry.waiting.is_some());
            told(&entries)
        };
        let found = waits(&running);
        assert_eq!(found[0], "server.shards 1 file t.toml:1:8 0 waits 2 file t.toml:2:8");
        let second =
            "listener[2].address null default default null waits \"127.0.0.1:2\" file t.toml:6:1";
        assert_eq!(found[1..], [second]);
        // What holds already has the places of what was read last.
        let told = told(&all(&running, "", true));
        for line in [
            "log.level \"warn\" file t.toml:1:5 \"info\"",
            "listener[1].address \"127.0.0.1:1\" file t.toml:4:1 null",
            "rule[1].name \"r\" file t.toml:8:1 null",
        ] {
            assert!(told.iter().any(|found| found == line), "{line} is not in {told:?}");
        }
        let asked = |level: &str| Running {
            held: &held,
            read: &held.tables,
            log_level: Some((level.to_owned(), Origin::Put)),
        };
        let found = waits(&asked("debug"));
        let expected =
            "log.level \"debug\" put put at run time \"info\" waits \"warn\" file t.toml:1:5";
        assert_eq!(found, [expected]);
        assert!(waits(&asked("warn")).is_empty());
    }

    #[test]
    fn a_page_is_bounded_whatever_there_is() {
        let paths: Vec<String> =
            (0..5_000).map(|number| format!("\"some/path/{number}\"")).collect();
        let rule = format!(
            "[[rule]]\nallow = [\"publish\"]\nprincipals = [\"*\"]\npaths = [{}]\n",
            paths.join(",")
        );
        let held = loaded(&format!("{LISTEN}{}", rule.repeat(100)));
        let query =
            ConfigQuery { limit: u32::MAX, under: Some("rule".into()), ..Default::default() };
        let page = of(&held).page(&query).unwrap();
        let bytes: usize = page.options.iter().map(ConfigEntry::bytes).sum();
        let count = page.options.len();
        assert!(page.more && bytes <= PAGE_BYTES_MAX && (300..=500).contains(&count), "{bytes}");
        let held = loaded(&format!(
            "{LISTEN}{}",
            "[[rule]]\nallow = [\"publish\"]\nprincipals = [\"*\"]\n".repeat(100)
        ));
        let page = of(&held).page(&query).unwrap();
        assert_eq!((page.options.len(), page.more), (500, true));
        let held = loaded(&format!("{LISTEN}{}", rule.repeat(100)));
        let page = of(&held).page(&query).unwrap();
        assert_eq!(page.matched, 700);
        let long = page.options.iter().find(|entry| entry.key() == "rule[1].paths").unwrap();
        let shown: Vec<String> = serde_json::from_str(long.value.json.as_deref().unwrap()).unwrap();
        assert_eq!(shown.len() as u64 + long.value.left_out, 5_000);
        assert!(long.value.left_out > 0 && shown[0] == "some/path/0");
    }
}
