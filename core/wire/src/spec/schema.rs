//! The JSON Schema that values of a topic are held to: compiled once, shared by all topics of a kind.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tiderace_value::schema::{Schema, SchemaError, Unfit};
use tiderace_value::{Budget, Json};

/// Bytes of a schema in a specification: compiling a hostile one of this size holds a shard up for
/// some ten milliseconds.
pub const SPEC_SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// Steps of one check: some milliseconds.
const STEPS_MAX: usize = 200_000;

/// A schema with its text. Two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct SchemaSpec(Arc<(Box<str>, Schema)>);

impl SchemaSpec {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Says what is wrong and where.
    pub fn parse(text: &str) -> Result<SchemaSpec, SchemaError> {
        Ok(SchemaSpec(Arc::new((text.into(), Schema::parse(text.as_bytes())?))))
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0.0
    }

    /// What it takes in memory, roughly.
    pub fn bytes(&self) -> usize {
        self.text().len() + self.0.1.bytes()
    }

    /// Whether a value fits; and how many steps it took to find out, of which there are at most so
    /// many.
    ///
    /// # Errors
    /// Says which part does not, and what it must be like.
    pub fn check(&self, json: Json<'_>, steps_max: usize) -> (Result<(), Unfit>, usize) {
        let mut budget = Budget::new(STEPS_MAX.min(steps_max));
        let before = budget.left();
        let checked = self.0.1.check_within(json, &mut budget);
        (checked, before - budget.left())
    }
}

impl PartialEq for SchemaSpec {
    fn eq(&self, other: &SchemaSpec) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text()
    }
}

impl Eq for SchemaSpec {}

impl Hash for SchemaSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}
