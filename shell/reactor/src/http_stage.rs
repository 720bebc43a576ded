//! What a connection that sends HTTP requests is doing: the request whose body is read, or that waits.
//!
//! Relies on the HTTP crate for framing.

use tiderace_base::{Key, Time};
use tiderace_http1::{ChunkEvent, ChunkedDecoder, HeadScanner, HttpError};
use tiderace_wire::{Request, Route};

/// HTTP requests one after the other.
#[derive(Debug, Default)]
pub(crate) struct HttpStage {
    pub(crate) scanner: HeadScanner,
    pub(crate) work: Work,
}

const _: () = assert!(size_of::<HttpStage>() <= 24, "many connections wait with a request held");

/// What a connection does between two request heads.
#[derive(Debug, Default)]
pub(crate) enum Work {
    /// The next head is due.
    #[default]
    Idle,
    /// The rest of a body that nobody wants.
    Skip(Box<BodyRest>),
    /// A body is read for a protocol.
    Collect(Box<Collected>),
    /// A session has the request.
    Waiting(Asked),
}

impl Work {
    /// Whether nothing more is taken in until a session has said something.
    pub(crate) fn waits(&self) -> bool {
        match self {
            Work::Waiting(_) => true,
            Work::Collect(collected) => collected.is_awaiting(),
            Work::Idle | Work::Skip(_) => false,
        }
    }
}

/// A request that a session is to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The session's record; its own key while nobody has it.
    pub(crate) session: Key,
    pub(crate) is_head: bool,
    pub(crate) persists: bool,
    /// Whether the client understands chunks.
    pub(crate) chunks: bool,
}

/// A request apart from the bytes it came in.
#[derive(Clone, Debug)]
pub(crate) struct KeptRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) peer: std::net::SocketAddr,
}

impl KeptRequest {
    pub(crate) fn of(request: &Request<'_>) -> KeptRequest {
        let field = |(name, value): &(&str, &[u8])| ((*name).to_owned(), value.to_vec());
        KeptRequest {
            method: request.method.to_owned(),
            path: request.path.to_owned(),
            query: request.query.map(str::to_owned),
            fields: request.fields.iter().map(field).collect(),
            body: request.body.to_vec(),
            peer: request.peer,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let field = |(name, value): &(String, Vec<u8>)| {
            size_of::<(String, Vec<u8>)>() + name.capacity() + value.capacity()
        };
        let query = self.query.as_ref().map_or(0, String::capacity);
        let fields = self.fields.iter().map(field).sum::<usize>();
        self.body.capacity() + self.path.capacity() + query + fields
    }

    /// Calls with the request as protocols see it.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&Request<'_>) -> T) -> T {
        let fields: Vec<(&str, &[u8])> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        call(&Request {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            fields: &fields,
            body: &self.body,
            peer: self.peer,
        })
    }
}

/// What is left of a request body.
#[derive(Debug)]
pub(crate) enum BodyRest {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// A request whose body is being read.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) protocol: u16,
    pub(crate) route: Route,
    pub(crate) request: KeptRequest,
    pub(crate) rest: Option<BodyRest>,
    pub(crate) persists: bool,
    pub(crate) chunks: bool,
    /// When the whole body is due.
    pub(crate) by: Time,
    /// Bytes that it may have.
    pub(crate) most: usize,
    /// The session that was opened for it, if its login is judged by the head.
    pub(crate) session: Option<Key>,
    /// What is to be done when that has logged in.
    pub(crate) admission: Admission,
}

/// Whether a body may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    /// Up to the limit before the login: its session has not logged in.
    Early,
    /// Not before the session has logged in; whether the client waits to be told.
    Awaited {
        expects: bool,
    },
}

impl Collected {
    /// Bytes that the request takes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.request.bytes()
    }

    /// The session that judges the request's head, or has judged it.
    pub(crate) fn session(&self) -> Option<Key> {
        self.session
    }

    /// Whether the client must not send the body yet.
    pub(crate) fn is_awaiting(&self) -> bool {
        matches!(self.admission, Admission::Awaited { .. })
    }

    /// Whether the body is of a client that has logged in.
    pub(crate) fn is_known(&self) -> bool {
        self.admission == Admission::Granted
    }

    /// As a request that can be answered now: the rest of its body is not waited for.
    pub(crate) fn asked(&self, session: Key) -> Asked {
        let is_head = self.request.method == "HEAD";
        Asked { session, is_head, persists: false, chunks: self.chunks }
    }
}

/// What was taken of a body.
pub(crate) struct Taken {
    pub(crate) consumed: usize,
    /// Whether it ends there.
    pub(crate) over: bool,
}

/// Takes what there is of a body.
pub(crate) fn take_body(
    rest: &mut BodyRest,
    limits: &tiderace_http1::Limits,
    bytes: &[u8],
    mut take: impl FnMut(&[u8]),
) -> Result<Taken, HttpError> {
    match rest {
        BodyRest::Length(left) => {
            let count = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
            take(bytes.get(..count).unwrap_or_default());
            *left -= count as u64;
            Ok(Taken { consumed: count, over: *left == 0 })
        }
        BodyRest::Chunked(decoder) => {
            let mut consumed = 0;
            loop {
                let decoded = decoder.decode(limits, bytes.get(consumed..).unwrap_or_default())?;
                consumed += decoded.consumed;
                match decoded.event {
                    ChunkEvent::Incomplete => return Ok(Taken { consumed, over: false }),
                    ChunkEvent::Data(part) => take(part),
                    ChunkEvent::End => return Ok(Taken { consumed, over: true }),
                }
            }
        }
    }
}
