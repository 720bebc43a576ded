//! What must hold for any two lines of bytes taken as a pattern and a path.

use tiderace_topics::{Path, Pattern, PatternIndex, Selector};

/// Any text taken as a selector.
pub(crate) fn selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // What is written anew has spaces, which could make it too long.
    if text.len() > 4096 {
        return;
    }
    let own = Selector::parse_own(text, Some("ann"));
    let (Ok(selector), Ok(spelled)) = (Selector::parse(text), own) else { return };
    assert_eq!(Selector::parse(&spelled.to_string()), Ok(spelled));
    let again = Selector::parse(&selector.to_string());
    assert_eq!(again.as_ref(), Ok(&selector));
    for pattern in selector.patterns() {
        assert!(pattern.contains(pattern));
        if let Some(path) = pattern.as_path() {
            assert!(pattern.matches(&path));
        }
        if let Ok(path) = Path::parse(pattern.as_str()) {
            assert!(Path::parse(text) == Ok(path) || text.starts_with('['));
        }
    }
}

/// The first line is a pattern, the second a path, the third another pattern.
pub(crate) fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let (first, second, third) =
        (lines.next().unwrap_or(""), lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let (pattern, path, other) =
        (Pattern::parse(first), Path::parse(second), Pattern::parse(third));
    if let Ok(path) = &path {
        assert_eq!(Path::parse(path.as_str()).as_ref(), Ok(path));
        assert!(Pattern::parse(second).is_ok_and(|pattern| pattern.matches(path)));
    }
    let (Ok(pattern), Ok(path)) = (&pattern, &path) else { return };
    let mut index = PatternIndex::default();
    index.insert(pattern, 1);
    if let Ok(other) = &other {
        index.insert(other, 2);
        if pattern.contains(other) && other.matches(path) {
            assert!(pattern.matches(path), "{pattern} contains {other} but not {path}");
        }
    }
    let mut found = Vec::new();
    index.matches(path, &mut |number| found.push(*number));
    assert_eq!(found.contains(&1), pattern.matches(path));
    assert_eq!(found.contains(&2), other.is_ok_and(|other| other.matches(path)));
    assert!(index.remove(pattern, &1));
}
