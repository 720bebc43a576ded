//! Records for the store, and what each concerns.

use bytes::Bytes;
use tiderace_base::Key;
use tiderace_topics::Path;

/// What a stream is the persistence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A topic.
    Topic,
    /// A queue.
    Queue,
}

/// Something for the store, in terms of streams: the persistence of a topic or queue, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRecord {
    /// A stream is there, or is described anew.
    Declare {
        /// Which.
        stream: u64,
        /// What it is the persistence of.
        kind: StoredKind,
        /// The topic or queue.
        path: Path,
        /// What the topic is, in the form of the room that restores it.
        description: Vec<u8>,
        /// The version of its last message; zero for none.
        version: u64,
    },
    /// Consecutive messages.
    Put {
        /// Of which stream.
        stream: u64,
        /// The version of the first.
        first: u64,
        /// How many.
        count: u32,
        /// Messages of lower versions are not needed any more.
        keep_from: u64,
        /// The messages, in the form of the room that restores them.
        bytes: Vec<u8>,
        /// Of a single message, its body, if that lies in a file, which the store is to keep as one.
        body: Option<RecordBody>,
    },
    /// Consecutive messages that several streams have.
    PutShared {
        /// Of which streams, each with the version of the first there; in no order.
        owners: Vec<(u64, u64)>,
        /// How many.
        count: u32,
        /// The messages, in the form of the room that restores them.
        bytes: Vec<u8>,
    },
    /// Messages up to and with a version are not needed any more.
    Trim {
        /// Of which stream.
        stream: u64,
        /// Which version.
        up_to: u64,
    },
    /// Messages are not needed any more: consumed, or gone otherwise.
    Settle {
        /// Of which stream.
        stream: u64,
        /// First and last version of each stretch, rising and apart.
        ranges: Vec<(u64, u64)>,
    },
    /// The stream is gone with all its messages.
    Drop {
        /// Which.
        stream: u64,
    },
    /// A named value.
    Set {
        /// Its name.
        name: String,
        /// The value.
        value: Vec<u8>,
    },
    /// A named value is gone.
    Unset {
        /// Its name.
        name: String,
    },
}

/// The body of a message that lies in a file. If the store cannot keep the file, it leaves the record out, and takes the others
/// that it was given together with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBody {
    /// The body.
    pub bytes: Bytes,
    /// The number of the record, by which the store says that it has left it out; given when it is appended.
    pub record: u64,
    /// What is not needed any more as soon as the message is there, by stream: first and last version of each stretch,
    /// rising and apart. Left out together with the message.
    pub settles: Vec<(u64, Vec<(u64, u64)>)>,
}

impl From<Bytes> for RecordBody {
    fn from(bytes: Bytes) -> RecordBody {
        RecordBody { bytes, record: 0, settles: Vec::new() }
    }
}

impl StoreRecord {
    /// Bytes that it keeps in memory while it waits for the store.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            StoreRecord::Declare { description, .. } => description.len(),
            StoreRecord::Put { bytes, .. } => bytes.len(),
            StoreRecord::PutShared { owners, bytes, .. } => bytes.len() + size_of_val(&**owners),
            StoreRecord::Set { value, .. } => value.len(),
            StoreRecord::Settle { ranges, .. } => size_of_val(&**ranges),
            StoreRecord::Trim { .. } | StoreRecord::Drop { .. } | StoreRecord::Unset { .. } => 0,
        };
        more + size_of::<StoreRecord>() + size_of::<(u64, RecordSubject)>()
    }
}

/// What a record concerns: what has to be appended again when the store has refused it. Their order
/// is the order in which that is done: first what allows numbers to be given, then what makes room.
///
/// What belongs to an answer alone has no subject: its user does what is to be done when that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordSubject {
    /// The numbers that messages may be given.
    Numbers,
    /// The fences that holders of locks may be given.
    Fences,
    /// A stream that has ended.
    Gone(u64),
    /// Messages of a stream that are not needed any more: from the first to the last of these versions.
    Settled(u64, u64, u64),
    /// A queue, and the stream in which it is kept.
    Queue(Key, u64),
    /// A topic, and the stream in which it is kept.
    Topic(Key, u64),
    /// A view, by the number under which it is kept.
    View(u64),
}

/// Numbers for new streams: those of one of several homes that share a store.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    next: u64,
    step: u64,
}

impl Streams {
    /// Those of the home with an index among so many, above all that are in use.
    pub fn of_home(from: u64, home: u16, homes: usize) -> Streams {
        Streams { next: from + u64::from(home), step: homes.max(1) as u64 }
    }

    /// A number that no other stream has.
    pub fn create(&mut self) -> u64 {
        let stream = self.next;
        self.next += self.step;
        stream
    }
}
