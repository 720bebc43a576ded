//! Credentials in queries and fields of requests.
//!
//! Relies on nothing. Invariant: what cannot be decoded is no credential, rather than another one.

use tiderace_value::Json;
use tiderace_wire::{Credentials, Request};

/// The credentials of the request a session began with: those of its query, if these count, or a
/// bearer token.
pub(crate) fn of_request(request: &Request<'_>, query: bool) -> Option<Credentials> {
    let named = request.query.filter(|_| query).and_then(of_query);
    named.or_else(|| {
        let field = request.text_field("authorization")?;
        let (scheme, token) = field.trim().split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| Credentials { token: Some(token.trim().to_owned()), ..Credentials::default() })
    })
}

/// The credentials of a query: `token`, or `user` and `password`.
pub(crate) fn of_query(query: &str) -> Option<Credentials> {
    let find = |name: &str| {
        query.split('&').find_map(|pair| {
            let (known, value) = pair.split_once('=')?;
            (known == name).then(|| decode(value)).flatten()
        })
    };
    credentials(find("token"), find("user"), find("password"))
}

/// The credentials of an object: `{token}`, or `{user, password}`.
pub(crate) fn of_object(auth: Json<'_>) -> Option<Credentials> {
    let find = |name: &str| auth.field(name)?.as_text().map(|text| text.into_owned());
    credentials(find("token"), find("user"), find("password"))
}

fn credentials(
    token: Option<String>,
    login: Option<String>,
    passcode: Option<String>,
) -> Option<Credentials> {
    if token.is_none() && login.is_none() {
        return None;
    }
    Some(match token {
        Some(token) => Credentials { token: Some(token), ..Credentials::default() },
        None => Credentials { login, passcode, ..Credentials::default() },
    })
}

/// Resolves `%XX` and `+`.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits).ok()?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let token = |text: &str| of_query(text).and_then(|known| known.token);
        assert_eq!(token("EIO=3&token=a%20b%2B+c"), Some("a b+ c".to_owned()));
        assert_eq!(token("token=%"), None);
        assert_eq!(token("token=%+1"), None);
        assert_eq!(token("token=%ff"), None);
        assert_eq!(token("tokens=1"), None);
        let named = of_query("user=ann&password=p%26q");
        let named = named.map(|known| (known.login, known.passcode));
        assert_eq!(named, Some((Some("ann".to_owned()), Some("p&q".to_owned()))));
    }
}
