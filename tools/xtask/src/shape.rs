//! The shape of source files: length, opening words, and that somebody knows them.

use crate::lexis::code;
use crate::{File, Finding, Tree};

/// Lines of one Rust file.
pub const FILE_LINES_MAX: usize = 600;
/// Lines of the middle Rust file: half are shorter.
pub const MEDIAN_LINES_MAX: usize = 200;
/// Lines of one function beyond which [`crate::report`] names it.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Files that are too long, and a median that is.
pub fn check_lengths(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = sources(tree)
        .filter(|file| file.text.lines().count() > FILE_LINES_MAX)
        .map(|file| {
            let lines = file.text.lines().count();
            Finding::in_file(
                &file.path,
                format!("{lines} lines; at most {FILE_LINES_MAX} are allowed"),
                "split it by purpose; there are no exceptions",
            )
        })
        .collect();
    let median = median_lines(tree);
    if median > MEDIAN_LINES_MAX {
        findings.push(Finding::in_file(
            "*.rs",
            format!("the median file has {median} lines; at most {MEDIAN_LINES_MAX} are allowed"),
            "split files that have two purposes",
        ));
    }
    findings
}

/// Files that do not open with `//!`.
pub fn check_openings(tree: &Tree) -> Vec<Finding> {
    sources(tree)
        .filter(|file| file.path.contains("/src/") && !is_test_file(tree, &file.path))
        .filter(|file| !file.text.trim_start().starts_with("//!"))
        .map(|file| {
            Finding::in_file(
                &file.path,
                "does not open with `//!`",
                "say in one sentence what the module is, what it relies on and the invariant it keeps",
            )
        })
        .collect()
}

/// Files under `src/` that no module declares.
pub fn check_orphans(tree: &Tree) -> Vec<Finding> {
    sources(tree)
        .filter(|file| is_orphan(tree, file) || is_lost_test(tree, file))
        .map(|file| {
            Finding::in_file(
                &file.path,
                "no module declares this file, so it is never compiled",
                "declare it with `mod`, or delete it",
            )
        })
        .collect()
}

/// The lines of the middle Rust file.
pub fn median_lines(tree: &Tree) -> usize {
    let mut lines: Vec<usize> = sources(tree).map(|file| file.text.lines().count()).collect();
    lines.sort_unstable();
    lines.get(lines.len() / 2).copied().unwrap_or(0)
}

/// The Rust files.
pub fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.ending(".rs")
}

/// Whether the whole file is test code: it lies in a folder of tests, benches or fuzz targets, or its
/// parent declares it under `#[cfg(test)]`.
pub fn is_test_file(tree: &Tree, path: &str) -> bool {
    let folders = ["tests", "benches", "fuzz", "examples"];
    if path.split('/').any(|part| folders.contains(&part)) || path.ends_with("/tests.rs") {
        return true;
    }
    let Some((name, parents)) = module(path) else {
        return false;
    };
    parents
        .iter()
        .filter_map(|parent| tree.file(parent))
        .any(|parent| declares_for_tests(&code(&parent.text), name))
}

fn is_orphan(tree: &Tree, file: &File) -> bool {
    let Some((name, parents)) = module(&file.path) else {
        return false;
    };
    !parents.iter().filter_map(|parent| tree.file(parent)).any(|parent| {
        let code = code(&parent.text);
        let declared = format!("mod {name};");
        code.contains(&declared) || code.contains(&format!("mod {name} "))
    })
}

/// Whether a crate has its tests in one program, `tests/all.rs`, and this file of them is neither a
/// module of a program that the manifest names nor one itself.
fn is_lost_test(tree: &Tree, file: &File) -> bool {
    let Some((home, name)) = file.path.rsplit_once("/tests/") else {
        return false;
    };
    let Some(name) = name.strip_suffix(".rs").filter(|name| !name.contains('/')) else {
        return false;
    };
    if tree.file(&format!("{home}/tests/all.rs")).is_none() {
        return false;
    }
    let manifest = tree.file(&format!("{home}/Cargo.toml")).map_or("", |manifest| &manifest.text);
    let declared = format!("mod {name};");
    let mut programs = manifest.lines().filter_map(|line| {
        line.strip_prefix("path = \"tests/").and_then(|rest| rest.strip_suffix(".rs\""))
    });
    !programs.any(|program| {
        let file = tree.file(&format!("{home}/tests/{program}.rs"));
        program == name || file.is_some_and(|file| code(&file.text).contains(&declared))
    })
}

fn declares_for_tests(code: &str, name: &str) -> bool {
    let declared = format!("mod {name};");
    let mut marked = false;
    for line in code.lines().map(str::trim) {
        if marked && line.ends_with(&declared) {
            return true;
        }
        marked = line.starts_with("#[cfg(test)]") || (marked && line.starts_with("#["));
    }
    false
}

/// A module's name and the files that may declare it; `None` for the roots of crates and for files
/// outside `src/`.
fn module(path: &str) -> Option<(&str, Vec<String>)> {
    let (folder, file) = path.rsplit_once('/')?;
    let stem = file.strip_suffix(".rs")?;
    let inside = folder.split('/').any(|part| part == "src");
    if !inside || folder.ends_with("/bin") {
        return None;
    }
    let (name, home) = if stem == "mod" {
        let (above, name) = folder.rsplit_once('/')?;
        (name, above)
    } else if folder.ends_with("/src") && (stem == "lib" || stem == "main") {
        return None;
    } else {
        (stem, folder)
    };
    let mut parents: Vec<String> =
        ["lib", "main", "mod"].iter().map(|root| format!("{home}/{root}.rs")).collect();
    parents.push(format!("{home}.rs"));
    Some((name, parents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let long = "\n".repeat(FILE_LINES_MAX + 1);
        let fine = "\n".repeat(MEDIAN_LINES_MAX);
        let tree = Tree::of(&[("a/src/x.rs", &long), ("a/src/y.rs", &fine), ("a/src/z.rs", &fine)]);
        assert_eq!(check_lengths(&tree).len(), 1);
        let tree = Tree::of(&[("a/src/x.rs", &"\n".repeat(MEDIAN_LINES_MAX + 1))]);
        assert_eq!(check_lengths(&tree).len(), 1);
    }

    #[test]
    fn silent_openings_are_found() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "//! What it is.\n#[cfg(test)]\nmod laws;\nmod x;"),
            ("a/src/laws.rs", "use super::*;"),
            ("a/src/x.rs", "use super::*;"),
            ("a/tests/y.rs", "use super::*;"),
        ]);
        let found: Vec<_> = check_openings(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(found, ["a/src/x.rs"]);
    }

    #[test]
    fn orphans_are_found() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "mod x;\npub mod y;"),
            ("a/src/x.rs", ""),
            ("a/src/y/mod.rs", "// mod gone;\nmod z;"),
            ("a/src/y/z.rs", ""),
            ("a/src/y/gone.rs", ""),
            ("a/src/bin/tool.rs", ""),
        ]);
        let found: Vec<_> = check_orphans(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(found, ["a/src/y/gone.rs"]);
    }
    #[test]
    fn tests_that_are_left_out_are_found() {
        let tree = Tree::of(&[
            (
                "a/Cargo.toml",
                "[[test]]\npath = \"tests/all.rs\"\n[[test]]\npath = \"tests/alone.rs\"",
            ),
            ("a/tests/beside.rs", ""),
            ("a/tests/all.rs", "mod x;\nmod support;\n// mod gone;"),
            ("a/tests/x.rs", ""),
            ("a/tests/alone.rs", "mod beside;"),
            ("a/tests/gone.rs", ""),
            ("a/tests/support/mod.rs", ""),
            ("b/tests/x.rs", ""),
        ]);
        let found: Vec<_> = check_orphans(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(found, ["a/tests/gone.rs"]);
    }
}
