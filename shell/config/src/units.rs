//! Sizes and durations as people write them: `"64 KiB"`, `"250ms"`, `"25 %"`.
//!
//! Relies on nothing. Invariant: whatever `format_*` writes, `parse_*` reads back to the same value.

use std::fmt;
use std::time::Duration;

use tiderace_base::SpanUnit;

/// An amount of memory: absolute, or a share of what the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAmount {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths (1 to 100) of the machine's memory.
    Percent(u8),
}

impl MemoryAmount {
    /// The amount in bytes on a machine with `total` bytes of memory.
    pub fn resolve(self, total: u64) -> u64 {
        match self {
            MemoryAmount::Bytes(bytes) => bytes,
            // Dividing first cannot overflow and loses at most 99 bytes.
            MemoryAmount::Percent(percent) => total / 100 * u64::from(percent),
        }
    }
}

impl fmt::Display for MemoryAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryAmount::Bytes(bytes) => f.write_str(&format_bytes(*bytes)),
            MemoryAmount::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

/// Reads `"64 KiB"`, `"1.5 MB"` or `"4096"` (bytes). `None` if it is no size.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    scale(number, factor)
}

/// Reads `"5s"`, `"250ms"`, `"1.5h"`; a bare `"0"` is no time at all. `None` if it is no duration.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" if number.bytes().all(|byte| byte == b'0') => 1,
        "us" | "µs" => 1,
        unit => SpanUnit::named(unit)?.ms * 1_000,
    };
    scale(number, factor).map(Duration::from_micros)
}

/// Reads `"25 %"` or a size.
pub fn parse_memory(text: &str) -> Option<MemoryAmount> {
    match text.trim().strip_suffix('%') {
        Some(share) => {
            let percent: u8 = share.trim().parse().ok()?;
            (1..=100).contains(&percent).then_some(MemoryAmount::Percent(percent))
        }
        None => parse_bytes(text).map(MemoryAmount::Bytes),
    }
}

/// Writes a size in the largest binary unit that holds it exactly.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{} {unit}", bytes / size);
        }
    }
    format!("{bytes} B")
}

/// Writes a duration in the largest unit that holds it exactly.
pub fn format_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    let millis = u64::try_from(micros / 1_000).ok().filter(|_| micros.is_multiple_of(1_000));
    match millis {
        None => format!("{micros}us"),
        Some(0) => "0s".to_owned(),
        // In the same file `m` could be taken for bytes.
        Some(millis) => {
            let unit = SpanUnit::of(millis);
            let name = if unit.name == "m" { unit.long } else { unit.name };
            format!("{}{name}", millis / unit.ms)
        }
    }
}

/// Splits `"1.5 MiB"` into `("1.5", "MiB")`.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    number.starts_with(|c: char| c.is_ascii_digit()).then_some((number, unit.trim()))
}

/// Multiplies a decimal number by `factor` without floating point, so that no byte is lost.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut total = whole.checked_mul(factor)?;
    if !fraction.is_empty() {
        if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let numerator: u128 = fraction.parse().ok()?;
        let denominator = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        let part = numerator * u128::from(factor) / denominator;
        total = total.checked_add(u64::try_from(part).ok()?)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let cases = [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("64 KiB", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("1.5 MiB", Some(1_572_864)),
            ("16 mb", Some(16_000_000)),
            ("1_000", Some(1_000)),
            ("2 g", Some(2 << 30)),
            ("", None),
            ("KiB", None),
            ("-1", None),
            ("16 apples", None),
            ("99999999 TiB", None),
            ("1.2.3 KiB", None),
            ("1.0000001 GiB", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_read() {
        let cases = [
            ("5s", Some(5_000)),
            ("250ms", Some(250)),
            ("1.5 h", Some(5_400_000)),
            ("2 min", Some(120_000)),
            ("0", Some(0)),
            ("5", None),
            ("s", None),
            ("5 parsecs", None),
            ("-5s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for bytes in [0, 1, 1023, 1024, 1025, 16 << 20, 3 << 40, u64::MAX] {
            assert_eq!(parse_bytes(&format_bytes(bytes)), Some(bytes));
        }
        for micros in [0, 1, 999, 1_000, 1_500, 60_000_000, 3_600_000_000, 86_400_000_000] {
            let duration = Duration::from_micros(micros);
            assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }
    }

    #[test]
    fn memory_is_a_share_or_a_size() {
        assert_eq!(parse_memory("25 %"), Some(MemoryAmount::Percent(25)));
        assert_eq!(parse_memory("0%"), None);
        assert_eq!(parse_memory("101%"), None);
        assert_eq!(parse_memory("1 GiB"), Some(MemoryAmount::Bytes(1 << 30)));
        assert_eq!(MemoryAmount::Percent(25).resolve(8 << 30), (8_u64 << 30) / 100 * 25);
        assert_eq!(MemoryAmount::Percent(100).resolve(u64::MAX), u64::MAX / 100 * 100);
    }
}
