//! Views that clients put, under crashes at any moment: what was confirmed is there in the next life,
//! in the same order, and makes its outputs again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::path;
use crate::support::for_seeds;
use crate::support::keeping::Keeping;
use crate::viewing::Node;
use tiderace_base::CloseCode;
use tiderace_broker::{BrokerOptions, Unrestorable};
use tiderace_wire::{Operation, OperationResult, Token};

const NAMES: [&str; 4] = ["a", "b", "c/d", "e"];

fn begin(seed: u64, keeping: &mut Keeping, configured: &[(&str, &str)]) -> Node {
    let views = configured.iter().map(|(name, text)| (path(name), Box::from(*text))).collect();
    let shards = 1 + (seed % 3) as usize;
    let options = BrokerOptions { shards, views, epoch: seed, ..BrokerOptions::default() };
    let mut node = Node::with(seed, options);
    keeping.restore(&mut node.world);
    node
}

fn ask(node: &mut Node, name: &str, text: Option<&str>) -> Token {
    node.operate(Operation::View { name: path(name), text: text.map(Into::into) })
}

/// The text of each view, by the place of its name.
fn texts(node: &mut Node) -> Vec<Option<String>> {
    let OperationResult::Views(views) = node.result(Operation::Views) else {
        panic!("views are listed")
    };
    let text = |name: &&str| views.iter().find(|view| view.name.as_str() == *name);
    NAMES.iter().map(|name| text(name).map(|view| view.text.to_string())).collect()
}

/// What each view has been since what is confirmed, and how far that is.
struct Known {
    states: Vec<(u64, Option<String>)>,
    confirmed: u64,
}

/// Puts, changes and removes views while the store answers late, or has no room.
fn live(node: &mut Node, keeping: &mut Keeping, known: &mut [Known], steps: std::ops::Range<u64>) {
    let mut awaited: Vec<(Token, usize, u64)> = Vec::new();
    for step in steps {
        let at = node.world.random.below(NAMES.len());
        let text = format!("map n/* to v{at}/<path(1)>/{step}");
        let text = Some(text).filter(|_| !node.world.random.one_in(3));
        let token = ask(node, NAMES[at], text.as_deref());
        // Also that there is none to remove is an answer, which promises nothing.
        let now = texts(node)[at].clone();
        known[at].states.push((step, now));
        awaited.push((token, at, step));
        for shard in 0..node.world.brokers.len() {
            if node.world.random.one_in(2) {
                keeping.take(&mut node.world, shard);
            }
            if node.world.random.one_in(3) {
                keeping.answer(&mut node.world, shard);
            }
        }
        if node.world.random.one_in(20) {
            keeping.full = !keeping.full;
        }
        if node.world.random.one_in(5) {
            node.advance(2_000);
        }
        node.world.deliver_envelopes();
        let done = &node.world.clients[node.client].operated;
        for (_, at, step) in awaited.iter().filter(|(token, ..)| done.contains_key(token)) {
            known[*at].confirmed = known[*at].confirmed.max(*step);
        }
    }
}

#[test]
fn what_was_confirmed_survives_a_crash_at_any_moment() {
    for_seeds(0..1000, |seed| {
        let mut keeping = Keeping::default();
        let fresh = |_| Known { states: vec![(0, None)], confirmed: 0 };
        let mut known: Vec<Known> = (0..NAMES.len()).map(fresh).collect();
        let mut step = 1;
        for life in 0..4 {
            let mut node = begin(seed + life * 5, &mut keeping, &[]);
            for (known, text) in known.iter_mut().zip(texts(&mut node)) {
                let since = known.states.iter().rposition(|(step, _)| *step <= known.confirmed);
                let possible = &known.states[since.unwrap_or(0)..];
                assert!(possible.iter().any(|(_, then)| *then == text), "{text:?}: {possible:?}");
                *known = Known { states: vec![(0, text)], confirmed: 0 };
            }
            let steps = 3 + node.world.random.below(20) as u64;
            live(&mut node, &mut keeping, &mut known, step..step + steps);
            step += steps;
            keeping.crash(&mut node.world);
            keeping.full = false;
        }
        assert_eq!(keeping.not_restored, []);
    });
}

#[test]
fn when_there_is_room_again_the_store_has_what_there_is() {
    for_seeds(0..300, |seed| {
        let mut keeping = Keeping::default();
        let fresh = |_| Known { states: Vec::new(), confirmed: 0 };
        let mut known: Vec<Known> = (0..NAMES.len()).map(fresh).collect();
        let mut node = begin(seed, &mut keeping, &[]);
        live(&mut node, &mut keeping, &mut known, 1..30);
        keeping.full = false;
        for _ in 0..4 {
            node.advance(2_000);
            keeping.finish(&mut node.world);
        }
        let before = texts(&mut node);
        assert_eq!(keeping.views(), before.iter().flatten().count(), "nothing is left over");
        keeping.crash(&mut node.world);
        assert_eq!(texts(&mut begin(seed + 1, &mut keeping, &[])), before);
    });
}

#[test]
fn views_run_again_in_their_order_and_show_themselves() {
    for seed in 0..6 {
        let mut keeping = Keeping::default();
        let mut node = begin(seed, &mut keeping, &[]);
        // Of two with the same output the one that was put earlier has it, whatever their names say.
        node.operate(Operation::View {
            name: path("z"),
            text: Some("map n to out as \"z\"".into()),
        });
        for name in ["a", "b"] {
            ask(&mut node, name, Some(&format!("map n to out as \"{name}\"")));
        }
        // A change keeps the place; one that was removed and put again comes last.
        ask(&mut node, "z", Some("map n to out as \"zz\""));
        ask(&mut node, "a", None);
        ask(&mut node, "a", Some("map n to out as \"aa\""));
        keeping.finish(&mut node.world);
        for (removed, then) in [("none", "zz"), ("z", "b"), ("b", "aa")] {
            keeping.crash(&mut node.world);
            node = begin(seed + 1, &mut keeping, &[]);
            ask(&mut node, removed, None);
            node.set("n", "1");
            node.advance(1_500);
            node.rest();
            assert_eq!(node.value("out").unwrap(), format!("\"{then}\""), "without {removed}");
            assert!(node.shown("a").unwrap()["view"].as_str().unwrap().contains("aa"));
            keeping.finish(&mut node.world);
        }
    }
}

#[test]
fn a_view_of_the_configuration_stands_and_one_that_was_put_goes() {
    let mut keeping = Keeping::default();
    let mut node = begin(3, &mut keeping, &[]);
    ask(&mut node, "a", Some("map n to put"));
    ask(&mut node, "b", Some("map n to other"));
    keeping.finish(&mut node.world);
    let configured = [("a", "map n to configured")];
    let mut node = begin(4, &mut keeping, &configured);
    assert_eq!(keeping.not_restored, [Unrestorable::ViewConfigured(path("a"))]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(texts(&mut node)[..2], [text("map n to configured"), text("map n to other")]);
    // What is changed of it holds until the end of this life, and does not wait for the store.
    let token = ask(&mut node, "a", Some("map n to changed"));
    assert!(node.world.clients[node.client].operated.contains_key(&token));
    keeping.finish(&mut node.world);
    assert_eq!(keeping.views(), 1, "the one that was put is forgotten");
    let mut node = begin(5, &mut keeping, &configured);
    assert_eq!(texts(&mut node)[0], text("map n to configured"));
}

#[test]
fn a_store_without_room_refuses_views() {
    let mut keeping = Keeping::default();
    let mut node = begin(1, &mut keeping, &[]);
    keeping.full = true;
    let first = ask(&mut node, "a", Some("map n to m"));
    keeping.finish(&mut node.world);
    node.world.deliver_envelopes();
    let second = ask(&mut node, "b", Some("map n to m"));
    let third = ask(&mut node, "a", None);
    for token in [first, second, third] {
        let refused = (Some(token), CloseCode::StoreUnavailable);
        assert!(node.world.clients[node.client].refused.contains(&refused));
    }
    assert!(texts(&mut node)[0].is_some(), "it runs, and is kept when there is room again");
    assert!(texts(&mut node)[1].is_none());
}

#[test]
fn what_a_view_makes_is_no_larger_than_a_message_may_be() {
    let options = BrokerOptions { message_bytes_max: 1_000, ..BrokerOptions::default() };
    let mut node = Node::with(1, options);
    node.put("v", "map in/* to out/<path(1)> set /again = /text");
    for (name, bytes) in [("small", 400), ("large", 600)] {
        node.set(&format!("in/{name}"), &format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes)));
    }
    node.rest();
    let topics = node.topics();
    assert!(topics.contains_key("out/small"), "{:?}", topics.keys());
    assert!(!topics.contains_key("out/large"), "{:?}", topics.keys());
    assert_eq!(node.world.metrics().view_problems, 1);
}
