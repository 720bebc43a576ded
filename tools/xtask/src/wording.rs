//! No file of the project names one person's machine, or a package source that others cannot reach.

use crate::{Finding, Tree};

/// Absolute folders that exist on one machine only. Written in halves so that this file passes.
const PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/ba", "sh_jobs"),
    concat!("/tmp/tar", "get-"),
    concat!("../sha", "red/"),
    concat!("far", "m-"),
    concat!(".lib", "rary/"),
];

/// Hosts that lock files may name: the public registries.
const REGISTRIES: &[&str] = &[
    "github.com/rust-lang/crates.io-index",
    "registry.npmjs.org",
    "proxy.golang.org",
    "pypi.org",
    "files.pythonhosted.org",
];

const LOCK_FILES: &[&str] = &["Cargo.lock", "package-lock.json", "go.sum", "requirements.txt"];

/// Every such name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = PATHS.iter().find(|path| names(line, path)) {
                findings.push(Finding::at_line(
                    &file.path,
                    index + 1,
                    format!("names `{path}`, which exists on one machine only"),
                    "write a path relative to the repository, or take it from the environment",
                ));
            }
            if LOCK_FILES.contains(&name) && is_foreign_source(line) {
                findings.push(Finding::at_line(
                    &file.path,
                    index + 1,
                    "names a package source that is not a public registry",
                    "write the lock file again with the public registry's address",
                ));
            }
        }
    }
    findings
}

/// Whether the path begins in the line, rather than ending a longer one such as `/usr/…`.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*'))
    })
}

fn is_foreign_source(line: &str) -> bool {
    let is_source = ["source = ", "\"resolved\"", "--index-url", "replace "]
        .iter()
        .any(|word| line.contains(word));
    let Some((_, address)) = line.split_once("://") else {
        return false;
    };
    is_source && !REGISTRIES.iter().any(|known| address.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_and_private_sources_are_found() {
        let home = concat!("see /ho", "me/me/x");
        let inner = concat!("docs/ho", "me/x and example.org/wo", "rk/y");
        for (path, text, findings) in [
            ("a.md", home, 1),
            ("a.md", inner, 0),
            ("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"", 0),
            ("Cargo.lock", "source = \"registry+https://mirror.example/index\"", 1),
            ("x/package-lock.json", "\"resolved\": \"http://localhost:4873/ws.tgz\"", 1),
        ] {
            let found = check(&Tree::of(&[(path, text)]));
            assert_eq!(found.len(), findings, "{path} {text}: {found:?}");
        }
    }
}
