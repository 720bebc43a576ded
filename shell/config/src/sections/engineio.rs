//! Engine.IO: what carries Socket.IO and the native protocol through long polling.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is};
use crate::spec::section;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const BEAT: Kind =
    Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3_600) };

section! {
    /// Engine.IO, revisions 4 and 3: long polling and WebSocket, with upgrades from one to the other, under Socket.IO and the native protocol. Pages of the origins in `server.origins` may poll.
    "engineio" TABLE EngineIoConfig {
        /// Time between heartbeats.
        "ping_interval" ping_interval: Duration = Is("25s"), BEAT;
        /// How late the answer to a heartbeat may be; with revision 3, the client's heartbeat.
        "ping_timeout" ping_timeout: Duration = Is("20s"), BEAT;
        /// Time that a client may take to go over from polling to WebSocket.
        "upgrade_timeout" upgrade_timeout: Duration = Is("10s"), BEAT;
        /// Body of one request and size of one WebSocket message from a client; clients are told.
        "payload_bytes_max" payload_bytes_max: usize = Is("1000000"), Kind::Bytes { min: KIB, max: GIB };
        /// Packets in the body of one request.
        "packets_max" packets_max: usize = Is("10000"), Kind::Integer { min: 1, max: 10_000_000 };
        /// Let clients begin with long polling; if not, they have to connect by WebSocket at once.
        "polling" polling: bool = Is("true"), Kind::Boolean;
        /// Let clients connect by WebSocket.
        "websocket" websocket: bool = Is("true"), Kind::Boolean;
        /// Let clients go over from polling to WebSocket.
        "upgrades" upgrades: bool = Is("true"), Kind::Boolean;
        /// Speak revision 3 (`EIO=3`: Socket.IO 1 and 2, Rubris) as well.
        "revision_3" revision_3: bool = Is("true"), Kind::Boolean;
        /// Answer polls of script elements (JSONP), which old browsers make; they are not bound to an origin.
        "jsonp" jsonp: bool = Is("true"), Kind::Boolean;
        /// Name of a cookie that tells balancers to which session a request belongs. Inside one node any connection serves any session.
        "cookie" cookie: Option<String> = Absent, Kind::Name;
        /// Let pages of other origins poll with cookies and credentials.
        "credentials" credentials: bool = Is("false"), Kind::Boolean;
    }
}
