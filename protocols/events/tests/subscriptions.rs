//! Durable subscriptions by REST, over the real event loop and broker.
#![allow(clippy::unwrap_used)]

use crate::support::{ANN, World};

#[test]
fn durable_subscriptions_are_made_listed_and_ended() {
    let mut world = World::new();
    let mut told = |line: &str, body: &str| {
        let answer = world.ask(line, &[ANN], body.as_bytes());
        (answer.status, answer.text().trim_end().to_owned())
    };
    let about = r#"{"topics":["fx/**","gold"],"selector":"colour = 'red'"}"#;
    assert_eq!(told("PUT /subscriptions/desk/audit", about), (200, "{}".to_owned()));
    assert_eq!(told("PUT /subscriptions/other", r#"{"topics":"x"}"#).0, 200);
    assert_eq!(told("POST /topics/x", "1").0, 200);
    let (mut list, mut line) = (String::new(), "GET /subscriptions?pattern=desk/*".to_owned());
    loop {
        let (status, page) = told(&line, "");
        assert_eq!(status, 200, "{page}");
        list.push_str(&page);
        let Some((_, next)) = page.split_once(r#""next":""#) else { break };
        let next = next.split('"').next().unwrap();
        line = format!("GET /subscriptions?pattern=desk/*&after={next}");
    }
    assert!(list.contains(r#"{"path":"dsub/desk/audit","messages":0"#), "{list}");
    assert!(list.contains(r#""topics":"fx/**,gold","selector":"colour = 'red'""#), "{list}");
    assert!(!list.contains("other"), "{list}");
    let (status, shown) = told("GET /subscriptions/other", "");
    assert!(status == 200 && shown.contains(r#""messages":1"#), "{shown}");
    assert_eq!(told("DELETE /subscriptions/other", ""), (200, "{}".to_owned()));
    for (line, body, status, part) in [
        ("DELETE /subscriptions/other", "", 404, "queue-unknown"),
        ("GET /subscriptions/other", "", 404, "queue-unknown"),
        ("PUT /subscriptions/a", "", 400, "no JSON"),
        ("PUT /subscriptions/a", "{}", 400, "topics"),
        ("PUT /subscriptions/a", r#"{"topics":[]}"#, 400, "topics"),
        ("PUT /subscriptions/a", r#"{"topics":"x","name":"b"}"#, 400, "`name`"),
        ("PUT /subscriptions/a", r#"{"topics":"x","selector":"x ="}"#, 400, "bad-selector"),
        ("PUT /subscriptions/a//b", r#"{"topics":"x"}"#, 400, "cannot have that name"),
        ("POST /subscriptions/a", r#"{"topics":"x"}"#, 405, "PUT"),
    ] {
        let answer = told(line, body);
        assert!(answer.0 == status && answer.1.contains(part), "{line} {body}: {answer:?}");
    }
}
