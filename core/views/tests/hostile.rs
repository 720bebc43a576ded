//! Views and values that are meant to hurt: each is refused or stopped by a limit, or is harmless.
//!
//! The work of an evaluation is counted, so that bounded time is checked without a clock.
#![allow(clippy::unwrap_used)]

use tiderace_topics::Path;
use tiderace_views::{Form, Limits, Source, View};

/// What is tried, the view, the value, and what comes of it: a code, or `fine`.
fn rows() -> Vec<(&'static str, String, String, &'static str)> {
    let object = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let array = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let steps = |step: &str, count: usize| format!("map a to b {}", vec![step; count].join(" "));
    let within = |list: String| format!("{{\"l\":{list}}}");
    let text = |bytes: usize| format!("{{\"t\":\"{}\"}}", "a".repeat(bytes));
    let expand4 =
        "map a to b/<expand(/l)>/<expand(source/l)>/<expand(source/l)>/<expand(source/l)>";
    vec![
        ("a megabyte of view", "map a to b ".repeat(100_000), "1".into(), "view-too-many"),
        ("65 steps", steps("where true", 65), "1".into(), "view-too-many"),
        (
            "600 operands",
            format!("map a to b as {}1", "1 + ".repeat(600)),
            "1".into(),
            "view-too-many",
        ),
        (
            "a chain of 250 conditions",
            format!("map a to b where {}/x", "/x and ".repeat(250)),
            "{\"x\":true}".into(),
            "fine",
        ),
        (
            "parentheses 4,000 deep",
            format!("map a to b as {}", "(".repeat(4000)),
            "1".into(),
            "view-too-deep",
        ),
        (
            "`not` 2,000 times",
            format!("map a where {}true to b", "not ".repeat(2000)),
            "1".into(),
            "view-too-deep",
        ),
        (
            "signs 5,000 deep",
            format!("map a to b as {}", "- ".repeat(5000)),
            "1".into(),
            "view-too-deep",
        ),
        (
            "`if` 1,000 deep",
            format!("map a to b as {}", "if 1 then ".repeat(1000)),
            "1".into(),
            "view-too-deep",
        ),
        (
            "arrays 4,000 deep",
            format!("map a to b as {}", "[".repeat(4000)),
            "1".into(),
            "view-too-deep",
        ),
        (
            "a pointer of 2,000 levels",
            format!("map a to b as {}", "/a".repeat(2000)),
            "1".into(),
            "view-too-many",
        ),
        (
            "five expansions",
            "map a to <expand(/a)>/<expand(/a)>/<expand(/a)>/<expand(/a)>/<expand(/a)>".into(),
            "1".into(),
            "view-too-many",
        ),
        (
            "a path of 200 parts",
            format!("map a to x{}", "/<path(0,1)>".repeat(200)),
            "1".into(),
            "view-too-many",
        ),
        (
            "a set of 1,000 sources",
            format!("map [{}] to b", vec!["a"; 1000].join(",")),
            "1".into(),
            "view-bad-selector",
        ),
        (
            "a regular expression that explodes",
            "map a where value matches \"((a{60}){60}){60}\" to b".into(),
            "1".into(),
            "view-bad-regex",
        ),
        (
            "a regular expression that backtracks elsewhere",
            "map a where value matches \"(a|aa)+$\" to b".into(),
            format!("\"{}b\"", "a".repeat(100_000)),
            "fine",
        ),
        (
            "40 regular expressions",
            format!("map a where {} to b", vec!["value matches \"a\""; 40].join(" or ")),
            "1".into(),
            "view-too-many",
        ),
        (
            "a patch of 100 operations",
            format!(
                "map a to b patch [{}]",
                vec!["{\"op\":\"remove\",\"path\":\"/a\"}"; 100].join(",")
            ),
            "1".into(),
            "view-too-many",
        ),
        (
            "a patch nested 2,000 deep",
            format!("map a to b patch {}{}", "[".repeat(2000), "]".repeat(2000)),
            "1".into(),
            "view-bad-json",
        ),
        (
            "40 properties",
            format!(
                "map a to b with {}",
                (0..40).map(|n| format!("p{n} = 1")).collect::<Vec<_>>().join(", ")
            ),
            "1".into(),
            "view-too-many",
        ),
        (
            "a value that doubles 30 times",
            steps("set /a = value, /b = value", 30),
            "{\"x\":1}".into(),
            "view-work",
        ),
        ("a text that doubles 60 times", steps("set /t = /t + /t", 60), text(1000), "view-work"),
        (
            "a text that grows tenfold, ten times",
            steps("set /t = replace(/t, \"a\", \"aaaaaaaaaa\")", 10),
            text(1000),
            "view-work",
        ),
        (
            "a value nested deeper by each step",
            steps("set /a/a/a/a/a/a/a/a = value", 40),
            "{\"x\":1}".into(),
            "view-depth",
        ),
        (
            "a value nested as deep as work allows",
            format!(
                "map a to b set {}",
                vec![format!("{} = value", "/a".repeat(16)); 250].join(", ")
            ),
            "{}".into(),
            "view-work",
        ),
        (
            "an array nested as deep as operands allow",
            steps(&format!("as {}value{}", "[".repeat(30), "]".repeat(30)), 15),
            "{}".into(),
            "view-depth",
        ),
        ("30^4 expansions", expand4.into(), within(array(30)), "view-outputs"),
        ("100,000 elements", "map a to b/<expand(/l)>".into(), within(array(100_000)), "view-work"),
        (
            "100,000 elements, each filtered away",
            "map a to b/<expand(/l)> where value > 1".into(),
            within(array(100_000)),
            "view-work",
        ),
        (
            "1,000 elements that each look through a large source",
            "map a to b/<expand(/l)> set /x = source/y".into(),
            format!("{{\"l\":{},\"z\":{}}}", array(1000), array(100_000)),
            "fine",
        ),
        (
            "1,000 elements that each become large",
            "map a to b/<expand(/l)> as source".into(),
            within(array(1000)),
            "fine",
        ),
        (
            "a letter that becomes 1,200 letters",
            format!("map a to b as replace(/t, \"a\", \"{}\")", "a".repeat(1200)),
            text(1000),
            "view-output-bytes",
        ),
        (
            "two large objects compared",
            "map a where /l/0 = /l/1 to b".into(),
            within(format!("[{0},{0}]", object(20_000))),
            "view-work",
        ),
        (
            "an array asked for each of its elements",
            "map a to b/<expand(/l)> where value in source/l".into(),
            within(object(900)),
            "view-work",
        ),
        (
            "3,000 elements that each ask for a large text of the source",
            "map a to b/<expand(/l)> where source/t = \"x\"".into(),
            format!("{{\"l\":{},\"t\":\"{}\"}}", array(3000), "\\n".repeat(100_000)),
            "view-work",
        ),
        (
            "a large text looked for among many",
            "map a to b where /t in /l".into(),
            format!("{{\"t\":\"{}\",\"l\":[{}1]}}", "\\n".repeat(100_000), "\"\",".repeat(9999)),
            "fine",
        ),
        (
            "slashes that each become 100 letters",
            format!("map a to b/<scalar(/t, \"{}\")>", "x".repeat(100)),
            format!("{{\"t\":\"{}\"}}", "/".repeat(300_000)),
            "view-work",
        ),
        (
            "equal objects nested 100 deep compared",
            "map a where /l/0 = /l/1 to b".into(),
            within(format!("[{0},{0} ]", format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100)))),
            "fine",
        ),
        (
            "a value of the greatest depth inside another",
            "map a to b as [value]".into(),
            format!("{}{}", "[".repeat(128), "]".repeat(128)),
            "view-depth",
        ),
        ("a value of 2 MiB", "map a to b set /x = 1".into(), text(2 << 20), "view-source-bytes"),
        (
            "a value of 2 MiB that is only passed on",
            "map a to b".into(),
            text(2 << 20),
            "view-source-bytes",
        ),
        (
            "a value nested 128 deep",
            "map a to b set /x = 1".into(),
            format!("{}{}", "[".repeat(128), "]".repeat(128)),
            "fine",
        ),
        (
            "a value nested 100,000 deep",
            "map a to b set /x = 1".into(),
            "[".repeat(100_000),
            "fine",
        ),
        (
            "2,000 values of other topics",
            "map a to b/<expand(/l)> insert c/<scalar(key)> at /x".into(),
            within(array(2000)),
            "view-lookups",
        ),
        (
            "numbers that overflow",
            "map a to b as [/n * /n * /n, -(/n), /n + /n, abs(/n), 1 / 0, 0 % 0]".into(),
            "{\"n\":-9223372036854775808}".into(),
            "fine",
        ),
        (
            "a number of 300 digits",
            "map a to b as fixed(/n, 15) + text(/n * 10)".into(),
            format!("{{\"n\":{}}}", "9".repeat(300)),
            "fine",
        ),
        (
            "a number of 300 digits and an exponent",
            "map a to b as [/n, /n + 1]".into(),
            format!("{{\"n\":{}e99}}", "9".repeat(300)),
            "fine",
        ),
        (
            "fields named like parts of objects elsewhere",
            "map a to b set /__proto__/x = 1, /constructor = 2".into(),
            "{}".into(),
            "fine",
        ),
        (
            "paths that values try to choose",
            "map a to safe/<expand(value)>".into(),
            "{\"../x\":1,\"a//b\":2,\"*\":3,\"#\":4,\"\":5,\"a\\u0000b\":6,\"$sys\":7}".into(),
            "fine",
        ),
        ("a path longer than allowed", "map a to b/<scalar(/t)>".into(), text(5000), "fine"),
        ("bytes that are no text", "map a to b set /x = 1".into(), "\u{fffd}".into(), "fine"),
    ]
}

#[test]
fn hostile_views_are_refused_stopped_or_harmless() {
    let path = Path::parse("a").unwrap();
    let limits = Limits::default();
    let mut wrong: Vec<String> = Vec::new();
    for (name, text, value, expected) in rows() {
        let view = match View::parse(&text) {
            Ok(view) => view,
            Err(error) => {
                let code = error.problem.code();
                assert_eq!(code, expected, "{name}: {error}");
                assert!(error.to_string().len() < 1024, "{name}");
                continue;
            }
        };
        let source = Source { path: &path, value: Some(value.as_bytes()), form: Form::Any };
        let made = view.outputs(source, &|_| None, limits);
        let code = made.stopped.map_or("fine", |stop| stop.code());
        if code != expected {
            wrong.push(format!("{name}: {code} after {} units, not {expected}", made.work));
        }
        assert!(made.work <= limits.work_max, "{name}");
        println!("{name}: {code}, {} outputs, {} units", made.outputs.len(), made.work);
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn bytes_that_are_no_text_give_nothing() {
    let path = Path::parse("a").unwrap();
    let view = View::parse("map a to b set /x = 1").unwrap();
    for (bytes, form) in
        [(&b"\xff\xfe"[..], Form::Any), (b"{\"a\":", Form::Json), (b"{}", Form::Bytes)]
    {
        let source = Source { path: &path, value: Some(bytes), form };
        assert!(view.outputs(source, &|_| None, Limits::default()).outputs.is_empty());
    }
}
