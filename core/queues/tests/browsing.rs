//! Browsers: what they are shown stays where it is, and nobody and nothing depends on whether they are there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{
    at_ms, consumer, destination, new_queues, options, publish, run, selective, session,
};
use tiderace_base::{Now, SessionId, ShardId, Span};
use tiderace_queues::{Consume, Effect, Ending, Queues, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{
    Browsing, Destination, Kind, Meta, Prefetch, QueueStart, RunBuilder, SubscriptionKey, Target,
};

const KEY: SubscriptionKey = SubscriptionKey(0);
const BROWSER: u32 = 50;

fn browser(messages: u32, browsing: Browsing) -> Consume {
    Consume { browsing: Some(browsing), ..consumer(BROWSER, messages) }
}

fn begin(queues: &mut Queues, now: Now, consume: &Consume) -> Vec<Effect> {
    let mut effects = Vec::new();
    queues.consume(now, consume, options, &mut effects);
    effects
}

fn send(queues: &mut Queues, now: Now, first: u64, count: u8) -> Vec<Effect> {
    let mut effects = Vec::new();
    publish(queues, now, run(first, count), options, &mut effects);
    effects
}

fn write(queues: &mut Queues, now: Now, range: (u64, u64)) -> Vec<Effect> {
    let mut effects = Vec::new();
    let accept = Settlement::Accept;
    queues.settle(now, session(BROWSER), KEY, &[range], accept, &mut effects);
    effects
}

/// What a session is shown, and whether it was told of the end.
fn shown_to(who: SessionId, effects: &[Effect]) -> (Vec<u64>, bool) {
    let numbers = effects.iter().flat_map(|effect| match effect {
        Effect::Deliver { session, segment, .. } if *session == who => {
            (segment.first()..=segment.last()).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    });
    let is_end =
        |effect: &Effect| matches!(effect, Effect::Browsed { session, .. } if *session == who);
    (numbers.collect(), effects.iter().any(is_end))
}

fn shown(effects: &[Effect]) -> (Vec<u64>, bool) {
    shown_to(session(BROWSER), effects)
}

#[test]
fn a_browser_sees_what_is_there_and_takes_nothing() {
    let (mut queues, now) = (new_queues(), Now::default());
    send(&mut queues, now, 1, 5);
    let before = queues.at(0).unwrap().messages;
    let effects = begin(&mut queues, now, &browser(3, Browsing::ToEnd));
    assert_eq!(shown(&effects), (vec![1, 2, 3], false));
    // What comes later is none of its business.
    assert_eq!(shown(&send(&mut queues, now, 6, 2)), (vec![], false));
    let effects = write(&mut queues, now, (1, 3));
    assert_eq!(shown(&effects), (vec![4, 5], true), "it has room, and then it has seen all");
    assert_eq!(shown(&write(&mut queues, now, (4, 5))), (vec![], false), "it has ended");
    let state = queues.at(0).unwrap();
    assert_eq!((before, state.messages, state.in_flight, state.consumers), (5, 7, 0, 0));
    let effects = begin(&mut queues, now, &consumer(1u8, 9));
    assert_eq!(shown_to(session(1u8), &effects).0, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn whatever_a_browser_says_of_messages_only_makes_room() {
    for settlement in [Settlement::Accept, Settlement::Reject] {
        let (mut queues, now) = (new_queues(), Now::default());
        send(&mut queues, now, 1, 4);
        begin(&mut queues, now, &browser(2, Browsing::ToEnd));
        let mut effects = Vec::new();
        queues.settle(now, session(BROWSER), KEY, &[(1, 2)], settlement, &mut effects);
        assert_eq!(shown(&effects).0, [3, 4], "{settlement:?}");
        let mut effects = Vec::new();
        let ranges = [(3, 4)];
        let gone = queues.accept_together(now, session(BROWSER), KEY, &ranges, &mut effects);
        assert!(gone.is_empty(), "nothing is gone with a transaction");
        queues.leave(now, session(BROWSER), KEY, (4, Ending::Lost), &mut effects);
        assert_eq!(queues.at(0).unwrap().messages, 4);
        let effects = begin(&mut queues, now, &consumer(1u8, 9));
        let redeliveries = |effect: &Effect| match effect {
            Effect::Deliver { segment, .. } => segment.redeliveries,
            _ => 0,
        };
        assert!(effects.iter().all(|effect| redeliveries(effect) == 0));
    }
}

#[test]
fn one_that_follows_sees_what_consumers_take() {
    let (mut queues, now) = (new_queues(), Now::default());
    begin(&mut queues, now, &consumer(1u8, 99));
    let effects = begin(&mut queues, now, &browser(20, Browsing::Following));
    assert_eq!(shown(&effects), (vec![], false));
    let effects = send(&mut queues, now, 1, 9);
    assert_eq!(shown(&effects), ((1..10).collect(), false));
    assert_eq!(shown_to(session(1u8), &effects).0.len(), 9, "the consumer has them all the same");
    assert_eq!(shown(&write(&mut queues, now, (1, 9))), (vec![], false));
    assert_eq!(shown(&send(&mut queues, now, 10, 2)).0, [10, 11]);
}

#[test]
fn one_that_is_slow_holds_nobody_up() {
    let (mut queues, now) = (new_queues(), Now::default());
    begin(&mut queues, now, &browser(1, Browsing::Following));
    begin(&mut queues, now, &consumer(1u8, 99));
    assert_eq!(shown(&send(&mut queues, now, 1, 3)).0, [1]);
    assert_eq!(shown_to(session(1u8), &send(&mut queues, now, 4, 3)).0, [4, 5, 6]);
    assert_eq!(shown(&write(&mut queues, now, (1, 1))).0, [], "the others were taken meanwhile");
    assert_eq!(shown(&send(&mut queues, now, 7, 1)).0, [7]);
}

#[test]
fn a_paused_queue_shows_what_it_has() {
    let (mut queues, now) = (new_queues(), Now::default());
    let (path, mut effects) = (destination().path, Vec::new());
    send(&mut queues, now, 1, 2);
    queues.pause(now, &path, true, options, &mut effects);
    let effects = begin(&mut queues, now, &browser(9, Browsing::Following));
    assert_eq!(shown(&effects).0, [1, 2]);
    assert_eq!(shown(&send(&mut queues, now, 3, 1)).0, [3]);
}

#[test]
fn selectors_expiry_and_places_choose() {
    let (mut queues, now) = (new_queues(), at_ms(100));
    send(&mut queues, now, 1, 7);
    let mut builder = RunBuilder::new(destination(), now.time);
    builder.properties().extend_from_slice(b"colour:red\n");
    builder.finish(b"x", Meta { expires_ms: Some(50), ..Meta::default() });
    let (mut over, mut effects) = (builder.build(), Vec::new());
    over.number(ShardId(0), 9);
    publish(&mut queues, now, over, options, &mut effects);
    send(&mut queues, now, 12, 1);
    let red = Consume { browsing: Some(Browsing::ToEnd), ..selective(BROWSER, "colour = 'red'") };
    assert_eq!(shown(&begin(&mut queues, now, &red)), (vec![3, 6, 12], true));
    // Versions count on where numbers leave gaps: the last is 9.
    let start = QueueStart::Version(4);
    let effects = begin(&mut queues, now, &Consume { start, ..red.clone() });
    assert_eq!(shown(&effects), (vec![6, 12], true));
    let effects = begin(&mut queues, now, &Consume { start: QueueStart::Next, ..red.clone() });
    assert_eq!(shown(&effects), (vec![], true), "nothing that is to come is there");
    let follow = Consume { browsing: Some(Browsing::Following), start: QueueStart::Next, ..red };
    assert_eq!(shown(&begin(&mut queues, now, &follow)), (vec![], false));
    assert_eq!(shown(&send(&mut queues, now, 13, 4)).0, [15]);
}

#[test]
fn credit_bounds_what_a_browser_is_shown() {
    let (mut queues, now) = (new_queues(), Now::default());
    send(&mut queues, now, 1, 5);
    let consume = Consume { credit: Some(2), ..browser(9, Browsing::ToEnd) };
    assert_eq!(shown(&begin(&mut queues, now, &consume)), (vec![1, 2], false));
    assert_eq!(shown(&write(&mut queues, now, (1, 2))).0, []);
    let mut effects = Vec::new();
    queues.credit(now, session(BROWSER), KEY, 3, &mut effects);
    assert_eq!(shown(&effects), (vec![3, 4, 5], true));
}

#[test]
fn browsers_keep_no_queue_and_follow_the_next_of_that_name() {
    let (mut queues, now) = (new_queues(), Now::default());
    let effects = begin(&mut queues, now, &browser(9, Browsing::ToEnd));
    assert_eq!((shown(&effects), queues.len()), ((vec![], true), 0), "none is made for it");
    begin(&mut queues, now, &browser(9, Browsing::Following));
    assert_eq!(queues.len(), 0);
    begin(&mut queues, now, &consumer(1u8, 9));
    let mut effects = send(&mut queues, now, 1, 2);
    queues.settle(now, session(1u8), KEY, &[(1, 2)], Settlement::Accept, &mut effects);
    queues.leave(now, session(1u8), KEY, (2, Ending::Orderly), &mut effects);
    assert_eq!(shown(&effects).0, [1, 2]);
    let later = Now { time: now.time + Span::from_secs(31), wall_ms: 31_000 };
    queues.tick(later, &mut effects);
    assert_eq!(queues.len(), 0, "it is idle although somebody follows it");
    assert_eq!(shown(&send(&mut queues, later, 3, 2)), (vec![3, 4], false));
    // One that has no room when its queue goes has come to the end.
    let (other, mut effects) = (session(51u32), Vec::new());
    let to_end = Consume { session: other, ..browser(1, Browsing::ToEnd) };
    queues.consume(later, &to_end, options, &mut effects);
    assert_eq!(shown_to(other, &effects), (vec![3], false));
    queues.discard(&destination().path, &mut effects);
    assert!(shown_to(other, &effects).1);
    assert_eq!(shown(&send(&mut queues, later, 9, 1)).0, [9]);
}

#[test]
fn what_comes_back_to_a_place_behind_the_cursor_is_shown() {
    let (mut queues, now) = (new_queues(), Now::default());
    begin(&mut queues, now, &consumer(1u8, 1));
    send(&mut queues, now, 1, 3);
    assert_eq!(shown(&begin(&mut queues, now, &browser(1, Browsing::Following))).0, [2]);
    let mut effects = Vec::new();
    queues.leave(now, session(1u8), KEY, (0, Ending::Orderly), &mut effects);
    assert_eq!(shown(&effects).0, [], "the first lies before what it was shown");
    assert_eq!(shown(&write(&mut queues, now, (2, 2))).0, [3]);
}

/// However many look for what is not there, each turn has its budget, and who consumes gets its messages.
#[test]
fn searches_of_browsers_are_bounded_in_each_turn() {
    let (mut queues, mut now) = (new_queues_of(64 << 20), at_ms(1));
    for first in (0..20_000).step_by(200) {
        send(&mut queues, now, first, 200);
    }
    for number in 0..100u32 {
        let green = Consume {
            session: session(BROWSER + number),
            browsing: Some(Browsing::ToEnd),
            ..selective(BROWSER, "colour LIKE '%green%' OR colour LIKE '%yellow%'")
        };
        assert_eq!(begin(&mut queues, now, &green).len(), 0, "not in one turn");
    }
    let (mut ended, mut turns) = (0, 0);
    let effects = begin(&mut queues, now, &consumer(1u8, 7));
    assert_eq!(shown_to(session(1u8), &effects).0.len(), 7);
    while queues.has_work() {
        now = at_ms(now.wall_ms + 1);
        let mut effects = Vec::new();
        queues.work(now, &mut effects);
        ended += effects.len();
        turns += 1;
        assert!(turns < 10_000, "it goes on for ever");
    }
    assert_eq!(ended, 100, "each has come to the end");
    assert!(turns > 50, "{turns} turns are too few for two million looks");
}

fn new_queues_of(bytes: usize) -> Queues {
    crate::support::queues_within(bytes)
}

#[test]
fn a_browser_of_one_queue_sees_no_other() {
    let (mut queues, now) = (new_queues(), Now::default());
    let path = Path::parse("others").unwrap();
    let target = Target::Exact(Destination { kind: Kind::Queue, path });
    begin(&mut queues, now, &Consume { target, ..browser(9, Browsing::Following) });
    assert_eq!(shown(&send(&mut queues, now, 1, 3)).0, []);
}

#[test]
fn what_a_browser_was_shown_has_bounded_bytes_whatever_its_window() {
    let (mut queues, now) = (new_queues_of(64 << 20), Now::default());
    let roomy =
        |path: &Path| tiderace_queues::QueueOptions { bytes_max: 32 << 20, ..options(path) };
    for first in 0..100 {
        let mut builder = RunBuilder::new(destination(), now.time);
        builder.finish(&[b'x'; 10_000], Meta::default());
        let (mut run, mut effects) = (builder.build(), Vec::new());
        run.number(ShardId(0), first);
        publish(&mut queues, now, run, roomy, &mut effects);
    }
    let window = Prefetch { messages: 0, bytes: u32::MAX };
    let consume = Consume { window, ..browser(0, Browsing::ToEnd) };
    let (numbers, is_end) = shown(&begin(&mut queues, now, &consume));
    assert!(numbers.len() == 27 && !is_end, "{}", numbers.len());
}

/// Who begins at a version shares nothing with who takes whatever comes next, wherever these stand.
#[test]
fn a_consumer_begins_where_it_says() {
    let (mut queues, now) = (new_queues(), Now::default());
    send(&mut queues, now, 1, 6);
    let from = |number: u8, start| Consume { start, ..consumer(number, 2) };
    let effects = begin(&mut queues, now, &from(1, QueueStart::Version(4)));
    assert_eq!(shown_to(session(1u8), &effects).0, [4, 5]);
    let effects = begin(&mut queues, now, &from(2, QueueStart::Next));
    assert_eq!(shown_to(session(2u8), &effects).0, []);
    let effects = begin(&mut queues, now, &from(3, QueueStart::Version(0)));
    assert_eq!(shown_to(session(3u8), &effects).0, [1, 2]);
    let effects = send(&mut queues, now, 7, 1);
    assert_eq!(shown_to(session(2u8), &effects).0, [7], "the others have no room");
    // What comes back goes to who may have it.
    let mut effects = Vec::new();
    queues.leave(now, session(3u8), KEY, (2, Ending::Orderly), &mut effects);
    assert_eq!(effects.len(), 0, "nobody begins so early");
    queues.settle(now, session(1u8), KEY, &[(4, 5)], Settlement::Accept, &mut effects);
    assert_eq!(shown_to(session(1u8), &effects).0, [6]);
    assert_eq!(queues.at(0).unwrap().messages, 3);
    let effects = begin(&mut queues, now, &consumer(4u8, 9));
    assert_eq!(shown_to(session(4u8), &effects).0, [1, 2, 3]);
}

#[test]
fn one_that_has_the_queue_for_itself_begins_where_it_says_too() {
    let (mut queues, now) = (new_queues(), Now::default());
    send(&mut queues, now, 1, 4);
    let consume = Consume {
        exclusive: true,
        start: QueueStart::Version(3),
        ..selective(1u8, "colour = 'blue'")
    };
    let effects = begin(&mut queues, now, &consume);
    assert_eq!(shown_to(session(1u8), &effects).0, [4]);
    assert_eq!(begin(&mut queues, now, &consumer(2u8, 9)).len(), 0);
}

/// A message to be delivered so late.
fn scheduled(number: u64, at_ms: u64) -> tiderace_wire::Run {
    let mut builder = RunBuilder::new(destination(), tiderace_base::Time::ZERO);
    builder.properties().extend_from_slice(format!("deliver-at:{at_ms}\n").as_bytes());
    builder.finish(b"x", Meta { flags: tiderace_wire::Flags::DELAYED, ..Meta::default() });
    let mut run = builder.build();
    run.number(ShardId(0), number);
    run
}

#[test]
fn what_was_delayed_is_shown_to_those_that_follow_when_its_time_has_come() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    let now = at_ms(0);
    begin(&mut queues, now, &consumer(1u8, 99));
    begin(&mut queues, now, &browser(2, Browsing::Following));
    for number in [1, 2, 4, 5] {
        publish(&mut queues, now, scheduled(number, 100), options, &mut effects);
        if number == 2 {
            assert_eq!(shown(&send(&mut queues, now, 3, 1)).0, [3]);
        }
    }
    assert_eq!(shown(&effects).0, []);
    write(&mut queues, now, (3, 3));
    let to_end = Consume { session: session(60u32), ..browser(9, Browsing::ToEnd) };
    assert_eq!(shown_to(session(60u32), &begin(&mut queues, now, &to_end)), (vec![], true));
    queues.wake(at_ms(100), &mut effects);
    assert_eq!(shown(&effects).0, [1, 2], "there is room for two of them");
    assert_eq!(shown_to(session(1u8), &effects).0, [1, 2, 4, 5]);
    assert_eq!(shown(&write(&mut queues, at_ms(100), (1, 2))).0, [], "the others were taken");
    assert_eq!(shown(&send(&mut queues, at_ms(100), 6, 1)).0, [6]);
    // What failed and comes again was shown.
    effects.clear();
    queues.settle(at_ms(100), session(1u8), KEY, &[(1, 2)], Settlement::Reject, &mut effects);
    assert_eq!(shown(&effects).0, []);
}

/// What is on its way to browsers counts, and beyond their share of the memory each has one message at a time.
#[test]
fn browsers_share_a_part_of_the_memory_and_all_come_to_their_end() {
    const BODY: usize = 10_000;
    let memory = std::rc::Rc::new(tiderace_base::Memory::new(8 << 20));
    let (mut queues, now) = (Queues::new(memory.clone()), Now::default());
    let roomy = |path: &Path| tiderace_queues::QueueOptions { bytes_max: 4 << 20, ..options(path) };
    for number in 0..40 {
        let mut builder = RunBuilder::new(destination(), now.time);
        builder.finish(&[b'x'; BODY], Meta::default());
        let (mut run, mut effects) = (builder.build(), Vec::new());
        run.number(ShardId(0), number);
        publish(&mut queues, now, run, roomy, &mut effects);
    }
    let used = || memory.used_for(tiderace_base::MemoryUse::Backlogs);
    let mut waiting: Vec<Vec<u64>> = Vec::new();
    for number in 0..50u32 {
        let window = Prefetch { messages: 0, bytes: u32::MAX };
        let who = session(BROWSER + number);
        let consume = Consume { session: who, window, ..browser(0, Browsing::ToEnd) };
        waiting.push(shown_to(who, &begin(&mut queues, now, &consume)).0);
        let all: usize = waiting.iter().map(Vec::len).sum();
        assert!((all * BODY..all * (BODY + 100)).contains(&used()), "{} for {all}", used());
    }
    assert!(waiting[0].len() > 20, "the first has its window");
    assert_eq!(waiting[10..].iter().map(Vec::len).max(), Some(1), "no more is left for the others");
    let (mut seen, mut ended) = (vec![0; 50], 0);
    for _ in 0..100 {
        for number in 0..50u32 {
            let who = session(BROWSER + number);
            let (mut effects, at) = (Vec::new(), number as usize);
            let written: Vec<(u64, u64)> = waiting[at].drain(..).map(|it| (it, it)).collect();
            seen[at] += written.len();
            queues.settle(now, who, KEY, &written, Settlement::Accept, &mut effects);
            let (numbers, is_end) = shown_to(who, &effects);
            waiting[at] = numbers;
            ended += usize::from(is_end);
        }
    }
    assert_eq!((seen, ended, used()), (vec![40; 50], 50, 0));
    // One that leaves gives back what it has not written, also behind its end.
    let effects = begin(&mut queues, now, &browser(0, Browsing::ToEnd));
    assert!(!shown(&effects).0.is_empty() && used() > 0);
    queues.discard(&destination().path, &mut Vec::new());
    assert!(used() > 0, "it was told of the end, and has not written it all");
    let lost = (0, Ending::Lost);
    queues.leave(now, session(BROWSER), KEY, lost, &mut Vec::new());
    assert_eq!(used(), 0);
}
