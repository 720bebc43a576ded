//! A value while a view works on it: slices of JSON until a part of it is changed.
//!
//! Relies on `budget`. Invariant: whatever is built or passed over has been paid for; recursion is
//! bounded by [`VALUE_DEPTH_MAX`] and by the levels that pointers of the view add; of an object's
//! fields no two have one name.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use tiderace_base::Number;
use tiderace_value::{Json, JsonKind, append_text, element_index, part};

use crate::budget::{Budget, Stop};
use crate::limits::VALUE_DEPTH_MAX;
use crate::number;

/// A value of JSON.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    /// As it came.
    Json(Json<'a>),
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

/// What a value is, if it has no parts.
#[derive(Debug)]
pub(crate) enum Scalar<'v> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'v, str>),
}

/// A value, or none; an error if a limit is reached.
pub(crate) type Found<'a> = Result<Option<Value<'a>>, Stop>;

const _: () = assert!(size_of::<Value<'_>>() <= 32, "a large array has many");

impl<'a> Value<'a> {
    /// Another one of it.
    pub(crate) fn copy(&self, budget: &mut Budget) -> Result<Value<'a>, Stop> {
        budget.piece()?;
        Ok(match self {
            Value::Json(json) => Value::Json(*json),
            Value::Null => Value::Null,
            Value::Bool(truth) => Value::Bool(*truth),
            Value::Number(number) => Value::Number(*number),
            Value::Text(text) => {
                budget.bytes(text.len())?;
                Value::Text(text.clone())
            }
            Value::Array(elements) => Value::Array(
                elements.iter().map(|element| element.copy(budget)).collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => {
                let mut copies = Vec::new();
                for (name, value) in fields {
                    budget.bytes(name.len())?;
                    copies.push((name.clone(), value.copy(budget)?));
                }
                Value::Object(copies)
            }
        })
    }

    /// The scalar it is. To read a text of JSON is to pass over it.
    pub(crate) fn scalar(&self, budget: &mut Budget) -> Result<Option<Scalar<'_>>, Stop> {
        if let Value::Json(json) = self
            && json.kind() == JsonKind::Text
        {
            budget.bytes(json.text().len())?;
        }
        Ok(self.known_scalar())
    }

    fn known_scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Value::Null => Scalar::Null,
            Value::Bool(truth) => Scalar::Bool(*truth),
            Value::Number(number) => Scalar::Number(*number),
            Value::Text(text) => Scalar::Text(Cow::Borrowed(text)),
            Value::Array(_) | Value::Object(_) => return None,
            Value::Json(json) => match json.kind() {
                JsonKind::Null => Scalar::Null,
                JsonKind::Bool => Scalar::Bool(json.as_bool()?),
                JsonKind::Number => Scalar::Number(number::read(json.text())?),
                JsonKind::Text => Scalar::Text(json.as_text()?),
                JsonKind::Array | JsonKind::Object => return None,
            },
        })
    }

    /// The text of a scalar, without quotes. Numbers are written in their shortest form, so that `1.0`
    /// and `1` are one text; what that form would round stays as it was written, so that two numbers
    /// are never one text.
    pub(crate) fn text(&self, budget: &mut Budget) -> Result<Option<Cow<'_, str>>, Stop> {
        if let Value::Json(json) = self
            && json.kind() == JsonKind::Number
        {
            budget.bytes(json.text().len())?;
            let short = number::read(json.text()).filter(|number| number::says(*number, *json));
            return Ok(Some(match short {
                Some(number) => Cow::Owned(number.to_string()),
                None => Cow::Borrowed(json.text()),
            }));
        }
        Ok(self.scalar(budget)?.map(Scalar::into_text))
    }

    /// Reads a text of JSON once, so that comparing it often costs no more than that.
    pub(crate) fn read_text(&mut self, budget: &mut Budget) -> Result<(), Stop> {
        let Value::Json(json) = self else {
            return Ok(());
        };
        if let Some(text) = json.as_text() {
            budget.bytes(json.text().len())?;
            *self = Value::Text(text);
        }
        Ok(())
    }

    /// The part at a place, if there is one.
    pub(crate) fn at(
        &self,
        levels: &[Box<str>],
        budget: &mut Budget,
    ) -> Result<Option<Value<'a>>, Stop> {
        budget.step()?;
        let Some((level, below)) = levels.split_first() else {
            return self.copy(budget).map(Some);
        };
        match self {
            Value::Json(json) => match look(*json, levels, budget)? {
                Some(found) => Ok(Some(Value::Json(found))),
                None => Ok(None),
            },
            Value::Array(elements) => match element_index(level).and_then(|at| elements.get(at)) {
                Some(element) => element.at(below, budget),
                None => Ok(None),
            },
            Value::Object(fields) => match find(fields, level, budget)? {
                Some((_, value)) => value.at(below, budget),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Puts a value at a place. Objects on the way that do not exist are made; where something else
    /// than an object or an array stands in the way, nothing is put. Whether it was put.
    pub(crate) fn set(
        &mut self,
        levels: &[Box<str>],
        new: Value<'a>,
        budget: &mut Budget,
    ) -> Result<bool, Stop> {
        let Some((level, below)) = levels.split_first() else {
            *self = new;
            return Ok(true);
        };
        self.open(budget)?;
        match self {
            Value::Array(elements) => {
                let end = elements.len();
                let at = if **level == *"-" { Some(end) } else { element_index(level) };
                match at.and_then(|at| elements.get_mut(at)) {
                    Some(element) => element.set(below, new, budget),
                    None if at == Some(end) => {
                        budget.piece()?;
                        elements.push(wrapped(below, new, budget)?);
                        Ok(true)
                    }
                    None => Ok(false),
                }
            }
            Value::Object(fields) => {
                budget.bytes(fields.len() * FIELD_BYTES)?;
                match fields.iter_mut().rfind(|(name, _)| **name == **level) {
                    Some((_, value)) => value.set(below, new, budget),
                    None => {
                        budget.piece()?;
                        budget.bytes(level.len())?;
                        let name = Cow::Owned(level.to_string());
                        fields.push((name, wrapped(below, new, budget)?));
                        Ok(true)
                    }
                }
            }
            _ => Ok(false),
        }
    }

    /// Takes the part at a place out, if there is one.
    pub(crate) fn remove(
        &mut self,
        levels: &[Box<str>],
        budget: &mut Budget,
    ) -> Result<Option<Value<'a>>, Stop> {
        let Some((last, above)) = levels.split_last() else {
            return Ok(None);
        };
        // Asked first, so that what is not there costs no opening.
        if self.at(levels, budget)?.is_none() {
            return Ok(None);
        }
        let Some(parent) = self.open_at(above, budget)? else {
            return Ok(None);
        };
        match parent {
            Value::Array(elements) => match element_index(last).filter(|at| *at < elements.len()) {
                Some(at) => {
                    budget.bytes((elements.len() - at) * size_of::<Value<'_>>())?;
                    Ok(Some(elements.remove(at)))
                }
                None => Ok(None),
            },
            Value::Object(fields) => {
                budget.bytes(fields.len() * FIELD_BYTES)?;
                let at = fields.iter().position(|(name, _)| **name == **last);
                Ok(at.map(|at| fields.remove(at).1))
            }
            _ => Ok(None),
        }
    }

    /// Appends it as JSON.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<(), Stop> {
        budget.step()?;
        let left = VALUE_DEPTH_MAX.saturating_sub(depth);
        if left == 0 && matches!(self, Value::Array(_) | Value::Object(_)) {
            return Err(Stop::Depth);
        }
        match self {
            Value::Json(json) => {
                budget.bytes(json.text().len())?;
                // Each level has two brackets, so what is short needs no look.
                let may_be_deep = depth > 0 && json.text().len() / 2 > left;
                if may_be_deep && Json::parse(json.text().as_bytes(), left).is_err() {
                    return Err(Stop::Depth);
                }
                out.extend_from_slice(json.text().as_bytes());
            }
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Text(text) => {
                budget.bytes(text.len())?;
                append_text(out, text);
            }
            Value::Array(elements) => {
                out.push(b'[');
                for (number, element) in elements.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    element.write(out, depth + 1, budget)?;
                }
                out.push(b']');
            }
            Value::Object(fields) => {
                out.push(b'{');
                for (number, (name, value)) in fields.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    budget.bytes(name.len())?;
                    append_text(out, name);
                    out.push(b':');
                    value.write(out, depth + 1, budget)?;
                }
                out.push(b'}');
            }
        }
        if out.len() > budget.limits.output_bytes_max {
            return Err(Stop::OutputBytes(budget.limits.output_bytes_max));
        }
        Ok(())
    }

    /// Whether both are the same value: numbers by their size, objects whatever the order of their
    /// fields.
    pub(crate) fn equals(&self, other: &Value<'_>, budget: &mut Budget) -> Result<bool, Stop> {
        budget.step()?;
        match (self.scalar(budget)?, other.scalar(budget)?) {
            (Some(left), Some(right)) => {
                if let (Scalar::Text(left), Scalar::Text(right)) = (&left, &right) {
                    budget.bytes(left.len().min(right.len()))?;
                }
                return Ok(left.order(&right) == Some(Ordering::Equal));
            }
            (None, None) => {}
            _ => return Ok(false),
        }
        let (mut left, mut right) = (self.copy(budget)?, other.copy(budget)?);
        left.open(budget)?;
        right.open(budget)?;
        match (&left, &right) {
            (Value::Array(left), Value::Array(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(right) {
                    if !left.equals(right, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(left), Value::Object(right)) => {
                // Without names that come twice, as many fields are the same fields.
                Ok(left.len() == right.len() && within(left, right, budget)?)
            }
            // Numbers that are too long to calculate with.
            (Value::Json(left), Value::Json(right)) => Ok(left.text() == right.text()),
            _ => Ok(false),
        }
    }

    /// Makes an array or object of JSON one of pieces, so that a piece can be changed.
    pub(crate) fn open(&mut self, budget: &mut Budget) -> Result<(), Stop> {
        let Value::Json(json) = self else {
            return Ok(());
        };
        let json = *json;
        match json.kind() {
            JsonKind::Array => {
                budget.bytes(json.text().len())?;
                let mut elements = Vec::new();
                for element in json.elements() {
                    budget.piece()?;
                    elements.push(Value::Json(element));
                }
                *self = Value::Array(elements);
            }
            JsonKind::Object => {
                budget.bytes(json.text().len())?;
                let mut fields = Vec::new();
                for (name, value) in json.fields() {
                    budget.piece()?;
                    fields.push((name.as_text().unwrap_or_default(), Value::Json(value)));
                }
                drop_superseded(&mut fields);
                *self = Value::Object(fields);
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens everything on the way to a place and the place itself.
    fn open_at(
        &mut self,
        levels: &[Box<str>],
        budget: &mut Budget,
    ) -> Result<Option<&mut Value<'a>>, Stop> {
        let mut value = self;
        value.open(budget)?;
        for level in levels {
            let below = match value {
                Value::Array(elements) => element_index(level).and_then(|at| elements.get_mut(at)),
                Value::Object(fields) => {
                    budget.bytes(fields.len() * FIELD_BYTES)?;
                    let field = fields.iter_mut().rfind(|(name, _)| **name == **level);
                    field.map(|(_, value)| value)
                }
                _ => None,
            };
            let Some(below) = below else {
                return Ok(None);
            };
            below.open(budget)?;
            value = below;
        }
        Ok(Some(value))
    }
}

/// What comparing one name passes over; most differ in length or in the first bytes.
const FIELD_BYTES: usize = 4;

/// Of fields with equal names leaves the last, which counts.
fn drop_superseded(fields: &mut Vec<Field<'_>>) {
    let mut names = BTreeSet::new();
    let mut superseded: Vec<usize> = Vec::new();
    for (at, (name, _)) in fields.iter().enumerate().rev() {
        if !names.insert(&**name) {
            superseded.push(at);
        }
    }
    if superseded.is_empty() {
        return;
    }
    let mut at = 0;
    fields.retain(|_| {
        let goes = superseded.last() == Some(&at);
        if goes {
            superseded.pop();
        }
        at += 1;
        !goes
    });
}

/// Whether every field has an equal one on the other side.
fn within(
    left: &[(Cow<'_, str>, Value<'_>)],
    right: &[(Cow<'_, str>, Value<'_>)],
    budget: &mut Budget,
) -> Result<bool, Stop> {
    for (name, mine) in left {
        let Some((_, theirs)) = find(right, name, budget)? else {
            return Ok(false);
        };
        if !mine.equals(theirs, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

type Field<'a> = (Cow<'a, str>, Value<'a>);

/// The field of a name.
fn find<'v, 'a>(
    fields: &'v [Field<'a>],
    name: &str,
    budget: &mut Budget,
) -> Result<Option<&'v Field<'a>>, Stop> {
    budget.bytes(fields.len() * FIELD_BYTES)?;
    Ok(fields.iter().rfind(|(known, _)| *known == *name))
}

/// The part of a piece of JSON.
fn look<'a>(
    json: Json<'a>,
    levels: &[Box<str>],
    budget: &mut Budget,
) -> Result<Option<Json<'a>>, Stop> {
    let mut json = json;
    for level in levels {
        budget.bytes(json.text().len())?;
        match part(json, level) {
            Some(below) => json = below,
            None => return Ok(None),
        }
    }
    Ok(Some(json))
}

/// A value inside objects of those names.
fn wrapped<'a>(
    levels: &[Box<str>],
    value: Value<'a>,
    budget: &mut Budget,
) -> Result<Value<'a>, Stop> {
    let mut value = value;
    for level in levels.iter().rev() {
        budget.piece()?;
        budget.bytes(level.len())?;
        value = Value::Object(vec![(Cow::Owned(level.to_string()), value)]);
    }
    Ok(value)
}

impl<'v> Scalar<'v> {
    /// Their order, if they are of one kind.
    pub(crate) fn order(&self, other: &Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => Some(Ordering::Equal),
            (Scalar::Bool(left), Scalar::Bool(right)) => Some(left.cmp(right)),
            (Scalar::Number(left), Scalar::Number(right)) => Some(left.order(*right)),
            (Scalar::Text(left), Scalar::Text(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    /// It as text, without quotes.
    fn into_text(self) -> Cow<'v, str> {
        match self {
            Scalar::Null => Cow::Borrowed("null"),
            Scalar::Bool(true) => Cow::Borrowed("true"),
            Scalar::Bool(false) => Cow::Borrowed("false"),
            Scalar::Number(number) => Cow::Owned(number.to_string()),
            Scalar::Text(text) => text,
        }
    }
}

/// The number that a value is.
pub(crate) fn number_of(
    found: Option<Value<'_>>,
    budget: &mut Budget,
) -> Result<Option<Number>, Stop> {
    let Some(found) = found else {
        return Ok(None);
    };
    Ok(match found.scalar(budget)? {
        Some(Scalar::Number(number)) => Some(number),
        _ => None,
    })
}
