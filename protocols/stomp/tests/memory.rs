//! What an idle session costs, counted by the allocator.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use tiderace_base::Now;
use tiderace_stomp::{StompOptions, protocol};
use tiderace_wire::{Commands, Context, Framing, Opening, OutQueue, Output, Reply};

struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_idle_session_with_a_subscription_takes_little() {
    let stomp = protocol(Arc::new(StompOptions::default()), [].into());
    let opening = Opening::new(Framing::Stream, "127.0.0.1:1".parse().unwrap(), Now::default());
    let before = BYTES.get();
    let mut session = (stomp.open)(&opening);
    {
        let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
        let output = Output { framing: Framing::Stream, queue: &mut queue };
        let mut context = Context::new(&mut commands, output);
        let now = Now::default();
        let connect = b"CONNECT\naccept-version:1.2\nheart-beat:10000,10000\n\n\0";
        session.receive(now, connect, &mut context).unwrap();
        session.reply(now, Reply::LoggedIn { name: "a".into() }, &mut context).unwrap();
        let subscribe = b"SUBSCRIBE\nid:sub-0\ndestination:/topic/load/1\n\n\0";
        session.receive(now, subscribe, &mut context).unwrap();
    }
    let idle = BYTES.get() - before;
    assert!(idle > 0 && idle <= 128, "an idle session takes {idle} bytes of heap");
}
