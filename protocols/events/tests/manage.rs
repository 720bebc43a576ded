//! The resources below `/manage`, over the real event loop and broker.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use tiderace_manage::VERBS;

use crate::support::{ANN, World};

#[test]
fn resources_are_operations() {
    let mut world = World::new();
    let mut told = |line: &str, body: &str| {
        let answer = world.ask(line, &[ANN], body.as_bytes());
        (answer.status, answer.text().trim_end().to_owned())
    };
    for message in ["one", "two", "three"] {
        assert_eq!(told("POST /queues/jobs/mail", message).0, 200);
    }
    let shown = told("GET /manage/queues/jobs%2Fmail", "");
    assert!(shown.0 == 200 && shown.1.contains(r#""messages":3"#), "{shown:?}");
    let peeked = told("GET /manage/queues/jobs%2Fmail/messages?limit=2&body_bytes=2", "");
    assert!(peeked.0 == 200 && peeked.1.matches(r#""position""#).count() == 2, "{peeked:?}");
    let moved = told("POST /manage/queues/jobs%2Fmail/move", r#"{"to":"later","limit":1}"#);
    assert!(moved.0 == 200 && moved.1.contains(r#""messages":1"#), "{moved:?}");
    assert_eq!(told("POST /manage/queues/later/pause", ""), (200, "{}".to_owned()));
    assert_eq!(told("POST /manage/queues/later/resume", "{}"), (200, "{}".to_owned()));
    let purged = told("POST /manage/queues/jobs%2Fmail/purge", "");
    assert!(purged.0 == 200 && purged.1.contains(r#""messages":2"#), "{purged:?}");
    assert_eq!(
        told("PUT /manage/views/desks", r#"{"text":"map desk/* to desks/<path(1)>"}"#).0,
        200
    );
    assert!(told("GET /manage/views", "").1.contains("desks/<path(1)>"));
    assert_eq!(told("DELETE /manage/views/desks", ""), (200, "{}".to_owned()));
    assert_eq!(told("PUT /manage/subscriptions/audit", r#"{"topics":"fx/**"}"#).0, 200);
    assert!(told("GET /manage/subscriptions", "").1.contains(r#""path":"dsub/audit""#));
    assert_eq!(told("DELETE /manage/subscriptions/audit", "").0, 200);
    assert!(told("GET /manage/services", "").1.contains(r#""services":[]"#));
    assert!(told("GET /manage/alarms", "").1.contains(r#""topics":[]"#));
    assert!(told("GET /manage/drain", "").1.contains(r#""state":"serving""#));
}

#[test]
fn one_session_is_shown_and_ended_or_missing() {
    let mut world = World::new();
    let stream = world.send("GET /events?topic=a", &[ANN], b"");
    world.wait(stream, "event: ready");
    let listed = world.get("GET /manage/sessions?principal=ann&protocol=events&sort=id&limit=1");
    assert!(
        listed.text().contains(r#""matched":2"#),
        "the stream's and its own: {}",
        listed.text()
    );
    let (_, id) = listed.text().split_once(r#""id":""#).unwrap();
    let path = format!("/manage/sessions/{}", id.split('"').next().unwrap());
    let shown = world.get(&format!("GET {path}"));
    assert!(shown.text().contains(r#""matched":1"#), "{}", shown.text());
    let dry = world.get(&format!("DELETE {path}?dry_run=true"));
    assert_eq!((dry.status, dry.text()), (200, "{\"sessions\":1,\"dry_run\":true}\n"));
    assert_eq!(world.get(&format!("DELETE {path}?reason=try+later")).status, 200);
    assert!(world.wait(stream, "event: end").contains("try later"));
    for method in ["GET", "DELETE"] {
        let missing = world.get(&format!("{method} {path}"));
        assert_eq!(missing.status, 404, "{method}");
        assert!(missing.text().starts_with(r#"{"code":"not-found""#), "{}", missing.text());
    }
    let several = world.ask("POST /manage/kick", &[ANN], br#"{"principal":"nobody"}"#);
    assert_eq!((several.status, several.text()), (200, "{\"sessions\":0,\"dry_run\":false}\n"));
}

#[test]
fn what_makes_no_sense_is_told_what_would() {
    let mut world = World::new();
    for (line, body, status, part) in [
        ("GET /manage/sessions?protcol=stomp", "", 400, "knows no `protcol`; known are protocol"),
        ("GET /manage/sessions?limit=x", "", 400, "`limit` is a whole number"),
        ("GET /manage/sessions?limit=1&limit=2", "", 400, "given twice"),
        (
            "POST /manage/kick",
            r#"{"dry_run":true,"id":"0-1-1","dry_run":false}"#,
            400,
            "given twice",
        ),
        ("GET /manage/sessions?protocol=%", "", 400, "percent-encoded"),
        ("GET /manage/sessions?sort=name", "", 400, "backlog, subscriptions, since, id"),
        ("GET /manage/sessions", "x", 400, "takes no body"),
        ("GET /manage/sessions/here", "", 400, "0-17-1"),
        ("GET /manage/queues/%ff", "", 400, "percent-encoded"),
        ("GET /manage/queues/nothing", "", 404, "queue-unknown"),
        ("GET /manage/queues/a/b", "", 404, "%2F"),
        ("DELETE /manage/sessions/0-1-1?dry_run=perhaps", "", 400, "`true` or `false`"),
        ("POST /manage/kick?dry_run=true", "", 400, "in the body, as JSON: id, protocol"),
        ("POST /manage/kick", "", 400, "which sessions"),
        ("POST /manage/kick", "[]", 400, "an object of JSON"),
        ("POST /manage/kick", "{", 400, "no JSON"),
        ("POST /manage/kick", r#"{"do":"drain"}"#, 400, "knows no `do`"),
        (
            "POST /manage/queues/a/purge",
            r#"{"path":"b"}"#,
            400,
            "knows no `path`; known are selector",
        ),
        ("POST /manage/queues/a/pause", r#"{"on":true}"#, 400, "known are nothing else"),
        ("POST /manage/drain", r#"{"delay":"1s"}"#, 400, "`over`"),
        ("PATCH /manage/log", "", 405, "use PUT, OPTIONS"),
        ("GET /manage/kick", "", 405, "use POST, OPTIONS"),
        ("GET /manage", "", 404, "openapi.json"),
        ("GET /manage/nothing", "", 404, "openapi.json"),
    ] {
        let answer = world.ask(line, &[ANN], body.as_bytes());
        assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
        assert!(answer.text().contains(part), "{line} {body}: {}", answer.text());
    }
    let refused = world.ask("GET /manage/sessions", &["Authorization: Bearer wrong"], b"");
    assert_eq!(refused.status, 401);
    let large = [b' '; 100_001];
    assert_eq!(world.ask("POST /manage/kick", &[ANN], &large).status, 413);
}

#[test]
fn head_is_get_without_a_body_and_a_request_that_comes_again_is_not_done_again() {
    let mut world = World::new();
    let head = world.get("HEAD /manage/queues");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let head = world.ask("HEAD /manage/openapi.json", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let preflight = ["Origin: http://here", "Access-Control-Request-Method: DELETE"];
    let preflight = world.ask("OPTIONS /manage/sessions/0-1-1", &preflight, b"");
    assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD, DELETE"));
    world.ask("POST /queues/jobs", &[ANN], b"one");
    // What is done in spite of a condition could not be undone.
    let refused = world.ask("POST /manage/queues/jobs/purge", &[ANN, "If-Match: \"1\""], b"");
    assert!(refused.status == 400 && refused.text().contains("no condition"), "{}", refused.text());
    let key = [ANN, "Idempotency-Key: k"];
    let first = world.ask("POST /manage/queues/jobs/purge", &key, b"");
    world.ask("POST /queues/jobs", &[ANN], b"two");
    let again = world.ask("POST /manage/queues/jobs/purge", &key, b"");
    assert_eq!(again.field("idempotency-replayed"), Some("true"));
    assert_eq!(first.body, again.body);
    assert!(world.get("GET /manage/queues/jobs").text().contains(r#""messages":1"#));
}

/// Paths of the table with something at their fields, and others close to them.
fn target() -> impl Strategy<Value = String> {
    let value = "([a-z0-9~%/.*-]{0,12}|0-1-1|jobs|%2F|%2e%2e|%ff)";
    let known = (0..VERBS.len(), value).prop_map(|(place, value)| {
        let path = VERBS[place].rest.path;
        match VERBS[place].rest.field() {
            Some(field) => path.replace(&format!("{{{field}}}"), &value),
            None => path.to_owned(),
        }
    });
    let other = "(/[a-z0-9%{}~.*-]{0,10}){0,4}";
    let query = "(\\?([a-z_]{0,10}=[a-zA-Z0-9%+&=*-]{0,12}&?){0,3}|\\?(limit|after|from|id|sort|dry_run|reason)=.{0,0}[a-z0-9-]{0,20})?";
    (prop_oneof![3 => known, 1 => other], query).prop_map(|(path, query)| format!("{path}{query}"))
}

/// Objects with the fields of the table, some of them twice or with values that are not for them, and anything else.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let examples: Vec<(&str, &str)> = VERBS
        .iter()
        .flat_map(|verb| verb.fields.iter().map(|field| (field.name, field.example)))
        .collect();
    let count = examples.len();
    let members = prop::collection::vec((0..count, 0..count, any::<bool>()), 0..5);
    let object = members.prop_map(move |members| {
        let written = members.into_iter().map(|(name, value, fits)| {
            let value = if fits { examples[name].1 } else { examples[value].1 };
            format!("\"{}\":{value}", examples[name].0)
        });
        format!("{{{}}}", written.collect::<Vec<_>>().join(",")).into_bytes()
    });
    let other = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![4 => object, 1 => other, 1 => Just(Vec::new())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_request_is_answered_as_if_it_were_the_servers_fault(
        method in "(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH)",
        target in target(),
        body in body(),
        logs_in in any::<bool>(),
    ) {
        let mut world = World::new();
        let who = if logs_in { ANN } else { "X: y" };
        let body = if matches!(&*method, "POST" | "PUT" | "PATCH") { body } else { Vec::new() };
        let answer = world.ask(&format!("{method} /manage{target}"), &[who], &body);
        prop_assert!((200..500).contains(&answer.status), "{}{}", answer.head, answer.text());
    }
}
