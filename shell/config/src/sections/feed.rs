//! Made-up data that the server publishes itself, for demonstrations and load tests.

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

const MIB: u64 = 1 << 20;

section! {
    /// A feed: made-up data that the server publishes itself, for demonstrations and load tests.
    "feed" LIST FeedConfig {
        /// What it publishes.
        "kind" kind: FeedKind = Required, Kind::Choice(FeedKind::WORDS);
        /// What precedes the names of its topics: currency pairs such as `EUR-USD`, or numbers from 0.
        "path" path: String = Required, Kind::Text;
        /// How many topics.
        "topics" topics: usize = Is("16"), Kind::Integer { min: 1, max: 10_000_000 };
        /// Messages per second, all topics together.
        "rate" rate: u64 = Is("10"), Kind::Integer { min: 1, max: 100_000_000 }, zero("as fast as subscribers take them");
        /// Bytes of each message of a `timed` feed.
        "size" size: usize = Is("1 KiB"), Kind::Bytes { min: 16, max: MIB };
        /// Without a rate: bytes that each event loop publishes at a time, when all before has been written.
        "burst" burst: usize = Is("256 KiB"), Kind::Bytes { min: 1024, max: 256 * MIB };
        /// Whether its messages are kept for new subscribers. If absent: those of `quotes` are.
        "retain" retain: Option<bool> = Absent, Kind::Boolean;
        /// Begin stopped, and let clients that may publish to `PATH/control` set the rate: messages per second, `max` or `stop`.
        "control" control: bool = Is("false"), Kind::Boolean;
    }
}

section! {
    /// Development mode, which is `tiderace` without a command.
    "development" TABLE DevelopmentConfig {
        /// Publish made-up exchange rates to `demo/fx/*`.
        "quotes" quotes: bool = Is("true"), Kind::Boolean;
    }
}

choice! {
    /// What a feed publishes.
    FeedKind {
        /// Exchange rates that wander, as JSON of nearly a kilobyte each.
        Quotes = "quotes",
        /// Messages that begin with the time they were due: nanoseconds since 1970, 8 bytes big-endian.
        Timed = "timed",
        /// The same as text: the time in 16 hexadecimal digits.
        TimedText = "timed-text",
    }
}
