//! The native protocol.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

section! {
    /// The native protocol, `tiderace.v1` (see `docs/protocol.md`).
    "native" TABLE NativeConfig {
        /// URL paths on which a WebSocket speaks it although the client offers no subprotocol. One that offers `tiderace.v1` is accepted on every path; `server.origins` holds on all of them.
        "websocket_paths" websocket_paths: Vec<String> = Is("/tiderace"), Kind::List(&Kind::UrlPath);
        /// URL paths on which it is spoken inside Engine.IO, for clients that need long polling; each with and without its last slash.
        "engineio_paths" engineio_paths: Vec<String> = Is("/engine.io"), Kind::List(&Kind::UrlPath);
        /// How often a client that cannot see WebSocket's pings is asked to send its own.
        "ping_interval" ping_interval: Duration = Is("30s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(3_600) }, zero("never");
        /// Clients that lost their connection are asked to come back at a random time within this.
        "reconnect_jitter" reconnect_jitter: Duration = Is("5s"), Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3_600) }, zero("at once");
        /// Paths for which one session may declare a number to publish to.
        "declarations_max" declarations_max: usize = Is("1000"), Kind::Integer { min: 0, max: 1_000_000 };
        /// Topics found by wildcards that have a number in one session at the same time; beyond, numbers are given anew.
        "topics_max" topics_max: usize = Is("65536"), Kind::Integer { min: 16, max: 100_000_000 };
        /// The same for a session of an edge, which passes on the topics of many clients: about forty bytes each. With fewer than the edge asks for, numbers are told again and again, and values come whole instead of as deltas.
        "edge_topics_max" edge_topics_max: usize = Is("1048576"), Kind::Integer { min: 16, max: 1_048_576 };
    }
}
