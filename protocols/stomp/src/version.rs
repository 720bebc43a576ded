//! The three versions and their negotiation (STOMP 1.2, "Protocol Negotiation").
//!
//! Relies on nothing. Invariant: versions compare by age.

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V10,
    V11,
    V12,
}

/// What is told to a client that shares no version with the server.
pub(crate) const SUPPORTED: &str = "1.0,1.1,1.2";

impl Version {
    /// The best version of an `accept-version` header; 1.0 if there is none.
    pub(crate) fn negotiate(accepted: Option<&str>) -> Option<Version> {
        let Some(accepted) = accepted else {
            return Some(Version::V10);
        };
        accepted.split(',').filter_map(|text| Version::parse(text.trim())).max()
    }

    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Version::V10 => "1.0",
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        }
    }

    /// A number for encoding keys.
    pub(crate) fn class(self) -> u8 {
        self as u8
    }

    fn parse(text: &str) -> Option<Version> {
        [Version::V10, Version::V11, Version::V12]
            .into_iter()
            .find(|version| version.name() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_highest_shared_version() {
        let rows = [
            (None, Some(Version::V10)),
            (Some("1.0"), Some(Version::V10)),
            (Some("1.0,1.1"), Some(Version::V11)),
            (Some("1.2,1.0"), Some(Version::V12)),
            (Some("1.1, 1.3"), Some(Version::V11)),
            (Some("2.0"), None),
            (Some(""), None),
        ];
        for (accepted, expected) in rows {
            assert_eq!(Version::negotiate(accepted), expected, "{accepted:?}");
        }
    }
}
