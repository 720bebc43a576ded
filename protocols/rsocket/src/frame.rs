//! Frames of RSocket 1.0, borrowed from the bytes they stand in.
//!
//! A frame is read once, head first, and written into the block of a connection; neither allocates.
//! Relies on nothing but slices. Invariants: reading never panics; what is written is read back as it
//! was; bits and bytes without a meaning are skipped, as the specification wants it.

mod code;
mod error;
mod read;
mod split;
mod write;

pub use crate::limits::{FRAME_BYTES_MAX, NUMBER_MAX, POSITION_MAX};
pub use code::ErrorCode;
pub use error::FrameError;
pub use split::{PREFIX_BYTES, Split, detect, split};

/// The version spoken here: its major and its minor number.
pub const VERSION: (u16, u16) = (1, 0);
/// Bytes of the head of every frame: the stream, the type and the flags.
pub const HEADER_BYTES: usize = 6;

/// Types of frames.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of the specification")]
    pub const SETUP: u8 = 0x01;
    pub const LEASE: u8 = 0x02;
    pub const KEEPALIVE: u8 = 0x03;
    pub const REQUEST_RESPONSE: u8 = 0x04;
    pub const REQUEST_FNF: u8 = 0x05;
    pub const REQUEST_STREAM: u8 = 0x06;
    pub const REQUEST_CHANNEL: u8 = 0x07;
    pub const REQUEST_N: u8 = 0x08;
    pub const CANCEL: u8 = 0x09;
    pub const PAYLOAD: u8 = 0x0a;
    pub const ERROR: u8 = 0x0b;
    pub const METADATA_PUSH: u8 = 0x0c;
    pub const RESUME: u8 = 0x0d;
    pub const RESUME_OK: u8 = 0x0e;
    pub const EXT: u8 = 0x3f;
}

/// Flags of frames; those with one value belong to different types.
pub mod flag {
    /// A receiver that does not understand the frame may ignore it.
    pub const IGNORE: u16 = 0x200;
    /// It has metadata.
    pub const METADATA: u16 = 0x100;
    /// More fragments follow: requests, PAYLOAD.
    pub const FOLLOWS: u16 = 0x80;
    /// A token for coming back is there: SETUP.
    pub const RESUME: u16 = 0x80;
    /// An answer is wanted: KEEPALIVE.
    pub const RESPOND: u16 = 0x80;
    /// Leases are honoured: SETUP.
    pub const LEASE: u16 = 0x40;
    /// Nothing comes after this: REQUEST_CHANNEL, PAYLOAD.
    pub const COMPLETE: u16 = 0x40;
    /// It is an item: PAYLOAD.
    pub const NEXT: u16 = 0x20;
}

/// What stands in front of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stream, or 0 for the connection; 31 bits.
    pub stream: u32,
    /// The type, see [`kind`]; 6 bits.
    pub kind: u8,
    /// See [`flag`]; 10 bits.
    pub flags: u16,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The stream, or 0 for the connection; at most [`NUMBER_MAX`].
    pub stream: u32,
    /// What it says.
    pub body: Body<'a>,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The client's first words.
    Setup(Setup<'a>),
    /// How many requests the other side may begin.
    Lease(Lease<'a>),
    /// A sign of life.
    KeepAlive(KeepAlive<'a>),
    /// A stream begins.
    Request(Request<'a>),
    /// Credit for so many more items; 0 breaks the rules, and is for the session to judge.
    RequestN(u32),
    /// The stream's items are not wanted any more.
    Cancel,
    /// An item, the end of a stream, or a further fragment.
    Payload(Item<'a>),
    /// The end of a stream, or of the connection.
    Error(Failure<'a>),
    /// Something about the connection.
    MetadataPush(&'a [u8]),
    /// The client wants to go on where it was.
    Resume(Resume<'a>),
    /// It may; up to this position everything has come from it.
    ResumeOk(u64),
    /// An extension: its type and what comes with it.
    Extension(Extension<'a>),
    /// Not understood, by a sender that does not mind.
    Ignored,
}

/// What the client wants of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup<'a> {
    /// The version it speaks: major and minor.
    pub version: (u16, u16),
    /// How often it will say that it is there; 0 breaks the rules.
    pub interval_ms: u32,
    /// For how long it bears silence; 0 breaks the rules.
    pub lifetime_ms: u32,
    /// By which it will come back, if it wants that; at most 65,535 bytes.
    pub token: Option<&'a [u8]>,
    /// Whether it waits for leases, and gives some.
    pub lease: bool,
    /// What metadata is; at most 255 bytes.
    pub metadata_mime: &'a [u8],
    /// What data is; at most 255 bytes.
    pub data_mime: &'a [u8],
    /// Whatever else it says.
    pub payload: Payload<'a>,
}

/// How many requests the other side may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// For how long; 0 ends all leases.
    pub ttl_ms: u32,
    /// How many; 0 ends all leases.
    pub requests: u32,
    /// Whatever else is said.
    pub metadata: Option<&'a [u8]>,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive<'a> {
    /// Whether an answer is wanted.
    pub respond: bool,
    /// Up to where everything has come; 0 if nobody counts.
    pub position: u64,
    /// Comes back in the answer.
    pub data: &'a [u8],
}

/// How a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interaction {
    /// One item, and no answer.
    FireAndForget,
    /// One item and one answer.
    Response,
    /// One item and many answers.
    Stream,
    /// Many both ways.
    Channel,
}

/// The beginning of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// How the stream goes.
    pub interaction: Interaction,
    /// Whether fragments follow.
    pub follows: bool,
    /// Whether a channel's requester will say no more.
    pub complete: bool,
    /// The credit that a stream or channel begins with; 0 breaks the rules there, and is what the
    /// others have.
    pub credit: u32,
    /// The first item.
    pub payload: Payload<'a>,
}

/// A frame PAYLOAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Whether fragments follow.
    pub follows: bool,
    /// Whether nothing comes after this.
    pub complete: bool,
    /// Whether it is an item, even an empty one.
    pub next: bool,
    /// The item.
    pub payload: Payload<'a>,
}

/// Data and what is said about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload<'a> {
    /// About the data.
    pub metadata: Option<&'a [u8]>,
    /// The data.
    pub data: &'a [u8],
}

/// A frame ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// For programs.
    pub code: ErrorCode,
    /// For people; should be UTF-8.
    pub text: &'a [u8],
}

/// How a client comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume<'a> {
    /// The version it speaks: major and minor.
    pub version: (u16, u16),
    /// What it said in SETUP; at most 65,535 bytes.
    pub token: &'a [u8],
    /// Up to where everything has come from the server.
    pub received: u64,
    /// From where on it can send again.
    pub available: u64,
}

/// A frame EXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Whether it may be ignored.
    pub ignore: bool,
    /// Whether it has metadata; where that is depends on the type.
    pub metadata: bool,
    /// The extended type; 31 bits.
    pub kind: u32,
    /// The rest.
    pub bytes: &'a [u8],
}

impl Header {
    /// Whether one of these flags is set.
    pub fn has(self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Whether it counts in positions: frames of streams that a client that comes back may want again. An
    /// ERROR that ends the connection is counted by nobody.
    pub fn counts(self) -> bool {
        let requests = kind::REQUEST_RESPONSE..=kind::REQUEST_CHANNEL;
        let others = [kind::REQUEST_N, kind::CANCEL, kind::PAYLOAD, kind::ERROR];
        self.stream != 0 && (requests.contains(&self.kind) || others.contains(&self.kind))
    }
}

impl<'a> Payload<'a> {
    /// Data without metadata.
    pub fn data(data: &'a [u8]) -> Payload<'a> {
        Payload { metadata: None, data }
    }

    /// Both.
    pub fn new(metadata: &'a [u8], data: &'a [u8]) -> Payload<'a> {
        Payload { metadata: Some(metadata), data }
    }

    /// Bytes of both.
    pub fn len(&self) -> usize {
        self.metadata.map_or(0, <[u8]>::len) + self.data.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Frame<'a> {
    /// A frame of the connection.
    pub fn connection(body: Body<'a>) -> Frame<'a> {
        Frame { stream: 0, body }
    }

    /// An item of a stream; the last one if `complete`.
    pub fn item(stream: u32, payload: Payload<'a>, complete: bool) -> Frame<'a> {
        Frame {
            stream,
            body: Body::Payload(Item { follows: false, complete, next: true, payload }),
        }
    }

    /// The end of a stream in good order.
    pub fn complete(stream: u32) -> Frame<'a> {
        let payload = Payload::default();
        Frame {
            stream,
            body: Body::Payload(Item { follows: false, complete: true, next: false, payload }),
        }
    }

    /// The end of a stream, or of the connection if the stream is 0.
    pub fn error(stream: u32, code: ErrorCode, text: &'a str) -> Frame<'a> {
        Frame { stream, body: Body::Error(Failure { code, text: text.as_bytes() }) }
    }

    /// Credit.
    pub fn request_n(stream: u32, items: u32) -> Frame<'a> {
        Frame { stream, body: Body::RequestN(items) }
    }

    /// No more of that stream.
    pub fn cancel(stream: u32) -> Frame<'a> {
        Frame { stream, body: Body::Cancel }
    }
}

impl Interaction {
    /// The type of its request.
    pub fn kind(self) -> u8 {
        match self {
            Interaction::Response => kind::REQUEST_RESPONSE,
            Interaction::FireAndForget => kind::REQUEST_FNF,
            Interaction::Stream => kind::REQUEST_STREAM,
            Interaction::Channel => kind::REQUEST_CHANNEL,
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Interaction::Response => "response",
            Interaction::FireAndForget => "fnf",
            Interaction::Stream => "stream",
            Interaction::Channel => "channel",
        }
    }

    /// Whether its requester gives credit.
    pub fn has_credit(self) -> bool {
        matches!(self, Interaction::Stream | Interaction::Channel)
    }
}
