//! What must hold for any bytes: a view, a line `-- given`, and lines `path = value`, of which the
//! first is the source. Shared by the fuzz target and by the test that replays the corpus.

use tiderace_topics::Path;
use tiderace_value::{DEPTH_MAX, Json};
use tiderace_views::{Form, Limits, OutputType, Source, View};

/// Small enough that a hostile view meets every one of them.
const LIMITS: Limits = Limits {
    source_bytes_max: 4096,
    outputs_max: 50,
    output_bytes_max: 8192,
    total_bytes_max: 16384,
    lookups_max: 20,
    work_max: 20_000,
};

/// Panics when a promise of the crate is broken.
pub(crate) fn view(data: &[u8]) {
    let Ok(data) = std::str::from_utf8(data) else {
        return;
    };
    let (text, topics) = data.split_once("\n-- given\n").unwrap_or((data, ""));
    let view = match View::parse(text) {
        Ok(view) => view,
        Err(error) => {
            assert!(text.is_char_boundary(error.at), "{error}");
            assert!(error.problem.code().starts_with("view-"));
            let shown = error.to_string();
            assert_eq!(shown.lines().count(), 3, "{shown}");
            assert!(shown.len() < 4096 && !shown.replace('\n', "").contains(char::is_control));
            return;
        }
    };
    let canonical = view.to_string();
    match View::parse(&canonical) {
        Ok(again) => {
            assert_eq!(again, view, "{canonical}");
            assert_eq!(again.to_string(), canonical);
        }
        // Parentheses and quotes may pass a limit, which is the one reason to refuse it.
        Err(error) => {
            let limits = ["view-too-many", "view-too-deep"];
            assert!(limits.contains(&error.problem.code()), "{canonical}\n{error}");
        }
    }
    let topics: Vec<(Path, &str)> = topics
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter_map(|(path, value)| Some((Path::parse(path).ok()?, value)))
        .collect();
    for (path, value) in topics.iter().take(1) {
        evaluate(&view, path, value.as_bytes(), &topics);
    }
}

fn evaluate(view: &View, path: &Path, value: &[u8], topics: &[(Path, &str)]) {
    let source = Source { path, value: Some(value), form: Form::Any };
    let lookup = |path: &Path| {
        topics.iter().find(|(known, _)| known == path).map(|(_, value)| value.as_bytes())
    };
    let made = view.outputs(source, &lookup, LIMITS);
    assert!(made.outputs.len() <= LIMITS.outputs_max);
    assert!(made.looked_up.len() <= LIMITS.lookups_max);
    assert!(made.work <= LIMITS.work_max);
    assert!(made.stopped.is_none() || made.outputs.is_empty());
    let total: usize = made.outputs.iter().map(|(path, out)| path.as_str().len() + out.len()).sum();
    assert!(total <= LIMITS.total_bytes_max);
    let json = view.options().kind.unwrap_or(OutputType::Json) == OutputType::Json;
    for out in made.outputs.values() {
        assert!(out.len() <= LIMITS.output_bytes_max);
        if json && !view.is_transparent() {
            assert!(Json::parse(out, DEPTH_MAX).is_ok(), "{}", String::from_utf8_lossy(out));
        }
    }
    assert_eq!(view.outputs(source, &lookup, LIMITS).outputs, made.outputs);
    let removed = Source { value: None, ..source };
    assert!(view.outputs(removed, &lookup, LIMITS).outputs.is_empty());
}
