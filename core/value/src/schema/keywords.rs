//! What each keyword of a schema means.
//!
//! Relies on `compiler` for the schemas inside a schema. Invariant: every keyword is either turned into a
//! rule, or known to demand nothing, or refused.

use std::collections::BTreeMap;

use super::compiler::{Compiler, Keywords};
use super::error::SchemaProblem;
use super::limits::SCHEMA_PATTERNS_MAX;
use super::pattern::Pattern;
use super::rule::{Bound, Place, Rule, Types, short};
use crate::compare::canonical;
use crate::number::Decimal;
use crate::{Json, JsonKind};

/// Schemas by name.
type Named = Vec<(Box<str>, Place)>;

type Result<T> = std::result::Result<T, SchemaProblem>;

/// Keywords that become rules, or are looked at together with others that do.
const RULES: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "uniqueItems",
];

/// Keywords that demand nothing.
const NOTES: &[&str] = &[
    "$comment",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// The rules of a schema.
pub(super) fn rules<'a>(
    compiler: &mut Compiler<'a>,
    place: Place,
    keywords: &Keywords<'a>,
) -> Result<Vec<Rule>> {
    let known = |name: &str| {
        RULES.contains(&name)
            || NOTES.contains(&name)
            || name.starts_with("x-")
            || (name == "$id" && place == 0)
    };
    if let Some(name) = keywords.keys().find(|name| !known(name)) {
        return Err(SchemaProblem::Unsupported(short(name)));
    }
    let mut group = Group { compiler, place, keywords, rules: Vec::new() };
    group.definitions()?;
    // What is cheap comes first: it decides most often.
    group.values()?;
    group.numbers()?;
    group.texts()?;
    group.arrays()?;
    group.objects()?;
    group.fields()?;
    group.schemas()?;
    Ok(group.rules)
}

/// A schema whose keywords become rules.
struct Group<'g, 'a> {
    compiler: &'g mut Compiler<'a>,
    place: Place,
    keywords: &'g Keywords<'a>,
    rules: Vec<Rule>,
}

impl<'a> Group<'_, 'a> {
    fn value(&self, keyword: &str) -> Option<Json<'a>> {
        self.keywords.get(keyword).copied()
    }

    /// Schemas that may be referred to.
    fn definitions(&mut self) -> Result<()> {
        for keyword in ["$defs", "definitions"] {
            self.named(keyword)?;
        }
        Ok(())
    }

    fn values(&mut self) -> Result<()> {
        if let Some(value) = self.value("type") {
            let mut types = Types::default();
            let names: Vec<Json<'a>> = match value.kind() {
                JsonKind::Array => value.elements().collect(),
                _ => vec![value],
            };
            let known = |name: &Json<'a>| name.as_text().is_some_and(|name| types.add_name(&name));
            if names.is_empty() || !names.iter().all(known) {
                let must =
                    "null, boolean, object, array, number, string, integer, or an array of these";
                return Err(SchemaProblem::Shape { keyword: "type", must });
            }
            self.rules.push(Rule::Type(types));
        }
        if let Some(value) = self.value("const") {
            self.one_of("const", &[value])?;
        }
        if let Some(values) = self.array("enum")? {
            self.one_of("enum", &values)?;
        }
        Ok(())
    }

    fn one_of(&mut self, keyword: &'static str, values: &[Json<'a>]) -> Result<()> {
        let mut kinds = Types::default();
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            kinds.add(value.kind());
            let text = canonical(*value, &mut self.compiler.budget);
            texts.push(text.map_err(|_| SchemaProblem::TooMuchWork)?.into_boxed_slice());
        }
        texts.sort_unstable();
        texts.dedup();
        self.rules.push(Rule::Values { keyword, texts, kinds });
        Ok(())
    }

    fn numbers(&mut self) -> Result<()> {
        for (keyword, bound) in Bound::ALL {
            if let Some(limit) = self.number(keyword)? {
                self.rules.push(Rule::Bound { bound, limit: limit.into() });
            }
        }
        if let Some(text) = self.number("multipleOf")? {
            let parts = Decimal::of(text).parts().filter(|(digits, _)| *digits > 0);
            let parts = parts.filter(|_| !text.starts_with('-'));
            let must = "a number greater than 0 of at most 18 digits";
            let (digits, power) =
                parts.ok_or(SchemaProblem::Shape { keyword: "multipleOf", must })?;
            self.rules.push(Rule::Multiple { text: text.into(), digits, power });
        }
        Ok(())
    }

    fn texts(&mut self) -> Result<()> {
        self.push_count("minLength", Rule::MinLength)?;
        self.push_count("maxLength", Rule::MaxLength)?;
        if let Some(value) = self.value("pattern") {
            let must = "a regular expression";
            let text = value.as_text().ok_or(SchemaProblem::Shape { keyword: "pattern", must })?;
            let pattern = self.pattern(&text)?;
            self.rules.push(Rule::Pattern(pattern));
        }
        Ok(())
    }

    fn arrays(&mut self) -> Result<()> {
        self.push_count("minItems", Rule::MinItems)?;
        self.push_count("maxItems", Rule::MaxItems)?;
        if let Some(value) = self.value("uniqueItems") {
            let must = "true or false";
            let shape = SchemaProblem::Shape { keyword: "uniqueItems", must };
            if value.as_bool().ok_or(shape)? {
                self.rules.push(Rule::Unique);
            }
        }
        let first = self.listed("prefixItems")?.unwrap_or_default();
        if self.value("items").is_some_and(|items| items.kind() == JsonKind::Array) {
            let must = "a schema; an array of schemas is written `prefixItems`";
            return Err(SchemaProblem::Shape { keyword: "items", must });
        }
        let others = self.single("items")?;
        if others.is_some() || !first.is_empty() {
            self.rules.push(Rule::Elements { first, others });
        }
        let (min, max) = (self.count("minContains")?, self.count("maxContains")?);
        if let Some(one) = self.single("contains")? {
            self.rules.push(Rule::Contains { one, min: min.unwrap_or(1), max });
        }
        Ok(())
    }

    fn objects(&mut self) -> Result<()> {
        self.push_count("minProperties", Rule::MinFields)?;
        self.push_count("maxProperties", Rule::MaxFields)?;
        if let Some(value) = self.value("required") {
            let names = names("required", value)?;
            self.rules.push(Rule::Required(names));
        }
        if let Some(value) = self.value("dependentRequired") {
            let must = "an object of arrays of names";
            if value.kind() != JsonKind::Object {
                return Err(SchemaProblem::Shape { keyword: "dependentRequired", must });
            }
            let mut rows = Vec::new();
            for (name, needed) in value.fields() {
                let name = name.as_text().unwrap_or_default().into();
                rows.push((name, names("dependentRequired", needed)?));
            }
            self.rules.push(Rule::Needs(rows));
        }
        if let Some(place) = self.single("propertyNames")? {
            self.rules.push(Rule::Names(place));
        }
        Ok(())
    }

    fn fields(&mut self) -> Result<()> {
        let named: BTreeMap<Box<str>, Place> =
            self.named("properties")?.unwrap_or_default().into_iter().collect();
        let mut like = Vec::new();
        for (text, place) in self.named("patternProperties")?.unwrap_or_default() {
            like.push((self.pattern(&text)?, place));
        }
        let others = self.single("additionalProperties")?;
        if !named.is_empty() || !like.is_empty() || others.is_some() {
            self.rules.push(Rule::Fields { named, like, others });
        }
        Ok(())
    }

    fn schemas(&mut self) -> Result<()> {
        if let Some(rows) = self.named("dependentSchemas")? {
            self.rules.push(Rule::Implies(rows));
        }
        if let Some(value) = self.value("$ref") {
            let text = value.as_text().ok_or(SchemaProblem::Foreign)?;
            let place = self.compiler.refer(&text)?;
            self.rules.push(Rule::Refer(place));
        }
        for (keyword, rule) in [
            ("allOf", Rule::All as fn(Vec<Place>) -> Rule),
            ("anyOf", Rule::Any),
            ("oneOf", Rule::One),
        ] {
            if let Some(places) = self.listed(keyword)? {
                self.rules.push(rule(places));
            }
        }
        if let Some(place) = self.single("not")? {
            self.rules.push(Rule::Not(place));
        }
        let (condition, then, otherwise) =
            (self.single("if")?, self.single("then")?, self.single("else")?);
        if let Some(condition) = condition
            && (then.is_some() || otherwise.is_some())
        {
            self.rules.push(Rule::If { condition, then, otherwise });
        }
        Ok(())
    }

    /// The schema under a keyword.
    fn single(&mut self, keyword: &'static str) -> Result<Option<Place>> {
        let Some(value) = self.value(keyword) else { return Ok(None) };
        self.compiler.below(self.place, keyword, None, value).map(Some)
    }

    /// The schemas of an array under a keyword.
    fn listed(&mut self, keyword: &'static str) -> Result<Option<Vec<Place>>> {
        let Some(values) = self.array(keyword)? else { return Ok(None) };
        let mut places = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            let index = index.to_string();
            places.push(self.compiler.below(self.place, keyword, Some(&index), value)?);
        }
        Ok(Some(places))
    }

    /// The schemas of an object under a keyword.
    fn named(&mut self, keyword: &'static str) -> Result<Option<Named>> {
        let Some(value) = self.value(keyword) else { return Ok(None) };
        if value.kind() != JsonKind::Object {
            return Err(SchemaProblem::Shape { keyword, must: "an object of schemas" });
        }
        let mut rows = BTreeMap::new();
        for (name, schema) in value.fields() {
            let name = name.as_text().unwrap_or_default();
            let place = self.compiler.below(self.place, keyword, Some(&name), schema)?;
            rows.insert(name.into(), place);
        }
        Ok(Some(rows.into_iter().collect()))
    }

    /// The values of an array under a keyword, of which there must be some.
    fn array(&self, keyword: &'static str) -> Result<Option<Vec<Json<'a>>>> {
        let Some(value) = self.value(keyword) else { return Ok(None) };
        let values: Vec<Json<'a>> = value.elements().collect();
        if values.is_empty() {
            return Err(SchemaProblem::Shape { keyword, must: "an array that is not empty" });
        }
        Ok(Some(values))
    }

    fn number(&self, keyword: &'static str) -> Result<Option<&'a str>> {
        let Some(value) = self.value(keyword) else { return Ok(None) };
        if value.kind() != JsonKind::Number {
            return Err(SchemaProblem::Shape { keyword, must: "a number" });
        }
        Ok(Some(value.text()))
    }

    fn count(&self, keyword: &'static str) -> Result<Option<u64>> {
        let Some(text) = self.number(keyword)? else { return Ok(None) };
        let count = Decimal::of(text).as_integer().and_then(|count| u64::try_from(count).ok());
        let must = "a whole number that is not negative";
        count.map(Some).ok_or(SchemaProblem::Shape { keyword, must })
    }

    fn push_count(&mut self, keyword: &'static str, rule: fn(u64) -> Rule) -> Result<()> {
        if let Some(count) = self.count(keyword)? {
            self.rules.push(rule(count));
        }
        Ok(())
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern> {
        if self.compiler.patterns == SCHEMA_PATTERNS_MAX {
            let what = "regular expressions";
            return Err(SchemaProblem::TooMany { max: SCHEMA_PATTERNS_MAX, what });
        }
        self.compiler.patterns += 1;
        let wrong = |why| SchemaProblem::Pattern { pattern: short(text), why };
        Pattern::compile(text, &mut self.compiler.pattern_bytes_left).map_err(wrong)
    }
}

/// The names of an array.
fn names(keyword: &'static str, value: Json<'_>) -> Result<Vec<Box<str>>> {
    let must = "an array of names";
    let shape = || SchemaProblem::Shape { keyword, must };
    if value.kind() != JsonKind::Array {
        return Err(shape());
    }
    value.elements().map(|name| Ok(name.as_text().ok_or_else(shape)?.into())).collect()
}
