//! The files that belong to the project, with their texts.
//!
//! Relies on `git` to know which files those are: tracked ones and new ones that are not ignored.
//! Outside a repository every file counts that does not lie in a folder of build results.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the root of the repository, with `/`.
    pub path: String,
    /// Its text; empty if it is not UTF-8.
    pub text: String,
}

/// The files of the project, sorted by path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the project.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn read() -> Result<Tree> {
        let root = Tree::root();
        let mut paths = match listed_by_git(&root) {
            Some(paths) => paths,
            None => walked(&root, Path::new(""))?,
        };
        paths.sort();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            // Listed but gone: deleted and not yet committed.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                let text = String::from_utf8(bytes).unwrap_or_default();
                files.push(File { path, text });
            }
        }
        Ok(Tree { files })
    }

    /// A made-up tree, for trying checks.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files
                .iter()
                .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
                .collect(),
        }
    }

    /// The root of the repository.
    pub fn root() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).unwrap_or(here).to_path_buf()
    }

    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is a file or folder of that path.
    pub fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The files whose names end so.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(end))
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path, folder: &Path) -> Result<Vec<String>> {
    const BUILT: &[&str] =
        &[".git", "target", "node_modules", "__pycache__", "artifacts", "coverage"];
    let mut paths = Vec::new();
    let here = root.join(folder);
    for entry in std::fs::read_dir(&here).with_context(|| format!("listing {}", here.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = folder.join(&name);
        if entry.file_type()?.is_dir() {
            if !BUILT.iter().any(|built| name == *built) {
                paths.extend(walked(root, &path)?);
            }
        } else {
            paths.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(paths)
}
