//! The Date of HTTP responses (RFC 9110 section 5.6.7), from milliseconds since 1970.
//!
//! Relies on nothing; proleptic Gregorian calendar, no leap seconds.

use std::rc::Rc;

/// The date of the present second, written once.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    second: u64,
    text: Rc<str>,
}

impl Dates {
    /// See [`http_date`].
    pub(crate) fn at(&mut self, wall_ms: u64) -> Rc<str> {
        let second = wall_ms / 1000;
        if self.second != second || self.text.is_empty() {
            *self = Dates { second, text: http_date(wall_ms).into() };
        }
        self.text.clone()
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(wall_ms: u64) -> String {
    let seconds = wall_ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let weekday = WEEKDAYS.get((days % 7) as usize).unwrap_or(&"");
    let month = MONTHS.get(month).unwrap_or(&"");
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Year, month counted from zero, and day of the month of a day since 1970.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // 400 years have always the same number of days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    for (month, length) in MONTH_DAYS.into_iter().enumerate() {
        let length = if month == 1 && is_leap(year) { 29 } else { length };
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
    }
    (year, 11, 31)
}

/// 1 January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH_DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_second_asked_for() {
        let mut dates = Dates::default();
        for wall_ms in [0, 999, 1000, 784_111_777_000, 784_111_777_999, 784_111_778_000, 5000] {
            assert_eq!(*dates.at(wall_ms), http_date(wall_ms));
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_767_225_599, "Wed, 31 Dec 2025 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds * 1000 + 999), expected);
        }
    }
}
