//! What a picture shows, of what the server has answered: one object of JSON, from which lines are drawn as well.
//!
//! Pure. Invariant: a rate is counted between two answers of one life of the server, by its own clock; otherwise there is none.

use serde_json::{Map, Value as Json, json};

/// What the server has answered, or why not.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) stats: Result<Json, String>,
    pub(super) sessions: Result<Json, String>,
    pub(super) queues: Result<Json, String>,
}

impl Seen {
    /// Whether all was refused.
    pub(super) fn is_nothing(&self) -> bool {
        self.stats.is_err() && self.sessions.is_err() && self.queues.is_err()
    }

    /// Keeps the queues with most messages.
    pub(super) fn keep_queues(&mut self, most: usize) {
        let Ok(answer) = &mut self.queues else { return };
        let Some(queues) = answer["queues"].as_array_mut() else { return };
        let ready = |queue: &Json| queue["messages"].as_u64().unwrap_or(0);
        queues.sort_by_key(|queue| std::cmp::Reverse(ready(queue)));
        queues.truncate(most);
    }
}

/// What is to be shown. `before` is what the server had counted an interval before.
pub(super) fn figures(seen: &Seen, before: Option<&Json>, sort: &str) -> Json {
    let missing: Map<String, Json> =
        [("figures", &seen.stats), ("sessions", &seen.sessions), ("queues", &seen.queues)]
            .into_iter()
            .filter_map(|(what, answer)| Some((what.to_owned(), json!(answer.as_ref().err()?))))
            .collect();
    let mut all = seen.stats.as_ref().map(|stats| of_node(stats, before)).unwrap_or_default();
    all.insert("sort".to_owned(), json!(sort));
    if let Ok(answer) = &seen.sessions {
        all.insert("sessions".to_owned(), answer["sessions"].clone());
        all.insert("sessions_matched".to_owned(), answer["matched"].clone());
    }
    if let Ok(answer) = &seen.queues {
        all.insert("queues".to_owned(), answer["queues"].clone());
        all.insert("queues_more".to_owned(), answer["more"].clone());
    }
    all.insert("missing".to_owned(), Json::Object(missing));
    Json::Object(all)
}

fn of_node(stats: &Json, before: Option<&Json>) -> Map<String, Json> {
    let number = |name: &str| number(stats, name);
    let whole = |name: &str| number(name).map(|value| value as u64);
    let rate = |name: &str| rate(stats, before, name);
    let now = stats["now"].as_u64().unwrap_or(0);
    let started = stats["started"].as_u64().unwrap_or(now);
    let all = json!({
        "at": now,
        "node": stats["node"],
        "version": stats["version"],
        "uptime_ms": now.saturating_sub(started),
        "shards": stats["shards"],
        "processors": number("tiderace_host_processors"),
        "cpu": rate("process_cpu_seconds_total"),
        "rates": {
            "messages_in": rate("tiderace_messages_received_total"),
            "messages_out": rate("tiderace_messages_delivered_total"),
            "bytes_in": rate("tiderace_bytes_received_total"),
            "bytes_out": rate("tiderace_bytes_sent_total"),
        },
        "connections": connections(stats),
        "subscriptions": whole("tiderace_subscriptions"),
        "memory": {
            "bytes": whole("tiderace_memory_bytes"),
            "max_bytes": whole("tiderace_memory_max_bytes"),
            "resident_bytes": whole("process_resident_memory_bytes"),
        },
        "store": store(stats),
        "backlog": {
            "bytes": whole("tiderace_backlog_bytes"),
            "paused": whole("tiderace_connections_paused"),
            "queue_messages": whole("tiderace_queue_messages"),
            "queue_in_flight": whole("tiderace_queue_messages_in_flight"),
        },
        "alarms": alarms(stats),
    });
    match all {
        Json::Object(all) => all,
        _ => Map::new(),
    }
}

/// A metric; of one with labels the sum.
fn number(stats: &Json, name: &str) -> Option<f64> {
    let metric = &stats["metrics"][name];
    let entries = metric
        .as_array()
        .map(|entries| entries.iter().filter_map(|entry| entry["value"].as_f64()).sum::<f64>());
    entries.or_else(|| metric.as_f64())
}

/// How much a counter has grown in a second.
fn rate(stats: &Json, before: Option<&Json>, name: &str) -> Option<f64> {
    let before = before.filter(|before| {
        (&before["started"], &before["node"]) == (&stats["started"], &stats["node"])
    })?;
    let ms = stats["now"].as_u64()?.checked_sub(before["now"].as_u64()?).filter(|ms| *ms > 0)?;
    let grown = number(stats, name)? - number(before, name)?;
    Some((grown.max(0.0) * 1e6 / ms as f64).round() / 1e3)
}

/// How many connections each protocol has.
fn connections(stats: &Json) -> Map<String, Json> {
    let mut all = Map::new();
    for entry in stats["metrics"]["tiderace_connections"].as_array().into_iter().flatten() {
        let protocol = entry["protocol"].as_str().unwrap_or_default().to_owned();
        let count = entry["value"].as_u64().unwrap_or(0);
        let sum = all.get(&protocol).and_then(Json::as_u64).unwrap_or(0) + count;
        all.insert(protocol, json!(sum));
    }
    all
}

/// What the store holds; nothing if there is none.
fn store(stats: &Json) -> Json {
    let whole = |name: &str| number(stats, name).map(|value| value as u64);
    let Some(bytes) = whole("tiderace_store_bytes") else { return Json::Null };
    let disks = stats["metrics"]["tiderace_disk_free_bytes"].as_array();
    let disk = disks.into_iter().flatten().find(|disk| disk["purpose"] == "store");
    json!({
        "bytes": bytes,
        "disk_free_bytes": disk.map(|disk| disk["value"].clone()),
        "full": whole("tiderace_store_full") == Some(1),
        "broken": whole("tiderace_store_broken") == Some(1),
    })
}

/// The alarms that are there, the worst first.
fn alarms(stats: &Json) -> Vec<Json> {
    let entries = stats["metrics"]["tiderace_alarm"].as_array().into_iter().flatten();
    let mut alarms: Vec<Json> = entries
        .map(|entry| json!({"name": entry["alarm"], "severity": entry["severity"]}))
        .collect();
    let worst = ["critical", "warning", "info"];
    let place = |alarm: &Json| worst.iter().position(|known| alarm["severity"] == *known);
    alarms.sort_by_key(|alarm| place(alarm).unwrap_or(worst.len()));
    alarms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(now: u64, messages: u64) -> Json {
        json!({
            "node": "a", "version": "1", "now": now, "started": 1_000, "shards": 2,
            "metrics": {
                "tiderace_messages_received_total": messages,
                "tiderace_connections": [
                    {"protocol": "stomp", "transport": "tcp", "value": 2},
                    {"protocol": "stomp", "transport": "websocket", "value": 1},
                    {"protocol": "native", "transport": "websocket", "value": 4},
                ],
                "tiderace_alarm": [
                    {"alarm": "draining", "severity": "info", "value": 1},
                    {"alarm": "disk-nearly-full", "severity": "warning", "value": 1},
                    {"alarm": "store-full", "severity": "critical", "value": 1},
                ],
                "tiderace_store_bytes": 4096, "tiderace_store_full": 1,
                "tiderace_disk_free_bytes": [{"purpose": "store", "value": 7}],
            },
        })
    }

    fn of(stats: Json, before: Option<&Json>) -> Json {
        let refused = || Err("no (not-authorised)".to_owned());
        let seen = Seen { stats: Ok(stats), sessions: refused(), queues: refused() };
        figures(&seen, before, "backlog")
    }

    #[test]
    fn rates_are_counted_within_one_life_of_a_server() {
        let rate =
            |before: Option<&Json>| of(stats(3_500, 17), before)["rates"]["messages_in"].clone();
        assert_eq!(rate(Some(&stats(1_500, 7))), json!(5.0));
        assert_eq!(rate(None), json!(null));
        assert_eq!(rate(Some(&stats(3_500, 7))), json!(null), "no time has gone by");
        let mut other = stats(1_500, 7);
        other["started"] = json!(999);
        assert_eq!(rate(Some(&other)), json!(null), "another life");
    }

    #[test]
    fn what_the_server_counts_is_summed_up() {
        let shown = of(stats(3_500, 17), None);
        assert_eq!(shown["connections"], json!({"stomp": 3, "native": 4}));
        assert_eq!(shown["uptime_ms"], 2_500);
        let alarms: Vec<&Json> =
            shown["alarms"].as_array().into_iter().flatten().map(|alarm| &alarm["name"]).collect();
        assert_eq!(alarms, ["store-full", "disk-nearly-full", "draining"], "the worst is first");
        let store = json!({"bytes": 4096, "disk_free_bytes": 7, "full": true, "broken": false});
        assert_eq!(shown["store"], store);
        assert_eq!(shown["missing"]["queues"], "no (not-authorised)");
        assert!(shown.get("queues").is_none() && shown["missing"].get("figures").is_none());
    }

    #[test]
    fn the_fullest_queues_are_kept() {
        let queues = json!({"queues": [
            {"path": "a", "messages": 1}, {"path": "b", "messages": 9}, {"path": "c", "messages": 3},
        ]});
        let mut seen = Seen { stats: Ok(json!({})), sessions: Ok(json!({})), queues: Ok(queues) };
        seen.keep_queues(2);
        let kept = seen.queues.unwrap_or_default();
        assert_eq!(kept["queues"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&kept["queues"][0]["path"], &kept["queues"][1]["path"]),
            (&json!("b"), &json!("c"))
        );
    }
}
