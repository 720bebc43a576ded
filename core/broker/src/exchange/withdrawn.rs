//! Calls whose callers no longer want them, while very much waits for their responder.
//!
//! Looking through a backlog for each of them would cost the product of both, so they are noted, and a
//! turn's are looked for together between two turns. Relies on responders' ends having numbers that are
//! not used again. Invariants: a call that its responder's session has not taken by then is not begun, and
//! the session is told nothing of it; of any other it is told the end behind what waits of it.

use tiderace_base::{Key, Now};
use tiderace_wire::ExchangeKey;

use super::Other;
use crate::collections::{Map, Set};
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::price::BACKLOG_LOOK;

impl ExchangeSide<'_> {
    /// Ends the calls that were withdrawn since this was done last.
    pub(crate) fn end_withdrawn(&mut self, now: Now, effects: &mut Effects) {
        let mut by_session: Map<Key, Vec<Key>> = Map::default();
        for key in self.exchanges.take_withdrawn() {
            // It may have ended otherwise meanwhile.
            let end = self.exchanges.get(key).filter(|end| matches!(end.other, Other::Over(_)));
            if let Some(end) = end {
                by_session.entry(end.session).or_default().push(key);
            }
        }
        for (session, ends) in by_session {
            self.end_withdrawn_of(now, session, &ends, effects);
        }
    }

    fn end_withdrawn_of(&mut self, now: Now, session: Key, ends: &[Key], effects: &mut Effects) {
        let exchanges = ends.iter().filter_map(|key| Some(self.exchanges.get(*key)?.key));
        let withdrawn: Set<ExchangeKey> = exchanges.collect();
        let backlog = self.sessions.record(session).and_then(|record| record.backlog.as_ref());
        let waiting = backlog.into_iter().flat_map(|backlog| backlog.iter());
        let calls = waiting.filter_map(|pending| pending.exchange().filter(|known| known.first));
        let not_begun: Set<ExchangeKey> =
            calls.map(|known| known.key).filter(|key| withdrawn.contains(key)).collect();
        let entries = backlog.map_or(0, |backlog| backlog.entries());
        self.sessions.work.charge(BACKLOG_LOOK * entries as u64);
        if !not_begun.is_empty() {
            let id = self.sessions.id_of(session);
            let is_gone = |key: ExchangeKey| not_begun.contains(&key);
            let (_, left) =
                self.sessions.take_back(id, |it| it.exchange_key().is_some_and(is_gone));
            if left == 0 || left < self.sessions.options.backlog_bytes_low {
                self.sessions.caught_up(session, effects);
            }
        }
        for key in ends {
            let Some(end) = self.exchanges.get(*key) else { continue };
            if not_begun.contains(&end.key) {
                self.forget_end(*key);
            } else {
                self.end_behind_what_waits(now, *key, effects);
            }
        }
    }
}
