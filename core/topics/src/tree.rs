//! Names in the order of a tree: every path is followed at once by all that is below it.
//!
//! A B+ tree of small keys. The texts stay where they are; the caller says how a key's path is
//! found, so a name costs six bytes here beside the text itself. Relies on a key's path never
//! changing while the key is held. Invariants: keys are in the order of [`order`], no two of them
//! have the same path, and each child's `first` is the least key below it.

use std::cmp::Ordering;

/// Keys in the order of their paths.
#[derive(Clone, Debug)]
pub struct Tree<K> {
    root: Node<K>,
    len: usize,
}

/// Keys of a leaf and children of a branch.
const WIDTH: usize = 64;

#[derive(Clone, Debug)]
enum Node<K> {
    Leaf(Vec<K>),
    Branch(Vec<Child<K>>),
}

#[derive(Clone, Debug)]
struct Child<K> {
    first: K,
    node: Node<K>,
}

impl<K> Default for Tree<K> {
    fn default() -> Self {
        Tree { root: Node::Leaf(Vec::new()), len: 0 }
    }
}

/// How two paths are ordered: by bytes, with the separator before everything else, so that no other
/// name stands between a topic and those below it.
#[inline]
pub fn order(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let common = common_prefix(left, right);
    match (left.get(common), right.get(common)) {
        (Some(left), Some(right)) => rank(*left).cmp(&rank(*right)),
        _ => left.len().cmp(&right.len()),
    }
}

/// How many bytes two paths begin with in common. Neighbours in a tree have long beginnings in common, so
/// eight bytes are compared at a time.
#[inline]
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let words = left_words.iter().zip(right_words).take_while(|(a, b)| a == b).count();
    let left = left.get(words * 8..).unwrap_or_default();
    let right = right.get(words * 8..).unwrap_or_default();
    words * 8 + left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

/// No path has a control character, so the separator's new place is free.
fn rank(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

/// Whether a path is that one or below it; everything is below the empty one.
pub fn is_at_or_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl<K: Copy> Tree<K> {
    /// Keys held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a key in; false, and nothing changes, if there is one with its path.
    pub fn insert<'a>(&mut self, key: K, path_of: impl Fn(K) -> &'a str) -> bool {
        let path = path_of(key);
        // Names are often made in their order: one comparison then finds the place.
        let behind_all = self.root.last().is_none_or(|last| order(path_of(last), path).is_lt());
        let inserted =
            if behind_all { self.root.append(key) } else { self.root.insert(key, path, &path_of) };
        match inserted {
            Insert::Known => return false,
            Insert::Done => {}
            Insert::Split(right) => {
                let left = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
                let both = [left, right].into_iter().filter_map(Node::into_child);
                self.root = Node::Branch(both.collect());
            }
        }
        self.len += 1;
        true
    }

    /// Takes the key of that path out.
    pub fn remove<'a>(&mut self, path: &str, path_of: impl Fn(K) -> &'a str) -> Option<K> {
        let removed = self.root.remove(path, &path_of)?;
        self.len -= 1;
        if let Node::Branch(children) = &mut self.root
            && children.len() <= 1
        {
            self.root = children.pop().map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        Some(removed)
    }

    /// The keys of a path and all below it, in order; of them those behind the path `after`, if one
    /// is given. Finding the first takes logarithmic time, so a long walk can be made in slices.
    pub fn walk<'t, 'a: 't, F: Fn(K) -> &'a str + 't>(
        &'t self,
        below: &str,
        after: Option<&str>,
        path_of: F,
    ) -> impl Iterator<Item = K> + use<'t, 'a, K, F> {
        let mut walk = Walk { branches: Vec::new(), leaf: [].iter() };
        match after.filter(|after| order(after, below).is_ge()) {
            Some(after) => walk.begin(&self.root, &|key| order(path_of(key), after).is_le()),
            None => walk.begin(&self.root, &|key| order(path_of(key), below).is_lt()),
        }
        let below: Box<str> = below.into();
        walk.take_while(move |key| is_at_or_below(path_of(*key), &below))
    }
}

/// What became of an insertion below.
enum Insert<K> {
    Known,
    Done,
    /// The node was full; this one belongs behind it.
    Split(Node<K>),
}

impl<K: Copy> Node<K> {
    fn first(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.first().copied(),
            Node::Branch(children) => children.first().map(|child| child.first),
        }
    }

    fn last(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.last().copied(),
            Node::Branch(children) => children.last()?.node.last(),
        }
    }

    fn into_child(self) -> Option<Child<K>> {
        Some(Child { first: self.first()?, node: self })
    }

    fn width(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.len(),
            Node::Branch(children) => children.len(),
        }
    }

    fn insert<'a>(&mut self, key: K, path: &str, path_of: &impl Fn(K) -> &'a str) -> Insert<K> {
        match self {
            Node::Leaf(keys) => {
                let place = keys.partition_point(|known| order(path_of(*known), path).is_lt());
                if keys.get(place).is_some_and(|known| path_of(*known) == path) {
                    return Insert::Known;
                }
                match put(keys, place, key) {
                    None => Insert::Done,
                    Some(right) => Insert::Split(Node::Leaf(right)),
                }
            }
            Node::Branch(children) => {
                let place = place_of(children, path, path_of);
                let Some(child) = children.get_mut(place) else {
                    return Insert::Known;
                };
                let below = child.node.insert(key, path, path_of);
                if let Some(first) = child.node.first() {
                    child.first = first;
                }
                put_split(children, place, below)
            }
        }
    }

    /// Takes in a key whose path is behind all others.
    fn append(&mut self, key: K) -> Insert<K> {
        match self {
            Node::Leaf(keys) => match put(keys, keys.len(), key) {
                None => Insert::Done,
                Some(right) => Insert::Split(Node::Leaf(right)),
            },
            Node::Branch(children) => {
                let last = children.len().saturating_sub(1);
                let Some(child) = children.get_mut(last) else {
                    return Insert::Known;
                };
                let below = child.node.append(key);
                put_split(children, last, below)
            }
        }
    }

    fn remove<'a>(&mut self, path: &str, path_of: &impl Fn(K) -> &'a str) -> Option<K> {
        match self {
            Node::Leaf(keys) => {
                let place = keys.partition_point(|known| order(path_of(*known), path).is_lt());
                keys.get(place).filter(|known| path_of(**known) == path)?;
                Some(keys.remove(place))
            }
            Node::Branch(children) => {
                let place = place_of(children, path, path_of);
                let child = children.get_mut(place)?;
                let removed = child.node.remove(path, path_of)?;
                match child.node.first() {
                    Some(first) => child.first = first,
                    None => _ = children.remove(place),
                }
                join(children, place);
                Some(removed)
            }
        }
    }
}

/// The child below which a path belongs.
fn place_of<'a, K: Copy>(
    children: &[Child<K>],
    path: &str,
    path_of: &impl Fn(K) -> &'a str,
) -> usize {
    let behind = children.partition_point(|child| order(path_of(child.first), path).is_le());
    behind.saturating_sub(1)
}

/// Puts what an insertion below the child at `place` split off behind that child.
fn put_split<K: Copy>(children: &mut Vec<Child<K>>, place: usize, below: Insert<K>) -> Insert<K> {
    let Insert::Split(right) = below else {
        return below;
    };
    match right.into_child().and_then(|right| put(children, place + 1, right)) {
        None => Insert::Done,
        Some(right) => Insert::Split(Node::Branch(right)),
    }
}

/// Puts an item in its place; if there is no room, what goes into a new node behind. What comes in
/// order fills its nodes.
fn put<T>(items: &mut Vec<T>, place: usize, item: T) -> Option<Vec<T>> {
    if items.len() < WIDTH {
        items.insert(place.min(items.len()), item);
        return None;
    }
    if place >= items.len() {
        return Some(vec![item]);
    }
    let mut right = items.split_off(WIDTH / 2);
    if place <= items.len() {
        items.insert(place, item);
    } else {
        right.insert(place - items.len(), item);
    }
    Some(right)
}

/// Joins a child that has become small with a neighbour.
fn join<K: Copy>(children: &mut Vec<Child<K>>, place: usize) {
    let width = |at: usize| children.get(at).map(|child| child.node.width());
    if width(place).is_none_or(|width| width >= WIDTH / 4) {
        return;
    }
    let fits = |left: usize| match (width(left), width(left + 1)) {
        (Some(left), Some(right)) => left + right <= WIDTH / 4 * 3,
        _ => false,
    };
    let left = match place.checked_sub(1).filter(|left| fits(*left)) {
        Some(left) => left,
        None if fits(place) => place,
        None => return,
    };
    let right = children.remove(left + 1);
    match (children.get_mut(left).map(|child| &mut child.node), right.node) {
        (Some(Node::Leaf(left)), Node::Leaf(right)) => append_all(left, right),
        (Some(Node::Branch(left)), Node::Branch(right)) => append_all(left, right),
        _ => {}
    }
}

/// Appends all items of a neighbour. The room doubles from a power of two, so that it ends at [`WIDTH`] when the node
/// fills up again.
fn append_all<T>(left: &mut Vec<T>, mut right: Vec<T>) {
    let needed = left.len() + right.len();
    if needed > left.capacity() {
        left.reserve_exact(needed.next_power_of_two() - left.len());
    }
    left.append(&mut right);
}

/// The way through the tree from a key to the end.
struct Walk<'t, K> {
    branches: Vec<std::slice::Iter<'t, Child<K>>>,
    leaf: std::slice::Iter<'t, K>,
}

impl<'t, K: Copy> Walk<'t, K> {
    /// Goes to the first key that is not passed.
    fn begin(&mut self, mut node: &'t Node<K>, passed: &impl Fn(K) -> bool) {
        loop {
            match node {
                Node::Leaf(keys) => {
                    let place = keys.partition_point(|key| passed(*key));
                    self.leaf = keys.get(place..).unwrap_or_default().iter();
                    return;
                }
                Node::Branch(children) => {
                    let behind = children.partition_point(|child| passed(child.first));
                    let mut rest =
                        children.get(behind.saturating_sub(1)..).unwrap_or_default().iter();
                    let Some(child) = rest.next() else { return };
                    self.branches.push(rest);
                    node = &child.node;
                }
            }
        }
    }
}

impl<K: Copy> Iterator for Walk<'_, K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            if let Some(key) = self.leaf.next() {
                return Some(*key);
            }
            let Some(child) = self.branches.last_mut()?.next() else {
                self.branches.pop();
                continue;
            };
            match &child.node {
                Node::Leaf(keys) => self.leaf = keys.iter(),
                Node::Branch(children) => self.branches.push(children.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Texts in a table, as a broker has them in its topics.
    fn texts<'a>(paths: &'a [String]) -> impl Fn(u32) -> &'a str {
        |key| &paths[key as usize]
    }

    fn check_nodes(node: &Node<u32>, depth: usize, depths: &mut BTreeSet<usize>) {
        match node {
            Node::Leaf(keys) => {
                assert!(keys.len() <= WIDTH && keys.capacity() <= WIDTH);
                depths.insert(depth);
            }
            Node::Branch(children) => {
                assert!((1..=WIDTH).contains(&children.len()));
                for child in children {
                    assert_eq!(child.node.first(), Some(child.first));
                    check_nodes(&child.node, depth + 1, depths);
                }
            }
        }
    }

    #[test]
    fn a_topic_is_followed_by_what_is_below_it() {
        let mut rows = ["a b", "a/b", "ab", "a", "a/b/c", "a-b", "a!", "a/ b", "b"];
        rows.sort_by(|left, right| order(left, right));
        assert_eq!(rows, ["a", "a/ b", "a/b", "a/b/c", "a b", "a!", "a-b", "ab", "b"]);
    }

    #[test]
    fn what_comes_in_order_fills_its_nodes() {
        let paths: Vec<String> = (0..10_000).map(|n| format!("load/{n:06}")).collect();
        let mut tree = Tree::default();
        for key in 0..10_000 {
            assert!(tree.insert(key, texts(&paths)));
        }
        let Node::Branch(children) = &tree.root else { panic!("a branch") };
        let leaves: usize = children.iter().map(|child| child.node.width()).sum();
        assert!(leaves <= 10_000 / WIDTH + 1, "{leaves}");
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(
            ops in proptest::collection::vec(
                (0u8..5, "[ab -]{1,3}(/[ab]{1,3}){0,3}", "[ab -]{0,2}(/[ab]){0,2}", 0usize..90),
                1..600),
            shrinking in any::<bool>(),
        ) {
            let paths: Vec<String> = ops.iter().map(|row| row.1.clone()).collect();
            let path_of = texts(&paths);
            let mut tree: Tree<u32> = Tree::default();
            let mut model: Vec<String> = Vec::new();
            let find = |model: &[String], path: &str| {
                model.binary_search_by(|known| order(known, path))
            };
            for (key, (op, path, below, after)) in (0u32..).zip(&ops) {
                if *op == 0 || (shrinking && key as usize > ops.len() / 2 && *op < 4) {
                    let path = model.get(*after).unwrap_or(path).clone();
                    let removed = tree.remove(&path, &path_of).map(&path_of);
                    let known = find(&model, &path).ok().map(|at| model.remove(at));
                    prop_assert_eq!(removed, known.as_deref());
                } else {
                    match find(&model, path) {
                        Ok(_) => prop_assert!(!tree.insert(key, &path_of)),
                        Err(at) => {
                            prop_assert!(tree.insert(key, &path_of));
                            model.insert(at, path.clone());
                        }
                    }
                }
                prop_assert_eq!(tree.len(), model.len());
                let after = model.get(*after).cloned();
                let walked: Vec<&str> =
                    tree.walk(below.as_str(), after.as_deref(), &path_of).map(&path_of).collect();
                let expected: Vec<&str> = model
                    .iter()
                    .filter(|path| is_at_or_below(path, below))
                    .filter(|path| after.as_ref().is_none_or(|after| order(path, after).is_gt()))
                    .map(String::as_str)
                    .collect();
                prop_assert_eq!(walked, expected);
            }
            let mut depths = BTreeSet::new();
            check_nodes(&tree.root, 0, &mut depths);
            prop_assert_eq!(depths.len(), 1, "all leaves are equally deep");
        }

        #[test]
        fn slices_of_a_walk_make_up_the_whole(
            count in 1usize..2_000, seed in any::<u64>(), slice in 1usize..200,
        ) {
            let paths: Vec<String> =
                (0..count as u64).map(|n| (n.wrapping_mul(seed | 1) % 5_000).to_string()).collect();
            let path_of = texts(&paths);
            let mut tree: Tree<u32> = Tree::default();
            for key in 0..count as u32 {
                tree.insert(key, &path_of);
            }
            let mut sliced = Vec::new();
            loop {
                let after = sliced.last().map(|key| path_of(*key));
                let part: Vec<u32> = tree.walk("", after, &path_of).take(slice).collect();
                if part.is_empty() {
                    break;
                }
                sliced.extend(part);
            }
            prop_assert_eq!(sliced, tree.walk("", None, &path_of).collect::<Vec<_>>());
            for (key, path) in (0..).zip(&paths) {
                let known = tree.remove(path, &path_of);
                prop_assert!(known.is_none_or(|known| known == key || path_of(known) == path));
            }
            prop_assert!(tree.is_empty());
            prop_assert!(matches!(&tree.root, Node::Leaf(keys) if keys.is_empty()));
        }
    }
}
