//! REST, from request bytes to answer bytes, over the real event loop and broker.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::{ANN, World};
use tiderace_base::Span;
use tiderace_events::ListBudget;

#[test]
fn a_value_is_put_got_and_deleted() {
    for seed in 0..20 {
        let mut world = World::with(seed, |_| {});
        let missing = world.get("GET /topics/fx/EUR");
        assert_eq!(missing.status, 404);
        assert_eq!(missing.field("content-type"), Some("application/json"));
        assert!(missing.text().starts_with("{\"code\":\"not-found\""), "{}", missing.text());
        let put = world.ask("PUT /topics/fx/EUR", &[ANN, "Content-Type: image/png"], b"\x89PNG");
        assert_eq!((put.status, put.text()), (200, "{\"accepted\":1}\n"));
        let got = world.get("GET /topics/fx/EUR");
        assert_eq!((got.status, &*got.body), (200, &b"\x89PNG"[..]), "seed {seed}");
        assert_eq!(got.field("content-type"), Some("image/png"));
        assert_eq!(world.get("DELETE /topics/fx/EUR").status, 204);
        assert_eq!(world.get("GET /topics/fx/EUR").status, 404);
    }
}

#[test]
fn a_post_is_kept_only_if_asked() {
    let mut world = World::new();
    for (line, field, status) in [
        ("POST /topics/a", "X: y", 404),
        ("POST /topics/b?retain=true", "X: y", 200),
        ("POST /topics/c", "Tiderace-Retain: true", 200),
        ("PUT /topics/d?retain=false", "X: y", 404),
    ] {
        assert_eq!(world.ask(line, &[ANN, field], b"x").status, 200, "{line}");
        let path = line.split([' ', '?']).nth(1).unwrap();
        assert_eq!(world.get(&format!("GET {path}")).status, status, "{line}");
    }
    assert_eq!(world.ask("POST /topics/a?retain=perhaps", &[ANN], b"x").status, 400);
}

#[test]
fn a_persistent_message_for_a_queue_wants_a_store() {
    let mut world = World::new();
    for (line, field, status) in [
        ("POST /queues/a?persistent=true", "X: y", 422),
        ("POST /queues/a", "Tiderace-Persistent: true", 422),
        ("POST /queues/a?persistent=false", "X: y", 200),
        ("POST /queues/a?persistent=perhaps", "X: y", 400),
        ("POST /topics/a?persistent=true", "X: y", 200),
    ] {
        let answer = world.ask(line, &[ANN, field], b"x");
        assert_eq!(answer.status, status, "{line}: {:?}", String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn tags_spare_what_the_client_has() {
    let mut world = World::new();
    world.ask("PUT /topics/a", &[ANN], b"one");
    let first = world.get("GET /topics/a");
    let tag = first.field("etag").unwrap().to_owned();
    let known = format!("If-None-Match: \"x\", {tag}");
    let second = world.ask("GET /topics/a", &[ANN, &known], b"");
    assert_eq!((second.status, second.body.len()), (304, 0));
    assert_eq!(second.field("etag"), Some(&*tag));
    world.ask("PUT /topics/a", &[ANN], b"one");
    assert_eq!(world.ask("GET /topics/a", &[ANN, &known], b"").status, 200);
}

#[test]
fn a_value_that_is_not_the_wanted_one_is_not_told() {
    let mut world = World::new();
    world.ask("PUT /topics/a", &[ANN], b"one");
    let tag = world.get("GET /topics/a").field("etag").unwrap().to_owned();
    for (wanted, status) in [
        (&*tag, 200),
        ("*", 200),
        (&format!("\"x\", {tag}"), 200),
        ("\"x\"", 412),
        (&format!("W/{tag}"), 412),
    ] {
        let field = format!("If-Match: {wanted}");
        for method in ["GET", "HEAD"] {
            let answer = world.ask(&format!("{method} /topics/a"), &[ANN, &field], b"");
            assert_eq!(answer.status, status, "{method} {wanted}");
        }
        assert_eq!(world.ask("GET /topics/none", &[ANN, &field], b"").status, 412, "{wanted}");
    }
    // Changes take the same lists.
    let several = format!("If-Match: \"x\", {tag}");
    assert_eq!(world.ask("PUT /topics/a", &[ANN, "If-Match: \"x\", \"y\""], b"two").status, 412);
    assert_eq!(world.ask("PUT /topics/a", &[ANN, &several], b"two").status, 200);
    assert_eq!(world.ask("PUT /topics/a", &[ANN, &several], b"three").status, 412);
    let many = format!("If-Match: {}", vec!["\"x\""; 17].join(","));
    assert_eq!(world.ask("PUT /topics/a", &[ANN, &many], b"three").status, 400);
}

#[test]
fn a_patch_of_another_type_is_told_which_there_are() {
    let mut world = World::new();
    world.ask("PUT /topics/a", &[ANN, "Content-Type: application/json"], b"{}");
    let types = Some("application/json-patch+json, application/merge-patch+json");
    let refused = world.ask("PATCH /topics/a", &[ANN, "Content-Type: text/plain"], b"{}");
    assert_eq!((refused.status, refused.field("accept-patch")), (415, types));
    assert_eq!(world.get("OPTIONS /topics/a").field("accept-patch"), types);
    assert_eq!(world.get("OPTIONS /queues/a").field("accept-patch"), None);
}

#[test]
fn head_of_a_stream_is_its_head() {
    let mut world = World::new();
    for (accept, kind) in
        [("*/*", "text/event-stream"), ("application/x-ndjson", "application/x-ndjson")]
    {
        let accept = format!("Accept: {accept}");
        let head = world.ask("HEAD /events?topic=a", &[ANN, &accept], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.field("content-type"), Some(kind));
        assert_eq!(head.field("content-length"), None, "a stream has none");
    }
    assert_eq!(world.get("HEAD /events").status, 400);
    assert_eq!(world.get("HEAD /views").status, world.get("GET /views").status);
    let refused = world.ask("GET /events?topic=a", &[ANN, "Accept: text/event-stream;q=0"], b"");
    assert_eq!(refused.status, 406);
}

#[test]
fn head_is_get_without_the_body() {
    let mut world = World::new();
    world.ask("PUT /topics/a", &[ANN], b"12345");
    let head = world.get("HEAD /topics/a");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.field("content-length"), Some("5"));
    assert_eq!(world.get("HEAD /topics/none").status, 404);
}

#[test]
fn names_are_percent_decoded_and_the_tilde_is_ones_own() {
    let mut world = World::new();
    world.ask("PUT /topics/m%C3%BCnchen%20a/b", &[ANN], b"1");
    assert_eq!(world.get("GET /topics/m%c3%bcnchen%20a%2Fb").text(), "1");
    world.ask("PUT /topics/~/inbox", &[ANN], b"mine");
    assert_eq!(world.get("GET /topics/user/ann/inbox").text(), "mine");
    assert_eq!(world.ask("GET /topics/user/ann/inbox", &[], b"").status, 403);
    assert_eq!(world.ask("GET /topics/~/inbox", &[], b"").status, 401);
    for bad in ["%", "%zz", "%ff", "a//b", "a/", "/a", "a%00b", "*", "a/%23"] {
        let answer = world.get(&format!("GET /topics/{bad}"));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
    }
}

#[test]
fn everybody_says_who_they_are_in_one_of_three_ways() {
    let mut world = World::new();
    for (line, field, status) in [
        ("PUT /topics/user/ann/x", ANN, 200),
        ("PUT /topics/user/ann/x", "Authorization: Basic YW5uOnBhc3M6d29yZA==", 200),
        ("PUT /topics/user/ann/x?access_token=secret", "X: y", 200),
        ("GET /topics/user/ann/x", "X: y", 403),
        ("PUT /topics/user/ann/x", "Authorization: Bearer wrong", 401),
        ("PUT /topics/user/ann/x", "Authorization: Basic YW5uOndyb25n", 401),
        ("PUT /topics/user/ann/x", "Authorization: Digest x", 401),
        ("PUT /topics/user/ann/x?access_token=wrong", "X: y", 401),
        ("PUT /topics/closed/x", ANN, 403),
    ] {
        let answer = world.ask(line, &[field], b"x");
        assert_eq!(answer.status, status, "{line} {field}: {}", answer.text());
        assert_eq!(answer.field("www-authenticate").is_some(), status == 401);
    }
}

#[test]
fn lists_that_nobody_takes_are_bounded_together() {
    let mut world = World::with(2, |options| options.lists = Arc::new(ListBudget::new(3000)));
    for name in ["fx/a", "fx/b"] {
        world.ask(&format!("PUT /topics/{name}"), &[ANN], &[b'x'; 1000]);
    }
    for _ in 0..3 {
        let list = world.get("GET /topics?pattern=fx/*");
        assert_eq!((list.status, list.text().contains("complete")), (200, true));
    }
    world.ask("PUT /topics/fx/c", &[ANN], &[b'x'; 1000]);
    for _ in 0..3 {
        let refused = world.get("GET /topics?pattern=fx/*");
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("5")));
        assert!(refused.text().starts_with("{\"code\":\"lists-busy\""), "{}", refused.text());
    }
    assert_eq!(world.get("GET /topics?pattern=fx/a").status, 200, "what was refused holds nothing");
}

#[test]
fn lists_hold_the_retained_values_of_a_pattern() {
    let mut world = World::with(2, |_| {});
    for name in ["fx/a", "fx/b", "fx/c", "other"] {
        world.ask(&format!("PUT /topics/{name}"), &[ANN, "Content-Type: application/json"], b"[1]");
    }
    world.ask("PUT /topics/closed", &[ANN], b"1");
    let list = world.get("GET /topics?pattern=fx/*");
    assert!(list.text().ends_with("],\"complete\":true}\n"), "{}", list.text());
    for name in ["fx/a", "fx/b", "fx/c"] {
        assert!(list.text().contains(&format!("{{\"topic\":\"{name}\"")), "{}", list.text());
    }
    assert!(!list.text().contains("other"));
    assert!(list.text().contains("\"value\":[1]}"));
    let of_set = world.get("GET /topics?pattern=%5B%3Ffx/%5BA-Z%5D%7B3%7D.*,fx/*%5D");
    assert_eq!(of_set.text(), list.text());
    let cut = world.get("GET /topics?pattern=fx/*&limit=2");
    assert_eq!(cut.text().matches("\"topic\":").count(), 2);
    assert!(cut.text().ends_with("\"complete\":false}\n"));
    assert_eq!(
        world.get("GET /topics?pattern=none/**").text(),
        "{\"topics\":[],\"complete\":true}\n"
    );
    for bad in [
        "limit=0",
        "limit=x",
        "limit=10001",
        "pattern=a**b",
        "pattern=%3Fa(",
        "pattern=%5Ba",
        "pattern=%",
    ] {
        assert_eq!(world.get(&format!("GET /topics?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn bodies_are_checked_and_bounded() {
    let mut world = World::new();
    let json = "Content-Type: application/json";
    assert_eq!(world.ask("PUT /topics/a", &[ANN, json], b"{\"a\":").status, 400);
    assert_eq!(world.ask("PUT /topics/a", &[ANN], &[b'x'; 100_000]).status, 200);
    let refused = world.ask("PUT /topics/a", &[ANN], &[b'x'; 100_001]);
    assert_eq!((refused.status, refused.text().contains("frame-too-large")), (413, true));
    assert_eq!(world.get("GET /topics/a").body.len(), 100_000);
}

#[test]
fn a_value_may_end_by_itself() {
    let mut world = World::new();
    world.ask("PUT /topics/a?ttl=2s", &[ANN], b"x");
    assert_eq!(world.get("GET /topics/a").status, 200);
    world.run_for(Span::from_secs(3));
    assert_eq!(world.get("GET /topics/a").status, 404);
    assert_eq!(world.ask("PUT /topics/a?ttl=never", &[ANN], b"x").status, 400);
}

#[test]
fn batches_say_what_became_of_each() {
    let mut world = World::with(2, |_| {});
    let body = br#"[{"topic": "a", "value": {"x": 1}, "retain": true},
        {"topic": "closed/x", "value": 1}, {"topic": "a//b", "value": 1}, 7,
        {"queue": "q", "text": "hi"}, {"topic": "~/b", "base64": "/w==", "retain": true}]"#;
    let answer = world.ask("POST /batch", &[ANN], body);
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        text.starts_with("{\"accepted\":3,\"refused\":3,\"results\":[{\"accepted\":1},"),
        "{text}"
    );
    assert_eq!(text.matches("not-authorised").count(), 1);
    assert_eq!(world.get("GET /topics/a").text(), "{\"x\": 1}");
    assert_eq!(world.get("GET /topics/user/ann/b").body, b"\xff");
    for (bad, status) in [(&b"{}"[..], 400), (b"[", 400), (&[b' '; 50_001], 413)] {
        assert_eq!(world.ask("POST /batch", &[ANN], bad).status, status);
    }
    assert_eq!(
        world.ask("POST /batch", &[ANN], b"[]").text(),
        "{\"accepted\":0,\"refused\":0,\"results\":[]}\n"
    );
}

#[test]
fn a_request_that_comes_again_is_not_done_again() {
    let mut world = World::with(3, |_| {});
    let listener = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(listener, "event: ready");
    let key = "Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324";
    let first = world.ask("POST /topics/a", &[ANN, key], b"once");
    let again = world.ask("POST /topics/a", &[ANN, key], b"once");
    assert_eq!((first.status, first.field("idempotency-replayed")), (200, None));
    assert_eq!((again.status, again.field("idempotency-replayed")), (200, Some("true")));
    assert_eq!(first.body, again.body);
    assert_eq!(world.ask("POST /topics/a", &[ANN, key], b"other").status, 422);
    assert_eq!(world.ask("POST /topics/a", &[key], b"once").field("idempotency-replayed"), None);
    world.ask("POST /topics/a", &[ANN], b"last");
    let text = world.wait(listener, "data: last");
    assert_eq!(text.matches("data: once").count(), 2, "ann's and the stranger's: {text}");
    assert_eq!(world.ask("POST /topics/a", &[ANN, "Idempotency-Key: "], b"x").status, 400);
}

#[test]
fn a_key_is_one_of_a_virtual_host_by_whatever_name_that_is_reached() {
    let mut world = World::new();
    let mut replayed = |host: &str| {
        let fields = [ANN, "Idempotency-Key: k", &format!("Host: {host}")];
        let answer = world.ask("POST /topics/a", &fields, b"once");
        assert_eq!(answer.status, 200, "{host}");
        answer.field("idempotency-replayed").is_some()
    };
    for (host, known) in [
        ("localhost", false),
        ("127.0.0.1:7800", true),
        ("somewhere", true),
        ("shop.example", false),
        ("WWW.shop.example:80", true),
        ("bank.example", false),
        ("www.bank.example", true),
        ("127.0.0.1", true),
    ] {
        assert_eq!(replayed(host), known, "{host}");
    }
}

#[test]
fn a_refused_request_frees_its_key() {
    let mut world = World::new();
    let key = "Idempotency-Key: k";
    assert_eq!(world.ask("POST /topics/closed/a", &[ANN, key], b"x").status, 403);
    let again = world.ask("POST /topics/closed/a", &[ANN, key], b"x");
    assert_eq!((again.status, again.field("idempotency-replayed")), (403, None));
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let mut world = World::with(2, |_| {});
    let client = world.network.connect(0);
    for n in 0..20 {
        let text =
            format!("PUT /topics/t/{n} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{n:02}");
        world.network.send(client, text.as_bytes());
        world
            .network
            .send(client, format!("GET /topics/t/{n} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    }
    world.run_until("forty answers", |world| {
        world.text(client).matches("HTTP/1.1 200").count() == 40
    });
    let text = world.text(client);
    let bodies: Vec<_> = text.split("\r\n\r\n").skip(2).step_by(2).map(|part| &part[..2]).collect();
    let expected: Vec<_> = (0..20).map(|n| format!("{n:02}")).collect();
    assert_eq!(bodies, expected);
    world.run_until("sessions to end", |world| world.connections() == 1);
}

#[test]
fn pages_of_other_origins_may_read_the_answers() {
    let mut world = World::new();
    let good = world.ask("GET /topics/a", &[ANN, "Origin: https://good"], b"");
    assert_eq!(good.field("access-control-allow-origin"), Some("https://good"));
    let bad = world.ask("GET /topics/%", &[ANN, "Origin: https://good"], b"");
    assert_eq!(bad.field("access-control-allow-origin"), Some("https://good"));
}

#[test]
fn a_value_is_changed_only_as_it_was_seen() {
    let mut world = World::new();
    let first = world.ask(
        "PUT /topics/a",
        &[ANN, "If-None-Match: *", "Content-Type: application/json"],
        b"{\"n\":1}",
    );
    assert_eq!(first.status, 200, "{}", first.text());
    assert!(first.text().starts_with("{\"version\":"));
    let again = world.ask("PUT /topics/a", &[ANN, "If-None-Match: *"], b"x");
    assert_eq!((again.status, again.text().contains("condition-failed")), (412, true));
    let tag = world.get("GET /topics/a").field("etag").unwrap().to_owned();
    let known = format!("If-Match: {tag}");
    let merge = [ANN, "Content-Type: application/merge-patch+json", &known];
    assert_eq!(world.ask("PATCH /topics/a", &merge, b"{\"m\":2}").status, 200);
    assert_eq!(world.ask("PATCH /topics/a", &merge, b"{\"m\":3}").status, 412);
    let got = world.get("GET /topics/a");
    assert_eq!(
        (got.text(), got.field("content-type")),
        ("{\"n\":1,\"m\":2}", Some("application/json"))
    );
    let patch = [ANN, "Content-Type: application/json-patch+json"];
    let test = b"[{\"op\":\"test\",\"path\":\"/n\",\"value\":7}]";
    assert_eq!(world.ask("PATCH /topics/a", &patch, test).status, 422);
    let json = [ANN, "Content-Type: application/json"];
    assert_eq!(world.ask("PATCH /topics/a", &json, b"[]").status, 415);
}

#[test]
fn topics_are_created_listed_and_removed() {
    for seed in 0..6 {
        let mut world = World::with(seed, |_| {});
        let spec = br#"{"type":"int64","history":10}"#;
        assert_eq!(
            world.ask("PUT /topics/n/1?create", &[ANN], spec).text(),
            "{\"existed\":false}\n"
        );
        assert_eq!(
            world.ask("PUT /topics/n/1?create", &[ANN], spec).text(),
            "{\"existed\":true}\n"
        );
        assert_eq!(world.ask("PUT /topics/n/1?create", &[ANN], b"{}").status, 409);
        assert_eq!(world.ask("PUT /topics/n/2?create", &[ANN], b"{\"type\":\"odd\"}").status, 400);
        for number in ["1", "2", "3"] {
            assert_eq!(world.ask("PUT /topics/n/1", &[ANN], number.as_bytes()).status, 200);
        }
        let wrong = world.ask("PUT /topics/n/1", &[ANN], b"many");
        assert_eq!(
            (wrong.status, wrong.text().contains("bad-value")),
            (422, true),
            "{}",
            wrong.text()
        );
        let history = world.get("GET /topics/n/1?history&last=2");
        assert!(
            history.text().contains("\"text\":\"2\"") && history.text().contains("\"text\":\"3\""),
            "{}",
            history.text()
        );
        world.ask("PUT /topics/n/2", &[ANN], b"x");
        let listed = world.get("GET /topics?selector=n/**&values=true&limit=1");
        assert!(
            listed.text().contains("\"path\":\"n/1\"")
                && listed.text().contains("\"more\":true,\"next\":\"n/1\""),
            "{}",
            listed.text()
        );
        let rest = world.get("GET /topics?selector=n/**&after=n/1");
        assert!(
            rest.text().contains("\"path\":\"n/2\"") && rest.text().contains("\"more\":false"),
            "{}",
            rest.text()
        );
        assert_eq!(world.get("DELETE /topics?selector=n/**").text(), "{\"topics\":2}\n");
        assert_eq!(world.get("DELETE /topics").status, 400);
    }
}

#[test]
fn operations_are_said_in_json() {
    let mut world = World::new();
    let ask =
        |world: &mut World, text: &str| world.ask("POST /operations", &[ANN], text.as_bytes());
    let made =
        ask(&mut world, r#"{"do":"update","path":"~/box","value":[1],"if":{"absent":true}}"#);
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(world.get("GET /topics/user/ann/box").text(), "[1]");
    for (text, status, part) in [
        ("{", 400, "no JSON"),
        ("[]", 400, "JSON object"),
        (r#"{"do":"fly"}"#, 400, "is one of create"),
        (r#"{"do":"lock","name":"l"}"#, 400, "is about a session"),
        (r#"{"do":"history","path":"nothing"}"#, 404, "topic-unknown"),
        (r#"{"do":"update","path":"$sys/x","value":1}"#, 403, "topic-read-only"),
    ] {
        let answer = ask(&mut world, text);
        assert_eq!(
            (answer.status, answer.text().contains(part)),
            (status, true),
            "{text}: {}",
            answer.text()
        );
    }
}

#[test]
fn queues_are_looked_into_and_purged() {
    let mut world = World::new();
    for (body, ttl) in [("one", "ttl=1h"), ("two", "ttl=0s"), ("{\"n\":3}", "ttl=0s")] {
        let line = match ttl {
            "ttl=0s" => "POST /queues/jobs/a".to_owned(),
            ttl => format!("POST /queues/jobs/a?{ttl}"),
        };
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        let kind = format!("Content-Type: {kind}");
        assert_eq!(world.ask(&line, &[ANN, &kind], body.as_bytes()).status, 200);
    }
    assert_eq!(world.ask("POST /queues/other", &[ANN], b"x").status, 200);
    let mut text = |line: &str| {
        let answer = world.ask(line, &[ANN], b"");
        (answer.status, answer.text().to_owned())
    };
    // A page is of one shard, and may be empty.
    let (mut list, mut line) = (String::new(), "GET /queues?pattern=jobs/**".to_owned());
    loop {
        let (status, page) = text(&line);
        assert_eq!(status, 200, "{page}");
        list.push_str(&page);
        let Some((_, next)) = page.split_once(r#""next":""#) else { break };
        line = format!("GET /queues?pattern=jobs/**&after={}", next.split('"').next().unwrap());
    }
    assert!(list.contains(r#"{"path":"jobs/a","messages":3,"in_flight":0"#), "{list}");
    assert!(!list.contains("other"), "{list}");
    let (status, queue) = text("GET /queues/jobs/a");
    assert_eq!(status, 200);
    for part in
        [r#""options":{"memory_bytes_max":"#, r#""dead_letter":"dlq/jobs/a""#, r#""listed":[]"#]
    {
        assert!(queue.contains(part), "{queue}");
    }
    let (status, first) = text("GET /queues/jobs/a?messages&limit=2");
    assert_eq!(status, 200);
    for part in [r#""text":"one""#, r#""text":"two""#, r#""expires":"#, r#""more":true,"next":"#] {
        assert!(first.contains(part), "{first}");
    }
    let next = first.rsplit(":").next().unwrap().trim_end().trim_end_matches('}').to_owned();
    let (_, rest) = text(&format!("GET /queues/jobs/a?messages&from={next}"));
    assert!(rest.contains(r#""value":{"n":3}"#) && rest.contains(r#""more":false"#), "{rest}");
    let (_, cut) = text("GET /queues/jobs/a?messages&body_bytes=2&limit=1");
    assert!(cut.contains(r#""cut":3,"text":"on""#), "{cut}");
    for (line, status, part) in [
        ("GET /queues/none", 404, "queue-unknown"),
        ("GET /queues/none?messages", 404, "queue-unknown"),
        ("GET /queues/jobs/a?messages&selector=x%20%3D", 400, "bad-selector"),
        ("GET /queues/jobs/a?messages&from=x", 400, "whole number"),
        ("DELETE /queues/jobs/a", 400, "?messages"),
        (
            "DELETE /queues/jobs/a?messages&selector=x%20%3D%20'y'",
            200,
            r#"{"messages":0,"up_to":3}"#,
        ),
        ("DELETE /queues/jobs/a?messages", 200, r#"{"messages":3,"up_to":3}"#),
        ("DELETE /queues/none?messages", 404, "queue-unknown"),
    ] {
        let (found, said) = text(line);
        assert_eq!((found, said.contains(part)), (status, true), "{line}: {said}");
    }
    let operate = |world: &mut World, text: &str| {
        let answer = world.ask("POST /operations", &[ANN], text.as_bytes());
        (answer.status, answer.text().to_owned())
    };
    let moved = operate(&mut world, r#"{"do":"move","from":"other","to":"jobs/b"}"#);
    assert_eq!((moved.0, moved.1.trim_end()), (200, r#"{"messages":1,"kept":0,"up_to":1}"#));
    let paused = operate(&mut world, r#"{"do":"pause","path":"jobs/b"}"#);
    assert_eq!(paused.0, 200);
    let (_, shown) = operate(&mut world, r#"{"do":"queue","path":"jobs/b"}"#);
    assert!(shown.contains(r#""messages":1"#) && shown.contains(r#""paused":true"#), "{shown}");
}

#[test]
fn a_condition_is_looked_at_or_refused() {
    let mut world = World::new();
    let json = [ANN, "Content-Type: application/json"];
    assert_eq!(world.ask("PUT /topics/a", &json, b"{\"n\":1}").status, 200);
    for condition in ["If-Match: \"0-1\"", "If-None-Match: *"] {
        let answer = world.ask("DELETE /topics/a", &[ANN, condition], b"");
        assert_eq!(answer.status, 400, "{condition}: {}", answer.text());
        assert_eq!(world.get("GET /topics/a").status, 200, "{condition}");
    }
    let merge = "Content-Type: application/merge-patch+json";
    let patch = |world: &mut World, path: &str, condition: &str| {
        world.ask(&format!("PATCH /topics/{path}"), &[ANN, merge, condition], b"{\"m\":2}").status
    };
    assert_eq!(patch(&mut world, "a", "If-Match: *"), 200, "it has a value");
    assert_eq!(patch(&mut world, "b", "If-Match: *"), 412, "it has none");
    assert_eq!(patch(&mut world, "a", "If-None-Match: *"), 400);
    assert_eq!(patch(&mut world, "a", "If-Match: \"0-1\", \"0-9\""), 412);
    assert_eq!(patch(&mut world, "a", "If-Match: \"0-1\", \"0-2\""), 200);
    for line in ["PUT /topics/a?ttl=5s", "PUT /topics/a?retain=false"] {
        let answer = world.ask(line, &[ANN, "If-Match: *"], b"x");
        assert_eq!(answer.status, 400, "{line}: {}", answer.text());
    }
    assert_eq!(world.get("GET /topics/a").text(), "{\"n\":1,\"m\":2}");
}

#[test]
fn the_head_of_a_history_is_that_of_the_history() {
    let mut world = World::new();
    assert_eq!(world.ask("PUT /topics/a?create", &[ANN], b"{\"history\":3}").status, 200);
    assert_eq!(world.ask("PUT /topics/a", &[ANN], b"x").status, 200);
    let whole = world.get("GET /topics/a?history");
    let head = world.get("HEAD /topics/a?history");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.field("content-length"), whole.field("content-length"));
}

#[test]
fn a_value_is_what_is_kept_whatever_passes_by_meanwhile() {
    for seed in 0..60 {
        let mut world = World::with(seed, |_| {});
        world.ask("PUT /topics/a", &[ANN], b"kept");
        let mut asked = Vec::new();
        for _ in 0..4 {
            asked.push((world.send("GET /topics/a", &[ANN], b""), true));
            asked.push((world.send("POST /topics/a", &[ANN], b"passing"), false));
            asked.push((world.send("GET /topics?pattern=a", &[ANN], b""), true));
        }
        for (client, reads) in asked {
            let answer = world.answer(client);
            assert_eq!(answer.status, 200);
            assert!(!reads || answer.text().contains("kept"), "seed {seed}: {}", answer.text());
        }
    }
}
