//! What the receipt of DISCONNECT says of acknowledgements before it.
#![allow(clippy::unwrap_used)]

use crate::support::Rig;
use tiderace_base::CloseCode;

fn ends_with(rig: &Rig, code: CloseCode) {
    let end = rig.end.as_ref().map(|close| close.code);
    assert_eq!(end, Some(code), "{:?}", rig.end);
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
    ends_with(&rig, CloseCode::Done);
    let mut rig = Rig::connected("1.2");
    rig.say(&format!("{subscribe}{send}"));
    rig.commands.clear();
    assert_eq!(rig.say(&format!("{settle}DISCONNECT\n\n\0")), "");
    assert_eq!(rig.commands.len(), 2, "who wants no receipt waits for nothing: {:?}", rig.commands);
}
