//! "Did you mean": the known word nearest to a mistyped one.
//!
//! Relies on nothing. Invariant: a suggestion is always one of the candidates.

/// The candidate nearest to `word`, if it is near enough to be a likely slip of the finger.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the word may be wrong: "adress" finds "address", "colour" does not find "shards".
    let allowed = (word.chars().count() / 3).clamp(1, 4);
    let word = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `"; did you mean `x`?"`, or nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    nearest(word, candidates).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let width = right.len() + 1;
    // Three rows suffice: the current one, the one above, and one more for swapped neighbours.
    let mut before: Vec<usize> = vec![0; width];
    let mut above: Vec<usize> = (0..width).collect();
    let mut row: Vec<usize> = vec![0; width];
    for (i, a) in left.iter().enumerate() {
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let mut cost = (above[j + 1] + 1).min(row[j] + 1).min(above[j] + usize::from(a != b));
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            row[j + 1] = cost;
        }
        std::mem::swap(&mut before, &mut above);
        std::mem::swap(&mut above, &mut row);
    }
    above[width - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        let cases = [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("abc", "ab", 1),
            ("ab", "abc", 1),
            ("abcd", "abdc", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ];
        for (left, right, expected) in cases {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn only_likely_slips_are_suggested() {
        let words = ["address", "protocol", "name"];
        assert_eq!(nearest("adress", words), Some("address"));
        assert_eq!(nearest("PROTOCOL", words), Some("protocol"));
        assert_eq!(nearest("protcool", words), Some("protocol"));
        assert_eq!(nearest("elephant", words), None);
        assert_eq!(did_you_mean("nmae", words), "; did you mean `name`?");
        assert_eq!(did_you_mean("xyz", words), "");
    }
}
