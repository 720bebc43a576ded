//! The ways a request can be refused.
//!
//! Relies on nothing. Invariant: every [`HttpError`] has a status, a stable code and a sentence,
//! and stands exactly once in `HttpError::ALL`. After any of them the connection must be closed,
//! for it is no longer known where the next request begins.

macro_rules! http_errors {
    ($( $(#[$doc:meta])* $variant:ident, $status:literal, $code:literal, $sentence:literal; )*) => {
        /// Why a request is refused; the connection closes after the answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[non_exhaustive]
        pub enum HttpError {
            $( $(#[$doc])* #[error($sentence)] $variant, )*
        }

        impl HttpError {
            /// Every variant, for tables in documentation and for metrics.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The status of the answer.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $( Self::$variant => $status, )* }
            }

            /// A stable name for clients, logs, metrics and documentation.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $( Self::$variant => $code, )* }
            }
        }
    };
}

http_errors! {
    /// A line ends in LF without CR. RFC 9112 section 2.2 allows tolerance; disagreement about
    /// where lines end is how requests are smuggled, so there is none here.
    BareLineFeed, 400, "http-bare-line-feed", "a line ends with LF alone; lines end with CR LF";
    /// The body is larger than the limit.
    BodyTooLarge, 413, "http-body-too-large", "the body is larger than the limit of this server";
    /// The chunk extensions are too long.
    ChunkExtensionTooLong, 400, "http-chunk-extension-too-long", "the chunk extensions are too long";
    /// A chunk is malformed (RFC 9112 section 7.1).
    ChunkInvalid, 400, "http-chunk-invalid", "the chunked body is malformed";
    /// Content-Length is not a decimal number (RFC 9110 section 8.6).
    ContentLengthInvalid, 400, "http-content-length-invalid", "Content-Length is not a decimal number";
    /// More than one Content-Length, equal or not (RFC 9112 section 6.3 allows refusing both).
    ContentLengthRepeated, 400, "http-content-length-repeated", "Content-Length may be given once only";
    /// An expectation other than 100-continue (RFC 9110 section 10.1.1).
    ExpectationFailed, 417, "http-expectation-failed", "the only expectation supported is 100-continue";
    /// Content-Length and Transfer-Encoding together (RFC 9112 section 6.1).
    FramingConflict, 400, "http-framing-conflict", "Content-Length and Transfer-Encoding exclude each other";
    /// A header line is malformed (RFC 9112 section 5).
    HeaderInvalid, 400, "http-header-invalid", "a header line is malformed";
    /// Too many header fields.
    HeadersTooMany, 431, "http-headers-too-many", "the request has too many header fields";
    /// The head is larger than the limit.
    HeadTooLarge, 431, "http-head-too-large", "the request line and header fields are too large";
    /// Host is malformed (RFC 9112 section 3.2).
    HostInvalid, 400, "http-host-invalid", "the Host header is malformed";
    /// Host is missing from an HTTP/1.1 request (RFC 9112 section 3.2).
    HostMissing, 400, "http-host-missing", "HTTP/1.1 requests must have a Host header";
    /// More than one Host (RFC 9112 section 3.2).
    HostRepeated, 400, "http-host-repeated", "Host may be given once only";
    /// The connection preface of HTTP/2 (RFC 9113 section 3.4).
    Http2Preface, 505, "http-http2-preface", "this is the preface of HTTP/2, which is not served here";
    /// CONNECT; this is no proxy.
    MethodConnect, 501, "http-method-connect", "the method CONNECT is not supported";
    /// A header line is continued on the next (RFC 9112 section 5.2).
    ObsoleteFolding, 400, "http-obsolete-folding", "header lines must not be continued on the next line";
    /// The request line is malformed (RFC 9112 section 3).
    RequestLineInvalid, 400, "http-request-line-invalid", "the request line is malformed";
    /// White space between a header's name and its colon (RFC 9112 section 5.1).
    SpaceBeforeColon, 400, "http-space-before-colon", "white space stands between a header's name and its colon";
    /// The request target is malformed (RFC 9112 section 3.2).
    TargetInvalid, 400, "http-target-invalid", "the request target is malformed";
    /// The request target is longer than the limit.
    TargetTooLong, 414, "http-target-too-long", "the request target is too long";
    /// Trailers are larger than the limit.
    TrailerTooLarge, 431, "http-trailer-too-large", "the trailer section is too large";
    /// Transfer-Encoding is malformed or chunked is not its end (RFC 9112 section 6.3).
    TransferEncodingInvalid, 400, "http-transfer-encoding-invalid", "Transfer-Encoding is malformed or used with HTTP/1.0";
    /// A transfer coding other than chunked (RFC 9112 section 6.1).
    TransferEncodingUnsupported, 501, "http-transfer-encoding-unsupported", "the only transfer coding supported is chunked";
    /// Not HTTP/1.0 or HTTP/1.1.
    VersionUnsupported, 505, "http-version-unsupported", "only HTTP/1.1 and HTTP/1.0 are supported here";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_statuses_are_errors() {
        let codes: BTreeSet<_> = HttpError::ALL.iter().map(|error| error.code()).collect();
        assert_eq!(codes.len(), HttpError::ALL.len());
        for error in HttpError::ALL {
            assert!((400..600).contains(&error.status()), "{error:?}");
        }
    }
}
