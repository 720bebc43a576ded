//! The configuration that a running server holds to, as it is asked for and told.
//!
//! Who runs the node tells it. Invariants: values come as JSON in which secrets are masked already, so that nothing behind it has to
//! know which are; lists come a page at a time.

use tiderace_value::append_text;

/// Options of a page, if nobody says how many, and at most.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;
/// What an option takes as JSON beside its texts.
const ENTRY_BYTES: usize = 160;

/// When a changed option is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applies {
    /// At once, by all who are connected.
    Now,
    /// By connections that come from then on.
    NewConnections,
    /// When the server is started again.
    Restart,
}

impl Applies {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Applies::Now => "now",
            Applies::NewConnections => "new-connections",
            Applies::Restart => "restart",
        }
    }
}

/// An option of the configuration that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The option, such as `log.level`, or the name of a section that may stand several times, such as `user`.
    pub option: Box<str>,
    /// When it is held to.
    pub applies: Applies,
}

/// Which options are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigQuery {
    /// Only that option, or those of that section.
    pub under: Option<Box<str>>,
    /// Only those that are set somewhere, or for which another value waits.
    pub changed: bool,
    /// Only those behind that one, as `next` of a page calls it.
    pub after: Option<Box<str>>,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
}

impl ConfigQuery {
    /// How many options the page may have.
    pub fn entries_max(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit };
        limit.min(LIMIT_MAX) as usize
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        [&self.under, &self.after].into_iter().flatten().map(|text| text.len()).sum()
    }
}

/// A page of options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigPage {
    /// In the order of the table of options; those of tables that may stand several times, table by table.
    pub options: Vec<ConfigEntry>,
    /// How many there are, behind this page and before it as well.
    pub matched: u64,
    /// Whether there are more behind it.
    pub more: bool,
}

/// An option as the server holds to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its section and name, such as `log.level`.
    pub option: &'static str,
    /// Which table it stands in, if its section may stand several times.
    pub table: Option<ConfigTable>,
    /// What the server holds to.
    pub value: ConfigValue,
    /// What it holds to if nobody says anything, as JSON; absent: nothing.
    pub default: Option<Box<str>>,
    /// What the configuration that was read last says instead, and the server does not hold to yet.
    pub waiting: Option<ConfigValue>,
    /// When a change is held to.
    pub applies: Applies,
    /// What it does.
    pub says: &'static str,
}

/// One of the tables of a section that may stand several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigTable {
    /// Its number, from 1 on.
    pub number: u64,
    /// The name that it was given.
    pub name: Option<Box<str>>,
}

/// What an option is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigValue {
    /// As JSON; absent: nothing.
    pub json: Option<Box<str>>,
    /// So many parts of a list are left out at its end.
    pub left_out: u64,
    /// What kind of place says so, in a word.
    pub origin: &'static str,
    /// The place.
    pub from: Box<str>,
}

impl ConfigPage {
    /// Bytes of its texts, with what is written around them.
    pub(super) fn bytes(&self) -> usize {
        self.options.iter().map(ConfigEntry::bytes).sum()
    }

    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"options\":[");
        for (place, entry) in self.options.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            entry.write_json(out);
        }
        let tail = format!("],\"matched\":{},\"more\":{}", self.matched, self.more);
        out.extend_from_slice(tail.as_bytes());
        if let Some(last) = self.options.last().filter(|_| self.more) {
            out.extend_from_slice(b",\"next\":");
            append_text(out, &last.key());
        }
        out.push(b'}');
    }
}

impl ConfigEntry {
    /// What it is called among all: `log.level`, or `rule[3].allow` in the third of several tables.
    pub fn key(&self) -> String {
        match (&self.table, self.option.split_once('.')) {
            (Some(table), Some((section, name))) => format!("{section}[{}].{name}", table.number),
            _ => self.option.to_owned(),
        }
    }

    /// Bytes of its texts, with what is written around them.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        let name = self.table.as_ref().map_or(0, |table| text(&table.name));
        let waiting = self.waiting.as_ref().map_or(0, ConfigValue::bytes);
        let own = self.option.len() + name + self.value.bytes() + text(&self.default);
        ENTRY_BYTES + own + waiting + self.says.len()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"option\":");
        append_text(out, self.option);
        if let Some(table) = &self.table {
            out.extend_from_slice(format!(",\"number\":{}", table.number).as_bytes());
            if let Some(name) = &table.name {
                out.extend_from_slice(b",\"name\":");
                append_text(out, name);
            }
        }
        out.push(b',');
        self.value.write_members(out);
        out.extend_from_slice(b",\"default\":");
        append_json(out, &self.default);
        if let Some(waiting) = &self.waiting {
            out.extend_from_slice(b",\"waiting\":{");
            waiting.write_members(out);
            out.push(b'}');
        }
        out.extend_from_slice(format!(",\"applies\":\"{}\"", self.applies.as_str()).as_bytes());
        out.extend_from_slice(b",\"says\":");
        append_text(out, self.says);
        out.push(b'}');
    }
}

impl ConfigValue {
    fn bytes(&self) -> usize {
        self.json.as_ref().map_or(0, |json| json.len()) + self.from.len() + 64
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"value\":");
        append_json(out, &self.json);
        if self.left_out > 0 {
            out.extend_from_slice(format!(",\"left_out\":{}", self.left_out).as_bytes());
        }
        out.extend_from_slice(format!(",\"origin\":\"{}\",\"from\":", self.origin).as_bytes());
        append_text(out, &self.from);
    }
}

fn append_json(out: &mut Vec<u8>, json: &Option<Box<str>>) {
    out.extend_from_slice(json.as_deref().unwrap_or("null").as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_is_json() {
        let value = |json: Option<&str>, origin, from: &str| ConfigValue {
            json: json.map(Into::into),
            left_out: 0,
            origin,
            from: from.into(),
        };
        let single = ConfigEntry {
            option: "server.shards",
            table: None,
            value: value(None, "default", "default"),
            default: Some("0".into()),
            waiting: Some(value(Some("2"), "file", "a \"b\":3:1")),
            applies: Applies::Restart,
            says: "How many.",
        };
        let value = ConfigValue { left_out: 7, ..value(Some("[\"a\"]"), "put", "put at run time") };
        let table = Some(ConfigTable { number: 3, name: Some("r".into()) });
        let other = ConfigEntry {
            option: "rule.allow",
            table,
            value,
            default: None,
            waiting: None,
            applies: Applies::Now,
            says: "What.",
        };
        let json = |page: &ConfigPage| {
            let mut out = Vec::new();
            page.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        let page = ConfigPage { options: vec![single, other], matched: 9, more: true };
        let expected = concat!(
            r#"{"options":[{"option":"server.shards","value":null,"origin":"default","from":"default","default":0,"#,
            r#""waiting":{"value":2,"origin":"file","from":"a \"b\":3:1"},"applies":"restart","says":"How many."},"#,
            r#"{"option":"rule.allow","number":3,"name":"r","value":["a"],"left_out":7,"origin":"put","from":"put at run time","#,
            r#""default":null,"applies":"now","says":"What."}],"matched":9,"more":true,"next":"rule[3].allow"}"#
        );
        assert_eq!(json(&page), expected);
        assert!(page.bytes() > expected.len());
        assert_eq!(json(&ConfigPage::default()), r#"{"options":[],"matched":0,"more":false}"#);
        assert_eq!(page.options[0].key(), "server.shards");
    }

    #[test]
    fn a_page_has_a_bound() {
        let most = |limit| ConfigQuery { limit, ..ConfigQuery::default() }.entries_max();
        assert_eq!([0, 7, 500, 501, u32::MAX].map(most), [100, 7, 500, 500, 500]);
    }
}
