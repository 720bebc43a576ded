//! The session, conversation by conversation.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route, route_with, run, setup};
use tiderace_base::{CloseCode, Span};
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, Item, NUMBER_MAX, Payload, Request, Setup,
};
use tiderace_rsocket::{EchoOptions, RSocketOptions};
use tiderace_wire::{
    Command, Exchange, ExchangeKey, Kind, Outcome, Reply, Subscribe, SubscriptionKey,
};

fn echoing(interval: Span) -> RSocketOptions {
    let echo = Some(EchoOptions { interval, bytes_max: 1 << 20 });
    RSocketOptions { echo, ..RSocketOptions::default() }
}

fn subscribed(rig: &mut Rig) -> Box<Subscribe> {
    match rig.asked().pop() {
        Some(Command::Subscribe(subscribe)) => subscribe,
        other => panic!("{other:?}"),
    }
}

#[test]
fn payloads_come_back() {
    let mut rig = Rig::with(echoing(Span::from_secs(1)));
    rig.request(Interaction::Response, 1, 0, None, b"one");
    assert_eq!(rig.received(), ["1 PAYLOAD CN one"]);
    rig.request(Interaction::Stream, 3, 2, Some(b""), b"two");
    rig.request(Interaction::Stream, 5, 9, Some(&route("echo")), b"three");
    assert!(rig.received().is_empty());
    rig.wait(Span::from_millis(1010));
    let mut received = rig.received();
    received.sort();
    assert_eq!(received, ["3 PAYLOAD N [] two", "5 PAYLOAD N three"]);
    rig.send(&Frame::cancel(5));
    rig.wait(Span::from_millis(5000));
    assert_eq!(rig.received(), ["3 PAYLOAD N [] two"], "there is demand for no more");
    rig.send(&Frame::request_n(3, 1));
    rig.wait(Span::from_millis(1000));
    assert_eq!(rig.received(), ["3 PAYLOAD N [] two"]);
    rig.send(&Frame::cancel(3));
    rig.wait(Span::from_secs(1));
    assert!(rig.session.deadline() > rig.now.time + Span::from_secs(60), "nothing ticks");
}

#[test]
fn channels_echo_as_far_as_there_is_demand() {
    let mut rig = Rig::with(echoing(Span::from_secs(1)));
    rig.request(Interaction::Channel, 1, 3, None, b"a");
    assert_eq!(rig.received(), ["1 PAYLOAD N a", "1 REQUEST_N 2"]);
    let item = |data: &'static [u8], complete| Frame::item(1, Payload::data(data), complete);
    rig.send(&item(b"b", false));
    rig.send(&Frame::request_n(1, 4));
    assert_eq!(rig.received(), ["1 PAYLOAD N b", "1 REQUEST_N 4"]);
    rig.send(&item(b"c", true));
    assert_eq!(rig.received(), ["1 PAYLOAD N c", "1 PAYLOAD C"]);
}

#[test]
fn a_stream_of_a_topic_has_the_credit_that_is_asked_for() {
    let mut rig = Rig::new();
    rig.request(Interaction::Stream, 1, 5, Some(&route("fx/EUR")), b"");
    let subscribe = subscribed(&mut rig);
    assert_eq!((subscribe.key, subscribe.credit), (SubscriptionKey(0), Some(5)));
    assert!(subscribe.retained && !subscribe.explicit);
    rig.confirm(subscribe.confirm.unwrap());
    rig.deliver(0, &run(Kind::Topic, "fx/EUR", 7, &[b"1.08", b"1.09"]));
    assert_eq!(rig.received(), ["1 PAYLOAD N 1.08", "1 PAYLOAD N 1.09"]);
    rig.send(&Frame::request_n(1, NUMBER_MAX));
    assert!(matches!(
        rig.asked()[..],
        [Command::Credit { key: SubscriptionKey(0), messages }] if messages == u64::from(NUMBER_MAX)
    ));
    rig.send(&Frame::cancel(1));
    assert!(matches!(rig.asked()[..], [Command::Unsubscribe { key: SubscriptionKey(0), .. }]));
    rig.deliver(0, &run(Kind::Topic, "fx/EUR", 9, &[b"late"]));
    assert!(rig.received().is_empty());
}

#[test]
fn patterns_say_which_topic_it_was() {
    let mut rig = Rig::new();
    rig.request(Interaction::Stream, 1, NUMBER_MAX, Some(&route("fx/*")), b"");
    assert_eq!(subscribed(&mut rig).credit, None);
    rig.deliver(0, &run(Kind::Topic, "fx/EUR", 7, &[b"1.08"]));
    let received = rig.received().concat();
    assert!(
        received.contains("path:fx/EUR\\nversion:7\\n") && received.ends_with("] 1.08"),
        "{received}"
    );
}

#[test]
fn publishing_is_acknowledged() {
    let mut rig = Rig::new();
    let metadata = route_with("fx/EUR", "retain:true\n", "a:b\n");
    rig.request(Interaction::Response, 1, 0, Some(&metadata), b"1.08");
    let [Command::Publish { run, confirm: Some(confirm), .. }] = &rig.asked()[..] else { panic!() };
    let message = run.message(0).unwrap();
    assert_eq!(message.properties, b"content-type:application/json\na:b\n");
    assert_eq!((message.body, confirm.from), (&b"1.08"[..], confirm.to));
    rig.confirm(confirm.from);
    assert_eq!(rig.received(), ["1 PAYLOAD CN"]);
    rig.request(Interaction::FireAndForget, 3, 0, Some(&route("queue:jobs")), b"x");
    let [Command::Publish { run, confirm: None, .. }] = &rig.asked()[..] else { panic!() };
    assert_eq!(run.destination().kind, Kind::Queue);
}

#[test]
fn demand_settles_what_queues_gave() {
    let mut rig = Rig::new();
    rig.request(Interaction::Stream, 1, 2, Some(&route("queue:jobs")), b"");
    let subscribe = subscribed(&mut rig);
    assert!(subscribe.explicit && subscribe.credit == Some(2));
    rig.deliver(0, &run(Kind::Queue, "jobs", 40, &[b"a", b"b"]));
    assert_eq!(rig.received(), ["1 PAYLOAD N a", "1 PAYLOAD N b"]);
    rig.send(&Frame::request_n(1, 1));
    let asked = rig.asked();
    let [Command::Settle(settle), Command::Credit { messages: 1, .. }] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((&settle.ranges[..], settle.outcome), (&[(40, 40)][..], Outcome::Accept));
}

#[test]
fn services_are_called_and_served() {
    let mut rig = Rig::new();
    rig.request(Interaction::Response, 1, 0, Some(&route("service:sum")), b"[1,2]");
    let [Command::Call(call)] = &rig.asked()[..] else { panic!() };
    assert!((call.number, call.last) == (1, true) && call.body == b"[1,2]");
    let exchange = Exchange {
        key: ExchangeKey::caller(1),
        first: false,
        last: true,
        bare: false,
        credit: None,
    };
    rig.deliver_exchange(u32::MAX, &run(Kind::Service, "sum", 1, &[b"3"]), exchange);
    assert_eq!(rig.received(), ["1 PAYLOAD CN 3"]);

    rig.request(Interaction::Stream, 3, 10, Some(&route("serve:sum")), b"");
    let subscribe = subscribed(&mut rig);
    assert_eq!(subscribe.prefetch.unwrap().messages, 10);
    rig.confirm(subscribe.confirm.unwrap());
    assert_eq!(rig.received(), ["3 PAYLOAD N"]);
    let exchange = Exchange {
        key: ExchangeKey::responder(7),
        first: true,
        last: true,
        bare: false,
        credit: None,
    };
    rig.deliver_exchange(0, &run(Kind::Service, "sum", 1, &[b"[3,4]"]), exchange);
    let received = rig.received().concat();
    assert!(
        received.starts_with("2 REQUEST response 0 [") && received.ends_with("[3,4]"),
        "{received}"
    );
    rig.send(&Frame::item(2, Payload::data(b"7"), true));
    let [Command::SendExchange(sent)] = &rig.asked()[..] else { panic!() };
    assert!(sent.last && sent.body == b"7" && sent.exchange == ExchangeKey::responder(7));
}

#[test]
fn conversations_go_both_ways() {
    let mut rig = Rig::new();
    rig.request(Interaction::Channel, 1, 1, Some(&route("service:chat")), b"hello");
    assert_eq!(rig.received(), ["1 REQUEST_N 64"]);
    let [Command::Call(call)] = &rig.asked()[..] else { panic!() };
    assert!(!call.last && call.credit == Some(1));
    let say = |rig: &mut Rig, body: &[u8], last| {
        let bare = last && body.is_empty();
        let exchange =
            Exchange { key: ExchangeKey::caller(1), first: false, last, bare, credit: None };
        rig.deliver_exchange(u32::MAX, &run(Kind::Service, "chat", 1, &[body]), exchange);
    };
    say(&mut rig, b"a", false);
    say(&mut rig, b"b", false);
    assert_eq!(rig.received(), ["1 PAYLOAD N a"], "there is demand for one");
    rig.send(&Frame::request_n(1, 5));
    assert_eq!(rig.received(), ["1 PAYLOAD N b"]);
    let [Command::ExchangeCredit { exchange, messages: 5 }] = &rig.asked()[..] else { panic!() };
    assert_eq!(*exchange, ExchangeKey::caller(1), "the responder hears of it");
    rig.send(&Frame::complete(1));
    let [Command::SendExchange(sent)] = &rig.asked()[..] else { panic!() };
    assert!(sent.last && sent.bare && sent.body.is_empty());
    assert!(sent.properties.is_empty(), "nothing has no type");
    say(&mut rig, b"", true);
    assert_eq!(rig.received(), ["1 PAYLOAD C"]);
}

/// Says something in the exchange of the client's request 1: items, a bare end for `None`.
fn say(rig: &mut Rig, said: Option<&[u8]>, last: bool) {
    let exchange = Exchange {
        key: ExchangeKey::caller(1),
        first: false,
        last: last || said.is_none(),
        bare: said.is_none(),
        credit: None,
    };
    let run = run(Kind::Service, "s", 1, &[said.unwrap_or_default()]);
    rig.deliver_exchange(u32::MAX, &run, exchange);
}

// Protocol.md, PAYLOAD Frame: "Just (C)omplete set meaning PAYLOAD contains no data and only signals
// stream completion."
#[test]
fn a_bare_complete_is_no_item_and_an_empty_item_is_one() {
    for data_mime in
        ["application/json", "text/plain", "application/cbor", "application/octet-stream"]
    {
        let wish = Setup { data_mime: data_mime.as_bytes(), ..setup() };
        let mut rig = Rig::set_up(RSocketOptions::default(), &wish);
        rig.request(Interaction::Channel, 1, 9, Some(&route("service:s")), b"first");
        rig.asked();
        rig.send(&Frame::item(1, Payload::data(b""), false));
        rig.send(&Frame::complete(1));
        let asked = rig.asked();
        let [Command::SendExchange(item), Command::SendExchange(end)] = &asked[..] else {
            panic!("{asked:?}")
        };
        assert_eq!((item.last, item.bare, end.last, end.bare), (false, false, true, true));
        assert!(end.properties.is_empty(), "{data_mime}");
        rig.received();
        say(&mut rig, Some(b""), false);
        say(&mut rig, None, true);
        assert_eq!(rig.received(), ["1 PAYLOAD N", "1 PAYLOAD C"]);
        // An empty last item is an item; a call may be answered by nothing.
        rig.request(Interaction::Stream, 3, 9, Some(&route("service:s")), b"x");
        rig.request(Interaction::Response, 5, 0, Some(&route("service:s")), b"x");
        for (number, bare) in [(3, false), (5, true)] {
            let exchange = Exchange {
                key: ExchangeKey::caller(number),
                first: false,
                last: true,
                bare,
                credit: None,
            };
            rig.deliver_exchange(u32::MAX, &run(Kind::Service, "s", 1, &[b""]), exchange);
        }
        assert_eq!(rig.received(), ["3 PAYLOAD CN", "5 PAYLOAD C"]);
    }
}

#[test]
fn an_end_needs_no_demand() {
    let mut rig = Rig::new();
    rig.request(Interaction::Stream, 1, 2, Some(&route("service:s")), b"x");
    for item in [b"1", b"2", b"3", b"4"] {
        say(&mut rig, Some(item), false);
    }
    say(&mut rig, None, true);
    assert_eq!(rig.received(), ["1 PAYLOAD N 1", "1 PAYLOAD N 2"]);
    rig.send(&Frame::request_n(1, 2));
    assert_eq!(rig.received(), ["1 PAYLOAD N 3", "1 PAYLOAD N 4", "1 PAYLOAD C"]);
    // At once if nothing waits; behind it if something does.
    for (stream, credit) in [(3, 1), (5, 2)] {
        rig.request(Interaction::Stream, stream, credit, Some(&route("service:s")), b"x");
        let key = ExchangeKey::caller(stream);
        for (body, last, bare) in
            [(&b"1"[..], false, false), (b"2", false, false), (b"", true, true)]
        {
            let exchange = Exchange { key, first: false, last, bare, credit: None };
            rig.deliver_exchange(u32::MAX, &run(Kind::Service, "s", 1, &[body]), exchange);
        }
    }
    assert_eq!(rig.received(), ["3 PAYLOAD N 1", "5 PAYLOAD N 1", "5 PAYLOAD N 2", "5 PAYLOAD C"]);
}

#[test]
fn an_error_comes_behind_the_items_that_wait_for_demand() {
    let mut rig = Rig::new();
    rig.request(Interaction::Channel, 1, 1, Some(&route("service:s")), b"x");
    for item in [b"1", b"2", b"3"] {
        say(&mut rig, Some(item), false);
    }
    let key = ExchangeKey::caller(1);
    rig.reply(Reply::ExchangeEnded { exchange: key, close: CloseCode::CallFailed.into() });
    assert_eq!(rig.received(), ["1 REQUEST_N 64", "1 PAYLOAD N 1"]);
    // What the client may still send is for nobody, and no fault.
    rig.asked();
    rig.send(&Frame::item(1, Payload::data(b"late"), false));
    assert!(rig.asked().is_empty() && rig.received().is_empty());
    rig.send(&Frame::request_n(1, 1));
    assert_eq!(rig.received(), ["1 PAYLOAD N 2"]);
    rig.send(&Frame::request_n(1, 1));
    assert_eq!(rig.received(), ["1 PAYLOAD N 3", "1 ERROR APPLICATION_ERROR call-failed"]);
    rig.send(&Frame::item(1, Payload::data(b"late"), false));
    assert!(rig.received().is_empty() && rig.end.is_none());
    // Nothing is left of one whose client gives up instead.
    rig.request(Interaction::Stream, 3, 1, Some(&route("service:s")), b"x");
    let key = ExchangeKey::caller(3);
    for body in [b"1", b"2"] {
        let exchange = Exchange { key, first: false, last: false, bare: false, credit: None };
        rig.deliver_exchange(u32::MAX, &run(Kind::Service, "s", 1, &[body]), exchange);
    }
    rig.reply(Reply::ExchangeEnded { exchange: key, close: CloseCode::CallFailed.into() });
    rig.send(&Frame::cancel(3));
    rig.send(&Frame::request_n(3, 1));
    assert_eq!(rig.received(), ["3 PAYLOAD N 1"]);
}

#[test]
fn what_is_refused_costs_its_request_alone() {
    let mut rig = Rig::new();
    rig.request(Interaction::Response, 1, 0, Some(&route("")), b"x");
    rig.request(Interaction::Stream, 3, 1, Some(&route("service:a/*")), b"x");
    rig.request(Interaction::Stream, 5, 1, Some(&route("a")), b"");
    let token = subscribed(&mut rig).confirm.unwrap();
    let close = tiderace_base::CloseCode::NotAuthorised.into();
    rig.reply(Reply::Refused { token: Some(token), close });
    assert_eq!(
        rig.received(),
        [
            "1 ERROR INVALID bad-destination",
            "3 ERROR INVALID bad-destination",
            "5 ERROR APPLICATION_ERROR not-authorised",
        ]
    );
    assert!(rig.end.is_none());
}

#[test]
fn what_the_broker_ends_ends_its_stream_and_frees_its_key() {
    let mut rig = Rig::new();
    rig.request(Interaction::Stream, 1, 1, Some(&route("queue:jobs")), b"");
    let consumer = subscribed(&mut rig);
    rig.request(Interaction::Stream, 3, 1, Some(&route("fx/EUR")), b"");
    let topic = subscribed(&mut rig);
    for subscribe in [&consumer, &topic] {
        rig.confirm(subscribe.confirm.unwrap());
    }
    let ended = |key| {
        let close = tiderace_base::CloseCode::UpstreamAway.into();
        Reply::SubscriptionEnded { key, close }
    };
    rig.reply(ended(consumer.key));
    assert_eq!(rig.received(), ["1 ERROR REJECTED upstream-away"]);
    // Nothing is asked of the broker for what has crossed it, and the other stream goes on.
    rig.send(&Frame::request_n(1, 1));
    rig.send(&Frame::cancel(1));
    assert!(rig.asked().is_empty() && rig.end.is_none());
    rig.deliver(topic.key.0, &run(Kind::Topic, "fx/EUR", 7, &[b"1.08"]));
    assert_eq!(rig.received(), ["3 PAYLOAD N 1.08"]);
    rig.request(Interaction::Stream, 5, 1, Some(&route("queue:jobs")), b"");
    assert_eq!(subscribed(&mut rig).key, consumer.key);
    rig.reply(ended(SubscriptionKey(9)));
    assert!(rig.received().is_empty());
}

#[test]
fn fragments_are_put_together_and_made() {
    let mut rig = Rig::with(RSocketOptions { fragment_bytes: 64, ..echoing(Span::ZERO) });
    let data: Vec<u8> = (0..200u8).collect();
    let whole = Frame {
        stream: 1,
        body: Body::Request(tiderace_rsocket::frame::Request {
            interaction: Interaction::Response,
            follows: false,
            complete: false,
            credit: 0,
            payload: Payload::data(&data),
        }),
    };
    for fragment in tiderace_rsocket::fragment::Fragments::new(whole, 80) {
        assert!(rig.received().is_empty());
        rig.send(&fragment);
    }
    let mut got = Vec::new();
    for frame in rig.frames() {
        assert!(frame.len() <= 64);
        let Body::Payload(Item { payload, next: true, .. }) = Frame::read(&frame).unwrap().body
        else {
            panic!()
        };
        got.extend_from_slice(payload.data);
    }
    assert_eq!(got, data);
}

#[test]
fn fragments_of_all_connections_have_a_limit() {
    let options = RSocketOptions { fragments_bytes_shard_max: 150, ..echoing(Span::from_secs(1)) };
    let (mut one, mut other) = (Rig::with(options.clone()), Rig::with(options));
    let request = |stream, follows| Frame {
        stream,
        body: Body::Request(Request {
            interaction: Interaction::Response,
            follows,
            complete: false,
            credit: 0,
            payload: Payload::data(&[b'x'; 100]),
        }),
    };
    let rest = |follows| Frame {
        stream: 1,
        body: Body::Payload(Item {
            follows,
            complete: false,
            next: true,
            payload: Payload::data(&[b'x'; 100]),
        }),
    };
    one.send(&request(1, true));
    one.send(&rest(true));
    assert!(one.received().is_empty());
    other.send(&request(1, true));
    assert!(other.received()[0].ends_with(" memory-full"), "enough of them wait");
    other.send(&rest(false));
    other.send(&request(3, false));
    assert!(other.received()[0].starts_with("3 PAYLOAD CN xx"), "whole ones are taken");
    one.send(&Frame::cancel(1));
    other.send(&request(5, true));
    assert!(other.received().is_empty(), "there is room again");
    drop(other);
    one.send(&request(3, true));
    one.send(&Frame { stream: 3, ..rest(false) });
    assert!(one.received()[0].starts_with("3 PAYLOAD CN xx"));
}

#[test]
fn own_topics_are_those_of_any_name_that_is_a_level() {
    for (name, expected) in [
        ("?bob", Some("user/?bob/inbox")),
        ("[b]", Some("user/[b]/inbox")),
        ("a/b", None),
        ("b*", None),
    ] {
        let mut rig = Rig::fresh(RSocketOptions::default());
        rig.send(&Frame::connection(Body::Setup(setup())));
        rig.reply(Reply::LoggedIn { name: name.into(), anonymous: false, host: None });
        rig.commands.clear();
        rig.request(Interaction::FireAndForget, 1, 0, Some(&route("~/inbox")), b"x");
        let path = rig.commands.first().map(|command| match command {
            Command::Publish { run, .. } => run.destination().path.to_string(),
            other => panic!("{other:?}"),
        });
        assert_eq!(path.as_deref(), expected, "{name}");
    }
}

#[test]
fn own_topics_take_a_login() {
    let mut rig = Rig::fresh(RSocketOptions::default());
    rig.send(&Frame::connection(Body::Setup(setup())));
    rig.reply(Reply::LoggedIn { name: "anonymous".into(), anonymous: true, host: None });
    rig.commands.clear();
    rig.request(Interaction::Stream, 1, 9, Some(&route("~/inbox")), b"");
    assert_eq!(rig.received(), ["1 ERROR APPLICATION_ERROR login-required"]);
    assert!(rig.commands.is_empty(), "{:?}", rig.commands);
}

#[test]
fn a_request_says_when_a_queue_is_to_deliver() {
    let mut rig = Rig::new();
    for (option, delay) in [("delay:5s\n", Some(5_000)), ("deliver-at:1\n", None)] {
        let metadata = route_with("queue:jobs", option, "a:b\n");
        rig.request(Interaction::FireAndForget, 1, 0, Some(&metadata), b"x");
        let [Command::Publish { run, .. }] = &rig.asked()[..] else { panic!("{option}") };
        let message = run.message(0).unwrap();
        assert_eq!(message.deliver_at_ms(), delay.map(|delay: u64| rig.now.wall_ms + delay));
        assert_eq!(message.flags.contains(tiderace_wire::Flags::DELAYED), delay.is_some());
    }
    let metadata = route_with("queue:jobs", "priority:9\n", "a:b\n");
    rig.request(Interaction::FireAndForget, 1, 0, Some(&metadata), b"x");
    let [Command::Publish { run, .. }] = &rig.asked()[..] else { panic!("no publication") };
    assert_eq!(run.priority(), 9);
    for option in ["priority:10\n", "priority:\n", "priority:high\n"] {
        rig.request(Interaction::Response, 3, 0, Some(&route_with("queue:jobs", option, "")), b"x");
        assert!(rig.asked().is_empty() && rig.received()[0].contains("bad-priority"), "{option}");
    }
    for (to, option) in [("queue:jobs", "deliver-at:soon\n"), ("jobs", "delay:5s\n")] {
        rig.request(Interaction::Response, 3, 0, Some(&route_with(to, option, "")), b"x");
        assert!(rig.asked().is_empty(), "{option}");
        assert!(rig.received()[0].contains("bad-schedule"), "{option}");
    }
}
