//! The journal beside a store that commits and refuses as it likes.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tiderace_base::{Span, Time};
use tiderace_journal::{
    AnswerKind, Awaited, Journal, NotStored, RecordBody, RecordSubject, Settled, StoreOutage,
    StoreRecord, StoredKind, Streams, TakenRecords,
};
use tiderace_topics::Path;

#[derive(Clone, Debug)]
enum Step {
    /// Something is written, and its answer is held for the record, or for one before it.
    Write {
        subject: RecordSubject,
        back: u64,
    },
    /// A stream ends, as each does once.
    End,
    Take,
    /// The store answers some of the records taken.
    Answer {
        commits: bool,
        count: u64,
    },
    /// Time passes, and the store is tried.
    Retry,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let subject = prop_oneof![
        Just(RecordSubject::Numbers),
        Just(RecordSubject::Fences),
        (0u64..3).prop_map(RecordSubject::View),
        (0u64..3).prop_map(|stream| RecordSubject::Topic(Default::default(), stream)),
    ];
    let step = prop_oneof![
        4 => (subject, 0u64..3).prop_map(|(subject, back)| Step::Write { subject, back }),
        1 => Just(Step::End),
        4 => Just(Step::Take),
        3 => (any::<bool>(), 1u64..4).prop_map(|(commits, count)| Step::Answer { commits, count }),
        2 => Just(Step::Retry),
    ];
    proptest::collection::vec(step, 1..120)
}

/// What the test knows beside the journal.
#[derive(Default)]
struct Model {
    journal: Journal<u64>,
    now: Time,
    /// What each record concerns.
    subjects: BTreeMap<u64, RecordSubject>,
    /// The records taken, and the number up to which the store has answered.
    taken: u64,
    answered: u64,
    committed: BTreeSet<u64>,
    /// What was refused and is not committed since, with whether it was appended again.
    refused: BTreeMap<RecordSubject, bool>,
    /// The answers that wait, with the record for which each waits, and whether something was removed.
    held: Vec<(u64, u64, bool)>,
    next_answer: u64,
    /// How many streams have ended.
    ended: u64,
}

impl Model {
    fn append(&mut self, subject: RecordSubject) -> u64 {
        let record = match subject {
            RecordSubject::Gone(stream) => StoreRecord::Drop { stream },
            _ => StoreRecord::Unset { name: String::new() },
        };
        let number = self.journal.append(record, subject);
        self.subjects.insert(number, subject);
        self.refused.entry(subject).and_modify(|again| *again = true);
        number
    }

    fn hold(&mut self, until: u64, kind: AnswerKind) {
        let answer = self.next_answer;
        self.next_answer += 1;
        let is_open = until > self.answered;
        assert_eq!(self.journal.is_open(until), is_open);
        match self.journal.hold(until, kind, answer) {
            Ok(()) => {
                assert!(is_open);
                let at = self.held.iter().filter(|(_, other, _)| *other <= until).count();
                self.held.insert(at, (answer, until, kind == AnswerKind::Removal));
            }
            Err(given_back) => assert!(!is_open && given_back == answer),
        }
    }

    fn settle(&mut self, settled: Settled<u64>, up_to: u64) {
        let gone_again =
            |(subject, _): (&RecordSubject, &bool)| matches!(subject, RecordSubject::Gone(_));
        let is_doubtful = self.refused.iter().any(gone_again);
        for (answer, result) in settled.answers {
            let at = self.held.iter().position(|(other, ..)| *other == answer).unwrap();
            let before = &self.held[..at];
            // What was removed may have to wait longer.
            assert!(before.iter().all(|(.., is_removal)| *is_removal), "they keep their order");
            let (_, until, is_removal) = self.held.remove(at);
            assert!(until <= up_to);
            assert!(!is_removal || result.is_ok(), "it is gone");
            if result.is_ok() {
                let is_there = is_removal || self.committed.contains(&until);
                assert!(is_there, "answered before it was committed");
                assert!(!is_doubtful, "an end of a stream is not stored");
            }
        }
        let waits = |(_, until, is_removal): &(u64, u64, bool)| *until > up_to || *is_removal;
        assert!(self.held.iter().all(waits), "an answer waits for what is answered");
        assert_eq!(self.journal.held(), self.held.len());
        for subject in settled.append_again {
            self.append(subject);
        }
        self.journal.end_append_again();
        if self.journal.outage().is_none() {
            assert!(self.refused.values().all(|again| *again), "{:?} is forgotten", self.refused);
        }
    }

    fn answer(&mut self, commits: bool, count: u64) {
        let up_to = (self.answered + count).min(self.taken);
        let records = self.answered + 1..=up_to;
        self.answered = up_to;
        for number in records {
            let subject = self.subjects[&number];
            if commits {
                self.committed.insert(number);
                // A later record of the same subject may be under way; this one is enough.
                self.refused.retain(|known, again| !(*known == subject && *again));
            } else {
                self.refused.insert(subject, false);
            }
        }
        let settled = match commits {
            true => self.journal.committed(up_to),
            false => self.journal.failed(self.now, up_to, StoreOutage::Full),
        };
        self.settle(settled, up_to);
    }

    fn retry(&mut self) {
        self.now = self.now + Span::from_secs(2);
        let last = self.journal.last();
        let is_begun = self.journal.begin_retry(self.now);
        for number in last + 1..=self.journal.last() {
            // Ends of streams are appended by the journal itself.
            let ends = self
                .refused
                .iter()
                .filter(|(subject, again)| matches!(subject, RecordSubject::Gone(_)) && !**again);
            let subject = *ends.map(|(subject, _)| subject).next().unwrap();
            self.subjects.insert(number, subject);
            self.refused.insert(subject, true);
        }
        if is_begun {
            let before = self.journal.last();
            if let Some(subject) = self.journal.next_refused() {
                self.append(subject);
            }
            self.journal.end_retry(before);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn answers_say_what_the_store_has(steps in steps()) {
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Write { subject, back } => {
                    // The broker writes nothing during an outage.
                    if model.journal.outage().is_none() {
                        let number = model.append(subject);
                        model.hold(number.saturating_sub(back), AnswerKind::Write);
                    }
                }
                Step::End => {
                    model.ended += 1;
                    let number = model.append(RecordSubject::Gone(model.ended));
                    model.hold(number, AnswerKind::Removal);
                }
                Step::Take => {
                    if let Some(TakenRecords { up_to, records, .. }) = model.journal.take() {
                        prop_assert_eq!(up_to, model.journal.last());
                        prop_assert_eq!(records.len() as u64, up_to - model.taken);
                        model.taken = up_to;
                    }
                    prop_assert!(!model.journal.has_records() && !model.journal.is_behind());
                }
                Step::Answer { commits, count } => model.answer(commits, count),
                Step::Retry => model.retry(),
            }
        }
        while !model.held.is_empty() {
            let (before, held) = (model.answered, model.held.len());
            model.retry();
            if let Some(TakenRecords { up_to, .. }) = model.journal.take() {
                model.taken = up_to;
            }
            model.answer(true, u64::MAX / 2);
            let goes_on = model.answered > before || model.held.len() < held;
            prop_assert!(goes_on, "nobody answers {:?}", model.held);
        }
    }
}

#[test]
fn a_store_that_has_failed_is_not_tried_again() {
    let mut journal = Journal::<()>::default();
    journal.append(StoreRecord::Drop { stream: 1 }, RecordSubject::Gone(1));
    journal.failed(Time::ZERO, 1, StoreOutage::Failed);
    journal.failed(Time::ZERO, 1, StoreOutage::Full);
    assert_eq!(journal.outage(), Some(StoreOutage::Failed));
    let later = Time::ZERO + Span::from_secs(3_600);
    assert!(!journal.begin_retry(later) && journal.last() == 1);
}

#[test]
fn much_that_waits_puts_the_journal_behind_until_it_is_taken() {
    let mut journal = Journal::<()>::default();
    let bytes = vec![0; 1 << 20];
    let put = StoreRecord::Put { stream: 1, first: 1, count: 1, keep_from: 1, bytes, body: None };
    journal.append(put, RecordSubject::View(1));
    assert!(journal.is_behind());
    journal.take();
    assert!(!journal.is_behind());
}

#[test]
fn homes_that_share_a_store_share_no_stream() {
    let mut seen = BTreeSet::new();
    for home in 0..3 {
        let mut streams = Streams::of_home(7, home, 3);
        for _ in 0..5 {
            let stream = streams.create();
            assert!(stream >= 7 && seen.insert(stream));
        }
    }
}

#[test]
fn settled_messages_become_one_record_and_are_said_again_after_a_refusal() {
    let mut journal = Journal::<()>::default();
    for (stream, version) in [(1, 1), (1, 2), (1, 5), (2, 6), (1, 6), (1, 4)] {
        let before = journal.last();
        assert!(journal.append_settled(stream, version, version) > before, "each has a number");
    }
    let settle =
        |stream, ranges: &[(u64, u64)]| StoreRecord::Settle { stream, ranges: ranges.into() };
    let TakenRecords { up_to, records, .. } = journal.take().unwrap();
    let expected = vec![
        settle(1, &[(1, 2), (5, 5)]),
        settle(2, &[(6, 6)]),
        settle(1, &[(6, 6)]),
        settle(1, &[(4, 4)]),
    ];
    assert_eq!(records, expected);
    journal.failed(Time::ZERO, up_to, StoreOutage::Full);
    assert!(!journal.begin_retry(Time::ZERO + Span::from_secs(2)), "what takes no room goes first");
    let TakenRecords { up_to, records, .. } = journal.take().unwrap();
    assert_eq!(records, vec![settle(1, &[(1, 2), (4, 6)]), settle(2, &[(6, 6)])]);
    journal.committed(up_to);
    assert!(journal.begin_retry(Time::ZERO + Span::from_secs(5)));
    assert_eq!(journal.next_refused(), None);
    journal.end_retry(up_to);
    assert_eq!(journal.outage(), None);
}

#[test]
fn what_is_settled_without_a_confirmation_need_not_be_committed_at_once() {
    let mut journal = Journal::default();
    let settled = journal.append_settled(1, 1, 1);
    assert!(!journal.take().unwrap().is_awaited);
    // Somebody who asks afterwards waits no longer than for what was not awaited.
    assert_eq!(journal.hold(settled, AnswerKind::Messages, "late"), Ok(()));
    journal.append_settled(1, 2, 2);
    assert!(!journal.take().unwrap().is_awaited);
    let settled = journal.append_settled(1, 3, 3);
    assert_eq!(journal.hold(settled, AnswerKind::Messages, "confirmed"), Ok(()));
    assert!(journal.take().unwrap().is_awaited);
    journal.append_settled(1, 4, 4);
    journal.append(StoreRecord::Drop { stream: 2 }, RecordSubject::Gone(2));
    assert!(journal.take().unwrap().is_awaited, "something else is said, too");
}

#[test]
fn what_is_settled_while_the_store_takes_nothing_is_kept_in_bounded_room_and_said_a_part_at_a_time()
{
    let mut journal = Journal::<()>::default();
    let refuse = |journal: &mut Journal<()>, outage| {
        let TakenRecords { up_to, records, .. } = journal.take().unwrap();
        journal.failed(Time::ZERO, up_to, outage);
        records
    };
    // Every second message, one batch each; then the others, from behind.
    for number in 0..40_000u64 {
        journal.append_settled(1, 2 * number, 2 * number);
        refuse(&mut journal, StoreOutage::Full);
    }
    let mut later = Time::ZERO;
    let mut retry = |journal: &mut Journal<()>| {
        later = later + Span::from_secs(2);
        assert!(!journal.begin_retry(later));
        let TakenRecords { up_to, records, .. } = journal.take().unwrap();
        let ranges = |record: &StoreRecord| match record {
            StoreRecord::Settle { ranges, .. } => ranges.len(),
            _ => 0,
        };
        journal.failed(later, up_to, StoreOutage::Full);
        records.iter().map(ranges).sum::<usize>()
    };
    assert!((1..40_000).contains(&retry(&mut journal)), "a part of them");
    for number in (0..40_000u64).rev() {
        journal.append_settled(1, 2 * number + 1, 2 * number + 1);
        refuse(&mut journal, StoreOutage::Full);
    }
    assert_eq!(retry(&mut journal), 1, "one stretch");
    // What a store that has failed for good refuses is not kept at all, for it is never said again.
    let mut journal = Journal::<()>::default();
    for number in 0..1_000u64 {
        journal.append_settled(1, 2 * number, 2 * number);
        refuse(&mut journal, StoreOutage::Failed);
    }
    assert!(!format!("{journal:?}").contains("1998"), "nothing of them is left");
}

#[test]
fn what_only_an_answer_is_about_is_sure_by_itself_and_is_not_said_again() {
    let mut journal = Journal::default();
    let put = || StoreRecord::Put {
        stream: 1,
        first: 1,
        count: 1,
        keep_from: 0,
        bytes: Vec::new(),
        body: None,
    };
    let first = journal.append_answered(put());
    journal.hold(first, AnswerKind::Messages, "first").unwrap();
    journal.take();
    let second = journal.append_answered(put());
    journal.hold(second, AnswerKind::Messages, "second").unwrap();
    journal.take();
    let settled = journal.failed(Time::ZERO, first, StoreOutage::Full);
    let outage = NotStored::Outage(StoreOutage::Full);
    assert_eq!(settled.answers, [("first", Err(outage))]);
    let settled = journal.committed(second);
    assert_eq!(settled.answers, [("second", Ok(()))], "although there is an outage");
    assert!(journal.begin_retry(Time::ZERO + Span::from_secs(2)));
    assert_eq!(journal.next_refused(), None);
}

#[test]
fn messages_that_many_streams_have_are_one_record_with_a_number_for_each() {
    let mut journal = Journal::default();
    let declare = || StoreRecord::Declare {
        stream: 3,
        kind: StoredKind::Queue,
        path: Path::parse("c").unwrap(),
        description: Vec::new(),
        version: 0,
    };
    let shared = |owners: &[(u64, u64)], bytes: &[u8]| StoreRecord::PutShared {
        owners: owners.into(),
        count: 2,
        bytes: bytes.into(),
    };
    assert_eq!(journal.join_shared(0, (1, 1)), None, "there is none");
    assert_eq!(journal.append_shared((1, 7), 2, b"x".into()), (1, 0));
    // What is said of other streams meanwhile is in nobody's way.
    assert_eq!(journal.append_settled(9, 4, 4), 2);
    assert_eq!(journal.join_shared(1, (1, 1)), None, "something else");
    let joined = journal.join_shared(0, (2, 5)).unwrap();
    journal.hold(joined, AnswerKind::Messages, "joined").unwrap();
    let subject = RecordSubject::Queue(Default::default(), 3);
    assert_eq!((joined, journal.append(declare(), subject)), (3, 4));
    assert_eq!(journal.join_shared(0, (3, 1)), None, "its declaration lies behind");
    let (_, place) = journal.append_shared((3, 1), 2, b"x".into());
    assert_eq!(journal.join_shared(place, (4, 8)), Some(6));
    let TakenRecords { up_to, records, .. } = journal.take().unwrap();
    let settle = StoreRecord::Settle { stream: 9, ranges: vec![(4, 4)] };
    let expected =
        [shared(&[(1, 7), (2, 5)], b"x"), settle, declare(), shared(&[(3, 1), (4, 8)], b"x")];
    assert_eq!((up_to, &records[..]), (6, &expected[..]));
    assert_eq!(journal.join_shared(place, (5, 1)), None, "it is on its way");
    assert!(journal.committed(2).answers.is_empty());
    assert_eq!(journal.committed(6).answers, [("joined", Ok(()))]);
    // A record stays one that is read at once.
    let (_, place) = journal.append_shared((1, 7), 2, b"x".into());
    let mut streams = 2..;
    let joined = streams.by_ref().take_while(|it| journal.join_shared(place, (*it, 1)).is_some());
    let joined = joined.count();
    assert_eq!(joined, 1023);
    assert!(!journal.is_behind(), "a body counts once");
}

/// A message with its body in a file.
fn large() -> StoreRecord {
    let (bytes, body) = (Vec::new(), RecordBody::from(bytes::Bytes::from_static(b"large")));
    StoreRecord::Put { stream: 1, first: 7, count: 1, keep_from: 0, bytes, body: Some(body) }
}

#[test]
fn a_record_that_is_left_out_is_refused_alone_and_said_again_later() {
    let mut journal = Journal::default();
    let subject = |stream| RecordSubject::Topic(Default::default(), stream);
    let mut records = Vec::new();
    for stream in 1..=3 {
        records.push(journal.append(large(), subject(stream)));
    }
    let small = journal.append(StoreRecord::Drop { stream: 9 }, RecordSubject::View(1));
    for (record, answer) in [(1, "one"), (2, "two"), (3, "three"), (small, "small")] {
        journal.hold(record, AnswerKind::Write, answer).unwrap();
    }
    journal.hold(Awaited::before(3), AnswerKind::Write, "nothing to write").unwrap();
    journal.take();
    for record in [1, 3] {
        journal.body_refused(record);
    }
    let settled = journal.committed(small);
    let expected = [
        ("one", Err(NotStored::Body)),
        ("two", Ok(())),
        ("three", Err(NotStored::Body)),
        ("nothing to write", Ok(())),
        ("small", Ok(())),
    ];
    assert_eq!(settled.answers, expected);
    assert!(settled.append_again.is_empty() && journal.outage().is_none());
    let mut now = Time::ZERO;
    let mut next = |journal: &mut Journal<&str>| {
        assert_eq!(journal.next_refused_body(now), None, "not at once");
        now = now + Span::from_secs(11);
        let subject = journal.next_refused_body(now).unwrap();
        journal.append(large(), subject);
        journal.end_body_retry(now, subject);
        assert_eq!(journal.next_refused_body(now + Span::from_secs(60)), None, "it is under way");
        (journal.take().unwrap().up_to, subject)
    };
    let (record, tried) = next(&mut journal);
    journal.body_refused(record);
    assert!(journal.committed(record).append_again.is_empty());
    let (record, again) = next(&mut journal);
    assert_eq!((tried, again), (subject(1), subject(3)), "each in its turn");
    // What a store refuses that is full is said again as all else is.
    journal.body_refused(record);
    journal.failed(Time::ZERO, record, StoreOutage::Full);
    assert!(journal.begin_retry(Time::ZERO + Span::from_secs(2)));
    let first = journal.next_refused().unwrap();
    assert_eq!(first, subject(3));
    journal.append(large(), first);
    journal.end_retry(record);
    let record = journal.take().unwrap().up_to;
    journal.committed(record);
    let (record, last) = next(&mut journal);
    assert_eq!(last, subject(1));
    assert!(journal.committed(record).append_again.is_empty());
    assert_eq!(journal.next_refused_body(Time::ZERO + Span::from_secs(600)), None);
}

#[test]
fn what_moves_with_a_body_is_settled_with_it_alone() {
    let mut journal = Journal::<()>::default();
    let small = StoreRecord::Put {
        stream: 1,
        first: 1,
        count: 1,
        keep_from: 0,
        bytes: Vec::new(),
        body: None,
    };
    let settle = || StoreRecord::Settle { stream: 2, ranges: vec![(4, 5)] };
    let first = journal.append_answered(small.clone());
    assert_eq!(journal.append_settled_with(first, 2, vec![(4, 5)]), first + 1);
    let second = journal.append_answered(large());
    journal.append_settled(9, 1, 1);
    assert_eq!(journal.append_settled_with(second, 2, vec![(4, 5)]), second);
    assert_eq!(journal.append_settled_with(first, 2, vec![(4, 5)]), second + 2, "not of that");
    let TakenRecords { records, .. } = journal.take().unwrap();
    let body = RecordBody {
        record: second,
        settles: vec![(2, vec![(4, 5)])],
        ..bytes::Bytes::from_static(b"large").into()
    };
    let (bytes, body) = (Vec::new(), Some(body));
    let moved = StoreRecord::Put { stream: 1, first: 7, count: 1, keep_from: 0, bytes, body };
    let other = StoreRecord::Settle { stream: 9, ranges: vec![(1, 1)] };
    assert_eq!(records, [small, settle(), moved, other, settle()]);
    assert_eq!(journal.append_settled_with(second, 2, vec![(4, 5)]), second + 3, "it is gone");
}

#[test]
fn who_removes_something_waits_until_the_store_has_said_so() {
    let mut journal = Journal::default();
    let end = |journal: &mut Journal<&'static str>, stream, answer| {
        let record = journal.append(StoreRecord::Drop { stream }, RecordSubject::Gone(stream));
        journal.hold(record, AnswerKind::Removal, answer).unwrap();
    };
    end(&mut journal, 1, "first");
    let first = journal.take().unwrap().up_to;
    end(&mut journal, 2, "second");
    let second = journal.take().unwrap().up_to;
    assert!(journal.failed(Time::ZERO, first, StoreOutage::Full).answers.is_empty());
    // Not before the first is gone in the store as well: it might be the same that was made again.
    assert!(journal.committed(second).answers.is_empty());
    assert_eq!(journal.held(), 2);
    let later = Time::ZERO + Span::from_secs(2);
    assert!(!journal.begin_retry(later));
    let again = journal.take().unwrap().up_to;
    assert!(journal.failed(later, again, StoreOutage::Full).answers.is_empty());
    assert!(!journal.begin_retry(later + Span::from_secs(2)));
    journal.append_settled(5, 1, 1);
    let again = journal.take().unwrap().up_to;
    let settled = journal.committed(again);
    assert_eq!(settled.answers, [("first", Ok(())), ("second", Ok(()))]);
    assert!(journal.outage().is_some(), "what adds is not taken yet");
    // A store that has failed never will.
    end(&mut journal, 3, "third");
    let third = journal.take().unwrap().up_to;
    assert!(journal.failed(later, third, StoreOutage::Full).answers.is_empty());
    end(&mut journal, 4, "fourth");
    let fourth = journal.take().unwrap().up_to;
    let failed = Err(NotStored::Outage(StoreOutage::Failed));
    let mut answers = journal.failed(later, fourth, StoreOutage::Failed).answers;
    answers.sort_by_key(|(answer, _)| *answer);
    assert_eq!(answers, [("fourth", failed), ("third", failed)]);
    assert_eq!(journal.held(), 0);
    assert_eq!(journal.hold_removal(fourth, "fifth"), Err(("fifth", failed)));
}

#[test]
fn that_all_is_gone_is_said_when_all_of_it_is_stored() {
    let mut journal = Journal::default();
    assert_eq!(journal.hold_removal(0, "nothing"), Err(("nothing", Ok(()))));
    let first = journal.append_settled(1, 1, 1);
    journal.take();
    journal.hold_removal(first, "first").unwrap();
    assert_eq!(journal.committed(first).answers, [("first", Ok(()))]);
    let second = journal.append_settled(1, 2, 2);
    journal.take();
    journal.failed(Time::ZERO, second, StoreOutage::Full);
    journal.hold_removal(second, "refused before").unwrap();
    let third = journal.append_settled(1, 3, 3);
    journal.take();
    assert!(journal.committed(third).answers.is_empty());
    assert!(!journal.begin_retry(Time::ZERO + Span::from_secs(2)));
    journal.hold_removal(second, "under way").unwrap();
    let again = journal.take().unwrap().up_to;
    let expected = [("refused before", Ok(())), ("under way", Ok(()))];
    assert_eq!(journal.committed(again).answers, expected);
    // What was stored before it failed is stored.
    let last = journal.append_settled(1, 4, 4);
    journal.take();
    journal.failed(Time::ZERO, last, StoreOutage::Failed);
    assert_eq!(journal.hold_removal(third, "stored"), Err(("stored", Ok(()))));
    let failed = Err(NotStored::Outage(StoreOutage::Failed));
    assert_eq!(journal.hold_removal(last, "too late"), Err(("too late", failed)));
}

#[test]
fn an_answer_is_refused_for_the_bodies_of_its_own_records_alone() {
    let mut journal = Journal::default();
    let end = |journal: &mut Journal<&str>| {
        journal.append(StoreRecord::Drop { stream: 9 }, RecordSubject::Gone(9))
    };
    let earlier = journal.append_answered(large());
    let left_out = journal.append_answered(large());
    let behind = end(&mut journal);
    let last = journal.append_answered(large());
    let own = |after, until| Awaited { after, until };
    journal.hold(left_out, AnswerKind::Write, "the record itself").unwrap();
    let around = own(earlier, behind);
    journal.hold(around, AnswerKind::Messages, "with something behind it").unwrap();
    journal.hold(own(left_out, behind), AnswerKind::Write, "behind it").unwrap();
    journal.hold(last, AnswerKind::Removal, "gone").unwrap();
    journal.hold(Awaited::before(last), AnswerKind::Write, "there before").unwrap();
    journal.take();
    for record in [left_out, last] {
        journal.body_refused(record);
    }
    let expected = [
        ("the record itself", Err(NotStored::Body)),
        ("with something behind it", Err(NotStored::Body)),
        ("behind it", Ok(())),
        ("gone", Ok(())),
        ("there before", Ok(())),
    ];
    assert_eq!(journal.committed(last).answers, expected);
}
