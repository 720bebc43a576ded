//! Socket.IO.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

section! {
    /// Socket.IO 1 to 4 over Engine.IO. The namespace `/` has the server's own events; in application namespaces what clients emit is passed on to the others.
    "socketio" TABLE SocketIoConfig {
        /// URL paths, each also without its last slash.
        "paths" paths: Vec<String> = Is("/socket.io/"), Kind::List(&Kind::UrlPath);
        /// Time that a client may take to connect to its first namespace; `limits.login_timeout` ends a WebSocket earlier if that is shorter.
        "connect_timeout" connect_timeout: Duration = Is("45s"), Kind::Duration { min: SECOND, max: HOUR };
        /// Time that the attachments of a packet may take to follow it.
        "attachments_timeout" attachments_timeout: Duration = Is("30s"), Kind::Duration { min: SECOND, max: HOUR };
        /// Attachments of one packet. Clients refuse packets with more than they allow themselves, by default 10.
        "attachments_max" attachments_max: usize = Is("10"), Kind::Integer { min: 0, max: 64 };
        /// Nesting of arrays and objects in a packet.
        "depth_max" depth_max: usize = Is("64"), Kind::Integer { min: 2, max: 120 };
        /// Namespaces that one connection may be in.
        "namespaces_max" namespaces_max: usize = Is("16"), Kind::Integer { min: 1, max: 255 };
        /// Calls and conversations of one connection that may be open at a time.
        "exchanges_max" exchanges_max: usize = Is("1000"), Kind::Integer { min: 0, max: 100_000 };
        /// How long a service may stay silent if the caller does not say.
        "call_timeout" call_timeout: Duration = Is("30s"), Kind::Duration { min: Duration::from_millis(1), max: HOUR };
        /// Namespaces, besides `/`, in which clients' own events are passed on, such as `/app`; `*` for every name of one level.
        "application_namespaces" application_namespaces: Vec<String> = Is("/app"), Kind::List(&Kind::Text);
        /// What the topics of application namespaces begin with: namespace `/app` is the topic `io/app`, its room `lobby` is `io/app/lobby`.
        "application_prefix" application_prefix: String = Is("io"), Kind::Text;
        /// Let clients of application namespaces get their own events, as `io.emit` does; if not, only the others get them, as with `socket.broadcast.emit`.
        "application_echo" application_echo: bool = Is("false"), Kind::Boolean;
        /// Let events of application namespaces carry an offset as their last argument, so that clients that come back get what they missed.
        "application_recovery" application_recovery: bool = Is("false"), Kind::Boolean;
        /// How long a broken connection may be gone on with (connection state recovery). What was missed has to be in the history of the topics as well.
        "recovery_window" recovery_window: Duration = Is("2m"), Kind::Duration { min: SECOND, max: Duration::from_secs(86_400) }, zero("not at all");
        /// Memory for broken connections; the oldest go first.
        "recovery_bytes_max" recovery_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: 64 * KIB, max: GIB };
    }
}
