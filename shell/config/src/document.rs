//! `docs/options.md`, written from the table of options.
//!
//! Relies on the table. Invariant: the checked-in file equals this output; a test compares them.

use std::fmt::Write;

use tiderace_wire::Applies;

use crate::kind::Kind;
use crate::sections::SECTIONS;
use crate::spec::{DefaultValue, OptionSpec, SectionSpec};

/// The reference of all options as Markdown.
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for section in SECTIONS {
        write_section(&mut out, section);
    }
    out
}

const HEAD: &str = "# Options

<!-- Written by `tiderace config schema --markdown`; edit the table in shell/config/src/sections instead. -->

Options come from one TOML file (`tiderace serve --config tiderace.toml`), from environment variables and
from flags. A flag outweighs the environment, which outweighs the file, which outweighs the default. Every
option that stands once has an environment variable `TIDERACE_SECTION__KEY` and can be set on the command
line with `--set section.key=value`; some have a flag of their own. Lists are arrays in the file and
comma-separated elsewhere. An unknown key is an error. Options take effect at the next start, but for those of which is
said that they [apply before](reload.md).

Sizes are written `\"64 KiB\"` (binary: KiB, MiB, GiB, TiB; decimal: kB, MB, GB, TB) or as a whole number of
bytes, durations `\"250ms\"`, `\"5s\"`, `\"2min\"`, `\"1h\"`. Secrets never stand in the file in clear: they are
one-way hashes, `\"file:PATH\"` or `\"env:NAME\"`.

`tiderace config check` reports what is wrong with a configuration, `config show` what holds and why, and
`config schema` prints a JSON Schema for editors.
";

fn write_section(out: &mut String, section: &SectionSpec) {
    let name = section.name;
    let head = if section.repeated { format!("[[{name}]]") } else { format!("[{name}]") };
    let tail =
        if section.repeated { " May stand any number of times; only in the file." } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n## `{head}`\n\n{}{tail}", section.doc.trim());
    for option in section.options {
        write_option(out, option);
    }
}

fn write_option(out: &mut String, option: &OptionSpec) {
    let _ = writeln!(out, "\n### `{}`\n\n{}\n", option.key, option.doc.trim());
    let _ = writeln!(out, "- Value: {}", escape(&option.kind.expected(option.zero)));
    let default = match option.default {
        DefaultValue::Absent => "none".to_owned(),
        DefaultValue::Is("") => "`[]`".to_owned(),
        DefaultValue::Is(text) => format!("`{text}`"),
        DefaultValue::Required => "must be set".to_owned(),
    };
    let _ = writeln!(out, "- Default: {default}");
    let is_single =
        SECTIONS.iter().any(|section| section.name == option.section() && !section.repeated);
    if is_single {
        let _ = writeln!(out, "- Environment: `{}`", option.env());
    }
    if let Some(flag) = option.flag {
        let _ = writeln!(out, "- Flag: `--{flag}`");
    }
    let applies = match option.applies() {
        Applies::Now => Some("when the configuration is read again, at once"),
        Applies::NewConnections => {
            Some("when the configuration is read again, to connections that come from then on")
        }
        Applies::Restart => None,
    };
    if let Some(applies) = applies {
        let _ = writeln!(out, "- Applies: {applies}");
    }
    let _ = writeln!(out, "- Since: {}", option.since);
    write_words(out, &option.kind);
}

/// The meaning of each word of a choice.
fn write_words(out: &mut String, kind: &Kind) {
    match kind {
        Kind::Choice(words) => {
            out.push('\n');
            for (word, meaning) in *words {
                let _ = writeln!(out, "  - `{word}`: {}", meaning.trim());
            }
        }
        Kind::List(element) => write_words(out, element),
        _ => {}
    }
}

/// Asterisks and such are meant as written.
fn escape(text: &str) -> String {
    text.replace('*', "\\*").replace('#', "\\#").replace('>', "\\>").replace('$', "\\$")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_reference_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == markdown(),
            "docs/options.md is out of date; write it with \
             `cargo run -- config schema --markdown > docs/options.md`"
        );
    }
}
