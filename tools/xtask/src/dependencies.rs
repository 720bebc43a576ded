//! Every dependency has its reason in `docs/dependencies.md`, one version for all, and a user.

use crate::manifest::workspace_dependencies;
use crate::{Crate, Finding, Tree, crates};

/// The page that justifies dependencies.
pub const PAGE: &str = "docs/dependencies.md";

/// Dependencies without a reason, reasons without a dependency, versions set apart, and unused ones.
pub fn check(tree: &Tree) -> Vec<Finding> {
    match (workspace_dependencies(tree), crates(tree)) {
        (Ok(listed), Ok(members)) => {
            let mut findings = check_page(tree, &listed);
            findings.extend(check_members(&listed, &members));
            findings
        }
        (listed, members) => listed.err().into_iter().chain(members.err()).collect(),
    }
}

fn check_page(tree: &Tree, listed: &[(String, bool)]) -> Vec<Finding> {
    let page = tree.file(PAGE).map_or("", |file| file.text.as_str());
    let rows: Vec<(usize, &str)> = page
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let name = line.strip_prefix("| `")?.split_once('`')?.0;
            Some((index + 1, name))
        })
        .collect();
    let external = listed.iter().filter(|(_, inside)| !inside);
    let mut findings: Vec<Finding> = external
        .filter(|(name, _)| !rows.iter().any(|(_, row)| row == name))
        .map(|(name, _)| {
            let problem = format!("has no row for `{name}`");
            Finding::in_file(PAGE, problem, "say in one line why the dependency is worth having")
        })
        .collect();
    for (line, row) in rows {
        if !listed.iter().any(|(name, _)| name == row) {
            let problem = format!("`{row}` is not in [workspace.dependencies]");
            findings.push(Finding::at_line(PAGE, line, problem, "delete the row"));
        }
    }
    findings
}

fn check_members(listed: &[(String, bool)], members: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let all = |member: &Crate| {
        let mut both = member.dependencies.clone();
        both.extend(member.dev_dependencies.iter().cloned());
        both
    };
    for member in members {
        for dependency in all(member).iter().filter(|d| !d.from_workspace) {
            findings.push(Finding::in_file(
                &format!("{}/Cargo.toml", member.folder),
                format!("sets the version of `{}` itself", dependency.name),
                "list it in [workspace.dependencies] and write `workspace = true`",
            ));
        }
    }
    for (name, _) in listed {
        let used = members.iter().any(|member| all(member).iter().any(|d| d.name == *name));
        if !used {
            let problem = format!("nobody uses the dependency `{name}`");
            let remedy = "delete it from [workspace.dependencies] and from docs/dependencies.md";
            findings.push(Finding::in_file("Cargo.toml", problem, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(root: &str, member: &str, page: &str) -> usize {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                &format!("[workspace]\nmembers = [\"a\"]\n[workspace.dependencies]\n{root}"),
            ),
            ("a/Cargo.toml", &format!("[package]\nname = \"a\"\n[dependencies]\n{member}")),
            (PAGE, page),
        ]);
        check(&tree).len()
    }

    #[test]
    fn unexplained_unused_and_private_dependencies_are_found() {
        let row = "| `x` | because |\n";
        assert_eq!(findings("x = \"1\"", "x.workspace = true", row), 0);
        assert_eq!(findings("x = \"1\"", "x.workspace = true", ""), 1);
        assert_eq!(findings("", "", row), 1);
        assert_eq!(findings("x = \"1\"", "", row), 1);
        assert_eq!(findings("x = \"1\"", "x = \"2\"", row), 1);
    }
}
