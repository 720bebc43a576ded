//! Acknowledgements on their way to the broker: those of one call of the session are collected.
//!
//! Relies on the session to flush it before any other command and at the end of a call. Invariant: one command settles
//! messages of one subscription and home in one way, and has at most one token.

use tiderace_base::ShardId;
use tiderace_wire::{Command, Commands, Outcome, Settle, SubscriptionKey, Token};

use super::unacked::join;

/// The command that is being collected.
#[derive(Debug, Default)]
pub(super) struct Settling {
    open: Option<Settle>,
    /// Homes whose messages were settled without a confirmation.
    unconfirmed: Vec<ShardId>,
}

impl Settling {
    /// Hands over what was collected.
    #[inline]
    pub(super) fn flush(&mut self, commands: &mut Commands) {
        if let Some(settle) = self.open.take() {
            commands.push(Command::Settle(settle));
        }
    }

    /// The homes whose messages were settled without a confirmation since this was asked.
    pub(super) fn take_unconfirmed(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.unconfirmed)
    }

    /// Settles messages of one home, with those before them where that is possible.
    pub(super) fn add(
        &mut self,
        key: SubscriptionKey,
        (home, ranges): (ShardId, Vec<(u64, u64)>),
        outcome: Outcome,
        confirm: Option<Token>,
        commands: &mut Commands,
    ) {
        let fits = |open: &Settle| {
            open.key == key
                && open.home == home
                && open.outcome == outcome
                && open.confirm.is_none()
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.flush(commands);
        }
        if confirm.is_none() && !self.unconfirmed.contains(&home) {
            self.unconfirmed.push(home);
        }
        let open = self.open.get_or_insert_with(|| Settle {
            key,
            home,
            ranges: Vec::new(),
            outcome,
            confirm: None,
        });
        open.confirm = confirm;
        for range in ranges {
            join(&mut open.ranges, range);
        }
        if confirm.is_some() {
            self.flush(commands);
        }
    }
}
