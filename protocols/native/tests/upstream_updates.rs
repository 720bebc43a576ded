//! What an upstream says of topics, and what becomes of it: runs with the numbers of their source.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{CloseCode, ShardId};
use tiderace_native::codec::{
    ClientMessage, Messages, Numbers, ServerMessage, Update, Version, flag, subscribe as flags,
};
use tiderace_native::{NativeOptions, UpstreamOptions};
use tiderace_wire::{
    Delivery, Flags, Framing, FromUpstream, Numbering, Reply, Run, SharedRun, SubscriptionKey,
    UpstreamNumbers,
};

use crate::support::edge::{
    EPOCH, Edge, ends, entries, hear, options, said, up, up_with, update, welcome,
};
use crate::support::{self, MESSAGES, Rig, topic};

fn numbers(run: &Run) -> (u64, Option<u64>, UpstreamNumbers) {
    (run.version(), run.follows(), *run.upstream().unwrap())
}

#[test]
fn successive_updates_of_a_topic_are_one_run() {
    let mut edge = up();
    edge.subscribe(0, "a/*", None);
    let other = Numbering::new(77, ShardId(5)).whole();
    let with = |version: Version, numbering, number, reached, data| Update {
        version,
        numbers: Some(Numbers { numbering, number, reached }),
        ..update(4, flag::ANNOUNCED, 1, data)
    };
    let updates = [
        Update {
            properties: b"k\\c:v\n",
            flags: flag::ANNOUNCED | flag::VALUE | 1,
            ..with(Version::Full(70_000), 1, 20, 20, b"one")
        },
        with(Version::Low(70_001u64 as u16), 1, 21, 30, b"two"),
        // What is reached may not be told too early: 22 is not reached with its message.
        with(Version::Low(70_002u64 as u16), 1, 22, 0, b"three"),
        with(Version::Low(70_003u64 as u16), 1, 23, 23, b"four"),
        // A gap of versions, of numbers, and another one who gives them.
        with(Version::Full(70_005), 1, 24, 24, b"five"),
        with(Version::Low(70_006u64 as u16), 1, 26, 26, b"six"),
        with(Version::Low(70_007u64 as u16), other, 27, 5, b"seven"),
        Update {
            flags: flag::ANNOUNCED | flag::REMOVED,
            ..with(Version::Low(70_008u64 as u16), other, 28, 5, b"")
        },
    ];
    let topic = ServerMessage::Topic { topic: 4, subscription: 0, path: "a/b" };
    let (first, second) = (entries(&updates[..3]), entries(&updates[3..]));
    let follows = ServerMessage::Follows { flags: flag::ANNOUNCED, id: 4, version: 70_010 };
    let last = entries(&[with(Version::Full(70_020), other, 29, 29, b"nine")]);
    hear(
        &mut edge,
        &[
            topic,
            ServerMessage::Updates(&first),
            ServerMessage::Updates(&second),
            follows,
            ServerMessage::Updates(&last),
            ServerMessage::Position(vec![(1, 40), (other, 41)]),
        ],
    );
    let told = edge.told();
    let (runs, reached) = told.split_at(told.len() - 2);
    assert!(
        matches!(reached, [
        FromUpstream::Reached { numbering: a, sequence: 40 },
        FromUpstream::Reached { numbering: b, sequence: 41 },
    ] if (*a, b.whole()) == (Numbering::new(EPOCH, ShardId(1)), other)),
        "{reached:?}"
    );
    let runs: Vec<&Run> = runs
        .iter()
        .map(|told| match told {
            FromUpstream::Messages { run, key: SubscriptionKey(0) } => run,
            other => panic!("{other:?}"),
        })
        .collect();
    let own = Numbering::new(EPOCH, ShardId(1));
    let other = Numbering::new(77, ShardId(5));
    let told = |numbering, first, reached| UpstreamNumbers { numbering, first, reached };
    let expected = [
        (70_000, None, told(own, 20, 30)),
        (70_002, None, told(own, 22, 0)),
        (70_003, None, told(own, 23, 23)),
        (70_005, None, told(own, 24, 24)),
        (70_006, None, told(own, 26, 26)),
        (70_007, None, told(other, 27, 5)),
        (70_020, Some(70_010), told(other, 29, 29)),
    ];
    assert_eq!(runs.iter().map(|run| numbers(run)).collect::<Vec<_>>(), expected);
    let bodies: Vec<Vec<&[u8]>> =
        runs.iter().map(|run| run.messages().map(|message| message.body).collect()).collect();
    assert_eq!((bodies[0].len(), bodies[5].len()), (2, 2));
    let message = runs[0].message(0).unwrap();
    assert_eq!(message.properties, b"content-type:application/json\nk\\c:v\n");
    assert_eq!(message.flags, Flags::RETAIN | Flags::ESCAPED);
    assert!(runs[0].is_value(0) && !runs[0].is_value(1));
    assert_eq!(runs[5].message(1).unwrap().flags, Flags::RETAIN_REMOVE);
}

#[test]
fn broken_rules_end_the_session() {
    let delta = entries(&[update(0, flag::DELTA, 1, b"\0\0")]);
    let gone = entries(&[update(0, 0, 7, b"a longer value"), update(0, flag::DELTA, 9, b"\0\0")]);
    let far = entries(&[
        update(0, 0, 7, b"a"),
        Update { version: Version::Low(8), ..update(0, flag::DELTA, 8, b"\x05\0") },
    ]);
    let low = entries(&[Update { version: Version::Low(1), ..update(0, 0, 1, b"") }]);
    let zero = entries(&[update(0, 0, 0, b"")]);
    let high = entries(&[update(0, 0, 1 << 56, b"")]);
    let announced = entries(&[update(0, flag::ANNOUNCED, 1, b"")]);
    let told = |numbering, number, reached| {
        let numbers = Some(Numbers { numbering, number, reached });
        entries(&[Update { numbers, ..update(0, 0, 1, b"") }])
    };
    let (nobody, many, more) = (told(64, 1, 1), told(1, 1 << 63, 1), told(1, 1, 1 << 63));
    let large = entries(&[update(0, 0, 1, &[0; 101])]);
    let wild = entries(&[Update { properties: b"no line", ..update(0, 0, 1, b"") }]);
    let ok = |first, last| ServerMessage::Ok { first, last };
    let rows = [
        (ServerMessage::Updates(&low), "not told whole"),
        (ServerMessage::Updates(&zero), "has no version 0"),
        (ServerMessage::Updates(&high), "has no version"),
        (ServerMessage::Updates(&announced), "topic or subscription 0"),
        (ServerMessage::Updates(&nobody), "64 is not"),
        (ServerMessage::Updates(&many), "none of a message"),
        (ServerMessage::Updates(&more), "none of a message"),
        (ServerMessage::Updates(&large), "has 101 bytes; this node takes 100"),
        (ServerMessage::Updates(&wild), "properties"),
        (ServerMessage::Updates(&gone), "is to nothing"),
        (ServerMessage::Updates(&far), "a delta for `a`"),
        (ServerMessage::Updates(&low[..2]), "middle of a field"),
        (ServerMessage::Topic { topic: 0, subscription: 5, path: "a" }, "subscription 5"),
        (ServerMessage::Topic { topic: 0, subscription: 0, path: "a//b" }, "level 2"),
        (ServerMessage::Follows { flags: 0, id: 5, version: 1 }, "subscription 5"),
        (ServerMessage::Position(vec![(99, 1)]), "99 is not"),
        (
            ServerMessage::Joined { subscription: 0, path: "", spec: "{}", is_empty: false },
            "protocol",
        ),
        (ok(2, 9), "nothing that was asked"),
        (ServerMessage::Recovered { request: 7, complete: true, continues: true }, "nothing"),
        (ServerMessage::Error { request: 0, code: 1, slug: "a", sentence: "b" }, "nothing"),
        (ServerMessage::Browsed { subscription: 0 }, "nothing that was asked"),
        (ServerMessage::Welcome(welcome()), "to come once"),
    ];
    for (message, part) in rows {
        let mut edge = up_with(UpstreamOptions { message_bytes_max: 100, ..options() }, welcome());
        edge.subscribe(0, "a", None);
        edge.frames();
        ends(&mut edge, std::slice::from_ref(&message), part);
        let said = said(&mut edge);
        assert_eq!(said, ["Bye"], "{part}");
    }
    // What is not known is skipped; what comes before WELCOME is not.
    let mut edge = up();
    edge.hear(&[0x7f, 1, 0, 0x90, 0]);
    assert_eq!(edge.end, None);
    let mut edge = Edge::new(options());
    ends(&mut edge, &[ServerMessage::Pong(b"")], "WELCOME has to be the first");
    let mut edge = up();
    edge.subscribe(0, "a", None);
    edge.frames();
    hear(&mut edge, &[ServerMessage::Updates(&delta)]);
    let told = edge.told();
    assert!(matches!(&told[..], [FromUpstream::Refused { .. }]), "there was no value: {told:?}");
    assert_eq!(said(&mut edge), ["Unsubscribe { request: 2, subscription: 0 }"]);
}

#[test]
fn without_room_for_values_they_are_asked_for_without_deltas() {
    let mut edge = up_with(UpstreamOptions { bases_bytes_max: 64, ..options() }, welcome());
    let (large, small) = ([b'x'; 50], [b'y'; 20]);
    edge.subscribe(0, "a", None);
    edge.subscribe(1, "b", None);
    let values = entries(&[update(0, 0, 1, &large), update(1, 0, 2, &small)]);
    // All of the old value but its last byte, of both.
    let deltas =
        entries(&[update(0, flag::DELTA, 2, b"\x32\0"), update(1, flag::DELTA, 3, b"\x14\0")]);
    hear(&mut edge, &[ServerMessage::Updates(&values), ServerMessage::Updates(&deltas)]);
    edge.frames();
    let told = edge.told();
    let [_, _, FromUpstream::Messages { run, .. }, FromUpstream::Refused { key, close }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(run.message(0).unwrap().body, large);
    assert_eq!((key.0, close.code), (1, CloseCode::MemoryFull));
    assert!(close.reason.contains("`b`"), "{close}");
    // Asked again it comes in full.
    edge.subscribe(1, "b", None);
    hear(&mut edge, &[ServerMessage::Ok { first: 3, last: 3 }]);
    let frame = edge.frames().remove(0);
    let (kind, payload) = Messages::new(&frame).next().unwrap().unwrap();
    let ClientMessage::Subscribe(again) = ClientMessage::read(kind, payload).unwrap() else {
        panic!()
    };
    assert_eq!((again.subscription, again.flags & flags::DELTAS), (1, 0));
    let value = entries(&[update(1, 0, 3, &small)]);
    hear(&mut edge, &[ServerMessage::Updates(&value)]);
    assert_eq!(edge.runs().len(), 1);
}

/// A node between an origin and an edge passes the origin's numbers on, however a run is divided.
#[test]
fn numbers_of_the_origin_are_kept() {
    let origin = Numbering::new(9_000, ShardId(7));
    for (name, path) in [("fx/*", "fx/a"), ("fx/a", "fx/a")] {
        for cut in 0..4 {
            let mut rig = Rig::framed(NativeOptions::default(), Framing::Messages(&MESSAGES));
            let mut edge = Edge::new(options());
            let pass = |edge: &mut Edge, rig: &mut Rig| {
                edge.frames().iter().for_each(|frame| rig.send_bytes(frame));
                rig.frames().iter().for_each(|frame| edge.hear(frame));
            };
            pass(&mut edge, &mut rig);
            rig.reply(Reply::LoggedIn { name: "edge".into(), anonymous: false, host: None });
            pass(&mut edge, &mut rig);
            edge.subscribe(0, name, None);
            pass(&mut edge, &mut rig);
            rig.confirm(1);
            // With its own number 50 and version 4, and number 1,000 at the origin.
            let mut run =
                support::run(tiderace_wire::Kind::Topic, path, 50, 4, &[b"a", b"b", b"c", b"d"]);
            let numbers = UpstreamNumbers { numbering: origin, first: 1_000, reached: 1_009 };
            run.set_upstream(Some(numbers));
            let run = SharedRun::new(Arc::new(run));
            // The second part while something is recovered: nothing is reached.
            let mut reached = Vec::new();
            for (from, to, sequence) in [(0, cut, 60), (cut, 4, if cut == 3 { 0 } else { 60 })] {
                if from < to {
                    rig.deliver_reaching(0, &run, from, to, sequence);
                    let (key, exchange) = (SubscriptionKey(0), None);
                    let run = &run;
                    let delivery = Delivery {
                        key,
                        run,
                        from,
                        to,
                        redeliveries: 0,
                        reached: sequence,
                        exchange,
                    };
                    reached.push(delivery.reached_upstream().map_or(0, |(_, sequence)| sequence));
                }
            }
            rig.flush();
            pass(&mut edge, &mut rig);
            assert_eq!(edge.end, None);
            let told = edge.told();
            let runs: Vec<&Run> = told
                .iter()
                .filter_map(|told| match told {
                    FromUpstream::Messages { run, .. } => Some(run),
                    _ => None,
                })
                .collect();
            let mut next = 0;
            for run in &runs {
                let upstream = run.upstream().unwrap();
                assert_eq!((upstream.numbering, upstream.first), (origin, 1_000 + next));
                assert_eq!(run.version(), 4 + next);
                next += run.len() as u64;
            }
            assert_eq!(next, 4);
            let last = runs.last().unwrap().upstream().unwrap().reached;
            assert_eq!(last, *reached.last().unwrap(), "{name} cut at {cut}");
            // POSITION tells of both.
            let position: Vec<(Numbering, u64)> = told
                .iter()
                .filter_map(|told| match told {
                    FromUpstream::Reached { numbering, sequence } => Some((*numbering, *sequence)),
                    _ => None,
                })
                .collect();
            let most = reached.iter().copied().max().unwrap();
            assert!(position.contains(&(origin, most)), "{position:?}");
            assert!(position.contains(&(Numbering::new(EPOCH, ShardId(1)), 60)), "{position:?}");
        }
    }
}

#[test]
fn own_numbers_are_those_of_the_home() {
    let mut rig = Rig::new();
    let wish = flags::NUMBERED | flags::RECOVERABLE;
    rig.subscribe(1, 0, wish, "fx/a");
    let run = topic("fx/a", 50, 4, &[b"a", b"b"]);
    rig.deliver_reaching(0, &run, 0, 2, 60);
    rig.deliver_reaching(0, &run, 0, 2, 0);
    rig.flush();
    let mut numbers = Vec::new();
    for frame in rig.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            let ServerMessage::Updates(entries) = ServerMessage::read(kind, payload).unwrap()
            else {
                continue;
            };
            let read = tiderace_native::codec::Updates::numbered(entries);
            numbers.extend(read.map(|update| update.unwrap().numbers.unwrap()));
        }
    }
    let told = |number, reached| Numbers { numbering: 1, number, reached };
    assert_eq!(numbers, [told(50, 50), told(51, 60), told(50, 0), told(51, 0)]);
}
