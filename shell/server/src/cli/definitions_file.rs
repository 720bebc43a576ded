//! What was made in a server at run time, as TOML text: topics with specifications, views, durable subscriptions.
//!
//! Pure. Invariants: what is written reads as the same; a name that means nothing is an error that says where it stands.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Map, Value as Json, json};
use tiderace_base::{Close, CloseCode};
use tiderace_filter::Selector;
use tiderace_wire::{TopicSpec, durable_queue, parse_path, parse_selector};

/// A specification, as operations have it.
pub(super) type Spec = Map<String, Json>;

/// What was made at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Definitions {
    /// Topics that outlive the server, by path.
    pub(super) topics: BTreeMap<String, Spec>,
    /// Views by name.
    pub(super) views: BTreeMap<String, String>,
    /// Durable subscriptions by name.
    pub(super) subscriptions: BTreeMap<String, Gathers>,
}

/// What a durable subscription gathers. Two are equal if they gather the same, in whatever order that is said.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathers {
    pub(super) topics: Vec<String>,
    pub(super) selector: Option<String>,
}

impl Gathers {
    /// Its patterns. Each text may have several; one that is not understood stands for itself.
    fn patterns(&self) -> BTreeSet<String> {
        let of = |text: &String| match parse_selector(text, None) {
            Ok(selector) => selector.patterns().iter().map(|it| it.as_str().to_owned()).collect(),
            Err(_) => vec![text.clone()],
        };
        self.topics.iter().flat_map(of).collect()
    }

    /// As a server keeps it.
    fn kept(self, who: Option<&str>) -> Result<Gathers, Close> {
        let mut topics = Vec::new();
        for text in &self.topics {
            let selector = parse_selector(text, who)?;
            topics.extend(selector.patterns().iter().map(|it| it.as_str().to_owned()));
        }
        Ok(Gathers { topics, selector: self.selector })
    }
}

impl PartialEq for Gathers {
    fn eq(&self, other: &Gathers) -> bool {
        self.selector == other.selector && self.patterns() == other.patterns()
    }
}

/// In which they differ from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// The others lack it.
    New,
    /// It is another there.
    Other,
    /// They alone have it.
    OnlyThere,
}

impl Difference {
    /// As an output for programs has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Difference::New => "create",
            Difference::Other => "replace",
            Difference::OnlyThere => "only-there",
        }
    }

    /// As a list for people has it.
    pub(super) fn sign(self) -> char {
        match self {
            Difference::New => '+',
            Difference::Other => '~',
            Difference::OnlyThere => '-',
        }
    }
}

/// Something that differs: of which kind it is, and its name.
pub(super) type Differs = (Difference, &'static str, String);

impl Definitions {
    /// As text.
    pub(super) fn to_text(&self) -> anyhow::Result<String> {
        let topics =
            self.topics.iter().map(|(path, spec)| json!({"path": path, "spec": told(spec)}));
        let views = self.views.iter().map(|(name, text)| json!({"name": name, "text": text}));
        let subscriptions = self.subscriptions.iter().map(|(name, gathers)| {
            let mut entry = json!({"name": name, "topics": gathers.topics});
            if let Some(selector) = &gathers.selector {
                entry["selector"] = json!(selector);
            }
            entry
        });
        let mut text = HEAD.to_owned();
        for (name, entries) in [
            ("topic", topics.collect::<Vec<_>>()),
            ("view", views.collect()),
            ("subscription", subscriptions.collect()),
        ] {
            if !entries.is_empty() {
                text.push('\n');
                text.push_str(&toml::to_string(&json!({name: entries}))?);
            }
        }
        Ok(text)
    }

    /// Reads what was written, or what somebody has written likewise.
    ///
    /// # Errors
    /// Says what is not understood.
    pub(super) fn parse(text: &str) -> anyhow::Result<Definitions> {
        let all: Json = toml::from_str(text).context("the definitions are not TOML")?;
        let mut found = Definitions::default();
        for (kind, entries) in all.as_object().into_iter().flatten() {
            let entries = entries.as_array();
            let Some(entries) = entries.filter(|_| KINDS.iter().any(|(known, _)| known == kind))
            else {
                let known = KINDS.map(|(known, _)| format!("[[{known}]]")).join(", ");
                bail!("definitions have {known}, and not `{kind}`");
            };
            for (place, entry) in entries.iter().enumerate() {
                let read = found.read(kind, entry);
                read.with_context(|| format!("[[{kind}]] number {} is not understood", place + 1))?;
            }
        }
        Ok(found)
    }

    fn read(&mut self, kind: &str, entry: &Json) -> anyhow::Result<()> {
        let Some(members) = entry.as_object() else { bail!("it is no table") };
        let known =
            KINDS.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, known)| known);
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            bail!("it has {}, and not `{name}`", known.join(", "));
        }
        let text = |name: &str| {
            let text = entry[name].as_str().map(str::to_owned);
            text.with_context(|| format!("it wants `{name}`, which is text"))
        };
        let (name, is_again) = match kind {
            "topic" => {
                let path = text("path")?;
                let spec = match &entry["spec"] {
                    Json::Null => Spec::new(),
                    spec => meant(spec.as_object().context("`spec` is a table")?)?,
                };
                (path.clone(), self.topics.insert(path, spec).is_some())
            }
            "view" => {
                let (name, text) = (text("name")?, text("text")?);
                (name.clone(), self.views.insert(name, text).is_some())
            }
            _ => {
                let name = text("name")?;
                let topics = entry["topics"].as_array().map(Vec::as_slice).unwrap_or_default();
                let topics: Option<Vec<String>> =
                    topics.iter().map(|topic| topic.as_str().map(str::to_owned)).collect();
                let topics = topics.filter(|topics| !topics.is_empty());
                let topics = topics.context("it wants `topics`, a list of paths and patterns")?;
                let selector = entry.get("selector").map(|_| text("selector")).transpose()?;
                let gathers = Gathers { topics, selector };
                (name.clone(), self.subscriptions.insert(name, gathers).is_some())
            }
        };
        if is_again {
            bail!("`{name}` was there before");
        }
        Ok(())
    }

    /// Whether all of it can be meant, as a server would look at it, but for views, which only a server compiles.
    ///
    /// # Errors
    /// Says what is not understood.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (path, spec) in &self.topics {
            let wrong = || format!("topic {path} is not understood");
            named(parse_path(path, None)).with_context(wrong)?;
            parse_spec(spec, &TopicSpec::default()).with_context(wrong)?;
        }
        for (name, gathers) in &self.subscriptions {
            let wrong = || format!("subscription {name} is not understood");
            durable_queue(name).with_context(wrong)?;
            for topics in &gathers.topics {
                named(parse_selector(topics, None)).with_context(wrong)?;
            }
            gathers.selector.as_deref().map(Selector::parse).transpose().with_context(wrong)?;
        }
        Ok(())
    }

    /// The same as a server keeps it, so that what is there can be compared with it: names in their one form, `~/` written out,
    /// views without blanks around them. `who` is the name of the user, which only the server knows.
    ///
    /// # Errors
    /// [`CloseCode::LoginRequired`] for `~/` without a user, and what [`Definitions::check`] refuses; two names that mean the same.
    pub(super) fn kept(self, who: Option<&str>) -> Result<Definitions, Close> {
        let path = |text: &str| parse_path(text, who).map(|path| path.as_str().to_owned());
        let mut kept = Definitions::default();
        for (name, spec) in self.topics {
            put(&mut kept.topics, path(&name)?, spec)?;
        }
        for (name, text) in self.views {
            put(&mut kept.views, path(&name)?, text.trim().to_owned())?;
        }
        for (name, gathers) in self.subscriptions {
            put(&mut kept.subscriptions, name, gathers.kept(who)?)?;
        }
        Ok(kept)
    }

    /// In which others, that are there, differ from these.
    pub(super) fn differences(&self, there: &Definitions) -> Vec<Differs> {
        let mut found = Vec::new();
        differ("topic", &self.topics, &there.topics, &mut found);
        differ("view", &self.views, &there.views, &mut found);
        differ("subscription", &self.subscriptions, &there.subscriptions, &mut found);
        found
    }
}

fn put<T>(all: &mut BTreeMap<String, T>, name: String, it: T) -> Result<(), Close> {
    match all.insert(name.clone(), it) {
        None => Ok(()),
        Some(_) => {
            let reason = format!("`{name}` is there twice, in other words");
            Err(Close::new(CloseCode::BadOperation, reason))
        }
    }
}

/// Leaves it to the server what `~/` stands for.
fn named<T>(parsed: Result<T, Close>) -> Result<(), Close> {
    match parsed {
        Err(close) if close.code != CloseCode::LoginRequired => Err(close),
        _ => Ok(()),
    }
}

/// The specification; what it does not name is taken from `base`.
pub(super) fn parse_spec(spec: &Spec, base: &TopicSpec) -> anyhow::Result<TopicSpec> {
    Ok(TopicSpec::parse(Json::Object(spec.clone()).to_string().as_bytes(), base)?)
}

const HEAD: &str =
    "# What was made in a server at run time; `tiderace definitions import` makes it in another.\n";

/// Each kind of definition, and what may be said of one.
const KINDS: [(&str, &[&str]); 3] = [
    ("topic", &["path", "spec"]),
    ("view", &["name", "text"]),
    ("subscription", &["name", "topics", "selector"]),
];

fn differ<T: PartialEq>(
    kind: &'static str,
    here: &BTreeMap<String, T>,
    there: &BTreeMap<String, T>,
    found: &mut Vec<Differs>,
) {
    for (name, one) in here {
        match there.get(name) {
            None => found.push((Difference::New, kind, name.clone())),
            Some(other) if other != one => found.push((Difference::Other, kind, name.clone())),
            Some(_) => {}
        }
    }
    let only = there.keys().filter(|name| !here.contains_key(*name));
    found.extend(only.map(|name| (Difference::OnlyThere, kind, name.clone())));
}

/// A specification as text has it: TOML knows no null, which stands for what is not set; a schema may have one inside, so it
/// stays JSON.
fn told(spec: &Spec) -> Spec {
    let set = spec.iter().filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| match &**name {
        "schema" => (name.clone(), json!(value.to_string())),
        _ => (name.clone(), value.clone()),
    })
    .collect()
}

/// The specification that is meant by such a text.
fn meant(told: &Spec) -> anyhow::Result<Spec> {
    let mut spec = told.clone();
    if let Some(schema) = spec.get_mut("schema")
        && let Some(text) = schema.as_str()
    {
        *schema = serde_json::from_str(text).context("`schema` is a JSON Schema, as text")?;
    }
    Ok(spec)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn some() -> Definitions {
        let spec = json!({
            "type": "json", "history": {"age": 0, "count": 100}, "persistent": true, "removal": "after 7d",
            "schema": {"enum": [null, 1, "a\"'''b"]},
        });
        let gathers = |topics: &[&str], selector: Option<&str>| Gathers {
            topics: topics.iter().map(|it| (*it).to_owned()).collect(),
            selector: selector.map(str::to_owned),
        };
        Definitions {
            topics: BTreeMap::from([
                ("a/b".to_owned(), spec.as_object().unwrap().clone()),
                ("c \"d\" ö\n".to_owned(), Spec::new()),
            ]),
            views: BTreeMap::from([(
                "v".to_owned(),
                "map a/* to b/<path(1)>\n# and more".to_owned(),
            )]),
            subscriptions: BTreeMap::from([
                ("all".to_owned(), gathers(&["fx/**", "gold"], Some("side = 'buy'"))),
                ("one".to_owned(), gathers(&["x"], None)),
            ]),
        }
    }

    #[test]
    fn what_is_written_reads_as_the_same() {
        let text = some().to_text().unwrap();
        assert_eq!(Definitions::parse(&text).unwrap(), some(), "{text}");
        assert!(text.contains("[[topic]]\npath = \"a/b\"\n"), "{text}");
        let none = Definitions::default();
        assert_eq!(Definitions::parse(&none.to_text().unwrap()).unwrap(), none);
        // What is not set in a server's answer is not in the text.
        let mut unset = some();
        unset.topics.get_mut("a/b").unwrap().insert("owner".to_owned(), Json::Null);
        assert_eq!(Definitions::parse(&unset.to_text().unwrap()).unwrap(), some());
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_place() {
        for (text, says) in [
            ("[[topic", "TOML"),
            ("[[queue]]\nname = 'a'", "`queue`"),
            ("topic = 7", "`topic`"),
            ("[[topic]]\nspec = {}", "`path`"),
            ("[[topic]]\npath = 'a'\nspce = {}", "`spce`"),
            ("[[topic]]\npath = 'a'\nspec = 'json'", "`spec` is a table"),
            ("[[topic]]\npath = 'a'\nspec = {schema = '{'}", "`schema`"),
            ("[[topic]]\npath = 'a'\n[[topic]]\npath = 'a'", "[[topic]] number 2"),
            ("[[view]]\nname = 'a'", "`text`"),
            ("[[subscription]]\nname = 'a'\ntopics = []", "`topics`"),
            ("[[subscription]]\nname = 'a'\ntopics = [7]", "`topics`"),
            ("[[subscription]]\nname = 'a'\ntopics = ['a']\nselector = 7", "`selector`"),
        ] {
            let error = format!("{:#}", Definitions::parse(text).unwrap_err());
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn what_no_server_would_take_is_said() {
        let wrong = |text: &str| {
            let checked = Definitions::parse(text).unwrap().check();
            format!("{:#}", checked.unwrap_err())
        };
        let own = "[[topic]]\npath = '~/a'\nspec = {history = 7}\n[[subscription]]\nname = 'a'\ntopics = ['~/a']\nselector = 'x = 1'";
        Definitions::parse(own).unwrap().check().unwrap();
        for (text, says) in [
            ("[[topic]]\npath = 'a//b'", "topic a//b is not understood"),
            ("[[topic]]\npath = 'a'\nspec = {histroy = 7}", "histroy"),
            ("[[topic]]\npath = 'a'\nspec = {type = 'jsn'}", "type"),
            ("[[subscription]]\nname = 'a//b'\ntopics = ['a']", "subscription a//b"),
            ("[[subscription]]\nname = 'a'\ntopics = ['a//b']", "`a//b`"),
            ("[[subscription]]\nname = 'a'\ntopics = ['a']\nselector = 'x ='", "subscription a "),
        ] {
            let said = wrong(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn subscriptions_to_the_same_in_another_order_are_the_same() {
        let of = |topics: &[&str]| Gathers {
            topics: topics.iter().map(|it| (*it).to_owned()).collect(),
            selector: None,
        };
        let there = of(&["a/*", "b", "c/**"]);
        for same in [&["c/**", "b", "a/*"][..], &["[b, c/**]", "a/*"], &["b", "a/*", "c/**", "b"]] {
            assert_eq!(of(same), there);
        }
        assert_ne!(of(&["a/*", "b"]), there);
        assert_ne!(Gathers { selector: Some("x = 1".to_owned()), ..there.clone() }, there);
    }

    #[test]
    fn what_is_wanted_is_compared_as_a_server_keeps_it() {
        let text = "[[topic]]\npath = '~/a'\n[[view]]\nname = '~/v'\ntext = ' map a to b '\n\
            [[subscription]]\nname = 's'\ntopics = ['[~/a, ~/b/*]', '?~/c.*', 'd']\n";
        let wanted = Definitions::parse(text).unwrap();
        let nobody = wanted.clone().kept(None).unwrap_err();
        assert_eq!(nobody.code, CloseCode::LoginRequired);
        let kept = wanted.kept(Some("ann")).unwrap();
        assert_eq!(kept.topics.keys().collect::<Vec<_>>(), ["user/ann/a"]);
        assert_eq!(kept.views["user/ann/v"], "map a to b");
        let topics = &kept.subscriptions["s"].topics;
        assert_eq!(topics[..2], ["user/ann/a", "user/ann/b/*"]);
        assert!(topics[2].contains("user/ann/") && topics[3] == "d", "{topics:?}");
        // What is kept is kept as it is.
        assert_eq!(kept.clone().kept(None).unwrap(), kept);
        let twice = "[[topic]]\npath = '~/a'\n[[topic]]\npath = 'user/ann/a'\n";
        let twice = Definitions::parse(twice).unwrap().kept(Some("ann")).unwrap_err();
        assert!(twice.reason.contains("`user/ann/a` is there twice"), "{twice}");
    }

    #[test]
    fn differences_are_found_both_ways() {
        let mut other = some();
        assert!(some().differences(&other).is_empty());
        other.topics.remove("a/b");
        other.views.insert("v".to_owned(), "else".to_owned());
        other.subscriptions.insert("more".to_owned(), Gathers::default());
        let expected = [
            (Difference::New, "topic", "a/b".to_owned()),
            (Difference::Other, "view", "v".to_owned()),
            (Difference::OnlyThere, "subscription", "more".to_owned()),
        ];
        assert_eq!(some().differences(&other), expected);
    }
}
