//! Examples in documentation are compiled and run.
//!
//! A library without examples says `doctest = false`, which saves a run of rustdoc; one that has some
//! may not say so.

use toml::Value;

use crate::manifest::parse;
use crate::{Finding, Tree, crates};

const FENCE: &str = "```";
/// The words behind a fence that leave its code an example in Rust; any other makes it mere text.
const RUST: &[&str] =
    &["rust", "no_run", "should_panic", "compile_fail", "ignore", "edition2021", "edition2024"];

/// Examples of libraries that run none.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let members = match crates(tree) {
        Ok(members) => members,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    for member in members {
        let runs = parse(tree, &format!("{}/Cargo.toml", member.folder)).is_ok_and(|manifest| {
            let wish = manifest.get("lib").and_then(|lib| lib.get("doctest"));
            wish.and_then(Value::as_bool) != Some(false)
        });
        if runs {
            continue;
        }
        let sources = format!("{}/src/", member.folder);
        for file in tree.ending(".rs").filter(|file| file.path.starts_with(&sources)) {
            findings.extend(examples(&file.text).into_iter().map(|line| {
                let problem = "is an example that nobody runs";
                let remedy = "delete `doctest = false` in the manifest, or mark the text as `text`";
                Finding::at_line(&file.path, line, problem, remedy)
            }));
        }
    }
    findings
}

/// The lines where examples in Rust begin, and pages that are taken in and may have some.
fn examples(text: &str) -> Vec<usize> {
    let (mut found, mut inside) = (Vec::new(), false);
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let Some(said) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            if line.starts_with("#[doc = include_str!") || line.starts_with("#![doc = include_str!")
            {
                found.push(index + 1);
            }
            continue;
        };
        let Some(words) = said.trim_start().strip_prefix(FENCE) else {
            continue;
        };
        inside = !inside;
        let mut words = words.split([' ', ',']).filter(|word| !word.is_empty());
        if inside && words.all(|word| RUST.contains(&word)) {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_told_from_text() {
        for (text, lines) in [
            ("//! ```\n//! a();\n//! ```\nfn a() {}", vec![1]),
            ("//! ```text\n//! a\n//! ```\n//!\n//! ```no_run\n//! a();\n//! ```", vec![5]),
            ("    /// ```rust,should_panic\n    /// a();\n    /// ```", vec![1]),
            ("/// ```json\n/// {}\n/// ```\n// ```\nlet a = \"```\";", vec![]),
            ("#![doc = include_str!(\"../README.md\")]", vec![1]),
        ] {
            assert_eq!(examples(text), lines, "{text}");
        }
    }

    #[test]
    fn examples_that_nobody_runs_are_found() {
        let root = ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
        let example = ("a/src/x.rs", "/// ```\n/// a();\n/// ```\nfn a() {}");
        for (manifest, findings) in [
            ("[package]\nname = \"a\"\n[lib]\ndoctest = false\n", 1),
            ("[package]\nname = \"a\"\n[lib]\ndoctest = true\n", 0),
            ("[package]\nname = \"a\"\n", 0),
        ] {
            let found = check(&Tree::of(&[root, ("a/Cargo.toml", manifest), example]));
            assert_eq!(found.len(), findings, "{manifest}: {found:?}");
        }
    }
}
