//! The index of patterns: which of many patterns match a path, without trying each.
//!
//! A tree of levels. Looking a path up visits the literal child, the `*` child and the few partial
//! globs and regular expressions of each level, so its cost depends on the path's depth and not on how many patterns there
//! are. Removing a pattern removes the branches it alone held up.

use hashbrown::HashMap;

use crate::pattern::is_special;
use crate::{Level, Path, Pattern};

/// Values filed under patterns; the same pattern may hold several.
#[derive(Debug)]
pub struct PatternIndex<T> {
    root: Node<T>,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, Node<T>, foldhash::fast::RandomState>,
    globs: Vec<(Level, Node<T>)>,
    one: Option<Box<Node<T>>>,
    rest: Vec<T>,
    here: Vec<T>,
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
            globs: Vec::new(),
            one: None,
            rest: Vec::new(),
            here: Vec::new(),
        }
    }
}

impl<T: PartialEq> PatternIndex<T> {
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

    /// Visits every value whose pattern matches the path.
    pub fn matches<'a>(&'a self, path: &Path, visit: &mut dyn FnMut(&'a T)) {
        let mut levels = [""; tiderace_base::limits::PATH_DEPTH_MAX];
        let mut depth = 0;
        for (slot, level) in levels.iter_mut().zip(path.levels()) {
            *slot = level;
            depth += 1;
        }
        let levels = levels.get(..depth).unwrap_or_default();
        if let Some((name, below)) = levels.split_first().filter(|(name, _)| is_special(name)) {
            // Only patterns that spell the first level out name it.
            if let Some(node) = self.root.literals.get(*name) {
                node.matches(below, visit);
            }
            return;
        }
        self.root.matches(levels, visit);
    }
}

impl<T: PartialEq> Node<T> {
    fn insert(&mut self, levels: &[Level], value: T) {
        let Some((level, below)) = levels.split_first() else {
            self.here.push(value);
            return;
        };
        match level {
            Level::Rest => self.rest.push(value),
            Level::One => self.one.get_or_insert_default().insert(below, value),
            Level::Literal(text) => {
                self.literals.entry(text.clone()).or_default().insert(below, value);
            }
            Level::Glob(_) | Level::Regex(_) => {
                if let Some((_, node)) = self.globs.iter_mut().find(|(known, _)| known == level) {
                    return node.insert(below, value);
                }
                let mut node = Node::default();
                node.insert(below, value);
                self.globs.push((level.clone(), node));
            }
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
                if node.is_empty() {
                    self.one = None;
                }
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
            Level::Glob(_) | Level::Regex(_) => {
                let Some((_, node)) = self.globs.iter_mut().find(|(known, _)| known == level)
                else {
                    return false;
                };
                let removed = node.remove(below, value);
                self.globs.retain(|(_, node)| !node.is_empty());
                removed
            }
        }
    }

    fn matches<'a>(&'a self, levels: &[&str], visit: &mut dyn FnMut(&'a T)) {
        self.rest.iter().for_each(&mut *visit);
        let Some((name, below)) = levels.split_first() else {
            self.here.iter().for_each(visit);
            return;
        };
        if let Some(node) = self.literals.get(*name) {
            node.matches(below, visit);
        }
        if let Some(node) = &self.one {
            node.matches(below, visit);
        }
        for (glob, node) in &self.globs {
            if glob.fits(name) {
                node.matches(below, visit);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.here.is_empty()
            && self.rest.is_empty()
            && self.one.is_none()
            && self.globs.is_empty()
            && self.literals.is_empty()
    }
}

fn take<T: PartialEq>(values: &mut Vec<T>, value: &T) -> bool {
    let Some(at) = values.iter().position(|held| held == value) else {
        return false;
    };
    values.swap_remove(at);
    if values.is_empty() {
        *values = Vec::new();
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_trying_every_pattern(
            patterns in proptest::collection::vec(
                "([ab]|\\$|\\*|a\\*|\\*b)(/([ab]|\\*|b\\*)){0,3}(/\\*\\*)?|\\?([ab.]|\\.\\*|a\\.\\*|a\\?b|\\[ab\\]{1,2})(/(a|\\.b|b\\+|(a|b)\\{2\\})){0,3}(/\\*\\*)?",
                0..40,
            ),
            removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
            path in "([ab]{1,2}|\\$)(/[ab]{1,2}){0,4}",
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

    #[test]
    fn removing_the_last_pattern_frees_its_branch() {
        let mut index = PatternIndex::default();
        let pattern = Pattern::parse("a/b*/*/c").unwrap();
        index.insert(&pattern, 1);
        assert!(index.remove(&pattern, &1));
        assert!(index.root.is_empty());
    }
}
