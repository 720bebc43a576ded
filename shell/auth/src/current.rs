//! What threads share of which another one takes the place now and then.
//!
//! Invariant: nobody holds the lock for longer than it takes to copy a pointer.

use std::sync::{Arc, PoisonError, RwLock};

/// The one that counts now.
#[derive(Debug)]
pub(crate) struct Current<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Current(Arc::clone(&self.0))
    }
}

impl<T> Current<T> {
    pub(crate) fn new(value: Arc<T>) -> Current<T> {
        Current(Arc::new(RwLock::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, value: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}
