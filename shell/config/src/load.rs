//! From file, environment and flags to one checked configuration.
//!
//! Relies on the table of options; does no I/O itself, the caller hands in texts and a reader for
//! secrets. Invariant: a configuration with any problem is refused as a whole (it fails closed), and
//! every problem is reported at once.

use crate::build;
use crate::config::Config;
use crate::file::{self, FileContent};
use crate::problem::{FileText, Origin, Problems};
use crate::raw::Raw;
use crate::sections::{SECTIONS, single_options};
use crate::sources::Sources;
use crate::spec::OptionSpec;
use crate::suggest;
use crate::table::{Setting, Table, default_setting};

/// A configuration and where each of its values comes from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The typed configuration.
    pub config: Config,
    /// Every section as it holds, in the order of the table of options.
    pub tables: Vec<Table>,
}

/// Reads and checks a configuration.
///
/// # Errors
/// Every problem found, in the order of the file.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let content = match &sources.file {
        Some(source) => file::read(&FileText::new(&source.name, &source.text), &mut problems),
        None => FileContent::default(),
    };
    let overlay = overlay(sources, &mut problems);
    let mut content = content;
    content.tables.splice(0..0, flag_tables(sources, &mut problems));
    let tables = merge(content, overlay, sources.development);
    let config = build::build(&tables, sources, &mut problems);
    match config {
        Some(config) if problems.0.is_empty() => Ok(Loaded { config, tables }),
        _ => {
            problems.sort();
            Err(problems)
        }
    }
}

/// The settings of environment and flags, the latter last so that they win.
fn overlay(sources: &Sources<'_>, problems: &mut Problems) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut variables: Vec<_> =
        sources.environment.iter().filter(|(name, _)| is_ours(name)).collect();
    variables.sort();
    for (name, text) in variables {
        let is_named =
            |option: &&OptionSpec| option.env() == *name || short_env(option) == Some(name);
        match single_options().find(is_named) {
            Some(spec) => {
                read_setting(spec, text, Origin::Environment(name.clone()), &mut settings, problems)
            }
            None => {
                let known: Vec<String> = single_options().map(OptionSpec::env).collect();
                let near = suggest::did_you_mean(name, known.iter().map(String::as_str));
                problems.add(
                    Origin::Environment(name.clone()),
                    format!("there is no such option{near}"),
                );
            }
        }
    }
    for flag in &sources.flags {
        let origin = Origin::Flag(flag.flag.clone());
        match single_options().find(|option| option.key == flag.key) {
            Some(spec) => read_setting(spec, &flag.value, origin, &mut settings, problems),
            None => {
                let near =
                    suggest::did_you_mean(&flag.key, single_options().map(|option| option.key));
                problems.add(origin, format!("there is no option `{}`{near}", flag.key));
            }
        }
    }
    settings
}

/// The lists of tables that were set on the command line.
fn flag_tables(sources: &Sources<'_>, problems: &mut Problems) -> Vec<Table> {
    let mut tables = Vec::new();
    for table in &sources.tables {
        let Some(section) = SECTIONS.iter().find(|section| section.name == table.section) else {
            continue;
        };
        let mut settings = Vec::new();
        for spec in section.options {
            let Some(flag) = table.settings.iter().find(|flag| flag.key == spec.key) else {
                settings.extend(default_setting(spec, false));
                continue;
            };
            let origin = Origin::Flag(flag.flag.clone());
            read_setting(spec, &flag.value, origin, &mut settings, problems);
        }
        let origin =
            table.settings.first().map_or(Origin::Default, |it| Origin::Flag(it.flag.clone()));
        tables.push(Table { section, origin, settings, refused: Vec::new() });
    }
    tables
}

/// Orchestrators set `TIDERACE_PORT` and the like for a service of our name: only `__` makes an option, but for the one
/// that is set most, by its short name.
fn is_ours(name: &str) -> bool {
    name == LISTEN || name.strip_prefix("TIDERACE_").is_some_and(|rest| rest.contains("__"))
}

/// The short name of an option in the environment.
fn short_env(option: &OptionSpec) -> Option<&'static str> {
    (option.key == "server.listen").then_some(LISTEN)
}

const LISTEN: &str = "TIDERACE_LISTEN";

fn read_setting(
    spec: &'static OptionSpec,
    text: &str,
    origin: Origin,
    settings: &mut Vec<Setting>,
    problems: &mut Problems,
) {
    match spec.kind.read(&Raw::loose(text), spec.zero) {
        Ok(value) => settings.push(Setting { spec, value, origin }),
        Err(mismatch) => problems.add(origin, format!("{}: {}", spec.key, mismatch.sentence)),
    }
}

/// Lays the sources over each other: one table per single section, then the repeated ones.
fn merge(content: FileContent, overlay: Vec<Setting>, development: bool) -> Vec<Table> {
    let mut tables = Vec::new();
    for section in SECTIONS {
        if section.repeated {
            tables.extend(
                content.tables.iter().filter(|table| table.section.name == section.name).cloned(),
            );
            continue;
        }
        let pick = |spec: &'static OptionSpec| {
            let of_file = content.settings.iter().find(|setting| setting.spec.key == spec.key);
            let of_overlay = overlay.iter().rev().find(|setting| setting.spec.key == spec.key);
            of_overlay.or(of_file).cloned().or_else(|| default_setting(spec, development))
        };
        let settings = section.options.iter().filter_map(pick).collect();
        tables.push(Table { section, origin: Origin::Default, settings, refused: Vec::new() });
    }
    tables
}
