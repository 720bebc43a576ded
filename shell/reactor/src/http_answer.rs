//! Heads of answers, and the answer to a request whose session ended over it.

use tiderace_base::{Close, CloseCode};
use tiderace_http1::{Connection as Persistence, Response as HeadWriter, ResponseBody};
use tiderace_wire::Response;

/// Appends the head of an answer; false if it breaks the rules of HTTP.
pub(crate) fn write_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    headers: impl Iterator<Item = (&'static str, &'a str)>,
    date: &str,
    persists: bool,
    body: ResponseBody,
) -> bool {
    let headers: Vec<(&str, &str)> = headers.collect();
    let head = HeadWriter {
        status,
        headers: &headers,
        date: Some(date),
        connection: if persists { Persistence::KeepAlive } else { Persistence::Close },
    };
    head.write_head(out, body).is_ok()
}

/// The answer to a request whose session ended over it.
pub(crate) fn refusal(close: &Close) -> Response {
    let status = match close.code {
        CloseCode::LoginFailed | CloseCode::LoginRequired => 401,
        CloseCode::NotAuthorised | CloseCode::OriginDenied => 403,
        CloseCode::FrameTooLarge => 413,
        CloseCode::HostDenied => 421,
        CloseCode::TooManyLogins => 429,
        CloseCode::InternalError => 500,
        CloseCode::ShuttingDown | CloseCode::MemoryFull | CloseCode::TooManyConnections => 503,
        _ => 400,
    };
    let mut body = String::from("{\"code\":\"");
    body.push_str(close.code.slug());
    body.push_str("\",\"message\":\"");
    for character in close.reason.chars() {
        match character {
            '"' | '\\' => body.extend(['\\', character]),
            character if character.is_control() => body.push(' '),
            character => body.push(character),
        }
    }
    body.push_str("\"}\n");
    Response::new(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_refusal_is_json_whatever_the_reason() {
        let close = Close::new(CloseCode::NotAuthorised, "no \"x\"\n\\ here");
        let response = refusal(&close);
        assert_eq!(response.status, 403);
        let text = String::from_utf8(response.body.into()).unwrap();
        assert_eq!(text, "{\"code\":\"not-authorised\",\"message\":\"no \\\"x\\\" \\\\ here\"}\n");
    }
}
