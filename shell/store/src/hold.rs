//! What keeps files of the store from being removed while somebody copies them.
//!
//! Relies on nothing. Invariant: who holds is told by [`Hold::is_given_up`] when files may have been removed after all.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Called when nobody holds any more.
pub(crate) type Over = Box<dyn Fn() + Send + Sync>;

/// Files are held until this is dropped, or room is needed.
pub(crate) struct Hold {
    is_given_up: AtomicBool,
    over: Over,
}

impl Hold {
    pub(crate) fn new(over: Over) -> Hold {
        Hold { is_given_up: AtomicBool::new(false), over }
    }

    /// Files may be removed from now on, though somebody still copies them.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Whether files may have been removed.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        (self.over)();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("is_given_up", &self.is_given_up()).finish_non_exhaustive()
    }
}
