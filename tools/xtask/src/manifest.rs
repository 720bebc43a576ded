//! The crates of the workspace as their manifests describe them.

use toml::{Table, Value};

use crate::{Finding, Tree};

/// One member of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crate {
    /// Its package name.
    pub name: String,
    /// Its folder from the root, such as `core/base`.
    pub folder: String,
    /// What its library or program needs, build scripts included.
    pub dependencies: Vec<Dependency>,
    /// What only its tests and benchmarks need.
    pub dev_dependencies: Vec<Dependency>,
}

/// One line of a dependency table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the package depended on.
    pub name: String,
    /// Whether version and features come from the workspace.
    pub from_workspace: bool,
}

/// Reads the members named in the root manifest.
///
/// # Errors
/// A finding when a manifest is missing or malformed.
pub fn crates(tree: &Tree) -> Result<Vec<Crate>, Finding> {
    let root = parse(tree, "Cargo.toml")?;
    let members = root
        .get("workspace")
        .and_then(|workspace| workspace.get("members"))
        .and_then(Value::as_array)
        .ok_or_else(|| {
            Finding::in_file(
                "Cargo.toml",
                "has no list `workspace.members`",
                "name every crate there",
            )
        })?;
    members.iter().filter_map(Value::as_str).map(|folder| member(tree, folder)).collect()
}

/// The table `[workspace.dependencies]`: name and whether it is a crate of this repository.
///
/// # Errors
/// A finding when the root manifest is missing or malformed.
pub(crate) fn workspace_dependencies(tree: &Tree) -> Result<Vec<(String, bool)>, Finding> {
    let root = parse(tree, "Cargo.toml")?;
    let table = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(Value::as_table);
    Ok(table
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.get("path").is_some()))
        .collect())
}

/// Parses a manifest.
///
/// # Errors
/// A finding when it is missing or malformed.
pub(crate) fn parse(tree: &Tree, path: &str) -> Result<Table, Finding> {
    let file = tree.file(path).ok_or_else(|| {
        Finding::in_file(path, "is missing", "add it or take its folder off the workspace")
    })?;
    file.text
        .parse()
        .map_err(|error| Finding::in_file(path, format!("{error}"), "mend the manifest"))
}

fn member(tree: &Tree, folder: &str) -> Result<Crate, Finding> {
    let path = format!("{folder}/Cargo.toml");
    let manifest = parse(tree, &path)?;
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .ok_or_else(|| Finding::in_file(&path, "has no package name", "name the package"))?;
    let mut dependencies = table(&manifest, "dependencies");
    dependencies.extend(table(&manifest, "build-dependencies"));
    for target in manifest.get("target").and_then(Value::as_table).into_iter().flatten() {
        if let Some(inner) = target.1.as_table() {
            dependencies.extend(table(inner, "dependencies"));
        }
    }
    Ok(Crate {
        name: name.to_owned(),
        folder: folder.to_owned(),
        dependencies,
        dev_dependencies: table(&manifest, "dev-dependencies"),
    })
}

fn table(manifest: &Table, name: &str) -> Vec<Dependency> {
    let Some(table) = manifest.get(name).and_then(Value::as_table) else {
        return Vec::new();
    };
    table
        .iter()
        .map(|(name, value)| Dependency {
            name: name.clone(),
            from_workspace: value.get("workspace").and_then(Value::as_bool) == Some(true),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_all_kinds_of_dependencies() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"),
            (
                "a/Cargo.toml",
                "[package]\nname = \"a\"\n[dependencies]\nx.workspace = true\n\
                 [target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n[dev-dependencies]\ny = \"2\"\n",
            ),
        ]);
        let all = crates(&tree).unwrap();
        let names = |list: &[Dependency]| -> Vec<(String, bool)> {
            list.iter().map(|d| (d.name.clone(), d.from_workspace)).collect()
        };
        assert_eq!(
            names(&all.first().unwrap().dependencies),
            [("x".to_owned(), true), ("libc".to_owned(), false)]
        );
        assert_eq!(names(&all.first().unwrap().dev_dependencies), [("y".to_owned(), false)]);
    }

    #[test]
    fn a_missing_member_is_a_finding() {
        let tree = Tree::of(&[("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n")]);
        assert_eq!(crates(&tree).unwrap_err().place, "a/Cargo.toml");
    }
}
