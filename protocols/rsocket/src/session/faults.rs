//! The codes and sentences by which RSocket says what is refused or over.
//!
//! Relies on the table of close codes. Invariant: every sentence that goes to a client begins with the
//! close code's short name, which programs can rely on.

use tiderace_base::{Close, CloseCode, ErrorClass};

use crate::frame::ErrorCode;
use crate::metrics::Rejection;
use tiderace_base::limits::SENTENCE_BYTES_MAX;

/// The error code of a request that ends so, and the limit that it met if it was not begun.
pub(super) fn stream_code(code: CloseCode) -> (ErrorCode, Option<Rejection>) {
    match code.class() {
        ErrorClass::Invalid | ErrorClass::Unsupported => {
            (ErrorCode::INVALID, Some(Rejection::Other))
        }
        ErrorClass::Rejected => (ErrorCode::REJECTED, Some(met_limit(code))),
        ErrorClass::Cancelled => (ErrorCode::CANCELED, None),
        // Among them values and patches that the topic does not take: the request itself is in order.
        ErrorClass::Failed => (ErrorCode::APPLICATION_ERROR, None),
    }
}

/// The counter of requests that were not begun for want of what the code names.
fn met_limit(code: CloseCode) -> Rejection {
    use CloseCode::{
        MemoryFull, StoreUnavailable, TooManyReceipts, TooManySubscriptions, TooManyTopics,
    };
    match code {
        TooManyReceipts | TooManySubscriptions => Rejection::Streams,
        MemoryFull | StoreUnavailable | TooManyTopics => Rejection::Memory,
        _ => Rejection::Other,
    }
}

/// The close code of a request that the other side ended by an error.
pub(super) fn close_code(code: ErrorCode) -> CloseCode {
    match code {
        ErrorCode::CANCELED => CloseCode::CallCancelled,
        ErrorCode::REJECTED => CloseCode::ServiceBusy,
        _ => CloseCode::CallFailed,
    }
}

/// The error code of a connection that ends so, before or after its setup.
pub(super) fn connection_code(code: CloseCode, before: bool, resuming: bool) -> ErrorCode {
    match code.class() {
        // RSocket has a name for an end in good order.
        _ if !before && matches!(code, CloseCode::ShuttingDown | CloseCode::Draining) => {
            ErrorCode::CONNECTION_CLOSE
        }
        _ if !before => ErrorCode::CONNECTION_ERROR,
        _ if resuming => ErrorCode::REJECTED_RESUME,
        ErrorClass::Unsupported => ErrorCode::UNSUPPORTED_SETUP,
        ErrorClass::Invalid => ErrorCode::INVALID_SETUP,
        _ => ErrorCode::REJECTED_SETUP,
    }
}

/// What a client is told.
pub(super) fn sentence(close: &Close) -> String {
    shortened(format!("{}: {}", close.code.slug(), close.sentence()))
}

/// Of a text of other people's at most so much as an error may have.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > SENTENCE_BYTES_MAX {
        let end = (0..=SENTENCE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::CLOSE_CODES;

    #[test]
    fn every_close_has_a_code_where_it_belongs() {
        for row in CLOSE_CODES {
            assert!(stream_code(row.code).0.is_of_streams(), "{}", row.slug);
            for (before, resuming) in [(true, true), (true, false), (false, false)] {
                let code = connection_code(row.code, before, resuming);
                assert!(code.is_of_connections(), "{}", row.slug);
            }
        }
    }

    #[test]
    fn sentences_are_short_and_begin_with_the_name() {
        let close = Close::new(CloseCode::BadHeader, "ä".repeat(2000));
        let text = sentence(&close);
        assert!(text.starts_with("bad-header: ä") && text.len() <= SENTENCE_BYTES_MAX);
        let to = tiderace_base::Addresses::new(["tcp://b.example.org:7800"]);
        let text = sentence(&Close::from(CloseCode::Draining).to(to.unwrap_or_default()));
        assert!(
            text.starts_with("draining: ") && text.ends_with(" Go to tcp://b.example.org:7800")
        );
    }
}
