//! Error codes: why a stream or a connection ends, for programs.
//!
//! Relies on nothing. Any number is a code; those with a name are the specification's.

use std::fmt;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($number:literal $name:ident $text:literal $meaning:literal;)+) => {
        impl ErrorCode {
            $(#[doc = $meaning] pub const $name: ErrorCode = ErrorCode($number);)+

            /// The specification's name of it.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)+ _ => None }
            }
        }

        /// All codes that the specification names.
        #[cfg(test)]
        const NAMED: &[ErrorCode] = &[$(ErrorCode($number)),+];
    };
}

codes! {
    0x001 INVALID_SETUP "INVALID_SETUP" "The first frame is no SETUP, or a wrong one.";
    0x002 UNSUPPORTED_SETUP "UNSUPPORTED_SETUP" "Something in SETUP is not to be had here.";
    0x003 REJECTED_SETUP "REJECTED_SETUP" "The client is not wanted; the text says why.";
    0x004 REJECTED_RESUME "REJECTED_RESUME" "The client cannot go on where it was.";
    0x101 CONNECTION_ERROR "CONNECTION_ERROR" "The connection ends at once.";
    0x102 CONNECTION_CLOSE "CONNECTION_CLOSE" "The connection ends when its streams have ended.";
    0x201 APPLICATION_ERROR "APPLICATION_ERROR" "The responder of the request has failed.";
    0x202 REJECTED "REJECTED" "The request was not handled at all, and may be tried again.";
    0x203 CANCELED "CANCELED" "The request was given up, perhaps after it was begun.";
    0x204 INVALID "INVALID" "The request makes no sense.";
}

impl ErrorCode {
    /// The smallest code that applications may give a meaning.
    pub const APPLICATION_MIN: ErrorCode = ErrorCode(0x301);
    /// The largest.
    pub const APPLICATION_MAX: ErrorCode = ErrorCode(0xffff_fffe);

    /// Whether it may end a connection, on stream 0.
    pub fn is_of_connections(self) -> bool {
        matches!(self.0, 0x001..=0x004 | 0x101 | 0x102)
    }

    /// Whether it may end a stream.
    pub fn is_of_streams(self) -> bool {
        matches!(self.0, 0x201..=0x204) || self.is_of_applications()
    }

    /// Whether its meaning is the application's.
    pub fn is_of_applications(self) -> bool {
        (Self::APPLICATION_MIN.0..=Self::APPLICATION_MAX.0).contains(&self.0)
    }

    /// Whether it refuses a SETUP or RESUME, so that it means nothing later on.
    pub fn is_of_setup(self) -> bool {
        matches!(self.0, 0x001..=0x004)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_connections_or_of_streams() {
        for code in NAMED {
            assert_ne!(code.is_of_connections(), code.is_of_streams(), "{code}");
            assert!(code.name().is_some());
        }
        for reserved in [0, 0x005, 0x100, 0x200, 0x205, 0x300, u32::MAX] {
            let code = ErrorCode(reserved);
            assert!(!code.is_of_connections() && !code.is_of_streams(), "{code}");
        }
        assert!(ErrorCode(0x301).is_of_applications() && ErrorCode(u32::MAX - 1).is_of_streams());
        assert_eq!(ErrorCode(0x999).to_string(), "0x999");
    }
}
