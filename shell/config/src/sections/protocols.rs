//! STOMP and WebSocket.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const HEART_BEAT: Kind =
    Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3_600) };

section! {
    /// STOMP 1.0, 1.1 and 1.2 over TCP and WebSocket.
    "stomp" TABLE StompConfig {
        /// Heart-beats the server offers to send; the client may ask for fewer.
        "heart_beat_send" heart_beat_send: Duration = Is("10s"), HEART_BEAT, zero("none");
        /// Heart-beats the server would like to receive; the client may offer fewer.
        "heart_beat_receive" heart_beat_receive: Duration = Is("10s"), HEART_BEAT, zero("none");
        /// A silent client is disconnected after so many heart-beat intervals.
        "heart_beat_grace" heart_beat_grace: u32 = Is("2"), Kind::Integer { min: 1, max: 100 };
        /// Without a store (`store.directory`), take persistent messages into queues although these end with the server then. If not, they are refused, because an acknowledged one could be lost.
        "persistent_in_memory" persistent_in_memory: bool = Is("false"), Kind::Boolean;
        /// URL paths on which a WebSocket speaks STOMP although the client offers no subprotocol. One that offers a STOMP subprotocol (`v12.stomp`, `v11.stomp`, `v10.stomp`) is accepted on every path; `server.origins` holds on all of them.
        "websocket_paths" websocket_paths: Vec<String> = Is("/stomp,/ws,/"), Kind::List(&Kind::UrlPath);
    }
}

section! {
    /// WebSocket (RFC 6455).
    "websocket" TABLE WebSocketConfig {
        /// Time without traffic after which the server sends a ping.
        "ping_interval" ping_interval: Duration = Is("30s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(3_600) }, zero("never");
    }
}
