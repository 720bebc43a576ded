//! SQL-92 message selectors, as JMS defines them and as STOMP's `selector` header uses them.
//!
//! A selector is parsed once, when a subscription is made, into a compiled expression, and then
//! evaluated against every message. The crate relies on nothing but `alloc` types: no I/O, no
//! clock, no regular expressions.
//!
//! Invariants it keeps:
//! - No text makes [`Selector::parse`] panic or recurse deeper than [`DEPTH_MAX`] allows.
//! - [`Selector::matches`] ends after a bounded number of steps whatever the message holds, and
//!   allocates nothing unless the [`Properties`] do.
//!
//! ```
//! use std::borrow::Cow;
//! use tiderace_filter::{Properties, Selector, Value};
//!
//! struct Headers;
//! impl Properties for Headers {
//!     fn property(&self, name: &str) -> Option<Value<'_>> {
//!         (name == "x-price").then(|| Value::String(Cow::Borrowed("12.50")))
//!     }
//! }
//!
//! let selector = Selector::parse("x-price BETWEEN 10 AND 20 AND colour IS NULL").unwrap();
//! assert!(selector.matches(&Headers));
//!
//! let error = Selector::parse("x-price >").unwrap_err();
//! assert_eq!((error.at, error.code()), (9, "selector-unexpected-end"));
//! ```
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod compiled;
mod error;
mod evaluate;
mod lexer;
mod like;
mod limits;
mod parsed;
mod parser;
mod predicate;
mod relation;
mod selector;
mod value;

pub use error::{Problem, SelectorError};
pub use limits::{
    CHOICES_MAX, DEPTH_MAX, LIKE_STEPS_MAX, LIKE_VALUE_BYTES_MAX, NODES_MAX, NUMBER_TEXT_BYTES_MAX,
    TEXT_BYTES_MAX,
};
pub use selector::Selector;
pub use value::{Properties, Value};
