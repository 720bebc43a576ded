//! The pages of `docs/` that are made from tables in the code, and what of `deploy/` and `clients/` is made from the same tables.

mod alarms;
mod chart;
mod close_codes;
mod metrics;
mod sdk;
mod verbs;

use anyhow::{Context as _, Result};

use crate::{Finding, Tree, monitoring};

/// A page made from code.
pub struct Page {
    /// Where it stands.
    pub path: &'static str,
    /// Makes it.
    pub render: fn() -> String,
}

macro_rules! board {
    ($name:literal) => {
        concat!("deploy/monitoring/grafana/dashboards/", $name, ".json")
    };
}

/// All such pages. A new table (such as HTTP routes) adds its line here.
pub const PAGES: &[Page] = &[
    Page { path: "clients/typescript/src/verbs.ts", render: sdk::module },
    Page { path: "docs/alarms.md", render: alarms::page },
    Page { path: "docs/close-codes.md", render: close_codes::page },
    Page { path: "deploy/helm/tiderace/values.schema.json", render: chart::schema },
    Page { path: board!("overview"), render: monitoring::overview },
    Page { path: board!("connections"), render: monitoring::connections },
    Page { path: board!("topics"), render: monitoring::topics },
    Page { path: board!("queues"), render: monitoring::queues },
    Page { path: board!("store"), render: monitoring::store },
    Page { path: "deploy/monitoring/prometheus/alerts.yml", render: monitoring::rules },
    Page { path: "deploy/monitoring/prometheus/alerts.test.yml", render: monitoring::rules_test },
    Page { path: "docs/metrics.md", render: metrics::page },
    Page { path: "docs/options.md", render: tiderace_config::markdown },
    Page { path: "protocols/events/openapi.json", render: verbs::openapi },
];

/// A part of a page that is written by hand but for it: what lies between `<!-- made: NAME -->` and `<!-- end: NAME -->`.
pub struct Part {
    /// Where the page stands.
    pub path: &'static str,
    /// The name of the part.
    pub name: &'static str,
    /// Makes it.
    pub render: fn() -> String,
}

/// All such parts.
pub const PARTS: &[Part] = &[
    Part { path: "docs/management.md", name: "roles", render: verbs::roles },
    Part { path: "docs/management.md", name: "verbs", render: verbs::table },
];

impl Part {
    /// The page with this part as the code has it now; `None` if it has no such part.
    fn within(&self, page: &str) -> Option<String> {
        let (begin, end) =
            (format!("<!-- made: {} -->\n", self.name), format!("<!-- end: {} -->", self.name));
        let (before, rest) = page.split_once(&begin)?;
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}{}{end}{after}", (self.render)()))
    }
}

/// Writes the pages that differ and names them.
///
/// # Errors
/// When the file system refuses.
pub fn write() -> Result<Vec<&'static str>> {
    let mut written = Vec::new();
    for page in PAGES {
        let path = Tree::root().join(page.path);
        let text = (page.render)();
        if std::fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
            std::fs::write(&path, text).with_context(|| format!("writing {}", page.path))?;
            written.push(page.path);
        }
    }
    for part in PARTS {
        let path = Tree::root().join(part.path);
        let page =
            std::fs::read_to_string(&path).with_context(|| format!("reading {}", part.path))?;
        let text =
            part.within(&page).with_context(|| format!("{} has no {}", part.path, part.name))?;
        if text != page {
            std::fs::write(&path, text).with_context(|| format!("writing {}", part.path))?;
            written.push(part.path);
        }
    }
    Ok(written)
}

/// Metrics that no table and no page knows.
pub fn check_metrics(tree: &Tree) -> Vec<Finding> {
    metrics::undocumented(tree)
}

/// Pages that are not what the code says now.
pub fn check(tree: &Tree) -> Vec<Finding> {
    PAGES
        .iter()
        .filter(|page| {
            let text = tree.file(page.path).map(|file| &file.text);
            text != Some(&(page.render)())
        })
        .map(|page| page.path)
        .chain(PARTS.iter().filter(|part| !is_fresh(part, tree)).map(|part| part.path))
        .map(|path| Finding::in_file(path, "is out of date", "run `cargo xtask docs`"))
        .collect()
}

fn is_fresh(part: &Part, tree: &Tree) -> bool {
    tree.file(part.path).is_some_and(|file| part.within(&file.text).as_ref() == Some(&file.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_found() {
        let mut fresh: Vec<(&str, String)> =
            PAGES.iter().map(|page| (page.path, (page.render)())).collect();
        let mut parts = String::new();
        for part in PARTS {
            let (name, text) = (part.name, (part.render)());
            parts += &format!("by hand\n<!-- made: {name} -->\n{text}<!-- end: {name} -->\n");
        }
        fresh.push((PARTS[0].path, parts));
        let of = |pages: &[(&str, String)]| {
            let files: Vec<(&str, &str)> =
                pages.iter().map(|(path, text)| (*path, text.as_str())).collect();
            check(&Tree::of(&files))
        };
        assert_eq!(of(&fresh), []);
        let last = fresh.len() - 1;
        fresh[last].1 = fresh[last].1.replace("connections ls", "connections");
        assert_eq!(of(&fresh).len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), PAGES.len() + PARTS.len());
    }
}
