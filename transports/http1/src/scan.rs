//! Finding the end of a request head in bytes that arrive in pieces.
//!
//! Relies on being shown the same bytes again with more behind them. Invariant: each byte is
//! looked at once, whatever the sizes of the pieces, and hopeless requests are refused at their
//! first line instead of waiting for an empty one.

use crate::error::HttpError;
use crate::limits::Limits;
use crate::target::check_request_line;

/// Where the search for the end of the head stopped: eight bytes for each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadScanner {
    /// Everything before this has been looked at.
    scanned: u32,
    /// Where the line in progress begins.
    line_start: u32,
}

impl HeadScanner {
    /// Looks for the end of the head in all bytes received since the request began.
    ///
    /// Returns the length of the head including its empty line, or `None` while it is not whole.
    /// Empty lines before the request line belong to the head (RFC 9112 section 2.2); at most two
    /// are tolerated.
    ///
    /// # Errors
    ///
    /// [`HttpError`] as soon as the bytes cannot become an acceptable head: too large, a line
    /// ending in LF alone, a bad request line, HTTP/0.9, HTTP/2.
    pub fn scan(&mut self, limits: &Limits, input: &[u8]) -> Result<Option<usize>, HttpError> {
        // Positions fit 32 bits: no head limit beyond 4 GiB is meaningful.
        let head_bytes_max = limits.head_bytes_max.min(u32::MAX as usize);
        let window = input.get(..head_bytes_max).unwrap_or(input);
        while let Some(unseen) = window.get(self.scanned as usize..) {
            let Some(offset) = memchr::memchr(b'\n', unseen) else {
                break;
            };
            let line_feed = self.scanned as usize + offset;
            let line = window.get(self.line_start as usize..line_feed).unwrap_or_default();
            let line = line.strip_suffix(b"\r").ok_or(HttpError::BareLineFeed)?;
            let line_start = self.line_start as usize;
            self.scanned = (line_feed + 1) as u32;
            self.line_start = self.scanned;
            if Self::line_end(limits, line, line_start)? {
                return Ok(Some(line_feed + 1));
            }
        }
        self.scanned = window.len() as u32;
        if input.len() >= head_bytes_max {
            return Err(self.too_large());
        }
        Ok(None)
    }

    /// Forgets everything; call it when the head has been dropped from the input.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Judges one line; true when it is the empty line that ends the head.
    ///
    /// The shortest request line, "A / HTTP/1.1" and its end, has 14 bytes, and a bad one ends the
    /// search. A line that begins within [`LEADING_BYTES_MAX`] therefore has only empty lines
    /// before it.
    fn line_end(limits: &Limits, line: &[u8], start: usize) -> Result<bool, HttpError> {
        match (line.is_empty(), start) {
            (true, 0..LEADING_BYTES_MAX) => Ok(false),
            (true, LEADING_BYTES_MAX) => Err(HttpError::RequestLineInvalid),
            (true, _) => Ok(true),
            (false, 0..=LEADING_BYTES_MAX) => check_request_line(limits, line).map(|()| false),
            (false, _) => Ok(false),
        }
    }

    fn too_large(&self) -> HttpError {
        if self.line_start as usize <= LEADING_BYTES_MAX {
            HttpError::TargetTooLong
        } else {
            HttpError::HeadTooLarge
        }
    }
}

/// Two empty lines of CR LF before the request line.
const LEADING_BYTES_MAX: usize = 4;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn the_end_is_found_at_every_split() {
        for cut in 0..HEAD.len() {
            let mut scanner = HeadScanner::default();
            assert_eq!(scanner.scan(&Limits::default(), &HEAD[..cut]), Ok(None), "{cut}");
            assert_eq!(scanner.scan(&Limits::default(), HEAD), Ok(Some(HEAD.len())), "{cut}");
        }
    }

    #[test]
    fn empty_lines_before_the_request_line_are_tolerated_twice() {
        let limits = Limits::default();
        for count in 0..=2 {
            let input = [b"\r\n".repeat(count), HEAD.to_vec()].concat();
            assert_eq!(HeadScanner::default().scan(&limits, &input), Ok(Some(input.len())));
        }
        let error = HeadScanner::default().scan(&limits, b"\r\n\r\n\r\n");
        assert_eq!(error, Err(HttpError::RequestLineInvalid));
    }

    #[test]
    fn what_follows_the_head_is_not_looked_at() {
        let input = [HEAD, b"\n\n\n"].concat();
        let found = HeadScanner::default().scan(&Limits::default(), &input);
        assert_eq!(found, Ok(Some(HEAD.len())));
    }

    #[test]
    fn heads_without_end_stop_at_the_limit() {
        let limits = Limits { head_bytes_max: 100, ..Limits::default() };
        let mut scanner = HeadScanner::default();
        assert_eq!(scanner.scan(&limits, &[b'A'; 99]), Ok(None));
        assert_eq!(scanner.scan(&limits, &[b'A'; 100]), Err(HttpError::TargetTooLong));
        let long = [HEAD.strip_suffix(b"\r\n").unwrap(), &[b'A'; 100]].concat();
        let error = HeadScanner::default().scan(&limits, &long);
        assert_eq!(error, Err(HttpError::HeadTooLarge));
    }

    #[test]
    fn requests_of_version_0_9_are_answered_at_their_only_line() {
        let error = HeadScanner::default().scan(&Limits::default(), b"GET /\r\n");
        assert_eq!(error, Err(HttpError::VersionUnsupported));
    }
}
