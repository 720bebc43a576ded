//! Sessions against rustls' own client, over memory: whatever is split where, and whatever is sent that
//! no client sends, bytes come in order or the session ends with an alert.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::peer::{Peer, choices, identity, sealed, settings};
use proptest::prelude::*;
use rustls::{AlertDescription, Error};
use tiderace_tls::{ClientCertificates, FailureKind, Session, Settings, Version, sealed_bytes};

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

#[test]
fn a_conversation_in_both_versions() {
    for version in VERSIONS {
        let mut peer = Peer::new(&settings(), &[version]);
        peer.shake_hands();
        let established = peer.session.established().unwrap();
        let expected = if version.version == rustls::ProtocolVersion::TLSv1_2 {
            Version::Tls12
        } else {
            Version::Tls13
        };
        assert_eq!((established.version, established.is_resumed), (expected, false));
        assert_eq!(peer.session.alpn(), Some(&b"http/1.1"[..]));
        peer.say(b"hello");
        assert_eq!(peer.heard, b"hello");
        let large: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        peer.answer(&large);
        assert_eq!(peer.client_heard, large);
        assert!(peer.session.kept().is_empty(), "an idle session keeps nothing");
        let mut out = Vec::new();
        assert!(peer.session.finish(&mut out));
        assert!(!peer.session.finish(&mut out), "it is said once");
        peer.deliver(&out);
        assert!(peer.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn the_clients_end_comes_behind_its_bytes_and_it_still_listens() {
    for version in VERSIONS {
        let mut peer = Peer::new(&settings(), &[version]);
        peer.shake_hands();
        peer.write(b"last words");
        peer.client.send_close_notify();
        let wire = peer.take();
        let received = peer.give(&wire).unwrap();
        assert_eq!((received.is_ended, &peer.heard[..]), (true, &b"last words"[..]));
        peer.answer(b"farewell");
        assert_eq!(peer.client_heard, b"farewell");
    }
}

#[test]
fn who_comes_back_is_known() {
    let settings = settings();
    for version in VERSIONS {
        let mut first = Peer::new(&settings, &[version]);
        first.shake_hands();
        first.answer(b"the ticket comes with it");
        let mut second = first.again(&settings);
        second.shake_hands();
        assert!(second.session.established().unwrap().is_resumed, "{version:?}");
    }
}

#[test]
fn the_server_keeps_no_session_for_who_takes_no_ticket() {
    let settings = settings();
    let mut first = Peer::without_tickets(&settings);
    first.shake_hands();
    first.answer(b"hello");
    let mut second = first.again(&settings);
    second.shake_hands();
    assert!(!second.session.established().unwrap().is_resumed);
}

#[test]
fn half_a_message_and_then_something_else_ends_it() {
    // rustls has seen the half and counts on being shown it again, also when it says why it ends.
    let mut peer = Peer::new(&settings(), &VERSIONS);
    let mut wire = record(0x16, &[1]);
    wire.extend(record(0x15, &[2, 40]));
    assert!(peer.give(&wire).is_err());
    let mut peer = Peer::new(&settings(), &VERSIONS);
    peer.give(&record(0x16, &[1, 0, 1])).unwrap();
    assert_eq!(peer.session.kept().len(), 8);
    assert!(peer.give(&record(0x17, &[0; 40])).is_err());
}

#[test]
fn half_a_message_behind_the_handshake_does_not_keep_us_from_speaking() {
    let mut peer = Peer::new(&settings(), &[&rustls::version::TLS13]);
    peer.shake_hands();
    let mut keys = peer.secrets();
    // The first byte of a key update, and the others later.
    peer.give(&sealed(keys.as_mut(), 0x16, &[24])).unwrap();
    assert!(!peer.session.kept().is_empty());
    let mut room = vec![0; sealed_bytes(5)];
    for _ in 0..3 {
        peer.session.send(b"hello", &mut room).unwrap();
    }
    let mut out = Vec::new();
    assert!(peer.session.finish(&mut out));
    assert!(!peer.session.kept().is_empty());
}

#[test]
fn a_flood_of_key_updates_ends_it() {
    let mut peer = Peer::new(&settings(), &[&rustls::version::TLS13]);
    peer.shake_hands();
    let mut outcome = Ok(());
    let mut count = 0;
    while outcome.is_ok() {
        peer.client.refresh_traffic_keys().unwrap();
        let wire = peer.take();
        outcome = peer.give(&wire).map(drop);
        count += 1;
        assert!(count < 100, "it goes on for ever");
    }
    assert_eq!(outcome.unwrap_err().kind, FailureKind::Misbehaviour);
    assert!(peer.sent < 4096, "{} bytes were sent for it", peer.sent);
}

#[test]
fn what_is_no_tls_is_told_so() {
    let cases: [(&str, Vec<u8>, Option<AlertDescription>); 4] = [
        ("text", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Some(AlertDescription::DecodeError)),
        ("a length beyond all", vec![0x16, 3, 1, 0xFF, 0xFF], Some(AlertDescription::DecodeError)),
        (
            "a version that never was",
            vec![0x16, 9, 9, 0, 1, 0],
            Some(AlertDescription::DecodeError),
        ),
        ("empty records", record(0x16, b"").repeat(50), None),
    ];
    for (name, wire, expected) in cases {
        let mut peer = Peer::new(&settings(), &VERSIONS);
        let failure = peer.give(&wire).unwrap_err();
        assert!(
            matches!(failure.kind, FailureKind::Malformed | FailureKind::Misbehaviour),
            "{name}: {failure:?}"
        );
        if let Some(expected) = expected {
            assert_eq!(peer.alert(), Some(Error::AlertReceived(expected)), "{name}");
        }
    }
}

#[test]
fn a_message_that_is_announced_too_large_is_not_waited_for() {
    let mut peer = Peer::new(&settings(), &VERSIONS);
    let mut wire = record(0x16, &[1, 0xFF, 0xFF, 0xFF]);
    for _ in 0..10 {
        wire.extend(record(0x16, &[0; 16_000]));
    }
    assert!(peer.give(&wire).is_err());
}

#[test]
fn versions_ciphers_and_protocols_that_are_not_shared_are_a_failure() {
    let only13 = Settings::new(tiderace_tls::Choices { version_min: Version::Tls13, ..choices() });
    let mut peer = Peer::new(&only13.unwrap(), &[&rustls::version::TLS12]);
    let hello = peer.take();
    assert_eq!(peer.give(&hello).unwrap_err().kind, FailureKind::Incompatible);
    let other = Settings::new(tiderace_tls::Choices { alpn: vec![b"h2".to_vec()], ..choices() });
    let mut peer = Peer::new(&other.unwrap(), &VERSIONS);
    let hello = peer.take();
    let failure = peer.give(&hello).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Incompatible);
    assert!(failure.to_string().contains("ALPN"), "{failure}");
}

#[test]
fn a_client_that_does_not_trust_the_certificate_says_so() {
    let (_, stranger) = identity("localhost");
    let settings = Settings::new(tiderace_tls::Choices { identities: vec![stranger], ..choices() });
    let mut peer = Peer::new(&settings.unwrap(), &VERSIONS);
    let hello = peer.take();
    peer.give(&hello).unwrap();
    let alert = peer.take();
    assert_eq!(peer.give(&alert).unwrap_err().kind, FailureKind::Alert);
}

#[test]
fn clients_without_a_certificate_stay_out_where_one_is_required() {
    let (pem, _) = identity("authority");
    let asked = |is_required| {
        let clients = ClientCertificates::from_pem(pem.0.as_bytes(), is_required).unwrap();
        Settings::new(tiderace_tls::Choices { clients, ..choices() }).unwrap()
    };
    for version in VERSIONS {
        let mut peer = Peer::new(&asked(true), &[version]);
        let hello = peer.take();
        peer.give(&hello).unwrap();
        let answer = peer.take();
        assert_eq!(peer.give(&answer).unwrap_err().kind, FailureKind::Certificate);
        let mut peer = Peer::new(&asked(false), &[version]);
        peer.shake_hands();
        assert_eq!(peer.session.peer_certificate(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_may_be_split_anywhere(
        is_13 in any::<bool>(),
        pieces in prop::collection::vec(1usize..3000, 1..20),
        sizes in prop::collection::vec(1usize..40_000, 1..6),
    ) {
        let version = if is_13 { VERSIONS[1] } else { VERSIONS[0] };
        let mut peer = Peer::new(&settings(), &[version]);
        let mut pieces = pieces.iter().cycle();
        while peer.client.is_handshaking() || !peer.session.is_established() {
            peer.exchange(&mut pieces);
        }
        let mut expected = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let bytes = vec![index as u8; *size];
            peer.write(&bytes);
            expected.extend(bytes);
            peer.exchange(&mut pieces);
        }
        prop_assert!(peer.heard == expected);
        prop_assert!(peer.session.kept().is_empty());
    }

    #[test]
    fn no_bytes_bring_it_down(
        hello in any::<bool>(),
        records in prop::collection::vec(
            (prop_oneof![Just(0x14u8), Just(0x15), Just(0x16), Just(0x17), any::<u8>()],
             prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut peer = Peer::new(&settings(), &VERSIONS);
        let mut wire = if hello { peer.take() } else { Vec::new() };
        for (kind, body) in &records {
            wire.extend(record(*kind, body));
        }
        let (first, second) = wire.split_at(cut.index(wire.len() + 1));
        if peer.give(first).is_ok() {
            let _ = peer.give(second);
        }
    }

    #[test]
    fn what_was_changed_on_the_way_is_not_delivered(
        at in any::<prop::sample::Index>(),
        change in 1u8..,
        is_13 in any::<bool>(),
    ) {
        change_on_the_way(if is_13 { VERSIONS[1] } else { VERSIONS[0] }, |length| at.index(length), change)?;
    }

    #[test]
    fn a_changed_head_of_a_record_changes_nothing_that_is_delivered(
        at in 0usize..5,
        change in 1u8..,
        is_13 in any::<bool>(),
    ) {
        change_on_the_way(if is_13 { VERSIONS[1] } else { VERSIONS[0] }, |_| at, change)?;
    }
}

#[test]
fn a_changed_type_of_a_record_changes_nothing_that_is_delivered() {
    for version in VERSIONS {
        for change in 1..=u8::MAX {
            change_on_the_way(version, |_| 0, change).unwrap();
        }
    }
}

/// One byte of a record is changed: nothing is delivered but what was sent, and that only where the
/// version's authentication leaves the byte out.
///
/// A length that has grown makes the session wait. In TLS 1.3 type and version of a record mean nothing:
/// they are constants (RFC 8446 section 5.2), which rustls authenticates instead of what has arrived.
fn change_on_the_way(
    version: &'static rustls::SupportedProtocolVersion,
    at: impl FnOnce(usize) -> usize,
    change: u8,
) -> Result<(), TestCaseError> {
    const SENT: &[u8] = b"a message that nobody may change";
    let mut peer = Peer::new(&settings(), &[version]);
    peer.shake_hands();
    peer.heard.clear();
    peer.write(SENT);
    let mut wire = peer.take();
    let at = at(wire.len());
    wire[at] ^= change;
    let outcome = peer.give(&wire);
    let is_constant = version.version == rustls::ProtocolVersion::TLSv1_3 && at < 3;
    prop_assert!(
        outcome.is_err() || peer.heard.is_empty() || (is_constant && peer.heard == SENT),
        "byte {at} changed by {change:#x}: {outcome:?}, {:?}",
        peer.heard
    );
    Ok(())
}

#[test]
fn a_session_is_cheap_to_begin() {
    let settings = settings();
    let session = Session::new(&settings).unwrap();
    assert!(!session.is_established());
    assert_eq!(session.established(), None);
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 3, (body.len() >> 8) as u8, body.len() as u8];
    bytes.extend_from_slice(body);
    bytes
}
