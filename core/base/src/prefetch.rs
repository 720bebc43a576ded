//! Asks memory for what is needed soon, without waiting for it.
//!
//! Where a thousand sessions get a thousand messages each, what a delivery refers to was written long
//! before and has left the near caches. Code that knows what comes next asks for it some steps ahead, and
//! the wait passes beside the work in between. Invariant: it only hints; on processors for which there is
//! no stable hint it does nothing.

#![allow(unsafe_code)]

/// Asks for the memory of a value: all of it if it is small, the first kilobyte and a little otherwise.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    hint(std::ptr::from_ref(value).cast::<u8>(), size_of_val(value));
}

#[inline(always)]
fn hint(start: *const u8, len: usize) {
    let len = len.min(MOST_BYTES);
    let mut offset = 0;
    while offset < len {
        line(start.wrapping_add(offset));
        offset += LINE_BYTES;
    }
    if len > 0 {
        line(start.wrapping_add(len - 1));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn line(place: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing into the program and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn line(_place: *const u8) {}

const LINE_BYTES: usize = 64;
/// What is asked for of one value at most: a message of a kilobyte with its head. More would push out
/// what was asked for before.
const MOST_BYTES: usize = 1152;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_of_any_size_may_be_asked_for(bytes in any::<Vec<u8>>(), word in any::<u64>()) {
            prefetch(bytes.as_slice());
            prefetch(&word);
            prefetch(&());
            prop_assert_eq!(bytes.clone(), bytes);
        }
    }
}
