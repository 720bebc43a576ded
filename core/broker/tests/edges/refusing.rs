//! The source's rules change, and with them what it gives to edges: what it refuses ends at the edges too, and what it
//! gives again comes again.

use std::collections::BTreeMap;

use super::{Run, TOPICS, play_on};
use crate::support::faults::{Fault, are_found};
use crate::support::nodes::Joined;
use crate::support::reviewing::believing;
use crate::support::{Wish, for_seeds, names};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, Rule, Who};
use tiderace_topics::Pattern;

/// What may be refused.
const DENIED: [&str; 8] =
    ["kept/**", "kept/a", "kept/b/c", "fx/**", "fx/a", "fx/c/d", "news", "**"];

/// What the source does not give to edges.
#[derive(Default)]
pub(super) struct Refusals {
    /// Whether there are such.
    pub(super) may_be: bool,
    denied: Vec<&'static str>,
    /// Whether sessions have yet to be held to these rules.
    is_reviewing: bool,
    /// By path: the number in the text of the newest message that edges may not have been given.
    hidden: BTreeMap<String, u64>,
}

impl Refusals {
    /// Whether something may be missing behind a message of a path, since edges were not given it.
    pub(super) fn has_hidden(&self, path: &str, word: Option<u64>) -> bool {
        let hidden = self.hidden.get(path);
        hidden.is_some_and(|hidden| word.is_some_and(|word| word < *hidden))
    }

    pub(super) fn note_published(&mut self, path: &str, word: u64) {
        if self.is_reviewing || self.deny(path) {
            self.hidden.insert(path.to_owned(), word);
        }
    }

    fn deny(&self, path: &str) -> bool {
        self.denied.iter().any(|denied| names(&format!("topic:{denied}"), path))
    }

    /// Whether who wishes for that has to hear of an end, if edges have asked for everything since; `None` if it depends on
    /// what brings it. Patterns that somebody has go on without the topics that are not given, and are refused to who asks
    /// for them if nothing at all is given.
    fn end(&self, wish: &Wish, has_asked: bool) -> Option<bool> {
        let wanted = wish.targets[0].strip_prefix("topic:").unwrap();
        match (self.denied.contains(&"**"), has_asked) {
            // It names topics of the edge itself besides.
            _ if wanted == "*/a" => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
            (false, _) if TOPICS.contains(&wanted) && self.deny(wanted) => None,
            (false, _) => Some(false),
        }
    }
}

pub(super) fn rule(allow: bool, path: &str, who: Who) -> Rule {
    let actions = [Action::Publish, Action::Subscribe].into_iter().collect();
    let paths = vec![Pattern::parse(path).unwrap()];
    Rule { allow, actions, who: vec![who], paths, kind: None }
}

impl Run {
    /// Rules change, sessions are held to them, and who has heard of an end goes.
    pub(super) fn look_for_refusals(&mut self) {
        if !self.refusals.may_be {
            return;
        }
        if self.source.random.one_in(25) {
            let denied = match self.refusals.denied.is_empty() {
                true => vec![*self.source.random.pick(&DENIED), *self.source.random.pick(&DENIED)],
                false => Vec::new(),
            };
            self.deny(denied);
        }
        if self.source.random.one_in(3) {
            self.review();
        }
        for person in 0..self.people.len() {
            if (0..self.people[person].wishes.len()).any(|wish| self.has_ended(person, wish)) {
                self.leave(person);
            }
        }
    }

    fn deny(&mut self, denied: Vec<&'static str>) {
        let edge = || Who::User("edge".into());
        let mut rules = vec![rule(true, "**", Who::User("writer".into()))];
        if !denied.contains(&"**") {
            rules.push(rule(true, "**", edge()));
        }
        rules.extend(denied.iter().map(|path| rule(false, path, edge())));
        self.source.change_access(believing(rules));
        let before = std::mem::replace(&mut self.refusals.denied, denied);
        self.refusals.is_reviewing = true;
        for (path, newest) in &self.newest {
            let was_denied = before.iter().any(|it| names(&format!("topic:{it}"), path));
            if was_denied || self.refusals.deny(path) {
                self.refusals.hidden.insert(path.clone(), *newest);
            }
        }
    }

    fn review(&mut self) {
        self.source.review_all();
        self.refusals.is_reviewing = false;
    }

    /// Whether somebody has heard that what they wish for is not given.
    fn has_ended(&self, person: usize, wish: usize) -> bool {
        let person = &self.people[person];
        let Some((at, client)) = person.at else { return false };
        let client = &self.edges[at].world.clients[client];
        let token = person.tokens[wish];
        let is_refused = client.refused.contains(&(Some(token), CloseCode::NotAuthorised));
        let end = (wish as u32, CloseCode::NotAuthorised);
        is_refused || client.subscriptions_ended.contains(&end)
    }

    /// Everything is given again: who was refused asks again, and so do some others.
    pub(super) fn allow_all(&mut self) {
        for _ in 0..2 {
            self.look_all();
            self.settle();
        }
        self.deny(Vec::new());
        self.review();
        for person in 0..self.people.len() {
            let wishes = self.people[person].wishes.len();
            let has_ended = (0..wishes).any(|wish| self.has_ended(person, wish));
            // What also names topics of the edge goes on without what is refused until somebody asks for that.
            let goes_on = self.people[person].wishes.iter().any(|it| it.targets[0] == "topic:*/a");
            if has_ended || goes_on || self.source.random.one_in(2) {
                self.leave(person);
            }
        }
        for _ in 0..3 {
            self.settle();
            (0..self.edges.len()).for_each(|at| self.heal(at));
        }
        self.advance(Span::from_millis(1_100));
    }

    /// Nothing is under way: who asks for nothing but what is refused has heard so, others have not, and nobody gets a value
    /// of it.
    fn check_refusals(&mut self) {
        let denied =
            (0..1 + self.source.random.below(2)).map(|_| *self.source.random.pick(&DENIED));
        let denied = denied.collect();
        self.deny(denied);
        self.review();
        let has_asked = self.source.random.one_in(2);
        if has_asked {
            (0..self.edges.len()).for_each(|at| self.cut(at));
        }
        for _ in 0..4 {
            self.settle();
            (0..self.edges.len()).for_each(|at| self.heal(at));
            self.advance(Span::from_millis(50));
        }
        self.settle();
        let denied = &self.refusals.denied;
        for person in 0..self.people.len() {
            for (wish, wished) in self.people[person].wishes.iter().enumerate() {
                let has_ended = self.has_ended(person, wish);
                let expected = self.refusals.end(wished, has_asked).unwrap_or(has_ended);
                assert_eq!(has_ended, expected, "{:?} of {denied:?}", wished.targets);
            }
        }
        for at in 0..self.edges.len() {
            let late = self.edges[at].world.connect(0, "late");
            self.edges[at].world.subscribe(late, 0, Wish::to("topic:**"));
            self.settle();
            let received = &self.edges[at].world.clients[late].received;
            let denied = received.iter().find(|message| self.refusals.deny(&message.path));
            assert!(denied.is_none(), "{denied:?} of {:?}", self.refusals.denied);
        }
    }
}

fn play(seed: u64, fault: Fault) {
    let mut run = Run::new(seed, seed % 2 == 1);
    (run.refusals.may_be, run.fault) = (true, fault);
    let mut run = play_on(run);
    run.check_refusals();
}

#[test]
fn what_the_source_refuses_ends_and_what_it_gives_again_comes_again() {
    for_seeds(0..1_000, |seed| play(seed, Fault::None));
}

#[test]
fn faults_of_refusals_are_found() {
    are_found(&[Fault::EndUntold, Fault::RefusalUntold, Fault::MessagesLost], play);
}
