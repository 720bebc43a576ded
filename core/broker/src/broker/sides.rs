//! The broker taken apart: what each side of a shard may touch, for one call.

use super::Broker;
use crate::deputy_side::DeputySide;
use crate::exchange_side::ExchangeSide;
use crate::home_side::HomeSide;
use crate::loss_side::LossSide;
use crate::notice_side::NoticeSide;
use crate::recall_side::RecallSide;
use crate::session_side::SessionSide;
use crate::view_side::ViewSide;

/// The parts of a broker that its home may touch.
macro_rules! home_side {
    ($broker:ident, $has_views:expr) => {
        HomeSide {
            shard: $broker.loopback.here().shard,
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

/// The parts of a broker that its sessions may touch.
macro_rules! session_side {
    ($broker:ident) => {
        SessionSide {
            shard: $broker.loopback.here().shard,
            options: &$broker.options,
            sessions: &mut $broker.sessions,
            delivery: &mut $broker.delivery,
            fanout: &mut $broker.fanout,
            directory: &mut $broker.directory,
            work: &mut $broker.work,
            memory: &$broker.memory,
            metrics: &mut $broker.metrics,
            loopback: &mut $broker.loopback,
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

    /// What the shard stands in for, upon its home.
    pub(crate) fn deputy_side(&mut self) -> DeputySide<'_> {
        let has_views = !self.views.is_idle();
        DeputySide { home: home_side!(self, has_views), deputies: &mut self.deputies }
    }

    /// The loss of another place, upon the shard as a home.
    pub(crate) fn loss_side(&mut self) -> LossSide<'_> {
        LossSide { home: self.home_side() }
    }

    /// The shard with its sessions.
    #[inline]
    pub(crate) fn session_side(&mut self) -> SessionSide<'_> {
        session_side!(self)
    }

    /// What consumers of other nodes' queues give back, upon the shard's sessions.
    pub(crate) fn recall_side(&mut self) -> RecallSide<'_> {
        RecallSide { sessions: session_side!(self) }
    }

    /// What the shard's sessions have been told of topics, upon its sessions.
    pub(crate) fn notice_side(&mut self) -> NoticeSide<'_> {
        NoticeSide { sessions: session_side!(self), notices: &mut self.notices }
    }

    /// The shard's exchanges, upon its sessions.
    #[inline]
    pub(crate) fn exchange_side(&mut self) -> ExchangeSide<'_> {
        ExchangeSide { sessions: session_side!(self), exchanges: &mut self.exchanges }
    }
}
