//! Every alarm begins when its condition holds and ends when it is gone, and no other begins with it.

use super::*;
use crate::alarms::table::{Disk, Holds};

/// What makes an alarm begin.
type Change = fn(&mut Seen);

/// For each alarm of the table: what is seen when it is there.
const CASES: &[(&str, Change)] = &[
    ("certificate-ends-soon", |seen| seen.certificates.push(holds(90, 13))),
    ("certificate-expired", |seen| seen.certificates.push(holds(90, -1))),
    ("certificates-refused", |seen| seen.certificates_were_refused = true),
    ("clock-jumped", |seen| seen.clock_jump = -2.5),
    ("configuration-refused", |seen| seen.configuration_was_refused = true),
    ("connections-at-limit", |seen| seen.refused_for_limit = 1),
    ("connections-near-limit", |seen| seen.connections = 900),
    ("dead-letters", |seen| seen.dead_lettered = 3),
    ("disk-nearly-full", |seen| seen.disks = vec![disk(9)]),
    ("draining", |seen| seen.draining = Some(0)),
    ("files-exhausted", |seen| seen.refused_for_files = 2),
    ("files-near-limit", |seen| seen.files_open = Some(950)),
    ("log-lines-dropped", |seen| seen.log_lines_dropped = 1),
    ("logins-unanswered", |seen| seen.logins_unanswered = 1),
    ("memory-full", |seen| seen.memory = vec![(10, 1 << 30), (101 << 20, 100 << 20)]),
    ("memory-near-budget", |seen| seen.memory = vec![(95 << 20, 100 << 20), (0, 100 << 20)]),
    ("publishers-paused", |seen| seen.publishers_paused = 1),
    ("queue-messages-refused", |seen| seen.queue_messages_refused = 1),
    ("queue-owner-near-quota", |seen| seen.queue_owners_full = 1),
    ("session-failed", |seen| seen.session_panics = 1),
    ("shard-stalled", |seen| seen.stalled = vec![(0, 1), (1, 3)]),
    ("store-damaged", |seen| seen.unreadable = 1),
    ("store-failed", |seen| seen.store_has_failed = true),
    ("store-full", |seen| seen.store_is_full = true),
    ("store-queues-full", |seen| seen.store_queues_are_full = true),
    ("upstream-away", |seen| {
        seen.upstreams_away =
            vec![("london".to_owned(), Some("it refuses connections".to_owned()))];
    }),
];

fn disk(free_percent: u64) -> Disk {
    let directory = "/var/lib/tiderace".to_owned();
    Disk { purpose: "store", directory, free: free_percent << 30, bytes: 100 << 30 }
}

/// A certificate that holds for so many days, with so many left.
fn holds(lifetime: i64, left: i64) -> Holds {
    Holds { lifetime: lifetime * 86_400, left: left * 86_400 }
}

/// A server on which nothing is wrong, near the bounds at which alarms of that end.
fn well() -> Seen {
    Seen {
        files_open: Some(849),
        files_max: 1000,
        connections: 849,
        connections_max: 1000,
        memory: vec![(84 << 20, 100 << 20), (0, 100 << 20)],
        disks: vec![disk(11), Disk { free: 60 << 30, bytes: 10 << 40, ..disk(0) }],
        certificates: vec![holds(90, 15), holds(6, 3)],
        stalled: vec![(0, 1)],
        clock_jump: 1.9,
        ..Seen::default()
    }
}

fn names(changes: &[super::Change]) -> Vec<String> {
    let name = |change: &super::Change| match change {
        super::Change::Begun(present) => format!("+{}", present.row.name),
        super::Change::Ended(present) => format!("-{}", present.row.name),
    };
    changes.iter().map(name).collect()
}

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

#[test]
fn each_alarm_begins_and_ends() {
    let rows: Vec<&str> = ALARMS.iter().map(|row| row.name).collect();
    assert_eq!(CASES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), rows);
    let start = Instant::now();
    for ((name, change), row) in CASES.iter().zip(ALARMS) {
        let mut watch = AlarmWatch::new();
        let mut bad = well();
        change(&mut bad);
        assert_eq!(names(&watch.look(start, 5_000, &well())), [""; 0], "{name}");
        if row.after > 0 {
            assert_eq!(names(&watch.look(start, 5_000, &bad)), [""; 0], "{name}");
        }
        let begins = after(start, row.after);
        // What is full is nearly so, too.
        let with_it = if *name == "memory-full" { "memory-near-budget" } else { "" };
        let all = |sign: char| {
            let all = [*name, with_it].map(|name| format!("{sign}{name}"));
            if with_it.is_empty() { all[..1].to_vec() } else { all.to_vec() }
        };
        assert_eq!(names(&watch.look(begins, 99_000, &bad)), all('+'));
        let present = watch.present();
        let only = present.first().unwrap();
        assert_eq!(only.since_ms, 99_000 - row.after * 1000, "{name}");
        assert!(!only.what.is_empty());
        assert_eq!(names(&watch.look(begins, 99_000, &bad)), [""; 0], "{name}");
        if row.lingers > 0 {
            let nearly = after(begins, row.lingers - 1);
            assert_eq!(names(&watch.look(nearly, 99_000, &well())), [""; 0], "{name}");
        }
        let ends = after(begins, row.lingers);
        assert_eq!(names(&watch.look(ends, 99_000, &well())), all('-'));
        assert_eq!(watch.present().len(), 0, "{name}");
    }
}

#[test]
fn what_comes_for_a_moment_alone_is_no_alarm() {
    let start = Instant::now();
    let mut watch = AlarmWatch::new();
    let away = Seen { upstreams_away: vec![("a".to_owned(), None)], ..well() };
    for (second, seen) in [(0, &away), (4, &well()), (5, &away), (9, &away)] {
        assert_eq!(names(&watch.look(after(start, second), 0, seen)), [""; 0]);
    }
    assert_eq!(names(&watch.look(after(start, 10), 0, &away)), ["+upstream-away"]);
}

#[test]
fn figures_are_brought_up_to_date_from_time_to_time() {
    let start = Instant::now();
    let mut watch = AlarmWatch::new();
    let at = |files| Seen { files_open: Some(files), ..well() };
    watch.look(start, 0, &at(950));
    watch.look(after(start, 9), 0, &at(960));
    assert!(watch.present()[0].what.starts_with("950 files"));
    watch.look(after(start, 10), 0, &at(970));
    assert!(watch.present()[0].what.starts_with("970 files"));
}

#[test]
fn names_and_sentences_are_proper() {
    assert!(ALARMS.is_sorted_by(|a, b| a.name < b.name));
    for row in ALARMS {
        for sentence in [row.cause, row.condition, row.remedy] {
            assert!(sentence.ends_with('.') && !sentence.contains('|'), "{sentence}");
        }
        assert!(row.name.chars().all(|char| char.is_ascii_lowercase() || char == '-'));
    }
}

#[test]
fn a_certificate_ends_soon_in_the_last_third_of_a_short_life() {
    for (lifetime, soon) in [(365, 14), (90, 14), (42, 14), (30, 10), (6, 2), (3, 1)] {
        let [before, then] = [0, 1].map(|less| {
            let left = soon * 86_400 - less;
            Holds { left, ..holds(lifetime, 0) }
        });
        assert_eq!((before.ends_soon(), then.ends_soon()), (false, true), "{lifetime} days");
    }
    // One that ends later may have been to be renewed earlier.
    let seen = Seen { certificates: vec![holds(6, 3), holds(90, 13)], ..well() };
    let mut watch = AlarmWatch::new();
    assert_eq!(names(&watch.look(Instant::now(), 0, &seen)), ["+certificate-ends-soon"]);
    assert_eq!(watch.present()[0].what, "a certificate ends in 13 days");
}

/// What is seen at a level.
type At = fn(u64) -> Seen;

/// Each alarm of a level: what is seen in which so many thousandths of what there may be are there.
const LEVELS: &[(&str, At)] = &[
    ("connections-near-limit", |now| Seen { connections: now, ..well() }),
    ("disk-nearly-full", |now| Seen {
        disks: vec![Disk { free: (now << 30) / 10, ..disk(0) }],
        ..well()
    }),
    ("files-near-limit", |now| Seen { files_open: Some(now), ..well() }),
    ("memory-full", |now| Seen { memory: vec![(now << 20, 1000 << 20)], ..well() }),
    ("memory-near-budget", |now| Seen { memory: vec![(now << 20, 1000 << 20)], ..well() }),
];

#[test]
fn a_level_that_swings_around_its_bound_is_told_once() {
    let leveled: Vec<_> = ALARMS.iter().filter_map(|row| Some((row.name, row.level?))).collect();
    // None is left out, neither of the table nor of those here.
    let names_of_levels: Vec<&str> = LEVELS.iter().map(|(name, _)| *name).collect();
    assert_eq!(leveled.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names_of_levels);
    let start = Instant::now();
    for ((name, level), (_, at)) in leveled.into_iter().zip(LEVELS) {
        let is_too_much = level.ends < level.begins;
        let step = |thousandths: u64, worse: bool| match worse == is_too_much {
            true => thousandths + 1,
            false => thousandths - 1,
        };
        let (begins, ends) = (level.begins * 10, level.ends * 10);
        let nearly = if is_too_much { ends } else { ends - 1 };
        let over = if is_too_much { ends - 1 } else { ends };
        let mut watch = AlarmWatch::new();
        let mut second = 0;
        let mut look = |thousandths: u64| {
            second += 60;
            let mut said = names(&watch.look(after(start, second), 0, &at(thousandths)));
            said.retain(|said| said[1..] == *name);
            said.pop()
        };
        assert_eq!(look(step(begins, false)), None, "{name}");
        assert_eq!(look(step(begins, true)), Some(format!("+{name}")));
        for _ in 0..3 {
            assert_eq!(
                [look(step(begins, false)), look(step(begins, true))],
                [None, None],
                "{name}"
            );
        }
        assert_eq!(look(nearly), None, "{name}");
        assert_eq!(look(over), Some(format!("-{name}")));
    }
}
