//! The broker taken apart: what each side of a shard may touch, for one call.

use super::Broker;
use crate::home_side::HomeSide;
use crate::session_side::SessionSide;

impl Broker {
    /// The shard as a home.
    #[inline]
    pub(crate) fn home_side(&mut self) -> HomeSide<'_> {
        HomeSide {
            shard: self.shard,
            options: &self.options,
            home: &mut self.home,
            directory: &mut self.directory,
            journal: &mut self.journal,
            work: &mut self.work,
            memory: &self.memory,
            metrics: &mut self.metrics,
            loopback: &mut self.loopback,
            has_views: !self.views.is_idle(),
        }
    }

    /// The shard with its sessions.
    #[inline]
    pub(crate) fn session_side(&mut self) -> SessionSide<'_> {
        SessionSide {
            shard: self.shard,
            options: &self.options,
            sessions: &mut self.sessions,
            delivery: &mut self.delivery,
            fanout: &mut self.fanout,
            exchanges: &mut self.exchanges,
            directory: &mut self.directory,
            work: &mut self.work,
            memory: &self.memory,
            metrics: &mut self.metrics,
            loopback: &mut self.loopback,
        }
    }
}
