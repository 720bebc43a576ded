//! Why an upstream was not reached, or was lost: what happened, and what to do about it, in a sentence for the operator.

use std::io;
use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode};
use tiderace_websocket::handshake::ClientError;

use super::status::UpstreamState;
use tiderace_base::UpstreamUrl;

/// An address takes no connection.
pub(crate) fn unreachable(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "{address} refuses connections: is the upstream running, and does it listen on that port?"
        ),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            format!("there is no way to {address} ({error}): check the address and the network")
        }
        _ => format!("cannot connect to {address}: {error}"),
    }
}

/// The name of a host has no address.
pub(crate) fn unresolved(host: &str, error: &io::Error) -> String {
    format!(
        "the name {host} cannot be resolved ({error}): check its spelling and this machine's DNS"
    )
}

/// Something took too long.
pub(crate) fn too_slow(state: UpstreamState, url: &UpstreamUrl, seconds: u64) -> String {
    let host = url.host();
    let (what, advice) = match state {
        UpstreamState::Resolving => {
            ("no answer to the question for its address", "check this machine's DNS")
        }
        UpstreamState::Connecting => ("no answer", "check the address, and firewalls on the way"),
        UpstreamState::Securing => (
            "no end of the handshake of TLS",
            "does that port speak it? ws:// is for those that do not",
        ),
        _ => (
            "no answer to the request for a WebSocket",
            "is it a Tiderace server, or a proxy that passes those on?",
        ),
    };
    format!("{what} of {host} within {seconds} seconds: {advice}")
}

/// The request for a WebSocket was answered otherwise.
pub(crate) fn refused(error: ClientError, url: &UpstreamUrl) -> String {
    let advice = match error {
        ClientError::Status(400) if !url.is_secure() => {
            "if TLS is required there, the address begins with wss://"
        }
        ClientError::Status(401 | 407) => {
            "something in front of it asks for a login by HTTP, which is not made here"
        }
        ClientError::Status(403) => "it, or something in front of it, does not let this machine in",
        ClientError::Status(404) => {
            "nothing listens on that path: is it a Tiderace server, and the path its own?"
        }
        ClientError::Status(421) => {
            "it does not answer to that name: see `hosts` in its configuration"
        }
        ClientError::Status(300..400) => "it points elsewhere: name that address here",
        ClientError::Status(429 | 500..) => "it has too much to do, or is stopping",
        ClientError::AcceptMismatch | ClientError::NotUpgraded => {
            "something that does not know WebSockets answers there"
        }
        _ => "is it a Tiderace server?",
    };
    format!("{error}: {advice}")
}

/// The other side took the WebSocket without what it is for.
pub(crate) fn not_spoken(names: &[&str]) -> String {
    format!(
        "the server does not speak {}: is it a Tiderace server of a version that does?",
        names.join(" or ")
    )
}

/// The other side has said goodbye by the close frame of WebSocket.
pub(crate) fn said_goodbye(code: Option<u16>, reason: &str) -> Close {
    let code = code.map_or_else(|| "without a code".to_owned(), |code| format!("with code {code}"));
    let reason = if reason.is_empty() { "no reason given" } else { reason };
    Close::new(CloseCode::PeerGone, format!("the server closed the connection {code}: {reason}"))
}

/// A connection ended.
pub(crate) fn ended(close: &Close, state: UpstreamState, url: &UpstreamUrl) -> String {
    let is_own = Close::from(close.code).reason != close.reason;
    match close.code {
        CloseCode::PeerGone | CloseCode::TransportError | CloseCode::TlsFailed if is_own => {
            close.reason.to_string()
        }
        CloseCode::PeerGone => {
            let (when, advice) = match state {
                UpstreamState::Securing => {
                    ("in the handshake of TLS", ": does that port speak it? ws:// is for those that do not")
                }
                UpstreamState::Upgrading if url.is_secure() => {
                    ("instead of answering", ": is it a Tiderace server?")
                }
                UpstreamState::Upgrading => {
                    ("instead of answering", ": is it a Tiderace server? If TLS is required there, the address begins with wss://")
                }
                UpstreamState::LoggingIn => ("before the login was answered", ""),
                _ => ("without a word", ": it stopped, or the network failed"),
            };
            format!("the server closed the connection {when}{advice}")
        }
        CloseCode::LoginTimeout => "the server did not answer the login in time".to_owned(),
        CloseCode::IdleTimeout => {
            "nothing came from the server, not even an answer to a ping: it hangs, or the network failed".to_owned()
        }
        code => format!("{} ({}){}", close.reason.trim_end_matches('.'), code.slug(), advice(code)),
    }
}

/// What to do about an end for a reason that the other side has told.
fn advice(code: CloseCode) -> &'static str {
    match code {
        CloseCode::LoginFailed | CloseCode::LoginRequired => {
            ": see to `token`, or `user` and `password`, of this upstream in the configuration, and to what the upstream \
             knows of them"
        }
        CloseCode::TooManyLogins => ": it is tried again by itself",
        CloseCode::NotAuthorised => {
            ": a rule of the upstream has to allow this server `subscribe` on its topics"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_is_to_do_what_is_said() {
        let url: UpstreamUrl = "ws://source:7800".parse().unwrap();
        let secure: UpstreamUrl = "wss://source:7800".parse().unwrap();
        let address = "10.0.0.1:7800".parse().unwrap();
        let gone = Close::from(CloseCode::PeerGone);
        for (sentence, words) in [
            (
                unreachable(address, &io::ErrorKind::ConnectionRefused.into()),
                "is the upstream running",
            ),
            (unreachable(address, &io::ErrorKind::HostUnreachable.into()), "the network"),
            (unresolved("source", &io::ErrorKind::NotFound.into()), "DNS"),
            (too_slow(UpstreamState::Connecting, &url, 5), "within 5 seconds: check the address"),
            (refused(ClientError::Status(401), &url), "status 401"),
            (refused(ClientError::Status(400), &url), "wss://"),
            (refused(ClientError::Status(302), &url), "points elsewhere"),
            (refused(ClientError::AcceptMismatch, &url), "Sec-WebSocket-Accept"),
            (not_spoken(&["tiderace.v1"]), "tiderace.v1"),
            (
                ended(&said_goodbye(Some(1012), "restart"), UpstreamState::Connected, &url),
                "with code 1012: restart",
            ),
            (ended(&gone, UpstreamState::Upgrading, &url), "wss://"),
            (ended(&gone, UpstreamState::Upgrading, &secure), "is it a Tiderace server?"),
            (ended(&gone, UpstreamState::Connected, &url), "without a word"),
            (
                ended(&Close::new(CloseCode::BadFrame, "masked"), UpstreamState::Connected, &url),
                "masked (bad-frame)",
            ),
            (
                ended(&CloseCode::LoginFailed.into(), UpstreamState::LoggingIn, &url),
                "(login-failed): see to `token`",
            ),
        ] {
            assert!(sentence.contains(words), "{sentence}");
        }
    }
}
