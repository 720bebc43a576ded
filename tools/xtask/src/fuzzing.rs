//! Every parser of foreign bytes has a fuzz target, every target a corpus, every corpus a replay.

use toml::Value;

use crate::lexis::has_word;
use crate::manifest::parse;
use crate::{Crate, Finding, Tree, crates};

/// Fuzz targets that are missing or not replayed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let members = match crates(tree) {
        Ok(members) => members,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    for member in &members {
        let manifest = format!("{}/fuzz/Cargo.toml", member.folder);
        if !tree.contains(&manifest) {
            if parses_foreign_bytes(&member.folder) {
                findings.push(Finding::in_file(
                    &member.folder,
                    "parses bytes of strangers but has no fuzz target",
                    "add fuzz/ as described in CONTRIBUTING.md",
                ));
            }
            continue;
        }
        match targets(tree, &manifest) {
            Ok(names) if names.is_empty() => findings.push(Finding::in_file(
                &manifest,
                "declares no [[bin]]",
                "declare a fuzz target",
            )),
            Ok(names) => {
                for name in names {
                    findings.extend(check_target(tree, member, &name));
                }
            }
            Err(finding) => findings.push(finding),
        }
    }
    findings
}

fn parses_foreign_bytes(folder: &str) -> bool {
    folder.starts_with("transports/")
        || folder.starts_with("protocols/")
        || matches!(
            folder,
            "core/broker"
                | "core/filter"
                | "core/topics"
                | "core/value"
                | "core/views"
                | "core/wire"
                | "shell/store"
        )
}

fn targets(tree: &Tree, manifest: &str) -> Result<Vec<String>, Finding> {
    let table = parse(tree, manifest)?;
    let bins = table.get("bin").and_then(Value::as_array);
    Ok(bins
        .into_iter()
        .flatten()
        .filter_map(|bin| bin.get("name").and_then(Value::as_str))
        .map(str::to_owned)
        .collect())
}

fn check_target(tree: &Tree, member: &Crate, target: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = &member.folder;
    let corpus = format!("{folder}/fuzz/corpus/{target}");
    if !tree.contains(&corpus) {
        findings.push(Finding::in_file(
            &corpus,
            "the fuzz target has no corpus",
            "commit a small corpus that reaches the interesting branches",
        ));
    }
    let inside = [format!("{folder}/tests/"), format!("{folder}/src/")];
    let texts: Vec<&str> = tree
        .ending(".rs")
        .filter(|file| inside.iter().any(|start| file.path.starts_with(start)))
        .map(|file| file.text.as_str())
        .filter(|text| text.contains("tiderace_corpus::replay"))
        .collect();
    if !texts.iter().any(|text| has_word(text, target)) {
        findings.push(Finding::in_file(
            &format!("{folder}/tests"),
            format!("no test replays fuzz/corpus/{target}"),
            "add a test that runs the target's check over every file of its corpus",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = ("Cargo.toml", "[workspace]\nmembers = [\"protocols/a\"]\n");
    const CRATE: (&str, &str) = ("protocols/a/Cargo.toml", "[package]\nname = \"a\"\n");
    const FUZZ: (&str, &str) = ("protocols/a/fuzz/Cargo.toml", "[[bin]]\nname = \"frame\"\n");
    const CORPUS: (&str, &str) = ("protocols/a/fuzz/corpus/frame/one", "x");
    const REPLAY: (&str, &str) = (
        "protocols/a/tests/corpus.rs",
        "tiderace_corpus::replay(root, &[(\"frame\", check::frame)])",
    );

    #[test]
    fn missing_targets_corpora_and_replays_are_found() {
        for (files, findings) in [
            (&[ROOT, CRATE][..], 1),
            (&[ROOT, CRATE, FUZZ], 2),
            (&[ROOT, CRATE, FUZZ, CORPUS], 1),
            (&[ROOT, CRATE, FUZZ, REPLAY], 1),
            (&[ROOT, CRATE, FUZZ, CORPUS, REPLAY], 0),
        ] {
            let found = check(&Tree::of(files));
            assert_eq!(found.len(), findings, "{found:?}");
        }
    }
}
