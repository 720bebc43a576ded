//! Where a setting came from, and what is wrong with it.
//!
//! Relies on nothing. Invariant: a problem is one line that says where, what, and what to do.

use std::fmt;
use std::ops::Range;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the built-in default holds.
    Default,
    /// In this environment variable.
    Environment(String),
    /// In the file, at this line and column (both from 1, columns in characters).
    File {
        /// Name of the file as it was given.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// By this flag, as typed.
    Flag(String),
    /// Put while the server ran.
    Put,
}

impl Origin {
    /// What kind of place it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Environment(_) => "environment",
            Origin::File { .. } => "file",
            Origin::Flag(_) => "command-line",
            Origin::Put => "put",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Origin::Flag(flag) => f.write_str(flag),
            Origin::Put => f.write_str("put at run time"),
        }
    }
}

/// One thing that is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; [`Origin::Default`] for what concerns the configuration as a whole.
    pub origin: Origin,
    /// What is wrong and what to do, in one sentence.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default | Origin::Put => f.write_str(&self.message),
            origin => write!(f, "{origin}: {}", self.message),
        }
    }
}

/// Everything that is wrong with the configuration; never empty when returned as an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, origin: Origin, message: impl Into<String>) {
        self.0.push(Problem { origin, message: message.into() });
    }

    /// In the order of the file, so that they can be mended from top to bottom.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|problem| match &problem.origin {
            Origin::File { line, column, .. } => (0, *line, *column),
            Origin::Environment(_) => (1, 0, 0),
            Origin::Flag(_) => (2, 0, 0),
            Origin::Default | Origin::Put => (3, 0, 0),
        });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// The file as text, for turning byte offsets into lines and columns.
pub(crate) struct FileText<'a> {
    name: &'a str,
    pub(crate) text: &'a str,
    /// Where each line begins: every key asks for its own, and there may be very many.
    lines: Vec<usize>,
}

impl<'a> FileText<'a> {
    /// A file of that name.
    pub(crate) fn new(name: &'a str, text: &'a str) -> FileText<'a> {
        let behind = text.match_indices('\n').map(|(newline, _)| newline + 1);
        FileText { name, text, lines: std::iter::once(0).chain(behind).collect() }
    }

    /// The place where `span` begins.
    pub(crate) fn origin(&self, span: Option<Range<usize>>) -> Origin {
        let offset = span.map_or(0, |span| span.start).min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).unwrap_or_default().chars().count() + 1;
        Origin::File { name: self.name.to_owned(), line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_columns() {
        let file = FileText::new("a.toml", "ä = 1\nbé = 2\n");
        let at = |offset: usize| file.origin(Some(offset..offset)).to_string();
        assert_eq!(at(0), "a.toml:1:1");
        assert_eq!(at(3), "a.toml:1:3");
        assert_eq!(at(7), "a.toml:2:1");
        assert_eq!(at(10), "a.toml:2:3");
        assert_eq!(at(999), "a.toml:3:1");
        assert_eq!(FileText::new("a.toml", "").origin(None).to_string(), "a.toml:1:1");
    }
}
