//! What a check has found: where, what is wrong, what to do.

use std::fmt;

/// One thing out of order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A file, with a line if there is one: `core/base/src/id.rs:12`.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
    /// What puts it right.
    pub remedy: &'static str,
}

impl Finding {
    /// A finding about a whole file.
    pub fn in_file(path: &str, problem: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { place: path.to_owned(), problem: problem.into(), remedy }
    }

    /// A finding about one line, counted from 1.
    pub fn at_line(
        path: &str,
        line: usize,
        problem: impl Into<String>,
        remedy: &'static str,
    ) -> Finding {
        Finding::in_file(&format!("{path}:{line}"), problem, remedy)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    → {}", self.place, self.problem, self.remedy)
    }
}

/// Turns findings into the result of a test.
///
/// # Errors
/// All findings, one below the other, if there are any.
pub fn verdict(findings: &[Finding]) -> Result<(), String> {
    if findings.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Err(format!("{} out of order:\n{}", findings.len(), lines.join("\n")))
}
