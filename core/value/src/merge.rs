//! JSON Merge Patch (RFC 7386), and values merged field by field.
//!
//! Relies on `items` for places in the text. Invariant: fields that the newer side does not name stay as
//! they were written, byte for byte; time is in proportion to both sides times their nesting, and the
//! result never passes the limits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::items::{Item, Items, slice};
use crate::limits::{Budget, Spent};
use crate::{DEPTH_MAX, Json, JsonKind, Limits};

/// Steps of looking for a name among others.
const NAME_STEPS: usize = 4;

/// Why two values cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The result is too large.
    #[error("the merged value would have more than {0} bytes")]
    TooLarge(usize),
    /// The result is too deep.
    #[error("the merged value would be nested more deeply than {0} levels")]
    TooDeep(usize),
    /// It takes too much work.
    #[error("merging takes too much work; make the values smaller")]
    TooMuchWork,
}

/// How deeply [`fields`] merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeDepth {
    /// A field of the newer value replaces the older one's.
    Top,
    /// Where both fields are objects, they are merged in turn.
    All,
}

/// The value with a merge patch applied: its objects are merged in, `null` removes a field, and
/// anything else replaces.
///
/// # Errors
/// If the result or the work is too much.
pub fn apply(json: Json<'_>, patch: Json<'_>, limits: Limits) -> Result<String, MergeError> {
    apply_within(json, patch, limits, &mut Budget::new(limits.steps_max))
}

/// The same, paid from a budget.
///
/// # Errors
/// As [`apply`].
pub fn apply_within(
    json: Json<'_>,
    patch: Json<'_>,
    limits: Limits,
    budget: &mut Budget,
) -> Result<String, MergeError> {
    merged_within(json, patch, Mode::Apply, limits, budget).map(|text| text.unwrap_or_default())
}

/// The one merge patch that does what `first` and then `second` do, whatever they are applied to. There
/// is none where `second` has an object and `first` replaces or removes what is there: a merge patch
/// cannot say "replace by this object".
///
/// # Errors
/// If the result or the work is too much.
pub fn compose(
    first: Json<'_>,
    second: Json<'_>,
    limits: Limits,
) -> Result<Option<String>, MergeError> {
    merged(first, second, Mode::Compose, limits)
}

/// Two successive values in one: the fields of the newer and those of the older that the newer does not
/// have. `null` is a value like any other. Of values that are not both objects, the newer is the result.
///
/// # Errors
/// If the result or the work is too much.
pub fn fields(
    older: Json<'_>,
    newer: Json<'_>,
    depth: MergeDepth,
    limits: Limits,
) -> Result<String, MergeError> {
    merged(older, newer, Mode::Fields(depth), limits).map(|text| text.unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Apply,
    Compose,
    Fields(MergeDepth),
}

/// Why merging ended early.
enum Stop {
    /// No merge patch says it.
    Inexpressible,
    TooLarge,
    Spent,
}

impl From<Spent> for Stop {
    fn from(_: Spent) -> Stop {
        Stop::Spent
    }
}

fn merged(
    older: Json<'_>,
    newer: Json<'_>,
    mode: Mode,
    limits: Limits,
) -> Result<Option<String>, MergeError> {
    merged_within(older, newer, mode, limits, &mut Budget::new(limits.steps_max))
}

fn merged_within(
    older: Json<'_>,
    newer: Json<'_>,
    mode: Mode,
    limits: Limits,
    budget: &mut Budget,
) -> Result<Option<String>, MergeError> {
    // What is made has hardly more bytes than both, so it need not grow.
    let bytes = (older.text().len() + newer.text().len()).min(limits.bytes_max);
    let out = String::with_capacity(bytes);
    let mut merge = Merge { out, bytes_max: limits.bytes_max, budget };
    let result = match mode {
        Mode::Compose if newer.kind() == JsonKind::Object && older.kind() != JsonKind::Object => {
            Err(Stop::Inexpressible)
        }
        _ => merge.pair(Some(older), newer, mode),
    };
    match result {
        Ok(()) => {}
        Err(Stop::Inexpressible) => return Ok(None),
        Err(Stop::TooLarge) => return Err(MergeError::TooLarge(limits.bytes_max)),
        Err(Stop::Spent) => return Err(MergeError::TooMuchWork),
    }
    match Json::parse(merge.out.as_bytes(), limits.depth_max) {
        Ok(_) => Ok(Some(merge.out)),
        // What is made of valid parts is valid, so only its depth can be wrong.
        Err(_) => Err(MergeError::TooDeep(limits.depth_max.min(DEPTH_MAX))),
    }
}

struct Merge<'b> {
    out: String,
    bytes_max: usize,
    budget: &'b mut Budget,
}

/// The fields of the newer side by name; each is taken when the older side has it too.
type Named<'a> = BTreeMap<Cow<'a, str>, (Json<'a>, bool)>;

impl Merge<'_> {
    /// Writes what becomes of a value, if there is one, and what is to be merged into it. Recurses no
    /// more deeply than values are nested.
    fn pair(&mut self, older: Option<Json<'_>>, newer: Json<'_>, mode: Mode) -> Result<(), Stop> {
        let older = older.filter(|older| older.kind() == JsonKind::Object);
        if newer.kind() != JsonKind::Object {
            return self.push(newer.text());
        }
        match (older, mode) {
            (None, Mode::Compose | Mode::Fields(_)) => self.push(newer.text()),
            (older, _) => self.objects(older.map_or("{}", Json::text), newer, mode),
        }
    }

    fn objects<'t>(&mut self, older: &'t str, newer: Json<'t>, mode: Mode) -> Result<(), Stop> {
        self.budget.pass(older)?;
        self.budget.pass(newer.text())?;
        let mut named = Named::new();
        for (name, value) in newer.fields() {
            self.budget.spend(NAME_STEPS)?;
            named.insert(name.as_text().unwrap_or_default(), (value, false));
        }
        self.push("{")?;
        let mut first = true;
        for item in Items::of(older) {
            self.budget.spend(NAME_STEPS)?;
            self.older_item(older, &item, &mut named, mode, &mut first)?;
        }
        for (name, _) in newer.fields() {
            let text = name.as_text().unwrap_or_default();
            // A name that comes twice is written where it is first met, with its last value.
            let Some((last, done)) = named.get_mut(&text) else { continue };
            if std::mem::replace(done, true) || (mode == Mode::Apply && last.is_null()) {
                continue;
            }
            let last = *last;
            self.comma(&mut first)?;
            self.push(name.text())?;
            self.push(":")?;
            self.pair(None, last, mode)?;
        }
        self.push("}")
    }

    /// Writes what becomes of a field of the older side.
    fn older_item<'t>(
        &mut self,
        text: &'t str,
        item: &Item,
        named: &mut Named<'t>,
        mode: Mode,
        first: &mut bool,
    ) -> Result<(), Stop> {
        let name = Json::known(slice(text, item.name.clone()));
        let older = Json::known(slice(text, item.value.clone()));
        let Some((newer, done)) = named.get_mut(&name.as_text().unwrap_or_default()) else {
            self.comma(first)?;
            return self.push(slice(text, item.whole.clone()));
        };
        *done = true;
        let newer = *newer;
        if mode == Mode::Apply && newer.is_null() {
            return Ok(());
        }
        let object = newer.kind() == JsonKind::Object;
        if mode == Mode::Compose && object && older.kind() != JsonKind::Object {
            return Err(Stop::Inexpressible);
        }
        self.comma(first)?;
        self.push(slice(text, item.whole.start..item.value.start))?;
        match mode {
            Mode::Fields(MergeDepth::Top) => self.push(newer.text())?,
            _ => self.pair(Some(older), newer, mode)?,
        }
        self.push(slice(text, item.value.end..item.whole.end))
    }

    fn comma(&mut self, first: &mut bool) -> Result<(), Stop> {
        if std::mem::replace(first, false) { Ok(()) } else { self.push(",") }
    }

    fn push(&mut self, text: &str) -> Result<(), Stop> {
        if self.out.len() + text.len() > self.bytes_max {
            return Err(Stop::TooLarge);
        }
        self.out.push_str(text);
        Ok(())
    }
}
