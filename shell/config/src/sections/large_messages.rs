//! Messages that are too large for memory.

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is};
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const COUNT: Kind = Kind::Integer { min: 1, max: 100_000 };

section! {
    /// Messages that are too large for memory: they arrive in files, and leave from there.
    "large_messages" TABLE LargeMessagesConfig {
        /// The directory of the files, on a local disk; made if it does not exist. The files have no names there and end with the server, but for those of persistent messages, which get a name in `store.directory`; it should be on the same file system. Not set: no message may be larger than `limits.message_bytes_max`.
        "directory" directory: Option<String> = Absent, Kind::Text;
        /// Frames and bodies of so many bytes and more arrive in a file, if they say how long they are.
        "bytes_min" bytes_min: usize = Is("256 KiB"), Kind::Bytes { min: 64 * KIB, max: GIB };
        /// Body of one message that arrives in a file.
        "bytes_max" bytes_max: usize = Is("1 GiB"), Kind::Bytes { min: KIB, max: 4 * GIB - 16 * MIB };
        /// Bytes in all files together, those that the store keeps included; what would be more is refused.
        "disk_bytes_max" disk_bytes_max: u64 = Is("16 GiB"), Kind::Bytes { min: MIB, max: 1 << 50 };
        /// Bytes in the files of one user: of what was sent since the start, and of what the store has kept from before in queues that are his.
        "user_bytes_max" user_bytes_max: u64 = Is("8 GiB"), Kind::Bytes { min: MIB, max: 1 << 50 };
        /// Messages that arrive in files at a time; each takes up to 640 KiB of memory until it is whole.
        "uploads_max" uploads_max: usize = Is("256"), COUNT;
        /// Those of one user.
        "user_uploads_max" user_uploads_max: usize = Is("64"), COUNT;
    }
}
