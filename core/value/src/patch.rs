//! JSON Patch (RFC 6902): a list of changes that take effect together or not at all.
//!
//! Relies on `tree` for the changes. Invariant: what no operation touches stays as it was written, byte
//! for byte; neither a value on the way nor the result passes the limits, however often parts are
//! copied into each other.

use std::borrow::Cow;

use crate::compare::equal_within;
use crate::limits::{Budget, PATCH_BYTES_MAX, PATCH_OPERATIONS_MAX, Spent};
use crate::scan::{DEPTH_MAX, JsonError};
use crate::tree::{Change, Obstacle, Part};
use crate::{EditError, Json, JsonKind, Limits, Pointer, PointerError};

/// Operations in order, borrowed from their text or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    operations: Vec<Operation<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Operation<'a> {
    path: Pointer,
    kind: Kind<'a>,
}

/// What is done; values as text that is known to be JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind<'a> {
    Add(Cow<'a, str>),
    Remove,
    Replace(Cow<'a, str>),
    Move(Pointer),
    Copy(Pointer),
    Test(Cow<'a, str>),
}

/// Why a patch cannot be read or does not apply, and because of which operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place(.operation))]
pub struct PatchError {
    /// The number of the operation, from 0; nothing if it is about all of them.
    pub operation: Option<usize>,
    /// What is wrong.
    pub problem: PatchProblem,
}

/// What is wrong with a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchProblem {
    /// Not JSON.
    #[error("the patch is not JSON: {0}")]
    Json(#[from] JsonError),
    /// More than [`PATCH_BYTES_MAX`].
    #[error("a patch has at most {PATCH_BYTES_MAX} bytes")]
    Bytes,
    /// More than [`PATCH_OPERATIONS_MAX`].
    #[error("a patch has at most {PATCH_OPERATIONS_MAX} operations")]
    Operations,
    /// Not an array of objects.
    #[error("a patch is an array of objects with \"op\" and \"path\"")]
    Shape,
    /// A member that the operation needs is missing or of the wrong kind.
    #[error("the operation needs {0:?}")]
    Member(&'static str),
    /// "op" is none of the six.
    #[error("\"op\" must be add, remove, replace, move, copy or test")]
    Name,
    /// "path" or "from" is no pointer.
    #[error("{0}")]
    Pointer(#[from] PointerError),
    /// There is nothing to change at the place.
    #[error("{0}")]
    Edit(#[from] EditError),
    /// A value was to be moved into itself.
    #[error("{0:?} cannot be moved into itself")]
    IntoItself(String),
    /// What was tested is not so.
    #[error("the test failed: the value at {0:?} is another")]
    Test(String),
    /// The value became too large.
    #[error("the value would have more than {0} bytes")]
    TooLarge(usize),
    /// The value became too deep.
    #[error("the value would be nested more deeply than {0} levels")]
    TooDeep(usize),
    /// The patch takes too much work.
    #[error("the patch takes too much work; make it or the value smaller")]
    TooMuchWork,
}

impl<'a> Patch<'a> {
    /// Reads a patch. Members it does not know are ignored, as the specification says.
    ///
    /// # Errors
    /// Says which operation is wrong and why.
    pub fn parse(bytes: &'a [u8]) -> Result<Patch<'a>, PatchError> {
        let whole = |problem| PatchError { operation: None, problem };
        if bytes.len() > PATCH_BYTES_MAX {
            return Err(whole(PatchProblem::Bytes));
        }
        let json = Json::parse(bytes, DEPTH_MAX).map_err(|error| whole(error.into()))?;
        Patch::of(json)
    }

    /// Reads a patch that is JSON already.
    ///
    /// # Errors
    /// As [`Patch::parse`].
    pub fn of(json: Json<'a>) -> Result<Patch<'a>, PatchError> {
        let whole = |problem| PatchError { operation: None, problem };
        if json.text().len() > PATCH_BYTES_MAX {
            return Err(whole(PatchProblem::Bytes));
        }
        if json.kind() != JsonKind::Array {
            return Err(whole(PatchProblem::Shape));
        }
        let mut operations = Vec::new();
        for (number, operation) in json.elements().enumerate() {
            if number == PATCH_OPERATIONS_MAX {
                return Err(whole(PatchProblem::Operations));
            }
            let operation = Operation::of(operation)
                .map_err(|problem| PatchError { operation: Some(number), problem })?;
            operations.push(operation);
        }
        Ok(Patch { operations })
    }

    /// The same patch, which needs its text no longer.
    pub fn into_owned(self) -> Patch<'static> {
        let operations = self.operations.into_iter().map(Operation::into_owned).collect();
        Patch { operations }
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The value with all operations made. "test" compares as [`equal`](crate::equal) does: numbers by
    /// value, objects whatever the order of their fields.
    ///
    /// # Errors
    /// Says which operation cannot be made and why; then none is.
    pub fn apply(&self, json: Json<'_>, limits: Limits) -> Result<String, PatchError> {
        self.apply_within(json, limits, &mut Budget::new(limits.steps_max))
    }

    /// The same, paid from a budget.
    ///
    /// # Errors
    /// As [`Patch::apply`].
    pub fn apply_within(
        &self,
        json: Json<'_>,
        limits: Limits,
        budget: &mut Budget,
    ) -> Result<String, PatchError> {
        let mut root = Part::Text(json.text());
        for (number, operation) in self.operations.iter().enumerate() {
            operation
                .apply(&mut root, budget)
                .and_then(|()| check(&root, limits))
                .map_err(|problem| PatchError { operation: Some(number), problem })?;
        }
        let mut text = String::with_capacity(root.bytes());
        root.write(&mut text);
        match Json::parse(text.as_bytes(), limits.depth_max) {
            Ok(_) => Ok(text),
            // What is made of valid parts is valid, so only its depth can be wrong.
            Err(_) => Err(PatchError {
                operation: None,
                problem: PatchProblem::TooDeep(limits.depth_max.min(DEPTH_MAX)),
            }),
        }
    }
}

impl<'a> Operation<'a> {
    fn of(json: Json<'a>) -> Result<Operation<'a>, PatchProblem> {
        if json.kind() != JsonKind::Object {
            return Err(PatchProblem::Shape);
        }
        let [mut name, mut path, mut from, mut value] = [None; 4];
        for (member, found) in json.fields() {
            for (known, place) in
                [("op", &mut name), ("path", &mut path), ("from", &mut from), ("value", &mut value)]
            {
                if member.is_text(known) {
                    *place = Some(found);
                }
            }
        }
        let pointer = |found: Option<Json<'a>>, member| {
            let text = found.and_then(Json::as_text).ok_or(PatchProblem::Member(member))?;
            Ok::<_, PatchProblem>(Pointer::parse(&text)?)
        };
        let value = || {
            let value: Json<'a> = value.ok_or(PatchProblem::Member("value"))?;
            Ok::<_, PatchProblem>(Cow::Borrowed(value.text()))
        };
        let name = name.and_then(Json::as_text).ok_or(PatchProblem::Member("op"))?;
        let kind = match &*name {
            "add" => Kind::Add(value()?),
            "remove" => Kind::Remove,
            "replace" => Kind::Replace(value()?),
            "move" => Kind::Move(pointer(from, "from")?),
            "copy" => Kind::Copy(pointer(from, "from")?),
            "test" => Kind::Test(value()?),
            _ => return Err(PatchProblem::Name),
        };
        let path = pointer(path, "path")?;
        match &kind {
            Kind::Move(from) if from != &path && from.contains(&path) => {
                Err(PatchProblem::IntoItself(from.as_str().to_owned()))
            }
            _ => Ok(Operation { path, kind }),
        }
    }

    fn into_owned(self) -> Operation<'static> {
        let owned = |value: Cow<'_, str>| Cow::Owned(value.into_owned());
        let kind = match self.kind {
            Kind::Add(value) => Kind::Add(owned(value)),
            Kind::Remove => Kind::Remove,
            Kind::Replace(value) => Kind::Replace(owned(value)),
            Kind::Move(from) => Kind::Move(from),
            Kind::Copy(from) => Kind::Copy(from),
            Kind::Test(value) => Kind::Test(owned(value)),
        };
        Operation { path: self.path, kind }
    }

    fn apply<'t>(&'t self, root: &mut Part<'t>, budget: &mut Budget) -> Result<(), PatchProblem> {
        let path = &self.path;
        budget.spend(1)?;
        match &self.kind {
            Kind::Add(value) => root.change(path, Change::Add(Part::Text(value)), budget)?,
            Kind::Replace(value) => {
                root.change(path, Change::Replace(Part::Text(value)), budget)?
            }
            Kind::Remove => root.change(path, Change::Remove, budget)?,
            Kind::Copy(from) => {
                let part = root.find(from, budget)?;
                root.change(path, Change::Add(part), budget)?
            }
            Kind::Move(from) => return shift(root, from, path, budget),
            Kind::Test(value) => return test(root, path, Json::known(value), budget),
        };
        Ok(())
    }
}

fn shift(
    root: &mut Part<'_>,
    from: &Pointer,
    path: &Pointer,
    budget: &mut Budget,
) -> Result<(), PatchProblem> {
    if from == path {
        root.find(from, budget)?;
        return Ok(());
    }
    if let Some(part) = root.change(from, Change::Remove, budget)? {
        root.change(path, Change::Add(part), budget)?;
    }
    Ok(())
}

fn test(
    root: &Part<'_>,
    path: &Pointer,
    wanted: Json<'_>,
    budget: &mut Budget,
) -> Result<(), PatchProblem> {
    let part = root.find(path, budget)?;
    let mut written = String::new();
    let text = match part {
        Part::Text(text) => text,
        Part::Branch(_) => {
            budget.spend(part.bytes())?;
            part.write(&mut written);
            &written
        }
    };
    // Comparing recurses, so a value that operations have made is checked like any other.
    let found =
        Json::parse(text.as_bytes(), DEPTH_MAX).map_err(|_| PatchProblem::TooDeep(DEPTH_MAX))?;
    if equal_within(found, wanted, budget)? {
        Ok(())
    } else {
        Err(PatchProblem::Test(path.as_str().to_owned()))
    }
}

fn check(root: &Part<'_>, limits: Limits) -> Result<(), PatchProblem> {
    if root.bytes() > limits.bytes_max {
        return Err(PatchProblem::TooLarge(limits.bytes_max));
    }
    let depth_max = limits.depth_max.min(DEPTH_MAX);
    if root.height() > depth_max {
        return Err(PatchProblem::TooDeep(depth_max));
    }
    Ok(())
}

fn place(operation: &Option<usize>) -> String {
    operation.map_or(String::new(), |number| format!("operation {number}: "))
}

impl From<Spent> for PatchProblem {
    fn from(_: Spent) -> PatchProblem {
        PatchProblem::TooMuchWork
    }
}

impl From<Obstacle> for PatchProblem {
    fn from(obstacle: Obstacle) -> PatchProblem {
        match obstacle {
            Obstacle::Edit(error) => error.into(),
            Obstacle::Spent => PatchProblem::TooMuchWork,
        }
    }
}
