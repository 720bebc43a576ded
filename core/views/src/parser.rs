//! Reads a whole view: sources, steps, template, steps, options.
//!
//! Relies on `cursor`, `expressions` and `template`. Invariant: every loop takes at least a word of
//! the text, and every list is counted against its limit.

use tiderace_base::SpanUnit;
use tiderace_topics::Selector;

use crate::cursor::Cursor;
use crate::error::{Problem, ViewError, shown_name};
use crate::expressions;
use crate::limits::{PROPERTIES_MAX, SPAN_MS_MAX, STEPS_MAX, THROTTLE_MAX};
use crate::parts::{Insert, Options, OutputType, Parts, Step, Throttle};
use crate::patch::Patch;
use crate::pointer::Pointer;
use crate::template::Template;

type Read<T> = Result<T, ViewError>;

/// Reads a view from its first to its last character.
pub(crate) fn parse(text: &str) -> Read<Parts> {
    let mut cursor = Cursor::new(text);
    if !cursor.take_word("map") {
        return Err(cursor.unexpected("`map` and the topics that the view follows"));
    }
    let sources = sources(&mut cursor)?;
    let upstream = upstream(&mut cursor)?;
    let mut left = STEPS_MAX;
    let before = steps(&mut cursor, &mut left)?;
    if !cursor.take_word("to") {
        let expected = "`to` and a path, or `where`, `set`, `remove`, `insert`, `patch`, `as`";
        return Err(cursor.unexpected(expected));
    }
    let to = Template::parse(&mut cursor, true)?;
    let after = steps(&mut cursor, &mut left)?;
    let options = options(&mut cursor)?;
    Ok(Parts { sources, upstream, before, to, after, options })
}

/// A selector: up to a blank, or a set in its brackets; in quotes if it holds blanks.
fn sources(cursor: &mut Cursor<'_>) -> Read<Selector> {
    let start = cursor.next();
    let text = if cursor.rest().starts_with('"') {
        cursor.quoted()?
    } else {
        let rest = cursor.rest();
        let text = rest.get(..selector_bytes(rest)).unwrap_or_default();
        cursor.pass(text.len());
        text.into()
    };
    if text.is_empty() {
        return Err(cursor.unexpected("a selector, such as `prices/*`"));
    }
    Selector::parse(&text)
        .map_err(|error| cursor.wrong(start, Problem::Selector(error.to_string())))
}

/// The name of an upstream behind `from`, in quotes if it has other characters than words have.
fn upstream(cursor: &mut Cursor<'_>) -> Read<Option<Box<str>>> {
    if !cursor.take_word("from") {
        return Ok(None);
    }
    cursor.next();
    let name = if cursor.rest().starts_with('"') {
        cursor.quoted()?
    } else {
        let rest = cursor.rest();
        let end = rest.find(|character| !is_upstream_name(character)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        cursor.pass(end);
        name.into()
    };
    if name.is_empty() {
        return Err(cursor.unexpected("the name of an upstream, such as `london`"));
    }
    Ok(Some(name.to_string().into()))
}

/// Whether a name of an upstream may have a character without quotes.
pub(crate) fn is_upstream_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// How long the selector is that a text begins with.
pub(crate) fn selector_bytes(text: &str) -> usize {
    let (mut depth, mut escaped) = (0usize, false);
    let is_set = text.starts_with('[');
    for (at, letter) in text.char_indices() {
        let plain = !escaped;
        escaped = letter == '\\' && plain;
        match letter {
            '[' if is_set && plain => depth += 1,
            ']' if is_set && plain => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ if letter.is_whitespace() && !is_set => return at,
            _ => {}
        }
    }
    text.len()
}

fn steps(cursor: &mut Cursor<'_>, left: &mut usize) -> Read<Vec<Step>> {
    let mut steps = Vec::new();
    loop {
        let at = cursor.next();
        let word = cursor.word();
        let read = match word {
            "where" => where_step,
            "set" => set_step,
            "remove" => remove_step,
            "insert" => insert_step,
            "patch" => patch_step,
            "as" => as_step,
            _ => return Ok(steps),
        };
        if *left == 0 {
            return Err(cursor.wrong(at, Problem::TooMany { what: "steps", max: STEPS_MAX }));
        }
        *left -= 1;
        cursor.pass(word.len());
        steps.push(read(cursor)?);
    }
}

fn where_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    expressions::parse(cursor).map(Step::Where)
}

fn as_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    expressions::parse(cursor).map(Step::As)
}

fn patch_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    let start = cursor.next();
    if cursor.peek() != Some('[') {
        return Err(cursor.unexpected("the operations of a JSON Patch: `[{\"op\": …}]`"));
    }
    let json = cursor.json()?;
    Patch::parse(json).map(Step::Patch).map_err(|problem| cursor.wrong(start, problem))
}

fn set_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    let mut fields = Vec::new();
    loop {
        let at = Pointer::parse(cursor)?;
        cursor.need("=", "`=` and a value")?;
        cursor.node()?;
        fields.push((at, expressions::parse(cursor)?));
        if !cursor.take(",") {
            return Ok(Step::Set(fields));
        }
    }
}

fn remove_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    let mut pointers = Vec::new();
    loop {
        cursor.node()?;
        pointers.push(Pointer::parse(cursor)?);
        if !cursor.take(",") {
            return Ok(Step::Remove(pointers));
        }
    }
}

fn insert_step(cursor: &mut Cursor<'_>) -> Read<Step> {
    cursor.node()?;
    let topic = Template::parse(cursor, false)?;
    cursor.next();
    let from = match Pointer::begins(cursor) {
        true => Pointer::parse(cursor)?,
        false => Pointer::default(),
    };
    if !cursor.take_word("at") {
        return Err(cursor.unexpected("a pointer into the topic's value, or `at`"));
    }
    let at = Pointer::parse(cursor)?;
    let otherwise = match cursor.take_word("or") {
        true => Some(expressions::parse(cursor)?),
        false => None,
    };
    Ok(Step::Insert(Box::new(Insert { topic, from, at, otherwise })))
}

fn options(cursor: &mut Cursor<'_>) -> Read<Options> {
    let mut options = Options::default();
    loop {
        let at = cursor.next();
        let word = cursor.word();
        let given = match word {
            "merge" => options.merge,
            "preserve" => options.preserve,
            "throttle" => options.throttle.is_some(),
            "delay" => options.delay_ms.is_some(),
            "type" => options.kind.is_some(),
            "with" => !options.properties.is_empty(),
            _ if cursor.rest().is_empty() => return Ok(options),
            _ => {
                let expected = "the next clause: `where`, `set`, `remove`, `insert`, `patch` or `as`, \
                     then `merge`, `throttle`, `delay`, `type`, `preserve` or `with`";
                return Err(cursor.unexpected(expected));
            }
        };
        if given {
            return Err(cursor.wrong(at, Problem::Twice(shown_name(word))));
        }
        cursor.pass(word.len());
        match word {
            "merge" => options.merge = true,
            "preserve" => options.preserve = true,
            "throttle" => options.throttle = Some(throttle(cursor)?),
            "delay" => options.delay_ms = Some(span(cursor)?),
            "type" => options.kind = Some(kind(cursor)?),
            _ => options.properties = properties(cursor)?,
        }
        if let Some(kind) = options.kind
            && options.merge
            && kind != OutputType::Json
        {
            return Err(cursor.wrong(at, Problem::Apart("merge", kind.name())));
        }
    }
}

fn throttle(cursor: &mut Cursor<'_>) -> Read<Throttle> {
    let at = cursor.next();
    let count = cursor.count("how many values, such as `5 per 1s`")?;
    let updates = u32::try_from(count).ok().filter(|count| (1..=THROTTLE_MAX).contains(count));
    let Some(updates) = updates else {
        let what = "the values in a window";
        return Err(cursor.wrong(at, Problem::Range { what, min: "1", max: "1000000" }));
    };
    if !cursor.take_word("per") {
        return Err(cursor.unexpected("`per` and a time, such as `1s`"));
    }
    Ok(Throttle { updates, window_ms: span(cursor)? })
}

fn span(cursor: &mut Cursor<'_>) -> Read<u64> {
    let at = cursor.next();
    let count = cursor.count("a time, such as `500ms` or `2s`")?;
    let unit = if cursor.is_blank() { "" } else { cursor.word() };
    let Some(SpanUnit { ms: unit_ms, .. }) = SpanUnit::named(unit) else {
        return Err(
            cursor.unexpected("a unit of time right behind the number: `ms`, `s`, `m`, `h` or `d`")
        );
    };
    cursor.pass(unit.len());
    let ms = count.checked_mul(unit_ms).filter(|ms| (1..=SPAN_MS_MAX).contains(ms));
    let range = Problem::Range { what: "a time", min: "1ms", max: "7d" };
    ms.ok_or_else(|| cursor.wrong(at, range))
}

fn kind(cursor: &mut Cursor<'_>) -> Read<OutputType> {
    let word = cursor.word();
    match OutputType::ALL.into_iter().find(|kind| kind.name() == word) {
        Some(kind) => {
            cursor.pass(word.len());
            Ok(kind)
        }
        None => Err(cursor
            .unexpected("a type: `json`, `string`, `binary`, `int64`, `double` or `timeseries`")),
    }
}

fn properties(cursor: &mut Cursor<'_>) -> Read<Vec<(Box<str>, Box<str>)>> {
    let mut properties: Vec<(Box<str>, Box<str>)> = Vec::new();
    loop {
        let at = cursor.next();
        let name = bare(cursor, "the name of a property, such as `history`")?;
        if properties.iter().any(|(known, _)| **known == *name) {
            return Err(cursor.wrong(at, Problem::Twice(shown_name(name))));
        }
        if properties.len() == PROPERTIES_MAX {
            let problem = Problem::TooMany { what: "properties", max: PROPERTIES_MAX };
            return Err(cursor.wrong(at, problem));
        }
        cursor.need("=", "`=` and the value of the property")?;
        let value: Box<str> = match cursor.peek() {
            Some('"') => cursor.quoted()?.into(),
            _ => bare(cursor, "the value of the property")?.into(),
        };
        properties.push((name.into(), value));
        if !cursor.take(",") {
            return Ok(properties);
        }
    }
}

/// A name or value of a property without quotes.
fn bare<'t>(cursor: &mut Cursor<'t>, expected: &'static str) -> Read<&'t str> {
    cursor.next();
    let rest = cursor.rest();
    let end = rest.find(|letter| !is_bare_property(letter)).unwrap_or(rest.len());
    if end == 0 {
        return Err(cursor.unexpected(expected));
    }
    cursor.pass(end);
    Ok(rest.get(..end).unwrap_or_default())
}

/// What needs no quotes in a property.
pub(crate) fn is_bare_property(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.')
}
