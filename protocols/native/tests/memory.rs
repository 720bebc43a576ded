//! What an idle session costs, counted by the allocator.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_heap::own_bytes;
use tiderace_native::codec::{Auth, ClientMessage, Hello, SubscribeMessage, subscribe};
use tiderace_native::{NativeOptions, protocol};
use tiderace_wire::{
    Commands, Confirm, Context, Framing, Incoming, Kind, MessageFraming, Opening, OutQueue, Output,
    Reply, Session,
};

static MESSAGES: MessageFraming =
    MessageFraming { id: 1, text: |_, _| {}, binary: |_, _| {}, armour: None };

fn turn(session: &mut dyn Session, act: impl FnOnce(&mut dyn Session, &mut Context<'_>)) {
    let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
    let output = Output { framing: Framing::Messages(&MESSAGES), queue: &mut queue };
    act(session, &mut Context::new(&mut commands, output));
}

fn send(session: &mut dyn Session, message: &ClientMessage<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    turn(session, |session, context| {
        let message = Incoming { text: false, bytes: &bytes };
        session.message(Now::default(), message, context).unwrap();
    });
}

/// Bytes of heap of an idle session with a subscription of that number.
fn idle_bytes(subscription: u32) -> isize {
    let native = protocol(Arc::new(NativeOptions::default()), [].into());
    let peer = "127.0.0.1:1".parse().unwrap();
    let opening = Opening::new(Framing::Messages(&MESSAGES), peer, Now::default());
    let name: Arc<str> = "anonymous".into();
    let before = own_bytes();
    let mut session = (native.open)(&opening);
    let hello = Hello {
        version: 1,
        auth: Auth::Anonymous,
        codecs: vec![1],
        client: "",
        position: b"",
        host: None,
        edge: None,
    };
    send(&mut *session, &ClientMessage::Hello(hello));
    turn(&mut *session, |session, context| {
        session
            .reply(
                Now::default(),
                Reply::LoggedIn { name: name.clone(), anonymous: false, host: None },
                context,
            )
            .unwrap();
    });
    let wish = SubscribeMessage {
        request: 1,
        subscription,
        flags: subscribe::SNAPSHOT | subscribe::RECOVERABLE,
        kind: Kind::Topic,
        path: "load/1",
        selector: None,
        prefetch: None,
        position: None,
        replay: None,
        interval_ms: None,
        start: None,
        credit: None,
    };
    send(&mut *session, &ClientMessage::Subscribe(wish));
    turn(&mut *session, |session, context| {
        session.reply(Now::default(), Reply::Confirmed(Confirm::one(1)), context).unwrap();
    });
    own_bytes() - before
}

#[test]
fn an_idle_session_with_a_subscription_takes_little() {
    let idle = idle_bytes(0);
    assert!(idle > 0 && idle <= 100, "an idle session takes {idle} bytes of heap");
    // Clients choose the numbers.
    let idle = idle_bytes(9_999);
    assert!(idle <= 500, "with a high number it takes {idle} bytes of heap");
}
