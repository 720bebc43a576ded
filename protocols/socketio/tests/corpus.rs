//! Replays the fuzz corpora, so that every input that was ever of interest stays tested.
//!
//! Relies on the same checks as the fuzz targets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

use crate::check;
use proptest::prelude::*;

#[test]
fn the_corpora_replay() {
    tiderace_corpus::replay(
        env!("CARGO_MANIFEST_DIR"),
        &[("packet", check::packet), ("session", check::session)],
    );
}

/// Packets of every kind, right and wrong.
fn line() -> impl Strategy<Value = String> {
    let event = prop_oneof![
        Just("subscribe"),
        Just("publish"),
        Just("send"),
        Just("receive"),
        Just("call"),
        Just("serve"),
        Just("open"),
        Just("say"),
        Just("end"),
        Just("unsubscribe"),
        Just("cancel"),
        Just("unserve"),
        Just("login"),
        Just("join"),
        Just("leave"),
        Just("to"),
        Just("chat"),
        Just("connect"),
    ];
    let value = prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"a/*\"".to_owned()),
        Just("2".to_owned()),
        Just("3".to_owned()),
        Just("null".to_owned()),
        Just("{\"last\":true}".to_owned()),
        Just("{\"acks\":false}".to_owned()),
        Just("{\"_placeholder\":true,\"num\":0}".to_owned()),
        Just("[{\"_placeholder\":true,\"num\":1}]".to_owned()),
        Just("{\"headers\":{\"event\":\"x\",\"arguments\":\"list\"}}".to_owned()),
        Just("{\"recoverable\":true,\"snapshot\":false}".to_owned()),
        "\"[a-z\\\\\"é]{0,4}\"",
    ];
    let packet = (
        prop_oneof![4 => Just("2"), 1 => Just("51-"), 1 => Just("52-"), 2 => Just("3"), 1 => Just("61-")],
        prop_oneof![Just(""), Just("/app,")],
        prop_oneof![Just(""), Just("0"), Just("1"), Just("2")],
        event,
        proptest::collection::vec(value, 0..4),
    )
        .prop_map(|(kind, namespace, id, event, values)| {
            let mut all = values;
            if !kind.starts_with(['3', '6']) {
                all.insert(0, format!("\"{event}\""));
            }
            format!("{kind}{namespace}{id}[{}]", all.join(","))
        });
    prop_oneof![
        12 => packet,
        2 => "#[a-z]{0,5}",
        1 => prop_oneof![Just("0".to_owned()), Just("1".to_owned()), Just("0/app".to_owned()), Just("1/app".to_owned())],
        1 => "[0-6]?[0-9-]{0,2}[/a,\\[\\]\"{}]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_conversation_does_harm(old: bool, lines in proptest::collection::vec(line(), 1..20)) {
        let mut text = if old { "1" } else { "0" }.to_owned();
        if !old {
            text.push_str("0\n");
        }
        text.push_str("0/app\n");
        text.push_str(&lines.join("\n"));
        check::session(text.as_bytes());
    }

    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        check::session(&bytes);
        check::packet(&bytes);
    }
}
