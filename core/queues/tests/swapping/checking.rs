//! What holds at every moment, and what has come to be when nothing is left to do.

use super::*;

impl World {
    /// Searches go on that were too long for a turn.
    pub(super) fn work(&mut self) {
        while self.queues.has_work() {
            let mut effects = Vec::new();
            self.queues.work(self.now, &mut effects);
            self.apply(effects);
        }
    }

    pub(super) fn check(&self) {
        let state = self.queues.state(self.key).unwrap();
        let swapped = state.swapped;
        assert_eq!(self.queues.swapped(), (swapped, state.swapped_bytes));
        let held = state.bytes as u64 + state.swapped_bytes;
        assert_eq!(self.queues.account_of(self.key), Some((held, OWNER_BYTES_MAX)));
        assert_eq!(self.queues.depth().0, state.messages);
        let bodies = self.memory.bodies();
        let of_others: usize = self.others.iter().map(|run| run.bytes() - run.bytes_beside()).sum();
        assert!(bodies >= of_others, "what somebody has counts");
        assert_eq!(self.queues.depth().1, self.memory.used_for(MemoryUse::Queues));
        // Expired ones may be found later.
        let expired = self.ready.iter().filter(|version| self.is_expired(**version)).count();
        let ready = self.ready.len();
        if !self.is_damaged {
            assert!(
                (ready - expired..=ready).contains(&state.messages),
                "{} of {ready}",
                state.messages
            );
        }
        let flying: usize = self.in_flight.values().map(BTreeMap::len).sum();
        let taken: usize = self.taken.iter().map(|segments| versions(segments).len()).sum();
        assert_eq!(state.in_flight, flying + taken);
    }

    /// The store does all that it can.
    pub(super) fn quiesce(&mut self) {
        for round in 0.. {
            assert!(
                round < 600,
                "it goes on for ever: {:?} {:?} {:?}",
                self.store.asked,
                self.taking,
                self.queues.state(self.key)
            );
            let mut effects = Vec::new();
            self.queues.tick(self.now, &mut effects);
            self.apply(effects);
            let committed = self.commit(false);
            self.store.read_next(&mut self.numbers);
            let gave = self.give();
            self.work();
            if !(committed || gave) {
                break;
            }
        }
    }

    /// Somebody takes all there is.
    pub(super) fn finish(&mut self) {
        self.finish_browsing();
        assert!(self.taking.is_empty(), "an operation was not answered");
        for segments in std::mem::take(&mut self.taken) {
            self.ready.extend(versions(&segments));
            let mut effects = Vec::new();
            self.queues.return_taken(self.now, self.key, segments, &mut effects);
            self.apply(effects);
        }
        for number in self.in_flight.keys().copied().collect::<Vec<_>>() {
            self.leave(number, Ending::Orderly);
        }
        let all = Prefetch { messages: 0, bytes: u32::MAX };
        self.consume(9, &Consume { window: all, ..consumer(9u8, 0) });
        self.quiesce();
        self.ready.retain(|version| self.known[version].1.is_none_or(|it| it > self.now.wall_ms));
        if !self.is_damaged {
            assert_eq!(self.ready.len(), 0, "{:?} did not come", self.ready);
        }
        let held: Vec<(u64, u64)> =
            self.in_flight[&9].keys().map(|number| (*number, *number)).collect();
        self.in_flight.get_mut(&9).unwrap().clear();
        let (mut effects, who) = (Vec::new(), session(9u8));
        self.queues.settle(self.now, who, KEY, &held, Settlement::Accept, &mut effects);
        self.apply(effects);
        self.quiesce();
        assert_eq!(self.queues.depth(), (0, self.memory.bodies()));
        assert_eq!(self.queues.swapped(), (0, 0));
        if !self.is_damaged {
            assert_eq!(self.store.left(), [], "the store keeps what is gone");
            assert!(
                !self.queues.leaves_new(self.key, u64::MAX, 0),
                "nothing is in the store alone any more"
            );
        }
        assert_eq!(self.queues.unreadable_total(), self.unreadable);
        self.others.clear();
        self.store.puts.clear();
        self.store.told.clear();
        assert_eq!(self.memory.used_for(MemoryUse::Queues), 0, "nobody has anything any more");
    }
}
