//! Questions that wait, by the address that asks: each address has its turn.
//!
//! Invariants: an address that asks much holds others up by one question of its own at most; of the questions that may be
//! under way it gets at most as many as it leaves free, so that one from elsewhere finds a thread.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::cache::QuestionHash;

/// Who waits, and who is being answered.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Addresses with questions that wait, each once.
    order: VecDeque<IpAddr>,
    waiting: HashMap<IpAddr, VecDeque<QuestionHash>>,
    under_way: HashMap<IpAddr, usize>,
    under_way_total: usize,
    under_way_max: usize,
}

impl Turns {
    /// At most so many are under way together.
    pub(crate) fn new(under_way_max: usize) -> Turns {
        Turns {
            order: VecDeque::new(),
            waiting: HashMap::new(),
            under_way: HashMap::new(),
            under_way_total: 0,
            under_way_max,
        }
    }

    /// A question of that address waits from now on.
    pub(crate) fn push(&mut self, address: IpAddr, question: QuestionHash) {
        let questions = self.waiting.entry(address).or_default();
        if questions.is_empty() {
            self.order.push_back(address);
        }
        questions.push_back(question);
    }

    /// The next question, which is under way until [`Turns::done`] is called for its address.
    pub(crate) fn next(&mut self) -> Option<(IpAddr, QuestionHash)> {
        let free = self.under_way_max.saturating_sub(self.under_way_total);
        if free == 0 {
            return None;
        }
        let may = |address: &IpAddr| self.under_way.get(address).copied().unwrap_or(0) < free;
        let place = self.order.iter().position(may)?;
        let address = self.order.remove(place)?;
        let questions = self.waiting.get_mut(&address)?;
        let question = questions.pop_front()?;
        if questions.is_empty() {
            self.waiting.remove(&address);
        } else {
            self.order.push_back(address);
        }
        *self.under_way.entry(address).or_default() += 1;
        self.under_way_total += 1;
        Some((address, question))
    }

    /// A question of that address is no longer under way.
    pub(crate) fn done(&mut self, address: IpAddr) {
        self.under_way_total = self.under_way_total.saturating_sub(1);
        if let Some(count) = self.under_way.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&address);
            }
        }
    }

    /// How many are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way_total
    }

    /// Takes all that wait.
    pub(crate) fn drain(&mut self) -> Vec<QuestionHash> {
        self.order.clear();
        self.waiting.drain().flat_map(|(_, questions)| questions).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_floods_leaves_threads_and_turns_to_others() {
        let (flood, honest) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([10, 0, 0, 1]));
        let mut turns = Turns::new(8);
        for number in 0..100 {
            turns.push(flood, [number; 32]);
        }
        let begun = std::iter::from_fn(|| turns.next()).count();
        assert_eq!(begun, 4, "as many as it leaves free");
        turns.push(honest, [200; 32]);
        assert_eq!(turns.next(), Some((honest, [200; 32])), "at once");
        turns.done(honest);
        // With one thread, which the flood has, the next turn is the other's.
        let mut turns = Turns::new(1);
        turns.push(flood, [1; 32]);
        turns.push(flood, [2; 32]);
        assert_eq!(turns.next(), Some((flood, [1; 32])));
        turns.push(honest, [3; 32]);
        turns.push(flood, [4; 32]);
        assert_eq!(turns.next(), None);
        let mut order = Vec::new();
        for _ in 0..3 {
            turns.done(order.last().map_or(flood, |(address, _)| *address));
            order.extend(turns.next());
        }
        assert_eq!(order, [(flood, [2; 32]), (honest, [3; 32]), (flood, [4; 32])]);
        assert_eq!((turns.under_way(), turns.drain().len()), (1, 0));
    }
}
