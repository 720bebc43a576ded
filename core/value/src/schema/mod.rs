//! JSON Schema: what a value must be like, compiled once and checked within bounds.
//!
//! Relies on looking into values and comparing them. Invariant: whatever the schema and the value are,
//! compiling and checking end within their limits; a keyword that would be ignored although it
//! demands something is refused when the schema is compiled.
//!
//! The dialect is draft 2020-12 without what few people use; the crate's README has the table of keywords.
//! Numbers are compared exactly. `pattern` takes expressions of ECMA-262 that an automaton can match.
//!
//! ```
//! use tiderace_value::{Json, Limits, Schema};
//!
//! let schema = Schema::parse(br#"{"properties":{"bid":{"type":"number","minimum":0}}}"#).unwrap();
//! let json = Json::parse(br#"{"bid":-1}"#, 16).unwrap();
//! let unfit = schema.check(json, Limits::DEFAULT.steps_max).unwrap_err().to_string();
//! assert_eq!(
//!     unfit,
//!     r#"the value at "/bid" must be at least 0 (schema: "/properties/bid/minimum")"#
//! );
//! ```

mod check;
mod compile;
mod compiler;
mod keywords;
mod pattern;
mod rule;

use rule::Branch;

use crate::{Budget, Json, JsonError};

/// The most bytes of the text of a schema.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// The most schemas inside a schema, itself included.
pub const SCHEMA_PARTS_MAX: usize = 4096;
/// The most regular expressions of a schema.
pub const SCHEMA_PATTERNS_MAX: usize = 64;

/// What is made of one byte of a schema's text, at most: rules, names and values.
const BYTES_PER_BYTE: usize = 12;

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    branches: Vec<Branch>,
    bytes: usize,
}

/// Why a schema cannot be used, and because of which part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema, at {at:?}: {problem}")]
pub struct SchemaError {
    /// A pointer to the part.
    pub at: String,
    /// What is wrong.
    pub problem: SchemaProblem,
}

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] JsonError),
    /// Too many bytes, parts or patterns.
    #[error("at most {max} {what} are allowed")]
    TooMany {
        /// How many.
        max: usize,
        /// Of what.
        what: &'static str,
    },
    /// Compiling takes too much work.
    #[error("it takes too much work to compile; make it smaller")]
    TooMuchWork,
    /// Neither an object nor a truth value.
    #[error("a schema is an object, true or false")]
    NoSchema,
    /// A keyword that is not known, or that demands what cannot be checked.
    #[error("keyword `{0}` is not supported")]
    Unsupported(String),
    /// The value of a keyword is not what it must be.
    #[error("`{keyword}` must be {must}")]
    Shape {
        /// Of which keyword.
        keyword: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// A regular expression that is wrong or not supported.
    #[error("the regular expression {pattern:?} cannot be used: {why}")]
    Pattern {
        /// The expression, or its beginning.
        pattern: String,
        /// What is wrong.
        why: String,
    },
    /// A reference to nothing.
    #[error("there is nothing at {0:?} to which `$ref` refers")]
    Missing(String),
    /// A reference elsewhere.
    #[error("`$ref` must be `#` or begin with `#/`: references go to places of the same schema")]
    Foreign,
    /// Schemas that go in a circle.
    #[error("it refers to itself without looking into the value, so checking would never end")]
    Circle,
}

/// Why a value does not fit a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value at {instance:?} {says} (schema: {schema:?})")]
pub struct Violation {
    /// A pointer to the part of the value.
    pub instance: String,
    /// A pointer to the keyword of the schema.
    pub schema: String,
    /// What the part must be like: "must be at least 3".
    pub says: String,
}

/// Why a value was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It does not fit.
    #[error(transparent)]
    Violation(Box<Violation>),
    /// Checking takes too many steps.
    #[error("checking the value against its schema takes too much work; make either simpler")]
    TooMuchWork,
    /// Schemas inside schemas beyond what the stack is for.
    #[error("schema and value are nested too deeply in each other")]
    TooDeep,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Says what is wrong and where.
    pub fn parse(bytes: &[u8]) -> Result<Schema, SchemaError> {
        let (branches, automata_bytes) = compile::compile(bytes)?;
        let rules = branches.capacity() * size_of::<Branch>() + BYTES_PER_BYTE * bytes.len();
        let bytes = rules + automata_bytes;
        Ok(Schema { branches, bytes })
    }

    /// What it takes in memory, roughly, and seldom less: its text may be small and its regular
    /// expressions large.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a value fits. A step is about what one field or element costs, or 16 bytes of text;
    /// [`Limits::DEFAULT`](crate::Limits::DEFAULT) has a good number.
    ///
    /// # Errors
    /// Says which part does not, and what it must be like.
    pub fn check(&self, json: Json<'_>, steps_max: usize) -> Result<(), Unfit> {
        self.check_within(json, &mut Budget::new(steps_max))
    }

    /// The same, paid from a budget.
    ///
    /// # Errors
    /// As [`Schema::check`].
    pub fn check_within(&self, json: Json<'_>, budget: &mut Budget) -> Result<(), Unfit> {
        check::check(&self.branches, json, budget)
    }
}
