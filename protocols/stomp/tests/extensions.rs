//! What goes beyond the specification: destinations, selectors, credit, expiry, limits, sharing.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support::{self, Rig};
use tiderace_base::CloseCode;
use tiderace_stomp::StompOptions;
use tiderace_wire::Framing;

fn code(rig: &Rig) -> Option<CloseCode> {
    rig.end.as_ref().map(|close| close.code)
}

fn subscribe_refused(headers: &str) -> Option<CloseCode> {
    let mut rig = Rig::connected("1.2");
    rig.say(&format!("SUBSCRIBE\nid:1\n{headers}\n\0"));
    code(&rig)
}

#[test]
fn wildcard_subscribers_learn_the_destination_in_their_own_style() {
    for (pattern, expected) in [
        ("/topic/fx.*", "/topic/fx.EUR"),
        ("/topic/fx/*", "/topic/fx/EUR"),
        ("/topic/**", "/topic/fx/EUR"),
        ("/topic/fx.EUR,/queue/b", "/topic/fx.EUR"),
    ] {
        let mut rig = Rig::connected("1.2");
        rig.say(&format!("SUBSCRIBE\nid:1\ndestination:{pattern}\n\n\0"));
        let said = rig.say("SEND\ndestination:/topic/fx/EUR\n\nx\0");
        let head = format!("MESSAGE\nsubscription:1\nmessage-id:0-1\ndestination:{expected}\n");
        assert!(said.starts_with(&head), "{pattern}: {said}");
    }
}

#[test]
fn a_composite_send_reaches_each_destination_once() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/queue/a,/topic/b,/queue/a\nreceipt:r\n\nx\0");
    assert_eq!(rig.commands.len(), 2);
    assert!(rig.end.is_none());
}

#[test]
fn selectors_choose_messages() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:price > 10\n\n\0");
    let said = rig.say(
        "SEND\ndestination:/topic/a\nprice:5\n\nno\0SEND\ndestination:/topic/a\nprice:15\n\nyes\0",
    );
    assert!(said.contains("message-id:0-2\n") && said.ends_with("yes\0"), "{said}");
    assert_eq!(said.matches("MESSAGE\n").count(), 1);
    let refused = subscribe_refused("destination:/topic/a\nselector:price >\n");
    assert_eq!(refused, Some(CloseCode::BadSelector));
}

#[test]
fn credit_becomes_a_window() {
    let mut rig = Rig::connected("1.2");
    rig.say(
        "SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\ncredit:5,1000\nexclusive:true\n\n\0",
    );
    let command = &rig.commands[0];
    assert!(command.contains("Prefetch { messages: 5, bytes: 1000 }"), "{command}");
    assert!(command.contains("exclusive: true"), "{command}");
    for bad in ["", "x", "1,", "1,2,3", "4294967296"] {
        let refused = subscribe_refused(&format!("destination:/queue/a\ncredit:{bad}\n"));
        assert_eq!(refused, Some(CloseCode::BadHeader), "{bad}");
    }
}

#[test]
fn credit_on_a_topic_counts_what_is_not_acknowledged() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\nack:client\ndestination:/topic/a\ncredit:5\n\n\0");
    assert!(rig.commands[0].contains("credit: Some(5)"), "{}", rig.commands[0]);
    let send = |n: usize| format!("SEND\ndestination:/topic/a\n\n{n}\0");
    let said = rig.say(&(0..4).map(send).collect::<String>());
    let acks: Vec<&str> = said.split("\nack:").skip(1).filter_map(|at| at.lines().next()).collect();
    let ack = |n: usize| acks.get(n).copied().unwrap();
    rig.commands.clear();
    // Cumulative: the third one and the two before it.
    rig.say(&format!("ACK\nid:{}\n\n\0", ack(2)));
    assert!(
        rig.commands.iter().any(|it| it.contains("Credit") && it.contains("messages: 3")),
        "{:?}",
        rig.commands
    );
    rig.commands.clear();
    rig.say(&format!("BEGIN\ntransaction:t\n\n\0NACK\nid:{}\ntransaction:t\n\n\0", ack(3)));
    assert!(!rig.commands.iter().any(|it| it.contains("Credit")), "not before COMMIT");
    rig.say("COMMIT\ntransaction:t\n\n\0");
    assert!(
        rig.commands.iter().any(|it| it.contains("Credit") && it.contains("messages: 1")),
        "{:?}",
        rig.commands
    );
    for (headers, expected) in [
        ("ack:auto\ncredit:5\n", None),
        ("ack:client\ncredit:0\n", None),
        ("ack:client\ncredit:5,1000\n", None),
        ("ack:client\ncredit:0,1000\n", Some(CloseCode::BadHeader)),
    ] {
        let refused = subscribe_refused(&format!("destination:/topic/a\n{headers}"));
        assert_eq!(refused, expected, "{headers}");
    }
}

#[test]
fn separators_at_the_end_of_a_destination_mean_nothing() {
    let mut rig = Rig::connected("1.0");
    let said = rig.say("SUBSCRIBE\ndestination:/topic/a.\n\n\0SEND\ndestination:/topic/a/\n\nx\0");
    assert!(said.contains("destination:/topic/a\n"), "{said}");
    rig.say("UNSUBSCRIBE\ndestination:/topic/a..\n\n\0");
    assert_eq!(code(&rig), None);
    rig.say("SEND\ndestination:/topic/a..b\n\nx\0");
    assert_eq!(code(&rig), Some(CloseCode::BadDestination));
}

#[test]
fn connect_may_have_a_body_if_the_session_will_be_one_of_1_0() {
    for (connect, expected) in [
        ("CONNECT\nlogin:guest\npasscode:guest\n\n\n\0", None),
        ("CONNECT\naccept-version:1.0\n\nbody\0", None),
        ("CONNECT\ncontent-length:4\n\nbody\0", None),
        ("CONNECT\naccept-version:1.0,1.2\nhost:h\n\n\n\0", Some(CloseCode::BadFrame)),
        ("STOMP\naccept-version:1.1\nhost:h\n\nbody\0", Some(CloseCode::BadFrame)),
    ] {
        let mut rig = Rig::new();
        rig.say(connect);
        assert_eq!(code(&rig), expected, "{connect}");
    }
}

#[test]
fn changes_without_receipts_are_told_apart_by_their_tokens() {
    let mut rig = Rig::connected("1.2");
    for frame in [
        "SUBSCRIBE\nid:a\ndestination:/topic/fx\npersistent:true\n\n\0",
        "SUBSCRIBE\nid:b\ndestination:/topic/fx\npersistent:true\n\n\0",
        "UNSUBSCRIBE\nid:a\npersistent:true\n\n\0",
    ] {
        rig.say(frame);
    }
    let operations = rig.commands.iter().filter_map(|it| it.strip_prefix("Operate { token: "));
    let tokens: Vec<&str> = operations.filter_map(|it| it.split(',').next()).collect();
    let [a, b, end] = &tokens[..] else { panic!("{tokens:?}") };
    assert!(a != b && b != end && !tokens.contains(&"0"), "{tokens:?}");
    // A receipt that is asked for later comes when they are done.
    assert!(rig.say("SEND\ndestination:/topic/x\nreceipt:r\n\n\0").contains("receipt-id:r\n"));
}

#[test]
fn a_durable_subscription_gathers_until_it_is_ended() {
    let begin = "SUBSCRIBE\nid:audit.fx\ndestination:/topic/fx.*,/topic/gold\npersistent:true\nselector:a = 'b'\nreceipt:r\n\n\0";
    let end = "UNSUBSCRIBE\nid:audit.fx\npersistent:true\nreceipt:e\n\n\0";
    let mut rig = Rig::connected("1.2");
    assert!(rig.say(begin).contains("RECEIPT\nreceipt-id:r\n"));
    let text = rig.say("SEND\ndestination:/topic/fx.EUR\na:b\n\n1\0");
    assert!(text.contains("destination:/topic/fx.EUR\n"), "{text}");
    assert!(text.contains("source-topic:fx/EUR\n"), "{text}");
    rig.say("UNSUBSCRIBE\nid:audit.fx\n\n\0");
    rig.say("SEND\ndestination:/topic/gold\na:b\n\n2\0SEND\ndestination:/topic/gold\na:c\n\n3\0");
    let text = rig.say("SUBSCRIBE\nid:0\ndestination:/dsub/audit.fx\n\n\0");
    assert!(text.ends_with("\n\n2\0") && text.contains("destination:/topic/gold\n"), "{text}");
    rig.say("SEND\ndestination:/dsub/audit.fx\n\n4\0");
    assert!(rig.received().is_empty());
    rig.say("UNSUBSCRIBE\nid:0\n\n\0");
    assert!(rig.say(end).contains("RECEIPT\nreceipt-id:e\n"));
    assert!(rig.say(end).contains("code:queue-unknown\nreceipt-id:e\n"));
}

#[test]
fn what_is_no_durable_subscription_is_refused() {
    for (headers, code) in [
        ("destination:/queue/a\npersistent:true\n", CloseCode::BadHeader),
        ("destination:/topic/a,/queue/a\npersistent:true\n", CloseCode::BadHeader),
        ("destination:/topic/a\npersistent:yes\n", CloseCode::BadHeader),
        ("destination:/topic/a\npersistent:true\nreplay:last=1\n", CloseCode::BadHeader),
        ("destination:/topic/a\npersistent:true\nselector:a =\n", CloseCode::BadSelector),
    ] {
        assert_eq!(subscribe_refused(headers), Some(code), "{headers}");
    }
}

#[test]
fn times_to_live_become_dates() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\nttl:500\n\n\0");
    assert_eq!(rig.commands[0], "publish topic a [expires:1000500|]  Flags(72) Some(1000500)");
    rig.say("SEND\ndestination:/topic/a\nexpires:77\nttl:1\n\n\0");
    assert_eq!(rig.commands[1], "publish topic a [expires:77|]  Flags(72) Some(77)");
    rig.say("SEND\ndestination:/topic/a\nttl:soon\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

#[test]
fn a_persistent_message_for_a_queue_is_refused_rather_than_kept_in_memory_only() {
    let mut rig = Rig::connected("1.2");
    let text = rig.say("SEND\ndestination:/queue/a\npersistent:true\nreceipt:r\n\n\0");
    assert!(text.contains("code:no-store\nreceipt-id:r\n"), "{text}");
    let mut rig = Rig::connected("1.2");
    rig.say("BEGIN\ntransaction:t\n\n\0");
    rig.say("SEND\ndestination:/queue/a\ntransaction:t\n\n1\0");
    rig.say("SEND\ndestination:/queue/a\npersistent:true\ntransaction:t\n\n2\0");
    let text = rig.say("COMMIT\ntransaction:t\nreceipt:r\n\n\0");
    assert!(text.contains("code:no-store\n"), "{text}");
}

// "RECEIPT": a receipt means that all frames before it have been dealt with, which for a persistent message is to be stored.
#[test]
fn a_receipt_waits_for_persistent_messages_before_it_that_have_none() {
    let persistent = "SEND\ndestination:/topic/a,/topic/b\npersistent:true\n\n1\0\
                      SEND\ndestination:/topic/c\npersistent:true\n\n1\0";
    let commit = "BEGIN\ntransaction:t\n\n\0SEND\ndestination:/topic/c\ntransaction:t\n\n1\0COMMIT\ntransaction:t\n\n\0";
    for before in [persistent, commit] {
        for last in ["DISCONNECT\nreceipt:r\n\n\0", "BEGIN\ntransaction:u\nreceipt:r\n\n\0"] {
            let mut rig = Rig::connected("1.2");
            rig.broker.hold = true;
            assert_eq!(rig.say(&format!("{before}{last}")), "");
            rig.release();
            assert_eq!(rig.received(), "RECEIPT\nreceipt-id:r\n\n\0");
        }
    }
    let mut rig = Rig::connected("1.2");
    rig.broker.hold = true;
    let said = rig.say("SEND\ndestination:/topic/a\n\n1\0DISCONNECT\nreceipt:r\n\n\0");
    assert_eq!(said, "RECEIPT\nreceipt-id:r\n\n\0", "what is not persistent is not waited for");
}

// "DISCONNECT": "the client is assured that all previous frames have been received by the server": what it has settled
// without a receipt is asked for once more, so that the last one says that it is stored.
#[test]
fn disconnect_waits_for_acknowledgements_without_receipts() {
    let subscribe = "SUBSCRIBE\nid:1\nack:client-individual\ndestination:/queue/a\n\n\0";
    let send = "SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/a\n\n2\0";
    let settle = "ACK\nid:0-1\n\n\0ACK\nid:0-2\n\n\0";
    let mut rig = Rig::connected("1.2");
    rig.say(&format!("{subscribe}{send}"));
    rig.broker.hold = true;
    rig.commands.clear();
    let said = rig.say(&format!("{settle}DISCONNECT\nreceipt:d\n\n\0"));
    assert_eq!((said.as_str(), rig.end.is_none()), ("", true));
    assert_eq!(rig.commands.len(), 3, "{:?}", rig.commands);
    assert!(rig.commands[1].contains("ranges: []"), "{:?}", rig.commands);
    rig.release();
    assert_eq!(rig.received(), "RECEIPT\nreceipt-id:d\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::Done));
    let mut rig = Rig::connected("1.2");
    rig.say(&format!("{subscribe}{send}"));
    rig.commands.clear();
    assert_eq!(rig.say(&format!("{settle}DISCONNECT\n\n\0")), "");
    assert_eq!(rig.commands.len(), 2, "who wants no receipt waits for nothing: {:?}", rig.commands);
}

// Who asked for no receipt is told no name of one.
#[test]
fn a_persistent_message_without_a_receipt_is_refused_without_one() {
    let mut rig = Rig::connected("1.2");
    let said =
        rig.say("SEND\ndestination:/queue/a\npersistent:true\n\n1\0DISCONNECT\nreceipt:r\n\n\0");
    assert!(said.contains("code:no-store\n") && !said.contains("receipt-id"), "{said}");
}

#[test]
fn persistent_is_noted_and_passed_on() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\npersistent:true\n\n\0");
    assert_eq!(rig.commands[0], "publish topic a [persistent:true|]  Flags(65) None");
}

#[test]
fn tokens_come_in_three_ways() {
    for headers in ["token:t", "Authorization:Bearer t", "passcode:t", "login:\npasscode:t"] {
        let mut rig = Rig::new();
        let said = rig.say(&format!("CONNECT\naccept-version:1.2\nhost:h\n{headers}\n\n\0"));
        assert!(said.contains("CONNECTED"), "{said}");
        assert!(rig.commands[0].contains("login: None"), "{}", rig.commands[0]);
    }
}

#[test]
fn subscriptions_are_counted() {
    let options = StompOptions { subscriptions_max: 30, ..StompOptions::default() };
    let mut rig = Rig::with(options, Framing::Stream);
    rig.connect("1.2");
    for n in 0..30 {
        rig.say(&format!("SUBSCRIBE\nid:{n}\ndestination:/topic/a\n\n\0"));
    }
    assert!(rig.end.is_none());
    rig.say("UNSUBSCRIBE\nid:7\n\n\0SUBSCRIBE\nid:x\ndestination:/topic/a\n\n\0");
    assert!(rig.end.is_none());
    rig.say("SUBSCRIBE\nid:30\ndestination:/topic/a\n\n\0");
    assert_eq!(code(&rig), Some(CloseCode::TooManySubscriptions));
}

#[test]
fn the_first_frame_has_small_limits() {
    for frame in [
        format!("CONNECT\nx:{}\n\n\0", "x".repeat(1_000)),
        format!("CONNECT\ncontent-length:9999\n\n{}", "x".repeat(10)),
        format!("CONNECT\n\n{}", "x".repeat(10_000)),
    ] {
        let options = StompOptions { preauth_bytes_max: 600, ..StompOptions::default() };
        let mut rig = Rig::with(options, Framing::Stream);
        rig.say(&frame);
        assert_eq!(code(&rig), Some(CloseCode::FrameTooLarge));
    }
}

#[test]
fn large_bodies_are_sent_without_being_copied_and_arrive_whole() {
    for mode in ["auto", "client"] {
        for framing in [Framing::Stream, Framing::Messages(&support::MESSAGES)] {
            let mut rig = Rig::with(StompOptions::default(), framing);
            rig.connect("1.2");
            rig.say(&format!("SUBSCRIBE\nid:1\nack:{mode}\ndestination:/topic/a\n\n\0"));
            let body = "0123456789abcdef".repeat(4_096);
            let said = rig.say(&format!("SEND\ndestination:/topic/a\nk:v\n\n{body}\0"));
            assert!(said.ends_with(&format!("\nk:v\ncontent-length:65536\n\n{body}\0")));
            if framing.is_message() {
                let frame = said.split_once('>').unwrap().1;
                assert!(said.starts_with(&format!("<text {}>MESSAGE\n", frame.len())));
            }
        }
    }
}

#[test]
fn a_body_is_asked_for_by_its_length() {
    use tiderace_wire::{Commands, Context, OutQueue, Output, Reply};
    let stomp = tiderace_stomp::protocol(Default::default(), [].into());
    let opening = tiderace_wire::Opening::new(
        Framing::Stream,
        "127.0.0.1:1".parse().unwrap(),
        Default::default(),
    );
    let mut session = (stomp.open)(&opening);
    let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
    let output = Output { framing: Framing::Stream, queue: &mut queue };
    let mut context = Context::new(&mut commands, output);
    let now = Default::default();
    session.receive(now, b"CONNECT\n\n\0", &mut context).unwrap();
    session
        .reply(now, Reply::LoggedIn { name: "".into(), anonymous: false, host: None }, &mut context)
        .unwrap();
    let head = b"\n\nSEND\ndestination:/topic/a\ncontent-length:1000000\n\n";
    let progress = session.receive(now, head, &mut context).unwrap();
    assert_eq!((progress.consumed, progress.need), (2, head.len() - 2 + 1_000_001));
    let again = session.receive(now, &head[2..], &mut context).unwrap();
    assert_eq!((again.consumed, again.need), (0, progress.need));
}

#[test]
fn hostile_acknowledgements_do_not_fill_memory() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\nack:client-individual\ndestination:/queue/a\n\n\0");
    rig.say(&"SEND\ndestination:/queue/a\n\n\0".repeat(3_000));
    // The first is never acknowledged; all others are, from the last to the second.
    for tag in (2..=3_000).rev() {
        rig.say(&format!("ACK\nid:0-{tag}\n\n\0"));
    }
    assert_eq!(rig.broker.settled.len(), 2_999);
    rig.say("ACK\nid:0-1\n\n\0");
    assert_eq!(rig.broker.settled.len(), 3_000);
    assert!(rig.end.is_none());
}

#[test]
fn replays_and_intervals_are_asked_for_by_header() {
    for (headers, expected) in [
        ("replay:last=10\n", "replay: Some(Last(10)), interval: 0ns"),
        ("replay:version=7\ninterval:250\n", "replay: Some(Version(7)), interval: 250ms"),
        ("replay:since=1700000000000\n", "replay: Some(Time(1700000000000)), interval: 0ns"),
    ] {
        let mut rig = Rig::connected("1.2");
        rig.say(&format!("SUBSCRIBE\nid:1\ndestination:/topic/a.*\n{headers}\n\0"));
        assert!(rig.commands[0].contains(expected), "{}", rig.commands[0]);
    }
    for bad in
        ["replay:10", "replay:last=", "replay:last=4294967296", "replay:first=1", "interval:1s"]
    {
        let refused = subscribe_refused(&format!("destination:/topic/a\n{bad}\n"));
        assert_eq!(refused, Some(CloseCode::BadHeader), "{bad}");
        let refused = subscribe_refused("destination:/queue/a\nreplay:last=1\n");
        assert_eq!(refused, Some(CloseCode::BadHeader), "queues");
    }
}

#[test]
fn conditions_and_patches_become_updates() {
    let rows = [
        (
            "if-version:7\nk:v\n",
            "change: Value([120]), properties: Some([107, 58, 118, 10])",
            "Some(Version(7))",
        ),
        ("if-absent:true\n", "change: Value([120]), properties: Some([])", "Some(Absent)"),
        ("patch:json\nk:v\n", "change: Patch([120]), properties: None", "None"),
        (
            "patch:merge\nif-version:2\n",
            "change: Merge([120]), properties: None",
            "Some(Version(2))",
        ),
    ];
    for (headers, change, condition) in rows {
        let mut rig = Rig::connected("1.2");
        rig.broker.mute = true;
        rig.say(&format!("SEND\ndestination:/topic/a\n{headers}receipt:r\n\nx\0"));
        let command = &rig.commands[0];
        assert!(command.contains("Operate { token: 1"), "{command}");
        assert!(command.contains(change), "{command}");
        assert!(command.contains(&format!("condition: {condition}")), "{command}");
    }
}

#[test]
fn updates_that_make_no_sense_are_refused() {
    for (headers, code) in [
        ("destination:/topic/a\nif-version:x\n", CloseCode::BadHeader),
        ("destination:/topic/a\nif-absent:yes\n", CloseCode::BadHeader),
        ("destination:/topic/a\nif-absent:true\nif-version:1\n", CloseCode::BadHeader),
        ("destination:/topic/a\npatch:xml\n", CloseCode::BadHeader),
        ("destination:/topic/a\npatch:json\nttl:5\n", CloseCode::BadHeader),
        ("destination:/topic/a\npatch:json\nretain:remove\n", CloseCode::BadHeader),
        ("destination:/topic/a\npatch:json\ntransaction:t\n", CloseCode::BadHeader),
        ("destination:/queue/a\nif-version:1\n", CloseCode::BadDestination),
        ("destination:/topic/a,/topic/b\nif-version:1\n", CloseCode::BadDestination),
    ] {
        let mut rig = Rig::connected("1.2");
        let said = rig.say(&format!("SEND\n{headers}receipt:r\n\nx\0"));
        assert!(said.contains("\nreceipt-id:r\n"), "{said}");
        assert_eq!((rig.end.unwrap().code, rig.commands.len()), (code, 0), "{headers}");
    }
}

#[test]
fn an_update_without_a_receipt_ends_the_session_all_the_same() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\nif-absent:true\n\nx\0");
    assert!(rig.end.is_none());
    let said = rig.say("SEND\ndestination:/topic/a\nif-absent:true\n\nx\0");
    assert!(said.contains("code:condition-failed\n") && !said.contains("receipt-id"), "{said}");
}

#[test]
fn a_message_is_delivered_when_its_publisher_says() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0");
    for said in ["delay:500\nk:v", "delay:9\ndeliver-at:1000500\nk:v"] {
        let at_once = rig.say(&format!("SEND\ndestination:/queue/a\n{said}\n\nlate\0"));
        assert_eq!(at_once, "", "{said}");
    }
    rig.wait(tiderace_base::Span::from_millis(499));
    assert_eq!(rig.received(), "");
    rig.wait(tiderace_base::Span::from_millis(1));
    let said = rig.received();
    assert_eq!(said.matches("\ndeliver-at:1000500\nk:v\n").count(), 2, "{said}");
    assert!(!said.contains("delay:"), "{said}");
}

#[test]
fn a_time_that_makes_no_sense_is_refused() {
    for headers in [
        "delay:",
        "delay:-1",
        "delay:soon",
        "delay:1.5",
        "delay:99999999999999999999999",
        "delay:18446744073709551615",
        "deliver-at:tomorrow",
        "deliver-at:18446744073709551615",
        "delay:1\ndeliver-at:x",
        // Longer than any message may wait if nothing is said.
        "delay:2592000001",
    ] {
        let mut rig = Rig::connected("1.2");
        rig.say(&format!("SEND\ndestination:/queue/a\n{headers}\n\nx\0"));
        assert_eq!(code(&rig), Some(CloseCode::BadSchedule), "{headers}");
    }
}

#[test]
fn to_a_topic_a_delay_is_a_header_like_any_other() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0");
    let said = rig.say("SEND\ndestination:/topic/a\ndelay:of the train\n\nx\0");
    assert!(said.contains("\ndelay:of the train\n"), "{said}");
}

#[test]
fn of_what_goes_to_a_topic_as_well_the_queue_alone_is_told_of_the_delay() {
    for begun in ["", "transaction:t\n"] {
        let mut rig = Rig::connected("1.2");
        rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:2\ndestination:/topic/b\n\n\0");
        rig.say("BEGIN\ntransaction:t\n\n\0");
        let send = format!("SEND\ndestination:/queue/a,/topic/b\n{begun}delay:500\n\nx\0");
        let said = rig.say(&send) + &rig.say("COMMIT\ntransaction:t\n\n\0");
        assert!(said.contains("\ndestination:/topic/b\n"), "{said}");
        assert!(said.contains("\ndelay:500\n") && !said.contains("deliver-at"), "{said}");
        rig.wait(tiderace_base::Span::from_millis(500));
        let later = rig.received();
        assert!(later.contains("\ndeliver-at:") && !later.contains("\ndelay:"), "{later}");
    }
}

#[test]
fn what_a_transaction_delays_waits_as_well() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0BEGIN\ntransaction:t\n\n\0");
    rig.say("SEND\ndestination:/queue/a\ntransaction:t\ndelay:500\n\nx\0");
    assert_eq!(rig.say("COMMIT\ntransaction:t\n\n\0"), "");
    rig.wait(tiderace_base::Span::from_millis(500));
    assert!(rig.received().ends_with("x\0"));
}

#[test]
fn a_message_names_its_group() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0");
    let said = rig.say("SEND\ndestination:/queue/a\nk:v\nmessage_group:a\\cb\n\nx\0");
    assert!(said.contains("\nmessage_group:a\\cb\nk:v\n"), "{said}");
    assert_eq!(said.matches("message_group").count(), 1);
    for group in [String::new(), "g".repeat(257)] {
        let mut rig = Rig::connected("1.2");
        rig.say(&format!("SEND\ndestination:/queue/a\nmessage_group:{group}\n\nx\0"));
        assert_eq!(code(&rig), Some(CloseCode::BadGroup), "{}", group.len());
    }
    // To a topic it is a header like any other.
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0");
    let said = rig.say("SEND\ndestination:/topic/a\nmessage_group:\n\nx\0");
    assert!(said.contains("\nmessage_group:\n"), "{said}");
}

#[test]
fn a_message_says_how_urgent_it_is() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0");
    let said = rig.say("SEND\ndestination:/queue/a\nk:v\npriority:9\npriority:2\n\nx\0");
    assert!(said.contains("\npriority:9\nk:v\n"), "the first one counts: {said}");
    assert_eq!(said.matches("priority").count(), 1);
    for priority in ["", "10", "-1", "high", "5.0", " 5"] {
        for transaction in ["", "transaction:t\n"] {
            let mut rig = Rig::connected("1.2");
            rig.say("BEGIN\ntransaction:t\n\n\0");
            rig.say(&format!(
                "SEND\ndestination:/queue/a\n{transaction}priority:{priority}\n\nx\0"
            ));
            assert_eq!(code(&rig), Some(CloseCode::BadPriority), "{priority}");
        }
    }
    // To a topic it is a header like any other.
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0");
    let said = rig.say("SEND\ndestination:/topic/a\npriority:high\n\nx\0");
    assert!(said.contains("\npriority:high\n"), "{said}");
}
