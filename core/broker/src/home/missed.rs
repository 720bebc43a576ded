//! What a home has to say to a subscription before everything new: values, what topics keep, or what a client has missed.
//!
//! Relies on what topics keep. Invariant: what was missed is called complete only if every message is in it that came
//! behind the last one that the client has.

use tiderace_base::{Now, Time};

use super::Home;
use super::home_topics::TopicAtHome;
use crate::home::topic_history::TopicHistory;
use crate::messages::{Answer, First, Missed};
use crate::runs::{fresh, last_of};

impl First {
    /// What somebody wants first. What came after the last message that was stored, in an earlier life, may have been lost,
    /// and the client may have had it: then it needs the value anew.
    pub(crate) fn held_to(self, restored_to: u64) -> First {
        let First::Since { after, earlier, retained, rules_since } = self else { return self };
        let after = after.filter(|after| !earlier || *after <= restored_to);
        First::Since { after, earlier, retained, rules_since }
    }
}

/// Whether what a topic's history gives behind a number has another one.
fn holds(history: Option<&TopicHistory>, number: u64, after: u64) -> bool {
    let mut runs = history.into_iter().flat_map(|history| history.after(after));
    runs.any(|run| (run.first()..=last_of(run)).contains(&number))
}

impl Home {
    /// What comes before everything new from these topics. Up to number `floor` there may have been others that are
    /// forgotten. What was missed is given if it has at most so many bytes.
    pub(crate) fn beginning<'a>(
        &self,
        now: Now,
        topics: impl Iterator<Item = TopicAtHome<'a>>,
        first: First,
        (floor, bytes_max): (impl FnOnce(u64) -> u64, usize),
    ) -> Answer {
        let homes = topics.filter_map(|topic| topic.home());
        let mut answer = Answer { at: self.last_number(), ..Answer::default() };
        let (after, wants_retained) = match first {
            First::Nothing => return answer,
            First::Retained => {
                answer.retained = homes.filter_map(|home| fresh(home.value(), now)).collect();
                answer.retained.sort_by_key(|run| run.first());
                return answer;
            }
            First::Replay(from) => {
                for home in homes {
                    match home.series() {
                        Some(series) => answer.retained.extend(series.replay(from)),
                        None => answer.retained.extend(fresh(home.value(), now)),
                    }
                }
                answer.retained.sort_by_key(|run| run.first());
                return answer;
            }
            First::Since { after, retained, .. } => (after, retained),
        };
        // A number that was never given is of another life too.
        let known = after.filter(|after| *after <= answer.at);
        let after = known.unwrap_or(0);
        let mut complete = known.is_some() && floor(after) <= after;
        let mut runs = Vec::new();
        for home in homes.filter(|home| home.last() > after) {
            let retained = home.value().filter(|run| wants_retained && run.first() > after);
            let retained = fresh(retained, now);
            let history = home.history();
            let recent = history.is_some_and(|history| history.boundary() <= after);
            let kept = home.series().filter(|_| !recent && known.is_some());
            let kept = kept.and_then(|series| series.since(after, home.last()));
            complete &= recent || kept.is_some();
            let newest = history.and_then(|history| history.newest());
            let instead = retained.as_ref().or(newest).cloned();
            // Ahead of what came behind it.
            let end = home.end_since(after).filter(|_| wants_retained && known.is_some());
            let end =
                end.filter(|end| instead.as_ref().is_none_or(|run| run.first() > end.first()));
            answer.retained.extend(end.cloned());
            if !recent && kept.is_none() {
                runs.extend(end.filter(|end| !holds(history, end.first(), after)).cloned());
            }
            match (retained, kept) {
                (_, Some(kept)) => runs.extend(kept.cloned()),
                (Some(retained), None) if !(recent && known.is_some()) => runs.push(retained),
                _ => runs.extend(history.iter().flat_map(|history| history.after(after)).cloned()),
            }
            answer.retained.extend(instead);
        }
        answer.retained.sort_by_key(|run| run.first());
        runs.sort_by_key(|run| run.first());
        let bytes: usize = runs.iter().map(|run| run.bytes()).sum();
        let runs = (bytes <= bytes_max).then_some(runs);
        complete &= runs.is_some();
        answer.missed = Some(Box::new(Missed { after, complete, runs, continues: None }));
        answer
    }

    /// Other rules hold, of this version.
    pub(crate) fn note_rules(&mut self, version: u32) {
        self.rule_changes.note(version, &mut self.numbers);
    }

    /// Changes of rules go on, or are over; `is_reviewing` says whether sessions here have yet to be looked at.
    pub(crate) fn go_on_with_rules(&mut self, now: Time, is_reviewing: bool) {
        self.rule_changes.go_on(now, is_reviewing, &mut self.numbers);
    }

    /// What somebody wants first. Who comes back, and had been given less than it may see by the rules that hold now, is not
    /// known to have anything.
    pub(crate) fn first_by_rules(&self, first: First) -> First {
        let First::Since { after, earlier, retained, rules_since } = first else { return first };
        let after = after.filter(|after| self.rule_changes.is_behind(rules_since, *after));
        First::Since { after, earlier, retained, rules_since }
    }
}
