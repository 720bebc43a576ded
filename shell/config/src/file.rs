//! From the text of a TOML file to settings with their places.
//!
//! Relies on the TOML parser for syntax. Invariant: a key that no option claims is a problem, never
//! silently dropped.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{FileText, Origin, Problems};
use crate::raw::Raw;
use crate::sections::SECTIONS;
use crate::spec::{DefaultValue, SectionSpec};
use crate::suggest;
use crate::table::{Setting, Table, default_setting};

/// What a file sets.
#[derive(Default)]
pub(crate) struct FileContent {
    /// Options of the single sections.
    pub(crate) settings: Vec<Setting>,
    /// The repeated sections, with their defaults.
    pub(crate) tables: Vec<Table>,
}

/// Reads a file; what is wrong with it goes to `problems`.
pub(crate) fn read(file: &FileText<'_>, problems: &mut Problems) -> FileContent {
    let mut content = FileContent::default();
    let (document, errors) = DeTable::parse_recoverable(file.text);
    if !errors.is_empty() {
        for error in errors {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            problems.add(file.origin(error.span()), format!("this is not valid TOML: {message}"));
        }
        // What could be recovered would only raise errors that follow from the first.
        return content;
    }
    for (key, value) in document.get_ref() {
        let place = file.origin(Some(key.span()));
        match SECTIONS.iter().find(|section| section.name == key.get_ref()) {
            Some(section) => read_section(file, section, place, value, &mut content, problems),
            None => problems.add(place, unknown_section(key.get_ref(), value)),
        }
    }
    content
}

fn read_section(
    file: &FileText<'_>,
    section: &'static SectionSpec,
    place: Origin,
    value: &Spanned<DeValue<'_>>,
    content: &mut FileContent,
    problems: &mut Problems,
) {
    let name = section.name;
    match (value.get_ref(), section.repeated) {
        (DeValue::Table(entries), false) => {
            content.settings.extend(read_entries(file, section, entries, problems).0);
        }
        (DeValue::Array(items), true) => {
            for item in items {
                let place = file.origin(Some(item.span()));
                match item.get_ref() {
                    DeValue::Table(entries) => {
                        content.tables.push(read_table(file, section, place, entries, problems));
                    }
                    _ => problems
                        .add(place, format!("`{name}` is a list of tables; write [[{name}]]")),
                }
            }
        }
        (_, true) => problems.add(place, format!("`{name}` is a list of tables; write [[{name}]]")),
        (_, false) => problems.add(place, format!("`{name}` is one table; write [{name}]")),
    }
}

/// One `[[section]]` with the defaults of its options.
fn read_table(
    file: &FileText<'_>,
    section: &'static SectionSpec,
    place: Origin,
    entries: &DeTable<'_>,
    problems: &mut Problems,
) -> Table {
    let (mut settings, refused) = read_entries(file, section, entries, problems);
    for spec in section.options {
        if settings.iter().any(|setting| setting.spec.key == spec.key) {
            continue;
        }
        settings.extend(default_setting(spec, false));
        let was_written = entries.keys().any(|key| key.get_ref() == spec.name());
        if matches!(spec.default, DefaultValue::Required) && !was_written {
            let message = format!(
                "[[{}]] needs `{}`: {}",
                section.name,
                spec.name(),
                spec.kind.expected(spec.zero)
            );
            problems.add(place.clone(), message);
        }
    }
    // In the order of the table of options, as documentation and `config show` have it.
    settings.sort_by_key(|setting| {
        section.options.iter().position(|spec| spec.key == setting.spec.key)
    });
    Table { section, origin: place, settings, refused }
}

/// The settings of one table, and the names of those whose value was refused.
fn read_entries(
    file: &FileText<'_>,
    section: &'static SectionSpec,
    entries: &DeTable<'_>,
    problems: &mut Problems,
) -> (Vec<Setting>, Vec<&'static str>) {
    let mut settings = Vec::new();
    let mut refused = Vec::new();
    for (key, value) in entries {
        let name: &str = key.get_ref();
        let Some(spec) = section.options.iter().find(|option| option.name() == name) else {
            problems.add(file.origin(Some(key.span())), unknown_key(section, name));
            continue;
        };
        match spec.kind.read(&Raw::from_toml(value), spec.zero) {
            Ok(value) => {
                let origin = file.origin(Some(key.span()));
                settings.push(Setting { spec, value, origin });
            }
            Err(mismatch) => {
                refused.push(spec.name());
                let origin = file.origin(mismatch.span);
                problems.add(origin, format!("{}: {}", spec.key, mismatch.sentence));
            }
        }
    }
    (settings, refused)
}

fn unknown_section(name: &str, value: &Spanned<DeValue<'_>>) -> String {
    let is_table = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
    let owner =
        SECTIONS.iter().flat_map(|section| section.options).find(|option| option.name() == name);
    match owner {
        Some(option) if !is_table => {
            format!("unknown key `{name}`; did you mean `{name}` in [{}]?", option.section())
        }
        _ => {
            let what = if is_table { "section" } else { "key" };
            let near = suggest::did_you_mean(name, SECTIONS.iter().map(|section| section.name));
            format!("unknown {what} `{name}`{near}")
        }
    }
}

fn unknown_key(section: &SectionSpec, name: &str) -> String {
    let written = if section.repeated {
        format!("[[{}]]", section.name)
    } else {
        format!("[{}]", section.name)
    };
    let near = suggest::did_you_mean(name, section.options.iter().map(|option| option.name()));
    if !near.is_empty() {
        return format!("unknown key `{name}` in {written}{near}");
    }
    let elsewhere =
        SECTIONS.iter().flat_map(|section| section.options).find(|option| option.name() == name);
    match elsewhere {
        Some(option) => {
            format!(
                "unknown key `{name}` in {written}; did you mean `{name}` in [{}]?",
                option.section()
            )
        }
        None => {
            let known: Vec<String> =
                section.options.iter().map(|option| format!("`{}`", option.name())).collect();
            format!("unknown key `{name}` in {written}; it has {}", known.join(", "))
        }
    }
}
