//! Files of one crate that import each other in a circle.
//!
//! Relies on paths that begin with `crate`, `super`, `self` or the name of a module below, in `use` lines and in code. A name that a module hands on with
//! `pub use` counts as an import of the file that defines it; handing on is no import. Tests are free. Invariant: the
//! circles that are left stand in `LEFT`, and may only become smaller.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexis::{code, without_tests};
use crate::{Finding, Tree, crates, shape};

/// The largest circle of each crate that still has one, in files. A crate that is not named has none.
const LEFT: &[(&str, usize)] = &[
    // A module and the files below it that extend its type.
    ("shell/server", 5),
    ("tools/bench", 5),
    ("tools/xtask", 5),
];

/// Circles that are larger than allowed, and rows of the table that allow more than there is.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LEFT)
}

fn check_against(tree: &Tree, left: &[(&str, usize)]) -> Vec<Finding> {
    let members = match crates(tree) {
        Ok(members) => members,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    for member in &members {
        let circle = largest(&imports(tree, &member.folder));
        let allowed =
            left.iter().find(|(folder, _)| *folder == member.folder).map_or(0, |(_, size)| *size);
        if circle.len() > allowed {
            findings.push(Finding::in_file(
                &member.folder,
                format!("{} files import each other in a circle, {allowed} may: {}", circle.len(), circle.join(" ")),
                "move what both need into a file of its own below them, or return it instead of reaching for it",
            ));
        }
        if circle.len() < allowed {
            findings.push(Finding::in_file(
                &member.folder,
                format!("the largest circle has {} files, and {allowed} are allowed", circle.len()),
                "write the smaller number to LEFT in tools/xtask/src/circles.rs, so that it stays so",
            ));
        }
    }
    findings
}

/// Each file of a crate, with the files of it that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn imports(tree: &Tree, folder: &str) -> Imports {
    let modules = Modules::of(tree, folder);
    let mut imports = Imports::new();
    for (module, (path, code)) in &modules.0 {
        let found = imports.entry(path.clone()).or_default();
        for (at, wanted) in paths(code, &modules.below(module)) {
            if is_handed_on(code, at) {
                continue;
            }
            let target = modules.resolve(module, &wanted, 0);
            found.extend(target.filter(|target| target != path));
        }
    }
    imports
}

/// The modules of a crate by their place in it, with file and code.
struct Modules(BTreeMap<Vec<String>, (String, String)>);

impl Modules {
    fn of(tree: &Tree, folder: &str) -> Modules {
        let sources = format!("{folder}/src/");
        let mut modules = BTreeMap::new();
        for file in shape::sources(tree).filter(|file| !shape::is_test_file(tree, &file.path)) {
            let Some(name) =
                file.path.strip_prefix(&sources).and_then(|path| path.strip_suffix(".rs"))
            else {
                continue;
            };
            let mut place: Vec<String> = name.split('/').map(str::to_owned).collect();
            if matches!(place.last().map(String::as_str), Some("lib" | "main" | "mod")) {
                place.pop();
            }
            modules.insert(place, (file.path.clone(), without_tests(&code(&file.text))));
        }
        Modules(modules)
    }

    /// The names of the modules right below one.
    fn below(&self, module: &[String]) -> Vec<&str> {
        let places = self.0.keys().filter(|place| place.len() == module.len() + 1);
        let below = places.filter(|place| place.starts_with(module));
        below.filter_map(|place| place.last().map(String::as_str)).collect()
    }

    /// The file that a path in a module leads to.
    fn resolve(&self, from: &[String], path: &[String], hops: usize) -> Option<String> {
        let mut place = from.to_vec();
        let mut rest = path.iter();
        for step in rest.by_ref() {
            match step.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => drop(place.pop()),
                name => {
                    place.push(name.to_owned());
                    if !self.0.contains_key(&place) {
                        place.pop();
                        return self.named(&place, name, hops);
                    }
                }
            }
        }
        self.0.get(&place).map(|(file, _)| file.clone())
    }

    /// The file that defines what a module calls by a name.
    fn named(&self, place: &[String], name: &str, hops: usize) -> Option<String> {
        let (file, code) = self.0.get(place)?;
        let found =
            uses(code).into_iter().find(|path| path.last().is_some_and(|last| last == name));
        match found {
            Some(path) if hops < HOPS_MAX && path.len() > 1 => {
                self.resolve(place, &path, hops + 1).or_else(|| Some(file.clone()))
            }
            _ => Some(file.clone()),
        }
    }
}

/// How often a name may be handed on: enough for any tree, and an end for `use` lines that go round.
const HOPS_MAX: usize = 8;

/// The paths in code that begin with `crate`, `super`, `self` or one of the modules below, and where.
fn paths(code: &str, below: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for word in ["crate", "super", "self"].iter().chain(below) {
        for (at, _) in code.match_indices(&format!("{word}::")) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut paths = Vec::new();
            read_path(&code[at..], Vec::new(), &mut paths);
            found.extend(paths.into_iter().map(|path| (at, path)));
        }
    }
    found
}

/// The paths of the `use` lines of a module.
fn uses(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        if code[..at].chars().next_back().is_none_or(char::is_whitespace) {
            read_path(code[at + 4..].trim_start(), Vec::new(), &mut found);
        }
    }
    found
}

/// Whether the `use` line in which this stands hands on what it imports.
fn is_handed_on(code: &str, at: usize) -> bool {
    let line = &code[code[..at].rfind([';', '}']).map_or(0, |end| end + 1)..at];
    line.trim_start().starts_with("pub") && line.trim_end().ends_with("use")
}

/// Reads a path with its groups, and gives what is left of the text.
fn read_path<'a>(text: &'a str, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let mut text = text.trim_start();
    loop {
        if let Some(mut rest) = text.strip_prefix('{') {
            loop {
                rest = read_path(rest, path.clone(), found).trim_start();
                match rest.strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => rest = next,
                    Some(next) => rest = next.trim_start(),
                    None => break,
                }
                if rest.starts_with('}') {
                    break;
                }
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !name.is_empty() {
            path.push(name.to_owned());
        }
        match rest.strip_prefix("::") {
            // `Vec::<T>::new` is no longer a path to a file.
            Some(next) if !next.starts_with('<') && !name.is_empty() => text = next,
            _ => {
                if !path.is_empty() {
                    found.push(path);
                }
                let rest = rest.strip_prefix('*').unwrap_or(rest);
                let renamed = rest.trim_start().strip_prefix("as ");
                return renamed.map_or(rest, |rest| {
                    rest.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
                });
            }
        }
    }
}

/// The files of the largest circle, without the folders before `src`.
fn largest(imports: &Imports) -> Vec<String> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reached(imports, file))).collect();
    let circle_of = |file: &str| -> Vec<&str> {
        let own = &reach[file];
        own.iter().copied().filter(|other| reach[other].contains(file)).collect()
    };
    let circles = reach.keys().map(|file| circle_of(file));
    let largest = circles.max_by_key(Vec::len).unwrap_or_default();
    let short = |file: &&str| file.split_once("/src/").map_or(*file, |(_, name)| name).to_owned();
    largest.iter().map(short).collect()
}

/// All that a file imports, and what that imports, and so on.
fn reached<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(one) = open.pop() {
        for next in imports.get(one).into_iter().flatten() {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut all = vec![
            ("Cargo.toml", "[workspace]\nmembers = [\"core/a\"]\n"),
            ("core/a/Cargo.toml", "[package]\nname = \"a\"\n"),
        ];
        all.extend(files);
        Tree::of(&all)
    }

    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        largest(&imports(&tree(files), "core/a"))
    }

    #[test]
    fn files_below_each_other_are_no_circle() {
        let found = circle(&[
            ("core/a/src/lib.rs", "mod low; mod high; pub use high::High; pub use low::Low;"),
            ("core/a/src/low.rs", "pub struct Low;"),
            (
                "core/a/src/high.rs",
                "use crate::Low; // use crate::High\n#[cfg(test)] mod tests { use crate::x::Y; }",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn circles_are_found_through_groups_names_handed_on_and_paths_in_code() {
        let by_group = circle(&[
            ("core/a/src/lib.rs", "mod one; mod two;"),
            ("core/a/src/one.rs", "use crate::{other::{A, B}, two::{self, Two as T}};"),
            ("core/a/src/two.rs", "fn f() { crate::one::g(); }"),
        ]);
        assert_eq!(by_group, ["one.rs", "two.rs"]);
        let by_name = circle(&[
            ("core/a/src/lib.rs", "mod one; mod two; pub use crate::one::One; pub use two::Two;"),
            ("core/a/src/one.rs", "use crate::Two;"),
            ("core/a/src/two.rs", "use super::One;"),
        ]);
        assert_eq!(by_name, ["one.rs", "two.rs"]);
        for import in [
            "use self::low::Low;",
            "use low::Low;",
            "fn f() { low::g() }",
            "pub(crate) fn f(_: low::Low) {}",
        ] {
            let by_name_of_a_module_below = circle(&[
                ("core/a/src/lib.rs", "mod one;"),
                ("core/a/src/one.rs", &format!("mod low; {import} pub struct One;")),
                ("core/a/src/one/low.rs", "use super::One;"),
            ]);
            assert_eq!(by_name_of_a_module_below, ["one.rs", "one/low.rs"], "{import}");
        }
        let with_its_folder = circle(&[
            ("core/a/src/lib.rs", "mod one;"),
            (
                "core/a/src/one/mod.rs",
                "mod part; use self::part::Part; use crate::one::part::f; struct One;",
            ),
            ("core/a/src/one/part.rs", "use super::One;"),
        ]);
        assert_eq!(with_its_folder, ["one/mod.rs", "one/part.rs"]);
    }

    #[test]
    fn a_circle_is_refused_unless_the_table_has_it_and_the_table_must_be_true() {
        let two = tree(&[
            ("core/a/src/lib.rs", "mod one; mod two;"),
            ("core/a/src/one.rs", "use crate::two::Two;"),
            ("core/a/src/two.rs", "use crate::one::One;"),
        ]);
        assert_eq!(check_against(&two, &[]).len(), 1);
        assert_eq!(check_against(&two, &[("core/a", 2)]), []);
        assert_eq!(check_against(&two, &[("core/a", 3)]).len(), 1);
    }
}
