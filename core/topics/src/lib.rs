//! Paths, wildcard patterns, the subscription index, and names in the order of a tree.
//!
//! A path names a destination (`fx/EUR-USD`), a pattern names many (`fx/*`, `fx/**`,
//! `?fx/[A-Z]{3}-USD`), a selector is a pattern or a set of several (`[fx/*, news/**]`). All are
//! parsed once, at the edge, and are canonical afterwards: every protocol's own spelling maps to
//! them and back, and authorisation sees nothing else.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod below;
mod globs;
mod index;
mod level;
mod own;
mod path;
mod pattern;
mod placeholder;
mod regex;
mod selector;
mod table;
mod tree;

pub use below::as_expression;
pub use index::PatternIndex;
pub use level::Level;
pub use path::{Path, PathError};
pub use pattern::Pattern;
pub use placeholder::{Placeholder, UnknownPlaceholder};
pub use regex::Regex;
pub use selector::{Selector, SelectorError};
pub use tiderace_expression::work_bytes as compiled_bytes;
pub use tree::{Tree, is_at_or_below, order};
