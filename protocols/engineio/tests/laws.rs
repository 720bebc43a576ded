//! What holds for every payload: what is written is read, and no bytes are too strange to be judged.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tiderace_engineio::payload::{Form, jsonp};
use tiderace_engineio::{Data, Packet, PacketType, Revision};

const FORMS: [Form; 3] = [Form::Text4, Form::Text3, Form::Binary3];

/// Text without the separator, which revision 4 assumes that data does not hold; `None` for binary.
fn data() -> impl Strategy<Value = (Vec<u8>, bool)> {
    prop_oneof![
        "[^\u{1e}]{0,40}".prop_map(|text| (text.into_bytes(), true)),
        "[a\u{e9}\u{20ac}\u{1f600}]{0,900}".prop_map(|text| (text.into_bytes(), true)),
        proptest::collection::vec(any::<u8>(), 0..3000).prop_map(|bytes| (bytes, false)),
    ]
}

fn read(form: Form, payload: &[u8]) -> Vec<(Vec<u8>, bool)> {
    form.packets(payload, usize::MAX)
        .map(|packet| {
            let packet = packet.unwrap();
            assert_eq!(packet.kind, PacketType::Message);
            let (bytes, text) = packet.data.bytes();
            (bytes.to_vec(), text)
        })
        .collect()
}

proptest! {
    #[test]
    fn what_frames_write_is_read(messages in proptest::collection::vec(data(), 1..8)) {
        for form in FORMS {
            let framing = tiderace_wire::Framing::Messages(form.framing());
            let mut payload = Vec::new();
            for (bytes, text) in &messages {
                framing.write(bytes, *text, &mut payload);
            }
            prop_assert_eq!(&read(form, &payload[form.skip()..]), &messages);
        }
    }

    #[test]
    fn what_packets_write_is_read(messages in proptest::collection::vec(data(), 1..8)) {
        for form in FORMS {
            let mut payload = Vec::new();
            for (bytes, text) in &messages {
                let data = if *text {
                    Data::Text(std::str::from_utf8(bytes).unwrap())
                } else {
                    Data::Binary(bytes.into())
                };
                form.write_packet(&Packet { kind: PacketType::Message, data }, &mut payload);
            }
            prop_assert_eq!(&read(form, &payload[form.skip()..]), &messages);
        }
    }

    #[test]
    fn a_frame_of_unknown_length_is_what_a_whole_one_is(
        before in proptest::collection::vec(any::<u8>(), 0..20),
        frame in proptest::collection::vec(any::<u8>(), 0..5000),
        letters in "\\PC{0,3000}",
    ) {
        for form in FORMS {
            let framing = tiderace_wire::Framing::Messages(form.framing());
            for (frame, text) in [(frame.as_slice(), false), (letters.as_bytes(), true)] {
                let (mut whole, mut opened) = (before.clone(), before.clone());
                framing.write(frame, text, &mut whole);
                let start = framing.open(text, &mut opened);
                opened.extend_from_slice(frame);
                framing.close(start, text, &mut opened);
                prop_assert_eq!(whole, opened);
            }
        }
    }

    #[test]
    fn lengths_of_text_are_javascripts(text in "\\PC{0,60}") {
        let mut payload = Vec::new();
        Form::Text3.write(PacketType::Message, &text, &mut payload);
        let length = 1 + text.encode_utf16().count();
        prop_assert_eq!(String::from_utf8(payload).unwrap(), format!("{length}:4{text}"));
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        judge(&bytes);
    }

    #[test]
    fn nor_almost_payloads(text in "([0-9]{1,3}:)?[0-6b]?[a-z\u{1e}\u{1f600}=:%&]{0,30}[0-9]{0,2}:?") {
        judge(text.as_bytes());
        let mut bytes = vec![0, 2, 0xff];
        bytes.extend_from_slice(text.as_bytes());
        judge(&bytes);
    }

    #[test]
    fn scripts_are_valid_javascript(payload in "\\PC{0,40}[\n\"\\\\\u{2028}\u{2029}]{0,5}") {
        let mut script = Vec::new();
        jsonp::write(3, payload.as_bytes(), &mut script);
        let script = String::from_utf8(script).unwrap();
        let ends = ['\u{2028}', '\u{2029}', '\n'];
        prop_assert!(!script.contains(ends));
        let argument = script.strip_prefix("___eio[3](").unwrap().strip_suffix(");").unwrap();
        let json = tiderace_value::Json::parse(argument.as_bytes(), 4).unwrap();
        prop_assert_eq!(json.as_text().unwrap(), payload);
    }
}

/// Decodes in every way; nothing comes behind a fault or beyond the limit.
fn judge(bytes: &[u8]) {
    for form in FORMS {
        let packets: Vec<_> = form.packets(bytes, 3).collect();
        assert!(packets.len() <= 4);
        let faults = packets.iter().filter(|packet| packet.is_err()).count();
        assert!(faults == 0 || faults == 1 && packets.last().unwrap().is_err());
    }
    for revision in [Revision::Three, Revision::Four] {
        let _ = Packet::decode_binary(revision, bytes);
        let _ = std::str::from_utf8(bytes).map(|text| Packet::decode_text(revision, text));
    }
    let _ = jsonp::read(bytes);
}
