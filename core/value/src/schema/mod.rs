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
mod error;
mod keywords;
mod limits;
mod pattern;
mod rule;

use rule::Branch;

use crate::{Budget, Json};

pub use error::{SchemaError, SchemaProblem, Unfit, Violation};
pub use limits::{SCHEMA_BYTES_MAX, SCHEMA_PARTS_MAX, SCHEMA_PATTERNS_MAX};

/// What is made of one byte of a schema's text, at most: rules, names and values.
const BYTES_PER_BYTE: usize = 12;

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    branches: Vec<Branch>,
    bytes: usize,
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
