//! Memory that is lent to one piece of work after the other, so that none of them allocates.
//!
//! Who needs one of these takes it out and puts it back empty; who finds it lent to somebody further up gets
//! a new one.

use tiderace_base::Key;
use tiderace_broker::Effects;
use tiderace_wire::SessionActions;

use crate::driver::Event;
use crate::pool::BUFFER_BYTES;

/// The memory of one shard that is lent.
#[derive(Debug)]
pub(crate) struct Spare {
    read_buffer: Vec<u8>,
    events: Vec<Event>,
    due: Vec<Key>,
    /// In a box, as those of the shard: what is many lists is lent by its address.
    effects: Option<Box<Effects>>,
    actions: SessionActions,
}

impl Default for Spare {
    fn default() -> Self {
        Spare {
            read_buffer: vec![0; BUFFER_BYTES],
            events: Vec::new(),
            due: Vec::new(),
            effects: None,
            actions: SessionActions::default(),
        }
    }
}

impl Spare {
    /// Every connection is read into this, one after the other.
    pub(crate) fn take_read_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.read_buffer)
    }

    pub(crate) fn give_read_buffer(&mut self, buffer: Vec<u8>) {
        self.read_buffer = buffer;
    }

    /// For what a poll tells.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn give_events(&mut self, events: Vec<Event>) {
        self.events = events;
    }

    /// For connections whose timers have fired.
    pub(crate) fn take_due(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.due)
    }

    pub(crate) fn give_due(&mut self, due: Vec<Key>) {
        self.due = due;
    }

    /// For the effects that come while others are drained.
    pub(crate) fn take_effects(&mut self) -> Box<Effects> {
        self.effects.take().unwrap_or_default()
    }

    pub(crate) fn give_effects(&mut self, effects: Box<Effects>) {
        self.effects = Some(effects);
    }

    /// For what a call of a session asks for.
    #[inline]
    pub(crate) fn take_actions(&mut self) -> SessionActions {
        std::mem::take(&mut self.actions)
    }

    #[inline]
    pub(crate) fn give_actions(&mut self, actions: SessionActions) {
        self.actions = actions;
    }
}
