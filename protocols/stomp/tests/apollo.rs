//! Defects of ActiveMQ Apollo 1.7.1 in its STOMP, one test each: what a successor does instead.
#![allow(clippy::unwrap_used)]

use crate::support::{self, Rig};
use tiderace_base::CloseCode;
use tiderace_stomp::StompOptions;
use tiderace_wire::Framing;

fn code(rig: &Rig) -> Option<CloseCode> {
    rig.end.as_ref().map(|close| close.code)
}

fn listening(destination: &str) -> Rig {
    let mut rig = Rig::connected("1.2");
    rig.say(&format!("SUBSCRIBE\nid:1\ndestination:{destination}\n\n\0"));
    rig
}

#[test]
fn an_undefined_escape_is_fatal() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/queue/a\nx:\\t\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

#[test]
fn an_error_has_receipt_id_and_content_length_and_ends_the_connection_at_once() {
    let mut rig = Rig::connected("1.2");
    let said = rig.say("SEND\ndestination:/nowhere\nreceipt:r\n\n\0");
    assert!(said.contains("\nreceipt-id:r\n") && said.contains("\ncontent-length:"), "{said}");
    assert!(rig.end.is_some());
}

#[test]
fn errors_show_no_internals() {
    for frame in [
        "COMMIT\ntransaction:no\n\n\0",
        "SEND\ndestination:x\n\n\0",
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:((\n\n\0",
    ] {
        let mut rig = Rig::connected("1.2");
        let said = rig.say(frame);
        for word in ["Exception", "Internal", "panicked", "::", "Some("] {
            assert!(!said.contains(word), "{said}");
        }
        assert!(rig.end.is_some());
    }
}

#[test]
fn an_unknown_transaction_is_never_opened_silently() {
    for frame in [
        "SEND\ndestination:/queue/a\ntransaction:t\n\n\0",
        "COMMIT\ntransaction:t\n\n\0",
        "ABORT\ntransaction:t\n\n\0",
    ] {
        let mut rig = Rig::connected("1.2");
        rig.say(frame);
        assert_eq!(code(&rig), Some(CloseCode::UnknownTransaction));
    }
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0");
    rig.say("SEND\ndestination:/queue/a\n\n\0");
    rig.say("ACK\nid:0-1\ntransaction:t\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::UnknownTransaction));
}

#[test]
fn retain_true_retains_and_unknown_values_are_told() {
    for (value, flags) in [("true", "Flags(66)"), ("set", "Flags(66)"), ("remove", "Flags(68)")] {
        let mut rig = Rig::connected("1.2");
        rig.say(&format!("SEND\ndestination:/topic/a\nretain:{value}\n\n\0"));
        assert!(rig.commands[0].contains(flags), "{:?}", rig.commands);
    }
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\nretain:yes\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

#[test]
fn what_the_producer_told_the_server_is_not_told_to_consumers() {
    let mut rig = listening("/topic/a");
    let said = rig.say(
        "SEND\ndestination:/topic/a\nreceipt:r\nack:x\nsubscription:y\nmessage-id:z\n\
         redelivered:true\ncode:c\nkept:k\ncontent-length:2\n\nhi\0",
    );
    let message = "MESSAGE\nsubscription:1\ndestination:/topic/a\nmessage-id:0-1\nkept:k\n\
        content-length:2\n\nhi\0";
    assert!(said.contains(message), "{said}");
}

#[test]
fn there_are_no_heart_beats_in_1_0() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\nheart-beat:1000,1000\n\n\0");
    assert!(said.starts_with("CONNECTED\n") && !said.contains("heart-beat"), "{said}");
    rig.wait(tiderace_base::Span::from_secs(1_000));
    assert!(rig.end.is_none() && rig.received().is_empty());
}

#[test]
fn messages_to_temporary_queues_have_one_destination_and_one_reply_to() {
    let mut rig = listening("/temp-queue/replies");
    let said = rig.say(
        "SEND\ndestination:/temp-queue/replies\nreply-to:/temp-queue/replies\n\
         reply-to:/queue/b\n\n\0",
    );
    assert_eq!(said.matches("\ndestination:").count(), 1, "{said}");
    assert!(said.contains("\ndestination:/temp-queue/replies\n"), "{said}");
    assert_eq!(said.matches("reply-to:").count(), 1, "{said}");
    assert!(
        said.contains(&format!("\nreply-to:/queue/temp.{}.replies\n", rig.temporary())),
        "{said}"
    );
    let name = rig.temporary();
    let said = rig.say(&format!("SEND\ndestination:/queue/temp.{name}.replies\n\nanswer\0"));
    assert!(said.ends_with("\n\nanswer\0"), "anybody can answer: {said}");
}

#[test]
fn wildcards_are_for_subscriptions_only() {
    let mut rig = Rig::connected("1.2");
    let said = rig.say("SEND\ndestination:/topic/w.*\nreceipt:r\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::BadDestination));
    assert!(!said.contains("RECEIPT"), "{said}");
}

#[test]
fn line_breaks_in_headers_are_escaped_as_line_breaks() {
    let mut rig = listening("/topic/a");
    let said = rig.say("SEND\ndestination:/topic/a\nx:a\\nb\\rc\\cd\\\\\n\n\0");
    assert!(said.contains("\nx:a\\nb\\rc\\cd\\\\\n"), "{said}");
}

#[test]
fn login_and_passcode_are_taken_as_they_are() {
    let mut rig = Rig::new();
    rig.say("CONNECT\naccept-version:1.2\nhost:a\nlogin:a\\cb\npasscode:p\n\n\0");
    assert!(rig.commands[0].contains("\"a\\\\cb\""), "{:?}", rig.commands);
}

#[test]
fn a_body_without_length_has_a_limit() {
    let options = StompOptions { message_bytes_max: 100, ..StompOptions::default() };
    let mut rig = Rig::with(options, Framing::Stream);
    rig.connect("1.2");
    rig.send(b"SEND\ndestination:/topic/a\n\n");
    for _ in 0..200 {
        rig.send(b"x");
    }
    assert_eq!(code(&rig), Some(CloseCode::FrameTooLarge));
}

#[test]
fn transactions_have_a_budget() {
    let options = StompOptions { transaction_bytes_max: 1_000, ..StompOptions::default() };
    let mut rig = Rig::with(options, Framing::Stream);
    rig.connect("1.2");
    rig.say("BEGIN\ntransaction:t\n\n\0");
    for _ in 0..100 {
        rig.say("SEND\ndestination:/topic/a\ntransaction:t\n\n\0");
    }
    assert_eq!(code(&rig), Some(CloseCode::TransactionTooLarge));
    let mut rig = Rig::connected("1.2");
    for n in 0..101 {
        rig.say(&format!("BEGIN\ntransaction:{n}\n\n\0"));
    }
    assert_eq!(code(&rig), Some(CloseCode::TransactionTooLarge));
}

#[test]
fn unread_receipts_slow_the_client_instead_of_filling_memory() {
    let mut rig = Rig::connected("1.2");
    rig.broker.hold = true;
    rig.say(&"SEND\ndestination:/topic/a\nreceipt:r\n\n\0".repeat(12_000));
    let published: usize = rig.commands.iter().map(|row| row.lines().count()).sum();
    assert_eq!(published, 10_000);
    rig.release();
    assert_eq!(rig.received().matches("RECEIPT\n").count(), 12_000);
}

#[test]
fn websocket_messages_hold_one_frame_each_and_binary_bodies_are_binary() {
    let mut rig = Rig::with(StompOptions::default(), Framing::Messages(&support::MESSAGES));
    rig.connect("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0");
    rig.send(b"SEND\ndestination:/topic/a\n\nab\0SEND\ndestination:/topic/a\n\n\xff\0");
    let said = rig.received();
    let frames: Vec<&str> = said.split_inclusive('\0').collect();
    assert_eq!(frames.len(), 2);
    for (frame, kind) in frames.iter().zip(["text", "binary"]) {
        let (header, frame) = frame.split_once('>').unwrap();
        // The one byte that is not UTF-8 is shown as three.
        let len = frame.len() - if kind == "binary" { 2 } else { 0 };
        assert_eq!(header, format!("<{kind} {len}"));
        assert!(frame.starts_with("MESSAGE\n"), "{said}");
    }
}

#[test]
fn a_header_line_without_colon_is_told() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\nwhat is this\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

#[test]
fn acknowledgements_of_a_transaction_take_effect_with_what_it_sends() {
    for receipt in ["", "receipt:r\n"] {
        let mut rig = Rig::connected("1.2");
        rig.say("SUBSCRIBE\nid:1\nack:client-individual\ndestination:/queue/a\n\n\0");
        rig.say(&"SEND\ndestination:/queue/a\n\nx\0".repeat(3));
        rig.commands.clear();
        rig.say(&format!(
            "ACK\nid:0-1\n\n\0BEGIN\ntransaction:t\n\n\0\
             ACK\nid:0-2\ntransaction:t\n\n\0SEND\ndestination:/queue/b\ntransaction:t\n\n\0\
             COMMIT\ntransaction:t\n{receipt}\n\0ACK\nid:0-3\n\n\0"
        ));
        // One that was acknowledged before, the transaction, and one that is acknowledged after it.
        let at =
            |part: &str| rig.commands.iter().position(|command| command.contains(part)).unwrap();
        let order = [
            at("[(1, 1)]"),
            at("Together(true)"),
            at("[(2, 2)]"),
            at("Together(false)"),
            at("[(3, 3)]"),
        ];
        assert!(order.is_sorted() && rig.commands.len() == 6, "{:?}", rig.commands);
    }
}
