//! Turns the text of a schema into branches and rules.
//!
//! Relies on `keywords` for what each keyword means. Invariant: every schema in the text becomes one
//! branch, however often it is referred to, and also if it never is; nothing recurses, so nesting and
//! chains of references cost no stack.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::keywords;
use super::pattern::AUTOMATA_BYTES_MAX;
use super::rule::{Branch, Origin, Place, Rule, pointer, short};
use super::{SCHEMA_BYTES_MAX, SCHEMA_PARTS_MAX, SchemaError, SchemaProblem};
use crate::limits::Budget;
use crate::pointer::{append_token, step};
use crate::scan::DEPTH_MAX;
use crate::{Json, JsonKind, Pointer};

/// Steps of compiling: a schema of the greatest size, nested as people nest, takes a tenth.
const STEPS_MAX: usize = 2_000_000;

/// The fields of a schema; of equal names the last.
pub(super) type Keywords<'a> = BTreeMap<Cow<'a, str>, Json<'a>>;

/// Compiles a schema; the first branch is the whole. With the bytes that its regular expressions take.
pub(super) fn compile(bytes: &[u8]) -> Result<(Vec<Branch>, usize), SchemaError> {
    let top = |problem| SchemaError { at: String::new(), problem };
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(top(SchemaProblem::TooMany { max: SCHEMA_BYTES_MAX, what: "bytes" }));
    }
    let root = Json::parse(bytes, DEPTH_MAX).map_err(|error| top(error.into()))?;
    let mut compiler = Compiler {
        root,
        branches: Vec::new(),
        known: BTreeMap::new(),
        open: VecDeque::new(),
        objects: BTreeMap::new(),
        patterns: 0,
        pattern_bytes_left: AUTOMATA_BYTES_MAX,
        budget: Budget::new(STEPS_MAX),
    };
    compiler.run().map_err(|(place, problem)| SchemaError {
        at: pointer(&compiler.branches, place, ""),
        problem,
    })?;
    Ok((compiler.branches, AUTOMATA_BYTES_MAX - compiler.pattern_bytes_left))
}

pub(super) struct Compiler<'a> {
    root: Json<'a>,
    branches: Vec<Branch>,
    /// The branch of the schema at an offset of the text.
    known: BTreeMap<usize, Place>,
    /// Branches that have no rules yet.
    open: VecDeque<(Place, Json<'a>)>,
    /// The fields of objects through which references lead, by offset.
    objects: BTreeMap<usize, Keywords<'a>>,
    /// How many regular expressions there are, and what those to come may take.
    pub(super) patterns: usize,
    pub(super) pattern_bytes_left: usize,
    pub(super) budget: Budget,
}

impl<'a> Compiler<'a> {
    fn run(&mut self) -> Result<(), (Place, SchemaProblem)> {
        let origin = Origin { parent: None, tokens: "".into() };
        self.branch(self.root, origin).map_err(|problem| (0, problem))?;
        while let Some((place, json)) = self.open.pop_front() {
            let rules = self.rules(place, json).map_err(|problem| (place, problem))?;
            if let Some(branch) = self.branches.get_mut(place as usize) {
                branch.rules = rules;
            }
        }
        match circle(&self.branches) {
            Some(place) => Err((place, SchemaProblem::Circle)),
            None => Ok(()),
        }
    }

    fn rules(&mut self, place: Place, json: Json<'a>) -> Result<Vec<Rule>, SchemaProblem> {
        self.budget.pass(json.text()).map_err(|_| SchemaProblem::TooMuchWork)?;
        match json.kind() {
            JsonKind::Bool if json.as_bool() == Some(true) => Ok(Vec::new()),
            JsonKind::Bool => Ok(vec![Rule::Never]),
            JsonKind::Object => keywords::rules(self, place, &keywords_of(json)),
            _ => Err(SchemaProblem::NoSchema),
        }
    }

    /// The branch of the schema under a keyword, and under a name or number there.
    pub(super) fn below(
        &mut self,
        parent: Place,
        keyword: &str,
        name: Option<&str>,
        json: Json<'a>,
    ) -> Result<Place, SchemaProblem> {
        let mut tokens = String::new();
        append_token(&mut tokens, keyword);
        if let Some(name) = name {
            append_token(&mut tokens, name);
        }
        self.branch(json, Origin { parent: Some(parent), tokens: tokens.into() })
    }

    /// The branch to which `$ref` refers.
    pub(super) fn refer(&mut self, reference: &str) -> Result<Place, SchemaProblem> {
        let fragment = reference.strip_prefix('#').ok_or(SchemaProblem::Foreign)?;
        let text = unescape(fragment).ok_or(SchemaProblem::Foreign)?;
        let missing = || SchemaProblem::Missing(short(reference));
        let pointer = Pointer::parse(&text).map_err(|_| SchemaProblem::Foreign)?;
        let mut json = self.root;
        for token in pointer.tokens() {
            json = self.step(json, &token)?.ok_or_else(missing)?;
        }
        if !matches!(json.kind(), JsonKind::Object | JsonKind::Bool) {
            return Err(missing());
        }
        self.branch(json, Origin { parent: None, tokens: pointer.as_str().into() })
    }

    /// The value that a token names in a value; objects are taken apart once only.
    fn step(&mut self, json: Json<'a>, token: &str) -> Result<Option<Json<'a>>, SchemaProblem> {
        let offset = self.offset(json);
        if !self.objects.contains_key(&offset) {
            self.budget.pass(json.text()).map_err(|_| SchemaProblem::TooMuchWork)?;
            if json.kind() != JsonKind::Object {
                return Ok(step(json, token));
            }
            self.objects.insert(offset, keywords_of(json));
        }
        Ok(self.objects.get(&offset).and_then(|fields| fields.get(token)).copied())
    }

    /// A value is a slice of the text, so its place there is its name.
    fn offset(&self, json: Json<'a>) -> usize {
        json.text().as_ptr() as usize - self.root.text().as_ptr() as usize
    }

    fn branch(&mut self, json: Json<'a>, origin: Origin) -> Result<Place, SchemaProblem> {
        let offset = self.offset(json);
        if let Some(place) = self.known.get(&offset) {
            return Ok(*place);
        }
        if self.branches.len() >= SCHEMA_PARTS_MAX {
            return Err(SchemaProblem::TooMany { max: SCHEMA_PARTS_MAX, what: "schemas" });
        }
        let place = self.branches.len() as Place;
        self.branches.push(Branch { origin, rules: Vec::new() });
        self.known.insert(offset, place);
        self.open.push_back((place, json));
        Ok(place)
    }
}

fn keywords_of(json: Json<'_>) -> Keywords<'_> {
    json.fields().map(|(name, value)| (name.as_text().unwrap_or_default(), value)).collect()
}

/// Resolves the escapes of a URI's fragment.
fn unescape(fragment: &str) -> Option<Cow<'_, str>> {
    if !fragment.contains('%') {
        return Some(Cow::Borrowed(fragment));
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A branch that holds only if it holds itself, if there is one.
fn circle(branches: &[Branch]) -> Option<Place> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; branches.len()];
    let next = |place: Place| -> Vec<Place> {
        let rules = branches.get(place as usize).map_or(&[][..], |branch| &branch.rules);
        rules.iter().flat_map(Rule::same_value).collect()
    };
    for start in 0..branches.len() as Place {
        if marks.get(start as usize) != Some(&Mark::New) {
            continue;
        }
        let mut way = vec![(start, next(start))];
        marks.iter_mut().skip(start as usize).take(1).for_each(|mark| *mark = Mark::Open);
        while let Some((place, rest)) = way.last_mut() {
            let place = *place;
            let Some(other) = rest.pop() else {
                marks.iter_mut().skip(place as usize).take(1).for_each(|mark| *mark = Mark::Done);
                way.pop();
                continue;
            };
            match marks.get_mut(other as usize) {
                Some(Mark::Open) => return Some(other),
                Some(mark @ Mark::New) => {
                    *mark = Mark::Open;
                    way.push((other, next(other)));
                }
                _ => {}
            }
        }
    }
    None
}
