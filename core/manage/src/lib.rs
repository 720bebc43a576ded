//! What can be asked of a running server by those who look after it: one table, a verb a row.
//!
//! From [`VERBS`] come the names that operations take, the resources below `/manage`, the document of OpenAPI, the table in
//! `docs/management.md`, the module `tiderace/manage` of the TypeScript SDK, and the test that tries each verb by each way as
//! each role. Relies on nothing. Invariants: a verb is one operation that every protocol has; no two verbs have the same name,
//! or the same method of the same path.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod fields;
mod place;
mod role;
mod table;
mod verb;

pub use fields::DRY_RUN;
pub use place::Place;
pub use role::{Kind, Right, Role, Rule};
pub use table::{ACTIONS, VERBS};
pub use verb::{Danger, Effect, Field, FieldKind, Rest, Verb};

/// The verb of that name.
pub fn verb(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

/// The operations that are made by verbs alone: each once, in the order of the table.
pub fn operations() -> impl Iterator<Item = &'static str> {
    let is_first = |(place, verb): &(usize, &Verb)| {
        VERBS.iter().position(|known| known.operation == verb.operation) == Some(*place)
    };
    VERBS.iter().enumerate().filter(is_first).map(|(_, verb)| verb.operation)
}

/// The members that an operation takes: those of all its verbs, each once.
pub fn members(operation: &str) -> Vec<&'static str> {
    let mut known = Vec::new();
    for verb in VERBS.iter().filter(|verb| verb.operation == operation) {
        let fixed = verb.fixed.iter().map(|(name, _)| *name);
        for name in fixed.chain(verb.fields.iter().map(|field| field.name)) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    known
}
