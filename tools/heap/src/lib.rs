//! Counts the heap: for tests of what idle sessions, topics and connections cost.
//!
//! A test that uses this crate has its allocator, which passes everything on to the system's. Relies
//! on nothing. Invariant: what is counted is what was asked for, without what the system's allocator
//! adds to it.

#![allow(unsafe_code, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Classes of blocks by size: steps of 16 bytes up to 256, then powers of two.
pub const CLASSES: usize = 34;

static BYTES: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];
static BLOCKS: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own { bytes: 0, peak: 0, calls: 0 }) };
}

/// What one thread has done.
#[derive(Clone, Copy)]
struct Own {
    bytes: isize,
    peak: isize,
    calls: usize,
}

/// Blocks and bytes in use, by class.
pub type Census = [(isize, isize); CLASSES];

/// Bytes that this thread has taken and not given back.
pub fn own_bytes() -> isize {
    OWN.get().bytes
}

/// How often this thread asks for memory during a call.
pub fn own_calls(act: impl FnOnce()) -> usize {
    let before = OWN.get().calls;
    act();
    OWN.get().calls - before
}

/// How many bytes more than now this thread has at most during a call.
pub fn own_peak(act: impl FnOnce()) -> isize {
    let mut own = OWN.get();
    let before = own.bytes;
    own.peak = before;
    OWN.set(own);
    act();
    OWN.get().peak - before
}

/// Bytes in use by all threads.
pub fn bytes() -> usize {
    let bytes: isize = BYTES.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    bytes.unsigned_abs()
}

/// What is in use by all threads.
pub fn census() -> Census {
    std::array::from_fn(|class| {
        (BLOCKS[class].load(Ordering::Relaxed), BYTES[class].load(Ordering::Relaxed))
    })
}

/// Prints what `count` things have added since, by class, and says how many bytes it was for each.
pub fn report(what: &str, before: Census, count: usize) -> usize {
    println!("{what}:");
    let mut each = 0.0;
    for (class, (before, after)) in before.into_iter().zip(census()).enumerate() {
        let blocks = (after.0 - before.0) as f64 / count as f64;
        let bytes = (after.1 - before.1) as f64 / count as f64;
        each += bytes;
        if bytes.abs() >= 0.5 {
            println!("  {bytes:6.1} bytes in {blocks:6.3} blocks <= {}", limit_of(class));
        }
    }
    println!("  {each:6.1} bytes for each");
    each.round() as usize
}

/// Lets a process that has both ends of all connections open as many files as it wants, if it may.
pub fn raise_file_limit(wanted: usize) {
    let wanted = wanted as libc::rlim_t;
    // SAFETY: `limit` is a valid, initialised struct for both calls.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        if limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(layout: Layout, sign: isize) {
    let (class, bytes) = (class_of(layout.size()), sign * layout.size() as isize);
    BYTES[class].fetch_add(bytes, Ordering::Relaxed);
    BLOCKS[class].fetch_add(sign, Ordering::Relaxed);
    let _ = OWN.try_with(|own| {
        let Own { bytes: before, peak, calls } = own.get();
        let after = before + bytes;
        own.set(Own { bytes: after, peak: peak.max(after), calls: calls + usize::from(sign > 0) });
    });
}

fn class_of(size: usize) -> usize {
    if size <= 256 {
        return size.div_ceil(16);
    }
    (16 + size.div_ceil(256).next_power_of_two().ilog2() as usize).min(CLASSES - 1)
}

/// The largest size in a class.
fn limit_of(class: usize) -> usize {
    if class <= 16 { class * 16 } else { 256 << (class - 16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_peaks_are_those_of_this_thread() {
        let calls = own_calls(|| drop((vec![0u8; 10], vec![0u8; 20])));
        assert_eq!(calls, 2);
        let peak = own_peak(|| {
            drop(std::hint::black_box(vec![0u8; 1000]));
            drop(std::hint::black_box(vec![0u8; 500]));
            std::thread::spawn(|| std::hint::black_box(vec![0u8; 9000]).len()).join().ok();
        });
        assert!((1000..4000).contains(&peak), "{peak}");
        assert_eq!(own_peak(|| ()), 0);
    }

    #[test]
    fn what_is_taken_and_given_back_is_counted() {
        let before = (own_bytes(), census());
        let block = vec![0u8; 1000];
        assert_eq!(own_bytes() - before.0, 1000);
        let class = class_of(1000);
        assert!(limit_of(class) >= 1000 && limit_of(class - 1) < 1000);
        assert!(census()[class].1 >= before.1[class].1);
        drop(block);
        assert_eq!(own_bytes(), before.0);
        let elsewhere = std::thread::spawn(|| std::hint::black_box(vec![0u8; 10]).len());
        assert_eq!(elsewhere.join().ok(), Some(10));
        assert!(bytes() > 0);
    }
}
