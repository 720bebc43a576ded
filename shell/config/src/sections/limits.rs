//! What one message, connection or address may cost. Everything a stranger can make grow has a limit here.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Long enough for the slowest honest client, short enough to bound what a stranger can hold.
const TIMEOUT: Kind =
    Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(600) };

section! {
    /// What one message, connection or address may cost.
    "limits" TABLE LimitsConfig {
        /// Open connections; those beyond are closed at once. Sessions that requests carry, such as those of
        /// long polling, count as well; they are refused from twice as many on.
        "connections_max" connections_max: usize = Is("0"), Kind::Integer { min: 1, max: 100_000_000 }, zero("as many as the open-file limit allows");
        /// Open connections from one IP address. It may have as many sessions that requests carry besides.
        "connections_per_ip_max" connections_per_ip_max: usize = Is("0"), Kind::Integer { min: 1, max: 100_000_000 }, zero("no limit");
        /// Body of one message.
        "message_bytes_max" message_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: KIB, max: GIB };
        /// All headers of one frame or HTTP request together.
        "header_bytes_max" header_bytes_max: usize = Is("16 KiB"), Kind::Bytes { min: 256, max: MIB };
        /// Number of headers of one frame or HTTP request.
        "headers_max" headers_max: usize = Is("256"), Kind::Integer { min: 8, max: 10_000 };
        /// Subscriptions of one session.
        "subscriptions_per_session_max" subscriptions_per_session_max: usize = Is("10000"), Kind::Integer { min: 1, max: 10_000_000 };
        /// Bytes a connection may send before it has logged in.
        "preauth_bytes_max" preauth_bytes_max: usize = Is("16 KiB"), Kind::Bytes { min: 512, max: MIB };
        /// Time from accepting a connection to its first byte.
        "first_byte_timeout" first_byte_timeout: Duration = Is("5s"), TIMEOUT;
        /// Time from the first byte of an HTTP request's head to its last.
        "head_timeout" head_timeout: Duration = Is("10s"), TIMEOUT;
        /// Time from recognising the protocol to a complete login.
        "login_timeout" login_timeout: Duration = Is("5s"), TIMEOUT;
        /// Time between two bytes of an unfinished frame of a client that has logged in.
        "frame_timeout" frame_timeout: Duration = Is("60s"), TIMEOUT;
        /// Time from the first to the last fragment of a WebSocket message.
        "message_timeout" message_timeout: Duration = Is("120s"), TIMEOUT;
        /// Open transactions of one session.
        "transactions_max" transactions_max: usize = Is("100"), Kind::Integer { min: 1, max: 100_000 };
        /// Messages held by the open transactions of one session, together.
        "transaction_bytes_max" transaction_bytes_max: usize = Is("64 MiB"), Kind::Bytes { min: KIB, max: 16 * GIB };
    }
}
