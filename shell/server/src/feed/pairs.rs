//! Currency pairs: their names in the order of a feed's topics, and prices to begin with.

/// The name of the topic of that number: the most traded pairs, then all others, then all again with
/// a number behind them.
pub(crate) fn name(number: usize) -> String {
    let (base, quoted) = codes(number);
    match number / pair_count() {
        0 => format!("{base}-{quoted}"),
        round => format!("{base}-{quoted}-{}", round + 1),
    }
}

/// Base and quoted currency of the topic of that number.
pub(crate) fn codes(number: usize) -> (&'static str, &'static str) {
    let number = number % pair_count();
    if let Some(pair) = MAJOR.get(number) {
        return *pair;
    }
    let all = CURRENCIES.iter().enumerate().flat_map(|(at, (base, _))| {
        CURRENCIES.iter().skip(at + 1).map(move |(quoted, _)| (*base, *quoted))
    });
    let mut others = all.filter(|pair| !MAJOR.contains(pair));
    others.nth(number - MAJOR.len()).unwrap_or(("EUR", "USD"))
}

/// What one unit of the base currency costs, in hundred-thousandths of the quoted one.
pub(crate) fn price(base: &str, quoted: &str) -> i64 {
    let value = |code: &str| {
        let found = CURRENCIES.iter().find(|(known, _)| *known == code);
        found.map_or(1_000_000, |(_, value)| *value)
    };
    value(base) * 100_000 / value(quoted)
}

/// How many pairs there are.
fn pair_count() -> usize {
    CURRENCIES.len() * (CURRENCIES.len() - 1) / 2
}

/// In the order in which the market names them: the first of two is the base. With the worth of each
/// in millionths of a dollar.
const CURRENCIES: &[(&str, i64)] = &[
    ("EUR", 1_094_070),
    ("GBP", 1_231_400),
    ("AUD", 674_400),
    ("NZD", 629_100),
    ("USD", 1_000_000),
    ("CAD", 751_500),
    ("CHF", 1_003_200),
    ("SGD", 724_300),
    ("PLN", 253_100),
    ("TRY", 175_400),
    ("DKK", 146_500),
    ("CNH", 140_000),
    ("HKD", 127_500),
    ("NOK", 109_800),
    ("SEK", 101_400),
    ("ZAR", 65_500),
    ("MXN", 50_700),
    ("CZK", 42_500),
    ("INR", 14_100),
    ("JPY", 9_350),
    ("HUF", 3_280),
];

const MAJOR: &[(&str, &str)] = &[
    ("EUR", "USD"),
    ("USD", "JPY"),
    ("GBP", "USD"),
    ("AUD", "USD"),
    ("USD", "CHF"),
    ("USD", "CAD"),
    ("NZD", "USD"),
    ("EUR", "GBP"),
    ("EUR", "JPY"),
    ("GBP", "JPY"),
    ("EUR", "CHF"),
    ("AUD", "JPY"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_distinct() {
        let names: HashSet<String> = (0..1_000).map(name).collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.contains("USD-SEK") && names.contains("EUR-USD-2"));
    }

    #[test]
    fn prices_are_plausible() {
        assert_eq!(price("EUR", "USD"), 109_407);
        assert_eq!(price("USD", "JPY") / 100_000, 106);
    }
}
