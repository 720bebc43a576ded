//! JSON text as slices: checked once, looked into where needed, compared, changed and written.
//!
//! ```
//! use tiderace_value::Json;
//!
//! let json = Json::parse(br#"["move", {"x": 1, "who": "a\u0062"}]"#, 16).unwrap();
//! let mut elements = json.elements();
//! assert_eq!(elements.next().unwrap().as_text().unwrap(), "move");
//! let place = elements.next().unwrap();
//! assert_eq!(place.field("who").unwrap().as_text().unwrap(), "ab");
//! assert_eq!(place.field("x").unwrap().as_unsigned(), Some(1));
//! ```
//! A [`Json`] is a borrowed piece of valid JSON (RFC 8259), so looking into it cannot fail and
//! handing it on costs nothing. Checking takes one pass and no memory, whatever the nesting.
//! Names have no meaning here: `__proto__` is a field like any other.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod compare;
mod content;
pub mod edit;
mod items;
mod json;
mod limits;
mod look;
pub mod merge;
mod number;
mod objects;
mod patch;
mod places;
mod pointer;
pub mod scalar;
mod scan;
pub mod schema;
mod tree;
mod write;

pub use compare::{equal, scalar_order};
pub use content::is_binary_content;
pub use edit::EditError;
pub use json::{Json, JsonKind};
pub use limits::{
    Budget, Limits, PATCH_BYTES_MAX, PATCH_OPERATIONS_MAX, POINTER_BYTES_MAX, POINTER_TOKENS_MAX,
};
pub use look::{Elements, Fields};
pub use merge::{MergeDepth, MergeError};
pub use patch::{Patch, PatchError, PatchProblem};
pub use places::resolve_all;
pub use pointer::{Pointer, PointerError, element_index, part, unescaped};
pub use scalar::{BodyError, BodyType};
pub use scan::{DEPTH_MAX, JsonError, JsonProblem};
pub use schema::{Schema, SchemaError};
pub use write::{append_text, append_text_lossy};
