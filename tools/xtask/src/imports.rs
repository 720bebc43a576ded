//! The direction of imports: down the layers, never across and never up.
//!
//! Relies on manifests alone; dev-dependencies are free, since tests may use other crates as oracles.

use crate::{Crate, Finding, Tree, crates};

/// One row of the table of allowed imports. The first row that fits a folder holds.
struct Row {
    /// A folder, or a shelf of them: `protocols/*`.
    folder: &'static str,
    /// The folders it may import; `*` for all.
    may: &'static [&'static str],
}

/// Who may import what, from the ground up.
const ROWS: &[Row] = &[
    row("core/base", &[]),
    row("core/expression", &[]),
    row("core/filter", &["core/base"]),
    row("core/topics", &["core/base", "core/expression", "core/filter"]),
    row("core/value", &["core/expression"]),
    row("core/manage", &[]),
    row("core/wire", &["core/base", "core/filter", "core/manage", "core/topics", "core/value"]),
    row("core/queues", &["core/base", "core/filter", "core/topics", "core/wire"]),
    row("core/journal", &["core/base", "core/topics"]),
    row("core/delta", &["core/base"]),
    row("core/views", &["core/base", "core/topics", "core/value"]),
    row(
        "core/broker",
        &[
            "core/base",
            "core/delta",
            "core/filter",
            "core/journal",
            "core/manage",
            "core/queues",
            "core/topics",
            "core/value",
            "core/views",
            "core/wire",
        ],
    ),
    // For tests alone: nothing imports it but as a dev-dependency.
    row("core/testkit", &["core/base", "core/broker", "core/topics", "core/wire"]),
    row("transports/*", &["core/base", "core/wire"]),
    row(
        "protocols/*",
        &[
            "core/base",
            "core/delta",
            "core/filter",
            "core/manage",
            "core/topics",
            "core/value",
            "core/wire",
        ],
    ),
    row(
        "clients/*",
        &["core/base", "core/delta", "core/wire", "protocols/*", "transports/websocket"],
    ),
    row(
        "shell/reactor",
        &[
            "core/base",
            "core/filter",
            "core/topics",
            "core/wire",
            "core/broker",
            "shell/spool",
            "shell/telemetry",
            "transports/*",
        ],
    ),
    row("shell/bodies", &[]),
    row("shell/spool", &["shell/bodies"]),
    row("shell/telemetry", &["core/wire"]),
    row("shell/auth", &["core/base", "core/topics", "core/wire", "core/broker"]),
    row("shell/config", &["core/base", "core/filter", "core/topics", "core/views", "core/wire"]),
    row("shell/store", &["core/base", "shell/bodies"]),
    row("shell/server", &["*"]),
    row("tools/*", &["*"]),
    row("tests/*", &["*"]),
];

/// What crates under `core/`, `transports/` and `protocols/` may take from outside: computation
/// only, nothing that reaches the operating system.
const PURE_EXTERNAL: &[&str] = &[
    "base64",
    "bytes",
    "foldhash",
    "h2",
    "hashbrown",
    "http",
    "httparse",
    "itoa",
    "memchr",
    "regex-automata",
    "regex-syntax",
    "rustls",
    "sha1_smol",
    "simdutf8",
    "thiserror",
    "tokio",
];

/// Every import that goes the wrong way.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let members = match crates(tree) {
        Ok(members) => members,
        Err(finding) => return vec![finding],
    };
    members.iter().flat_map(|member| check_member(member, &members)).collect()
}

/// Whether a path lies in the part of the tree that must not touch the operating system.
pub fn is_pure(path: &str) -> bool {
    ["core/", "transports/", "protocols/"].iter().any(|shelf| path.starts_with(shelf))
}

fn check_member(member: &Crate, members: &[Crate]) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", member.folder);
    let Some(row) = ROWS.iter().find(|row| fits(row.folder, &member.folder)) else {
        return vec![Finding::in_file(
            &manifest,
            "no row of the import table covers this crate",
            "add a row for its folder to ROWS in tools/xtask/src/imports.rs",
        )];
    };
    let mut findings = Vec::new();
    for dependency in &member.dependencies {
        let target = members.iter().find(|other| other.name == dependency.name);
        match target {
            Some(target) if !row.may.iter().any(|may| fits(may, &target.folder)) => {
                findings.push(Finding::in_file(
                    &manifest,
                    format!("{} must not import {}", member.folder, target.folder),
                    "move what is shared down a layer, or pass it in from the shell",
                ));
            }
            None if is_pure(&member.folder)
                && !PURE_EXTERNAL.contains(&dependency.name.as_str()) =>
            {
                findings.push(Finding::in_file(
                    &manifest,
                    format!("a pure crate must not depend on `{}`", dependency.name),
                    "do it in the shell; if the crate only computes, add it to PURE_EXTERNAL in tools/xtask/src/imports.rs",
                ));
            }
            _ => {}
        }
    }
    findings
}

fn fits(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => pattern == folder,
    }
}

const fn row(folder: &'static str, may: &'static [&'static str]) -> Row {
    Row { folder, may }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(folder: &str, dependency: &str) -> Tree {
        let root = "[workspace]\nmembers = [\"core/base\", \"core/broker\", \"protocols/stomp\", \"shell/server\", \"FOLDER\"]\n";
        let package = |name: &str, deps: &str| {
            format!("[package]\nname = \"{name}\"\n[dependencies]\n{deps}\n")
        };
        Tree::of(&[
            ("Cargo.toml", &root.replace("FOLDER", folder)),
            ("core/base/Cargo.toml", &package("base", "")),
            ("core/broker/Cargo.toml", &package("broker", "")),
            ("protocols/stomp/Cargo.toml", &package("stomp", "")),
            ("shell/server/Cargo.toml", &package("server", "stomp.workspace = true")),
            (&format!("{folder}/Cargo.toml"), &package("new", dependency)),
        ])
    }

    #[test]
    fn imports_downward_pass() {
        assert_eq!(check(&tree("protocols/mqtt", "base.workspace = true")), []);
        assert_eq!(check(&tree("protocols/mqtt", "bytes.workspace = true")), []);
    }

    #[test]
    fn imports_across_upward_and_outward_are_found() {
        for (folder, dependency) in [
            ("protocols/mqtt", "stomp"),
            ("protocols/mqtt", "broker"),
            ("protocols/mqtt", "server"),
            ("transports/tls", "stomp"),
            ("core/topics", "broker"),
            ("core/topics", "mio"),
            ("shell/reactor", "server"),
            ("elsewhere", "base"),
        ] {
            let findings = check(&tree(folder, &format!("{dependency}.workspace = true")));
            assert_eq!(findings.len(), 1, "{folder} → {dependency}: {findings:?}");
        }
    }
}
