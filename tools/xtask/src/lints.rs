//! The lint configuration of the pure shelves: one text, three places, and every crate under it.
//!
//! Clippy reads only the `clippy.toml` nearest to a crate's manifest, so each shelf carries its own
//! copy of the strict one.

use crate::imports::is_pure;
use crate::manifest::parse;
use crate::{Finding, Tree, crates};

const SHELVES: &[&str] = &["core", "transports", "protocols"];

/// Copies that differ, and crates that are out of the lints' reach.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let first = tree.file("core/clippy.toml").map(|file| &file.text);
    for shelf in SHELVES {
        let path = format!("{shelf}/clippy.toml");
        let text = tree.file(&path).map(|file| &file.text);
        if text.is_none() || text != first {
            let problem = "is missing or differs from core/clippy.toml";
            findings.push(Finding::in_file(&path, problem, "copy core/clippy.toml there"));
        }
    }
    let members = match crates(tree) {
        Ok(members) => members,
        Err(finding) => return vec![finding],
    };
    for member in members {
        let own = format!("{}/clippy.toml", member.folder);
        if is_pure(&member.folder) && tree.contains(&own) {
            let problem = "hides the lints of its shelf";
            findings.push(Finding::in_file(&own, problem, "delete it"));
        }
        let manifest = format!("{}/Cargo.toml", member.folder);
        let inherits = parse(tree, &manifest).is_ok_and(|table| {
            let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
            lints.and_then(toml::Value::as_bool) == Some(true)
        });
        if !inherits {
            let problem = "does not take the lints of the workspace";
            let remedy = "add `[lints]` with `workspace = true`";
            findings.push(Finding::in_file(&manifest, problem, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_copies_and_crates_without_lints_are_found() {
        let lints = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";
        let sound = [
            ("Cargo.toml", "[workspace]\nmembers = [\"core/a\"]\n"),
            ("core/a/Cargo.toml", lints),
            ("core/clippy.toml", "x"),
            ("transports/clippy.toml", "x"),
            ("protocols/clippy.toml", "x"),
        ];
        assert_eq!(check(&Tree::of(&sound)), []);
        for (at, file) in [
            (1, ("core/a/Cargo.toml", "[package]\nname = \"a\"\n")),
            (3, ("transports/clippy.toml", "y")),
            (4, ("core/a/clippy.toml", "x")),
        ] {
            let mut broken = sound;
            if let Some(slot) = broken.get_mut(at) {
                *slot = file;
            }
            assert!(!check(&Tree::of(&broken)).is_empty(), "{file:?}");
        }
    }
}
