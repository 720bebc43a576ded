//! `cargo xtask docs` writes the generated pages; `cargo xtask report` describes the sources.

use std::io::Write as _;

use anyhow::{Result, bail};
use xtask::{Tree, generated, report::report};

fn main() -> Result<()> {
    let mut out = std::io::stdout().lock();
    match std::env::args().nth(1).as_deref() {
        Some("docs") => {
            for path in generated::write()? {
                writeln!(out, "wrote {path}")?;
            }
        }
        Some("report") => write!(out, "{}", report(&Tree::read()?))?,
        _ => bail!("usage: cargo xtask docs | report"),
    }
    Ok(())
}
