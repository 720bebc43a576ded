//! A compiled view, and its text in the canonical form.
//!
//! Relies on `parser`. Invariant: what is displayed is read back as an equal view.

use std::fmt;

use tiderace_base::write_span;
use tiderace_topics::{Path, Pattern, Selector};

use crate::error::ViewError;
use crate::expression::Expression;
use crate::limits::VIEW_BYTES_MAX;
use crate::parser;
use crate::patch::Patch;
use crate::pointer::Pointer;
use crate::quote::Quoted;
use crate::template::{Part, Template};

/// A view: which topics it follows, and what it makes of each.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) text: Box<str>,
    pub(crate) parts: Parts,
}

/// What a view consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    pub(crate) sources: Selector,
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

impl View {
    /// Reads a view.
    ///
    /// # Errors
    /// Says what is wrong, what was expected and where; its text shows the place.
    pub fn parse(text: &str) -> Result<View, ViewError> {
        if text.len() > VIEW_BYTES_MAX {
            let what = "bytes in a view";
            let problem = crate::Problem::TooMany { what, max: VIEW_BYTES_MAX };
            return Err(problem.at(text, VIEW_BYTES_MAX));
        }
        Ok(View { text: text.trim().into(), parts: parser::parse(text)? })
    }

    /// The text it was read from; its `Display` gives its canonical form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Which topics it follows.
    pub fn sources(&self) -> &[Pattern] {
        self.parts.sources.patterns()
    }

    /// Whether it follows a topic.
    pub fn follows(&self, path: &Path) -> bool {
        self.sources().iter().any(|pattern| pattern.matches(path))
    }

    /// How its outputs are published.
    pub fn options(&self) -> &Options {
        &self.parts.options
    }

    /// Whether it puts values of other topics in, so that it has to follow them, too.
    pub fn inserts(&self) -> bool {
        self.steps().any(|step| matches!(step, Step::Insert(_)))
    }

    /// Whether values pass as they are, whatever bytes they have.
    pub fn is_transparent(&self) -> bool {
        let options = self.options();
        self.steps().next().is_none()
            && !self.parts.to.looks_at_value()
            && !options.merge
            && options.kind.is_none()
    }

    /// Whether one source may become several topics.
    pub fn expands(&self) -> bool {
        self.parts.to.0.iter().any(|part| matches!(part, Part::Expand(..)))
    }

    /// The topic it makes of every source, if that is one and the same for all.
    pub fn single_output(&self) -> Option<Path> {
        match self.parts.to.0.as_slice() {
            [Part::Text(text)] => Path::parse(text).ok(),
            _ => None,
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.before.iter().chain(&self.parts.after)
    }
}

impl PartialEq for View {
    /// Equal if they do the same in the same way, however they are written.
    fn eq(&self, other: &View) -> bool {
        self.parts == other.parts
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { sources, before, to, after, options } = &self.parts;
        write!(f, "map {}", source_text(sources))?;
        before.iter().try_for_each(|step| write!(f, " {step}"))?;
        write!(f, " to {to}")?;
        after.iter().try_for_each(|step| write!(f, " {step}"))?;
        options.fmt(f)
    }
}

/// A selector, in quotes where it would be read as something else.
fn source_text(sources: &Selector) -> String {
    let text = sources.to_string();
    if text.starts_with("--")
        || text.starts_with('"')
        || parser::selector_bytes(&text) != text.len()
    {
        return Quoted(&text).to_string();
    }
    text
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Where(condition) => write!(f, "where {condition}"),
            Step::Set(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(at, value)| format!("{at} = {value}")).collect();
                write!(f, "set {}", fields.join(", "))
            }
            Step::Remove(pointers) => {
                let pointers: Vec<String> = pointers.iter().map(Pointer::to_string).collect();
                write!(f, "remove {}", pointers.join(", "))
            }
            Step::Insert(insert) => {
                write!(f, "insert {}", insert.topic)?;
                if !insert.from.0.is_empty() {
                    write!(f, " {}", insert.from)?;
                }
                write!(f, " at {}", insert.at)?;
                match &insert.otherwise {
                    Some(otherwise) => write!(f, " or {otherwise}"),
                    None => Ok(()),
                }
            }
            Step::Patch(patch) => write!(f, "patch {}", patch.text()),
            Step::As(expression) => write!(f, "as {expression}"),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.merge {
            f.write_str(" merge")?;
        }
        if let Some(Throttle { updates, window_ms }) = self.throttle {
            write!(f, " throttle {updates} per {}", write_span(window_ms))?;
        }
        if let Some(delay_ms) = self.delay_ms {
            write!(f, " delay {}", write_span(delay_ms))?;
        }
        if let Some(kind) = self.kind {
            write!(f, " type {}", kind.name())?;
        }
        if self.preserve {
            f.write_str(" preserve")?;
        }
        for (number, (name, value)) in self.properties.iter().enumerate() {
            let before = if number == 0 { " with" } else { "," };
            let bare = !value.is_empty() && value.chars().all(parser::is_bare_property);
            if bare {
                write!(f, "{before} {name} = {value}")?;
            } else {
                write!(f, "{before} {name} = {}", Quoted(value))?;
            }
        }
        Ok(())
    }
}
