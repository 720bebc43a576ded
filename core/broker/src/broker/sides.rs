//! The broker taken apart: what each side of a shard may touch, for one call.

use super::Broker;
use crate::home_side::HomeSide;
use crate::session_side::SessionSide;
use crate::view_side::ViewSide;

/// The parts of a broker that its home may touch.
macro_rules! home_side {
    ($broker:ident, $has_views:expr) => {
        HomeSide {
            shard: $broker.shard,
            options: &$broker.options,
            home: &mut $broker.home,
            directory: &mut $broker.directory,
            journal: &mut $broker.journal,
            work: &mut $broker.work,
            memory: &$broker.memory,
            metrics: &mut $broker.metrics,
            loopback: &mut $broker.loopback,
            has_views: $has_views,
        }
    };
}

impl Broker {
    /// The shard as a home.
    #[inline]
    pub(crate) fn home_side(&mut self) -> HomeSide<'_> {
        home_side!(self, !self.views.is_idle())
    }

    /// The shard's views, upon its home.
    pub(crate) fn view_side(&mut self) -> ViewSide<'_> {
        ViewSide { home: home_side!(self, true), views: &mut self.views }
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
