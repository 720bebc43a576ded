//! What an idle session holds in heap, counted by the allocator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unsafe_code)]

mod peer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use peer::{Peer, settings};
use tiderace_tls::Session;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_idle_session_holds_keys_and_little_else() {
    let settings = settings();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut sessions: Vec<Session> = Vec::with_capacity(COUNT + 1);
        let mut before = 0;
        for index in 0..=COUNT {
            if index == 1 {
                // The first has filled what is made once.
                before = HELD.load(Ordering::Relaxed);
            }
            let mut peer = Peer::new(&settings, &[version]);
            peer.shake_hands();
            peer.say(&[b'x'; 512]);
            peer.answer(&[b'y'; 512]);
            sessions.push(peer.session);
        }
        let each = (HELD.load(Ordering::Relaxed) - before) / COUNT;
        println!(
            "{:?}: {each} bytes of heap and {} of the session itself",
            version.version,
            size_of::<Session>()
        );
        assert!((500..=2600).contains(&each), "{:?}: {each} bytes of heap", version.version);
    }
    assert!(size_of::<Session>() <= 1216, "{}", size_of::<Session>());
}

const COUNT: usize = 64;
