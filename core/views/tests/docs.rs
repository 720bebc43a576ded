//! Runs every example of `docs/views.md`.
//!
//! Relies on a model of the code that runs views: it evaluates everything again until nothing changes.
#![allow(clippy::unwrap_used)]

use crate::examples;

use std::collections::BTreeMap;

use tiderace_topics::Path;
use tiderace_views::{Form, Limits, Source, View, merge};

type Topics = BTreeMap<Path, Vec<u8>>;

/// All outputs of the views, when everything has come to rest.
fn outputs(views: &[View], given: &[(Path, Vec<u8>)]) -> Topics {
    let mut all: Topics = given.iter().cloned().collect();
    let mut made = Topics::new();
    for _ in 0..8 {
        let mut next = Topics::new();
        for view in views {
            for (path, value) in outputs_of(view, given, &all, &made) {
                next.entry(path).or_insert(value);
            }
        }
        if next == made {
            return made;
        }
        all = given.iter().cloned().chain(next.clone()).collect();
        made = next;
    }
    panic!("the views do not come to rest");
}

fn outputs_of(view: &View, given: &[(Path, Vec<u8>)], all: &Topics, made: &Topics) -> Topics {
    // In the order in which they were published; what views made comes behind.
    let paths = given.iter().map(|(path, _)| path).chain(made.keys());
    let mut sources: Vec<&Path> = paths.filter(|path| view.follows(path)).collect();
    if view.options().merge {
        sources.sort();
    }
    let mut outputs: BTreeMap<Path, Vec<Vec<u8>>> = BTreeMap::new();
    for path in sources {
        let source =
            Source { path, value: all.get(path).map(Vec::as_slice), form: Form::default() };
        let lookup = |path: &Path| all.get(path).map(Vec::as_slice);
        let evaluation = view.outputs(source, &lookup, Limits::default());
        assert_eq!(evaluation.stopped, None);
        for (output, value) in evaluation.outputs {
            outputs.entry(output).or_default().push(value);
        }
    }
    let one = |values: Vec<Vec<u8>>| match view.options().merge {
        true => merge(values.iter().map(Vec::as_slice), Limits::default()).unwrap().unwrap(),
        false => values.last().unwrap().clone(),
    };
    outputs.into_iter().map(|(path, values)| (path, one(values))).collect()
}

#[test]
fn every_example_holds() {
    let examples = examples::all();
    assert!(examples.len() >= 45, "only {} examples", examples.len());
    for example in &examples {
        let place = format!("docs/views.md:{}", example.line);
        let views: Vec<View> = example
            .views
            .iter()
            .map(|text| View::parse(text).unwrap_or_else(|error| panic!("{place}\n{error}")))
            .collect();
        for view in &views {
            let again = view.to_string();
            assert_eq!(View::parse(&again).as_ref(), Ok(view), "{place}: {again}");
        }
        let given: Vec<(Path, Vec<u8>)> = example
            .given
            .iter()
            .map(|(path, value)| (Path::parse(path).unwrap(), value.clone().into_bytes()))
            .collect();
        let found = outputs(&views, &given);
        let shown: Vec<String> = found
            .iter()
            .map(|(path, value)| format!("{path} = {}", String::from_utf8_lossy(value)))
            .collect();
        for (path, value) in &example.then {
            let made = found.get(&Path::parse(path).unwrap());
            let made = String::from_utf8_lossy(made.map_or(b"nothing", |made| made)).into_owned();
            assert!(examples::same(&made, value), "{place}: {path} is {made}, not {value}");
        }
        assert_eq!(found.len(), example.then.len(), "{place}: {shown:#?}");
    }
}
