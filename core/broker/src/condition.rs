//! Conditions of updates, and what the values of a topic have to be.
//!
//! Looked at by the topic's home just before it writes. Relies on conditions being bounded where they
//! are read from the wire; here nesting is bounded once more. Invariant: a value is parsed and walked
//! once for an operation, however many of its conditions look into it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tiderace_base::limits::CHANGED_VALUE_BYTES_MAX;
use tiderace_base::{Close, CloseCode, Now};
use tiderace_topics::Path;
use tiderace_value::{Json, Pointer, equal, is_binary_content, resolve_all, scalar_order};
use tiderace_wire::{Comparison, Condition, Flags, Message, Run, TopicSpec, ValueType, properties};

use crate::home_side::HomeSide;
use crate::price;
use crate::requester::Requester;
use crate::work::{PRICE_MAX, Work};

const NESTING_MAX: usize = 16;
/// Steps of holding one value to a schema: some ten milliseconds.
const SCHEMA_STEPS_MAX: usize = 1_000_000;

const _: () = assert!(SCHEMA_STEPS_MAX as u64 * price::STEP <= PRICE_MAX);

/// How deeply values may be nested that a topic's type or a condition wants looked into.
pub(crate) const JSON_DEPTH_MAX: usize = 256;

impl HomeSide<'_> {
    /// Whether what an update depends on holds.
    pub(crate) fn check_condition(
        &self,
        requester: &Requester,
        path: &Path,
        value: Option<&Run>,
        condition: &Condition,
    ) -> Result<(), Close> {
        let body = value.and_then(|run| run.message(0)).map(|message| message.body);
        let places = places_of(path, body, condition)?;
        let subject = Subject { requester, path, value, body, places: &places };
        if self.holds(&subject, condition, 0)? {
            return Ok(());
        }
        let state = value.map_or_else(
            || "has no value".to_owned(),
            |run| format!("is in version {}", run.version()),
        );
        let reason = format!("the condition does not hold: {path} {state}; nothing was changed");
        Err(Close::new(CloseCode::ConditionFailed, reason))
    }

    fn holds(
        &self,
        subject: &Subject<'_>,
        condition: &Condition,
        depth: usize,
    ) -> Result<bool, Close> {
        if depth > NESTING_MAX {
            return Err(CloseCode::TooMuchWork.into());
        }
        let &Subject { requester, path, value, body, places } = subject;
        Ok(match condition {
            Condition::Absent => value.is_none(),
            Condition::Present => value.is_some(),
            Condition::Version(version) => value.is_some_and(|run| run.version() == *version),
            Condition::Value(wanted) => body == Some(wanted),
            Condition::Place { pointer, comparison, value } => {
                compares(places.get(&**pointer).copied().flatten(), *comparison, value)?
            }
            Condition::Locked(name) => self.fence_holds(path, name, requester.fence),
            Condition::All(all) => {
                for condition in all {
                    if !self.holds(subject, condition, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            Condition::Any(any) => {
                for condition in any {
                    if self.holds(subject, condition, depth + 1)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

/// What a condition is about.
struct Subject<'a> {
    requester: &'a Requester,
    path: &'a Path,
    value: Option<&'a Run>,
    body: Option<&'a [u8]>,
    places: &'a Places<'a>,
}

/// By pointer, what stands at the places of a value that a condition names.
type Places<'a> = BTreeMap<&'a str, Option<Json<'a>>>;

/// Finds all places of a value that a condition names, in one pass over the value. Nothing stands
/// anywhere in a value that is not JSON.
fn places_of<'a>(
    path: &Path,
    body: Option<&'a [u8]>,
    condition: &'a Condition,
) -> Result<Places<'a>, Close> {
    let mut places = Places::new();
    note_places(condition, 0, &mut places);
    let Some(body) = body.filter(|_| !places.is_empty()) else { return Ok(places) };
    may_look_into(path, body)?;
    let pointers: Result<Vec<Pointer>, _> =
        places.keys().map(|text| Pointer::parse(text)).collect();
    let pointers =
        pointers.map_err(|wrong| Close::new(CloseCode::BadOperation, wrong.to_string()))?;
    if let Ok(json) = Json::parse(body, JSON_DEPTH_MAX) {
        for (place, found) in places.values_mut().zip(resolve_all(json, &pointers)) {
            *place = found;
        }
    }
    Ok(places)
}

fn note_places<'a>(condition: &'a Condition, depth: usize, places: &mut Places<'a>) {
    match condition {
        Condition::Place { pointer, .. } => {
            places.insert(pointer, None);
        }
        Condition::All(parts) | Condition::Any(parts) if depth <= NESTING_MAX => {
            parts.iter().for_each(|part| note_places(part, depth + 1, places));
        }
        _ => {}
    }
}

/// Whether a value is small enough to be looked into, patched or merged.
pub(crate) fn may_look_into(path: &Path, body: &[u8]) -> Result<(), Close> {
    if body.len() <= CHANGED_VALUE_BYTES_MAX {
        return Ok(());
    }
    let reason = format!(
        "the value of {path} has {} bytes; patches, merges and conditions on places are for values of at \
         most {CHANGED_VALUE_BYTES_MAX}: ask for a version instead, and give the value whole or as a delta",
        body.len()
    );
    Err(Close::new(CloseCode::TooMuchWork, reason))
}

/// Whether all messages of a run may be values of a topic.
#[inline]
pub(crate) fn check_values(spec: &TopicSpec, run: &Run, work: &mut Work) -> Result<(), Close> {
    if matches!(spec.value, ValueType::Any | ValueType::Binary) && spec.schema.is_none() {
        return Ok(());
    }
    run.messages().try_for_each(|message| check_message(spec, run, &message, work))
}

/// The same from one place on and as long as the turn lasts, but one at least: the place up to which all
/// are such. What one of them costs is bounded by itself, whatever the others cost.
pub(crate) fn check_some(
    spec: &TopicSpec,
    run: &Run,
    from: usize,
    now: Now,
    work: &mut Work,
) -> Result<usize, Close> {
    for place in from..run.len() {
        if place > from && work.left(now) == 0 {
            return Ok(place);
        }
        if let Some(message) = run.message(place) {
            check_message(spec, run, &message, work)?;
        }
    }
    Ok(run.len())
}

fn check_message(
    spec: &TopicSpec,
    run: &Run,
    message: &Message<'_>,
    work: &mut Work,
) -> Result<(), Close> {
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        return Ok(());
    }
    let fits = fits_content(message.properties)
        .and_then(|()| {
            spec.value.check(message.body, JSON_DEPTH_MAX).map_err(|bad| bad.to_string())
        })
        .and_then(|()| fits_schema(spec, message.body, work));
    fits.map_err(|problem| {
        let path = &run.destination().path;
        let reason = format!("{path} takes values of type {}: {problem}", spec.value.name());
        Close::new(CloseCode::BadValue, reason)
    })
}

/// Whether what is said of a value lets it be text, which all types are that are checked. A number in
/// CBOR may look like one in JSON.
fn fits_content(block: &[u8]) -> Result<(), String> {
    match properties::find(block, "content-type") {
        Some(kind) if is_binary_content(&kind) => {
            Err(format!("its content type says {kind:?}, which is never text"))
        }
        _ => Ok(()),
    }
}

fn fits_schema(spec: &TopicSpec, body: &[u8], work: &mut Work) -> Result<(), String> {
    let Some(schema) = &spec.schema else { return Ok(()) };
    let json = Json::parse(body, JSON_DEPTH_MAX).map_err(|bad| bad.to_string())?;
    let (fits, taken) = schema.check(json, SCHEMA_STEPS_MAX);
    work.charge(price::STEP * taken as u64 + body.len() as u64);
    fits.map_err(|bad| bad.to_string())
}

/// Whether a place of a value compares so. What is not there, and a value that is not JSON, equals
/// nothing.
fn compares(found: Option<Json<'_>>, comparison: Comparison, value: &[u8]) -> Result<bool, Close> {
    let bad = |wrong: String| Close::new(CloseCode::BadOperation, wrong);
    let wanted = match comparison {
        Comparison::Exists => return Ok(found.is_some()),
        Comparison::Missing => return Ok(found.is_none()),
        _ => Json::parse(value, JSON_DEPTH_MAX).map_err(|wrong| bad(wrong.to_string()))?,
    };
    let Some(found) = found else { return Ok(comparison == Comparison::NotEqual) };
    let order = || scalar_order(found, wanted);
    Ok(match comparison {
        Comparison::Equal => equal(found, wanted),
        Comparison::NotEqual => !equal(found, wanted),
        Comparison::Less => order().is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
        Comparison::Greater => order().is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        Comparison::Exists | Comparison::Missing => false,
    })
}
