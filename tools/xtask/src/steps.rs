//! The life of a message, as ARCHITECTURE.md tells it.
//!
//! Relies on the form of its steps: `` `function` in `file` ``. Invariants: there are no more than `STEPS_MAX` of them,
//! and each names functions that are where it says they are.

use crate::{Finding, Tree};

const STEPS_MAX: usize = 14;
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The life of a message\n";

/// Steps that name no function, or one that is elsewhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| {
        tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    };
    let section = text(PAGE).and_then(|page| page.split_once(HEADING)).map(|(_, rest)| rest);
    let section = section.map(|rest| rest.split_once("\n## ").map_or(rest, |(section, _)| section));
    let Some(section) = section else {
        return vec![Finding::in_file(
            PAGE,
            "does not tell the life of a message",
            "write the section again",
        )];
    };
    let steps = steps(section);
    let mut findings = Vec::new();
    if steps.is_empty() || steps.len() > STEPS_MAX {
        findings.push(Finding::in_file(
            PAGE,
            format!(
                "the life of a message has {} steps; 1 to {STEPS_MAX} are allowed",
                steps.len()
            ),
            "leave out what a reader does not need to know, or make the way shorter",
        ));
    }
    for step in &steps {
        let places = places(step);
        if places.is_empty() {
            findings.push(Finding::in_file(
                PAGE,
                format!("a step names no function: {step}"),
                "write it as `function` in `file`",
            ));
        }
        for (function, file) in places {
            let is_there = text(file).is_some_and(|text| text.contains(&format!("fn {function}(")));
            if !is_there {
                findings.push(Finding::in_file(
                    PAGE,
                    format!("there is no function {function} in {file}"),
                    "say where it is now",
                ));
            }
        }
    }
    findings
}

/// The numbered items, each in one line.
fn steps(section: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in section.lines() {
        let number = line.split_once(". ").filter(|(number, _)| number.parse::<usize>().is_ok());
        if let Some((_, rest)) = number {
            steps.push(rest.to_owned());
        } else if let Some(step) = steps.last_mut() {
            step.push(' ');
            step.push_str(line.trim());
        }
    }
    steps
}

/// Each function that a step names, with its file.
fn places(step: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = step.split('`').collect();
    let triples = parts.windows(3).skip(1).step_by(2);
    triples
        .filter_map(|triple| match triple {
            [function, " in ", file] => Some((*function, *file)),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn findings(page: &str) -> Vec<Finding> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files =
            vec![file(PAGE, page), file("core/a.rs", "pub fn go(&self) {}\nfn stop() {}\n")];
        check(&Tree { files })
    }

    #[test]
    fn functions_that_are_there_are_fine() {
        let page = "## The life of a message\nSo.\n\n1. `go` in `core/a.rs` goes,\n   and `stop` in `core/a.rs` stops.\n\n## Next\n1. `x`\n";
        assert!(findings(page).is_empty());
    }

    #[test]
    fn steps_that_name_nothing_or_what_is_elsewhere_are_found() {
        assert_eq!(findings("## Other\n").len(), 1);
        assert_eq!(findings("## The life of a message\n").len(), 1);
        assert_eq!(findings("## The life of a message\n1. It goes.\n").len(), 1);
        assert_eq!(findings("## The life of a message\n1. `went` in `core/a.rs`.\n").len(), 1);
        assert_eq!(findings("## The life of a message\n1. `go` in `core/b.rs`.\n").len(), 1);
        let many =
            (1..=15).map(|step| format!("{step}. `go` in `core/a.rs`.\n")).collect::<String>();
        assert_eq!(findings(&format!("## The life of a message\n{many}")).len(), 1);
    }
}
