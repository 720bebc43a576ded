//! Checks a value against the branches of a schema.
//!
//! Relies on the compiler for branches that do not go in circles. Invariant: each rule that is tried is
//! paid for, so a check ends after a bounded number of steps, and nesting after a bounded depth.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::{Unfit, Violation};
use super::rule::{Bound, Branch, Place, Rule, Types, pointer};
use crate::compare::canonical;
use crate::limits::{Budget, Spent};
use crate::number::Decimal;
use crate::pointer::append_token;
use crate::{Json, JsonKind};

/// Schemas inside each other while a value is checked: values are nested 128 deep at most, and few
/// schemas speak of the same value.
const DEPTH_MAX: usize = 256;
/// Steps of trying a schema, besides those of its rules.
const BRANCH_STEPS: usize = 8;
/// Steps of putting a name, or a text to be compared, in order among others.
const NAME_STEPS: usize = 16;

/// Checks a value against the first branch.
pub(super) fn check(branches: &[Branch], json: Json<'_>, budget: &mut Budget) -> Result<(), Unfit> {
    let mut check = Check { branches, budget: *budget, way: Vec::new(), depth: 0 };
    let checked = check.branch(0, json);
    *budget = check.budget;
    match checked {
        Ok(()) => Ok(()),
        Err(Stop::Spent) => Err(Unfit::TooMuchWork),
        Err(Stop::TooDeep) => Err(Unfit::TooDeep),
        Err(Stop::Failure(failure)) => Err(Unfit::Violation(Box::new(check.violation(&failure)))),
    }
}

/// Which rule does not hold.
struct Failure {
    place: Place,
    rule: usize,
    detail: String,
}

/// Why checking ended early.
enum Stop {
    Failure(Failure),
    Spent,
    TooDeep,
}

impl From<Spent> for Stop {
    fn from(_: Spent) -> Stop {
        Stop::Spent
    }
}

/// How a rule judges a value: it holds, or does not because of the detail.
enum Verdict {
    Holds,
    Fails(String),
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::Fails(String::new()) }
    }
}

/// A step into a value.
enum Token<'v> {
    Name(Cow<'v, str>),
    Index(usize),
}

struct Check<'s, 'v> {
    branches: &'s [Branch],
    budget: Budget,
    /// The way to the part that is looked at; after a failure, to the part that fails.
    way: Vec<Token<'v>>,
    depth: usize,
}

/// A value with its parts, which several rules look at.
struct Instance<'v> {
    json: Json<'v>,
    elements: Vec<Json<'v>>,
    fields: BTreeMap<Cow<'v, str>, Json<'v>>,
    /// The characters of a string.
    text: Cow<'v, str>,
}

impl<'s, 'v> Check<'s, 'v> {
    fn branch(&mut self, place: Place, json: Json<'v>) -> Result<(), Stop> {
        let Some(branch) = self.branches.get(place as usize) else { return Ok(()) };
        self.budget.spend(BRANCH_STEPS + branch.rules.len())?;
        if branch.rules.is_empty() {
            return Ok(());
        }
        if self.depth == DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        self.depth += 1;
        let instance = self.instance(json, &branch.rules)?;
        for (number, rule) in branch.rules.iter().enumerate() {
            if let Verdict::Fails(detail) = self.rule(rule, &instance)? {
                return Err(Stop::Failure(Failure { place, rule: number, detail }));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Takes a value apart if a rule looks at its parts.
    fn instance(&mut self, json: Json<'v>, rules: &[Rule]) -> Result<Instance<'v>, Stop> {
        let mut instance =
            Instance { json, elements: Vec::new(), fields: BTreeMap::new(), text: "".into() };
        if !rules.iter().any(Rule::looks_inside) {
            return Ok(instance);
        }
        self.budget.pass(json.text())?;
        match json.kind() {
            JsonKind::Array => instance.elements = json.elements().collect(),
            JsonKind::Object => {
                for (name, value) in json.fields() {
                    self.budget.spend(NAME_STEPS)?;
                    instance.fields.insert(name.as_text().unwrap_or_default(), value);
                }
            }
            JsonKind::Text => instance.text = json.as_text().unwrap_or_default(),
            _ => {}
        }
        self.budget.spend(instance.elements.len())?;
        Ok(instance)
    }

    fn rule(&mut self, rule: &Rule, instance: &Instance<'v>) -> Result<Verdict, Stop> {
        let json = instance.json;
        match (rule, json.kind()) {
            (Rule::Never, _) => Ok(Verdict::from(false)),
            (Rule::Type(types), kind) => {
                if kind == JsonKind::Number {
                    self.budget.pass(json.text())?;
                }
                Ok(fits_type(*types, kind, json).into())
            }
            (Rule::Values { texts, kinds, .. }, kind) => {
                if !kinds.has(kind) {
                    return Ok(Verdict::from(false));
                }
                let text = canonical(json, &mut self.budget)?;
                Ok(texts.binary_search_by(|known| (**known).cmp(&text)).is_ok().into())
            }
            (Rule::Bound { .. } | Rule::Multiple { .. }, JsonKind::Number) => {
                self.budget.pass(json.text())?;
                Ok(number(rule, Decimal::of(json.text())).into())
            }
            (Rule::MinLength(_) | Rule::MaxLength(_) | Rule::Pattern(_), JsonKind::Text) => {
                self.budget.pass(&instance.text)?;
                Ok(text(rule, &instance.text).into())
            }
            (
                Rule::Elements { .. }
                | Rule::MinItems(_)
                | Rule::MaxItems(_)
                | Rule::Unique
                | Rule::Contains { .. },
                JsonKind::Array,
            ) => self.array(rule, &instance.elements),
            (
                Rule::Fields { .. }
                | Rule::Names(_)
                | Rule::Required(_)
                | Rule::MinFields(_)
                | Rule::MaxFields(_)
                | Rule::Needs(_)
                | Rule::Implies(_),
                JsonKind::Object,
            ) => self.object(rule, instance),
            _ => self.schemas(rule, json),
        }
    }

    fn array(&mut self, rule: &Rule, elements: &[Json<'v>]) -> Result<Verdict, Stop> {
        let count = elements.len() as u64;
        match rule {
            Rule::MinItems(min) => Ok((count >= *min).into()),
            Rule::MaxItems(max) => Ok((count <= *max).into()),
            Rule::Unique => {
                let mut texts = Vec::with_capacity(elements.len());
                for element in elements {
                    self.budget.spend(NAME_STEPS)?;
                    texts.push(canonical(*element, &mut self.budget)?);
                }
                texts.sort_unstable();
                Ok(texts.windows(2).all(|pair| pair.first() != pair.last()).into())
            }
            Rule::Elements { first, others } => {
                let schemas = first.iter().map(Some).chain(std::iter::repeat(others.as_ref()));
                for ((index, element), place) in elements.iter().enumerate().zip(schemas) {
                    let Some(place) = place else { break };
                    self.inside(Token::Index(index), *place, *element)?;
                }
                Ok(Verdict::Holds)
            }
            Rule::Contains { one, min, max } => {
                let mut found = 0;
                for element in elements {
                    found += u64::from(self.holds(*one, *element)?);
                }
                let fits = found >= *min && max.is_none_or(|max| found <= max);
                Ok(if fits { Verdict::Holds } else { Verdict::Fails(found.to_string()) })
            }
            _ => Ok(Verdict::Holds),
        }
    }

    fn object(&mut self, rule: &Rule, instance: &Instance<'v>) -> Result<Verdict, Stop> {
        let fields = &instance.fields;
        let count = fields.len() as u64;
        match rule {
            Rule::MinFields(min) => Ok((count >= *min).into()),
            Rule::MaxFields(max) => Ok((count <= *max).into()),
            Rule::Required(names) => self.all_there(names, fields),
            Rule::Needs(rows) => {
                for (name, names) in rows {
                    self.budget.spend(1)?;
                    if !fields.contains_key(&**name) {
                        continue;
                    }
                    if let Verdict::Fails(detail) = self.all_there(names, fields)? {
                        return Ok(Verdict::Fails(detail));
                    }
                }
                Ok(Verdict::Holds)
            }
            Rule::Implies(rows) => {
                for (name, place) in rows {
                    self.budget.spend(1)?;
                    if fields.contains_key(&**name) {
                        self.branch(*place, instance.json)?;
                    }
                }
                Ok(Verdict::Holds)
            }
            Rule::Names(place) => {
                self.budget.pass(instance.json.text())?;
                for (name, _) in instance.json.fields() {
                    if !self.holds(*place, name)? {
                        let name = name.as_text().unwrap_or_default();
                        return Ok(Verdict::Fails(name.into_owned()));
                    }
                }
                Ok(Verdict::Holds)
            }
            Rule::Fields { .. } => {
                for (name, value) in fields {
                    self.field(rule, name.clone(), *value)?;
                }
                Ok(Verdict::Holds)
            }
            _ => Ok(Verdict::Holds),
        }
    }

    fn all_there(
        &mut self,
        names: &[Box<str>],
        fields: &BTreeMap<Cow<'v, str>, Json<'v>>,
    ) -> Result<Verdict, Stop> {
        self.budget.spend(names.len())?;
        let missing = names.iter().find(|name| !fields.contains_key(&***name));
        Ok(missing.map_or(Verdict::Holds, |name| Verdict::Fails(name.to_string())))
    }

    /// Checks one field by the schemas that its name has.
    fn field(&mut self, rule: &Rule, name: Cow<'v, str>, value: Json<'v>) -> Result<(), Stop> {
        let Rule::Fields { named, like, others } = rule else { return Ok(()) };
        let mut known = false;
        if let Some(place) = named.get(&*name) {
            known = true;
            self.inside(Token::Name(name.clone()), *place, value)?;
        }
        for (pattern, place) in like {
            self.budget.pass(&name)?;
            if pattern.is_found_in(&name) {
                known = true;
                self.inside(Token::Name(name.clone()), *place, value)?;
            }
        }
        match others {
            Some(place) if !known => self.inside(Token::Name(name), *place, value),
            _ => Ok(()),
        }
    }

    fn schemas(&mut self, rule: &Rule, json: Json<'v>) -> Result<Verdict, Stop> {
        match rule {
            Rule::Refer(place) => self.branch(*place, json)?,
            Rule::All(places) => {
                for place in places {
                    self.branch(*place, json)?;
                }
            }
            Rule::Any(places) => {
                for place in places {
                    if self.holds(*place, json)? {
                        return Ok(Verdict::Holds);
                    }
                }
                return Ok(Verdict::from(false));
            }
            Rule::One(places) => {
                let mut found = 0;
                for place in places {
                    found += usize::from(self.holds(*place, json)?);
                }
                if found != 1 {
                    return Ok(Verdict::Fails(found.to_string()));
                }
            }
            Rule::Not(place) => return Ok((!self.holds(*place, json)?).into()),
            Rule::If { condition, then, otherwise } => {
                let branch = if self.holds(*condition, json)? { then } else { otherwise };
                if let Some(place) = branch {
                    self.branch(*place, json)?;
                }
            }
            // Rules about other kinds of values.
            _ => {}
        }
        Ok(Verdict::Holds)
    }

    /// Checks a part; the way to it stays if it fails.
    fn inside(&mut self, token: Token<'v>, place: Place, json: Json<'v>) -> Result<(), Stop> {
        self.way.push(token);
        self.branch(place, json)?;
        self.way.pop();
        Ok(())
    }

    /// Whether a branch holds, without trace if it does not.
    fn holds(&mut self, place: Place, json: Json<'v>) -> Result<bool, Stop> {
        let (way, depth) = (self.way.len(), self.depth);
        match self.branch(place, json) {
            Ok(()) => Ok(true),
            Err(Stop::Failure(_)) => {
                self.way.truncate(way);
                self.depth = depth;
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    fn violation(&self, failure: &Failure) -> Violation {
        let branch = self.branches.get(failure.place as usize);
        let rule = branch.and_then(|branch| branch.rules.get(failure.rule));
        let mut instance = String::new();
        for token in &self.way {
            match token {
                Token::Name(name) => append_token(&mut instance, name),
                Token::Index(index) => append_token(&mut instance, &index.to_string()),
            }
        }
        Violation {
            instance,
            schema: pointer(self.branches, failure.place, rule.map_or("", Rule::keyword)),
            says: rule.map_or(String::new(), |rule| rule.says(&failure.detail)),
        }
    }
}

fn fits_type(types: Types, kind: JsonKind, json: Json<'_>) -> bool {
    types.has(kind)
        || (kind == JsonKind::Number && types.has_integer() && Decimal::of(json.text()).is_whole())
}

fn number(rule: &Rule, number: Decimal<'_>) -> bool {
    match rule {
        Rule::Bound { bound, limit } => {
            let order = number.order(Decimal::of(limit));
            match bound {
                Bound::Minimum => order.is_ge(),
                Bound::Maximum => order.is_le(),
                Bound::ExclusiveMinimum => order.is_gt(),
                Bound::ExclusiveMaximum => order.is_lt(),
            }
        }
        Rule::Multiple { digits, power, .. } => number.is_multiple(*digits, *power),
        _ => true,
    }
}

fn text(rule: &Rule, text: &str) -> bool {
    match rule {
        Rule::MinLength(min) => text.chars().count() as u64 >= *min,
        Rule::MaxLength(max) => text.chars().count() as u64 <= *max,
        Rule::Pattern(pattern) => pattern.is_found_in(text),
        _ => true,
    }
}
