//! Exchanges beyond what `spec.rs` says of them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::support::{MESSAGES, Rig, run};
use tiderace_base::CloseCode;
use tiderace_native::NativeOptions;
use tiderace_native::codec::{
    CallMessage, ClientMessage, Destination, OperateMessage, Publish, SendMessage, flag,
};
use tiderace_wire::{Command, Exchange, ExchangeKey, Framing, Kind, Reply, SharedRun};

// Section 9: BARE.
#[test]
fn a_bare_send_is_no_message() {
    let mut rig = Rig::new();
    let bare = flag::LAST | flag::BARE | flag::RESPONDER;
    let message = |flags, properties, body| {
        ClientMessage::Send(SendMessage { number: 9, flags, properties, body })
    };
    rig.send(&message(bare, b"", b""));
    rig.send(&message(flag::LAST, b"", b""));
    let [Command::SendExchange(end), Command::SendExchange(item)] = &rig.commands[..] else {
        panic!("{:?}", rig.commands)
    };
    assert_eq!((end.last, end.bare, item.last, item.bare), (true, true, true, false));
    let said = SharedRun::new(Arc::new(run(Kind::Service, "quotes", 1, 0, &[b""])));
    let exchange = Exchange {
        key: ExchangeKey::caller(4),
        first: false,
        last: true,
        bare: true,
        credit: None,
    };
    rig.deliver_exchange(0, &said, exchange);
    rig.flush();
    assert!(rig.received()[0].starts_with("Exchange(ExchangeMessage { flags: 136, number: 4,"));
    for wrong in [
        message(flag::BARE, b"", b""),
        message(bare | 1, b"", b""),
        message(bare, b"a:b\n", b""),
        message(bare, b"", b"x"),
    ] {
        let mut rig = Rig::new();
        rig.send(&wrong);
        assert_eq!(rig.end.map(|close| close.code), Some(CloseCode::BadFrame));
    }
}

// Section 10: what can be told is refused alone, as a request by RSocket or HTTP is.
#[test]
fn a_body_that_is_too_large_ends_what_it_belongs_to_and_nothing_else() {
    let options = || NativeOptions { message_bytes_max: 8, ..NativeOptions::default() };
    let destination = |kind| Destination::Path(kind, "a");
    let (flags, properties, body) = (0, &b""[..], &b"123456789"[..]);
    let mut rig = Rig::with(options(), Framing::Messages(&MESSAGES));
    rig.send(&ClientMessage::Publish(Publish {
        flags,
        request: 1,
        destination: destination(Kind::Topic),
        expires_ms: None,
        properties,
        body,
    }));
    rig.send(&ClientMessage::Call(CallMessage {
        number: 7,
        destination: destination(Kind::Service),
        flags,
        timeout_ms: 0,
        credit: None,
        properties,
        body,
    }));
    let operation = r#"{"do":"update","path":"a"}"#;
    rig.send(&ClientMessage::Operate(OperateMessage { request: 2, operation, body: Some(body) }));
    let received = rig.received();
    let told: Vec<&str> =
        received.iter().map(|text| text.split(", slug").next().unwrap()).collect();
    assert_eq!(
        told,
        [
            "Error { request: 1, code: 322",
            "Ended { responder: false, number: 7, code: 322",
            "Error { request: 2, code: 322",
        ]
    );
    assert!(rig.end.is_none() && rig.commands.is_empty(), "{:?}", rig.commands);
    // What belongs to no request that could be answered ends the session.
    rig.send(&ClientMessage::Send(SendMessage { number: 7, flags, properties, body }));
    assert_eq!(rig.end.map(|close| close.code), Some(CloseCode::FrameTooLarge));
}

// docs/close-codes.md: what ends more than an operation is no answer to one.
#[test]
fn a_refusal_that_ends_the_session_is_its_end() {
    let mut rig = Rig::new();
    let operation = r#"{"do":"session"}"#;
    rig.send(&ClientMessage::Operate(OperateMessage { request: 1, operation, body: None }));
    let close = CloseCode::InternalError.into();
    rig.reply(Reply::Refused { token: Some(1), close });
    assert_eq!(rig.end.as_ref().map(|close| close.code), Some(CloseCode::InternalError));
    assert!(rig.received()[0].starts_with("Close { code: 104"));
}
