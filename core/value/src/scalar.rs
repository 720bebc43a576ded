//! Bodies of messages by the type of their topic's values, and numbers in their one form.
//!
//! Relies on nothing but JSON. Invariant: what is written is read back as the same number, and equal
//! numbers are written as the same bytes: whole numbers as digits, others as JavaScript writes them.

use std::borrow::Cow;

use crate::number::Decimal;
use crate::{Json, JsonError, JsonKind};

/// What a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyType {
    /// Whatever it is.
    #[default]
    Any,
    /// JSON text.
    Json,
    /// UTF-8 text.
    Text,
    /// A whole number of 64 bits with sign, as JSON text.
    Int64,
    /// A finite number of 64 bits with a point, as JSON text.
    Double,
    /// Bytes.
    Binary,
}

/// Why a body is not of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not JSON.
    #[error("the value is not JSON: {0}")]
    Json(#[from] JsonError),
    /// Not UTF-8.
    #[error("the value is not UTF-8 text: byte {0} is wrong")]
    Text(usize),
    /// Not a number.
    #[error("the value is not a number: send it as JSON writes numbers, such as -12.5")]
    Number,
    /// Not whole, or too large.
    #[error("the value is not a whole number from -2^63 to 2^63-1")]
    Int64,
    /// Too large.
    #[error("the value is greater than a number of 64 bits with a point can be")]
    Double,
}

impl BodyType {
    /// All types with their names.
    pub const ALL: [(&'static str, BodyType); 6] = [
        ("any", BodyType::Any),
        ("json", BodyType::Json),
        ("string", BodyType::Text),
        ("int64", BodyType::Int64),
        ("double", BodyType::Double),
        ("binary", BodyType::Binary),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        BodyType::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Checks a body; JSON may be nested so deeply.
    ///
    /// # Errors
    /// Says what it is not.
    pub fn check(self, body: &[u8], depth_max: usize) -> Result<(), BodyError> {
        match self {
            BodyType::Any | BodyType::Binary => Ok(()),
            BodyType::Json => Ok(Json::parse(body, depth_max).map(|_| ())?),
            BodyType::Text => simdutf8::compat::from_utf8(body)
                .map(|_| ())
                .map_err(|error| BodyError::Text(error.valid_up_to())),
            BodyType::Int64 => int64(body).map(|_| ()),
            BodyType::Double => double(body).map(|_| ()),
        }
    }

    /// The body in the one form that equal bodies have: numbers are written anew, all else stays.
    ///
    /// # Errors
    /// Says what it is not.
    pub fn canonical(self, body: &[u8], depth_max: usize) -> Result<Cow<'_, [u8]>, BodyError> {
        let mut out = Vec::new();
        match self {
            BodyType::Int64 => append_int64(&mut out, int64(body)?),
            BodyType::Double => append_double(&mut out, double(body)?),
            _ => {
                self.check(body, depth_max)?;
                return Ok(Cow::Borrowed(body));
            }
        }
        Ok(if out == body { Cow::Borrowed(body) } else { Cow::Owned(out) })
    }
}

/// The whole number that a body says; `1e3` and `10.0` are whole numbers too.
///
/// # Errors
/// If it is no number, has a fraction or does not fit.
pub fn int64(body: &[u8]) -> Result<i64, BodyError> {
    Decimal::of(number(body)?).as_integer().ok_or(BodyError::Int64)
}

/// The nearest number of 64 bits to the one that a body says.
///
/// # Errors
/// If it is no number or too large.
pub fn double(body: &[u8]) -> Result<f64, BodyError> {
    let number: f64 = number(body)?.parse().map_err(|_| BodyError::Number)?;
    if number.is_finite() { Ok(number) } else { Err(BodyError::Double) }
}

/// Appends a whole number.
pub fn append_int64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// Appends a finite number with as few digits as it needs, as JavaScript does: `0.000001`, `1e-7`,
/// `100000000000000000000`, `1e+21`, and `0` for both zeros. What is not finite becomes `null`, as in
/// JavaScript.
pub fn append_double(out: &mut Vec<u8>, number: f64) {
    if !number.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    if number == 0.0 {
        out.push(b'0');
        return;
    }
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(|letter| *letter != '.').collect();
    // The point stands behind so many digits.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    if number < 0.0 {
        out.push(b'-');
    }
    let plain = match point {
        1..=21 => {
            let whole = point as usize;
            match digits.split_at_checked(whole).filter(|(_, part)| !part.is_empty()) {
                Some((whole, part)) => format!("{whole}.{part}"),
                None => format!("{digits:0<whole$}"),
            }
        }
        -5..=0 => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        _ => {
            let sign = if point > 0 { "+" } else { "" };
            format!("{mantissa}e{sign}{}", point - 1)
        }
    };
    out.extend_from_slice(plain.as_bytes());
}

fn number(body: &[u8]) -> Result<&str, BodyError> {
    let json = Json::parse(body, 0).map_err(|_| BodyError::Number)?;
    if json.kind() == JsonKind::Number { Ok(json.text()) } else { Err(BodyError::Number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(number: f64) -> String {
        let mut out = Vec::new();
        append_double(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_one_form() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-12.5, "-12.5"),
            (0.1, "0.1"),
            (123456.789, "123456.789"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000001, "0.000001"),
            (1.25e-7, "1.25e-7"),
            (-1e-7, "-1e-7"),
            (9007199254740991.0, "9007199254740991"),
            (5e-324, "5e-324"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
        ] {
            assert_eq!(written(number), text);
        }
        let canonical = |kind: BodyType, body: &str| {
            let body = kind.canonical(body.as_bytes(), 8).unwrap().into_owned();
            String::from_utf8(body).unwrap()
        };
        assert_eq!(canonical(BodyType::Int64, " 10.0 "), "10");
        assert_eq!(canonical(BodyType::Int64, "-0"), "0");
        assert_eq!(canonical(BodyType::Int64, "-12e2"), "-1200");
        assert_eq!(canonical(BodyType::Double, "1.50"), "1.5");
        assert_eq!(canonical(BodyType::Double, "1E2"), "100");
        assert_eq!(canonical(BodyType::Json, "[1.50]"), "[1.50]");
    }

    #[test]
    fn bodies_are_held_to_their_type() {
        use BodyType::{Any, Binary, Double, Int64, Json, Text};
        for (kind, body, fits) in [
            (Any, &b"\xff"[..], true),
            (Binary, b"\xff", true),
            (Text, b"\xff", false),
            (Text, "é".as_bytes(), true),
            (Json, b"{\"a\":[1]}", true),
            (Json, b"{a:1}", false),
            (Json, b"[[[[[]]]]]", false),
            (Int64, b"9223372036854775807", true),
            (Int64, b"9223372036854775808", false),
            (Int64, b"1.5", false),
            (Int64, b"01", false),
            (Int64, b"\"1\"", false),
            (Int64, b"", false),
            (Double, b"1e308", true),
            (Double, b"1e309", false),
            (Double, b"NaN", false),
            (Double, b"null", false),
            (Double, b"1 2", false),
        ] {
            assert_eq!(kind.check(body, 4).is_ok(), fits, "{kind:?} {body:?}");
            assert_eq!(kind.canonical(body, 4).is_ok(), fits, "{kind:?} {body:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(bits: u64, whole: i64, decimals in -1_000_000i64..1_000_000) {
            let small = decimals as f64 / 1000.0;
            for number in [f64::from_bits(bits), small] {
                if number.is_finite() {
                    prop_assert_eq!(double(written(number).as_bytes()).unwrap(), number);
                }
            }
            let mut out = Vec::new();
            append_int64(&mut out, whole);
            prop_assert_eq!(int64(&out).unwrap(), whole);
        }
    }
}
