//! Ends of exchanges: what was said before arrives before them, and a side that cancels hears nothing more.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::support::exchanges::{ended, heard, pair};
use tiderace_base::CloseCode;
use tiderace_wire::ExchangeKey;

#[test]
fn what_is_said_before_an_end_arrives_before_it() {
    for (shards, code) in
        [(1, CloseCode::CallFailed), (2, CloseCode::CallFailed), (3, CloseCode::Done)]
    {
        let (mut world, caller, responder) = pair(shards, |_| {});
        // All at once, before anybody has taken the call; the number may be used again.
        for number in [1, 1, 2] {
            world.call(caller, number, "add", "a", false);
            world.send_exchange(caller, ExchangeKey::caller(number), "b", false);
            world.send_exchange(caller, ExchangeKey::caller(number), "c", false);
            world.cancel_with(caller, ExchangeKey::caller(number), code);
            assert!(world.clients[caller].refused.is_empty());
        }
        world.quiesce();
        let mut of_each: BTreeMap<ExchangeKey, Vec<(&str, bool, bool)>> = BTreeMap::new();
        for row in &world.clients[responder].heard {
            let told = (&*row.body, row.exchange.first, row.exchange.last);
            of_each.entry(row.exchange.key).or_default().push(told);
        }
        let each = [("a", true, false), ("b", false, false), ("c", false, false)];
        assert_eq!(of_each.into_values().collect::<Vec<_>>(), [each, each, each]);
        let told = ended(&mut world, responder);
        assert_eq!(told.iter().map(|(_, known)| *known).collect::<Vec<_>>(), [code; 3]);
        assert_eq!(ended(&mut world, caller), []);
        // And the other way round: the caller hears of the end when it has taken what came before.
        world.call(caller, 7, "add", "x", true);
        world.quiesce();
        let key = world.clients[responder].heard.last().unwrap().exchange.key;
        for body in ["d", "e", "f"] {
            world.send_exchange(responder, key, body, false);
        }
        world.cancel_with(responder, key, code);
        world.deliver_envelopes();
        assert_eq!(ended(&mut world, caller), [], "it has taken nothing yet");
        assert_eq!(world.metrics().exchanges, 1, "and counts as open");
        world.quiesce();
        assert_eq!(
            heard(&world, caller),
            [("d", false, false), ("e", false, false), ("f", false, false)]
        );
        assert_eq!(ended(&mut world, caller), [(7, code)]);
        assert_eq!((world.metrics().exchanges, world.metrics().exchanges_served), (0, 0));
        world.end();
        world.sweep();
    }
}

#[test]
fn a_session_that_cancels_hears_nothing_more() {
    for shards in 1..=2 {
        let (mut world, caller, responder) = pair(shards, |_| {});
        for ended_already in [false, true] {
            world.call(caller, 1, "add", "x", true);
            world.quiesce();
            let key = world.clients[responder].heard.last().unwrap().exchange.key;
            world.send_exchange(responder, key, "d", false);
            if ended_already {
                world.cancel(responder, key);
            }
            world.deliver_envelopes();
            world.cancel(caller, ExchangeKey::caller(1));
            world.quiesce();
            assert_eq!(heard(&world, caller), []);
            assert_eq!(ended(&mut world, caller), []);
            assert_eq!(ended(&mut world, responder).len(), usize::from(!ended_already));
            assert_eq!((world.metrics().exchanges, world.metrics().exchanges_served), (0, 0));
        }
        world.end();
        world.sweep();
    }
}

#[test]
fn a_bare_last_word_is_no_message() {
    let (mut world, caller, responder) = pair(2, |_| {});
    world.call(caller, 1, "add", "x", true);
    world.quiesce();
    let key = world.clients[responder].heard[0].exchange.key;
    world.send_exchange(responder, key, "", false);
    world.finish_saying(responder, key);
    world.quiesce();
    let kinds: Vec<(bool, bool)> =
        world.clients[caller].heard.iter().map(|it| (it.exchange.last, it.exchange.bare)).collect();
    assert_eq!(kinds, [(false, false), (true, true)]);
    assert_eq!(ended(&mut world, caller), []);
    world.end();
    world.sweep();
}
