//! Why a schema cannot be used, and why a value does not fit one.
//!
//! Relies on nothing. Invariant: each error says where, by a pointer, and what would be right.

use crate::JsonError;

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
