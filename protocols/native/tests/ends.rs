//! How a session ends, and what its client is told: whether to come back, when, and to where.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::Rig;
use tiderace_base::{Addresses, Close, CloseCode};
use tiderace_native::codec::{ClientMessage, Messages, ServerMessage};

// "BYE ends the session"; section 5: "CLOSE renews the advice."
#[test]
fn ends_say_whether_to_come_back() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Bye);
    assert_eq!(
        (rig.end.as_ref().map(|it| it.code), rig.received().len()),
        (Some(CloseCode::Done), 0)
    );
    let mut rig = Rig::new();
    rig.call(|_, _, _| Err(CloseCode::ShuttingDown.into()));
    let (code, _, reconnect, jitter, addresses) = last_word(&mut rig);
    assert_eq!((code, reconnect, jitter, addresses), (102, true, 5000, vec![]));
}

// Section 5: "addresses: where the client does well to go"
#[test]
fn a_client_that_is_sent_elsewhere_is_told_where() {
    let mut rig = Rig::new();
    let to = ["wss://b.example.org/tiderace", "tcp://c.example.org:7800"];
    rig.call(|_, _, _| Err(Close::from(CloseCode::Draining).to(Addresses::new(to).unwrap())));
    let (code, slug, reconnect, jitter, addresses) = last_word(&mut rig);
    assert_eq!((code, slug.as_str(), reconnect, jitter), (105, "draining", true, 0));
    assert_eq!(addresses, to);
}

/// The fields of CLOSE: code, short name, whether to come back, within which time, and to where.
fn last_word(rig: &mut Rig) -> (u16, String, bool, u64, Vec<String>) {
    let frames = rig.frames().concat();
    let (kind, payload) = Messages::new(&frames).last().unwrap().unwrap();
    let ServerMessage::Close { code, slug, reconnect, jitter_ms, addresses, .. } =
        ServerMessage::read(kind, payload).unwrap()
    else {
        panic!("{:?}", rig.received())
    };
    let addresses = addresses.iter().map(str::to_owned).collect();
    (code, slug.to_owned(), reconnect, jitter_ms, addresses)
}
