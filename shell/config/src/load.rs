//! From file, environment and flags to one checked configuration.
//!
//! Relies on the table of options; does no I/O itself, the caller hands in texts and a reader for
//! secrets. Invariant: a configuration with any problem is refused as a whole (it fails closed), and
//! every problem is reported at once.

use std::io;
use std::path::Path;

use crate::build;
use crate::config::Config;
use crate::file::{self, FileContent};
use crate::kind::Value;
use crate::problem::{FileText, Origin, Problems};
use crate::raw::Raw;
use crate::sections::{SECTIONS, single_options};
use crate::spec::{DefaultValue, OptionSpec, SectionSpec, Values};
use crate::suggest;

/// Everything a configuration is made from, in increasing precedence: default, file, environment, flags.
pub struct Sources<'a> {
    /// The file, if one was named.
    pub file: Option<FileSource>,
    /// The environment; variables without `TIDERACE_` and `__` in their names are left alone.
    pub environment: Vec<(String, String)>,
    /// Options set on the command line.
    pub flags: Vec<FlagSource>,
    /// Development mode: listens on more ports of this machine by default.
    pub development: bool,
    /// Reads the file that a `file:` secret names.
    pub read_secret: &'a dyn Fn(&Path) -> io::Result<String>,
}

/// The text of a configuration file.
#[derive(Debug, Clone)]
pub struct FileSource {
    /// Its name, for messages.
    pub name: String,
    /// Its content: TOML.
    pub text: String,
}

/// One option set on the command line.
#[derive(Debug, Clone)]
pub struct FlagSource {
    /// As typed, for messages: `--shards` or `--set`.
    pub flag: String,
    /// The key of the option, such as `server.shards`.
    pub key: String,
    /// The value as typed.
    pub value: String,
}

/// The listeners of development mode: every protocol on one port, and STOMP's customary port.
pub const DEVELOPMENT_LISTEN: &str = "127.0.0.1:7800,stomp://127.0.0.1:61613";

/// A configuration and where each of its values comes from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The typed configuration.
    pub config: Config,
    /// Every section as it holds, in the order of the table of options.
    pub tables: Vec<Table>,
}

/// One section as it holds.
#[derive(Debug, Clone)]
pub struct Table {
    /// Which section.
    pub section: &'static SectionSpec,
    /// Where a repeated section begins.
    pub origin: Origin,
    /// Its options; those without value are absent.
    pub settings: Vec<Setting>,
    /// Names of the options that were written with an unacceptable value; empty once loaded.
    pub(crate) refused: Vec<&'static str>,
}

/// One option as it holds.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Which option.
    pub spec: &'static OptionSpec,
    /// Its value.
    pub value: Value,
    /// Where the value comes from.
    pub origin: Origin,
}

impl Table {
    /// The section's struct, filled with the values.
    pub(crate) fn fill<T>(&self, from_values: impl Fn(&Values<'_>) -> Option<T>) -> Option<T> {
        let settings: Vec<_> =
            self.settings.iter().map(|setting| (setting.spec.key, setting.value.clone())).collect();
        from_values(&Values { settings: &settings })
    }

    /// One of these options has a problem of its own already.
    pub(crate) fn refuses(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.refused.contains(name))
    }

    /// Where the option `name` of this table was set; the table itself if it was not.
    pub(crate) fn origin_of(&self, name: &str) -> Origin {
        let setting = self.settings.iter().find(|setting| setting.spec.name() == name);
        setting.map_or_else(|| self.origin.clone(), |setting| setting.origin.clone())
    }
}

/// Reads and checks a configuration.
///
/// # Errors
/// Every problem found, in the order of the file.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let content = match &sources.file {
        Some(source) => {
            file::read(&FileText { name: &source.name, text: &source.text }, &mut problems)
        }
        None => FileContent::default(),
    };
    let overlay = overlay(sources, &mut problems);
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
        match single_options().find(|option| option.env() == *name) {
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

/// Orchestrators set `TIDERACE_PORT` and the like for a service of our name: only `__` makes an option.
fn is_ours(name: &str) -> bool {
    name.strip_prefix("TIDERACE_").is_some_and(|rest| rest.contains("__"))
}

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

/// The built-in value of an option, if it has one.
pub(crate) fn default_setting(spec: &'static OptionSpec, development: bool) -> Option<Setting> {
    let text = match spec.default {
        DefaultValue::Is(_) if development && spec.key == "server.listen" => DEVELOPMENT_LISTEN,
        DefaultValue::Is(text) => text,
        DefaultValue::Absent | DefaultValue::Required => return None,
    };
    let value = spec.kind.read(&Raw::loose(text), spec.zero).ok()?;
    Some(Setting { spec, value, origin: Origin::Default })
}
