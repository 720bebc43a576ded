//! A value taken apart where a patch touches it, and nowhere else.
//!
//! Relies on `items` to take containers apart. Invariant: what was not touched is still a slice of the
//! text it came from; every branch knows how long its text is and how deeply branches are nested, so
//! that a result that is too large is refused before it exists. Branches are shared, so a copy costs
//! nothing until it is changed.

use std::borrow::Cow;
use std::rc::Rc;

use crate::edit::{EditError, quoted};
use crate::items::{Items, slice};
use crate::limits::{Budget, Spent};
use crate::look::pass_string;
use crate::pointer::{element_index, part};
use crate::scan::space;
use crate::{Json, Pointer};

/// A value: its text, or its parts.
#[derive(Clone, Debug)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Branch(Rc<Branch<'a>>),
}

/// An array or an object that was taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Branch<'a> {
    object: bool,
    /// White space between the brackets where nothing else is.
    blank: &'a str,
    entries: Vec<Entry<'a>>,
    /// Of its text.
    bytes: usize,
    /// How many branches are inside each other, this one included.
    height: usize,
}

/// An element or a field, with the white space around it.
#[derive(Clone, Debug)]
struct Entry<'a> {
    /// What stands before the value: white space, and a field's name and colon.
    head: Cow<'a, str>,
    part: Part<'a>,
    tail: &'a str,
}

/// What to do at the place that a pointer names.
pub(crate) enum Change<'a> {
    /// "add" of RFC 6902.
    Add(Part<'a>),
    /// Replace what is there.
    Replace(Part<'a>),
    /// Take away what is there.
    Remove,
}

/// Why a change was not made.
#[derive(Debug)]
pub(crate) enum Obstacle {
    Edit(EditError),
    Spent,
}

impl From<EditError> for Obstacle {
    fn from(error: EditError) -> Obstacle {
        Obstacle::Edit(error)
    }
}

impl From<Spent> for Obstacle {
    fn from(_: Spent) -> Obstacle {
        Obstacle::Spent
    }
}

/// What was at a place before, if something was.
type Changed<'a> = Result<Option<Part<'a>>, Obstacle>;

/// A pointer under way: at which of its tokens, and how to say where that is.
#[derive(Clone, Copy)]
struct Way<'w> {
    pointer: &'w Pointer,
    tokens: &'w [Cow<'w, str>],
    place: usize,
}

impl<'w> Way<'w> {
    fn token(&self) -> &'w str {
        self.tokens.get(self.place).map_or("", |token| token)
    }

    /// At the next token, if there is one.
    fn next(self) -> Option<Way<'w>> {
        let place = self.place + 1;
        (place < self.tokens.len()).then_some(Way { place, ..self })
    }

    /// What the token is looked for in.
    fn here(&self) -> String {
        self.pointer.prefix(self.place).to_owned()
    }

    fn missing(&self) -> EditError {
        EditError::Missing(self.pointer.prefix(self.place + 1).to_owned())
    }

    fn index(&self) -> Result<usize, EditError> {
        let token = self.token();
        element_index(token)
            .ok_or_else(|| EditError::Index { at: self.here(), token: token.to_owned() })
    }
}

impl<'a> Part<'a> {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Branch(branch) => branch.bytes,
        }
    }

    pub(crate) fn height(&self) -> usize {
        match self {
            Part::Text(_) => 0,
            Part::Branch(branch) => branch.height,
        }
    }

    /// What is at a place.
    pub(crate) fn find(
        &self,
        pointer: &Pointer,
        budget: &mut Budget,
    ) -> Result<Part<'a>, Obstacle> {
        let tokens: Vec<Cow<'_, str>> = pointer.tokens().collect();
        let mut here = self.clone();
        for (place, token) in tokens.iter().enumerate() {
            let next = match &here {
                Part::Text(text) => {
                    budget.pass(text)?;
                    part(Json::known(text), token).map(|json| Part::Text(json.text()))
                }
                Part::Branch(branch) => {
                    let entry = branch.position(token, budget)?;
                    entry.and_then(|at| branch.entries.get(at)).map(|entry| entry.part.clone())
                }
            };
            here = next.ok_or_else(|| Way { pointer, tokens: &tokens, place }.missing())?;
        }
        Ok(here)
    }

    /// Changes what is at a place; gives what was there before.
    pub(crate) fn change(
        &mut self,
        pointer: &Pointer,
        change: Change<'a>,
        budget: &mut Budget,
    ) -> Changed<'a> {
        match change {
            Change::Add(part) | Change::Replace(part) if pointer.is_root() => {
                Ok(Some(std::mem::replace(self, part)))
            }
            Change::Remove if pointer.is_root() => Err(EditError::Root.into()),
            change => {
                let tokens: Vec<Cow<'_, str>> = pointer.tokens().collect();
                self.change_below(Way { pointer, tokens: &tokens, place: 0 }, change, budget)
            }
        }
    }

    /// Recurses no more deeply than pointers are long.
    fn change_below(
        &mut self,
        way: Way<'_>,
        change: Change<'a>,
        budget: &mut Budget,
    ) -> Changed<'a> {
        let branch = self.open(budget)?.ok_or_else(|| EditError::Scalar(way.here()))?;
        let Some(next) = way.next() else { return branch.change(way, change, budget) };
        let found = branch.find_or_refuse(way, budget)?;
        let entry = found.and_then(|at| branch.entries.get_mut(at));
        let entry = entry.ok_or_else(|| way.missing())?;
        let (bytes, height) = (entry.part.bytes(), entry.part.height());
        let result = entry.part.change_below(next, change, budget)?;
        let (new_bytes, new_height) = (entry.part.bytes(), entry.part.height());
        branch.bytes = branch.bytes - bytes + new_bytes;
        branch.fit_height(height, new_height, budget)?;
        Ok(result)
    }

    /// Its parts, to be changed; nothing if it has none.
    fn open(&mut self, budget: &mut Budget) -> Result<Option<&mut Branch<'a>>, Spent> {
        if let Part::Text(text) = self {
            if !text.starts_with(['{', '[']) {
                return Ok(None);
            }
            budget.pass(text)?;
            *self = Part::Branch(Rc::new(Branch::of(text, budget)?));
        }
        let Part::Branch(branch) = self else { return Ok(None) };
        if Rc::strong_count(branch) > 1 {
            budget.spend(branch.entries.len())?;
        }
        Ok(Some(Rc::make_mut(branch)))
    }

    /// Appends its text. Recurses no more deeply than branches are nested, which is bounded.
    pub(crate) fn write(&self, out: &mut String) {
        let branch = match self {
            Part::Text(text) => return out.push_str(text),
            Part::Branch(branch) => branch,
        };
        out.push(if branch.object { '{' } else { '[' });
        if branch.entries.is_empty() {
            out.push_str(branch.blank);
        }
        for (place, entry) in branch.entries.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            out.push_str(&entry.head);
            entry.part.write(out);
            out.push_str(entry.tail);
        }
        out.push(if branch.object { '}' } else { ']' });
    }
}

impl<'a> Entry<'a> {
    fn bytes(&self) -> usize {
        self.head.len() + self.part.bytes() + self.tail.len()
    }

    fn is_named(&self, name: &str) -> bool {
        let start = space(self.head.as_bytes(), 0);
        let end = pass_string(self.head.as_bytes(), start);
        Json::known(slice(&self.head, start..end)).is_text(name)
    }
}

impl<'a> Branch<'a> {
    fn of(text: &'a str, budget: &mut Budget) -> Result<Branch<'a>, Spent> {
        let mut entries = Vec::new();
        for item in Items::of(text) {
            budget.spend(1)?;
            entries.push(Entry {
                head: Cow::Borrowed(slice(text, item.whole.start..item.value.start)),
                part: Part::Text(slice(text, item.value.clone())),
                tail: slice(text, item.value.end..item.whole.end),
            });
        }
        let inside = slice(text, 1..text.len().saturating_sub(1));
        let blank = if entries.is_empty() { inside } else { "" };
        let object = text.starts_with('{');
        Ok(Branch { object, blank, entries, bytes: text.len(), height: 1 })
    }

    /// Where a token's entry is, of equal names the last; nothing also for what is no index.
    fn position(&self, token: &str, budget: &mut Budget) -> Result<Option<usize>, Spent> {
        if self.object {
            budget.spend(self.entries.len())?;
            return Ok(self.entries.iter().rposition(|entry| entry.is_named(token)));
        }
        budget.spend(1)?;
        Ok(element_index(token).filter(|at| *at < self.entries.len()))
    }

    /// The same, but what is no index is an error.
    fn find_or_refuse(&self, way: Way<'_>, budget: &mut Budget) -> Result<Option<usize>, Obstacle> {
        if !self.object && way.token() != "-" {
            way.index()?;
        }
        Ok(self.position(way.token(), budget)?)
    }

    fn change(&mut self, way: Way<'_>, change: Change<'a>, budget: &mut Budget) -> Changed<'a> {
        let found = self.find_or_refuse(way, budget)?;
        match (change, found) {
            (Change::Replace(part), Some(at)) => self.replace(at, part, budget),
            (Change::Add(part), Some(at)) if self.object => self.replace(at, part, budget),
            (Change::Add(part), _) => {
                self.add(way, part, budget)?;
                Ok(None)
            }
            (Change::Remove, Some(at)) => self.remove(at, way.token(), budget),
            (Change::Replace(_) | Change::Remove, None) => Err(way.missing().into()),
        }
    }

    fn replace(&mut self, at: usize, part: Part<'a>, budget: &mut Budget) -> Changed<'a> {
        let Some(entry) = self.entries.get_mut(at) else { return Ok(None) };
        let (bytes, height) = (part.bytes(), part.height());
        let old = std::mem::replace(&mut entry.part, part);
        self.bytes = self.bytes - old.bytes() + bytes;
        self.fit_height(old.height(), height, budget)?;
        Ok(Some(old))
    }

    /// Adds an entry that is not there yet.
    fn add(&mut self, way: Way<'_>, part: Part<'a>, budget: &mut Budget) -> Result<(), Obstacle> {
        let elements = self.entries.len();
        let token = way.token();
        let at = if self.object || token == "-" { elements } else { way.index()? };
        if at > elements {
            return Err(EditError::Beyond { at: way.here(), elements, index: at }.into());
        }
        budget.spend(1 + (elements - at) / 2)?;
        let head = if self.object { Cow::Owned(quoted(token) + ":") } else { Cow::Borrowed("") };
        let mut entry = Entry { head, part, tail: "" };
        let height = entry.part.height();
        self.bytes += entry.bytes() + usize::from(elements > 0);
        if at == elements {
            // White space before the closing bracket stays there.
            let tail = self.entries.last_mut().map_or(&mut self.blank, |last| &mut last.tail);
            entry.tail = std::mem::take(tail);
        }
        self.entries.insert(at, entry);
        Ok(self.fit_height(0, height, budget)?)
    }

    /// Takes an entry away, and with it all fields of its name.
    fn remove(&mut self, at: usize, name: &str, budget: &mut Budget) -> Changed<'a> {
        budget.spend(1 + (self.entries.len() - at) / 2)?;
        let mut height = 0;
        let before = self.entries.len();
        let mut taken = 0;
        if !self.object {
            let entry = self.entries.remove(at);
            (taken, height) = (entry.bytes(), entry.part.height());
            self.shrink(before, taken, height, budget)?;
            return Ok(Some(entry.part));
        }
        let mut last = None;
        self.entries.retain(|entry| {
            let gone = entry.is_named(name);
            if gone {
                taken += entry.bytes();
                height = height.max(entry.part.height());
                last = Some(entry.part.clone());
            }
            !gone
        });
        self.shrink(before, taken, height, budget)?;
        Ok(last)
    }

    /// Accounts for entries that were taken away, and their commas.
    fn shrink(
        &mut self,
        before: usize,
        bytes: usize,
        height: usize,
        budget: &mut Budget,
    ) -> Result<(), Spent> {
        let commas = |entries: usize| entries.saturating_sub(1);
        self.bytes -= bytes + commas(before) - commas(self.entries.len());
        self.fit_height(height, 0, budget)
    }

    /// Accounts for a part whose height has changed.
    fn fit_height(&mut self, old: usize, new: usize, budget: &mut Budget) -> Result<(), Spent> {
        if new + 1 >= self.height {
            self.height = new + 1;
        } else if old + 1 == self.height {
            budget.spend(self.entries.len())?;
            let highest = self.entries.iter().map(|entry| entry.part.height()).max();
            self.height = 1 + highest.unwrap_or(0);
        }
        Ok(())
    }
}
