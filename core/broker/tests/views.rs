//! Topic views on brokers: the examples of the page, following live, and time.
//!
//! Every test runs on one shard and on three, with messages between shards in an order drawn from a seed.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::viewing::{Node, on_nodes};
use tiderace_base::CloseCode;
use tiderace_broker::BrokerOptions;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Operation, OperationResult};

#[test]
fn every_example_of_the_page_holds_on_a_node() {
    let examples = crate::examples::all();
    assert!(examples.len() >= 45);
    for (shards, views_first) in [(1, true), (3, true), (1, false), (3, false)] {
        for example in &examples {
            // Which source was updated last is not known of those that are there before the view.
            if !views_first && example.views[0].contains("[desk/1, desk/2]") {
                continue;
            }
            let mut node = Node::new(example.line as u64, shards);
            let put = |node: &mut Node| {
                for (number, text) in example.views.iter().enumerate() {
                    node.put(&format!("v{number}"), text);
                }
            };
            if views_first {
                put(&mut node);
            }
            for (path, value) in &example.given {
                node.set(path, value);
            }
            if !views_first {
                put(&mut node);
            }
            node.rest();
            node.advance(600);
            node.rest();
            let mut topics = node.topics();
            for (path, value) in &example.given {
                let found = topics.remove(path).unwrap_or_default();
                assert_eq!(&found, value, "docs/views.md:{}: {path}", example.line);
            }
            let place = format!("docs/views.md:{} on {shards} shards", example.line);
            for (path, value) in &example.then {
                let found = topics.remove(path).unwrap_or_else(|| panic!("{place}: no {path}"));
                assert!(crate::examples::same(&found, value), "{place}: {path} is {found}");
            }
            assert!(topics.is_empty(), "{place}: {topics:?}");
            for number in 0..example.views.len() {
                node.remove_view(&format!("v{number}"));
            }
            assert_eq!(node.topics().len(), example.given.len(), "{place}: outputs are left");
        }
    }
}

#[test]
fn outputs_follow_their_sources() {
    on_nodes(|mut node| {
        node.put("doubles", "map n/* to doubled/<path(1)> as value * 2");
        node.subscribe("topic:doubled/*");
        node.set("n/a", "1");
        node.set("n/a", "2");
        node.rest();
        let received = node.received();
        assert_eq!(received.last().unwrap(), &("doubled/a".to_owned(), "4".to_owned()));
        node.clear("n/a");
        node.rest();
        assert_eq!(node.received(), [("doubled/a".to_owned(), String::new())]);
        assert_eq!(node.topics(), BTreeMap::new());
        node.set("n/a", "5");
        node.rest();
        assert_eq!(node.value("doubled/a").unwrap(), "10");
        node.set("n/a", "\"text\"");
        node.rest();
        assert_eq!(node.value("doubled/a"), None);
    });
}

#[test]
fn removed_topics_take_their_outputs_along() {
    on_nodes(|mut node| {
        node.put("copy", "map a/** to b/<path(1)>");
        node.put("again", "map b/** to c/<path(1)>");
        for number in 0..20 {
            node.set(&format!("a/{number}"), "1");
        }
        node.rest();
        assert_eq!(node.topics().len(), 60);
        let selector = vec![Pattern::parse("a/**").unwrap()];
        node.result(Operation::Remove { selector });
        node.rest();
        assert_eq!(node.topics(), BTreeMap::new());
    });
}

#[test]
fn elements_come_and_go_and_unchanged_ones_stay_silent() {
    on_nodes(|mut node| {
        node.put("items", "map list to item/<expand(value, /id)>");
        node.subscribe("topic:item/*");
        node.set("list", r#"[{"id":"a","n":1},{"id":"b","n":1}]"#);
        node.rest();
        assert_eq!(node.received().len(), 2);
        node.set("list", r#"[{"id":"b","n":1},{"id":"a","n":2},{"id":"c","n":1}]"#);
        node.rest();
        let mut received = node.received();
        received.sort();
        let changed: Vec<&str> = received.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(changed, ["item/a", "item/c"]);
        node.set("list", "[]");
        node.rest();
        assert_eq!(node.topics().keys().collect::<Vec<_>>(), ["list"]);
    });
}

#[test]
fn a_changed_view_takes_back_what_it_no_longer_says() {
    on_nodes(|mut node| {
        for number in 0..30 {
            node.set(&format!("a/{number}"), &number.to_string());
            node.set(&format!("b/{number}"), &number.to_string());
        }
        node.put("v", "map a/* to out/<path(1)> where value < 10");
        node.rest();
        assert_eq!(node.topics().len(), 60 + 10);
        node.put("v", "map b/* to out/<path(1)> where value >= 5 as {n: value}");
        node.rest();
        let topics = node.topics();
        assert_eq!(topics.len(), 60 + 25);
        assert_eq!(topics["out/7"], r#"{"n":7}"#);
        assert!(!topics.contains_key("out/4"));
        node.remove_view("v");
        assert_eq!(node.topics().len(), 60);
    });
}

#[test]
fn inserted_values_are_followed() {
    on_nodes(|mut node| {
        node.put("full", "map o/* to full/<path(1)> insert c/<scalar(/c)> /n at /n or \"none\"");
        node.set("o/1", r#"{"c":"x"}"#);
        node.set("o/2", r#"{"c":"x"}"#);
        node.rest();
        assert_eq!(node.value("full/1").unwrap(), r#"{"c":"x","n":"none"}"#);
        node.set("c/x", r#"{"n":1}"#);
        node.rest();
        assert_eq!(node.value("full/2").unwrap(), r#"{"c":"x","n":1}"#);
        node.set("c/y", r#"{"n":2}"#);
        node.set("o/1", r#"{"c":"y"}"#);
        node.rest();
        assert_eq!(node.value("full/1").unwrap(), r#"{"c":"y","n":2}"#);
        node.set("c/y", r#"{"n":3}"#);
        node.clear("c/x");
        node.rest();
        assert_eq!(node.value("full/1").unwrap(), r#"{"c":"y","n":3}"#);
        assert_eq!(node.value("full/2").unwrap(), r#"{"c":"x","n":"none"}"#);
        node.remove_view("full");
        assert_eq!(node.topics().len(), 3);
    });
}

#[test]
fn merged_outputs_follow_each_source() {
    on_nodes(|mut node| {
        node.put("m", "map q/** to merged merge");
        node.set("q/b", r#"{"b":1,"x":"b"}"#);
        node.set("q/a", r#"{"a":1,"x":"a"}"#);
        node.rest();
        assert_eq!(node.value("merged").unwrap(), r#"{"a":1,"x":"b","b":1}"#);
        node.clear("q/b");
        node.rest();
        assert_eq!(node.value("merged").unwrap(), r#"{"a":1,"x":"a"}"#);
        node.clear("q/a");
        node.rest();
        assert_eq!(node.value("merged"), None);
    });
}

#[test]
fn of_two_views_the_earlier_has_an_output() {
    on_nodes(|mut node| {
        node.put("first", "map a to out where value > 0 as \"first\"");
        node.put("second", "map b to out as \"second\"");
        node.set("b", "1");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "\"second\"");
        node.set("a", "1");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "\"first\"");
        node.set("b", "2");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "\"first\"");
        node.set("a", "0");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "\"second\"");
        node.set("a", "1");
        node.rest();
        node.remove_view("first");
        assert_eq!(node.value("out").unwrap(), "\"second\"");
    });
}

#[test]
fn without_merge_the_source_updated_last_counts() {
    on_nodes(|mut node| {
        node.put("v", "map s/* to out");
        for (path, value) in [("s/a", "1"), ("s/b", "2"), ("s/c", "3"), ("s/a", "4")] {
            node.set(path, value);
            node.rest();
        }
        assert_eq!(node.value("out").unwrap(), "4");
        node.clear("s/a");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "3");
        node.clear("s/b");
        node.rest();
        assert_eq!(node.value("out").unwrap(), "3");
        node.clear("s/c");
        node.rest();
        assert_eq!(node.value("out"), None);
    });
}

#[test]
fn outputs_are_read_only_and_topics_of_others_stay() {
    on_nodes(|mut node| {
        node.set("out/2", "\"mine\"");
        node.put("v", "map in/* to out/<path(1)>");
        node.set("in/1", "1");
        node.set("in/2", "2");
        node.rest();
        node.set("out/1", "9");
        node.rest();
        let refused = &node.world.clients[node.client].refused;
        assert_eq!(refused.last().unwrap().1, CloseCode::TopicReadOnly);
        assert_eq!(node.value("out/1").unwrap(), "1");
        assert_eq!(node.value("out/2").unwrap(), "\"mine\"");
        node.advance(1100);
        node.advance(1100);
        let shown = node.shown("v").unwrap();
        assert!(shown["problems"].as_u64().unwrap() > 0);
        assert!(shown["last_problem"].as_str().unwrap().contains("out/2"), "{shown}");
        node.clear("in/1");
        node.rest();
        node.set("out/1", "\"free again\"");
        assert_eq!(node.value("out/1").unwrap(), "\"free again\"");
    });
}

#[test]
fn throttled_outputs_show_the_newest_value_of_each_window() {
    on_nodes(|mut node| {
        node.put("v", "map in/* to out/<path(1)> throttle 2 per 1s");
        node.subscribe("topic:out/*");
        for number in 0..10 {
            node.set("in/a", &number.to_string());
            node.advance(10);
        }
        let bodies = |node: &mut Node| -> Vec<String> {
            node.received().into_iter().map(|(_, body)| body).collect()
        };
        assert_eq!(bodies(&mut node), ["0", "1"]);
        node.advance(500);
        assert!(bodies(&mut node).is_empty());
        node.advance(500);
        assert_eq!(bodies(&mut node), ["9"]);
        node.set("in/a", "10");
        node.set("in/a", "11");
        node.advance(1);
        assert_eq!(bodies(&mut node), ["10"]);
        node.clear("in/a");
        node.rest();
        assert_eq!(bodies(&mut node), [""], "a removal is not held back");
        node.advance(2000);
        assert!(bodies(&mut node).is_empty());
        assert_eq!(node.topics(), BTreeMap::new());
    });
}

#[test]
fn delayed_outputs_are_behind_their_sources() {
    on_nodes(|mut node| {
        node.put("v", "map in/* to out/<path(1)> delay 500ms");
        node.subscribe("topic:out/*");
        node.set("in/a", "1");
        node.advance(200);
        node.set("in/a", "2");
        node.advance(200);
        node.clear("in/a");
        assert_eq!(node.received(), []);
        node.advance(100);
        assert_eq!(node.value("out/a").unwrap(), "1");
        node.advance(200);
        assert_eq!(node.value("out/a").unwrap(), "2");
        node.advance(200);
        assert_eq!(node.value("out/a"), None);
        node.set("in/a", "3");
        node.advance(10);
        node.remove_view("v");
        node.advance(1000);
        assert_eq!(node.value("out/a"), None);
    });
}

#[test]
fn preserved_outputs_stay_until_their_view_goes() {
    on_nodes(|mut node| {
        node.put("v", "map in/* to out/<path(1)> preserve");
        node.set("in/a", "1");
        node.rest();
        node.clear("in/a");
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "1");
        node.remove_view("v");
        assert_eq!(node.topics(), BTreeMap::new());
    });
}

#[test]
fn circles_and_long_chains_come_to_rest() {
    on_nodes(|mut node| {
        node.put("grow", "map x/** to y/<path(1)>/n");
        node.put("back", "map y/** to x/<path(1)>");
        node.put("insert", "map p to q insert q /n at /n or 0 set /n = /n + 1");
        for number in 0..12 {
            let text = format!("map chain{number} to chain{} as value + 1", number + 1);
            node.put(&format!("chain/{number}"), &text);
        }
        node.set("x/a", "1");
        node.set("chain0", "0");
        node.set("p", r#"{"n":0}"#);
        for _ in 0..10 {
            node.rest();
        }
        let topics = node.topics();
        assert!(topics.contains_key("chain8") && !topics.contains_key("chain9"), "{topics:?}");
        assert_eq!(topics["chain8"], "8");
        assert!(topics.keys().all(|path| path.len() < 40), "{topics:?}");
        assert!(!node.world.has_envelopes());
        node.advance(1100);
        node.advance(1100);
        let problem = node.shown("chain/8").unwrap()["last_problem"].to_string();
        assert!(problem.contains("chain of 8"), "{problem}");
    });
}

#[test]
fn an_output_that_takes_itself_away_comes_to_rest() {
    on_nodes(|mut node| {
        // While there is no q, there is one; while there is one, there is none.
        node.put("flip", "map p to q insert q /n at /m or 0 where /m = 0");
        node.set("p", r#"{"n":1}"#);
        node.rest();
        assert!(!node.world.brokers.iter().any(|broker| broker.views_have_work()));
        assert!(!node.world.has_envelopes());
    });
}

#[test]
fn views_are_listed_shown_checked_and_counted() {
    on_nodes(|mut node| {
        node.put("b/two", "map a to b");
        node.put("a/one", "map c to d -- a comment stays");
        node.rest();
        let OperationResult::Views(views) = node.result(Operation::Views) else { panic!() };
        let listed: Vec<(&str, &str)> =
            views.iter().map(|view| (view.name.as_str(), &*view.text)).collect();
        assert_eq!(listed, [("a/one", "map c to d -- a comment stays"), ("b/two", "map a to b")]);
        assert_eq!(node.shown("b/two").unwrap()["view"], "map a to b");
        for (text, code) in [
            (Some("map a too b"), CloseCode::BadView),
            (Some("map a to $sys/x"), CloseCode::BadView),
            (Some("map a to b with retian = true"), CloseCode::BadView),
            (None, CloseCode::ViewUnknown),
        ] {
            let name = Path::parse("other").unwrap();
            node.operate(Operation::View { name, text: text.map(Into::into) });
            let refused = &node.world.clients[node.client].refused;
            assert_eq!(refused.last().unwrap().1, code, "{text:?}");
        }
        node.remove_view("b/two");
        let OperationResult::Views(views) = node.result(Operation::Views) else { panic!() };
        assert_eq!(views.len(), 1);
        assert_eq!(node.shown("b/two"), None);
        for number in 1..1000 {
            node.put(&format!("n/{number}"), "map nothing to nowhere");
        }
        let name = Path::parse("one-more").unwrap();
        node.operate(Operation::View { name, text: Some("map a to b".into()) });
        let refused = &node.world.clients[node.client].refused;
        assert_eq!(refused.last().unwrap().1, CloseCode::TooManyTopics);
    });
}

#[test]
fn outputs_have_the_properties_that_their_view_says() {
    on_nodes(|mut node| {
        node.put(
            "v",
            "map in/* to out/<path(1)> as value type int64 with priority = high, deltas = true",
        );
        node.set("in/a", "7");
        node.rest();
        let entry = node.fetch("out/a").pop().unwrap();
        let spec = entry.spec.unwrap();
        assert_eq!(spec.value, tiderace_wire::ValueType::Int64);
        assert_eq!(spec.priority, tiderace_wire::Priority::High);
        assert!(spec.retain && spec.deltas && !spec.persistent);
    });
}

#[test]
fn many_topics_are_walked_in_slices() {
    let mut node = Node::new(7, 3);
    for number in 0..3000 {
        node.set(&format!("in/{number}"), &number.to_string());
    }
    node.put("v", "map in/* to out/<path(1)> as value + 1");
    for _ in 0..5 {
        node.rest();
    }
    let metrics = node.world.brokers.iter().map(|broker| broker.metrics().view_outputs);
    assert_eq!(metrics.sum::<u64>(), 3000);
    node.remove_view("v");
    for _ in 0..5 {
        node.rest();
    }
    let metrics = node.world.brokers.iter().map(|broker| broker.metrics().view_outputs);
    assert_eq!(metrics.sum::<u64>(), 0);
}

#[test]
fn views_of_the_configuration_are_there_from_the_start() {
    for shards in [1, 3] {
        let view = |name: &str, text: &str| (Path::parse(name).unwrap(), text.into());
        let views = vec![view("a", "map in/* to out/<path(1)>"), view("b", "map out/* to last")];
        let mut node = Node::with(3, BrokerOptions { shards, views, ..BrokerOptions::default() });
        node.set("in/1", "1");
        node.rest();
        assert_eq!(node.value("last").unwrap(), "1");
        assert_eq!(node.shown("b").unwrap()["view"], "map out/* to last");
        node.put("b", "map out/* to other");
        node.put("c", "map other to more");
        node.rest();
        let topics = node.topics();
        assert_eq!(topics.keys().collect::<Vec<_>>(), ["in/1", "more", "other", "out/1"]);
        assert_eq!(node.shown("c").unwrap()["order"], 3);
    }
}

#[test]
fn what_was_delayed_does_not_come_after_what_no_delay_holds_back() {
    on_nodes(|mut node| {
        node.put("v", "map in/* to out/<path(1)> delay 500ms");
        node.set("in/a", "1");
        node.set("in/b", "1");
        node.advance(100);
        node.put("v", "map in/* to out/<path(1)>");
        node.set("in/a", "2");
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "2");
        node.advance(1000);
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "2", "the older value has come late");
        node.put("v", "map in/* to out/<path(1)> delay 500ms");
        node.set("in/a", "3");
        node.advance(100);
        node.put("v", "map in/* to other/<path(1)>");
        node.rest();
        node.advance(1000);
        node.rest();
        assert_eq!(node.value("out/a"), None, "the view does not write there any more");
        assert_eq!(node.value("other/a").unwrap(), "3");
        node.remove_view("v");
        assert_eq!(node.topics().len(), 2);
    });
}

#[test]
fn what_is_delayed_stays_within_its_bytes() {
    let mut node = Node::new(1, 1);
    node.put("v", "map in/* to out/<path(1)> delay 500ms");
    for number in 0..200 {
        node.set(&format!("in/{number}"), "1");
    }
    let large = "x".repeat(900 << 10);
    for _ in 0..80 {
        node.set("in/large", &large);
    }
    node.advance(1000);
    node.rest();
    let problems = node.shown("v").unwrap()["problems"].as_u64().unwrap();
    assert!(problems >= 200, "{problems} left out: the small ones first, then some of the large");
    assert_eq!(node.value("out/large").unwrap().len(), large.len());
}

#[test]
fn changes_of_an_inserted_topic_that_come_together_are_looked_at_once() {
    for shards in [1, 3] {
        let mut node = Node::new(1, shards);
        node.put("v", "map in/* to out/<path(1)> insert rate at /rate");
        node.set("rate", "0");
        for number in 0..2000 {
            node.set(&format!("in/{number}"), "{}");
        }
        node.rest();
        let version = |node: &mut Node| node.fetch("out/7").pop().unwrap().value.unwrap().version();
        let before = version(&mut node);
        for change in 1..=200 {
            node.set("rate", &change.to_string());
        }
        for _ in 0..20 {
            node.rest();
        }
        let shown = node.fetch("out/7").pop().unwrap().value.unwrap();
        assert_eq!(shown.message(0).unwrap().body, b"{\"rate\":200}");
        let changes = version(&mut node) - before;
        assert!(changes < 100, "{changes} on {shards} shards");
    }
}

#[test]
fn values_that_are_not_shown_count_as_memory() {
    let options = BrokerOptions { messages_bytes_max: 1_000_000, ..BrokerOptions::default() };
    let mut node = Node::with(1, options);
    node.put("v", "map in/* to all");
    let value = "x".repeat(20_000);
    for number in 0..100 {
        let message = crate::support::Outgoing::new(&value);
        node.world.publish_all(node.client, &format!("topic:in/{number}"), &[message]);
        node.rest();
    }
    node.advance(2000);
    node.rest();
    let shown = node.shown("v").unwrap();
    assert!(shown["problems"].as_u64().unwrap() >= 50, "{shown}");
    assert!(shown["last_problem"].as_str().unwrap().contains("no memory"), "{shown}");
}

#[test]
fn a_throttle_that_is_gone_holds_nothing_back() {
    on_nodes(|mut node| {
        node.put("slow", "map in/* to out/<path(1)> throttle 1 per 1h");
        node.put("other", "map other/* to out/<path(1)>");
        for value in ["1", "2"] {
            node.set("in/a", value);
            node.set("in/b", value);
            node.rest();
        }
        node.set("other/a", "9");
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "1");
        node.put("slow", "map in/* to out/<path(1)> throttle 2 per 1h");
        node.rest();
        assert_eq!(node.value("out/b").unwrap(), "2", "the new text allows two");
        node.set("in/b", "3");
        node.rest();
        assert_eq!(node.value("out/b").unwrap(), "2");
        node.set("in/a", "3");
        node.rest();
        node.remove_view("slow");
        node.rest();
        assert_eq!(node.value("out/a").unwrap(), "9", "nothing else gives to it");
        assert_eq!(node.value("out/b"), None);
    });
}

#[test]
fn what_an_output_does_not_take_is_as_if_it_were_not_given() {
    on_nodes(|mut node| {
        node.put("v", r#"map in/* to all with schema = "{\"type\":\"number\"}""#);
        node.set("in/a", "1");
        node.rest();
        assert_eq!(node.value("all").unwrap(), "1");
        node.set("in/b", "\"odd\"");
        node.rest();
        assert_eq!(node.value("all").unwrap(), "1");
        node.advance(2000);
        node.rest();
        assert!(node.shown("v").unwrap()["problems"].as_u64().unwrap() > 0);
        node.clear("in/a");
        node.rest();
        assert_eq!(node.value("all"), None, "nobody gives to it");
        node.set("in/c", "3");
        node.rest();
        assert_eq!(node.value("all").unwrap(), "3");
        node.clear("in/c");
        node.rest();
        assert_eq!(node.value("all"), None, "an older value does not come back");
    });
}
