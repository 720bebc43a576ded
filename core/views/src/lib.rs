//! Topic views: a small language that maps topics to other topics, and follows them.
//!
//! ```
//! use tiderace_topics::Path;
//! use tiderace_views::{Form, Limits, Source, View};
//!
//! let view = View::parse(
//!     r#"map sales/* to by-region/<scalar(/region)>/<path(1)> where /amount > 100
//!        set /total = /amount * /price remove /secret throttle 5 per 1s"#,
//! )
//! .unwrap();
//! let path = Path::parse("sales/7").unwrap();
//! let value = br#"{"region":"eu","amount":200,"price":3,"secret":1}"#;
//! let source = Source { path: &path, value: Some(value), form: Form::Json };
//! let made = view.outputs(source, &|_| None, Limits::default());
//! let (path, value) = made.outputs.iter().next().unwrap();
//! assert_eq!(path.as_str(), "by-region/eu/7");
//! assert_eq!(value, br#"{"region":"eu","amount":200,"price":3,"total":600}"#);
//! ```
//! A [`View`] is read once; errors show the place. [`View::outputs`] says what becomes of one source
//! and is a function of its arguments: no clock, no state. The code that runs views publishes what it
//! says, takes back what it no longer says, and keeps to [`View::options`]. Every evaluation is
//! bounded by [`Limits`]. The language is described in `docs/views.md`, whose examples are tests.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod budget;
mod call;
mod cursor;
mod error;
mod evaluate;
mod expression;
mod expressions;
mod function;
mod levels;
pub mod limits;
mod merge;
mod number;
mod outputs;
mod parser;
mod parts;
mod patch;
mod pointer;
mod quote;
mod template;
mod texts;
mod value;
mod view;

pub use budget::Stop;
pub use error::{Problem, ViewError};
pub use limits::Limits;
pub use merge::merge;
pub use outputs::{Evaluation, Form, Source};
pub use parts::{Options, OutputType, Throttle};
pub use view::View;
