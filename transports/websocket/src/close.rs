//! Close codes, and the ways a peer's bytes can end a connection.
//!
//! Relies on nothing. Invariant: every [`CloseError`] has a sendable close code, a stable code
//! string and a sentence, and `CloseError::ALL` lists each exactly once.

/// Status codes of RFC 6455 section 7.4.1 that this codec sends or that callers may need.
pub mod close_code {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// The endpoint goes away, for example the server shuts down.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// The peer sent a kind of data that cannot be accepted.
    pub const UNSUPPORTED_DATA: u16 = 1003;
    /// The data does not fit the message type, for example text that is not UTF-8.
    pub const INVALID_PAYLOAD: u16 = 1007;
    /// The message violates a policy.
    pub const POLICY_VIOLATION: u16 = 1008;
    /// The message is too big to process.
    pub const MESSAGE_TOO_BIG: u16 = 1009;
    /// The server met an unexpected condition.
    pub const INTERNAL_ERROR: u16 = 1011;
    /// The service restarts; reconnect after a random delay (IANA registry).
    pub const SERVICE_RESTART: u16 = 1012;
    /// The server is overloaded; try again later (IANA registry).
    pub const TRY_AGAIN_LATER: u16 = 1013;
}

/// Whether `code` may stand in a close frame (RFC 6455 sections 7.4.1 and 7.4.2).
///
/// 1004, 1005, 1006 and 1015 are reserved and never sent; 1012 to 1014 are in the IANA registry;
/// 3000 to 3999 are for registration and 4000 to 4999 for private use.
#[must_use]
pub const fn close_code_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Why the decoder gave up on a peer.
///
/// The connection cannot go on: send a close frame with [`CloseError::close_code`] and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// A close frame carries a status code that must not be sent.
    #[error("the close frame carries a status code that must not be sent")]
    CloseCodeInvalid,
    /// A close frame has a payload of one byte.
    #[error("the close frame has one byte of payload; a status code takes two")]
    ClosePayloadTruncated,
    /// A continuation frame arrived with no message to continue.
    #[error("a continuation frame arrived while no message was in progress")]
    ContinuationUnexpected,
    /// A control frame was fragmented.
    #[error("control frames must not be fragmented")]
    ControlFragmented,
    /// A control frame declares more than 125 bytes.
    #[error("control frames carry at most 125 bytes")]
    ControlTooLong,
    /// Too many control frames in a row.
    #[error("too many control frames in a row")]
    ControlFlood,
    /// Too many empty fragments in a row.
    #[error("too many empty fragments in a row")]
    EmptyFragmentFlood,
    /// A message was split into too many fragments.
    #[error("the message is split into too many fragments")]
    FragmentsTooMany,
    /// The length is not in its shortest form.
    #[error("the payload length is not encoded in its shortest form")]
    LengthNotMinimal,
    /// A 64-bit length has its highest bit set.
    #[error("the highest bit of a 64-bit payload length must be zero")]
    LengthOverflow,
    /// The server masked a frame.
    #[error("frames from a server must not be masked")]
    MaskForbidden,
    /// The client did not mask a frame.
    #[error("frames from a client must be masked")]
    MaskRequired,
    /// A new message began before the fragmented one ended.
    #[error("a new message began before the fragmented message ended")]
    MessageInterleaved,
    /// The message is larger than the limit.
    #[error("the message is larger than the limit of this server")]
    MessageTooBig,
    /// The opcode is reserved.
    #[error("the opcode is reserved")]
    OpcodeReserved,
    /// A reserved bit is set.
    #[error("a reserved bit is set though no extension was negotiated")]
    ReservedBitSet,
    /// A text message or a close reason is not UTF-8.
    #[error("the text is not valid UTF-8")]
    TextNotUtf8,
}

impl CloseError {
    /// Every variant, for tables in documentation and for metrics.
    pub const ALL: [Self; 17] = [
        Self::CloseCodeInvalid,
        Self::ClosePayloadTruncated,
        Self::ContinuationUnexpected,
        Self::ControlFragmented,
        Self::ControlTooLong,
        Self::ControlFlood,
        Self::EmptyFragmentFlood,
        Self::FragmentsTooMany,
        Self::LengthNotMinimal,
        Self::LengthOverflow,
        Self::MaskForbidden,
        Self::MaskRequired,
        Self::MessageInterleaved,
        Self::MessageTooBig,
        Self::OpcodeReserved,
        Self::ReservedBitSet,
        Self::TextNotUtf8,
    ];

    /// The status code to put in the close frame.
    #[must_use]
    pub const fn close_code(self) -> u16 {
        match self {
            Self::ControlFlood | Self::EmptyFragmentFlood | Self::FragmentsTooMany => {
                close_code::POLICY_VIOLATION
            }
            Self::MessageTooBig => close_code::MESSAGE_TOO_BIG,
            Self::TextNotUtf8 => close_code::INVALID_PAYLOAD,
            _ => close_code::PROTOCOL_ERROR,
        }
    }

    /// A stable name for logs, metrics and documentation.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::CloseCodeInvalid => "ws-close-code-invalid",
            Self::ClosePayloadTruncated => "ws-close-payload-truncated",
            Self::ContinuationUnexpected => "ws-continuation-unexpected",
            Self::ControlFragmented => "ws-control-fragmented",
            Self::ControlTooLong => "ws-control-too-long",
            Self::ControlFlood => "ws-control-flood",
            Self::EmptyFragmentFlood => "ws-empty-fragment-flood",
            Self::FragmentsTooMany => "ws-fragments-too-many",
            Self::LengthNotMinimal => "ws-length-not-minimal",
            Self::LengthOverflow => "ws-length-overflow",
            Self::MaskForbidden => "ws-mask-forbidden",
            Self::MaskRequired => "ws-mask-required",
            Self::MessageInterleaved => "ws-message-interleaved",
            Self::MessageTooBig => "ws-message-too-big",
            Self::OpcodeReserved => "ws-opcode-reserved",
            Self::ReservedBitSet => "ws-reserved-bit-set",
            Self::TextNotUtf8 => "ws-text-not-utf8",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_error_has_a_distinct_code_and_a_sendable_close_code() {
        let codes: BTreeSet<_> = CloseError::ALL.iter().map(|error| error.code()).collect();
        assert_eq!(codes.len(), CloseError::ALL.len());
        for error in CloseError::ALL {
            assert!(close_code_valid(error.close_code()), "{error:?}");
            assert!(error.to_string().len() <= 123, "fits a close frame: {error:?}");
        }
    }

    #[test]
    fn close_code_ranges_are_those_of_section_7_4() {
        let valid = (0..=u16::MAX).filter(|code| close_code_valid(*code)).count();
        assert_eq!(valid, 4 + 8 + 2000);
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            assert!(!close_code_valid(code), "{code}");
        }
    }
}
