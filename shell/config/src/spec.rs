//! The description of one option and of one section, and the macros that make both from a struct.
//!
//! Relies on `kind`. Invariant: a field, its option in the table and its documentation are one
//! declaration, so they cannot drift apart.

use std::time::Duration;

use tiderace_base::Network;
use tiderace_topics::Pattern;

use crate::kind::{Kind, Value};
use crate::moment::Moment;
use crate::secret::SecretSource;
use crate::units::MemoryAmount;

/// One option: what parser, `config show`, JSON Schema, flags and documentation are made from.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Section and name, such as `limits.message_bytes_max`.
    pub key: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What holds when nobody sets it.
    pub default: DefaultValue,
    /// What it does, in sentences.
    pub doc: &'static str,
    /// The command-line flag without its dashes, if it has one of its own.
    pub flag: Option<&'static str>,
    /// The first version that has it.
    pub since: &'static str,
    /// The meaning of 0, where 0 is special.
    pub zero: Option<&'static str>,
}

/// What holds when an option is not set.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Nothing: another option, named in the documentation, applies.
    Absent,
    /// This, written as in an environment variable.
    Is(&'static str),
    /// It must be set.
    Required,
}

/// One section of the file: a table, or a list of tables.
#[derive(Debug, Clone, Copy)]
pub struct SectionSpec {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is about.
    pub doc: &'static str,
    /// Written `[[name]]`, any number of times.
    pub repeated: bool,
    /// Its options.
    pub options: &'static [OptionSpec],
}

impl OptionSpec {
    /// An option without flag that holds until the next start.
    pub(crate) const fn new(
        key: &'static str,
        kind: Kind,
        default: DefaultValue,
        doc: &'static str,
    ) -> OptionSpec {
        OptionSpec { key, kind, default, doc, flag: None, since: "0.1.0", zero: None }
    }

    pub(crate) const fn flag(mut self, flag: &'static str) -> OptionSpec {
        self.flag = Some(flag);
        self
    }

    pub(crate) const fn zero(mut self, meaning: &'static str) -> OptionSpec {
        self.zero = Some(meaning);
        self
    }

    /// The section: `limits` of `limits.message_bytes_max`.
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// The name within its section.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// The environment variable that sets it: `TIDERACE_SECTION__KEY`.
    pub fn env(&self) -> String {
        format!("TIDERACE_{}__{}", self.section(), self.name()).to_ascii_uppercase()
    }
}

/// The checked values of one section while its struct is filled.
pub(crate) struct Values<'a> {
    pub(crate) settings: &'a [(&'static str, Value)],
}

impl Values<'_> {
    /// The value of an option; `None` only if the table and the struct disagree, which is our mistake.
    pub(crate) fn take<T: FromValue>(&self, key: &str) -> Option<T> {
        T::from_value(self.settings.iter().find(|(name, _)| *name == key).map(|(_, value)| value))
    }
}

/// A Rust type that an option's value becomes.
pub(crate) trait FromValue: Sized {
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

macro_rules! from_value {
    ($($pattern:pat => $type:ty = $result:expr;)*) => {
        $(impl FromValue for $type {
            fn from_value(value: Option<&Value>) -> Option<Self> {
                match value? {
                    $pattern => $result,
                    _ => None,
                }
            }
        })*
    };
}

from_value! {
    Value::Boolean(flag) => bool = Some(*flag);
    Value::Bytes(number) | Value::Integer(number) => u64 = Some(*number);
    Value::Bytes(number) | Value::Integer(number) => u32 = u32::try_from(*number).ok();
    Value::Bytes(number) | Value::Integer(number) => usize = usize::try_from(*number).ok();
    Value::Duration(duration) => Duration = Some(*duration);
    Value::Memory(amount) => MemoryAmount = Some(*amount);
    Value::Moment(moment) => Moment = Some(*moment);
    Value::Network(network) => Network = Some(*network);
    Value::Pattern(pattern) => Pattern = Some(pattern.clone());
    Value::Secret(source) => SecretSource = Some(source.clone());
    Value::Text(text) => String = Some(text.clone());
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(value) => T::from_value(Some(value)).map(Some),
            None => Some(None),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::List(values) => values.iter().map(|value| T::from_value(Some(value))).collect(),
            _ => None,
        }
    }
}

/// Declares a section: its struct, its options and how the one is filled from the other.
macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        $section:literal $repeated:ident $struct:ident {
            $(
                $(#[doc = $option_doc:literal])+
                $name:literal $field:ident: $type:ty = $default:expr, $kind:expr $(, $method:ident($argument:expr))*;
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[allow(unreachable_pub, reason = "some sections are only steps towards a public struct")]
        #[derive(Debug, Clone, PartialEq)]
        pub struct $struct {
            $($(#[doc = $option_doc])+ pub $field: $type,)+
        }

        #[allow(unreachable_pub, reason = "some sections are only steps towards a public struct")]
        impl $struct {
            /// The options of this section, in the order of the fields.
            pub const OPTIONS: &'static [$crate::spec::OptionSpec] = &[
                $($crate::spec::OptionSpec::new(
                    concat!($section, ".", $name),
                    $kind,
                    $default,
                    concat!($($option_doc),+),
                )$(.$method($argument))*,)+
            ];

            /// The section as a whole.
            pub const SECTION: $crate::spec::SectionSpec = $crate::spec::SectionSpec {
                name: $section,
                doc: concat!($($doc),+),
                repeated: $crate::spec::$repeated,
                options: Self::OPTIONS,
            };

            pub(crate) fn from_values(values: &$crate::spec::Values<'_>) -> Option<Self> {
                Some($struct { $($field: values.take(concat!($section, ".", $name))?,)+ })
            }
        }
    };
}

/// Marks a section written as `[name]`.
pub(crate) const TABLE: bool = false;
/// Marks a section written as `[[name]]`, any number of times.
pub(crate) const LIST: bool = true;

/// Declares an enum whose variants are the words of an option.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])+
        $enum:ident {
            $($(#[doc = $word_doc:literal])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[doc = $word_doc])+ $variant,)+
        }

        impl $enum {
            /// Every word with its meaning.
            pub const WORDS: &'static [(&'static str, &'static str)] = &[$(($word, concat!($($word_doc),+)),)+];

            /// The word used in the configuration.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($enum::$variant => $word,)+
                }
            }
        }

        impl $crate::spec::FromValue for $enum {
            fn from_value(value: Option<&$crate::kind::Value>) -> Option<Self> {
                match value? {
                    $($crate::kind::Value::Choice($word) => Some($enum::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {choice, section};
