//! A compiled view, and its text in the canonical form.
//!
//! Relies on `parser`. Invariant: what is displayed is read back as an equal view.

use std::fmt;

use tiderace_base::write_span;
use tiderace_topics::{Path, Pattern, Selector};

use crate::error::ViewError;
use crate::limits::VIEW_BYTES_MAX;
use crate::parser;
use crate::parts::{Options, Parts, Step, Throttle};
use crate::pointer::Pointer;
use crate::quote::Quoted;
use crate::template::Part;

/// A view: which topics it follows, and what it makes of each.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) text: Box<str>,
    pub(crate) parts: Parts,
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

    /// The upstream whose topics alone it follows; without one it follows topics wherever they come from.
    pub fn upstream(&self) -> Option<&str> {
        self.parts.upstream.as_deref()
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
        let Parts { sources, upstream, before, to, after, options } = &self.parts;
        write!(f, "map {}", source_text(sources))?;
        if let Some(upstream) = upstream {
            // Two hyphens begin a comment.
            let bare = upstream.chars().all(parser::is_upstream_name) && !upstream.contains("--");
            match bare {
                true => write!(f, " from {upstream}")?,
                false => write!(f, " from {}", Quoted(upstream))?,
            }
        }
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
