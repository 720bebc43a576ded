//! The branches of a schema while it is compiled, and the work that is left for it.
//!
//! Relies on `rule` for what a branch is. Invariant: every schema in the text becomes one branch, however
//! often it is referred to, and also if it never is.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::error::SchemaProblem;
use super::limits::SCHEMA_PARTS_MAX;
use super::pattern::AUTOMATA_BYTES_MAX;
use super::rule::{Branch, Origin, Place, short};
use crate::limits::Budget;
use crate::pointer::{append_token, part};
use crate::{Json, JsonKind, Pointer};

/// Steps of compiling: a schema of the greatest size, nested as people nest, takes a tenth.
const STEPS_MAX: usize = 2_000_000;

/// The fields of a schema; of equal names the last.
pub(super) type Keywords<'a> = BTreeMap<Cow<'a, str>, Json<'a>>;

/// A schema while it is compiled.
pub(super) struct Compiler<'a> {
    root: Json<'a>,
    pub(super) branches: Vec<Branch>,
    /// The branch of the schema at an offset of the text.
    known: BTreeMap<usize, Place>,
    /// Branches that have no rules yet.
    pub(super) open: VecDeque<(Place, Json<'a>)>,
    /// The fields of objects through which references lead, by offset.
    objects: BTreeMap<usize, Keywords<'a>>,
    /// How many regular expressions there are, and what those to come may take.
    pub(super) patterns: usize,
    pub(super) pattern_bytes_left: usize,
    pub(super) budget: Budget,
}

impl<'a> Compiler<'a> {
    /// Nothing is compiled yet.
    pub(super) fn new(root: Json<'a>) -> Compiler<'a> {
        Compiler {
            root,
            branches: Vec::new(),
            known: BTreeMap::new(),
            open: VecDeque::new(),
            objects: BTreeMap::new(),
            patterns: 0,
            pattern_bytes_left: AUTOMATA_BYTES_MAX,
            budget: Budget::new(STEPS_MAX),
        }
    }

    /// The branch of the whole.
    pub(super) fn root_branch(&mut self) -> Result<Place, SchemaProblem> {
        self.branch(self.root, Origin { parent: None, tokens: "".into() })
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
                return Ok(part(json, token));
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

/// The fields of an object.
pub(super) fn keywords_of(json: Json<'_>) -> Keywords<'_> {
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
