//! HTTP/1.1 (RFC 9112) request heads, bodies and responses, sans-I/O.
//!
//! The crate relies on its caller for sockets, buffers and the date; it keeps the invariant that
//! a message whose framing two parsers could read differently is refused, and that no input
//! makes it panic, hold memory or work more than linearly.
//!
//! # Reading
//!
//! ```
//! use tiderace_http1::{Body, HeadScanner, Limits, RequestHead};
//!
//! let limits = Limits::default();
//! let mut scanner = HeadScanner::default();
//! let input = b"GET /topics/a?n=1 HTTP/1.1\r\nHost: example.com\r\n\r\n";
//!
//! // With every read: the scanner resumes where it stopped, so slow senders cost linear work.
//! if let Some(head) = RequestHead::parse(&limits, &mut scanner, input)? {
//!     assert_eq!((head.method(), head.path(), head.query()), ("GET", "/topics/a", Some("n=1")));
//!     assert_eq!(head.body(), Body::None);
//!     assert!(head.keep_alive());
//!     assert_eq!(head.consumed(), input.len());
//! }
//! # Ok::<(), tiderace_http1::HttpError>(())
//! ```
//!
//! A body of [`Body::Length`] is the next bytes as they are; one of [`Body::Chunked`] goes
//! through a [`ChunkedDecoder`].
//!
//! # Writing
//!
//! [`Response`] writes whole or streamed responses.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod chunked;
mod error;
mod fields;
mod framing;
mod head;
mod limits;
mod response;
mod scan;
mod target;

pub use chunked::{ChunkEvent, ChunkedDecoder, DecodedChunk};
pub use error::HttpError;
pub use fields::{header_tokens, is_token};
pub use framing::Body;
pub use head::RequestHead;
pub use limits::{HEADERS_CAPACITY, Limits};
pub use response::{
    Connection, Response, ResponseBody, ResponseError, write_chunk, write_last_chunk,
};
pub use scan::HeadScanner;
