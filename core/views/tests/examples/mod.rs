//! The examples of `docs/views.md`: views, the topics given, and the topics expected.
//!
//! Also used by the tests of the broker, which runs the same examples.
#![allow(clippy::unwrap_used)]

/// One example.
#[derive(Debug)]
pub(crate) struct Example {
    /// The line of the page it begins at.
    pub(crate) line: usize,
    /// Texts of views, in their order.
    pub(crate) views: Vec<String>,
    /// Paths and values, in the order in which they are published.
    pub(crate) given: Vec<(String, String)>,
    /// Paths and values of all outputs.
    pub(crate) then: Vec<(String, String)>,
}

/// All examples of the page.
pub(crate) fn all() -> Vec<Example> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/views.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut examples = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == "```view" {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            examples.push(example(number + 1, &body));
        }
    }
    examples
}

fn example(line: usize, body: &[&str]) -> Example {
    let mut example = Example { line, views: Vec::new(), given: Vec::new(), then: Vec::new() };
    let mut part = 0;
    for text in body {
        match (*text, part) {
            ("-- given", 0) => part = 1,
            ("-- then", 1) => part = 2,
            (text, 0) if text.starts_with("map ") => example.views.push(format!("{text}\n")),
            (text, 0) => example.views.last_mut().unwrap().push_str(&format!("{text}\n")),
            (text, part) => {
                let (path, value) = text.split_once(" = ").unwrap();
                let topic = (path.to_owned(), value.to_owned());
                if part == 1 { example.given.push(topic) } else { example.then.push(topic) }
            }
        }
    }
    assert_eq!(part, 2, "the example at line {line} is not complete");
    example
}

/// Whether two values are the same: as JSON if both are, with their numbers as they are written.
pub(crate) fn same(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text);
    match (json(left), json(right)) {
        (Ok(json_left), Ok(json_right)) => {
            let plain = |text: &str| text.replace([' ', '\t'], "");
            json_left == json_right && plain(left).len() == plain(right).len()
        }
        _ => false,
    }
}
