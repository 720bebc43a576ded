//! The client's request and its reading of the answer (RFC 6455 section 4.1).
//!
//! Relies on the caller for a random nonce. Invariant: nothing the caller passes can add a line
//! to the request, and the answer is believed only if it proves that the server read the key.

use super::accept::{accept_key, encode_nonce};
use super::tokens::{contains, is_token, trim};
use super::{RESPONSE_BYTES_MAX, SUBPROTOCOLS_OFFERED_MAX};

/// Why a request cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "host, path and subprotocols must be printable ASCII without blanks, the path begins with /"
)]
pub struct RequestError;

/// An opened connection, from the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established<'a> {
    /// Bytes of the answer; frames may follow in the same input.
    pub consumed: usize,
    /// The subprotocol the server chose.
    pub subprotocol: Option<&'a str>,
}

/// Why an answer does not open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// `Sec-WebSocket-Accept` is missing or does not match the key.
    #[error("Sec-WebSocket-Accept does not match the key sent")]
    AcceptMismatch,
    /// `Upgrade` or `Connection` is missing or wrong.
    #[error("the answer does not upgrade to websocket")]
    NotUpgraded,
    /// The server chose an extension though none was offered.
    #[error("the server chose an extension that was not offered")]
    ExtensionUnexpected,
    /// The answer is not HTTP/1.1.
    #[error("the answer is not a well-formed HTTP/1.1 response")]
    ResponseMalformed,
    /// The answer is larger than [`RESPONSE_BYTES_MAX`].
    #[error("the answer's head is too long")]
    ResponseTooLong,
    /// The status is not 101.
    #[error("the server answered with status {0} instead of 101")]
    Status(u16),
    /// The server chose a subprotocol that was not offered.
    #[error("the server chose a subprotocol that was not offered")]
    SubprotocolUnexpected,
}

/// The request that opens a WebSocket at `ws://host/path`.
///
/// `host` goes into the `Host` header and may carry a port. No `Origin` is sent, as this is not a
/// browser.
///
/// # Errors
///
/// [`RequestError`] when an argument could break out of its place in the request.
pub fn client_request(
    host: &str,
    path: &str,
    nonce: [u8; 16],
    subprotocols: &[&str],
) -> Result<Vec<u8>, RequestError> {
    let printable =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !printable(host)
        || !printable(path)
        || !path.starts_with('/')
        || subprotocols.len() > SUBPROTOCOLS_OFFERED_MAX
        || !subprotocols.iter().all(|name| is_token(name.as_bytes()))
    {
        return Err(RequestError);
    }
    let mut out = Vec::with_capacity(256);
    for part in ["GET ", path, " HTTP/1.1\r\nHost: ", host] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(
        b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: ",
    );
    out.extend_from_slice(&encode_nonce(nonce));
    if !subprotocols.is_empty() {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(subprotocols.join(", ").as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    Ok(out)
}

/// Reads the answer to [`client_request`] made with the same nonce and subprotocols.
///
/// Returns `Ok(None)` while the head is not whole; call again with more bytes.
///
/// # Errors
///
/// A [`ClientError`]: the connection must be closed (section 4.1).
pub fn check_response<'a>(
    input: &'a [u8],
    nonce: [u8; 16],
    subprotocols: &[&str],
) -> Result<Option<Established<'a>>, ClientError> {
    let window = input.get(..RESPONSE_BYTES_MAX).unwrap_or(input);
    let Some(head_len) = window.windows(4).position(|four| four == b"\r\n\r\n") else {
        let too_long = input.len() >= RESPONSE_BYTES_MAX;
        return if too_long { Err(ClientError::ResponseTooLong) } else { Ok(None) };
    };
    let head = input.get(..head_len).and_then(|head| std::str::from_utf8(head).ok());
    let mut lines = head.ok_or(ClientError::ResponseMalformed)?.split("\r\n");
    check_status(lines.next().unwrap_or_default())?;

    let answer = Answer::read(lines)?;
    if !answer.upgrade || !answer.connection {
        return Err(ClientError::NotUpgraded);
    }
    if answer.accept != Some(accept_key(&encode_nonce(nonce)).as_slice()) {
        return Err(ClientError::AcceptMismatch);
    }
    if answer.subprotocol.is_some_and(|name| !subprotocols.contains(&name)) {
        return Err(ClientError::SubprotocolUnexpected);
    }
    Ok(Some(Established { consumed: head_len + 4, subprotocol: answer.subprotocol }))
}

fn check_status(line: &str) -> Result<(), ClientError> {
    let rest = line.strip_prefix("HTTP/1.1 ").ok_or(ClientError::ResponseMalformed)?;
    let status = rest.split(' ').next().unwrap_or_default();
    match status.parse() {
        Ok(101) => Ok(()),
        Ok(other) if status.len() == 3 => Err(ClientError::Status(other)),
        _ => Err(ClientError::ResponseMalformed),
    }
}

/// The headers of the answer that matter.
#[derive(Default)]
struct Answer<'a> {
    upgrade: bool,
    connection: bool,
    accept: Option<&'a [u8]>,
    subprotocol: Option<&'a str>,
}

impl<'a> Answer<'a> {
    fn read(lines: impl Iterator<Item = &'a str>) -> Result<Self, ClientError> {
        let mut answer = Self::default();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(ClientError::ResponseMalformed)?;
            let value = value.trim_matches([' ', '\t']);
            if name.eq_ignore_ascii_case("upgrade") {
                answer.upgrade |= value.eq_ignore_ascii_case("websocket");
            } else if name.eq_ignore_ascii_case("connection") {
                answer.connection |= contains(value.as_bytes(), "upgrade");
            } else if name.eq_ignore_ascii_case("sec-websocket-accept") {
                answer.accept = Some(trim(value.as_bytes()));
            } else if name.eq_ignore_ascii_case("sec-websocket-extensions") {
                return Err(ClientError::ExtensionUnexpected);
            } else if name.eq_ignore_ascii_case("sec-websocket-protocol") {
                // A second one is not a choice (section 4.2.2, item 5.5).
                if answer.subprotocol.replace(value).is_some() {
                    return Err(ClientError::SubprotocolUnexpected);
                }
            }
        }
        Ok(answer)
    }
}
