//! Taking out of a backlog what is for nobody any more.

use std::collections::VecDeque;

use tiderace_wire::{Command, ExchangeKey, SubscriptionKey};

use super::{Backlog, Pending, Ranked};

/// What something in a backlog is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum For {
    Subscription(SubscriptionKey),
    Exchange(ExchangeKey),
}

impl For {
    pub(crate) fn of(pending: &Pending) -> For {
        pending.exchange_key().map_or(For::Subscription(pending.key), For::Exchange)
    }

    pub(crate) fn ended_by(command: &Command) -> Option<For> {
        match command {
            Command::Unsubscribe { key, .. } | Command::Lose { key, .. } => {
                Some(For::Subscription(*key))
            }
            Command::Cancel { exchange, .. } => Some(For::Exchange(*exchange)),
            _ => None,
        }
    }
}

impl Backlog {
    /// Removes what is for nobody any more: from everything, or from what has come since this was asked last
    /// in the present call. How many entries were looked at for that.
    pub(crate) fn remove(
        &mut self,
        newer: bool,
        gone: impl Fn(&Pending) -> bool,
    ) -> (Vec<Pending>, usize) {
        self.newest = None;
        let (mut removed, mut looked) = (Vec::new(), 0);
        let mut places = self.looked.take().unwrap_or_default();
        let (high, low) = match self.ranked.as_deref_mut() {
            Some(Ranked { high, low }) => (Some(high), Some(low)),
            None => (None, None),
        };
        let lines = [high, Some(&mut self.ordinary), low];
        for (line, place) in lines.into_iter().zip(places.iter_mut()) {
            let Some(line) = line else { continue };
            let from = if newer { place.saturating_sub(line.taken) as usize } else { 0 };
            let tail = line.entries.split_off(from.min(line.entries.len()));
            looked += tail.len();
            let (over, kept): (VecDeque<_>, VecDeque<_>) = tail.into_iter().partition(&gone);
            line.entries.extend(kept);
            // Those behind keep their places.
            line.taken += over.len() as u64;
            *place = line.taken + line.entries.len() as u64;
            removed.extend(over);
        }
        self.looked = Some(places).filter(|_| newer);
        for pending in &removed {
            self.discount(pending);
            self.mark(pending, false);
        }
        (removed, looked)
    }

    /// The call is over in which it was looked through.
    pub(crate) fn forget_looked(&mut self) {
        self.looked = None;
    }
}
