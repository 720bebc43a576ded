//! What an operator may choose.

use tiderace_base::Span;

/// The options of Engine.IO.
#[derive(Clone)]
pub struct EngineOptions {
    /// Time between heartbeats: the server pings so long after the last answer, or the client is
    /// told to.
    pub ping_interval: Span,
    /// How long an answer to a ping may take; with revision 3 how long the client's ping may be late.
    pub ping_timeout: Span,
    /// How long an upgrade may take.
    pub upgrade_timeout: Span,
    /// Bytes of a request's body and of a WebSocket message.
    pub payload_bytes_max: usize,
    /// Packets in a request's body.
    pub packets_max: usize,
    /// Whether a polling session may go over to WebSocket.
    pub upgrades: bool,
    /// Whether sessions may be carried by long polling.
    pub polling: bool,
    /// Whether sessions may be carried by WebSocket.
    pub websocket: bool,
    /// Whether revision 3 is spoken.
    pub revision_3: bool,
    /// Whether clients of revision 3 may poll by script elements.
    pub jsonp: bool,
    /// A cookie with the session's id, for balancers.
    pub cookie: Option<CookieOptions>,
    /// Whether pages of other origins may send cookies and credentials along.
    pub credentials: bool,
}

/// The cookie that is set with the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieOptions {
    /// Its name.
    pub name: String,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            ping_interval: Span::from_secs(25),
            ping_timeout: Span::from_secs(20),
            upgrade_timeout: Span::from_secs(10),
            payload_bytes_max: 1_000_000,
            packets_max: 10_000,
            upgrades: true,
            polling: true,
            websocket: true,
            revision_3: true,
            jsonp: true,
            cookie: None,
            credentials: false,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineOptions")
            .field("ping_interval", &self.ping_interval)
            .field("ping_timeout", &self.ping_timeout)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .finish_non_exhaustive()
    }
}
