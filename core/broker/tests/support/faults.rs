//! Faults that are planted in what travels between nodes: a model whose checks are worth something fails with each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Exchanged, Random};
use tiderace_wire::{FromUpstream, OperationResult, Outcome, ToUpstream};

/// What goes wrong in a run, each time that it may with a chance of one in four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Messages do not come, though the connection goes on.
    MessagesLost,
    /// More has come than has been sent, as it is told.
    ReachedTooFar,
    /// What is missing is not told.
    LossUntold,
    /// That a topic has ended, or is hidden, is not told.
    EndUntold,
    /// That something is refused is not told.
    RefusalUntold,
    /// Messages of a queue do not come.
    QueuedLost,
    /// Messages of a queue come twice.
    QueuedTwice,
    /// What is consumed is given back to the queue.
    SettledOtherwise,
    /// What was refused is told to be done.
    AnswerUntrue,
    /// A request is not answered.
    AnswerLost,
    /// A request is passed on twice.
    RequestTwice,
    /// What is said in an exchange is said twice.
    SaidTwice,
    /// What is said in an exchange does not arrive.
    SaidLost,
}

impl Fault {
    /// What comes from the upstream instead of that.
    pub fn down(self, random: &mut Random, said: FromUpstream) -> Vec<FromUpstream> {
        if self == Fault::None {
            return vec![said];
        }
        let strikes = random.one_in(4);
        match (self, said) {
            (_, said) if !strikes => vec![said],
            (Fault::MessagesLost, FromUpstream::Messages { .. })
            | (Fault::EndUntold, FromUpstream::Left { .. })
            | (Fault::RefusalUntold, FromUpstream::Refused { .. })
            | (Fault::QueuedLost, FromUpstream::Queued { .. })
            | (Fault::AnswerLost, FromUpstream::Answered { .. }) => Vec::new(),
            (Fault::QueuedTwice, said @ FromUpstream::Queued { .. }) => vec![said.clone(), said],
            (Fault::ReachedTooFar, FromUpstream::Reached { numbering, sequence }) => {
                vec![FromUpstream::Reached { numbering, sequence: sequence + 3 }]
            }
            (Fault::LossUntold, FromUpstream::Recovered { key, .. }) => {
                vec![FromUpstream::Recovered { key, complete: true, continues: true }]
            }
            (Fault::AnswerUntrue, FromUpstream::Answered { request, .. }) => {
                vec![FromUpstream::Answered { request, result: Ok(OperationResult::Done) }]
            }
            (_, said) => vec![said],
        }
    }

    /// What goes to the upstream instead of that.
    pub fn up(self, random: &mut Random, asked: ToUpstream) -> Vec<ToUpstream> {
        if self == Fault::None {
            return vec![asked];
        }
        let strikes = random.one_in(4);
        match (self, asked) {
            (Fault::RequestTwice, asked @ ToUpstream::Publish { .. }) if strikes => {
                vec![asked.clone(), asked]
            }
            (Fault::SettledOtherwise, ToUpstream::Settle { request, key, parts, .. })
                if strikes =>
            {
                vec![ToUpstream::Settle { request, key, parts, outcome: Outcome::Reject }]
            }
            (_, asked) => vec![asked],
        }
    }

    /// What one side of an exchange hears instead of that.
    pub fn exchanged(self, random: &mut Random, heard: Exchanged) -> Vec<Exchanged> {
        let goes_on = matches!(&heard, Exchanged::Said { exchange, .. } if !exchange.first);
        match self {
            Fault::SaidTwice if goes_on && random.one_in(4) => vec![heard.clone(), heard],
            Fault::SaidLost if goes_on && random.one_in(4) => Vec::new(),
            _ => vec![heard],
        }
    }
}

/// Plays a model with each fault in turn, until its checks have found it.
pub fn are_found(faults: &[Fault], play: impl Fn(u64, Fault)) {
    for fault in faults {
        let is_found = |seed| catch_unwind(AssertUnwindSafe(|| play(seed, *fault))).is_err();
        let found = (0..200).find(|seed| is_found(*seed));
        eprintln!("{fault:?}: found with seed {found:?}");
        assert!(found.is_some(), "no check finds {fault:?}");
    }
}
