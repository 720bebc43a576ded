//! Operations as JSON text: the one form that every protocol takes them in.
//!
//! ```json
//! {"do": "update", "path": "fx/EUR-USD", "value": {"bid": 1.08}, "if": {"version": 7}}
//! ```
//! A value is given as `value` (any JSON), `text`, `base64`, or as bytes beside the text where the
//! protocol can carry them. Relies on the protocol for how it spells names. Invariant: a name that
//! means nothing is an error that says which are known, so a misspelt wish is never passed over.

mod blocks;
mod identities;
mod node;
mod queues;
mod sessions;
mod traces;
#[cfg(test)]
mod verbs;

use std::borrow::Cow;

use base64::engine::{Engine, general_purpose::STANDARD};
use tiderace_base::{Close, CloseCode, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_value::{Json, JsonKind};

use super::{
    Browsable, Browse, Change, Comparison, Condition, Fetch, HistoryQuery, NewValue, Operation,
    Replay, Update,
};
use crate::spec::span_of;
use crate::{Destination, Flags, Kind, Meta, Run, properties};

/// How deeply an operation may be nested, values included.
const DEPTH_MAX: usize = 128;
/// How deeply conditions may be nested, and how many there may be.
const CONDITION_DEPTH_MAX: usize = 8;
const CONDITIONS_MAX: usize = 64;
/// Paths and patterns of one selector that is a list, those of sets counted one by one.
const PATTERNS_MAX: usize = 64;

/// What a protocol knows that the text needs.
pub struct Reading<'a> {
    /// The value's bytes, if they are not in the text.
    pub body: Option<&'a [u8]>,
    /// When the request was read.
    pub now: Time,
    /// A path as the protocol spells it.
    pub path: &'a dyn Fn(&str) -> Result<Path, Close>,
    /// A selector as the protocol spells it.
    pub selector: &'a dyn Fn(&str) -> Result<Vec<Pattern>, Close>,
}

impl Operation {
    /// Reads an operation.
    ///
    /// # Errors
    /// Says what is missing, not known or not understood, and what would be right.
    pub fn parse(text: &[u8], reading: &Reading<'_>) -> Result<Operation, Close> {
        let json = Json::parse(text, DEPTH_MAX)
            .map_err(|wrong| bad(format!("the operation is not JSON: {wrong}")))?;
        Operation::read(json, reading)
    }

    /// Reads an operation that is JSON already.
    ///
    /// # Errors
    /// As [`Operation::parse`].
    pub fn read(json: Json<'_>, reading: &Reading<'_>) -> Result<Operation, Close> {
        if json.kind() != JsonKind::Object {
            return Err(bad(
                "an operation is an object, such as {\"do\": \"fetch\", \"selector\": \"a/**\"}",
            ));
        }
        let request = Given { json, reading };
        let what = request.text("do")?;
        let Some(names) = names_of(&what) else {
            let applications = NAMES.iter().map(|(name, _)| *name);
            let others = tiderace_manage::operations().filter(|name| !is_of_applications(name));
            let all: Vec<&str> = applications.chain(others).collect();
            return Err(bad(format!("`do` is one of {}, not `{}`", all.join(", "), short(&what))));
        };
        request.only(&what, &names)?;
        request.operation(&what)
    }
}

/// The operations of applications with the names that may be given; those of [`tiderace_manage`] stand in its table.
const NAMES: &[(&str, &[&str])] = &[
    ("create", &["path", "spec", "value", "text", "base64", "type", "properties"]),
    ("remove", &["selector"]),
    (
        "update",
        &[
            "path",
            "value",
            "text",
            "base64",
            "type",
            "properties",
            "patch",
            "merge",
            "delta",
            "if",
            "spec",
        ],
    ),
    ("fetch", &["selector", "after", "limit", "depth", "values", "specs"]),
    ("history", &["path", "last", "version", "since", "to", "limit", "amended"]),
    ("amend", &["path", "version", "value", "text", "base64", "type", "properties"]),
    ("lock", &["name", "timeout"]),
    ("unlock", &["name"]),
    ("claim", &["path"]),
    ("release", &["path"]),
    ("will", &["path", "value", "text", "base64", "type", "properties", "retain"]),
    ("session", &[]),
];

/// The names that may be given with an operation, if there is one of that name.
fn names_of(what: &str) -> Option<Cow<'static, [&'static str]>> {
    if let Some((_, names)) = NAMES.iter().find(|(name, _)| *name == what) {
        return Some(Cow::Borrowed(names));
    }
    let mut others = tiderace_manage::operations();
    others.any(|name| name == what).then(|| Cow::Owned(tiderace_manage::members(what)))
}

fn is_of_applications(what: &str) -> bool {
    NAMES.iter().any(|(name, _)| *name == what)
}

/// A request, half read.
struct Given<'a> {
    json: Json<'a>,
    reading: &'a Reading<'a>,
}

impl<'a> Given<'a> {
    fn operation(&self, what: &str) -> Result<Operation, Close> {
        Ok(match what {
            "create" => {
                let spec = self.field("spec").map_or(Box::default(), text_of);
                Operation::Create { path: self.path("path")?, spec, value: self.value()? }
            }
            "remove" => Operation::Remove { selector: self.selector()? },
            "update" => Operation::Update(Box::new(self.update()?)),
            "fetch" => Operation::Fetch(Box::new(self.fetch()?)),
            "topic" => Operation::Topic { path: self.path("path")? },
            "history" => Operation::History(Box::new(self.history()?)),
            "amend" => {
                let missing = || bad("`amend` wants the new value: `value`, `text` or `base64`");
                let value = self.value()?.ok_or_else(missing)?;
                let version = self.number("version")?.ok_or_else(|| missing_name("version"))?;
                Operation::Amend { path: self.path("path")?, version, value }
            }
            "lock" => {
                let timeout = self.span("timeout")?.unwrap_or_default();
                Operation::Lock { name: self.path("name")?, timeout }
            }
            "unlock" => Operation::Unlock { name: self.path("name")? },
            "claim" => Operation::Claim { path: self.path("path")? },
            "release" => Operation::Release { path: self.path("path")? },
            "view" => {
                let text = Some(self.text("text")?.as_ref().into());
                Operation::View { name: self.path("name")?, text }
            }
            "unview" => Operation::View { name: self.path("name")?, text: None },
            "views" => Operation::Views,
            "will" => self.will()?,
            "sessions" => Operation::Sessions(Box::new(self.session_query()?)),
            "browse" => Operation::Browse(self.browse(self.browsable()?)?),
            _ => self.other_operation(what)?,
        })
    }

    fn browse(&self, what: Browsable) -> Result<Browse, Close> {
        let after = self.field("after").map(|_| self.text("after")).transpose()?;
        let from = after.map(|after| after.parse()).transpose()?.unwrap_or_default();
        let patterns = match self.field("pattern") {
            Some(_) => (self.reading.selector)(&self.text("pattern")?)?,
            None => Vec::new(),
        };
        Ok(Browse { what, from, limit: self.small("limit")?, patterns })
    }

    fn update(&self) -> Result<Update, Close> {
        let value = self.value()?;
        let body =
            |problem: &str| self.reading.body.map(Box::from).ok_or_else(|| bad(problem.to_owned()));
        let (change, properties) = match (
            self.field("patch"),
            self.field("merge"),
            self.field("delta"),
        ) {
            (Some(patch), None, None) => (Change::Patch(text_of(patch)), None),
            (None, Some(merge), None) => (Change::Merge(text_of(merge)), None),
            (None, None, Some(delta)) => {
                let number = |name: &str| delta.field(name).and_then(Json::as_unsigned);
                let (Some(codec), Some(base)) = (number("codec"), number("base")) else {
                    return Err(bad(
                        "`delta` is {\"codec\": 1, \"base\": the version it is a change of}",
                    ));
                };
                let delta = match delta.field("base64").and_then(Json::as_text) {
                    Some(text) => decode(&text)?,
                    None => body(
                        "the delta's bytes are missing: beside the text, or as `base64` in `delta`",
                    )?,
                };
                let codec = u32::try_from(codec).unwrap_or(u32::MAX);
                (Change::Delta { codec, base, delta }, None)
            }
            (None, None, None) => {
                let missing =
                    "`update` wants one of `value`, `text`, `base64`, `patch`, `merge` and `delta`";
                let value = value.clone().ok_or_else(|| bad(missing))?;
                (Change::Value(value.body), Some(value.properties))
            }
            _ => return Err(bad("only one of `patch`, `merge` and `delta` can be given")),
        };
        let given = self.field("properties").is_some() || self.field("type").is_some();
        let properties = match properties {
            None if given => Some(self.properties(None)?),
            known => known,
        };
        let condition = match self.field("if") {
            Some(condition) => Some(self.condition(condition, 0, &mut CONDITIONS_MAX.clone())?),
            None => None,
        };
        let spec = self.field("spec").map(text_of);
        let path = self.path("path")?;
        Ok(Update { path, change, properties, flags: Flags::NONE, condition, spec })
    }

    fn condition(
        &self,
        json: Json<'_>,
        depth: usize,
        left: &mut usize,
    ) -> Result<Condition, Close> {
        if depth > CONDITION_DEPTH_MAX || *left == 0 {
            return Err(bad(format!(
                "a condition has at most {CONDITIONS_MAX} parts, nested at most {CONDITION_DEPTH_MAX} deep"
            )));
        }
        *left -= 1;
        let mut all = Vec::new();
        if let Some(pointer) = json.field("at").and_then(Json::as_text) {
            return place(json, &pointer);
        }
        for (name, value) in json.fields() {
            let name = name.as_text().unwrap_or_default();
            all.push(match &*name {
                "absent" if value.as_bool() == Some(true) => Condition::Absent,
                "present" if value.as_bool() == Some(true) => Condition::Present,
                "version" => Condition::Version(
                    value.as_unsigned().ok_or_else(|| bad("`version` is a whole number"))?,
                ),
                "value" => Condition::Value(text_of(value)),
                "text" => {
                    let text = value.as_text().ok_or_else(|| bad("`text` is a string"))?;
                    Condition::Value(text.as_bytes().into())
                }
                "base64" => Condition::Value(decode(&value.as_text().unwrap_or_default())?),
                "locked" => {
                    let name = value.as_text().ok_or_else(|| bad("`locked` is the name of a lock"))?;
                    Condition::Locked((self.reading.path)(&name)?)
                }
                "all" | "any" => {
                    let parts: Result<Vec<_>, _> = value
                        .elements()
                        .map(|part| self.condition(part, depth + 1, left))
                        .collect();
                    if name == "all" { Condition::All(parts?) } else { Condition::Any(parts?) }
                }
                _ => {
                    return Err(bad(format!(
                        "`{}` is no condition; known are absent, present, version, value, text, base64, at, locked, all, any",
                        short(&name)
                    )));
                }
            });
        }
        match all.len() {
            0 => Err(bad(
                "a condition is an object such as {\"version\": 7} or {\"at\": \"/state\", \"eq\": \"open\"}",
            )),
            1 => all.pop().ok_or_else(|| bad("a condition is missing")),
            _ => Ok(Condition::All(all)),
        }
    }

    fn fetch(&self) -> Result<Fetch, Close> {
        let selector = match self.field("selector") {
            Some(_) => self.selector()?,
            None => (self.reading.selector)("**")?,
        };
        Ok(Fetch {
            selector,
            after: self.field("after").map(|_| self.path("after")).transpose()?,
            limit: self.small("limit")?,
            depth: self.small("depth")?,
            values: self.truth("values")?,
            specs: self.truth("specs")?,
        })
    }

    fn history(&self) -> Result<HistoryQuery, Close> {
        let from = match (self.number("last")?, self.number("version")?, self.number("since")?) {
            (Some(last), None, None) => Replay::Last(u32::try_from(last).unwrap_or(u32::MAX)),
            (None, Some(version), None) => Replay::Version(version),
            (None, None, Some(time)) => Replay::Time(time),
            (None, None, None) => Replay::Version(0),
            _ => return Err(bad("only one of `last`, `version` and `since` can be given")),
        };
        Ok(HistoryQuery {
            path: self.path("path")?,
            from,
            to: self.number("to")?,
            limit: self.small("limit")?,
            amended: self.truth("amended")?,
        })
    }

    fn will(&self) -> Result<Operation, Close> {
        let Some(value) = self.value()? else { return Ok(Operation::Will(None)) };
        let destination = Destination { kind: Kind::Topic, path: self.path("path")? };
        let flags = if self.truth("retain")? { Flags::RETAIN } else { Flags::NONE };
        let meta = Meta { flags, expires_ms: None };
        let run = Run::single(destination, self.reading.now, &value.properties, &value.body, meta);
        Ok(Operation::Will(Some(Box::new(run))))
    }

    fn field(&self, name: &str) -> Option<Json<'a>> {
        self.json.field(name)
    }

    /// Refuses names that mean nothing here.
    fn only(&self, what: &str, names: &[&str]) -> Result<(), Close> {
        for (name, _) in self.json.fields() {
            let name = name.as_text().unwrap_or_default();
            if *name != *"do" && !names.contains(&&*name) {
                let known =
                    if names.is_empty() { "nothing else".to_owned() } else { names.join(", ") };
                return Err(bad(format!(
                    "`{what}` knows no `{}`; known are {known}",
                    short(&name)
                )));
            }
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<Cow<'a, str>, Close> {
        self.field(name).and_then(Json::as_text).ok_or_else(|| missing_name(name))
    }

    fn path(&self, name: &str) -> Result<Path, Close> {
        (self.reading.path)(&self.text(name)?)
    }

    fn selector(&self) -> Result<Vec<Pattern>, Close> {
        let given = self.field("selector").ok_or_else(|| missing_name("selector"))?;
        if let Some(text) = given.as_text() {
            return (self.reading.selector)(&text);
        }
        let wrong = || {
            bad(format!(
                "`selector` is a selector or a list of some, with at most {PATTERNS_MAX} patterns"
            ))
        };
        let mut all = Vec::new();
        for element in given.elements() {
            all.extend((self.reading.selector)(&element.as_text().ok_or_else(wrong)?)?);
            if all.len() > PATTERNS_MAX {
                return Err(wrong());
            }
        }
        if all.is_empty() { Err(missing_name("selector")) } else { Ok(all) }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Close> {
        let wrong = || bad(format!("`{name}` is a whole number"));
        self.field(name).map(|value| value.as_unsigned().ok_or_else(wrong)).transpose()
    }

    /// A number that counts something; zero if it is not given.
    fn small(&self, name: &str) -> Result<u32, Close> {
        Ok(u32::try_from(self.number(name)?.unwrap_or(0)).unwrap_or(u32::MAX))
    }

    fn truth(&self, name: &str) -> Result<bool, Close> {
        let wrong = || bad(format!("`{name}` is true or false"));
        self.field(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(wrong))
    }

    fn span(&self, name: &str) -> Result<Option<Span>, Close> {
        let wrong = || bad(format!("`{name}` is milliseconds, or text such as \"10s\""));
        let Some(value) = self.field(name) else { return Ok(None) };
        span_of(value).map(Some).ok_or_else(wrong)
    }

    /// The value, however it is given.
    fn value(&self) -> Result<Option<NewValue>, Close> {
        let value = self.field("value").map(|json| (text_of(json), Some("application/json")));
        let text = match self.field("text").map(|json| json.as_text()) {
            Some(None) => return Err(bad("`text` is a string")),
            Some(Some(text)) => Some((text.as_bytes().into(), Some("text/plain"))),
            None => None,
        };
        let binary = match self.field("base64") {
            Some(json) => {
                let bytes = decode(&json.as_text().unwrap_or_default())?;
                Some((bytes, Some("application/octet-stream")))
            }
            None => None,
        };
        let beside = self.reading.body.map(|body| (body.into(), None));
        let given = [value, text, binary];
        if given.iter().flatten().count() > 1 {
            return Err(bad("only one of `value`, `text` and `base64` can be given"));
        }
        let Some((body, kind)) = given.into_iter().flatten().next().or(beside) else {
            return Ok(None);
        };
        Ok(Some(NewValue { properties: self.properties(kind)?, body }))
    }

    /// The properties: those given by name, and the type, which is that of the value unless it is given.
    fn properties(&self, kind: Option<&str>) -> Result<Box<[u8]>, Close> {
        let mut block = Vec::new();
        let given = self.field("type").map(|json| json.as_text());
        let kind = match &given {
            Some(None) => return Err(bad("`type` is a content type, such as \"text/plain\"")),
            Some(Some(text)) => Some(&**text),
            None => kind,
        };
        if let Some(kind) = kind {
            properties::append(&mut block, "content-type", kind);
        }
        for (name, value) in self.field("properties").into_iter().flat_map(Json::fields) {
            let wrong = || bad("`properties` is an object of strings, without `content-type`");
            let (name, value) = (name.as_text().unwrap_or_default(), value.as_text());
            if name.eq_ignore_ascii_case("content-type") {
                return Err(wrong());
            }
            properties::append(&mut block, &name, &value.ok_or_else(wrong)?);
        }
        Ok(block.into())
    }
}

/// A condition on a place of a JSON value.
fn place(json: Json<'_>, pointer: &str) -> Result<Condition, Close> {
    let compared = json.fields().find_map(|(name, value)| {
        let name = name.as_text()?;
        let (_, comparison) = Comparison::ALL.iter().find(|(known, _)| **known == *name)?;
        Some((*comparison, value))
    });
    let Some((comparison, value)) = compared else {
        let known: Vec<&str> = Comparison::ALL.iter().map(|(name, _)| *name).collect();
        return Err(bad(format!("with `at` goes one of {}", known.join(", "))));
    };
    if json.fields().count() > 2 {
        return Err(bad("with `at` goes one comparison; join several by `all`"));
    }
    Ok(Condition::Place { pointer: pointer.into(), comparison, value: text_of(value) })
}

fn text_of(json: Json<'_>) -> Box<[u8]> {
    json.text().as_bytes().into()
}

fn decode(text: &str) -> Result<Box<[u8]>, Close> {
    STANDARD
        .decode(text)
        .map(Vec::into)
        .map_err(|wrong| bad(format!("`base64` is not base64: {wrong}")))
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

fn missing_name(name: &str) -> Close {
    bad(format!("`{name}` is missing or no text"))
}

fn bad(reason: impl Into<Cow<'static, str>>) -> Close {
    Close::new(CloseCode::BadOperation, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn read(text: &str, body: Option<&[u8]>) -> Result<Operation, String> {
        let path = |text: &str| {
            Path::parse(text)
                .map_err(|wrong| Close::new(CloseCode::BadDestination, wrong.to_string()))
        };
        let selector = |text: &str| {
            let pattern = Pattern::parse(text);
            let bad = |wrong| Close::new(CloseCode::BadSelector, format!("{wrong}"));
            pattern.map(|pattern| vec![pattern]).map_err(bad)
        };
        let reading = Reading { body, now: Time::ZERO, path: &path, selector: &selector };
        Operation::parse(text.as_bytes(), &reading).map_err(|close| close.reason.into_owned())
    }

    fn update(text: &str, body: Option<&[u8]>) -> Update {
        match read(text, body) {
            Ok(Operation::Update(update)) => *update,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_come_in_four_ways() {
        type Row = (&'static str, Option<&'static [u8]>, &'static [u8], &'static str);
        let rows: [Row; 4] = [
            (r#""value":{"a": 1}"#, None, b"{\"a\": 1}", "content-type:application/json\n"),
            (r#""text":"h\u0069""#, None, b"hi", "content-type:text/plain\n"),
            (r#""base64":"/w==""#, None, b"\xff", "content-type:application/octet-stream\n"),
            (
                r#""type":"image/png","properties":{"a":"b:c"}"#,
                Some(b"x"),
                b"x",
                "content-type:image/png\na:b\\cc\n",
            ),
        ];
        for (given, body, wanted, properties) in rows {
            let update = update(&format!(r#"{{"do":"update","path":"p",{given}}}"#), body);
            assert_eq!(update.change, Change::Value(wanted.into()), "{given}");
            assert_eq!(update.properties.unwrap(), properties.as_bytes().into(), "{given}");
        }
    }

    #[test]
    fn changes_and_conditions_are_read() {
        let given = r#"{"do":"update","path":"p","merge":{"a":null},"if":{"all":[{"version":3},{"at":"/a","ge":7},{"any":[{"locked":"l"},{"absent":true}]}]}}"#;
        let read = update(given, None);
        assert_eq!(read.change, Change::Merge(b"{\"a\":null}"[..].into()));
        assert!(read.properties.is_none());
        let place = Condition::Place {
            pointer: "/a".into(),
            comparison: Comparison::GreaterOrEqual,
            value: b"7"[..].into(),
        };
        let any =
            Condition::Any(vec![Condition::Locked(Path::parse("l").unwrap()), Condition::Absent]);
        let all = Condition::All(vec![Condition::Version(3), place, any]);
        assert_eq!(read.condition, Some(all));
        let delta =
            update(r#"{"do":"update","path":"p","delta":{"codec":1,"base":9}}"#, Some(b"d"));
        assert_eq!(delta.change, Change::Delta { codec: 1, base: 9, delta: b"d"[..].into() });
    }

    #[test]
    fn mistakes_are_named() {
        let deep = format!(
            r#"{{"do":"update","path":"p","value":1,"if":{}{{"absent":true}}{}}}"#,
            r#"{"all":["#.repeat(9),
            "]}".repeat(9)
        );
        let rows = [
            ("[]", "an operation is an object"),
            ("{", "not JSON"),
            ("{}", "`do` is missing"),
            (r#"{"do":"creat"}"#, "`do` is one of create, remove"),
            (r#"{"do":"create","path":"a","spce":{}}"#, "knows no `spce`; known are path, spec"),
            (r#"{"do":"create"}"#, "`path` is missing"),
            (r#"{"do":"create","path":"a//b"}"#, "level 2"),
            (r#"{"do":"update","path":"a"}"#, "wants one of `value`"),
            (r#"{"do":"update","path":"a","value":1,"text":"x"}"#, "only one of `value`"),
            (r#"{"do":"update","path":"a","patch":[],"merge":{}}"#, "only one of `patch`"),
            (r#"{"do":"update","path":"a","base64":"*"}"#, "not base64"),
            (r#"{"do":"update","path":"a","delta":{"codec":1,"base":2}}"#, "bytes are missing"),
            (
                r#"{"do":"update","path":"a","value":1,"if":{"verson":1}}"#,
                "`verson` is no condition",
            ),
            (
                r#"{"do":"update","path":"a","value":1,"if":{"at":"/a","is":1}}"#,
                "goes one of eq, ne",
            ),
            (&deep, "nested at most 8"),
            (r#"{"do":"fetch","selector":[]}"#, "`selector` is missing"),
            (r#"{"do":"fetch","selector":"a","limit":"x"}"#, "whole number"),
            (r#"{"do":"history","path":"a","last":1,"since":2}"#, "only one of `last`"),
            (r#"{"do":"lock","name":"l","timeout":"1 year"}"#, "such as \"10s\""),
            (r#"{"do":"amend","path":"a","version":1}"#, "the new value"),
            (r#"{"do":"views","all":true}"#, "known are nothing else"),
        ];
        for (text, part) in rows {
            let error = read(text, None).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
