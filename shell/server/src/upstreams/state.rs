//! How it stands with an upstream, for people and programs: a value of JSON and a sentence.
//!
//! Pure. Invariant: an upstream that is away is said to be so with since when, and why.

use serde_json::{Value as Json, json};
use tiderace_reactor::{UpstreamState, UpstreamStatus};

/// The value of `$sys/upstreams/NAME`.
pub(super) fn value(status: &UpstreamStatus) -> Json {
    let deputy = &status.deputy;
    let mut value = json!({
        "name": status.name,
        "state": word(status),
        "url": status.url,
        "since": status.away_since_ms.unwrap_or(status.since_ms),
        "topics": deputy.topics,
        "stale": deputy.stale,
        "subscriptions": deputy.subscriptions,
        "waiting": deputy.waiting,
        "consumers": deputy.consumers,
        "resyncs": deputy.resyncs,
        "calls": deputy.calls,
        "serves": deputy.serves,
        "connections": status.connections,
        "failures": status.failures,
    });
    if let (Some(round_trip), Some(object)) = (deputy.round_trip, value.as_object_mut()) {
        let tenths = round_trip.as_micros().div_ceil(100);
        object.insert("round_trip_ms".to_owned(), json!(tenths as f64 / 10.0));
    }
    if status.state != UpstreamState::Connected
        && let (Some(problem), Some(object)) = (&status.last_error, value.as_object_mut())
    {
        object.insert("problem".to_owned(), json!(problem));
    }
    value
}

/// The state in a word: how far an attempt has come changes several times a second and says nothing.
fn word(status: &UpstreamStatus) -> &'static str {
    match status.state {
        UpstreamState::Connected if status.deputy.stale > 0 => "catching-up",
        UpstreamState::Connected => "connected",
        UpstreamState::Stopped => "stopped",
        _ if status.connections == 0 && status.failures == 0 => "connecting",
        _ => "away",
    }
}

/// The line of `/readyz` about one that is away.
pub(crate) fn degraded(status: &UpstreamStatus) -> Option<String> {
    let since = status.away_since_ms?;
    let (name, stale) = (&status.name, thousands(status.deputy.stale));
    let why = status.last_error.as_deref().map(|why| format!("; {why}")).unwrap_or_default();
    let time = time_of_day(since);
    Some(format!("degraded: upstream {name} is away since {time}, {stale} topics are stale{why}\n"))
}

/// The time of day in UTC.
fn time_of_day(ms: u64) -> String {
    let seconds = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// With commas between groups of three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use tiderace_base::ShardId;
    use tiderace_broker::DeputyState;

    use super::*;

    fn status(state: UpstreamState) -> UpstreamStatus {
        UpstreamStatus {
            name: "london".to_owned(),
            shard: ShardId(0),
            state,
            since_ms: 7_000,
            away_since_ms: (state != UpstreamState::Connected).then_some(43_390_000),
            url: "ws://source:7800".to_owned(),
            address: None,
            attempts: 3,
            failures: 2,
            last_error: Some("source refuses connections".to_owned()),
            connections: 1,
            deputy: DeputyState { topics: 40_112, stale: 40_112, ..DeputyState::default() },
        }
    }

    #[test]
    fn who_is_away_is_said_to_be() {
        let away = status(UpstreamState::Connecting);
        assert_eq!(
            degraded(&away).as_deref(),
            Some(
                "degraded: upstream london is away since 12:03:10Z, 40,112 topics are stale; source refuses connections\n"
            )
        );
        let value = value(&away);
        assert_eq!((&value["state"], &value["since"]), (&json!("away"), &json!(43_390_000)));
        assert_eq!(value["problem"], "source refuses connections");
    }

    #[test]
    fn who_is_there_has_no_problem() {
        let mut there = status(UpstreamState::Connected);
        assert_eq!(degraded(&there), None);
        let shown = value(&there);
        assert_eq!((&shown["state"], &shown["since"]), (&json!("catching-up"), &json!(7_000)));
        assert_eq!(shown.get("problem"), None);
        there.deputy.stale = 0;
        assert_eq!(value(&there)["state"], "connected");
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
