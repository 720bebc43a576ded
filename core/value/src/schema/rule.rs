//! What a compiled schema consists of.
//!
//! Relies on nothing. Invariant: a [`Place`] in a list of branches is always the place of one.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::pattern::Pattern;
use crate::JsonKind;
use crate::pointer::append_token;

/// Where a branch stands in the list of all.
pub(super) type Place = u32;

/// One schema.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) origin: Origin,
    pub(super) rules: Vec<Rule>,
}

/// Where a schema stands in the text, for those who are told that it does not hold.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The branch it is written in; nothing if `tokens` begin at the top.
    pub(super) parent: Option<Place>,
    /// The way from there, as a pointer.
    pub(super) tokens: Box<str>,
}

/// What a value must be like.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Never,
    Type(Types),
    /// `enum` or `const`: canonical texts in order.
    Values {
        keyword: &'static str,
        texts: Vec<Box<[u8]>>,
        kinds: Types,
    },
    Bound {
        bound: Bound,
        limit: Box<str>,
    },
    Multiple {
        text: Box<str>,
        digits: u64,
        power: i64,
    },
    MinLength(u64),
    MaxLength(u64),
    Pattern(Pattern),
    /// The schemas of the first elements, and that of all others.
    Elements {
        first: Vec<Place>,
        others: Option<Place>,
    },
    MinItems(u64),
    MaxItems(u64),
    Unique,
    Contains {
        one: Place,
        min: u64,
        max: Option<u64>,
    },
    /// The schemas of fields by name and by expression, and that of all others.
    Fields {
        named: BTreeMap<Box<str>, Place>,
        like: Vec<(Pattern, Place)>,
        others: Option<Place>,
    },
    Names(Place),
    Required(Vec<Box<str>>),
    MinFields(u64),
    MaxFields(u64),
    /// Where a field is, others must be too.
    Needs(Vec<(Box<str>, Vec<Box<str>>)>),
    /// Where a field is, another schema holds.
    Implies(Vec<(Box<str>, Place)>),
    All(Vec<Place>),
    Any(Vec<Place>),
    One(Vec<Place>),
    Not(Place),
    If {
        condition: Place,
        then: Option<Place>,
        otherwise: Option<Place>,
    },
    Refer(Place),
}

/// Which side of a limit a number must be on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

impl Bound {
    pub(super) const ALL: [(&'static str, Bound); 4] = [
        ("minimum", Bound::Minimum),
        ("maximum", Bound::Maximum),
        ("exclusiveMinimum", Bound::ExclusiveMinimum),
        ("exclusiveMaximum", Bound::ExclusiveMaximum),
    ];
}

/// A set of types, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    const NAMES: [&'static str; 7] =
        ["null", "boolean", "number", "string", "array", "object", "integer"];
    const INTEGER: u8 = 1 << 6;

    /// Adds a type; says whether there is one of that name.
    pub(super) fn add_name(&mut self, name: &str) -> bool {
        let found = Types::NAMES.iter().position(|known| *known == name);
        self.0 |= found.map_or(0, |bit| 1 << bit);
        found.is_some()
    }

    pub(super) fn add(&mut self, kind: JsonKind) {
        self.0 |= Types::bit(kind);
    }

    pub(super) fn has(self, kind: JsonKind) -> bool {
        self.0 & Types::bit(kind) != 0
    }

    /// Whether whole numbers are in the set.
    pub(super) fn has_integer(self) -> bool {
        self.0 & Types::INTEGER != 0
    }

    fn bit(kind: JsonKind) -> u8 {
        match kind {
            JsonKind::Null => 1,
            JsonKind::Bool => 1 << 1,
            JsonKind::Number => 1 << 2,
            JsonKind::Text => 1 << 3,
            JsonKind::Array => 1 << 4,
            JsonKind::Object => 1 << 5,
        }
    }

    fn names(self) -> String {
        let names: Vec<&str> = Types::NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| *name)
            .collect();
        names.join(" or ")
    }
}

impl Rule {
    /// The rest of the sentence "the value…", for a value that does not fit. The detail is what the
    /// rule was about in that case.
    pub(super) fn says(&self, detail: &str) -> String {
        match self {
            Rule::Never => "must not be there".to_owned(),
            Rule::Type(types) => format!("must be of type {}", types.names()),
            Rule::Values { texts, .. } => match texts.as_slice() {
                [one] => format!("must be {}", short(&String::from_utf8_lossy(one))),
                _ => format!("must be one of {} values", texts.len()),
            },
            Rule::Bound { bound, limit } => match bound {
                Bound::Minimum => format!("must be at least {limit}"),
                Bound::Maximum => format!("must be at most {limit}"),
                Bound::ExclusiveMinimum => format!("must be greater than {limit}"),
                Bound::ExclusiveMaximum => format!("must be less than {limit}"),
            },
            Rule::Multiple { text, .. } => format!("must be a multiple of {text}"),
            Rule::MinLength(min) => format!("must have at least {min} characters"),
            Rule::MaxLength(max) => format!("must have at most {max} characters"),
            Rule::Pattern(pattern) => format!("must match {:?}", pattern.as_str()),
            Rule::MinItems(min) => format!("must have at least {min} elements"),
            Rule::MaxItems(max) => format!("must have at most {max} elements"),
            Rule::Unique => "must not have equal elements".to_owned(),
            Rule::Contains { min, max, .. } => {
                let mut says = format!("must contain at least {min} elements of a kind");
                if let Some(max) = max {
                    let _ = write!(says, " and at most {max}");
                }
                format!("{says}, and has {detail}")
            }
            Rule::MinFields(min) => format!("must have at least {min} fields"),
            Rule::MaxFields(max) => format!("must have at most {max} fields"),
            Rule::Required(_) => format!("must have the field {:?}", short(detail)),
            Rule::Needs(_) => format!("must have the field {:?} too", short(detail)),
            Rule::Names(_) => format!("must not have a field named {:?}", short(detail)),
            Rule::Any(_) => "must fit at least one of the schemas".to_owned(),
            Rule::One(_) => format!("must fit exactly one of the schemas, and fits {detail}"),
            Rule::Not(_) => "must not fit the schema".to_owned(),
            Rule::Elements { .. }
            | Rule::Fields { .. }
            | Rule::Implies(_)
            | Rule::All(_)
            | Rule::If { .. }
            | Rule::Refer(_) => "does not fit".to_owned(),
        }
    }

    /// The keyword it comes from; empty for the schema `false`.
    pub(super) fn keyword(&self) -> &'static str {
        match self {
            Rule::Never => "",
            Rule::Type(_) => "type",
            Rule::Values { keyword, .. } => keyword,
            Rule::Bound { bound, .. } => match bound {
                Bound::Minimum => "minimum",
                Bound::Maximum => "maximum",
                Bound::ExclusiveMinimum => "exclusiveMinimum",
                Bound::ExclusiveMaximum => "exclusiveMaximum",
            },
            Rule::Multiple { .. } => "multipleOf",
            Rule::MinLength(_) => "minLength",
            Rule::MaxLength(_) => "maxLength",
            Rule::Pattern(_) => "pattern",
            Rule::Elements { .. } => "items",
            Rule::MinItems(_) => "minItems",
            Rule::MaxItems(_) => "maxItems",
            Rule::Unique => "uniqueItems",
            Rule::Contains { .. } => "contains",
            Rule::Fields { .. } => "properties",
            Rule::Names(_) => "propertyNames",
            Rule::Required(_) => "required",
            Rule::MinFields(_) => "minProperties",
            Rule::MaxFields(_) => "maxProperties",
            Rule::Needs(_) => "dependentRequired",
            Rule::Implies(_) => "dependentSchemas",
            Rule::All(_) => "allOf",
            Rule::Any(_) => "anyOf",
            Rule::One(_) => "oneOf",
            Rule::Not(_) => "not",
            Rule::If { .. } => "if",
            Rule::Refer(_) => "$ref",
        }
    }

    /// Whether it looks at elements, fields or characters.
    pub(super) fn looks_inside(&self) -> bool {
        !matches!(
            self,
            Rule::Never
                | Rule::Type(_)
                | Rule::Values { .. }
                | Rule::Bound { .. }
                | Rule::Multiple { .. }
                | Rule::All(_)
                | Rule::Any(_)
                | Rule::One(_)
                | Rule::Not(_)
                | Rule::If { .. }
                | Rule::Refer(_)
        )
    }

    /// The schemas that must hold, or not, for the value itself and not for a part of it.
    pub(super) fn same_value(&self) -> Vec<Place> {
        match self {
            Rule::All(places) | Rule::Any(places) | Rule::One(places) => places.clone(),
            Rule::Not(place) | Rule::Refer(place) => vec![*place],
            Rule::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Rule::Implies(rows) => rows.iter().map(|(_, place)| *place).collect(),
            _ => Vec::new(),
        }
    }
}

/// The pointer to a branch, or to a keyword of it.
pub(super) fn pointer(branches: &[Branch], place: Place, keyword: &str) -> String {
    let mut parts = Vec::new();
    let mut next = Some(place);
    while let Some(branch) = next.and_then(|place| branches.get(place as usize)) {
        parts.push(&*branch.origin.tokens);
        next = branch.origin.parent;
    }
    let mut text: String = parts.into_iter().rev().collect();
    if !keyword.is_empty() {
        append_token(&mut text, keyword);
    }
    text
}

/// A text that is not too long for a sentence.
pub(super) fn short(text: &str) -> String {
    const LETTERS_MAX: usize = 80;
    match text.char_indices().nth(LETTERS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
