//! The table of verbs and what is read: each says of the other what is true.

#![allow(clippy::unwrap_used, clippy::panic)]

use tiderace_base::{Close, CloseCode, Time};
use tiderace_manage::{Effect, Field, FieldKind, VERBS, Verb};
use tiderace_topics::{Path, Pattern};

use crate::{
    BROWSE_LIMIT_MAX, BlockOperation, IdentityOperation, NodeOperation, Operation,
    PEEK_BODY_BYTES_MAX, PEEK_LIMIT_MAX, Reading, SESSIONS_LIMIT_MAX, TRACE_BODY_BYTES_MAX,
    TraceOperation,
};

fn parsed(text: &str) -> Result<Operation, Close> {
    let path = |text: &str| Path::parse(text).map_err(|_| CloseCode::BadDestination.into());
    let selector = |text: &str| {
        let one = |text| Pattern::parse(text).map_err(|_| Close::from(CloseCode::BadSelector));
        text.split(',').map(one).collect()
    };
    let reading = Reading { body: None, now: Time::ZERO, path: &path, selector: &selector };
    Operation::parse(text.as_bytes(), &reading)
}

/// The operation of a verb with the examples of those fields.
fn with<'a>(verb: &Verb, value: impl Fn(&Field) -> Option<&'a str>) -> String {
    let mut text = format!("{{\"do\":\"{}\"", verb.operation);
    let fixed = verb.fixed.iter().map(|(name, json)| (*name, Some(*json)));
    for (name, json) in fixed.chain(verb.fields.iter().map(|field| (field.name, value(field)))) {
        if let Some(json) = json {
            text.push_str(&format!(",\"{name}\":{json}"));
        }
    }
    text.push('}');
    text
}

/// The same with all fields, but for one that is another or absent.
fn asked(verb: &Verb, except: &str, instead: Option<&str>) -> String {
    with(verb, |field| if field.name == except { instead } else { Some(field.example) })
}

/// Every field of every verb.
fn fields() -> impl Iterator<Item = (&'static Verb, &'static Field)> {
    VERBS.iter().flat_map(|verb| verb.fields.iter().map(move |field| (verb, field)))
}

#[test]
fn each_verb_is_read_and_wants_what_it_requires_and_nothing_else() {
    for verb in VERBS {
        let whole = asked(verb, "", None);
        parsed(&whole).unwrap_or_else(|close| panic!("{whole}: {}", close.reason));
        let more = whole.replacen('{', "{\"nothing\":1,", 1);
        let refused = parsed(&more).unwrap_err();
        assert!(refused.reason.contains("`nothing`"), "{more}: {}", refused.reason);
    }
    for verb in VERBS {
        let least = with(verb, |field| field.required.then_some(field.example));
        // Nobody means all sessions by saying nothing.
        assert_eq!(parsed(&least).is_ok(), verb.some_of.is_empty(), "{least}");
        for one in verb.some_of {
            let enough =
                with(verb, |field| (field.required || field.name == *one).then_some(field.example));
            assert!(parsed(&enough).is_ok(), "{enough}");
        }
    }
    for (verb, field) in fields().filter(|(_, field)| field.required) {
        // A list of one session is without its id one of all.
        let is_filter = field.name == "id" && verb.operation == "sessions";
        let without = asked(verb, field.name, None);
        assert_eq!(parsed(&without).is_ok(), is_filter || !verb.some_of.is_empty(), "{without}");
    }
}

#[test]
fn fields_have_the_kinds_and_bounds_of_the_table() {
    for (verb, field) in fields() {
        let is_read = |value: &str| parsed(&asked(verb, field.name, Some(value))).is_ok();
        let (right, wrong): (Vec<String>, Vec<String>) = match field.kind {
            FieldKind::Text(0) => (vec![], vec!["7".into()]),
            FieldKind::Text(most) => {
                let text = |bytes| format!("\"{}\"", "a".repeat(bytes));
                (vec![text(most)], vec![text(most + 1), "7".into()])
            }
            FieldKind::Word(words) => {
                let words = words.iter().map(|word| format!("\"{word}\"")).collect();
                (words, vec!["\"nothing\"".into(), "7".into()])
            }
            FieldKind::Number(_) => {
                (vec!["0".into(), u64::MAX.to_string()], vec!["-1".into(), "\"x\"".into()])
            }
            FieldKind::Fraction => {
                let wrong = ["0", "1.1", "-0.5", "\"x\""];
                (["0.001", "1"].map(str::to_owned).into(), wrong.map(str::to_owned).into())
            }
            FieldKind::Truth => (vec!["false".into()], vec!["1".into(), "\"true\"".into()]),
            FieldKind::Span(most) => (
                vec![format!("\"{most}s\""), (most * 1000).to_string()],
                vec![format!("\"{}s\"", most + 1), "\"soon\"".into()],
            ),
            FieldKind::Texts(most) => {
                let text = field.example.trim_matches(['[', ']']);
                let list = |count: usize| format!("[{}]", vec![text; count].join(","));
                let more = (most > 0).then(|| list(most + 1));
                (vec![list(most.max(1))], more.into_iter().chain(["[7]".into()]).collect())
            }
        };
        for value in right {
            assert!(is_read(&value), "{}.{} = {value}", verb.name, field.name);
        }
        for value in wrong {
            assert!(!is_read(&value), "{}.{} = {value}", verb.name, field.name);
        }
    }
}

#[test]
fn a_number_above_its_bound_is_taken_as_the_bound() {
    for (verb, field) in fields() {
        let FieldKind::Number(most @ 1..) = field.kind else { continue };
        let operation = parsed(&asked(verb, field.name, Some("4000000000"))).unwrap();
        let taken = match operation {
            Operation::Sessions(query) => query.entries_max(),
            Operation::Blocks(asked) => match *asked {
                BlockOperation::List(query) => query.entries_max(),
                other => panic!("{other:?}"),
            },
            Operation::Node(asked) => match *asked {
                NodeOperation::Audit(query) => query.entries_max(),
                NodeOperation::Config(query) => query.entries_max(),
                NodeOperation::Identities(IdentityOperation::List { limit, .. }) => {
                    IdentityOperation::entries_max(limit)
                }
                other => panic!("{other:?}"),
            },
            Operation::Traces(asked) => match *asked {
                TraceOperation::Begin(request) => request.bodies as usize,
                other => panic!("{other:?}"),
            },
            Operation::Browse(browse) => browse.entries_max(),
            Operation::Queue(query) => query.consumers_max(),
            Operation::Peek(peek) if field.name == "limit" => peek.messages_max(),
            Operation::Peek(peek) => peek.body_bytes_max(),
            other => panic!("{other:?}"),
        };
        assert_eq!(taken as u64, most, "{}.{}", verb.name, field.name);
    }
    let bound = |verb, field| match tiderace_manage::verb(verb).and_then(|it| it.field(field)) {
        Some(Field { kind: FieldKind::Number(most), .. }) => *most,
        other => panic!("{other:?}"),
    };
    assert_eq!(bound("sessions", "limit"), u64::from(SESSIONS_LIMIT_MAX));
    assert_eq!(bound("queues", "limit"), u64::from(BROWSE_LIMIT_MAX));
    assert_eq!(bound("trace", "bodies"), u64::from(TRACE_BODY_BYTES_MAX));
    assert_eq!(bound("peek", "limit"), u64::from(PEEK_LIMIT_MAX));
    assert_eq!(bound("peek", "body_bytes"), u64::from(PEEK_BODY_BYTES_MAX));
}

#[test]
fn each_verb_that_changes_something_is_audited_by_its_name_and_no_other_is() {
    for verb in VERBS {
        let operation = parsed(&asked(verb, "dry_run", None)).unwrap();
        // What is read of a backup is part of one that was begun, which is audited.
        let changes = verb.effect == Effect::Changes && verb.name != "backup-read";
        assert_eq!(operation.word(), verb.operation, "{}", verb.name);
        let name = operation.audited().map(|audited| audited.verb);
        assert_eq!(name, changes.then_some(verb.operation), "{}", verb.name);
        let asks = verb.field("dry_run").is_some();
        let dry = parsed(&asked(verb, "", None)).unwrap();
        let is_dry = dry.audited().is_some_and(|audited| audited.is_dry);
        assert_eq!(is_dry, asks, "{}", verb.name);
    }
}

#[test]
fn a_verb_looks_after_the_node_if_it_takes_a_right_of_the_node() {
    for verb in VERBS {
        let operation = parsed(&asked(verb, "dry_run", None)).unwrap();
        let of_node = verb.rights.iter().any(|right| right.at.starts_with("$sys"));
        assert_eq!(operation.manages(), of_node, "{}", verb.name);
    }
    let fetch = |selector| parsed(&format!(r#"{{"do":"fetch","selector":{selector}}}"#)).unwrap();
    for (selector, manages) in [
        (r#""$sys/alarms/**""#, true),
        (r#""$sys/alarms/disk""#, true),
        (r#"["$sys/alarms/*","fx/*"]"#, false),
        (r#""$sys/**""#, false),
        (r#""**""#, false),
    ] {
        assert_eq!(fetch(selector).manages(), manages, "{selector}");
    }
}

#[test]
fn a_list_of_selectors_has_a_bound_that_counts_what_is_in_sets() {
    for verb in ["fetch", "remove"] {
        let with = |set: &str, count: usize| {
            let sets = vec![format!("\"{set}\""); count].join(",");
            parsed(&format!(r#"{{"do":"{verb}","selector":[{sets}]}}"#))
        };
        assert!(with("a/*", 64).is_ok() && with("a/*,b/*", 32).is_ok());
        for wrong in [with("a/*", 65), with("a/*,b/*", 33)] {
            let close = wrong.unwrap_err();
            assert_eq!(close.code, CloseCode::BadOperation);
            assert!(close.reason.contains("at most 64 patterns"), "{}", close.reason);
        }
    }
}
