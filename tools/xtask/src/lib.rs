//! Keeps the house in order: checks over manifests, sources and documents, and generated pages.
//!
//! Each check is a function from a [`Tree`] to [`Finding`]s, so that it can be tried on made-up
//! trees; `tests/house.rs` runs all of them over the real one. Relies on the file system alone and
//! changes nothing but the pages of [`generated::PAGES`].

mod alarm_table;
pub mod anatomy;
pub mod circles;
pub mod codes;
pub mod dependencies;
pub mod discipline;
pub mod examples;
mod finding;
pub mod fuzzing;
pub mod generated;
pub mod imports;
pub mod lexis;
pub mod links;
pub mod lints;
mod manifest;
mod monitoring;
pub mod purity;
pub mod report;
pub mod rooms;
pub mod shape;
pub mod sides;
pub mod steps;
mod tree;
pub mod vocabulary;
pub mod wording;

pub use finding::{Finding, verdict};
pub use manifest::{Crate, crates};
pub use tree::{File, Tree};
