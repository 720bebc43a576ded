//! What a deputy answers to subscriptions, those of clients that come back among them.
//!
//! A client may come from another node that stands in for the same upstream: its position tells the upstream's numbers.
//! What this node has kept is enough if it goes back that far; otherwise the upstream is asked, once for all who lack
//! something of the same topics. Invariant: an answer is called complete only if every message is in it that the
//! position does not cover.

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Kind, Numbering, Position, Run, Target};

use super::held::{What, exact};
use super::subscriptions::State;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::{Answer, Ask, First, ToSubscriber};
use crate::places::Place;
use crate::runs::holds_messages;

/// What a position tells of the topics of a subscription.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Whether it tells anything of the upstream's numbers.
    continues: bool,
    /// Up to which number of this home the client has everything, if nothing else may be missing.
    had: Option<u64>,
}

impl DeputySide<'_> {
    /// Answers a subscription with what there is.
    pub(super) fn answer(
        &mut self,
        now: Now,
        from: Place,
        what: What,
        ask: Ask,
        effects: &mut Effects,
    ) {
        match what {
            What::Topic(path) => self.answer_topic(now, from, path, ask, effects),
            What::Pattern(pattern) => self.answer_pattern(now, from, pattern, ask, effects),
        }
    }

    fn answer_topic(&mut self, now: Now, from: Place, path: Path, ask: Ask, effects: &mut Effects) {
        let Some(at) = self.at_topic(&path) else { return };
        let what = What::Topic(path.clone());
        let deputy = self.deputies.list.get(at);
        if let Some(close) = deputy.and_then(|deputy| deputy.refusal_of(&what)) {
            return self.refuse(from, ask, close, effects);
        }
        let key = self.home.directory.ensure(now, &path);
        self.renew(at, key, effects);
        let given = self.home.is_as_expected(&ask.request, &path);
        let (mut first, mut told) = (ask.first, None);
        if let First::Since { retained, rules_since, .. } = first {
            let numbering = self.numbering_of(key);
            let known = self.told(at, &what, &ask, numbering);
            first = First::Since { after: known.had, earlier: false, retained, rules_since };
            told = Some(known);
        }
        let (first, may_ask) = self.first_by_rules(first);
        let topic = self.home.topic(key).filter(|_| given);
        let answer = self.home.beginning(now, topic.into_iter(), first, |_| 0);
        if may_ask && self.is_to_be_asked(at, told, &answer) {
            return self.ask_for_missed(at, exact(&path), (from, what, ask));
        }
        self.send_answer(at, (from, &what, &ask), (answer, told), effects);
    }

    fn answer_pattern(
        &mut self,
        now: Now,
        from: Place,
        pattern: Pattern,
        ask: Ask,
        effects: &mut Effects,
    ) {
        let what = What::Pattern(pattern.clone());
        let (mut first, mut told) = (ask.first, None);
        let whole = self.whole_of(&pattern);
        let deputy = whole.and_then(|at| self.deputies.list.get(at));
        if let Some(close) = deputy.and_then(|deputy| deputy.refusal_of(&what)) {
            self.home.home.end_snapshot(&ask.request);
            return self.refuse(from, ask, close, effects);
        }
        if let First::Since { after, earlier, retained, rules_since } = first {
            let own = after.filter(|_| !earlier);
            let known = match whole {
                Some(at) => self.told(at, &what, &ask, None),
                None => self.told_of_several(&what, &ask, own),
            };
            first = First::Since { after: known.had, earlier: false, retained, rules_since };
            told = Some(known);
        }
        let (first, may_ask) = self.first_by_rules(first);
        let since = None;
        let asked = Ask { first, since, ..ask.clone() };
        let answer = self.home.pattern_beginning(now, &pattern, &asked);
        let asks = |at: &usize| may_ask && self.is_to_be_asked(*at, told, &answer);
        if let Some(at) = whole.filter(asks) {
            self.home.home.end_snapshot(&ask.request);
            let target = Target::Pattern(Kind::Topic, pattern);
            return self.ask_for_missed(at, target, (from, what, ask));
        }
        let at = whole.unwrap_or(0);
        self.send_answer(at, (from, &what, &ask), (answer, told), effects);
    }

    /// What a subscription wants first by the rules of this node, and whether the upstream may know what it lacks: of what
    /// these have hidden it does not.
    fn first_by_rules(&self, first: First) -> (First, bool) {
        let by_rules = self.home.home.first_by_rules(first);
        (by_rules, by_rules == first)
    }

    /// An answer that says that something is missing, with the values instead.
    pub(super) fn answer_incomplete(
        &mut self,
        now: Now,
        at: usize,
        (from, what, ask): (Place, What, Ask),
        effects: &mut Effects,
    ) {
        let First::Since { retained, .. } = ask.first else { return };
        let first = First::Since { after: None, earlier: false, retained, rules_since: 0 };
        let told = Some(Told { continues: true, had: None });
        let answer = match &what {
            What::Topic(path) => {
                let key = self.home.directory.find(path);
                let topic = key.and_then(|key| self.home.topic(key));
                self.home.beginning(now, topic.into_iter(), first, |_| 0)
            }
            What::Pattern(pattern) => {
                let asked = Ask { first, since: None, ..ask.clone() };
                self.home.pattern_beginning(now, pattern, &asked)
            }
        };
        self.send_answer(at, (from, &what, &ask), (answer, told), effects);
    }

    /// Sends an answer, without what its client has had.
    fn send_answer(
        &mut self,
        at: usize,
        (from, what, ask): (Place, &What, &Ask),
        (mut answer, told): (Answer, Option<Told>),
        effects: &mut Effects,
    ) {
        if let (Some(told), Some(missed), Some(since)) = (told, &mut answer.missed, &ask.since) {
            missed.continues = Some(told.continues);
            // Behind what is kept from before a subscription began anew something is missing, unless it is a value, or takes one
            // away: one that has changed has come again.
            let anew = if missed.complete { 0 } else { self.deputies.began_anew(what) };
            if let Some(runs) = missed.runs.take() {
                let is_value = |run: &Run| run.is_value(run.len() - 1);
                let ends = |run: &Run| !holds_messages(run);
                let counts = |run: &&Arc<Run>| run.first() > anew || is_value(run) || ends(run);
                // What the position covers may have been hidden from who has it, if this node does not know better: values, and
                // what took them away.
                let again = |run: &Arc<Run>| !missed.complete && (is_value(run) || ends(run));
                let given = |run: &Arc<Run>| match unknown(run, since) {
                    lacking if lacking.is_empty() && again(run) => newest_of(run),
                    lacking => lacking,
                };
                missed.runs = Some(runs.iter().filter(counts).flat_map(given).collect());
            }
        }
        self.answer_with_marks(at, (from, ask), answer, effects);
    }

    /// Sends an answer, and behind it how far everything has come from the upstream.
    pub(super) fn answer_with_marks(
        &mut self,
        at: usize,
        (to, ask): (Place, &Ask),
        answer: Answer,
        effects: &mut Effects,
    ) {
        self.home.answer(to, ask.request, answer, effects);
        let marks = self.deputies.list.get(at).map(|deputy| deputy.marks());
        if let Some(marks) = marks.filter(|marks| ask.recoverable && !marks.0.is_empty()) {
            let session = ask.request.session;
            self.home.send(to, ToSubscriber::ReachedUpstream { session, marks }, effects);
        }
    }

    /// Whether the upstream knows more of what a client has missed than this node.
    fn is_to_be_asked(&self, at: usize, told: Option<Told>, answer: &Answer) -> bool {
        let is_linked = self.deputies.list.get(at).is_some_and(|deputy| deputy.link.is_some());
        let is_known = told.is_some_and(|told| told.continues);
        let is_complete = answer.missed.as_ref().is_none_or(|missed| missed.complete);
        is_linked && is_known && !is_complete
    }

    /// What a client tells by its position of topics of one upstream; of one numbering, if only that is of interest.
    fn told(&self, at: usize, what: &What, ask: &Ask, only: Option<Numbering>) -> Told {
        let nothing = Told { continues: false, had: None };
        let Some(deputy) = self.deputies.list.get(at) else { return nothing };
        let Some(since) = &ask.since else { return nothing };
        if !deputy.numberings.are_known_by(since) {
            return nothing;
        }
        let covers = |(numbering, begun): &(Numbering, Option<u64>)| {
            let is_of_interest = only.is_none_or(|only| only == *numbering);
            let had = since.number(*numbering).unwrap_or(0);
            !is_of_interest || begun.is_some_and(|begun| had >= begun)
        };
        let keys = deputy.keys_of(what);
        let mut known = keys.iter().filter_map(|key| deputy.subscriptions.get(*key));
        let is_covered = known.all(|it| {
            let begun = deputy.numberings.told_next(&it.begun);
            it.state == State::Live && begun.iter().all(covers)
        });
        let last = self.home.home.last_number();
        let is_ahead = deputy.numberings.are_behind(since, only, deputy.epoch);
        let had = deputy.numberings.had_by(since, only, last);
        let had = had.filter(|_| is_covered && !is_ahead);
        Told { continues: true, had }
    }

    /// The same of topics of several upstreams, or of this node as well, of which the client has had everything up to a
    /// number.
    fn told_of_several(&self, what: &What, ask: &Ask, own: Option<u64>) -> Told {
        let mut all = Told { continues: own.is_some(), had: own };
        for at in 0..self.deputies.list.len() {
            let is_used = |deputy: &super::Deputy| !deputy.keys_of(what).is_empty();
            if self.deputies.list.get(at).is_some_and(is_used) {
                let told = self.told(at, what, ask, None);
                all.continues &= told.continues;
                all.had = all.had.zip(told.had).map(|(one, other)| one.min(other));
            }
        }
        all
    }

    /// The deputy all of whose are the topics of a pattern.
    fn whole_of(&self, pattern: &Pattern) -> Option<usize> {
        let upstreams = &self.home.options.upstreams;
        self.deputies.list.iter().position(|deputy| {
            let upstream = upstreams.get(usize::from(deputy.upstream));
            upstream.is_some_and(|upstream| upstream.has_all(pattern))
        })
    }

    /// Who gave the newest message of a topic its number.
    fn numbering_of(&self, key: tiderace_base::Key) -> Option<Numbering> {
        let home = self.home.topic(key)?.home()?;
        let newest = home.history().and_then(|history| history.newest()).or(home.value())?;
        Some(newest.upstream()?.numbering)
    }
}

/// The last message of a run.
fn newest_of(run: &Arc<Run>) -> Vec<Arc<Run>> {
    if run.len() == 1 {
        return vec![run.clone()];
    }
    let newest = run.message(run.len() - 1);
    newest.map(|message| Arc::new(run.copy_of(&message))).into_iter().collect()
}

/// What of a run a position does not cover.
pub(super) fn unknown(run: &Arc<Run>, since: &Position) -> Vec<Arc<Run>> {
    let Some(numbers) = run.upstream() else { return vec![run.clone()] };
    let had = since.number(numbers.numbering).unwrap_or(0);
    if had < numbers.first {
        return vec![run.clone()];
    }
    let lacking = run.messages().zip(numbers.first..).filter(|(_, number)| *number > had);
    lacking.map(|(message, _)| Arc::new(run.copy_of(&message))).collect()
}
