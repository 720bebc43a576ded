//! What is worth knowing about the shape of the sources but no reason to fail.

use std::fmt::Write as _;

use crate::Tree;
use crate::lexis::{code, functions};
use crate::shape::{FUNCTION_LINES_MAX, median_lines, sources};

/// Counts, the median length, the longest files and the functions that are too long.
pub fn report(tree: &Tree) -> String {
    let mut lengths: Vec<(usize, &str)> =
        sources(tree).map(|file| (file.text.lines().count(), file.path.as_str())).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = lengths.iter().map(|(lines, _)| lines).sum();
    let mut text =
        format!("{} Rust files, {total} lines, median {}\n", lengths.len(), median_lines(tree));
    for (lines, path) in lengths.iter().take(5) {
        let _ = writeln!(text, "  {lines:>4} lines  {path}");
    }
    let long = long_functions(tree);
    let _ = writeln!(text, "{} functions over {FUNCTION_LINES_MAX} lines", long.len());
    for line in long {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn long_functions(tree: &Tree) -> Vec<String> {
    let mut long = Vec::new();
    for file in sources(tree) {
        for function in functions(&code(&file.text)) {
            if function.lines > FUNCTION_LINES_MAX {
                let (name, lines) = (function.name, function.lines);
                long.push(format!("{}:{} {name}: {lines} lines", file.path, function.line));
            }
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_functions_are_named() {
        let text = format!("fn long() {{{}}}\nfn short() {{}}", "\n".repeat(FUNCTION_LINES_MAX));
        let report = report(&Tree::of(&[("a/src/x.rs", &text)]));
        assert!(report.contains("a/src/x.rs:1 long: 71 lines"), "{report}");
        assert!(report.contains("1 functions over 70"), "{report}");
    }
}
