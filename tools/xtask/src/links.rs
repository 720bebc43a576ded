//! Relative links in documents lead somewhere, headings included.

use crate::{Finding, Tree};

/// Every link that leads nowhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".md") {
        for (line, target) in links(&file.text) {
            if let Some(problem) = broken(tree, &file.path, target) {
                let remedy = "mend the link, or add what it leads to";
                findings.push(Finding::at_line(&file.path, line, problem, remedy));
            }
        }
    }
    findings
}

/// The targets of inline links outside fenced blocks, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (start, _) in line.match_indices("](") {
            let rest = line.get(start + 2..).unwrap_or("");
            if let Some(target) = rest.find(')').and_then(|end| rest.get(..end)) {
                found.push((index + 1, target));
            }
        }
    }
    found
}

fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => from.to_owned(),
        _ => resolve(from, path),
    };
    if !tree.contains(&path) {
        return Some(format!("links to `{target}`, but there is no `{path}`"));
    }
    // In a file of tests it is the name of one.
    let has = |text: &str| match path.ends_with(".md") {
        true => headings(text).any(|slug| slug == heading),
        false => text.contains(&format!("def {heading}(")),
    };
    let known = heading.is_empty() || tree.file(&path).is_none_or(|file| has(&file.text));
    (!known).then(|| format!("links to `{target}`, but `{path}` has no such heading or test"))
}

fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that readers of Markdown make of headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        line.trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let tree = Tree::of(&[
            (
                "docs/a.md",
                "# One two\n[b](../b.md#what-it-is) [here](#one-two) [web](https://example.org/x)\n\
                 [gone](c.md) [no heading](../b.md#nothing)\n\
                 [test](t.py#test_a) [no test](t.py#test_b)\n```\n[code](gone.md)\n```\n",
            ),
            ("b.md", "## What it is\n[folder](docs)\n"),
            ("docs/t.py", "def test_a():\n"),
        ]);
        let places: Vec<_> = check(&tree).into_iter().map(|f| f.place).collect();
        assert_eq!(places, ["docs/a.md:3", "docs/a.md:3", "docs/a.md:4"]);
    }
}
