//! Who the client of a request is, and who it cannot pretend to be.

use std::net::SocketAddr;

use proptest::prelude::*;
use tiderace_base::{Network, Networks};
use tiderace_proxy::{ClientField, client_of};

fn trusted() -> Networks {
    ["10.0.0.0/8", "2001:db8::/32"].iter().map(|it| it.parse::<Network>().unwrap()).collect()
}

fn ask(field: ClientField, values: &[&[u8]]) -> Result<String, String> {
    let fields = values.iter().map(|value| ("X-FORWARDED-for", *value));
    let fields = fields.chain(values.iter().map(|value| ("fORWARDED", *value)));
    let peer = SocketAddr::from(([10, 0, 0, 1], 7));
    let asked = client_of(field, fields, &trusted(), peer);
    asked.map(|client| client.to_string()).map_err(|error| error.to_string())
}

#[test]
fn the_last_of_a_list_counts_that_is_not_trusted() {
    for (values, client) in [
        (&[][..], "10.0.0.1:7"),
        (&["192.0.2.7"], "192.0.2.7:0"),
        (&["192.0.2.7:4711"], "192.0.2.7:4711"),
        (&["2a00::7"], "[2a00::7]:0"),
        (&["[2a00::7]"], "[2a00::7]:0"),
        (&["[2a00::7]:80"], "[2a00::7]:80"),
        (&["::ffff:192.0.2.7"], "192.0.2.7:0"),
        (&["198.51.100.1, 192.0.2.7"], "192.0.2.7:0"),
        (&["198.51.100.1", "192.0.2.7"], "192.0.2.7:0"),
        (&["192.0.2.7, 10.0.0.2", "10.0.0.3"], "192.0.2.7:0"),
        (&["nonsense, , \u{fffd}, 192.0.2.7,,10.0.0.2,"], "192.0.2.7:0"),
        (&["10.0.0.9, 10.0.0.2"], "10.0.0.9:0"),
        (&["2001:db8::9"], "[2001:db8::9]:0"),
        (&["", " , "], "10.0.0.1:7"),
    ] {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        assert_eq!(ask(ClientField::XForwardedFor, &values).as_deref(), Ok(client), "{values:?}");
    }
}

#[test]
fn an_entry_that_would_count_and_is_no_address_is_refused() {
    for value in [
        &b"nonsense"[..],
        b"192.0.2.7, unknown",
        b"192.0.2.7, unknown, 10.0.0.2",
        b"192.0.2.300",
        b"192.0.2.7:65536",
        b"192.0.2.7:",
        b"192.0.2.7:+1",
        b"192.0.2.7 198.51.100.1",
        b"[2a00::7",
        b"[192.0.2.7]",
        b"fe80::1%eth0",
        b"\xff\xfe",
        b"for=192.0.2.7",
    ] {
        let refused = ask(ClientField::XForwardedFor, &[value]).unwrap_err();
        assert!(refused.starts_with("x-forwarded-for names no client"), "{refused}");
    }
    let long = "x".repeat(10_000);
    assert!(ask(ClientField::XForwardedFor, &[long.as_bytes()]).unwrap_err().len() < 200);
}

#[test]
fn forwarded_is_read_as_rfc_7239_writes_it() {
    for (values, client) in [
        (&["for=192.0.2.7"][..], "192.0.2.7:0"),
        (&["For=\"192.0.2.7:4711\""], "192.0.2.7:4711"),
        (&["for=\"[2a00::7]:4711\";proto=https;by=203.0.113.43"], "[2a00::7]:4711"),
        (&["proto=http; FOR=192.0.2.7 ;host=\"a;b,c\\\"d\""], "192.0.2.7:0"),
        (&["for=\"192.0.2.7:_hidden\""], "192.0.2.7:0"),
        (&["for=198.51.100.1, for=192.0.2.7, for=10.0.0.2"], "192.0.2.7:0"),
        (&["for=unknown, for=192.0.2.7"], "192.0.2.7:0"),
        (&["for=\"unterminated", "for=192.0.2.7"], "192.0.2.7:0"),
        (&["host=\"a, for=198.51.100.1\";for=192.0.2.7"], "192.0.2.7:0"),
        (&["for=10.0.0.9,, for=10.0.0.2;"], "10.0.0.9:0"),
        (&["", ","], "10.0.0.1:7"),
    ] {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        assert_eq!(ask(ClientField::Forwarded, &values).as_deref(), Ok(client), "{values:?}");
    }
    for value in [
        "for=unknown",
        "for=_hidden",
        "proto=https",
        "for=192.0.2.7;for=192.0.2.8",
        "for=2a00::7",
        "for=\"2a00::7\"",
        "for=\"192.0.2.7",
        "for=\"192\\.0.2.7\"",
        "for=192.0.2.7, for=\"_x, for=192.0.2.7",
        "for=1.1.1.1;x=\", for=192.0.2.7",
        "for=127.0.0.1;x=\"\\\", for=192.0.2.7",
        "192.0.2.7",
        "for",
    ] {
        let refused = ask(ClientField::Forwarded, &[value.as_bytes()]).unwrap_err();
        assert!(refused.starts_with("forwarded names no client"), "{value}: {refused}");
    }
}

proptest! {
    /// What a client sends stands before what the proxy adds, in a field of its own or in the same one.
    #[test]
    fn a_client_cannot_pretend_to_be_another(sent in "[ -~]{0,80}", hops in 0usize..3) {
        let added: String = std::iter::repeat_n(", 10.0.0.2", hops).collect();
        let added = format!("192.0.2.7{added}");
        let expected = Ok("192.0.2.7:0".to_owned());
        prop_assert_eq!(ask(ClientField::XForwardedFor, &[sent.as_bytes(), added.as_bytes()]), expected.clone());
        let one = format!("{sent}, {added}");
        prop_assert_eq!(ask(ClientField::XForwardedFor, &[one.as_bytes()]), expected);
    }

    /// The same of `Forwarded`: the client is the one that the proxy has named, or the request is refused.
    #[test]
    fn a_client_cannot_pretend_by_forwarded(
        sent in "([ -~]{0,40}|for=[1-9].1.1.1[;,\"\\\\x= ]{0,6})",
        quoted in any::<bool>(),
        is_one in any::<bool>(),
    ) {
        let added = if quoted { "for=\"192.0.2.7:80\"" } else { "for=192.0.2.7;proto=https" };
        let one = format!("{sent}, {added}");
        let values: &[&[u8]] = match is_one {
            true => &[one.as_bytes()],
            false => &[sent.as_bytes(), added.as_bytes()],
        };
        if let Ok(client) = ask(ClientField::Forwarded, values) {
            prop_assert!(client.starts_with("192.0.2.7:"), "{} {}", one, client);
        } else {
            prop_assert!(is_one, "a field of the proxy's own is read by itself: {}", sent);
        }
    }
}
