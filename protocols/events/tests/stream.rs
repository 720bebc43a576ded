//! Streams: sentences of the HTML standard's section "Server-sent events", and our own promises.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{ANN, World};
use tiderace_base::Span;

/// An event as a browser dispatches it: "The stream must then be parsed by reading everything line
/// by line".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
    id: String,
}

/// The parser of the standard, section 9.2.6.
fn parse(stream: &str) -> Vec<Event> {
    let (mut events, mut event, mut has_data) = (Vec::new(), Event::default(), false);
    let normal = stream.replace("\r\n", "\n").replace('\r', "\n");
    for line in normal.split('\n') {
        if line.is_empty() {
            let id = event.id.clone();
            if has_data {
                event.data.pop();
                events.push(std::mem::take(&mut event));
            }
            event = Event { id, ..Event::default() };
            has_data = false;
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => event.name = value.to_owned(),
            "data" => {
                event.data += value;
                event.data.push('\n');
                has_data = true;
            }
            "id" => event.id = value.to_owned(),
            "" | "retry" => {}
            other => panic!("unknown field {other:?} in {stream:?}"),
        }
    }
    events
}

fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").unwrap().1
}

fn messages(text: &str) -> Vec<Event> {
    parse(body(text))
        .into_iter()
        .filter(|event| event.name.is_empty() || event.name == "binary")
        .collect()
}

#[test]
fn a_stream_begins_in_what_its_topic_keeps() {
    let mut world = World::new();
    world.ask("PUT /topics/log?create", &[ANN], b"{\"history\":5}");
    for number in 0..9 {
        world.ask("POST /topics/log", &[ANN], format!("n{number}").as_bytes());
    }
    let client = world.send("GET /events?topic=log&replay=last:3", &[ANN], b"");
    world.wait(client, "n8");
    world.ask("POST /topics/log", &[ANN], b"live");
    let text = world.wait(client, "live");
    let seen: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert!(seen.ends_with(&["n6", "n7", "n8", "live"]), "{text}");
    assert!(!text.contains("n5"), "{text}");
    assert_eq!(world.get("GET /events?topic=log&replay=all").status, 400);
}

#[test]
fn a_stream_begins_with_the_value_and_goes_on() {
    for seed in 0..20 {
        let mut world = World::with(seed, |_| {});
        world.ask("PUT /topics/fx/EUR", &[ANN], b"1.07");
        let stream =
            world.send("GET /events?topic=fx/EUR", &[ANN, "Accept: text/event-stream"], b"");
        world.wait(stream, "data: 1.07\n");
        for n in 0..10 {
            world.ask("POST /topics/fx/EUR", &[ANN], format!("value {n}").as_bytes());
        }
        let text = world.wait(stream, "data: value 9\n");
        assert!(text.contains("Content-Type: text/event-stream\r\n"), "{text}");
        assert!(!text.contains("Content-Length"), "{text}");
        assert!(body(&text).starts_with("retry: 2000\nevent: ready\n"), "{text}");
        let data: Vec<_> = messages(&text).into_iter().map(|event| event.data).collect();
        let expected: Vec<_> = std::iter::once("1.07".to_owned())
            .chain((0..10).map(|n| format!("value {n}")))
            .collect();
        assert_eq!(data, expected, "seed {seed}");
    }
}

#[test]
fn data_may_hold_anything() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    let bodies: [&[u8]; 9] = [
        b"one\ntwo",
        b"",
        b"\n",
        b"one\r\ntwo\rthree",
        b": no comment",
        b"id: 7\n\ndata: x",
        " fünf \u{1f30a}".as_bytes(),
        b"retry: 1\n\n\n",
        b"\xff\x00",
    ];
    for body in bodies {
        world.ask("POST /topics/a", &[ANN], if body.is_empty() { b"EMPTY" } else { body });
    }
    world.ask("POST /topics/a", &[ANN], b"last");
    let events = messages(&world.wait(stream, "data: last\nid: "));
    let data: Vec<_> = events.iter().map(|event| event.data.as_str()).collect();
    assert_eq!(
        data,
        [
            "one\ntwo",
            "EMPTY",
            "\n",
            "one\ntwo\nthree",
            ": no comment",
            "id: 7\n\ndata: x",
            " fünf \u{1f30a}",
            "retry: 1\n\n\n",
            "/wA=",
            "last",
        ]
    );
    assert_eq!(events[8].name, "binary");
}

#[test]
fn several_topics_come_as_objects_that_name_theirs() {
    let mut world = World::with(2, |_| {});
    let line = "GET /events?topic=fx%2F*&topic=fx/EUR&topic=news/today&topic=fx/U*";
    let stream = world.send(line, &[ANN], b"");
    world.wait(stream, "event: ready");
    let json = "Content-Type: application/json";
    world.ask(
        "POST /topics/fx/EUR",
        &[ANN, json, "Tiderace-Property-Region: eu"],
        b"{\"bid\":\n1}",
    );
    world.ask("POST /topics/news/today", &[ANN], b"a\nb");
    world.ask("POST /topics/news/other", &[ANN], b"no");
    world.ask("POST /topics/fx/USD", &[ANN, "Content-Type: image/png"], b"\x89");
    let text = world.wait(stream, "image/png");
    let mut data: Vec<_> = messages(&text).into_iter().map(|event| event.data).collect();
    for text in &mut data {
        // Versions are the broker's business.
        if let Some(at) = text.find(",\"version\":") {
            let end = at + 1 + text[at + 1..].find(',').unwrap();
            text.replace_range(at..end, "");
        }
    }
    assert_eq!(
        data,
        [
            "{\"topic\":\"fx/EUR\",\"properties\":{\"region\":\"eu\"},\"value\":{\"bid\": 1}}",
            "{\"topic\":\"news/today\",\"value\":\"a\\nb\"}",
            "{\"topic\":\"fx/USD\",\"contentType\":\"image/png\",\"base64\":\"iQ==\"}",
        ],
        "each once, although several targets match"
    );
}

#[test]
fn the_same_as_lines_of_json() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN, "Accept: application/x-ndjson"], b"");
    world.wait(stream, "\"ready\"");
    world.ask("PUT /topics/a", &[ANN], b"x\ny");
    world.ask("DELETE /topics/a", &[ANN], b"");
    let text = world.wait(stream, "\"removed\":true");
    assert!(text.contains("Content-Type: application/x-ndjson\r\n"), "{text}");
    let lines: Vec<_> = body(&text).lines().collect();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert!(line.starts_with('{') && line.ends_with("\"}"), "{line}");
        assert!(line.contains("\"position\":\""), "{line}");
    }
    assert!(lines[1].contains("\"value\":\"x\\ny\""), "{lines:?}");
}

#[test]
fn the_form_can_be_chosen() {
    let mut world = World::new();
    world.ask("PUT /topics/a", &[ANN], b"x");
    for (query, accept, starts) in [
        ("topic=a&envelope=true", "*/*", "data: {\"topic\":\"a\""),
        ("topic=a", "text/*;q=0.5", "data: x"),
        ("topic=*&envelope=false", "text/event-stream", "data: x"),
        ("topic=a", "application/x-ndjson, */*", "{\"topic\":\"a\""),
    ] {
        let stream =
            world.send(&format!("GET /events?{query}"), &[ANN, &format!("Accept: {accept}")], b"");
        world.wait(stream, starts);
    }
    let refused = world.ask("GET /events?topic=a", &[ANN, "Accept: image/png"], b"");
    assert_eq!((refused.status, refused.text().contains("not-acceptable")), (406, true));
}

#[test]
fn refusals_are_answers_not_streams() {
    let mut world = World::with(1, |options| options.topics_max = 2);
    for (line, field, status) in [
        ("GET /events", ANN, 400),
        ("GET /events?topic=", ANN, 400),
        ("GET /events?topic=a%", ANN, 400),
        ("GET /events?topic=closed/a", ANN, 403),
        ("GET /events?topic=a", "Authorization: Bearer wrong", 401),
        ("GET /events?topic=a&topic=b&topic=c", ANN, 429),
        ("POST /events?topic=a", ANN, 405),
    ] {
        let answer = world.ask(line, &[field], b"");
        assert_eq!(answer.status, status, "{line}: {}", answer.text());
        assert!(answer.text().starts_with("{\"code\":\""), "{}", answer.text());
    }
}

#[test]
fn quiet_streams_show_that_they_live() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    world.run_for(Span::from_secs(31));
    let text = world.text(stream);
    assert_eq!(body(&text).matches("\n:\n").count(), 2, "{text}");
    assert_eq!(parse(body(&text)).len(), 1, "comments are no events");
}

#[test]
fn the_last_event_of_a_turn_carries_the_position() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    let items: Vec<_> = (0..50).map(|n| format!("{{\"topic\":\"a\",\"text\":\"{n}\"}}")).collect();
    world.ask("POST /batch", &[ANN], format!("[{}]", items.join(",")).as_bytes());
    world.run_until("fifty", |world| messages(&world.text(stream)).len() == 50);
    let ids: std::collections::BTreeSet<_> =
        parse(body(&world.text(stream))).into_iter().map(|event| event.id).collect();
    assert!(ids.len() >= 2 && ids.len() < 50, "{ids:?}");
    assert!(!world.text(stream)["HTTP/1.1".len()..].trim_end().ends_with("data: 49"));
}

#[test]
fn an_unknown_position_is_told_as_a_gap() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN, "Last-Event-ID: nonsense"], b"");
    world.wait(stream, "event: gap");
    let stream = world.send("GET /events?topic=a&lastEventId=", &[ANN], b"");
    world.wait(stream, "event: ready");
}

#[test]
fn a_client_comes_back_to_where_a_gap_was_told() {
    let mut world = World::new();
    // Their homes are different shards.
    for topic in ["a", "b", "c", "d", "e", "f"] {
        world.ask(&format!("POST /topics/{topic}"), &[ANN], b"before");
        let line = format!("GET /events?topic={topic}");
        // A position of another life of the server.
        let stream = world.send(&line, &[ANN, "Last-Event-ID: BQA"], b"");
        world.wait(stream, "event: gap");
        world.run_until("its end", |world| !parse(body(&world.text(stream))).is_empty());
        let gap = parse(body(&world.text(stream))).remove(0);
        let known = format!("Last-Event-ID: {}", gap.id);
        let stream = world.send(&line, &[ANN, &known], b"");
        let text = world.wait(stream, "event: ");
        assert!(text.contains("event: recovered"), "{topic}: {text}");
    }
}

#[test]
fn a_stream_says_why_it_ends() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    world.stop();
    let events = parse(body(&world.text(stream)));
    let last = events.last().unwrap();
    assert_eq!(last.name, "end");
    assert!(last.data.contains("\"code\":\"shutting-down\""), "{last:?}");
}

#[test]
fn a_client_that_leaves_takes_its_session_along() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    assert_eq!(world.connections(), 1);
    world.network.finish(stream);
    world.run_until("the end", |world| world.connections() == 0);
}

#[test]
fn clients_of_old_get_no_chunks() {
    let mut world = World::new();
    let stream = world.network.connect(0);
    let head = format!("GET /events?topic=a HTTP/1.0\r\n{ANN}\r\n\r\n");
    world.network.send(stream, head.as_bytes());
    let text = world.wait(stream, "event: ready");
    assert!(!text.contains("chunked") && body(&text).starts_with("retry: 2000\n"), "{text}");
    world.ask("POST /topics/a", &[ANN], b"x");
    world.wait(stream, "data: x\nid: ");
}

#[test]
fn the_end_of_a_stream_can_be_told_from_a_cut() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    world.stop();
    assert!(world.network.received(stream).ends_with(b"0\r\n\r\n"));
}

#[test]
fn very_many_topics_are_told_before_the_subscription_is_made() {
    let mut world = World::new();
    let names: Vec<String> = (0..2_000).map(|number| format!("log/{number}")).collect();
    for name in &names {
        let lines = [r#"{"topic":""#, name, r#"","value":1,"retain":true}"#].concat();
        world.ask(
            "POST /batch",
            &[ANN, "Content-Type: application/json"],
            format!("[{lines}]").as_bytes(),
        );
    }
    for method in ["GET", "HEAD"] {
        let client = world.send(&format!("{method} /events?topic=log/*&notices=true"), &[ANN], b"");
        if method == "HEAD" {
            assert!(world.wait(client, "text/event-stream").starts_with("HTTP/1.1 200"));
            continue;
        }
        let text = world.wait(client, "event: ready");
        let events = parse(body(&text));
        let count = |name: &str| events.iter().filter(|event| event.name == name).count();
        assert_eq!((count("joined"), count("ready")), (names.len(), 1));
        // Values of a home that has answered may come before those of others, but nothing before its topic.
        let first = events.iter().position(|event| event.name != "joined").unwrap();
        assert_eq!(first, names.len(), "all are told before any message");
    }
}
