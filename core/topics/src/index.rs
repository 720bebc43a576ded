//! The index of patterns: which of many patterns match a path, without trying each.
//!
//! A tree of levels. Looking a path up visits the literal child, the `*` child, those of the globs that
//! the level's name fits, and the regular expressions of each level, which are bounded by shard; so its
//! cost depends on the path's depth and on what matches, not on how many patterns there are. Filing and
//! removing one look at its own branch alone. Removing a pattern removes the branches it alone held up.

use std::cell::Cell;
use std::hash::Hash;

use hashbrown::HashMap;

use crate::globs::Globs;
use crate::pattern::is_special;
use crate::table::Table;
use crate::{Level, Path, Pattern, Regex};

/// Values filed under patterns; the same pattern may hold several.
#[derive(Debug)]
pub struct PatternIndex<T> {
    root: Node<T>,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, Node<T>, foldhash::fast::RandomState>,
    globs: Option<Box<Globs<Node<T>>>>,
    regexes: Option<Box<Table<Regex, Node<T>>>>,
    one: Option<Box<Node<T>>>,
    rest: Table<T, ()>,
    here: Table<T, ()>,
}

impl<T> Default for PatternIndex<T> {
    fn default() -> Self {
        PatternIndex { root: Node::default(), len: 0 }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Node {
            literals: HashMap::default(),
            globs: None,
            regexes: None,
            one: None,
            rest: Table::default(),
            here: Table::default(),
        }
    }
}

impl<T: Eq + Hash> PatternIndex<T> {
    /// Values held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Files a value under a pattern.
    pub fn insert(&mut self, pattern: &Pattern, value: T) {
        self.len += 1;
        self.root.insert(pattern.levels(), value);
    }

    /// Takes one such value out again; whether it was there.
    pub fn remove(&mut self, pattern: &Pattern, value: &T) -> bool {
        let removed = self.root.remove(pattern.levels(), value);
        self.len -= usize::from(removed);
        removed
    }

    /// Visits every value that is filed under this pattern, however it was written.
    pub fn filed_under<'a>(&'a self, pattern: &Pattern, visit: &mut dyn FnMut(&'a T)) {
        self.root.filed_under(pattern.levels(), visit);
    }

    /// Visits every value whose pattern matches the path; how many nodes, pieces of globs and regular
    /// expressions were looked at for that.
    pub fn matches<'a>(&'a self, path: &Path, visit: &mut dyn FnMut(&'a T)) -> usize {
        let mut levels = [""; tiderace_base::limits::PATH_DEPTH_MAX];
        let mut depth = 0;
        for (slot, level) in levels.iter_mut().zip(path.levels()) {
            *slot = level;
            depth += 1;
        }
        let levels = levels.get(..depth).unwrap_or_default();
        let steps = Cell::new(0);
        if let Some((name, below)) = levels.split_first().filter(|(name, _)| is_special(name)) {
            // Only patterns that spell the first level out name it.
            if let Some(node) = self.root.literals.get(*name) {
                node.matches(below, &steps, visit);
            }
        } else {
            self.root.matches(levels, &steps, visit);
        }
        steps.get()
    }
}

impl<T: Eq + Hash> Node<T> {
    fn insert(&mut self, levels: &[Level], value: T) {
        let Some((level, below)) = levels.split_first() else {
            self.here.push(value, ());
            return;
        };
        let node = match level {
            Level::Rest => {
                self.rest.push(value, ());
                return;
            }
            Level::One => Some(&mut **self.one.get_or_insert_default()),
            Level::Literal(text) => Some(self.literals.entry(text.clone()).or_default()),
            Level::Glob(glob) => self.globs.get_or_insert_default().entry(glob),
            Level::Regex(regex) => {
                let known = self.regexes.get_or_insert_default();
                let found = known.find(regex);
                let place = found.unwrap_or_else(|| known.push(regex.clone(), Node::default()));
                known.at_mut(place)
            }
        };
        if let Some(node) = node {
            node.insert(below, value);
        }
    }

    fn remove(&mut self, levels: &[Level], value: &T) -> bool {
        let Some((level, below)) = levels.split_first() else {
            return take(&mut self.here, value);
        };
        match level {
            Level::Rest => take(&mut self.rest, value),
            Level::One => {
                let Some(node) = &mut self.one else {
                    return false;
                };
                let removed = node.remove(below, value);
                self.one.take_if(|node| node.is_empty());
                removed
            }
            Level::Literal(text) => {
                let Some(node) = self.literals.get_mut(&**text) else {
                    return false;
                };
                let removed = node.remove(below, value);
                if node.is_empty() {
                    self.literals.remove(&**text);
                }
                removed
            }
            Level::Glob(glob) => {
                let Some(globs) = &mut self.globs else { return false };
                let mut removed = false;
                globs.change(glob, &mut |node| {
                    removed = node.remove(below, value);
                    node.is_empty()
                });
                self.globs.take_if(|globs| globs.is_empty());
                removed
            }
            Level::Regex(regex) => {
                let Some(known) = &mut self.regexes else { return false };
                let Some(place) = known.find(regex) else { return false };
                let Some(node) = known.at_mut(place) else { return false };
                let removed = node.remove(below, value);
                if node.is_empty() {
                    known.swap_remove(place);
                }
                self.regexes.take_if(|known| known.is_empty());
                removed
            }
        }
    }

    fn filed_under<'a>(&'a self, levels: &[Level], visit: &mut dyn FnMut(&'a T)) {
        let Some((level, below)) = levels.split_first() else {
            return self.here.iter().for_each(|(value, ())| visit(value));
        };
        let node = match level {
            Level::Rest => return self.rest.iter().for_each(|(value, ())| visit(value)),
            Level::One => self.one.as_deref(),
            Level::Literal(text) => self.literals.get(&**text),
            Level::Glob(glob) => self.globs.as_ref().and_then(|globs| globs.get(glob)),
            Level::Regex(regex) => self.regexes.as_ref().and_then(|known| known.get(regex)),
        };
        if let Some(node) = node {
            node.filed_under(below, visit);
        }
    }

    fn matches<'a>(&'a self, levels: &[&str], steps: &Cell<usize>, visit: &mut dyn FnMut(&'a T)) {
        steps.set(steps.get() + 1);
        self.rest.iter().for_each(|(value, ())| visit(value));
        let Some((name, below)) = levels.split_first() else {
            self.here.iter().for_each(|(value, ())| visit(value));
            return;
        };
        if let Some(node) = self.literals.get(*name) {
            node.matches(below, steps, visit);
        }
        if let Some(node) = &self.one {
            node.matches(below, steps, visit);
        }
        if let Some(globs) = &self.globs {
            globs.matches(name, steps, &mut |node| node.matches(below, steps, visit));
        }
        for (regex, node) in self.regexes.iter().flat_map(|known| known.iter()) {
            steps.set(steps.get() + 1);
            if regex.fits(name) {
                node.matches(below, steps, visit);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.here.is_empty()
            && self.rest.is_empty()
            && self.one.is_none()
            && self.globs.is_none()
            && self.regexes.is_none()
            && self.literals.is_empty()
    }
}

fn take<T: Eq + Hash>(values: &mut Table<T, ()>, value: &T) -> bool {
    let place = values.find(value);
    place.and_then(|place| values.swap_remove(place)).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_trying_every_pattern(
            patterns in proptest::collection::vec(
                "([ab]|\\$|\\*|a\\*|\\*b)(/([ab]|\\*|b\\*|[ab]{0,2}\\*[ab]{1,2}\\*([ab]\\*){0,2}[ab]?)){0,3}(/\\*\\*)?|\\?([ab.]|\\.\\*|a\\.\\*|a\\?b|\\[ab\\]{1,2})(/(a|\\.b|b\\+|(a|b)\\{2\\})){0,3}(/\\*\\*)?",
                0..40,
            ),
            removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
            path in "([ab]{1,2}|\\$)(/[ab]{1,7}){0,4}",
        ) {
            let mut index = PatternIndex::default();
            let mut model: Vec<(Pattern, usize)> = Vec::new();
            for (number, text) in patterns.iter().enumerate() {
                let pattern = Pattern::parse(text).unwrap();
                index.insert(&pattern, number);
                model.push((pattern, number));
            }
            for at in removed {
                if !model.is_empty() {
                    let (pattern, number) = model.swap_remove(at.index(model.len()));
                    prop_assert!(index.remove(&pattern, &number));
                    prop_assert!(!index.remove(&pattern, &number));
                }
            }
            for (pattern, _) in &model {
                let (mut filed, mut expected) = (Vec::new(), Vec::new());
                index.filed_under(pattern, &mut |number| filed.push(*number));
                filed.sort_unstable();
                let equal = model.iter().filter(|(it, _)| it.levels() == pattern.levels());
                expected.extend(equal.map(|(_, number)| *number));
                expected.sort_unstable();
                prop_assert_eq!(filed, expected);
            }
            let path = Path::parse(&path).unwrap();
            let mut found = Vec::new();
            index.matches(&path, &mut |number| found.push(*number));
            found.sort_unstable();
            let mut expected: Vec<usize> =
                model.iter().filter(|(p, _)| p.matches(&path)).map(|(_, n)| *n).collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(index.len(), model.len());
        }
    }

    proptest! {
        #[test]
        fn many_globs_agree_with_trying_each(
            globs in proptest::collection::vec(
                "[abc]{0,2}\\*([abc]{1,2}\\*){0,3}[abc]{0,2}", 1..200,
            ),
            keep in any::<proptest::sample::Index>(),
            names in proptest::collection::vec("[abcé]{1,9}", 8),
        ) {
            let mut index = PatternIndex::default();
            let patterns: Vec<Pattern> =
                globs.iter().map(|glob| Pattern::parse(&format!("x/{glob}")).unwrap()).collect();
            for (number, pattern) in patterns.iter().enumerate() {
                index.insert(pattern, number);
            }
            let kept = keep.index(patterns.len());
            for (number, pattern) in patterns.iter().enumerate().skip(kept) {
                prop_assert!(index.remove(pattern, &number));
            }
            for name in names {
                let path = Path::parse(&format!("x/{name}")).unwrap();
                let mut found = Vec::new();
                index.matches(&path, &mut |number| found.push(*number));
                found.sort_unstable();
                let fits = |number: &usize| patterns[*number].matches(&path);
                prop_assert_eq!(found, (0..kept).filter(fits).collect::<Vec<_>>());
            }
        }
    }

    /// All globs of four stars over an alphabet.
    fn globs() -> Vec<Pattern> {
        let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
        let mut globs = Vec::new();
        for one in &letters {
            for two in &letters {
                for three in &letters {
                    globs.push(Pattern::parse(&format!("*{one}*{two}*{three}*/*")).unwrap());
                }
            }
        }
        globs
    }

    #[test]
    fn a_lookup_does_not_try_every_glob() {
        let mut index = PatternIndex::default();
        let globs = globs();
        for (number, glob) in globs.iter().enumerate() {
            index.insert(glob, number);
        }
        assert_eq!(globs.len(), 46_656);
        let path = Path::parse("orders/x").unwrap();
        let (mut found, fits) = (0, globs.iter().filter(|glob| glob.matches(&path)).count());
        let steps = index.matches(&path, &mut |_| found += 1);
        assert_eq!(found, fits);
        // Six letters: the parts of the name at each of the few nodes that they lead to.
        assert!(steps < 500, "{steps}");
        for (number, glob) in globs.iter().enumerate() {
            assert!(index.remove(glob, &number));
        }
        assert!(index.root.is_empty());
    }

    #[test]
    fn filing_and_removing_values_of_one_pattern_compares_few_of_them() {
        #[derive(Debug, Clone)]
        struct Counted<'a>(usize, &'a Cell<usize>);
        impl PartialEq for Counted<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.1.set(self.1.get() + 1);
                self.0 == other.0
            }
        }
        impl Eq for Counted<'_> {}
        impl Hash for Counted<'_> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        let compared = Cell::new(0);
        for text in ["a/**", "a/*", "a/b*c", "?a/b|c+"] {
            let (pattern, mut index) = (Pattern::parse(text).unwrap(), PatternIndex::default());
            for number in 0..20_000 {
                index.insert(&pattern, Counted(number, &compared));
            }
            for number in 0..20_000 {
                assert!(index.remove(&pattern, &Counted(number, &compared)));
            }
            assert!(compared.replace(0) < 40_000, "{text}");
        }
    }

    #[test]
    fn removing_the_last_pattern_frees_its_branch() {
        let mut index = PatternIndex::default();
        let pattern = Pattern::parse("a/b*/*/c").unwrap();
        index.insert(&pattern, 1);
        assert!(index.remove(&pattern, &1));
        assert!(index.root.is_empty());
    }
}
