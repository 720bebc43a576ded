//! What a view makes of one source.
//!
//! Relies on `evaluate`. Invariant: an evaluation keeps to its limits or gives no outputs; the same
//! source with the same values of other topics always gives the same outputs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tiderace_topics::Path;
use tiderace_value::{DEPTH_MAX, Json};

use crate::budget::{Budget, Stop};
use crate::evaluate::{Scene, at, holds, value};
use crate::limits::Limits;
use crate::merge::merge_two;
use crate::parts::{Insert, OutputType, Step};
use crate::template::{Part, Template};
use crate::texts::Texts;
use crate::value::{Scalar, Value};
use crate::view::View;

/// A topic that a view follows.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its value; nothing if it has none or is removed.
    pub value: Option<&'a [u8]>,
    /// What the value is.
    pub form: Form,
}

/// What the bytes of a value are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// JSON if they are valid JSON, else text if they are UTF-8, else bytes.
    #[default]
    Any,
    /// JSON.
    Json,
    /// Text.
    Text,
    /// Bytes, into which no view looks.
    Bytes,
}

/// What came of a source.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// The topics it becomes, by path.
    pub outputs: BTreeMap<Path, Vec<u8>>,
    /// The other topics whose values were looked up, whether they had one or not; when one of them
    /// changes, the source is to be evaluated again.
    pub looked_up: Vec<Path>,
    /// Outputs that were left out because their path would not have been valid.
    pub invalid_paths: usize,
    /// The limit that was in the way; then there are no outputs.
    pub stopped: Option<Stop>,
    /// Units of work that were spent.
    pub work: u32,
}

impl View {
    /// What the view makes of a source. `lookup` gives the values of other topics.
    pub fn outputs<'a>(
        &'a self,
        source: Source<'a>,
        lookup: &dyn Fn(&Path) -> Option<&'a [u8]>,
        limits: Limits,
    ) -> Evaluation {
        self.evaluate(source, &|path| lookup(path), limits, &Texts::default())
    }

    fn evaluate<'a>(
        &'a self,
        source: Source<'a>,
        lookup: &dyn Fn(&Path) -> Option<&'a [u8]>,
        limits: Limits,
        texts: &'a Texts,
    ) -> Evaluation {
        let mut run = Run {
            texts,
            view: self,
            path: source.path,
            lookup,
            budget: Budget::new(limits),
            result: Evaluation::default(),
            total_bytes: 0,
        };
        let stopped = run.source(source).err();
        let mut result = run.result;
        if stopped.is_some() {
            result.outputs.clear();
        }
        result.looked_up.sort_unstable();
        result.looked_up.dedup();
        Evaluation { stopped, work: run.budget.spent(), ..result }
    }
}

/// One evaluation.
struct Run<'r, 'a> {
    view: &'a View,
    path: &'a Path,
    lookup: &'r dyn Fn(&Path) -> Option<&'a [u8]>,
    /// What patches have made.
    texts: &'a Texts,
    budget: Budget,
    result: Evaluation,
    total_bytes: usize,
}

/// What the rest of a template sees.
#[derive(Clone, Copy)]
struct Element<'e, 'a> {
    source: &'e Value<'a>,
    value: &'e Value<'a>,
    key: Option<&'e str>,
}

impl<'a> Run<'_, 'a> {
    fn source(&mut self, source: Source<'a>) -> Result<(), Stop> {
        let Some(bytes) = source.value else {
            return Ok(());
        };
        if bytes.len() > self.budget.limits.source_bytes_max {
            return Err(Stop::SourceBytes(self.budget.limits.source_bytes_max));
        }
        let template = &self.view.parts.to;
        if self.view.is_transparent() {
            let nothing = Value::Null;
            let element = Element { source: &nothing, value: &nothing, key: None };
            let text = self.filled(template, element)?;
            return match text {
                Some(text) => self.put(&text, bytes.to_vec()),
                None => Ok(()),
            };
        }
        self.budget.bytes(bytes.len())?;
        let Some(mut original) = read(bytes, source.form) else {
            return Ok(());
        };
        let changed = original.copy(&mut self.budget)?;
        if self.view.expands() {
            // Every element may look into it; what is opened needs no search through the text.
            original.open(&mut self.budget)?;
        }
        let before = &self.view.parts.before;
        if let Some(value) = self.steps(before, changed, &original, None)? {
            let element = Element { source: &original, value: &value, key: None };
            self.fill(&template.0, String::new(), element)?;
        }
        Ok(())
    }

    /// Fills the rest of the template in, once for each element where it expands.
    fn fill(
        &mut self,
        parts: &'a [Part],
        mut path: String,
        element: Element<'_, 'a>,
    ) -> Result<(), Stop> {
        for (index, part) in parts.iter().enumerate() {
            self.budget.step()?;
            let Part::Expand(place, name_at) = part else {
                match self.part(part, element)? {
                    Some(text) => path.push_str(&text),
                    None => return Ok(()),
                }
                continue;
            };
            let Some(mut whole) = at(place, self.scene(element), &mut self.budget)? else {
                return Ok(());
            };
            whole.open(&mut self.budget)?;
            let rest = parts.get(index + 1..).unwrap_or_default();
            let names: Vec<(Cow<'_, str>, &Value<'a>)> = match &whole {
                Value::Array(elements) => elements
                    .iter()
                    .enumerate()
                    .map(|(number, element)| (Cow::Owned(number.to_string()), element))
                    .collect(),
                Value::Object(fields) => {
                    fields.iter().map(|(name, value)| (Cow::Borrowed(&**name), value)).collect()
                }
                _ => return Ok(()),
            };
            for (key, value) in names {
                self.budget.piece()?;
                let mut name = Some(key.to_string());
                if let Some(name_at) = name_at {
                    name = match value.at(&name_at.0, &mut self.budget)? {
                        Some(found) => path_text(&found, &mut self.budget)?,
                        None => None,
                    };
                }
                if let Some(name) = name {
                    let path = format!("{path}{name}");
                    self.budget.bytes(path.len())?;
                    self.fill(rest, path, Element { value, key: Some(&key), ..element })?;
                }
            }
            return Ok(());
        }
        self.output(&path, element)
    }

    /// A template without expansions.
    fn filled(
        &mut self,
        template: &'a Template,
        element: Element<'_, 'a>,
    ) -> Result<Option<String>, Stop> {
        let mut path = String::new();
        for part in &template.0 {
            self.budget.step()?;
            match self.part(part, element)? {
                Some(text) => path.push_str(&text),
                None => return Ok(None),
            }
        }
        Ok(Some(path))
    }

    fn part(
        &mut self,
        part: &'a Part,
        element: Element<'_, 'a>,
    ) -> Result<Option<Cow<'a, str>>, Stop> {
        Ok(match part {
            Part::Text(text) => Some(Cow::Borrowed(&**text)),
            Part::Path(levels) => levels.of(self.path).map(Cow::Borrowed),
            Part::Expand(..) => None,
            Part::Scalar(expression, slash) => {
                let scene = self.scene(element);
                let Some(found) = value(expression, scene, &mut self.budget)? else {
                    return Ok(None);
                };
                let Some(text) = path_text(&found, &mut self.budget)? else {
                    return Ok(None);
                };
                self.budget.bytes(text.len())?;
                Some(Cow::Owned(match slash {
                    Some(slash) => {
                        let slashes = text.bytes().filter(|byte| *byte == b'/').count();
                        self.budget.bytes(slashes.saturating_mul(slash.len()))?;
                        text.replace('/', slash)
                    }
                    None => text,
                }))
            }
        })
    }

    /// One output: its steps, its type, its path.
    fn output(&mut self, path: &str, element: Element<'_, 'a>) -> Result<(), Stop> {
        let changed = element.value.copy(&mut self.budget)?;
        let after = &self.view.parts.after;
        let Some(value) = self.steps(after, changed, element.source, element.key)? else {
            return Ok(());
        };
        match self.written(&value)? {
            Some(bytes) => self.put(path, bytes),
            None => Ok(()),
        }
    }

    fn put(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Stop> {
        let Ok(path) = Path::parse(path) else {
            self.result.invalid_paths += 1;
            return Ok(());
        };
        let limits = self.budget.limits;
        if bytes.len() > limits.output_bytes_max {
            return Err(Stop::OutputBytes(limits.output_bytes_max));
        }
        self.total_bytes += bytes.len() + path.as_str().len();
        if self.total_bytes > limits.total_bytes_max {
            return Err(Stop::TotalBytes(limits.total_bytes_max));
        }
        let merge = self.view.options().merge;
        match self.result.outputs.get_mut(&path) {
            Some(known) if merge => *known = merge_two(known, &bytes, &mut self.budget)?,
            Some(known) => *known = bytes,
            None => {
                if self.result.outputs.len() == limits.outputs_max {
                    return Err(Stop::Outputs(limits.outputs_max));
                }
                self.result.outputs.insert(path, bytes);
            }
        }
        Ok(())
    }

    /// Does the steps in their order; no value if a condition or a patch says so.
    fn steps(
        &mut self,
        steps: &'a [Step],
        mut value: Value<'a>,
        source: &Value<'a>,
        key: Option<&str>,
    ) -> Result<Option<Value<'a>>, Stop> {
        for step in steps {
            self.budget.step()?;
            let element = Element { source, value: &value, key };
            match step {
                Step::Where(condition) => {
                    let scene = self.scene(element);
                    if !holds(condition, scene, &mut self.budget)? {
                        return Ok(None);
                    }
                }
                Step::As(expression) => {
                    let scene = self.scene(element);
                    match self::value(expression, scene, &mut self.budget)? {
                        Some(new) => value = new,
                        None => return Ok(None),
                    }
                }
                Step::Set(fields) => {
                    for (at, expression) in fields {
                        let scene = self.scene(Element { source, value: &value, key });
                        if let Some(new) = self::value(expression, scene, &mut self.budget)? {
                            value.set(&at.0, new, &mut self.budget)?;
                        }
                    }
                }
                Step::Remove(pointers) => {
                    for at in pointers {
                        value.remove(&at.0, &mut self.budget)?;
                    }
                }
                Step::Insert(insert) => {
                    if let Some(new) = self.inserted(insert, element)? {
                        value.set(&insert.at.0, new, &mut self.budget)?;
                    }
                }
                Step::Patch(patch) => match patch.apply(&value, self.texts, &mut self.budget)? {
                    Some(new) => value = new,
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(value))
    }

    /// What an `insert` puts in.
    fn inserted(
        &mut self,
        insert: &'a Insert,
        element: Element<'_, 'a>,
    ) -> Result<Option<Value<'a>>, Stop> {
        if let Some(found) = self.other(insert, element)? {
            return Ok(Some(found));
        }
        match &insert.otherwise {
            Some(otherwise) => {
                let scene = self.scene(element);
                value(otherwise, scene, &mut self.budget)
            }
            None => Ok(None),
        }
    }

    /// The value of another topic, or the part of it that is wanted.
    fn other(
        &mut self,
        insert: &'a Insert,
        element: Element<'_, 'a>,
    ) -> Result<Option<Value<'a>>, Stop> {
        let Some(text) = self.filled(&insert.topic, element)? else {
            return Ok(None);
        };
        // There is no topic of that path; the output is there all the same.
        let Ok(path) = Path::parse(&text) else {
            return Ok(None);
        };
        let limits = self.budget.limits;
        if self.result.looked_up.len() == limits.lookups_max {
            return Err(Stop::Lookups(limits.lookups_max));
        }
        let found = (self.lookup)(&path);
        self.result.looked_up.push(path);
        let Some(bytes) = found else {
            return Ok(None);
        };
        if bytes.len() > limits.source_bytes_max {
            return Err(Stop::SourceBytes(limits.source_bytes_max));
        }
        self.budget.bytes(bytes.len())?;
        match read(bytes, Form::Any) {
            Some(whole) => whole.at(&insert.from.0, &mut self.budget),
            None => Ok(None),
        }
    }

    /// A value in the type of the view's outputs.
    fn written(&mut self, value: &Value<'a>) -> Result<Option<Vec<u8>>, Stop> {
        let kind = self.view.options().kind.unwrap_or(OutputType::Json);
        match (kind, value.scalar(&mut self.budget)?) {
            (OutputType::Int64, Some(Scalar::Number(number))) => {
                Ok(number.integer().map(|integer| integer.to_string().into_bytes()))
            }
            (OutputType::Double, Some(Scalar::Number(number))) => {
                Ok(Some(number.to_string().into_bytes()))
            }
            (OutputType::Int64 | OutputType::Double, _) => Ok(None),
            (OutputType::String | OutputType::Binary, Some(Scalar::Text(text))) => {
                self.budget.bytes(text.len())?;
                Ok(Some(text.into_owned().into_bytes()))
            }
            _ => {
                let mut out = Vec::new();
                value.write(&mut out, 0, &mut self.budget)?;
                Ok(Some(out))
            }
        }
    }

    fn scene<'s>(&self, element: Element<'s, 'a>) -> Scene<'s, 'a> {
        Scene { path: self.path, source: element.source, value: element.value, key: element.key }
    }
}

/// What bytes are; nothing if no view can look into them.
fn read(bytes: &[u8], form: Form) -> Option<Value<'_>> {
    let json = || Json::parse(bytes, DEPTH_MAX).ok().map(Value::Json);
    let text = || std::str::from_utf8(bytes).ok().map(|text| Value::Text(Cow::Borrowed(text)));
    match form {
        Form::Any => json().or_else(text),
        Form::Json => json(),
        Form::Text => text(),
        Form::Bytes => None,
    }
}

/// A scalar as part of a path.
fn path_text(value: &Value<'_>, budget: &mut Budget) -> Result<Option<String>, Stop> {
    if matches!(value.scalar(budget)?, Some(Scalar::Null)) {
        return Ok(None);
    }
    Ok(value.text(budget)?.map(Cow::into_owned))
}
