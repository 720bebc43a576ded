//! HTTP/2: what one connection may hold and how often it may do what costs us something.

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const RATE: Kind = Kind::Integer { min: 1, max: 10_000_000 };

section! {
    /// HTTP/2, in clear text by prior knowledge and over TLS by ALPN: requests, streamed answers, and WebSockets by extended CONNECT, on the same port as everything else. What comes too often is counted by connection: as many at once, and as many in ten seconds; more ends the connection with `ENHANCE_YOUR_CALM`.
    "http2" TABLE Http2Config {
        /// Speak HTTP/2.
        "enabled" enabled: bool = Is("true"), Kind::Boolean;
        /// Streams open at a time on one connection. Each WebSocket, streamed answer and waiting poll is one.
        "streams_max" streams_max: u32 = Is("128"), Kind::Integer { min: 1, max: 100_000 };
        /// Fields of one request, uncompressed; larger ones are answered by status 431.
        "header_bytes_max" header_bytes_max: u32 = Is("16KiB"), Kind::Bytes { min: KIB, max: MIB };
        /// Memory for fields that a client may refer to again.
        "header_table_bytes" header_table_bytes: u32 = Is("4KiB"), Kind::Bytes { min: 0, max: 64 * KIB };
        /// Bytes that a client may send ahead on one stream.
        "stream_window_bytes" stream_window_bytes: u32 = Is("64KiB"), Kind::Bytes { min: KIB, max: 1024 * MIB };
        /// Bytes that a client that has logged in may send ahead on all streams of a connection: what publishers that are held back can make the server keep. Before the login it is 64 KiB.
        "connection_window_bytes" connection_window_bytes: u32 = Is("512KiB"), Kind::Bytes { min: 64 * KIB, max: 1024 * MIB };
        /// Bytes of one stream that are handed over to be sent ahead of the others; what a client does not take waits in its session's backlog.
        "send_buffer_bytes" send_buffer_bytes: usize = Is("32KiB"), Kind::Bytes { min: KIB, max: 64 * MIB };
        /// Streams that a client may begin and reset.
        "resets_max" resets_max: u32 = Is("200"), RATE;
        /// Pings.
        "pings_max" pings_max: u32 = Is("200"), RATE;
        /// Changes of the client's settings.
        "settings_max" settings_max: u32 = Is("20"), RATE;
        /// Frames without a body that end nothing.
        "empty_frames_max" empty_frames_max: u32 = Is("50"), RATE;
        /// Window updates of less than 64 bytes. Some clients acknowledge each message by itself.
        "small_updates_max" small_updates_max: u32 = Is("50000"), RATE;
        /// Frames of other kinds: priorities and unknown ones.
        "other_frames_max" other_frames_max: u32 = Is("500"), RATE;
        /// CONTINUATION frames of one request's fields.
        "continuations_max" continuations_max: u32 = Is("4"), Kind::Integer { min: 0, max: 1_000 };
    }
}
