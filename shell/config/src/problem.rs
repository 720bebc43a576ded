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
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Origin::Flag(flag) => f.write_str(flag),
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
            Origin::Default => f.write_str(&self.message),
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
            Origin::Default => (3, 0, 0),
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
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl FileText<'_> {
    /// The place where `span` begins.
    pub(crate) fn origin(&self, span: Option<Range<usize>>) -> Origin {
        let offset = span.map_or(0, |span| span.start).min(self.text.len());
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Origin::File { name: self.name.to_owned(), line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_columns() {
        let file = FileText { name: "a.toml", text: "ä = 1\nbé = 2\n" };
        let at = |offset: usize| file.origin(Some(offset..offset)).to_string();
        assert_eq!(at(0), "a.toml:1:1");
        assert_eq!(at(3), "a.toml:1:3");
        assert_eq!(at(7), "a.toml:2:1");
        assert_eq!(at(10), "a.toml:2:3");
        assert_eq!(at(999), "a.toml:3:1");
    }
}
