//! The server's judgement of an upgrade request (RFC 6455 section 4.2).
//!
//! Relies on the HTTP layer for a well-formed head given as names and values. Invariant: an
//! [`Acceptance`] exists only for a request that meets every item of section 4.2.1 and the
//! origin policy.

use super::accept::{accept_key, key_well_formed};
use super::origin::OriginPolicy;
use super::tokens::{contains, is_token, list, trim};
use super::{SUBPROTOCOLS_BYTES_MAX, SUBPROTOCOLS_OFFERED_MAX};

/// The parts of a request head that decide an upgrade, collected in one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpgradeRequest<'a> {
    is_get: bool,
    is_http_1_1: bool,
    upgrade_has_websocket: bool,
    connection_has_upgrade: bool,
    host: Single<'a>,
    key: Single<'a>,
    version: Single<'a>,
    origin: Single<'a>,
    protocols: [&'a [u8]; PROTOCOL_HEADERS_MAX],
    protocol_headers: usize,
}

/// What the server is willing to do.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'p> {
    /// Which web pages may connect.
    pub origins: &'p OriginPolicy,
    /// Subprotocols the server speaks, most preferred first.
    pub subprotocols: &'p [&'p str],
}

/// A request the server agrees to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance<'p> {
    /// The value of `Sec-WebSocket-Accept`.
    pub accept_key: [u8; 28],
    /// The subprotocol chosen: the server's first preference among those offered, if any.
    pub subprotocol: Option<&'p str>,
    /// Whether the client offered any subprotocol. If it did and none was chosen, a browser
    /// will fail the connection itself (section 4.1).
    pub subprotocols_offered: bool,
}

/// Why the server refuses to upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// `Connection` lacks the token `Upgrade`.
    #[error("the Connection header must contain the token Upgrade")]
    ConnectionNotUpgrade,
    /// The `Host` header is missing or repeated.
    #[error("exactly one Host header is required")]
    HostMissing,
    /// `Sec-WebSocket-Key` is missing, repeated or not 16 bytes in base64.
    #[error("Sec-WebSocket-Key must be given once and be 16 bytes in base64")]
    KeyInvalid,
    /// The method is not GET or the version is below HTTP/1.1.
    #[error("a WebSocket opens with a GET request of HTTP/1.1")]
    MethodNotGet,
    /// The origin is not allowed.
    #[error("this origin is not allowed to connect")]
    OriginForbidden,
    /// A subprotocol is not a token, or too many are offered.
    #[error("Sec-WebSocket-Protocol is malformed or too long")]
    SubprotocolsInvalid,
    /// `Upgrade` lacks the token `websocket`.
    #[error("the Upgrade header must contain the token websocket")]
    UpgradeNotWebSocket,
    /// `Sec-WebSocket-Version` is not 13.
    #[error("only version 13 of the WebSocket protocol is supported")]
    VersionUnsupported,
}

impl<'a> UpgradeRequest<'a> {
    /// Collects what matters from a parsed head.
    ///
    /// `minor_version` is that of HTTP/1.x. Names are compared without case; values are trimmed.
    pub fn new(
        method: &str,
        minor_version: u8,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let mut request =
            Self { is_get: method == "GET", is_http_1_1: minor_version >= 1, ..Self::default() };
        for (name, value) in headers {
            request.take(name, trim(value));
        }
        request
    }

    /// Whether the client asked for a WebSocket at all; if not, it is an ordinary request.
    #[must_use]
    pub const fn wants_websocket(&self) -> bool {
        self.upgrade_has_websocket
    }

    /// The subprotocols offered, in the client's order.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'a [u8]> {
        let count = self.protocol_headers.min(PROTOCOL_HEADERS_MAX);
        self.protocols.into_iter().take(count).flat_map(list)
    }

    fn take(&mut self, name: &str, value: &'a [u8]) {
        if name.eq_ignore_ascii_case("upgrade") {
            self.upgrade_has_websocket |= contains(value, "websocket");
        } else if name.eq_ignore_ascii_case("connection") {
            self.connection_has_upgrade |= contains(value, "upgrade");
        } else if name.eq_ignore_ascii_case("host") {
            self.host.add(value);
        } else if name.eq_ignore_ascii_case("sec-websocket-key") {
            self.key.add(value);
        } else if name.eq_ignore_ascii_case("sec-websocket-version") {
            self.version.add(value);
        } else if name.eq_ignore_ascii_case("origin") {
            self.origin.add(value);
        } else if name.eq_ignore_ascii_case("sec-websocket-protocol") {
            if let Some(slot) = self.protocols.get_mut(self.protocol_headers) {
                *slot = value;
            }
            self.protocol_headers = self.protocol_headers.saturating_add(1);
        }
    }

    /// Bounds the list before anything walks it for the choice.
    fn subprotocols_well_formed(&self) -> bool {
        let bytes: usize = self.protocols.iter().map(|value| value.len()).sum();
        self.protocol_headers <= PROTOCOL_HEADERS_MAX
            && bytes <= SUBPROTOCOLS_BYTES_MAX
            && self.subprotocols().count() <= SUBPROTOCOLS_OFFERED_MAX
            && self.subprotocols().all(is_token)
    }
}

/// Judges a request (section 4.2.1) and chooses the answer (section 4.2.2).
///
/// # Errors
///
/// The first [`Rejection`] that applies; its status, headers and sentence make the answer.
pub fn accept<'p>(
    request: &UpgradeRequest<'_>,
    policy: &Policy<'p>,
) -> Result<Acceptance<'p>, Rejection> {
    if !request.is_get || !request.is_http_1_1 {
        return Err(Rejection::MethodNotGet);
    }
    let host = request.host.value().ok_or(Rejection::HostMissing)?;
    if !request.upgrade_has_websocket {
        return Err(Rejection::UpgradeNotWebSocket);
    }
    if !request.connection_has_upgrade {
        return Err(Rejection::ConnectionNotUpgrade);
    }
    if request.version.value() != Some(b"13") {
        return Err(Rejection::VersionUnsupported);
    }
    let key = request.key.value().filter(|key| key_well_formed(key));
    let key = key.ok_or(Rejection::KeyInvalid)?;
    // Two Origin headers could tell us one thing and a proxy another: neither is believed.
    if request.origin.count > 1 || !policy.origins.allows(request.origin.value(), host) {
        return Err(Rejection::OriginForbidden);
    }
    if !request.subprotocols_well_formed() {
        return Err(Rejection::SubprotocolsInvalid);
    }
    let offered = |name: &&&str| request.subprotocols().any(|offer| offer == name.as_bytes());
    Ok(Acceptance {
        accept_key: accept_key(key),
        subprotocol: policy.subprotocols.iter().find(offered).copied(),
        subprotocols_offered: request.subprotocols().next().is_some(),
    })
}

impl Acceptance<'_> {
    /// Appends the 101 answer (section 4.2.2, item 5).
    pub fn write_response(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: ",
        );
        out.extend_from_slice(&self.accept_key);
        if let Some(subprotocol) = self.subprotocol {
            out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
            out.extend_from_slice(subprotocol.as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

impl Rejection {
    /// Every variant, for tables in documentation and for metrics.
    pub const ALL: [Self; 8] = [
        Self::ConnectionNotUpgrade,
        Self::HostMissing,
        Self::KeyInvalid,
        Self::MethodNotGet,
        Self::OriginForbidden,
        Self::SubprotocolsInvalid,
        Self::UpgradeNotWebSocket,
        Self::VersionUnsupported,
    ];

    /// The HTTP status of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::OriginForbidden => 403,
            Self::UpgradeNotWebSocket | Self::VersionUnsupported => 426,
            _ => 400,
        }
    }

    /// Headers the answer must carry besides the usual ones (section 4.4, and RFC 9110 section
    /// 15.5.22 for `Upgrade`).
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::UpgradeNotWebSocket | Self::VersionUnsupported => {
                &[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
            }
            _ => &[],
        }
    }

    /// A stable name for logs, metrics and documentation.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::ConnectionNotUpgrade => "ws-connection-not-upgrade",
            Self::HostMissing => "ws-host-missing",
            Self::KeyInvalid => "ws-key-invalid",
            Self::MethodNotGet => "ws-method-not-get",
            Self::OriginForbidden => "ws-origin-forbidden",
            Self::SubprotocolsInvalid => "ws-subprotocols-invalid",
            Self::UpgradeNotWebSocket => "ws-upgrade-missing",
            Self::VersionUnsupported => "ws-version-unsupported",
        }
    }
}

/// A header that must not be repeated.
#[derive(Clone, Copy, Debug, Default)]
struct Single<'a> {
    first: &'a [u8],
    count: u8,
}

impl<'a> Single<'a> {
    fn add(&mut self, value: &'a [u8]) {
        if self.count == 0 {
            self.first = value;
        }
        self.count = self.count.saturating_add(1);
    }

    /// The value if there is exactly one.
    fn value(&self) -> Option<&'a [u8]> {
        (self.count == 1).then_some(self.first)
    }
}

/// `Sec-WebSocket-Protocol` headers remembered; a client needs one.
const PROTOCOL_HEADERS_MAX: usize = 4;
