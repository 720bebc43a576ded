//! Answers that wait until other places have what was sent to them, and the store a record of this home.
//!
//! Relies on each place answering once, or being lost, and on the store answering once. Invariants: each answer is given
//! back once, and refused if one of those whom it waits for refuses; while very many wait, those who cause more are told to wait as well.

use tiderace_base::Close;

use crate::collections::Map;
use crate::durables::Fed;
use crate::places::{Place, PlaceSet};

/// One that waits.
#[derive(Debug)]
struct Waiting<A> {
    places: PlaceSet,
    refused: Option<Close>,
    /// Whether the store has yet to answer a record of this home.
    awaits_store: bool,
    bytes: usize,
    answer: A,
}

/// An answer that waits no more: what it is, and whether it is refused.
pub(crate) type Released<A> = (A, Result<(), Close>);

/// Those that wait.
#[derive(Debug)]
pub(crate) struct FedAnswers<A> {
    waiting: Map<u64, Waiting<A>>,
    last_number: u64,
    /// Bytes of all that places have yet to answer.
    bytes: usize,
    /// Places with publishers that wait until there are fewer.
    throttled: PlaceSet,
}

/// Answers that may wait before publishers do: some 200 bytes each.
const WAITING_MAX: usize = 4_096;
/// Bytes for which answers may wait before publishers do: the places that are to answer have them in memory.
const WAITING_BYTES_MAX: usize = 16 << 20;

impl<A> Default for FedAnswers<A> {
    fn default() -> FedAnswers<A> {
        FedAnswers { waiting: Map::default(), last_number: 0, bytes: 0, throttled: PlaceSet::EMPTY }
    }
}

impl<A> FedAnswers<A> {
    /// A number under which places are to answer.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// An answer waits until places have what they were sent, and perhaps the store a record; given back if it need not.
    pub(crate) fn wait(&mut self, fed: Fed, awaits_store: bool, answer: A) -> Option<Released<A>> {
        let Fed { number, places, refused, bytes } = fed;
        let waiting = Waiting { places, refused, awaits_store, bytes, answer };
        if waiting.is_over() {
            return Some(waiting.release());
        }
        self.bytes += bytes;
        self.waiting.insert(number, waiting);
        None
    }

    /// A place has taken what it was sent, or not.
    pub(crate) fn answered(
        &mut self,
        number: u64,
        place: Place,
        result: Result<(), Close>,
    ) -> Option<Released<A>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.places.remove(place);
        waiting.refused = waiting.refused.take().or(result.err());
        self.take_if_over(number)
    }

    /// The store has the record, or not.
    pub(crate) fn stored(&mut self, number: u64, result: Result<(), Close>) -> Option<Released<A>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.awaits_store = false;
        waiting.refused = waiting.refused.take().or(result.err());
        self.take_if_over(number)
    }

    fn take_if_over(&mut self, number: u64) -> Option<Released<A>> {
        self.waiting.get(&number).filter(|waiting| waiting.is_over())?;
        let waiting = self.waiting.remove(&number)?;
        self.bytes -= waiting.bytes;
        Some(waiting.release())
    }

    /// If so many answers wait that publishers do as well: notes that one of a place does.
    pub(crate) fn throttle(&mut self, publisher: Place) -> bool {
        let is_behind = self.waiting.len() >= WAITING_MAX || self.bytes >= WAITING_BYTES_MAX;
        if is_behind {
            self.throttled.insert(publisher);
        }
        is_behind
    }

    /// The places whose publishers need wait no longer.
    pub(crate) fn take_relieved(&mut self) -> PlaceSet {
        let is_ahead = self.waiting.len() <= WAITING_MAX / 2 && self.bytes <= WAITING_BYTES_MAX / 2;
        match is_ahead {
            true => std::mem::take(&mut self.throttled),
            false => PlaceSet::EMPTY,
        }
    }

    /// A place is lost: no publisher there waits any more.
    pub(crate) fn lose(&mut self, place: Place) {
        self.throttled.remove(place);
    }

    /// The numbers for which a place has yet to answer.
    pub(crate) fn waiting_for(&self, place: Place) -> Vec<u64> {
        let waiting = self.waiting.iter().filter(|(_, it)| it.places.contains(place));
        let mut numbers: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl<A> Waiting<A> {
    fn is_over(&self) -> bool {
        self.places.is_empty() && !self.awaits_store
    }

    fn release(self) -> Released<A> {
        (self.answer, self.refused.map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{CloseCode, ShardId};

    #[test]
    fn an_answer_waits_for_all_places_and_is_given_once() {
        let mut answers = FedAnswers::default();
        let [here, there] = [0, 1].map(|shard| Place::here(ShardId(shard)));
        let answer = || "done";
        let (number, places) = (answers.number(), PlaceSet::all(2));
        assert!(
            answers.wait(Fed { number, places, refused: None, bytes: 1 }, true, answer()).is_none()
        );
        let refused = Err(Close::from(CloseCode::StoreUnavailable));
        assert!(answers.answered(number, here, refused).is_none());
        assert!(answers.answered(number, there, Ok(())).is_none(), "the store has not answered");
        assert!(answers.stored(number, Ok(())).unwrap().1.is_err());
        assert!(answers.answered(number, there, Ok(())).is_none(), "nobody waits any more");

        let number = answers.number();
        let fed = Fed { number, places: PlaceSet::of(there), refused: None, bytes: 1 };
        assert!(answers.wait(fed, true, answer()).is_none());
        let refused = Err(Close::from(CloseCode::StoreUnavailable));
        assert!(answers.stored(number, refused).is_none());
        assert_eq!((answers.waiting_for(there), answers.waiting_for(here)), (vec![number], vec![]));
        assert!(answers.answered(number, there, Ok(())).unwrap().1.is_err());
        let fed = Fed { number: 0, places: PlaceSet::EMPTY, refused: None, bytes: 1 };
        assert!(answers.wait(fed, false, answer()).is_some(), "nothing to wait for");
    }

    #[test]
    fn publishers_wait_while_very_many_answers_do() {
        let mut answers = FedAnswers::default();
        let [here, there] = [0, 1].map(|shard| Place::here(ShardId(shard)));
        let mut numbers = Vec::new();
        while !answers.throttle(here) {
            let number = answers.number();
            numbers.push(number);
            let fed = Fed { number, places: PlaceSet::of(there), refused: None, bytes: 1 };
            assert!(answers.wait(fed, false, ()).is_none());
        }
        assert_eq!(numbers.len(), WAITING_MAX);
        assert!(answers.take_relieved().is_empty());
        for number in numbers.drain(..WAITING_MAX / 2) {
            assert!(answers.answered(number, there, Ok(())).is_some());
        }
        assert_eq!(answers.take_relieved(), PlaceSet::of(here));
        assert!(answers.take_relieved().is_empty(), "they are told once");
        let number = answers.number();
        let (places, bytes) = (PlaceSet::of(there), WAITING_BYTES_MAX);
        assert!(answers.wait(Fed { number, places, refused: None, bytes }, false, ()).is_none());
        assert!(answers.throttle(here) && answers.take_relieved().is_empty());
        assert!(answers.answered(number, there, Ok(())).is_some());
        assert_eq!(answers.take_relieved(), PlaceSet::of(here));
    }
}
