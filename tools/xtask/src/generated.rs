//! The pages of `docs/` that are made from tables in the code.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use tiderace_base::CLOSE_CODES;

use crate::{Finding, Tree};

/// A page made from code.
pub struct Page {
    /// Where it stands.
    pub path: &'static str,
    /// Makes it.
    pub render: fn() -> String,
}

/// All such pages. A new table (metrics, HTTP routes) adds its line here.
pub const PAGES: &[Page] = &[
    Page {
        path: "docs/close-codes.md",
        render: close_codes,
    },
    Page {
        path: "docs/options.md",
        render: tiderace_config::markdown,
    },
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

/// The table of close codes.
fn close_codes() -> String {
    let mut text = String::from(
        "# Close codes\n\n\
         <!-- Made by `cargo xtask docs` from core/base/src/close.rs; do not edit. -->\n\n\
         Every way a connection ends has a code. Codes are stable: they are never renumbered or used\n\
         again. Clients see the short name (in a STOMP `ERROR` frame's `code` header, in a WebSocket\n\
         close reason); logs and metrics carry it too. *Again* says whether a client does well to\n\
         connect again by itself, after a pause that grows.\n\n\
         | code | name | WebSocket | again | meaning |\n\
         |---:|---|---:|---|---|\n",
    );
    for row in CLOSE_CODES {
        let again = if row.reconnect { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {again} | {} |",
            row.number, row.slug, row.websocket, row.meaning
        );
    }
    text
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

    #[test]
    fn every_close_code_has_its_line() {
        let text = close_codes();
        for row in CLOSE_CODES {
            assert_eq!(text.matches(&format!("| `{}` |", row.slug)).count(), 1);
        }
    }
}
