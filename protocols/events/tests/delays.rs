//! What a request or an item of a batch says to a queue.

#![allow(clippy::unwrap_used)]

use crate::support::{ANN, World};

#[test]
fn a_message_for_a_queue_may_be_delayed() {
    let mut world = World::new();
    for (line, field, status) in [
        ("POST /queues/b?group=g", "X: y", 200),
        ("POST /queues/b", "Tiderace-Group: g", 200),
        ("POST /queues/b?group=", "X: y", 400),
        ("POST /queues/a?delay=5s", "X: y", 200),
        ("POST /queues/a", "Tiderace-Delay: 1m", 200),
        ("POST /queues/a", "Tiderace-Deliver-At: 1", 200),
        ("POST /queues/a?delay=0s", "X: y", 400),
        ("POST /queues/a?delay=never", "X: y", 400),
        ("POST /queues/a?delay=-5s", "X: y", 400),
        ("POST /queues/a?deliverAt=soon", "X: y", 400),
        ("POST /queues/a?deliverAt=18446744073709551615", "X: y", 400),
        ("POST /queues/a?delay=4000d", "X: y", 400),
        ("POST /topics/a?delay=5s", "X: y", 400),
    ] {
        let answer = world.ask(line, &[ANN, field], b"x");
        assert_eq!(answer.status, status, "{line}: {:?}", String::from_utf8_lossy(&answer.body));
    }
    let batch = br#"[{"queue":"a","value":1,"delay":5000},{"queue":"a","value":1,"delay":-1},
        {"topic":"a","value":1,"deliverAt":99999999999999},{"queue":"a","value":1,"deliverAt":1}]"#;
    let answer = world.ask("POST /batch", &[ANN], batch);
    assert_eq!(answer.text().matches("bad-schedule").count(), 2, "{}", answer.text());
    let state = world.ask("GET /queues/a", &[ANN], b"");
    assert!(
        state.text().contains(r#""messages":2,"in_flight":0,"delayed":3,"groups":0,"#),
        "{}",
        state.text()
    );
}

#[test]
fn a_message_says_how_urgent_it_is() {
    let mut world = World::new();
    for (line, field, status) in [
        ("POST /queues/a?priority=9", "X: y", 200),
        ("POST /queues/a", "Tiderace-Priority: 0", 200),
        ("POST /queues/a?priority=10", "X: y", 400),
        ("POST /queues/a?priority=-1", "X: y", 400),
        ("POST /queues/a?priority=", "X: y", 400),
        ("POST /queues/a?priority=high", "X: y", 400),
        ("POST /topics/a?priority=3", "X: y", 200),
        ("POST /topics/a?priority=10", "X: y", 400),
    ] {
        let answer = world.ask(line, &[ANN, field], b"x");
        assert_eq!(answer.status, status, "{line}: {}", answer.text());
        assert_eq!(answer.text().contains("bad-priority"), status == 400, "{}", answer.text());
    }
    let batch = br#"[{"queue":"a","value":1,"priority":7},{"queue":"a","value":1,"priority":10},
        {"queue":"a","value":1,"priority":"7"},{"queue":"a","value":1,"priority":1.5}]"#;
    let answer = world.ask("POST /batch", &[ANN], batch);
    assert_eq!(answer.text().matches("bad-priority").count(), 3, "{}", answer.text());
    let messages = world.ask("GET /queues/a?messages", &[ANN], b"");
    for priority in [9, 0, 7] {
        let property = format!(r#""priority":"{priority}""#);
        assert!(messages.text().contains(&property), "{}", messages.text());
    }
}
