//! The normative sentences of STOMP 1.2 (and where they differ, 1.1 and 1.0), one test each. The
//! sentence stands above its test, cited by section of <https://stomp.github.io/>.
#![allow(clippy::unwrap_used)]

use crate::support::Rig;
use tiderace_base::{CloseCode, Span};
use tiderace_stomp::StompOptions;
use tiderace_wire::Framing;

fn ends_with(rig: &Rig, code: CloseCode) {
    let end = rig.end.as_ref().map(|close| close.code);
    assert_eq!(end, Some(code), "{:?}", rig.end);
}

/// What a session of that version says to the text, which must end it with that code.
fn refused(version: &str, text: &str, code: CloseCode) -> String {
    let mut rig = Rig::connected(version);
    let said = rig.say(text);
    ends_with(&rig, code);
    assert!(said.contains(&format!("\ncode:{}\n", code.slug())), "{said}");
    said
}

fn subscribed(version: &str, headers: &str) -> Rig {
    let mut rig = Rig::connected(version);
    let said = rig.say(&format!("SUBSCRIBE\n{headers}\n\0"));
    assert_eq!(said, "");
    rig
}

/// A rig with three messages of a queue delivered for acknowledgement, and what it was told.
fn delivered(version: &str, mode: &str) -> (Rig, String) {
    let mut rig = subscribed(version, &format!("id:1\ndestination:/queue/a\nack:{mode}\n"));
    let said = rig.say(&"SEND\ndestination:/queue/a\n\nx\0".repeat(3));
    (rig, said)
}

// STOMP 1.2, "STOMP Frames": "The command and headers [...] by an end-of-line (EOL), which consists
// of an OPTIONAL carriage return (octet 13) followed by a REQUIRED line feed (octet 10)."
#[test]
fn eol_is_lf_with_an_optional_cr() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\r\naccept-version:1.2\r\nhost:a\r\n\r\n\0\r\n");
    assert!(said.starts_with("CONNECTED\nversion:1.2\n"), "{said}");
    rig.say("SEND\r\ndestination:/topic/a\r\n\r\nhi\0");
    assert_eq!(rig.commands.last().unwrap(), "publish topic a [] hi Flags(64) None");
}

// "STOMP Frames": "The NULL octet can be optionally followed by multiple EOLs."
#[test]
fn frames_may_be_followed_by_eols() {
    let mut rig = Rig::connected("1.2");
    rig.say("\n\n\r\nSEND\ndestination:/topic/a\n\n\0\n\n\r\n\nSEND\ndestination:/topic/b\n\n\0");
    assert_eq!(rig.commands.len(), 2);
}

// "Value Encoding": "The commands and headers are encoded in UTF-8."
#[test]
fn headers_are_utf8() {
    let mut rig = Rig::connected("1.2");
    rig.send(b"SEND\ndestination:/topic/a\nx:\xff\n\n\0");
    ends_with(&rig, CloseCode::BadText);
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/stra\u{df}e\n\n\0");
    assert!(rig.commands[0].contains("stra\u{df}e"));
}

// "Value Encoding": "\r, \n, \c and \\" are decoded; "Undefined escape sequences such as \t MUST be
// treated as a fatal protocol error."
#[test]
fn undefined_escapes_are_fatal() {
    for version in ["1.1", "1.2"] {
        let frames = [
            "SEND\ndestination:/topic/a\nx:\\t\n\n\0",
            "SEND\ndestination:/topic/\\t\n\n\0",
            "SEND\ndestination:/topic/a\nreceipt:\\t\n\n\0",
            "SUBSCRIBE\nid:\\t\ndestination:/topic/a\n\n\0",
        ];
        for frame in frames {
            refused(version, frame, CloseCode::BadHeader);
        }
    }
    refused("1.1", "SEND\ndestination:/topic/a\nx:\\r\n\n\0", CloseCode::BadHeader);
}

// "Value Encoding": "All frames except the CONNECT and CONNECTED frames will also escape any
// carriage return, line feed or colon".
#[test]
fn connect_and_connected_are_not_escaped() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\naccept-version:1.2\nhost:a\nlogin:a\\tb:c\npasscode:x\n\n\0");
    assert!(said.contains("\nuser-name:a\\tb:c\n"), "{said}");
}

// STOMP 1.0 knows no escapes.
#[test]
fn a_backslash_is_plain_in_1_0() {
    let mut rig = subscribed("1.0", "destination:/topic/a\n");
    let said = rig.say("SEND\ndestination:/topic/a\nx:\\t:\\\n\nhi\0");
    assert_eq!(
        said,
        "MESSAGE\ndestination:/topic/a\nmessage-id:0-1\nx:\\t:\\\ncontent-length:2\n\nhi\0"
    );
}

// "Value Encoding": "In STOMP 1.2, clients and servers MUST never trim or pad headers with spaces."
#[test]
fn values_are_not_trimmed() {
    let mut rig = subscribed("1.2", "id: 1 \ndestination:/topic/a\n");
    let said = rig.say("SEND\ndestination:/topic/a\nx:  y \n\n\0");
    assert!(said.contains("\nx:  y \n") && said.contains("subscription: 1 \n"), "{said}");
    refused("1.2", "SEND\ndestination: /topic/a\n\n\0", CloseCode::BadDestination);
}

// "Body": "Only the SEND, MESSAGE, and ERROR frames MAY have a body. All other frames MUST NOT."
#[test]
fn only_send_has_a_body() {
    refused("1.2", "BEGIN\ntransaction:t\n\nx\0", CloseCode::BadFrame);
}

// "Standard Headers": "content-length [...] If a frame contains a content-length header, the frame's
// body MUST be read whether or not there are NULL octets in the body."
#[test]
fn a_declared_body_may_hold_nul() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\ncontent-length:3\n\na\0b\0");
    assert_eq!(rig.commands[0], "publish topic a [] a\0b Flags(64) None");
}

// "Standard Headers": the octet behind the declared length is the frame's NULL.
#[test]
fn content_length_is_exact() {
    for (length, body) in
        [("2", "abc\0"), ("4", "abc\0\n"), ("-1", "a\0"), ("1x", "a\0"), ("", "\0")]
    {
        let frame =
            format!("SEND\ndestination:/topic/a\nreceipt:r\ncontent-length:{length}\n\n{body}");
        let mut rig = Rig::connected("1.2");
        let said = rig.say(&frame);
        assert!(rig.end.is_some() && said.contains("receipt-id:r"), "{length}: {said}");
    }
}

// "Repeated Header Entries": "only the first header entry SHOULD be used as the value".
#[test]
fn the_first_of_repeated_headers_wins() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\ndestination:/topic/b\nfoo:1\nfoo:2\n\n\0");
    assert_eq!(rig.commands[0], "publish topic a [foo:1|foo:2|]  Flags(64) None");
}

// "Size Limits": "servers MAY place maximum limits on" headers, lengths and bodies; "the server
// SHOULD send the client an ERROR frame and then close the connection."
#[test]
fn limits_are_told() {
    let mut options = StompOptions::default();
    (options.header_bytes_max, options.headers_max, options.message_bytes_max) = (100, 4, 10);
    for frame in [
        format!("SEND\ndestination:/topic/{}\n\n\0", "x".repeat(200)),
        format!("SEND\ndestination:/topic/a\n{}\n\0", "a:b\n".repeat(5)),
        "SEND\ndestination:/topic/a\ncontent-length:11\n\n".to_owned(),
        format!("SEND\ndestination:/topic/a\n\n{}", "x".repeat(12)),
    ] {
        let mut rig = Rig::with(options.clone(), Framing::Stream);
        rig.connect("1.2");
        let said = rig.say(&frame);
        ends_with(&rig, CloseCode::FrameTooLarge);
        assert!(said.starts_with("ERROR\n"), "{said}");
    }
}

// "Connecting": "STOMP servers MUST handle a STOMP frame in the same manner as a CONNECT frame."
#[test]
fn stomp_is_connect() {
    let mut rig = Rig::new();
    assert!(rig.say("STOMP\naccept-version:1.1,1.2\nhost:a\n\n\0").starts_with("CONNECTED\n"));
}

// "Protocol Negotiation": "the highest version of the protocol that the server and client have in
// common"; without `accept-version`, "the server [...] assumes 1.0".
#[test]
fn versions_are_negotiated() {
    for (header, version) in [
        ("", "1.0"),
        ("accept-version:1.0,1.1,1.2,2.0\n", "1.2"),
        ("accept-version:1.0,1.1\n", "1.1"),
    ] {
        let mut rig = Rig::new();
        let said = rig.say(&format!("CONNECT\n{header}host:a\n\n\0"));
        assert!(said.contains(&format!("\nversion:{version}\n")), "{said}");
    }
}

// "Protocol Negotiation": "If the client and server do not share any common protocol versions, then
// the server MUST respond with an ERROR frame [...] and then close the connection": with `version`.
#[test]
fn no_common_version_is_an_error() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\naccept-version:2.1\nhost:a\n\n\0");
    ends_with(&rig, CloseCode::UnsupportedVersion);
    assert!(said.starts_with("ERROR\n") && said.contains("\nversion:1.0,1.1,1.2\n"), "{said}");
}

// "CONNECTED": refused credentials are answered by ERROR.
#[test]
fn a_refused_login_is_an_error() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\nlogin:a\npasscode:wrong\n\nSEND\ndestination:/topic/a\n\n\0");
    assert!(rig.end.is_some());
    assert!(said.contains("ERROR\n"), "{said}");
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\nlogin:a\npasscode:wrong\n\n\0SEND\ndestination:/topic/a\n\n\0");
    ends_with(&rig, CloseCode::LoginFailed);
    assert!(said.contains("\ncode:login-failed\n"), "{said}");
    assert_eq!(rig.commands.len(), 1, "nothing is published before the login");
}

// "Connecting": the first frame is CONNECT or STOMP, and comes once.
#[test]
fn frames_come_in_their_order() {
    for frame in
        ["SEND\ndestination:/topic/a\n\n\0", "SUBSCRIBE\n", "NONSENSE\n", "GET / HTTP/1.1\r\n"]
    {
        let mut rig = Rig::new();
        assert!(rig.say(frame).starts_with("ERROR\n"));
        ends_with(&rig, CloseCode::UnexpectedFrame);
        assert!(rig.commands.is_empty());
    }
    refused("1.2", "CONNECT\naccept-version:1.2\n\n\0", CloseCode::UnexpectedFrame);
    for command in ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR", "send", "Nonsense"] {
        let said =
            refused("1.2", &format!("{command}\nreceipt:r\n\n\0"), CloseCode::UnexpectedFrame);
        assert!(said.contains(command) && said.contains("\nreceipt-id:r\n"), "{said}");
    }
}

// Frames behind CONNECT wait until the login is answered.
#[test]
fn pipelined_frames_wait_for_the_login() {
    let mut rig = Rig::new();
    rig.broker.hold = true;
    rig.say("CONNECT\naccept-version:1.2\nhost:a\n\n\0SEND\ndestination:/topic/a\n\n\0");
    assert_eq!(rig.commands.len(), 1);
    assert!(!rig.is_established());
    rig.release();
    assert!(rig.is_established());
    assert_eq!(rig.commands.len(), 2);
}

// "Heart-beating": both numbers are MAX(x, y), zero on either side means none; the server MUST send
// something at least that often, and may take silence for a dead connection.
#[test]
fn heart_beats_are_kept_and_expected() {
    let mut rig = Rig::new();
    let said = rig.say("CONNECT\naccept-version:1.2\nhost:a\nheart-beat:20000,5000\n\n\0");
    assert!(said.contains("\nheart-beat:10000,10000\n"));
    for _ in 0..3 {
        rig.wait(Span::from_secs(10));
        assert_eq!(rig.say("\n"), "\n", "one beat in each of the negotiated 10 s");
    }
    rig.wait(Span::from_millis(39_999));
    assert!(rig.end.is_none(), "twice the negotiated 20 s have not passed");
    rig.wait(Span::from_millis(2));
    ends_with(&rig, CloseCode::HeartBeatTimeout);
}

// "Heart-beating": "0 means it cannot send heart-beats" / "does not want to receive heart-beats".
#[test]
fn no_heart_beat_unless_both_want_it() {
    for header in ["", "heart-beat:0,0\n"] {
        let mut rig = Rig::new();
        rig.say(&format!("CONNECT\naccept-version:1.2\nhost:a\n{header}\n\0"));
        rig.wait(Span::from_secs(3_600));
        assert_eq!(rig.received(), "");
        assert!(rig.end.is_none());
    }
    for bad in ["1", "a,b", "1,2,3", "-1,0", ""] {
        let mut rig = Rig::new();
        rig.say(&format!("CONNECT\naccept-version:1.2\nhost:a\nheart-beat:{bad}\n\n\0"));
        ends_with(&rig, CloseCode::BadHeader);
    }
}

// Only what is really sent stands for a heart-beat: here a confirmation arrives whose RECEIPT has to
// wait for the one before it.
#[test]
fn what_is_not_sent_is_no_heart_beat() {
    let mut rig = Rig::new();
    rig.say("CONNECT\naccept-version:1.2\nhost:a\nheart-beat:0,10000\n\n\0");
    rig.broker.mute = true;
    rig.say(
        "SEND\ndestination:/topic/a\nreceipt:1\n\n\0SEND\ndestination:/topic/a\nreceipt:2\n\n\0",
    );
    rig.wait(Span::from_secs(6));
    rig.reply(tiderace_wire::Reply::Confirmed(tiderace_wire::Confirm::one(2)));
    assert_eq!(rig.received(), "");
    rig.wait(Span::from_secs(3));
    assert_eq!(rig.received(), "\n");
}

// Silence is no fault while the server itself has stopped reading.
#[test]
fn silence_is_forgiven_while_reading_is_paused() {
    let mut rig = Rig::new();
    rig.say("CONNECT\naccept-version:1.2\nhost:a\nheart-beat:1000,0\n\n\0");
    rig.paused = true;
    rig.wait(Span::from_secs(100));
    assert!(rig.end.is_none());
    rig.paused = false;
    rig.wait(Span::from_secs(30));
    ends_with(&rig, CloseCode::HeartBeatTimeout);
}

// A connection that does not log in is ended.
#[test]
fn the_login_has_a_deadline() {
    let mut rig = Rig::new();
    rig.say("CONNECT\n");
    rig.wait(Span::from_secs(6));
    ends_with(&rig, CloseCode::LoginTimeout);
}

// "SEND": REQUIRED header destination; "user defined headers" reach the receivers.
#[test]
fn send_needs_a_destination() {
    let said = refused("1.2", "SEND\nreceipt:r\n\nhi\0", CloseCode::BadHeader);
    assert!(said.contains("message:SEND\\c the header `destination` is missing\n"), "{said}");
    refused("1.2", "SEND\ndestination:/nowhere/a\n\n\0", CloseCode::BadDestination);
    refused("1.2", "SEND\ndestination:/topic/a\nno colon\n\n\0", CloseCode::BadHeader);
    refused("1.2", "SEND\ndestination:/topic/a\n:no name\n\n\0", CloseCode::BadHeader);
}

// "SUBSCRIBE": REQUIRED headers destination and id; "Within the same connection, different
// subscriptions MUST use different subscription identifiers."
#[test]
fn subscriptions_have_unique_ids() {
    refused("1.2", "SUBSCRIBE\ndestination:/topic/a\n\n\0", CloseCode::BadHeader);
    refused("1.1", "SUBSCRIBE\ndestination:/topic/a\n\n\0", CloseCode::BadHeader);
    refused("1.2", "SUBSCRIBE\nid:1\n\n\0", CloseCode::BadHeader);
    let twice = "SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0".repeat(2);
    refused("1.2", &twice, CloseCode::DuplicateSubscription);
    let mut rig = subscribed("1.2", "id:1\ndestination:/topic/a\n");
    rig.say("UNSUBSCRIBE\nid:1\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/b\n\n\0");
    assert!(rig.end.is_none());
}

// STOMP 1.0, "SUBSCRIBE": the id is optional, the destination names the subscription.
#[test]
fn ids_are_optional_in_1_0() {
    let mut rig = subscribed("1.0", "destination:/topic/a\n");
    let said = rig.say("SEND\ndestination:/topic/a\n\n\0");
    assert!(!said.contains("subscription:"), "{said}");
    assert_eq!(
        rig.say("UNSUBSCRIBE\ndestination:/topic/a\nreceipt:u\n\n\0"),
        "RECEIPT\nreceipt-id:u\n\n\0"
    );
    assert_eq!(rig.say("SEND\ndestination:/topic/a\n\n\0"), "");
}

// "SUBSCRIBE": "The valid values for the ack header are auto, client, or client-individual."
#[test]
fn other_ack_modes_are_refused() {
    refused("1.2", "SUBSCRIBE\nid:1\ndestination:/topic/a\nack:maybe\n\n\0", CloseCode::BadHeader);
}

// "UNSUBSCRIBE": "the id header MUST match the subscription identifier of an existing subscription."
#[test]
fn only_what_exists_can_be_unsubscribed() {
    refused("1.2", "UNSUBSCRIBE\nid:1\n\n\0", CloseCode::UnknownSubscription);
    refused("1.2", "UNSUBSCRIBE\ndestination:/topic/a\n\n\0", CloseCode::BadHeader);
}

// "MESSAGE": "MUST contain a message-id header with a unique identifier for that message and a
// subscription header [...] If the message is received from a subscription that requires explicit
// acknowledgment [...] then the MESSAGE frame MUST also contain an ack header".
#[test]
fn messages_say_where_they_belong() {
    let (_, said) = delivered("1.2", "client");
    assert!(said.starts_with(
        "MESSAGE\nsubscription:1\ndestination:/queue/a\nmessage-id:0-1\nack:0-1\ncontent-length:1\n\nx\0"
    ), "{said}");
    let mut rig = subscribed("1.2", "id:1\ndestination:/queue/a\n");
    assert!(!rig.say("SEND\ndestination:/queue/a\nack:forged\n\n\0").contains("ack:"));
}

// "SUBSCRIBE": "When the ack mode is client [...] the acknowledgment is cumulative".
#[test]
fn client_acks_are_cumulative() {
    let (mut rig, _) = delivered("1.2", "client");
    rig.say("ACK\nid:0-2\n\n\0");
    assert_eq!(rig.broker.settled.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2]);
    let said = rig.say("ACK\nid:0-1\nreceipt:r\n\n\0");
    ends_with(&rig, CloseCode::UnknownAck);
    assert!(said.contains("\nreceipt-id:r\n"));
}

// "SUBSCRIBE": "When the ack mode is client-individual [...] individual".
#[test]
fn individual_acks_are_individual() {
    let (mut rig, _) = delivered("1.2", "client-individual");
    rig.say("ACK\nid:0-2\n\n\0ACK\nid:0-1\n\n\0");
    assert_eq!(rig.broker.settled.iter().map(|row| row.0).collect::<Vec<_>>(), [2, 1]);
}

// "NACK": "is the opposite of ACK"; the message comes again.
#[test]
fn nack_brings_a_message_again() {
    let (mut rig, _) = delivered("1.2", "client-individual");
    let said = rig.say("NACK\nid:0-2\n\n\0");
    assert!(said.contains("message-id:0-2\nack:0-4\nredelivered:true\nredeliveries:1\n"), "{said}");
    refused("1.0", "NACK\nmessage-id:1\n\n\0", CloseCode::UnexpectedFrame);
}

// "ACK": REQUIRED header id, "matching the ack header of the MESSAGE being acknowledged".
#[test]
fn only_delivered_messages_can_be_acknowledged() {
    for frame in ["ACK\n\n\0", "ACK\nmessage-id:0-1\nsubscription:1\n\n\0"] {
        let (mut rig, _) = delivered("1.2", "client");
        rig.say(frame);
        ends_with(&rig, CloseCode::BadHeader);
    }
    for id in ["0-9", "9-1", "x", "", "0-1-0-1", "0-18446744073709551616", "4294967296-1"] {
        let (mut rig, _) = delivered("1.2", "client");
        rig.say(&format!("ACK\nid:{id}\n\n\0"));
        ends_with(&rig, CloseCode::UnknownAck);
    }
    let mut rig = subscribed("1.2", "id:1\ndestination:/queue/a\n");
    rig.say("SEND\ndestination:/queue/a\n\n\0ACK\nid:0-1\n\n\0");
    ends_with(&rig, CloseCode::BadHeader);
}

// STOMP 1.1, "ACK": "message-id [...] and subscription, which MUST be set".
#[test]
fn acks_of_1_1_and_1_0_name_the_message_id() {
    let (mut rig, said) = delivered("1.1", "client-individual");
    assert!(said.contains("message-id:0-1-0-1\n") && !said.contains("ack:"), "{said}");
    rig.say("ACK\nsubscription:1\nmessage-id:0-1-0-1\n\n\0");
    assert_eq!(rig.broker.settled.len(), 1);
    rig.say("ACK\nsubscription:2\nmessage-id:0-2-0-2\n\n\0");
    ends_with(&rig, CloseCode::UnknownAck);
    let (mut rig, _) = delivered("1.1", "client");
    rig.say("ACK\nmessage-id:0-1-0-1\n\n\0");
    ends_with(&rig, CloseCode::BadHeader);
    let (mut rig, _) = delivered("1.0", "client");
    rig.say("ACK\nmessage-id:0-3-0-3\n\n\0");
    assert_eq!(rig.broker.settled.len(), 3);
}

// "BEGIN": "The transaction header is REQUIRED"; "unique".
#[test]
fn transactions_have_names_of_their_own() {
    refused("1.2", "BEGIN\n\n\0", CloseCode::BadHeader);
    refused("1.2", &"BEGIN\ntransaction:t\n\n\0".repeat(2), CloseCode::DuplicateTransaction);
    for command in ["COMMIT", "ABORT"] {
        refused("1.2", &format!("{command}\ntransaction:t\n\n\0"), CloseCode::UnknownTransaction);
    }
}

// "COMMIT": "to commit a transaction in progress"; "ABORT": "to roll back".
#[test]
fn transactions_are_done_whole_or_not() {
    let mut rig = subscribed("1.2", "id:1\ndestination:/topic/a\n");
    let begin = "BEGIN\ntransaction:t\n\n\0";
    let send = "SEND\ndestination:/topic/a\ntransaction:t\n\nx\0";
    assert_eq!(rig.say(&[begin, send, send].concat()), "");
    let said = rig.say("COMMIT\ntransaction:t\nreceipt:c\n\n\0");
    assert!(said.starts_with("RECEIPT\nreceipt-id:c\n"), "{said}");
    assert_eq!(said.matches("MESSAGE\n").count(), 2);
    assert!(!said.contains("transaction:"), "{said}");
    assert_eq!(rig.say(&[begin, send, "ABORT\ntransaction:t\n\n\0"].concat()), "");
    refused(
        "1.2",
        &[begin, "SEND\ndestination:/x\ntransaction:t\n\n\0"].concat(),
        CloseCode::BadDestination,
    );
}

// "ABORT": "ACK frames [...] in the transaction are rolled back": they can be given again.
#[test]
fn an_aborted_ack_can_be_given_again() {
    let (mut rig, _) = delivered("1.2", "client");
    rig.say("BEGIN\ntransaction:t\n\n\0ACK\nid:0-2\ntransaction:t\n\n\0");
    assert!(rig.broker.settled.is_empty());
    rig.say("ABORT\ntransaction:t\n\n\0ACK\nid:0-1\n\n\0");
    assert_eq!(rig.broker.settled.len(), 1);
    rig.say("BEGIN\ntransaction:t\n\n\0ACK\nid:0-3\ntransaction:t\n\n\0");
    rig.say("COMMIT\ntransaction:t\nreceipt:r\n\n\0");
    assert_eq!(rig.broker.settled.len(), 3);
    rig.say("ACK\nid:0-3\n\n\0");
    ends_with(&rig, CloseCode::UnknownAck);
}

// A message held by one transaction cannot be acknowledged beside it.
#[test]
fn a_held_message_is_decided_by_its_transaction() {
    let (mut rig, _) = delivered("1.2", "client-individual");
    rig.say("BEGIN\ntransaction:t\n\n\0NACK\nid:0-2\ntransaction:t\n\n\0ACK\nid:0-2\n\n\0");
    ends_with(&rig, CloseCode::UnknownAck);
}

// "DISCONNECT": "any uncommitted transactions will be implicitly aborted"; "send RECEIPT, then close".
#[test]
fn disconnect_answers_last() {
    let mut rig = Rig::connected("1.2");
    rig.broker.hold = true;
    let said = rig.say(
        "SEND\ndestination:/topic/a\nreceipt:s\n\n\0BEGIN\ntransaction:t\n\n\0\
         SEND\ndestination:/topic/b\ntransaction:t\n\n\0DISCONNECT\nreceipt:d\n\n\0garbage",
    );
    assert_eq!(said, "");
    assert!(rig.end.is_none());
    rig.release();
    assert_eq!(rig.received(), "RECEIPT\nreceipt-id:s\n\n\0RECEIPT\nreceipt-id:d\n\n\0");
    ends_with(&rig, CloseCode::Done);
    // One message, and that the client says goodbye.
    assert_eq!(rig.commands.len(), 2);
    let mut rig = Rig::connected("1.2");
    assert_eq!(rig.say("DISCONNECT\n\n\0"), "");
    ends_with(&rig, CloseCode::Done);
}

// "Standard Headers": "Any client frame other than CONNECT MAY specify a receipt header"; "RECEIPT
// [...] is also an acknowledgment of all the previous frames": they leave in order.
#[test]
fn every_frame_can_have_a_receipt() {
    let mut rig = Rig::connected("1.2");
    let frames = "SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\nreceipt:1\n\n\0\
        SEND\ndestination:/queue/a\nreceipt:2\n\n\0\
        SEND\ndestination:/queue/b,/topic/c\nreceipt:3\n\n\0\
        BEGIN\ntransaction:t\nreceipt:4\n\n\0\
        SEND\ndestination:/queue/b\ntransaction:t\nreceipt:5\n\n\0\
        COMMIT\ntransaction:t\nreceipt:6\n\n\0\
        BEGIN\ntransaction:t\nreceipt:7\n\n\0\
        ABORT\ntransaction:t\nreceipt:8\n\n\0";
    let said = rig.say(frames) + &rig.say(
        "ACK\nid:0-1\nreceipt:9\n\n\0UNSUBSCRIBE\nid:1\nreceipt:10\n\n\0DISCONNECT\nreceipt:\\c\n\n\0",
    );
    let receipts: Vec<&str> = said
        .split('\0')
        .filter_map(|frame| frame.strip_prefix("RECEIPT\nreceipt-id:")?.strip_suffix("\n\n"))
        .collect();
    assert_eq!(receipts, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "\\c"]);
    ends_with(&rig, CloseCode::Done);
}

// "ERROR": "If the error is related to a specific frame [...] with a receipt header, the ERROR frame
// SHOULD set the receipt-id header"; "SHOULD contain a message header with a short description".
#[test]
fn errors_name_the_frame_that_caused_them() {
    let said = refused(
        "1.2",
        "ABORT\ntransaction:t:1\nreceipt:a\\cb\n\n\0",
        CloseCode::UnknownTransaction,
    );
    assert!(said.contains("\nreceipt-id:a\\cb\n"), "{said}");
    assert!(said.contains("message:ABORT\\c no transaction `t\\c1` is open\n"), "{said}");
    let (head, body) = said.split_once("\n\n").unwrap();
    let length = body.trim_end_matches('\0').len();
    assert!(head.contains(&format!("\ncontent-length:{length}")), "{said}");
    assert!(head.contains("\ncontent-type:text/plain"), "{said}");
}

// The same for what the broker refuses.
#[test]
fn refusals_of_the_broker_name_the_frame() {
    let mut rig = Rig::connected("1.2");
    rig.broker.mute = true;
    rig.say("SEND\ndestination:/topic/a\nreceipt:one\n\n\0SEND\ndestination:/topic/a\nreceipt:two\n\n\0");
    let close = CloseCode::NotAuthorised.into();
    rig.reply(tiderace_wire::Reply::Refused { token: Some(2), close });
    let said = rig.received();
    assert!(
        said.contains("\nreceipt-id:two\n") && said.contains("\ncode:not-authorised\n"),
        "{said}"
    );
}

// "Augmented BNF": NUL ends a frame; a header that holds one means that the blank line is missing.
#[test]
fn a_missing_blank_line_is_told() {
    refused("1.2", "SEND\ndestination:/topic/a\0\nSEND\na:b\n\n\0", CloseCode::BadFrame);
}
