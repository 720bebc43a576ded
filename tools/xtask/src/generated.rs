//! The pages of `docs/` that are made from tables in the code, and what of `deploy/` is made from the same tables.

mod alarms;
mod close_codes;
mod metrics;

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
    Page { path: "docs/alarms.md", render: alarms::page },
    Page { path: "docs/close-codes.md", render: close_codes::page },
    Page { path: board!("overview"), render: monitoring::overview },
    Page { path: board!("connections"), render: monitoring::connections },
    Page { path: board!("topics"), render: monitoring::topics },
    Page { path: board!("queues"), render: monitoring::queues },
    Page { path: board!("store"), render: monitoring::store },
    Page { path: "deploy/monitoring/prometheus/alerts.yml", render: monitoring::rules },
    Page { path: "deploy/monitoring/prometheus/alerts.test.yml", render: monitoring::rules_test },
    Page { path: "docs/metrics.md", render: metrics::page },
    Page { path: "docs/options.md", render: tiderace_config::markdown },
];

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
        .map(|page| Finding::in_file(page.path, "is out of date", "run `cargo xtask docs`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_found() {
        let fresh: Vec<(&str, String)> = PAGES.iter().map(|p| (p.path, (p.render)())).collect();
        let files: Vec<(&str, &str)> = fresh.iter().map(|(p, t)| (*p, t.as_str())).collect();
        assert_eq!(check(&Tree::of(&files)), []);
        assert_eq!(check(&Tree::of(&[])).len(), PAGES.len());
    }
}
