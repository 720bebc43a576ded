//! The log line of a connection's end.
//!
//! Ordinary ends are for developers (`debug`); ends that somebody has to answer for are for
//! operators (`info`), as long as they are not so many that logging them would be the damage.

use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode, RateLimiter, ShownPeer, Span, Time};

/// Writes the lines of one shard.
#[derive(Debug, Default)]
pub(crate) struct EndLog {
    limiter: RateLimiter,
    suppressed: u64,
}

impl EndLog {
    /// A connection ends.
    pub(crate) fn ended(&mut self, now: Time, peer: SocketAddr, close: &Close) {
        let (reason, peer) = (close.code.slug(), ShownPeer(peer));
        let ordinary =
            matches!(close.code, CloseCode::Done | CloseCode::PeerGone | CloseCode::ShuttingDown);
        if ordinary {
            tracing::debug!(event = "connection-ended", %peer, reason);
            return;
        }
        if !self.limiter.allow(now, LINE_INTERVAL, LINES_AT_ONCE) {
            self.suppressed += 1;
            return;
        }
        let (code, suppressed) = (close.code as u16, std::mem::take(&mut self.suppressed));
        tracing::info!(event = "connection-ended", code, reason, %peer, suppressed, "{}", close.reason.escape_debug());
    }
}

const LINE_INTERVAL: Span = Span::from_millis(200);
const LINES_AT_ONCE: u32 = 20;
