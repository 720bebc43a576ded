//! Coming back, as the event loop lets it happen: the session is asked whether it waits, shown the first
//! bytes of the new connection, and given them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route, run, setup};
use tiderace_base::{CloseCode, Span};
use tiderace_rsocket::RSocketOptions;
use tiderace_rsocket::frame::{Body, Frame, Interaction, KeepAlive, NUMBER_MAX, Resume, Setup};
use tiderace_wire::{
    Command, Context, Framing, HandOver, Kind, OutQueue, Output, SessionAction, Takeover,
};

const TOKEN: &[u8] = b"0123456789abcdef";

fn resumable() -> Rig {
    let mut rig = Rig::set_up(RSocketOptions::default(), &Setup { token: Some(TOKEN), ..setup() });
    assert_eq!(rig.alias.take().as_deref(), Some(TOKEN));
    rig.call(|session, now, context| session.client_session_id_decided(now, Ok(()), context));
    rig
}

fn resume(received: u64, available: u64) -> Vec<u8> {
    let resume = Resume { version: (1, 0), token: TOKEN, received, available };
    let mut bytes = Vec::new();
    Frame::connection(Body::Resume(resume)).write(Framing::Stream, &mut bytes);
    bytes
}

/// A subscription that was sent three items of twelve bytes each, after a request of so many.
fn streaming() -> (Rig, u64) {
    let mut rig = resumable();
    let metadata = route("fx");
    rig.request(Interaction::Stream, 1, NUMBER_MAX, Some(&metadata), b"");
    rig.deliver(0, &run(Kind::Topic, "fx", 1, &[b"item 1", b"item 2", b"item 3"]));
    assert_eq!(rig.received().len(), 3);
    rig.asked();
    (rig, 6 + 4 + 3 + metadata.len() as u64)
}

fn come_back(rig: &mut Rig, bytes: &[u8]) -> bool {
    if !rig.session.admits(rig.now, bytes) {
        return false;
    }
    rig.call(|session, now, context| session.takeover(now, Takeover::Done, context));
    assert!(!rig.session.wants_deliveries(), "the bytes say from where on");
    rig.send_bytes(bytes);
    true
}

#[test]
fn what_was_missed_comes_again() {
    let (mut rig, sent) = streaming();
    assert_eq!(rig.session.kept_bytes(), 3 * (12 + 3));
    assert!(rig.session.detach(rig.now));
    assert!(!rig.session.wants_deliveries());
    rig.wait(Span::from_secs(50));
    assert!(come_back(&mut rig, &resume(12, sent)));
    let received = rig.received();
    assert_eq!(
        received,
        [
            format!("0 ResumeOk({sent})"),
            "1 PAYLOAD N item 2".to_owned(),
            "1 PAYLOAD N item 3".to_owned()
        ]
    );
    assert_eq!(rig.session.kept_bytes(), 2 * (12 + 3), "what has been received is forgotten");
    assert!(rig.session.wants_deliveries());
    rig.deliver(0, &run(Kind::Topic, "fx", 4, &[b"item 4"]));
    assert_eq!(rig.received(), ["1 PAYLOAD N item 4"]);
    rig.send(&Frame::cancel(1));
    assert!(matches!(rig.asked()[..], [Command::Unsubscribe { .. }]));
    assert!(rig.end.is_none());
}

#[test]
fn a_client_may_come_back_before_its_connection_is_known_to_be_gone() {
    let (mut rig, sent) = streaming();
    assert!(come_back(&mut rig, &resume(36, sent)));
    assert_eq!(rig.received(), [format!("0 ResumeOk({sent})")]);
}

#[test]
fn positions_that_do_not_fit_change_nothing() {
    let (mut rig, sent) = streaming();
    assert!(rig.session.detach(rig.now));
    for (received, available) in [(11, sent), (48, sent), (12, sent + 1), (NUMBER_MAX.into(), 0)] {
        assert!(!come_back(&mut rig, &resume(received, available)), "{received} {available}");
    }
    assert!(!rig.session.admits(rig.now, b"\0\0\x06\0\0\0\0\x24\0"), "no RESUME at all");
    assert!(come_back(&mut rig, &resume(24, 0)), "it may offer more than is missing");
    assert_eq!(rig.received().len(), 2);
}

#[test]
fn keepalives_say_what_has_been_received() {
    let (mut rig, sent) = streaming();
    let sign = KeepAlive { respond: true, position: 24, data: b"" };
    rig.send(&Frame::connection(Body::KeepAlive(sign)));
    assert_eq!(rig.received(), [format!("0 KEEPALIVE - {sent} ").trim_end()]);
    assert_eq!(rig.session.kept_bytes(), 12 + 3);
    assert!(rig.session.detach(rig.now));
    assert!(!rig.session.admits(rig.now, &resume(12, sent)), "that is forgotten");
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let (mut rig, _) = streaming();
    assert!(rig.session.detach(rig.now));
    rig.wait(Span::from_secs(61));
    assert_eq!(rig.end.unwrap().code, CloseCode::ResumeTimeout);
}

#[test]
fn a_resume_asks_for_the_session_and_consumes_nothing() {
    let mut rig = Rig::fresh(RSocketOptions::default());
    let bytes = resume(0, 0);
    let (mut commands, mut queue) = (tiderace_wire::Commands::new(), OutQueue::new());
    let output = Output { framing: Framing::Stream, queue: &mut queue };
    let mut context = Context::new(&mut commands, output);
    let progress = rig.session.receive(rig.now, &bytes, &mut context).unwrap();
    assert_eq!(progress.consumed, 0);
    let actions: Vec<_> = context.actions.drain().collect();
    assert_eq!(actions, [SessionAction::HandOver(HandOver::ClientSessionId(TOKEN.into()))]);
    assert!(queue.is_empty());
}

#[test]
fn tokens_that_are_taken_reject_the_setup() {
    let mut rig = Rig::set_up(RSocketOptions::default(), &Setup { token: Some(TOKEN), ..setup() });
    let taken = Err(CloseCode::AliasTaken.into());
    rig.call(|session, now, context| session.client_session_id_decided(now, taken, context));
    assert_eq!(rig.received(), ["0 ERROR REJECTED_SETUP alias-taken"]);
    assert!(!rig.session.detach(rig.now));
}

#[test]
fn a_connection_may_be_lost_before_the_token_is_confirmed() {
    let mut rig = Rig::set_up(RSocketOptions::default(), &Setup { token: Some(TOKEN), ..setup() });
    assert!(rig.session.detach(rig.now));
    assert!(rig.session.admits(rig.now, &resume(0, 0)));
    rig.call(|session, now, context| session.client_session_id_decided(now, Ok(()), context));
    assert!(rig.session.admits(rig.now, &resume(0, 0)));
}

#[test]
fn sessions_that_are_not_there_cannot_be_resumed() {
    let mut rig = Rig::unknown(RSocketOptions::default());
    rig.send_bytes(&resume(0, 0));
    assert_eq!(rig.received(), ["0 ERROR REJECTED_RESUME resume-timeout"]);
    let mut rig = Rig::fresh(RSocketOptions { resume: None, ..RSocketOptions::default() });
    rig.send_bytes(&resume(0, 0));
    assert_eq!(rig.received(), ["0 ERROR REJECTED_RESUME resume-timeout"]);
}

#[test]
fn what_is_kept_is_bounded() {
    let resume_options = tiderace_rsocket::ResumeOptions {
        window: Span::from_secs(60),
        bytes_max: 50,
        bytes_shard_max: 1 << 20,
    };
    let options = RSocketOptions { resume: Some(resume_options), ..RSocketOptions::default() };
    let mut rig = Rig::set_up(options, &Setup { token: Some(TOKEN), ..setup() });
    rig.call(|session, now, context| session.client_session_id_decided(now, Ok(()), context));
    rig.request(Interaction::Stream, 1, NUMBER_MAX, Some(&route("fx")), b"");
    for _ in 0..100 {
        rig.deliver(0, &run(Kind::Topic, "fx", 1, &[b"item 1"]));
    }
    assert_eq!(rig.session.kept_bytes(), 3 * 15);
    assert!(rig.session.detach(rig.now));
    assert!(!rig.session.admits(rig.now, &resume(96 * 12, 0)));
    assert!(rig.session.admits(rig.now, &resume(97 * 12, 0)));
}
