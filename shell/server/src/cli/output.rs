//! Standard output of commands, which somebody may have closed, and questions to the user of a terminal.
//!
//! Relies on nothing. Invariant: a closed output is told from every other failure, since it is none.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;

/// Standard output was closed, as opposed to a network connection.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct OutputClosed;

/// Tells a closed standard output from every other failure.
pub(super) fn output_error(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    }
}

/// Whether a command ended because its output was closed.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.is::<OutputClosed>()
}

/// A line without what a terminal would obey: clients choose their names.
pub(super) fn printable(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for char in line.chars() {
        if char.is_control() { out.extend(char.escape_default()) } else { out.push(char) }
    }
    out
}

/// Says something beside the output, such as that a connection was lost.
pub(super) fn note(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "tiderace: {}", printable(text));
}

/// Whether the user of a terminal wants it; where there is no terminal, nobody is asked.
pub(super) fn agrees(question: &str) -> anyhow::Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(true);
    }
    let mut terminal = io::stderr();
    let question = format!("{} [y/N] ", printable(question));
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush())?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_output_counts_as_success() {
        assert!(is_broken_pipe(&output_error(io::Error::from(io::ErrorKind::BrokenPipe))));
        assert!(!is_broken_pipe(&output_error(io::Error::from(io::ErrorKind::StorageFull))));
        let network = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(!is_broken_pipe(&network));
    }
}
