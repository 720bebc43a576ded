//! Percent-decoding of paths and queries (RFC 3986 section 2.1, and forms).
//!
//! Invariant: what is returned is UTF-8; a percent sign that begins no two hexadecimal digits is an
//! error, never a percent sign.

/// Decodes a piece of a path: `a%20b` is `a b`, and `+` is `+`.
pub fn decode_path(text: &str) -> Option<String> {
    decode(text, false)
}

/// Decodes a name or value of a query as browsers write them: `+` is a space.
pub fn decode_form(text: &str) -> Option<String> {
    decode(text, true)
}

fn decode(text: &str, form: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let high = digit(bytes.next()?)?;
                high << 4 | digit(bytes.next()?)?
            }
            b'+' if form => b' ',
            byte => byte,
        });
    }
    String::from_utf8(plain).ok()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The parts of a query, in order: names as they were written, and their values decoded; an undecodable one is `None`.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, Option<String>)> {
    query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name, decode_form(value))
    })
}

/// The decoded values of that name in a query, in order; an undecodable one is `None`.
pub(crate) fn values<'a>(
    query: Option<&'a str>,
    name: &'a str,
) -> impl Iterator<Item = Option<String>> + 'a {
    query.unwrap_or("").split('&').filter_map(move |pair| {
        let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
        (known == name).then(|| decode_form(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percent_signs_stand_for_bytes() {
        for (text, path, form) in [
            ("fx/EUR-USD", Some("fx/EUR-USD"), Some("fx/EUR-USD")),
            ("a%20b+c", Some("a b+c"), Some("a b c")),
            ("fx%2FEUR", Some("fx/EUR"), Some("fx/EUR")),
            ("%C3%BC%e2%82%ac", Some("ü€"), Some("ü€")),
            ("%", None, None),
            ("%4", None, None),
            ("%zz", None, None),
            ("%+1", None, None),
            ("%ff", None, None),
            ("%C3", None, None),
            ("%00", Some("\0"), Some("\0")),
        ] {
            assert_eq!(decode_path(text).as_deref(), path, "{text}");
            assert_eq!(decode_form(text).as_deref(), form, "{text}");
        }
    }

    #[test]
    fn a_query_may_repeat_a_name() {
        let query = Some("topic=a&x=1&topic=b%2Fc&topic&topic=%");
        let found: Vec<_> = values(query, "topic").collect();
        let expected = [Some("a".to_owned()), Some("b/c".to_owned()), Some(String::new()), None];
        assert_eq!(found, expected);
        assert_eq!(values(None, "topic").count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in ".{0,40}") {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decode_path(&encoded), Some(text.clone()));
            prop_assert_eq!(decode_form(&encoded), Some(text));
        }

        #[test]
        fn nothing_panics(text in ".{0,40}") {
            if let Some(plain) = decode_path(&text) {
                prop_assert!(plain.len() <= text.len());
            }
        }
    }
}
