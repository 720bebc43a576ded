//! The options of a configuration as they hold, section by section, with their places.
//!
//! Relies on the table of options for defaults. Invariant: an option without a value is absent.

use crate::kind::Value;
use crate::problem::Origin;
use crate::raw::Raw;
use crate::spec::{DefaultValue, OptionSpec, SectionSpec, Values};

/// The listeners of development mode: every protocol on one port, and STOMP's customary port.
pub const DEVELOPMENT_LISTEN: &str = "127.0.0.1:7800,stomp://127.0.0.1:61613";

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

    /// The name that it was given.
    pub fn name(&self) -> Option<&str> {
        let name = self.settings.iter().find(|setting| setting.spec.name() == "name")?;
        match &name.value {
            Value::Text(name) => Some(name),
            _ => None,
        }
    }

    /// Whether an option of this table holds: a rule that gives a role has no paths and no kind of its own, so their defaults
    /// say nothing there.
    pub fn holds(&self, setting: &Setting) -> bool {
        let is_default = setting.origin == Origin::Default;
        let is_of_actions = matches!(setting.spec.key, "rule.paths" | "rule.kind");
        let gives_role = || self.settings.iter().any(|it| it.spec.key == "rule.role");
        !(is_default && is_of_actions && gives_role())
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

/// The struct of a section that stands once.
pub(crate) fn single<T>(
    tables: &[Table],
    name: &str,
    fill: impl Fn(&Values<'_>) -> Option<T>,
) -> Option<T> {
    tables.iter().find(|table| table.section.name == name)?.fill(fill)
}

/// The structs of a repeated section; tables with a missing key are problems already and left out.
pub(crate) fn repeated<T>(
    tables: &[Table],
    name: &str,
    fill: impl Fn(&Values<'_>) -> Option<T>,
) -> Vec<T> {
    tables
        .iter()
        .filter(|table| table.section.name == name)
        .filter_map(|table| table.fill(&fill))
        .collect()
}

/// Where the option of that key, in a single section, was set.
pub(crate) fn origin_of(tables: &[Table], key: &str) -> Origin {
    let Some((section, name)) = key.split_once('.') else {
        return Origin::Default;
    };
    let table = tables.iter().find(|table| table.section.name == section);
    table.map_or(Origin::Default, |table| table.origin_of(name))
}

/// The built-in value of an option, if it has one.
pub(crate) fn default_setting(spec: &'static OptionSpec, development: bool) -> Option<Setting> {
    let text = match spec.default {
        DefaultValue::Is(text) if development => match spec.key {
            "server.listen" => DEVELOPMENT_LISTEN,
            // Pages under development are served by another program, at a port of its own.
            "server.origins" => "same-host,loopback",
            "server.sdk" => "true",
            _ => text,
        },
        DefaultValue::Is(text) => text,
        DefaultValue::Absent | DefaultValue::Required => return None,
    };
    let value = spec.kind.read(&Raw::loose(text), spec.zero).ok()?;
    Some(Setting { spec, value, origin: Origin::Default })
}
