//! Updates as differences to the value before.

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::{choice, section};

const MIB: u64 = 1 << 20;

section! {
    /// Updates of topics as differences to the value before, for clients that ask for them. Each is made once for all who get it; where it is not smaller, or the client lacks the value before, the whole value is sent.
    "deltas" TABLE DeltasConfig {
        /// The codecs that clients may choose from. An empty list switches deltas off.
        "codecs" codecs: Vec<DeltaCodec> = Is("tiderace,vcdiff"), Kind::List(&Kind::Choice(DeltaCodec::WORDS));
        /// The largest body of which a difference is made: making one takes time in proportion.
        "bytes_max" bytes_max: usize = Is("64 KiB"), Kind::Bytes { min: 16, max: 16 * MIB };
    }
}

choice! {
    /// How a difference is written.
    DeltaCodec {
        /// Our own: the smallest and fastest, understood by our clients.
        Tiderace = "tiderace",
        /// RFC 3284: understood by decoders of others, such as `@ably/vcdiff-decoder`; about twenty bytes more each.
        Vcdiff = "vcdiff",
    }
}
