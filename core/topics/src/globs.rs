//! Many globs of one level, and those of them that a name fits, without trying each.
//!
//! ```text
//!   EU*D*R-*   head "EU", inner pieces "D" and "R-", tail ""
//! ```
//! A tree of the pieces between the stars: globs with the same beginning share its nodes. Each inner
//! piece is taken where it occurs first, which leaves most of the name to the pieces behind it, so
//! each node is visited at most once for a name. Which of a node's pieces occur is looked up by the
//! parts of the name or by trying the pieces, whichever is less. Invariant: no node is empty.

use std::cell::Cell;

use crate::table::Table;

/// What is filed under each of many globs.
#[derive(Debug)]
pub(crate) struct Globs<N> {
    heads: Pieces<After<N>>,
}

/// What may follow the pieces up to a star.
#[derive(Debug)]
struct After<N> {
    tails: Pieces<N>,
    inner: Pieces<After<N>>,
}

/// Pieces that may stand in the same place, by their text.
#[derive(Debug)]
struct Pieces<V> {
    table: Table<Box<str>, V>,
    /// The lengths that they have, rising, and how many have each.
    lengths: Vec<(usize, usize)>,
}

impl<N> Default for Globs<N> {
    fn default() -> Self {
        Globs { heads: Pieces::default() }
    }
}

impl<N> Default for After<N> {
    fn default() -> Self {
        After { tails: Pieces::default(), inner: Pieces::default() }
    }
}

impl<V> Default for Pieces<V> {
    fn default() -> Self {
        Pieces { table: Table::default(), lengths: Vec::new() }
    }
}

/// Head, inner pieces and tail.
fn split(glob: &str) -> (&str, impl Iterator<Item = &str>, &str) {
    let (head, rest) = glob.split_once('*').unwrap_or((glob, ""));
    let (inner, tail) = match rest.rsplit_once('*') {
        Some((inner, tail)) => (Some(inner), tail),
        None => (None, rest),
    };
    (head, inner.into_iter().flat_map(|inner| inner.split('*')), tail)
}

impl<N: Default> Globs<N> {
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.table.is_empty()
    }

    /// What is filed under a glob.
    pub(crate) fn get(&self, glob: &str) -> Option<&N> {
        let (head, mut inner, tail) = split(glob);
        let after = self.heads.table.get(head)?;
        let after = inner.try_fold(after, |after, piece| after.inner.table.get(piece))?;
        after.tails.table.get(tail)
    }

    /// What is filed under a glob, made if need be.
    pub(crate) fn entry(&mut self, glob: &str) -> Option<&mut N> {
        let (head, inner, tail) = split(glob);
        let mut after = self.heads.entry(head)?;
        for piece in inner {
            after = after.inner.entry(piece)?;
        }
        after.tails.entry(tail)
    }

    /// Lets `change` see what is filed under a glob, and takes it away if it answers with yes, that
    /// nothing is left of it. Whether there was such a glob.
    pub(crate) fn change(&mut self, glob: &str, change: &mut dyn FnMut(&mut N) -> bool) -> bool {
        let (head, inner, tail) = split(glob);
        let inner: Vec<&str> = inner.collect();
        let mut found = false;
        self.heads.change(head, &mut |after| {
            found = after.change(&inner, tail, change);
            after.is_empty()
        });
        found
    }

    /// Visits what is filed under the globs that fit, and counts pieces and parts of the name that were
    /// looked at.
    pub(crate) fn matches<'a>(
        &'a self,
        name: &str,
        steps: &Cell<usize>,
        visit: &mut dyn FnMut(&'a N),
    ) {
        self.heads.at_start(name, steps, &mut |after, rest| after.matches(rest, steps, visit));
    }
}

impl<N: Default> After<N> {
    fn change(
        &mut self,
        inner: &[&str],
        tail: &str,
        change: &mut dyn FnMut(&mut N) -> bool,
    ) -> bool {
        let mut found = false;
        match inner.split_first() {
            None => self.tails.change(tail, &mut |filed| {
                found = true;
                change(filed)
            }),
            Some((piece, inner)) => self.inner.change(piece, &mut |after| {
                found = after.change(inner, tail, change);
                after.is_empty()
            }),
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.tails.table.is_empty() && self.inner.table.is_empty()
    }

    fn matches<'a>(&'a self, name: &str, steps: &Cell<usize>, visit: &mut dyn FnMut(&'a N)) {
        self.tails.at_end(name, steps, visit);
        self.inner.inside(name, steps, &mut |after, rest| after.matches(rest, steps, visit));
    }
}

impl<V: Default> Pieces<V> {
    fn entry(&mut self, piece: &str) -> Option<&mut V> {
        let place = match self.table.find(piece) {
            Some(place) => place,
            None => {
                match self.lengths.binary_search_by_key(&piece.len(), |(length, _)| *length) {
                    Ok(at) => {
                        self.lengths.get_mut(at).into_iter().for_each(|(_, count)| *count += 1)
                    }
                    Err(at) => self.lengths.insert(at, (piece.len(), 1)),
                }
                self.table.push(piece.into(), V::default())
            }
        };
        self.table.at_mut(place)
    }

    /// The same as [`Globs::change`] of one piece.
    fn change(&mut self, piece: &str, change: &mut dyn FnMut(&mut V) -> bool) {
        let Some(place) = self.table.find(piece) else { return };
        if !self.table.at_mut(place).is_some_and(change) {
            return;
        }
        self.table.swap_remove(place);
        let known = self.lengths.iter_mut().find(|(length, _)| *length == piece.len());
        known.into_iter().for_each(|(_, count)| *count -= 1);
        self.lengths.retain(|(_, count)| *count > 0);
    }

    /// The lengths that fit into so many bytes.
    fn lengths_in(&self, bytes: usize) -> impl Iterator<Item = usize> {
        self.lengths.iter().map(|(length, _)| *length).take_while(move |length| *length <= bytes)
    }

    /// Visits the pieces that the name begins with, with what follows them.
    fn at_start<'a>(&'a self, name: &str, steps: &Cell<usize>, visit: &mut dyn FnMut(&'a V, &str)) {
        for length in self.lengths_in(name.len()) {
            steps.set(steps.get() + 1);
            if let Some((piece, rest)) = name.split_at_checked(length)
                && let Some(filed) = self.table.get(piece)
            {
                visit(filed, rest);
            }
        }
    }

    /// Visits the pieces that the name ends with.
    fn at_end<'a>(&'a self, name: &str, steps: &Cell<usize>, visit: &mut dyn FnMut(&'a V)) {
        for length in self.lengths_in(name.len()) {
            steps.set(steps.get() + 1);
            if let Some((_, piece)) = name.split_at_checked(name.len() - length)
                && let Some(filed) = self.table.get(piece)
            {
                visit(filed);
            }
        }
    }

    /// Visits the pieces that occur in the name, each with what follows its first occurrence.
    fn inside<'a>(&'a self, name: &str, steps: &Cell<usize>, visit: &mut dyn FnMut(&'a V, &str)) {
        let parts: usize = self.lengths_in(name.len()).map(|length| name.len() - length + 1).sum();
        if self.table.len() <= parts {
            steps.set(steps.get() + self.table.len());
            for (piece, filed) in self.table.iter() {
                if let Some((_, rest)) = name.split_once(&**piece) {
                    visit(filed, rest);
                }
            }
            return;
        }
        steps.set(steps.get() + parts);
        for length in self.lengths_in(name.len()) {
            for at in 0..=name.len() - length {
                let Some(piece) = name.get(at..at + length) else { continue };
                let Some(filed) = self.table.get(piece) else { continue };
                if let Some((before, rest)) = name.split_once(piece)
                    && before.len() == at
                {
                    visit(filed, rest);
                }
            }
        }
    }
}
