//! What all lists of a node hold together, from their first value to the last byte that is sent.
//!
//! A list is much larger than the request for it, and a client may ask for many at once and take none.
//! Relies on nothing. Invariant: what was taken is given back when the list is forgotten or the answer
//! is gone, whichever comes last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Bytes that lists may still take.
#[derive(Debug)]
pub struct ListBudget(AtomicUsize);

impl ListBudget {
    /// So many bytes for all of them.
    pub fn new(bytes: usize) -> ListBudget {
        ListBudget(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// What one list has taken.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ListBudget>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(budget: Arc<ListBudget>) -> Charge {
        Charge { budget, bytes: 0 }
    }

    /// Takes so many more; false if they are not there.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let is_there = self.budget.take(bytes);
        self.bytes += if is_there { bytes } else { 0 };
        is_there
    }

    /// A body that holds on to what was taken until nobody needs it.
    pub(crate) fn body(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Body { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

struct Body {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back_with_the_last_byte() {
        let budget = Arc::new(ListBudget::new(10));
        let mut one = Charge::new(budget.clone());
        let mut other = Charge::new(budget.clone());
        assert!(one.grow(6) && other.grow(4) && !one.grow(1));
        let body = one.body(vec![1; 6]);
        let rest = body.slice(5..);
        drop(body);
        assert!(!other.grow(1), "a byte is still to be sent");
        drop(rest);
        assert!(other.grow(6) && !other.grow(1));
        drop(other);
        assert!(budget.take(10));
    }
}
