//! What an idle session costs, counted by the allocator.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_heap::own_bytes;
use tiderace_stomp::{StompOptions, protocol};
use tiderace_wire::{Commands, Context, Framing, Opening, OutQueue, Output, Reply};

#[test]
fn an_idle_session_with_a_subscription_takes_little() {
    let stomp = protocol(Arc::new(StompOptions::default()), [].into());
    let opening = Opening::new(Framing::Stream, "127.0.0.1:1".parse().unwrap(), Now::default());
    let before = own_bytes();
    let mut session = (stomp.open)(&opening);
    {
        let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
        let output = Output { framing: Framing::Stream, queue: &mut queue };
        let mut context = Context::new(&mut commands, output);
        let now = Now::default();
        let connect = b"CONNECT\naccept-version:1.2\nheart-beat:10000,10000\n\n\0";
        session.receive(now, connect, &mut context).unwrap();
        session
            .reply(
                now,
                Reply::LoggedIn { name: "a".into(), anonymous: false, host: None },
                &mut context,
            )
            .unwrap();
        let subscribe = b"SUBSCRIBE\nid:sub-0\ndestination:/topic/load/1\n\n\0";
        session.receive(now, subscribe, &mut context).unwrap();
    }
    let idle = own_bytes() - before;
    assert!(idle > 0 && idle <= 136, "an idle session takes {idle} bytes of heap");
}
