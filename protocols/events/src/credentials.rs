//! Who asks: `Authorization: Bearer` (RFC 6750) or `Basic` (RFC 7617), or `access_token` in the
//! query for `EventSource`, which cannot set fields.
//!
//! Relies on the broker to judge them. Invariant: credentials that cannot be read are a fault, not
//! an anonymous client.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Credentials, Request};

use crate::answer::Fault;
use crate::uri;

/// The credentials of a request; those of an anonymous client if it has none.
pub(crate) fn credentials(request: &Request<'_>) -> Result<Credentials, Fault> {
    let unreadable = || Fault::from(Close::from(CloseCode::LoginFailed));
    let Some(field) = request.field("authorization") else {
        let token = match uri::values(request.query, "access_token").next() {
            None => return Ok(Credentials::default()),
            Some(token) => token.filter(|token| !token.is_empty()).ok_or_else(unreadable)?,
        };
        return Ok(Credentials { token: Some(token), ..Credentials::default() });
    };
    let text = std::str::from_utf8(field).map_err(|_| unreadable())?.trim();
    let (scheme, value) = text.split_once(' ').ok_or_else(unreadable)?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !value.is_empty() {
        return Ok(Credentials { token: Some(value.to_owned()), ..Credentials::default() });
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let bytes = STANDARD.decode(value).map_err(|_| unreadable())?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
        let (login, passcode) = text.split_once(':').ok_or_else(unreadable)?;
        return Ok(Credentials {
            login: Some(login.to_owned()),
            passcode: Some(passcode.to_owned()),
            ..Credentials::default()
        });
    }
    Err(unreadable())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(field: Option<&[u8]>, query: Option<&str>) -> Option<Credentials> {
        let fields: Vec<(&str, &[u8])> =
            field.map(|value| ("AUTHORIZATION", value)).into_iter().collect();
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let request = Request { method: "GET", path: "/", query, fields: &fields, body: b"", peer };
        credentials(&request).ok()
    }

    #[test]
    fn both_schemes_and_the_query_are_read() {
        let token =
            |token: &str| Credentials { token: Some(token.to_owned()), ..Credentials::default() };
        assert_eq!(of(None, None), Some(Credentials::default()));
        assert_eq!(of(Some(b"Bearer abc"), None), Some(token("abc")));
        assert_eq!(of(Some(b"bEARER  abc "), Some("access_token=no")), Some(token("abc")));
        assert_eq!(of(None, Some("a=b&access_token=x%2Fy")), Some(token("x/y")));
        let basic = Credentials {
            login: Some("Aladdin".to_owned()),
            passcode: Some("open:sesame".to_owned()),
            ..Credentials::default()
        };
        assert_eq!(of(Some(b"Basic QWxhZGRpbjpvcGVuOnNlc2FtZQ=="), None), Some(basic));
    }

    #[test]
    fn what_cannot_be_read_is_no_anonymous_client() {
        for field in
            [&b"Bearer"[..], b"Bearer ", b"Basic !!!", b"Basic QQ==", b"Digest x", b"\xff", b""]
        {
            assert_eq!(of(Some(field), None), None, "{field:?}");
        }
        assert_eq!(of(None, Some("access_token=")), None);
        assert_eq!(of(None, Some("access_token=%f")), None);
    }
}
