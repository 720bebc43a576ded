//! Equality of values and order of scalars, by what they mean and not by how they are written.
//!
//! Relies on `number` for exact numbers. Invariant: two values are equal exactly if their canonical
//! texts are: names sorted, of equal names the last, escapes resolved, each number in one form.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::limits::{Budget, Spent};
use crate::number::Decimal;
use crate::write::append_text;
use crate::{Json, JsonKind};

/// The order of two values of one kind that have no parts: numbers exactly and not as floating point,
/// strings by code points, `false` before `true`. Nothing for values of two kinds, and for arrays and
/// objects.
pub fn scalar_order(one: Json<'_>, other: Json<'_>) -> Option<Ordering> {
    match (one.kind(), other.kind()) {
        (JsonKind::Null, JsonKind::Null) => Some(Ordering::Equal),
        (JsonKind::Bool, JsonKind::Bool) => Some(one.as_bool().cmp(&other.as_bool())),
        (JsonKind::Number, JsonKind::Number) => {
            Some(Decimal::of(one.text()).order(Decimal::of(other.text())))
        }
        // The order of UTF-8 is the order of code points.
        (JsonKind::Text, JsonKind::Text) => Some(one.as_text().cmp(&other.as_text())),
        _ => None,
    }
}

/// Whether two values mean the same: the order of fields does not count, of equal names the last
/// does, and numbers are equal by value, so `1`, `1.0` and `10e-1` are.
///
/// Takes time in proportion to the values times their nesting.
pub fn equal(one: Json<'_>, other: Json<'_>) -> bool {
    equal_within(one, other, &mut Budget::endless()).unwrap_or(false)
}

/// The same, paid from a budget.
pub(crate) fn equal_within(
    one: Json<'_>,
    other: Json<'_>,
    budget: &mut Budget,
) -> Result<bool, Spent> {
    if one.text() == other.text() {
        budget.pass(one.text())?;
        return Ok(true);
    }
    if one.kind() != other.kind() {
        return Ok(false);
    }
    match one.kind() {
        JsonKind::Array | JsonKind::Object => {
            Ok(canonical(one, budget)? == canonical(other, budget)?)
        }
        _ => {
            budget.pass(one.text())?;
            budget.pass(other.text())?;
            Ok(scalar_order(one, other) == Some(Ordering::Equal))
        }
    }
}

/// The one text that all equal values have. It is longer than the value by a bounded factor.
pub(crate) fn canonical(json: Json<'_>, budget: &mut Budget) -> Result<Vec<u8>, Spent> {
    let mut out = Vec::new();
    append_canonical(json, &mut out, budget)?;
    Ok(out)
}

/// Recurses no more deeply than values are nested, which is at most [`DEPTH_MAX`](crate::DEPTH_MAX).
fn append_canonical(json: Json<'_>, out: &mut Vec<u8>, budget: &mut Budget) -> Result<(), Spent> {
    budget.pass(json.text())?;
    match json.kind() {
        JsonKind::Null | JsonKind::Bool => out.extend_from_slice(json.text().as_bytes()),
        JsonKind::Number => Decimal::of(json.text()).append_canonical(out),
        JsonKind::Text => append_text(out, &json.as_text().unwrap_or_default()),
        JsonKind::Array => {
            out.push(b'[');
            for element in json.elements() {
                append_canonical(element, out, budget)?;
                out.push(b',');
            }
            out.push(b']');
        }
        JsonKind::Object => {
            let mut fields: Vec<(Cow<'_, str>, Json<'_>)> = json
                .fields()
                .map(|(name, value)| (name.as_text().unwrap_or_default(), value))
                .collect();
            budget.spend(fields.len())?;
            // A stable sort, so that of equal names the last stays last.
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push(b'{');
            let mut fields = fields.into_iter().peekable();
            while let Some((name, value)) = fields.next() {
                if fields.peek().is_some_and(|(next, _)| *next == name) {
                    continue;
                }
                append_text(out, &name);
                out.push(b':');
                append_canonical(value, out, budget)?;
                out.push(b',');
            }
            out.push(b'}');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes(), 16).unwrap()
    }

    #[test]
    fn equality_is_by_meaning() {
        for (one, other) in [
            ("1", "1.0"),
            ("[100, -0]", "[1e2,0]"),
            (r#"{"a":1,"b":[{"c":2,"d":3}]}"#, r#"{ "b":[{"d":3.0,"c":2}], "a":1 }"#),
            (r#""\u0061/""#, r#""a\/""#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
        ] {
            assert!(equal(json(one), json(other)), "{one} {other}");
        }
        for (one, other) in [
            ("1", "\"1\""),
            ("0", "false"),
            ("null", "[]"),
            ("[1,2]", "[2,1]"),
            ("[1,[2]]", "[[1],2]"),
            ("[12]", "[1,2]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":1}"#),
            ("9007199254740993", "9007199254740992"),
            (r#"["a\",\"b"]"#, r#"["a","b"]"#),
        ] {
            assert!(!equal(json(one), json(other)), "{one} {other}");
        }
    }

    #[test]
    fn scalars_of_one_kind_have_an_order() {
        let order = |one: &str, other: &str| scalar_order(json(one), json(other));
        assert_eq!(order("0.10", "0.1"), Some(Ordering::Equal));
        assert_eq!(order("\"Z\"", "\"a\""), Some(Ordering::Less));
        assert_eq!(order("\"\\uffff\"", "\"😀\""), Some(Ordering::Less));
        assert_eq!(order("false", "true"), Some(Ordering::Less));
        assert_eq!(order("null", "null"), Some(Ordering::Equal));
        assert_eq!(order("1", "\"1\""), None);
        assert_eq!(order("[]", "[]"), None);
    }

    #[test]
    fn comparing_is_paid_for() {
        let long = format!("[{}1]", "[],".repeat(1000));
        let other = format!("[{}2]", "[],".repeat(1000));
        let mut budget = Budget::new(500);
        assert_eq!(equal_within(json(&long), json(&other), &mut budget), Err(Spent));
        assert!(!equal(json(&long), json(&other)));
    }
}
