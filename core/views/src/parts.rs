//! What a view consists of: its sources, its steps, its template, its options.
//!
//! Invariant: a view that has been read is these parts and nothing else; reading and displaying it
//! stand in files of their own.

use tiderace_topics::Selector;

use crate::expression::Expression;
use crate::patch::Patch;
use crate::pointer::Pointer;
use crate::template::Template;

/// What a view consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    pub(crate) sources: Selector,
    /// The upstream whose topics alone it follows.
    pub(crate) upstream: Option<Box<str>>,
    /// Steps on the source's value.
    pub(crate) before: Vec<Step>,
    pub(crate) to: Template,
    /// Steps on each output's value.
    pub(crate) after: Vec<Step>,
    pub(crate) options: Options,
}

/// One thing done to a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Where(Expression),
    Set(Vec<(Pointer, Expression)>),
    Remove(Vec<Pointer>),
    Insert(Box<Insert>),
    Patch(Patch),
    As(Expression),
}

/// A value of another topic that is put in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) topic: Template,
    pub(crate) from: Pointer,
    pub(crate) at: Pointer,
    pub(crate) otherwise: Option<Expression>,
}

/// How the outputs of a view are published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Values of several sources of one output are merged.
    pub merge: bool,
    /// At most so many values of an output in a window; the newest of them counts.
    pub throttle: Option<Throttle>,
    /// Milliseconds by which outputs are behind their sources.
    pub delay_ms: Option<u64>,
    /// The type of the outputs' values.
    pub kind: Option<OutputType>,
    /// Outputs stay when their sources no longer give them.
    pub preserve: bool,
    /// Properties of the outputs, by name.
    pub properties: Vec<(Box<str>, Box<str>)>,
}

/// How often an output may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Values in a window.
    pub updates: u32,
    /// Milliseconds of a window.
    pub window_ms: u64,
}

/// The type of an output's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputType {
    /// JSON.
    Json,
    /// Text: a text without its quotes, anything else as JSON writes it.
    String,
    /// Bytes: those of the text.
    Binary,
    /// A whole number; what is none gives no output.
    Int64,
    /// A number; what is none gives no output.
    Double,
    /// Events of JSON.
    TimeSeries,
}

impl OutputType {
    /// All of them.
    pub const ALL: [OutputType; 6] = [
        OutputType::Json,
        OutputType::String,
        OutputType::Binary,
        OutputType::Int64,
        OutputType::Double,
        OutputType::TimeSeries,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            OutputType::Json => "json",
            OutputType::String => "string",
            OutputType::Binary => "binary",
            OutputType::Int64 => "int64",
            OutputType::Double => "double",
            OutputType::TimeSeries => "timeseries",
        }
    }
}
