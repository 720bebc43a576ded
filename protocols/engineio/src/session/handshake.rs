//! The open packet: what a client is told when its session begins.

use crate::options::EngineOptions;

/// The open packet's data. Spans are in milliseconds.
pub(super) fn handshake(sid: &str, polling: bool, options: &EngineOptions) -> String {
    let upgrades =
        if polling && options.upgrades && options.websocket { r#"["websocket"]"# } else { "[]" };
    format!(
        r#"{{"sid":"{sid}","upgrades":{upgrades},"pingInterval":{},"pingTimeout":{},"maxPayload":{}}}"#,
        options.ping_interval.as_millis(),
        options.ping_timeout.as_millis(),
        options.payload_bytes_max,
    )
}
