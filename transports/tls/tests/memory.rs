//! What an idle session holds in heap, counted by the allocator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use crate::peer::{Peer, settings};
use tiderace_heap::own_bytes;
use tiderace_tls::Session;

#[test]
fn an_idle_session_holds_keys_and_little_else() {
    let settings = settings();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut sessions: Vec<Session> = Vec::with_capacity(COUNT + 1);
        let mut before = 0;
        for index in 0..=COUNT {
            if index == 1 {
                // The first has filled what is made once.
                before = own_bytes();
            }
            let mut peer = Peer::new(&settings, &[version]);
            peer.shake_hands();
            peer.say(&[b'x'; 512]);
            peer.answer(&[b'y'; 512]);
            sessions.push(peer.session);
        }
        let each = (own_bytes() - before) as usize / COUNT;
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
