//! What an idle session costs, counted by the allocator.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_heap::own_bytes;
use tiderace_socketio::{SocketOptions, inner};
use tiderace_wire::{
    Commands, Confirm, Context, Framing, Incoming, MessageFraming, Opening, OutQueue, Output, Reply,
};

static PLAIN: MessageFraming =
    MessageFraming { id: 1, text: |_, _| {}, binary: |_, _| {}, armour: None };

#[test]
fn an_idle_session_with_a_subscription_takes_little() {
    let framing = Framing::Messages(&PLAIN);
    let open = inner(Arc::new(SocketOptions::default()));
    let opening = Opening::new(framing, "127.0.0.1:1".parse().unwrap(), Now::default());
    let name: Arc<str> = "a".into();
    let before = own_bytes();
    let mut session = open(&opening);
    {
        let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
        let output = Output { framing, queue: &mut queue };
        let mut context = Context::new(&mut commands, output);
        let now = Now::default();
        for bytes in [&b"0"[..], br#"20["subscribe","load/topic-1"]"#] {
            session.message(now, Incoming { text: true, bytes }, &mut context).unwrap();
            session
                .reply(
                    now,
                    Reply::LoggedIn { name: name.clone(), anonymous: false, host: None },
                    &mut context,
                )
                .unwrap();
            session.reply(now, Reply::Confirmed(Confirm::one(1)), &mut context).unwrap();
        }
    }
    let idle = own_bytes() - before;
    assert!(idle > 0 && idle <= 300, "an idle session takes {idle} bytes of heap");
}
