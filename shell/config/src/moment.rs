//! Moments as people write them: `"2027-01-31T12:00:00Z"`.
//!
//! Relies on the crate `time` for the calendar. Invariant: what is written is read back to the same value.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment since 1970, to the second (RFC 3339).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The last second that can be written.
    const LAST: u64 = 253_402_300_799;

    /// So many seconds after the beginning of 1970; at most the last of the year 9999.
    pub fn from_unix(seconds: u64) -> Moment {
        Moment(seconds.min(Moment::LAST))
    }

    /// Seconds after the beginning of 1970.
    pub fn unix(self) -> u64 {
        self.0
    }

    /// Reads a date, a time and an offset; parts of a second are left out. `None` if it is no such moment, or one before 1970.
    pub fn parse(text: &str) -> Option<Moment> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        u64::try_from(moment.unix_timestamp()).ok().map(Moment::from_unix)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0).map_err(|_| fmt::Error)?;
        let moment = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        f.write_str(&moment.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_written() {
        fn read(text: &str) -> Option<u64> {
            Moment::parse(text).map(Moment::unix)
        }
        assert_eq!(read("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read("2027-01-31T12:00:00Z"), Some(1_801_396_800));
        assert_eq!(read("2027-01-31T13:00:00.9+01:00"), Some(1_801_396_800));
        assert_eq!(read("2028-02-29T00:00:00Z"), Some(1_835_395_200));
        for text in [
            "2027-02-29T00:00:00Z",
            "2027-01-31",
            "2027-01-31T12:00:00",
            "1969-12-31T23:59:59Z",
            "soon",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for seconds in [0, 1_801_396_800, Moment::LAST] {
            let text = Moment::from_unix(seconds).to_string();
            assert_eq!(read(&text), Some(seconds), "{text}");
        }
        assert_eq!(Moment::from_unix(u64::MAX).to_string(), "9999-12-31T23:59:59Z");
    }
}
