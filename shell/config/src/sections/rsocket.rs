//! RSocket.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

section! {
    /// RSocket 1.0 over TCP, WebSocket and HTTP/2. A route is a topic's path; see `protocols/rsocket/README.md`.
    "rsocket" TABLE RSocketConfig {
        /// Speak it. If not, its first frames are unknown bytes.
        "enabled" enabled: bool = Is("true"), Kind::Boolean;
        /// URL paths on which a WebSocket speaks it although the client offers no subprotocol, as most do; one that offers `rsocket` is accepted on every path. On the same paths a POST by HTTP/2 carries a connection as a stream.
        "websocket_paths" websocket_paths: Vec<String> = Is("/rsocket"), Kind::List(&Kind::UrlPath);
        /// Bytes of the first frame, SETUP or RESUME.
        "setup_bytes_max" setup_bytes_max: usize = Is("16 KiB"), Kind::Bytes { min: 256, max: 65_535 };
        /// Bytes of a frame's metadata; `limits.message_bytes_max` is for data.
        "metadata_bytes_max" metadata_bytes_max: usize = Is("16 KiB"), Kind::Bytes { min: 64, max: 16 * MIB };
        /// Requests of one connection that are open at a time; more are rejected.
        "streams_max" streams_max: usize = Is("10000"), Kind::Integer { min: 1, max: 100_000_000 };
        /// Requests of all connections that are open at a time; each shard has its part of it.
        "streams_node_max" streams_node_max: u64 = Is("4000000"), Kind::Integer { min: 1, max: 10_000_000_000 };
        /// Frames that break a rule without being worth an end by themselves: for unknown or used stream ids, with an even id, with a demand of zero, beyond the demand, a second SETUP. The connection ends with the next one.
        "faults_max" faults_max: u32 = Is("100"), Kind::Integer { min: 0, max: 1_000_000 };
        /// METADATA_PUSH frames a second.
        "metadata_pushes_max" metadata_pushes_max: u32 = Is("10"), Kind::Integer { min: 1, max: 1_000_000 };
        /// KEEPALIVE frames a second. A SETUP that promises more of them is answered by REJECTED_SETUP.
        "keepalives_max" keepalives_max: u32 = Is("10"), Kind::Integer { min: 1, max: 1_000_000 };
        /// Bytes of data in a KEEPALIVE, which are sent back.
        "keepalive_bytes_max" keepalive_bytes_max: usize = Is("1 KiB"), Kind::Bytes { min: 0, max: 64 * KIB };
        /// The shortest time without a sign of life after which a client is taken for gone, whatever its SETUP says.
        "lifetime_min" lifetime_min: Duration = Is("2s"), Kind::Duration { min: Duration::from_millis(100), max: HOUR };
        /// The longest.
        "lifetime_max" lifetime_max: Duration = Is("5m"), Kind::Duration { min: SECOND, max: Duration::from_secs(86_400) };
        /// Bytes of the frames in which large payloads are sent, their header included; others are fragmented.
        "fragment_bytes" fragment_bytes: usize = Is("0"), Kind::Bytes { min: 64, max: 16_777_215 }, zero("only what does not fit into one frame");
        /// Bytes that a fragment has at least, unless it is the last one.
        "fragment_bytes_min" fragment_bytes_min: usize = Is("32"), Kind::Bytes { min: 1, max: 64 * KIB };
        /// Bytes of fragments of one connection that wait for the rest of their payloads.
        "fragments_bytes_max" fragments_bytes_max: usize = Is("32 MiB"), Kind::Bytes { min: KIB, max: GIB };
        /// The same of all connections together; each shard has its part of it. While there are so many, further ones are rejected.
        "fragments_bytes_node_max" fragments_bytes_node_max: u64 = Is("256 MiB"), Kind::Bytes { min: KIB, max: 1024 * GIB };
        /// Payloads of one connection that are in fragments at a time.
        "fragmented_max" fragmented_max: usize = Is("64"), Kind::Integer { min: 1, max: 1_000_000 };
        /// Time from the first to the last fragment of a payload.
        "fragments_timeout" fragments_timeout: Duration = Is("30s"), Kind::Duration { min: Duration::from_millis(100), max: HOUR };
        /// Payloads that a channel may be ahead of what the server has done with them.
        "channel_window" channel_window: u32 = Is("64"), Kind::Integer { min: 1, max: 1_000_000 };
        /// Messages of one conversation that wait for its client's demand; one more ends it.
        "waiting_max" waiting_max: usize = Is("1024"), Kind::Integer { min: 1, max: 1_000_000 };
        /// Bytes of all messages of one connection that wait so.
        "waiting_bytes_max" waiting_bytes_max: usize = Is("4 MiB"), Kind::Bytes { min: KIB, max: GIB };
        /// How long a service may stay silent if the caller does not say.
        "call_timeout" call_timeout: Duration = Is("30s"), Kind::Duration { min: Duration::from_millis(1), max: HOUR };
        /// Requests that a lease allows, for clients that ask for leases.
        "lease_requests" lease_requests: u32 = Is("10000"), Kind::Integer { min: 1, max: 2_147_483_647 };
        /// How long a lease is valid; the next one comes when half of this is over.
        "lease_ttl" lease_ttl: Duration = Is("10s"), Kind::Duration { min: Duration::from_millis(100), max: HOUR };
        /// How long a connection that asked for it may be gone and be resumed.
        "resume_window" resume_window: Duration = Is("60s"), Kind::Duration { min: SECOND, max: HOUR }, zero("not at all");
        /// Bytes of sent frames that one session keeps for a client that comes back.
        "resume_bytes_max" resume_bytes_max: usize = Is("256 KiB"), Kind::Bytes { min: KIB, max: GIB };
        /// The same of all sessions together; those that find no room cannot be resumed.
        "resume_bytes_node_max" resume_bytes_node_max: u64 = Is("256 MiB"), Kind::Bytes { min: KIB, max: 1024 * GIB };
        /// Answer requests to the route `echo`, or without any route, with their own payload: request-response at once, request-stream again and again, request-channel each. For load tests.
        "echo" echo: bool = Is("false"), Kind::Boolean, flag("enable-echo");
        /// How often a stream's payload is sent back.
        "echo_interval" echo_interval: Duration = Is("1s"), Kind::Duration { min: Duration::from_millis(1), max: HOUR }, zero("as often as there is demand");
        /// Bytes of payloads that the echo streams of one connection keep.
        "echo_bytes_max" echo_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: KIB, max: GIB };
    }
}
