//! Path templates: text with parts of the source's path, scalars of its value, and expansions.
//!
//! Relies on `cursor` and `expressions`. Invariant: a template's fixed text is valid in a path.

use std::fmt;

use tiderace_topics::Path;

use crate::cursor::Cursor;
use crate::error::{Problem, ViewError};
use crate::expression::Expression;
use crate::expressions;
use crate::levels::Levels;
use crate::limits::{EXPANDS_MAX, TEMPLATE_PARTS_MAX};
use crate::pointer::{Place, Pointer};
use crate::quote::Quoted;

/// A path with parts to be filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(pub(crate) Vec<Part>);

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Text as it is.
    Text(Box<str>),
    /// Levels of the source's path.
    Path(Levels),
    /// A scalar, and what replaces the slashes in it.
    Scalar(Expression, Option<Box<str>>),
    /// One output for each element found there; the name is the element's, or what is found in it.
    Expand(Place, Option<Pointer>),
}

impl Template {
    /// Reads the template that comes next.
    pub(crate) fn parse(cursor: &mut Cursor<'_>, expands: bool) -> Result<Template, ViewError> {
        let start = cursor.next();
        let mut parts: Vec<Part> = Vec::new();
        let mut text = String::new();
        while !cursor.is_blank() {
            let at = cursor.here();
            match cursor.rest().chars().next() {
                Some('<') => {
                    cursor.pass(1);
                    flush(&mut parts, &mut text);
                    let part = directive(cursor, expands)?;
                    cursor.need(">", "`>` at the end of this part of the path")?;
                    parts.push(part);
                }
                Some('"') => text.push_str(&cursor.quoted()?),
                Some(letter) => {
                    text.push(letter);
                    cursor.pass(letter.len_utf8());
                }
                None => break,
            }
            if parts.len() > TEMPLATE_PARTS_MAX {
                let problem = Problem::TooMany { what: "parts in a path", max: TEMPLATE_PARTS_MAX };
                return Err(cursor.wrong(at, problem));
            }
        }
        flush(&mut parts, &mut text);
        if parts.is_empty() {
            return Err(cursor.unexpected("a path, such as `prices/<path(1)>`"));
        }
        let template = Template(parts);
        template.check(cursor, start)?;
        Ok(template)
    }

    /// Whether something is left to be seen from the value.
    pub(crate) fn looks_at_value(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Scalar(..) | Part::Expand(..)))
    }

    fn check(&self, cursor: &Cursor<'_>, start: usize) -> Result<(), ViewError> {
        let expands = self.0.iter().filter(|part| matches!(part, Part::Expand(..))).count();
        if expands > EXPANDS_MAX {
            let problem = Problem::TooMany { what: "`expand` in a path", max: EXPANDS_MAX };
            return Err(cursor.wrong(start, problem));
        }
        let sample: String = self
            .0
            .iter()
            .map(|part| if let Part::Text(text) = part { text } else { "x" })
            .collect();
        match Path::parse(&sample) {
            Ok(_) => Ok(()),
            Err(error) => Err(cursor.wrong(start, Problem::Path(error.to_string()))),
        }
    }
}

/// What stands between `<` and `>`.
fn directive(cursor: &mut Cursor<'_>, expands: bool) -> Result<Part, ViewError> {
    let name = cursor.word();
    match name {
        "path" => {
            cursor.pass(name.len());
            Levels::parse(cursor).map(Part::Path)
        }
        "scalar" => {
            cursor.pass(name.len());
            cursor.need("(", "`(`")?;
            let expression = cursor.nested(expressions::parse)?;
            let mut slash = None;
            if cursor.take(",") {
                if cursor.peek() != Some('"') {
                    return Err(cursor.unexpected("a text that replaces slashes, such as `\"-\"`"));
                }
                slash = Some(cursor.quoted()?.into());
            }
            cursor.need(")", "an operator, `,` or `)`")?;
            Ok(Part::Scalar(expression, slash))
        }
        "expand" if expands => {
            cursor.pass(name.len());
            cursor.need("(", "`(`")?;
            let Some(place) = Place::parse(cursor)? else {
                return Err(cursor.unexpected("a pointer to what is expanded, or `value`"));
            };
            let key = if cursor.take(",") { Some(Pointer::parse(cursor)?) } else { None };
            cursor.need(")", "`,` or `)`")?;
            Ok(Part::Expand(place, key))
        }
        "expand" => Err(cursor.unexpected("`path(…)` or `scalar(…)`; only `to` can expand")),
        _ => Err(cursor.unexpected("`path(…)`, `scalar(…)` or `expand(…)`")),
    }
}

fn flush(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text).into()));
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) if text.contains(needs_quotes) => Quoted(text).fmt(f)?,
                Part::Text(text) => f.write_str(text)?,
                Part::Path(levels) => write!(f, "<{levels}>")?,
                Part::Scalar(expression, None) => write!(f, "<scalar({expression})>")?,
                Part::Scalar(expression, Some(slash)) => {
                    write!(f, "<scalar({expression}, {})>", Quoted(slash))?;
                }
                Part::Expand(place, None) => write!(f, "<expand({place})>")?,
                Part::Expand(place, Some(key)) => write!(f, "<expand({place}, {key})>")?,
            }
        }
        Ok(())
    }
}

/// Comments begin with two hyphens, but only where something new begins.
fn needs_quotes(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '<' | '"' | '-' | '\\')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn levels_count_from_both_ends() {
        let path = Path::parse("a/bc/d").unwrap();
        for (from, count, expected) in [
            (0, None, Some("a/bc/d")),
            (1, None, Some("bc/d")),
            (2, None, Some("d")),
            (3, None, None),
            (0, Some(1), Some("a")),
            (1, Some(2), Some("bc/d")),
            (1, Some(3), None),
            (-1, None, Some("d")),
            (-2, Some(1), Some("bc")),
            (-3, None, Some("a/bc/d")),
            (-4, None, None),
        ] {
            assert_eq!(Levels { from, count }.of(&path), expected, "{from} {count:?}");
        }
    }
}
