//! A value as somebody wrote it, before its option says what it should be.
//!
//! Relies on the TOML parser for the file's values. Invariant: every value from a file remembers where
//! it stood.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// A written value and its place in the file (bytes), if it came from one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Raw {
    pub(crate) data: RawData,
    pub(crate) span: Option<Range<usize>>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawData {
    Boolean(bool),
    /// A date as TOML has it.
    Date(String),
    Float(String),
    Integer(i128),
    List(Vec<Raw>),
    /// From the environment or a flag: the option's kind decides what the text means.
    Loose(String),
    /// A table, which no option takes.
    Other(&'static str),
    Text(String),
}

impl Raw {
    /// A value from the environment, a flag or a built-in default.
    pub(crate) fn loose(text: &str) -> Raw {
        Raw { data: RawData::Loose(text.to_owned()), span: None }
    }

    /// A value from a TOML file.
    pub(crate) fn from_toml(value: &Spanned<DeValue<'_>>) -> Raw {
        let data = match value.get_ref() {
            DeValue::Array(items) => RawData::List(items.iter().map(Raw::from_toml).collect()),
            DeValue::Boolean(flag) => RawData::Boolean(*flag),
            DeValue::Datetime(date) => RawData::Date(date.to_string()),
            DeValue::Float(number) => RawData::Float(number.as_str().to_owned()),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix())
            {
                Ok(number) => RawData::Integer(number),
                Err(_) => RawData::Other("a number that is too long"),
            },
            DeValue::String(text) => RawData::Text(text.to_string()),
            DeValue::Table(_) => RawData::Other("a table"),
        };
        Raw { data, span: Some(value.span()) }
    }
}

/// How an error message quotes the value.
impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            RawData::Boolean(flag) => write!(f, "{flag}"),
            RawData::Date(_) => f.write_str("a date"),
            RawData::Float(text) => f.write_str(text),
            RawData::Integer(number) => write!(f, "{number}"),
            RawData::List(_) => f.write_str("a list"),
            RawData::Other(what) => f.write_str(what),
            // Long texts are cut: the place says the rest.
            RawData::Loose(text) | RawData::Text(text) => match text.char_indices().nth(60) {
                Some((end, _)) => write!(f, "{:?}…", text.get(..end).unwrap_or_default()),
                None => write!(f, "{text:?}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_when_quoted() {
        assert_eq!(Raw::loose("abc").to_string(), "\"abc\"");
        let quoted = Raw::loose(&"ä".repeat(100)).to_string();
        assert_eq!(quoted, format!("\"{}\"…", "ä".repeat(60)));
    }
}
