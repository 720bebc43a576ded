//! Exchanges beyond what `spec.rs` says of them.

mod support;

use std::sync::Arc;

use support::{Rig, run};
use tiderace_base::CloseCode;
use tiderace_native::codec::{ClientMessage, SpeakMessage, flag};
use tiderace_wire::{Command, Exchange, ExchangeKey, Kind, SharedRun};

// Section 9: BARE.
#[test]
fn a_bare_speak_is_no_message() {
    let mut rig = Rig::new();
    let bare = flag::LAST | flag::BARE | flag::RESPONDER;
    let speak = |flags, properties, body| {
        ClientMessage::Speak(SpeakMessage { number: 9, flags, properties, body })
    };
    rig.send(&speak(bare, b"", b""));
    rig.send(&speak(flag::LAST, b"", b""));
    let [Command::Speak(end), Command::Speak(item)] = &rig.commands[..] else {
        panic!("{:?}", rig.commands)
    };
    assert_eq!((end.last, end.bare, item.last, item.bare), (true, true, true, false));
    let said = SharedRun::new(Arc::new(run(Kind::Service, "quotes", 1, 0, &[b""])));
    let exchange = Exchange { key: ExchangeKey::caller(4), first: false, last: true, bare: true };
    rig.deliver_exchange(0, &said, exchange);
    rig.flush();
    assert!(rig.received()[0].starts_with("Exchange(ExchangeMessage { flags: 136, number: 4,"));
    for wrong in [
        speak(flag::BARE, b"", b""),
        speak(bare | 1, b"", b""),
        speak(bare, b"a:b\n", b""),
        speak(bare, b"", b"x"),
    ] {
        let mut rig = Rig::new();
        rig.send(&wrong);
        assert_eq!(rig.end.map(|close| close.code), Some(CloseCode::BadFrame));
    }
}
