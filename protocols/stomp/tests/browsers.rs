//! SUBSCRIBE with `browser:true`: what is shown, how it ends, and what is refused.
#![allow(clippy::unwrap_used)]

use crate::support::Rig;
use tiderace_base::CloseCode;
use tiderace_wire::{Reply, SubscriptionKey};

const FILL: &str =
    "SEND\ndestination:/queue/a\nn:1\n\none\0SEND\ndestination:/queue/a\nn:2\n\ntwo\0";

#[test]
fn a_browser_is_shown_the_queue_and_its_end_and_consumers_have_it_all() {
    let mut rig = Rig::connected("1.2");
    rig.say(FILL);
    let shown = rig.say("SUBSCRIBE\nid:b\ndestination:/queue/a\nbrowser:true\n\n\0");
    assert_eq!(
        shown,
        "MESSAGE\nsubscription:b\ndestination:/queue/a\nmessage-id:0-1\nn:1\ncontent-length:3\n\none\0\
         MESSAGE\nsubscription:b\ndestination:/queue/a\nmessage-id:0-2\nn:2\ncontent-length:3\n\ntwo\0\
         MESSAGE\nsubscription:b\ndestination:/queue/a\nmessage-id:end-0\nbrowser:end\n\
         content-length:0\n\n\0"
    );
    assert_eq!(rig.say("SEND\ndestination:/queue/a\n\nthree\0"), "", "it has ended");
    let consumed = rig.say("SUBSCRIBE\nid:c\ndestination:/queue/a\n\n\0");
    assert_eq!(consumed.matches("MESSAGE\n").count(), 3, "{consumed}");
    let shown =
        rig.say("UNSUBSCRIBE\nid:b\n\n\0SUBSCRIBE\nid:b\ndestination:/queue/a\nbrowser:true\n\n\0");
    assert!(
        shown.starts_with("MESSAGE\nsubscription:b\n") && shown.contains("browser:end"),
        "{shown}"
    );
    assert_eq!(shown.matches("MESSAGE\n").count(), 1);
}

#[test]
fn one_that_follows_is_told_of_no_end() {
    let mut rig = Rig::connected("1.2");
    rig.say(FILL);
    let begin = "SUBSCRIBE\nid:b\ndestination:/queue/a\nbrowser:true\nbrowser-end:false\nselector:n > 1\n\n\0";
    let shown = rig.say(begin);
    assert!(shown.ends_with("two\0") && !shown.contains("browser"), "{shown}");
    let shown =
        rig.say("SEND\ndestination:/queue/a\nn:0\n\nno\0SEND\ndestination:/queue/a\nn:3\n\nyes\0");
    assert_eq!(shown.matches("MESSAGE\n").count(), 1, "{shown}");
    assert!(shown.ends_with("yes\0"));
}

/// Whatever is acknowledged, with or without a transaction, only makes room for more.
#[test]
fn acknowledging_makes_room_and_takes_nothing() {
    for (version, prefix) in [("1.0", ""), ("1.1", "subscription:b\n"), ("1.2", "")] {
        let mut rig = Rig::connected(version);
        rig.say(FILL);
        let id = if version == "1.0" { "" } else { "id:b\n" };
        let shown = rig.say(&format!(
            "SUBSCRIBE\n{id}destination:/queue/a\nbrowser:true\nack:client\ncredit:1\n\n\0"
        ));
        assert_eq!(shown.matches("MESSAGE\n").count(), 1, "{shown}");
        let name = |shown: &str| {
            let label = if version == "1.2" { "\nack:" } else { "\nmessage-id:" };
            shown.split(label).nth(1).unwrap().lines().next().unwrap().to_owned()
        };
        let header = if version == "1.2" { "id" } else { "message-id" };
        let ack = |shown: &str| format!("ACK\n{prefix}{header}:{}\nreceipt:r\n\n\0", name(shown));
        let shown = rig.say(&ack(&shown));
        assert!(shown.contains("two") && shown.contains("RECEIPT\n"), "{shown}");
        // The end has come as well, for nothing is left that waits for room.
        let end = shown.split("MESSAGE\n").last().unwrap();
        assert!(end.contains("browser:end"), "{shown}");
        let said = rig.say(&ack(&format!("\n{end}")));
        assert_eq!(said, "RECEIPT\nreceipt-id:r\n\n\0");
        assert!(rig.end.is_none());
        let consumed =
            rig.say(&format!("SUBSCRIBE\n{}destination:/queue/a\n\n\0", id.replace('b', "c")));
        if version != "1.0" {
            assert_eq!(consumed.matches("MESSAGE\n").count(), 2, "{version}: {consumed}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for headers in [
        "destination:/topic/a\nbrowser:true\n",
        "destination:/queue/*\nbrowser:true\n",
        "destination:/queue/a,/queue/b\nbrowser:true\n",
        "destination:/queue/a\nbrowser:true\nexclusive:true\n",
        "destination:/topic/a\nbrowser:true\npersistent:true\n",
        "destination:/queue/a\nbrowser:yes\n",
        "destination:/queue/a\nbrowser:true\nbrowser-end:0\n",
    ] {
        let mut rig = Rig::connected("1.2");
        let said = rig.say(&format!("SUBSCRIBE\nid:1\n{headers}\n\0"));
        let code = rig.end.as_ref().map(|close| close.code);
        assert_eq!(code, Some(CloseCode::BadHeader), "{headers}: {said}");
    }
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a\nbrowser:false\nbrowser-end:false\n\n\0");
    assert!(rig.end.is_none());
}

#[test]
fn one_that_is_ended_is_named_by_the_error() {
    let end = |rig: &mut Rig, key| {
        let close = CloseCode::UpstreamAway.into();
        rig.reply(Reply::SubscriptionEnded { key: SubscriptionKey(key), close });
        rig.received()
    };
    for (version, id, line) in [("1.2", "id:b\n", "\nsubscription:b\n"), ("1.0", "", "\n")] {
        let mut rig = Rig::connected(version);
        let begin = "destination:/queue/a\nbrowser:true\nbrowser-end:false\n\n\0";
        rig.say(&format!("SUBSCRIBE\n{id}{begin}"));
        // One that is not there its client has ended itself.
        assert_eq!(end(&mut rig, 1), "");
        assert!(rig.end.is_none());
        let said = end(&mut rig, 0);
        assert!(said.starts_with("ERROR\nmessage:") && said.contains(line), "{said}");
        for part in ["\ndestination:/queue/a\n", "\ncode:upstream-away\n"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(rig.end.map(|close| close.code), Some(CloseCode::UpstreamAway));
    }
}
