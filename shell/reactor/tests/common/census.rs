//! Counts the heap by sizes of blocks, so that a test can say what an idle session costs and where.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    unsafe_code
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use tiderace_base::Span;
use tiderace_reactor::NodeHandle;

struct Counting;

/// Live bytes and blocks by size: steps of 16 bytes up to 256, then powers of two.
static BYTES: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];
static BLOCKS: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];

fn count(layout: Layout, sign: isize) {
    let class = class_of(layout.size());
    BYTES[class].fetch_add(sign * layout.size() as isize, Ordering::Relaxed);
    BLOCKS[class].fetch_add(sign, Ordering::Relaxed);
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

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Blocks and bytes in use, by class.
pub fn census() -> [(isize, isize); CLASSES] {
    std::array::from_fn(|class| {
        (BLOCKS[class].load(Ordering::Relaxed), BYTES[class].load(Ordering::Relaxed))
    })
}

/// Waits until the brokers count so many; not every client asks for a receipt.
pub fn wait_for_subscriptions(node: &NodeHandle, wanted: u64) {
    let control = node.control();
    let count = || {
        let metrics = control.broker_metrics();
        let row = metrics.iter().find(|(row, _)| row.name == "tiderace_subscriptions");
        row.map(|(_, value)| *value).unwrap()
    };
    let start = std::time::Instant::now();
    while count() < wanted {
        assert!(start.elapsed() < Span::from_secs(20), "{} of {wanted}", count());
        std::thread::yield_now();
    }
}

/// Both ends of all connections are in one process.
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

/// Prints what `count` things have added since, by class, and says how many bytes it was for each.
pub fn report(what: &str, before: [(isize, isize); CLASSES], count: usize) -> usize {
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

const CLASSES: usize = 34;
