//! Turns the text of a schema into branches and rules.
//!
//! Relies on `keywords` for what each keyword means, and on `compiler` for the branches. Invariant:
//! nothing recurses, so nesting and chains of references cost no stack.

use super::compiler::{Compiler, keywords_of};
use super::error::{SchemaError, SchemaProblem};
use super::keywords;
use super::limits::SCHEMA_BYTES_MAX;
use super::pattern::AUTOMATA_BYTES_MAX;
use super::rule::{Branch, Place, Rule, pointer};
use crate::scan::DEPTH_MAX;
use crate::{Json, JsonKind};

/// Compiles a schema; the first branch is the whole. With the bytes that its regular expressions take.
pub(super) fn compile(bytes: &[u8]) -> Result<(Vec<Branch>, usize), SchemaError> {
    let top = |problem| SchemaError { at: String::new(), problem };
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(top(SchemaProblem::TooMany { max: SCHEMA_BYTES_MAX, what: "bytes" }));
    }
    let root = Json::parse(bytes, DEPTH_MAX).map_err(|error| top(error.into()))?;
    let mut compiler = Compiler::new(root);
    run(&mut compiler).map_err(|(place, problem)| SchemaError {
        at: pointer(&compiler.branches, place, ""),
        problem,
    })?;
    Ok((compiler.branches, AUTOMATA_BYTES_MAX - compiler.pattern_bytes_left))
}

fn run(compiler: &mut Compiler<'_>) -> Result<(), (Place, SchemaProblem)> {
    compiler.root_branch().map_err(|problem| (0, problem))?;
    while let Some((place, json)) = compiler.open.pop_front() {
        let rules = rules(compiler, place, json).map_err(|problem| (place, problem))?;
        if let Some(branch) = compiler.branches.get_mut(place as usize) {
            branch.rules = rules;
        }
    }
    match circle(&compiler.branches) {
        Some(place) => Err((place, SchemaProblem::Circle)),
        None => Ok(()),
    }
}

fn rules<'a>(
    compiler: &mut Compiler<'a>,
    place: Place,
    json: Json<'a>,
) -> Result<Vec<Rule>, SchemaProblem> {
    compiler.budget.pass(json.text()).map_err(|_| SchemaProblem::TooMuchWork)?;
    match json.kind() {
        JsonKind::Bool if json.as_bool() == Some(true) => Ok(Vec::new()),
        JsonKind::Bool => Ok(vec![Rule::Never]),
        JsonKind::Object => keywords::rules(compiler, place, &keywords_of(json)),
        _ => Err(SchemaProblem::NoSchema),
    }
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
