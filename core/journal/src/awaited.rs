//! Which records an answer waits for, and which of them say what it says.
//!
//! Relies on nothing.

/// The records that an answer waits for. What it says stands in those behind `after`; with those before it only waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The last record that is not the answer's own.
    pub after: u64,
    /// The last record that it waits for; zero for none.
    pub until: u64,
}

impl Awaited {
    /// Everything stands in earlier records, or in none that could be left out.
    pub fn before(until: u64) -> Awaited {
        Awaited { after: until, until }
    }
}

impl From<u64> for Awaited {
    /// One record says all of it.
    fn from(record: u64) -> Awaited {
        Awaited { after: record.saturating_sub(1), until: record }
    }
}
