//! JSON text as slices: checked once, looked into where needed, and written; never built into trees.
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

mod json;
mod look;
mod objects;
mod scan;
mod write;

pub use json::{Json, JsonKind};
pub use look::{Elements, Fields};
pub use scan::{DEPTH_MAX, JsonError, JsonProblem};
pub use write::{append_text, append_text_lossy};
