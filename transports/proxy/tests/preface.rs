//! The PROXY protocol, sentence by sentence of its specification.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;
use tiderace_proxy::{
    PREFACE_BYTES_MAX, Preface, PrefaceError, Recognised, read_preface, recognise,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, family], &length[..], block].concat()
}

fn whole(length: usize, client: &str) -> Result<Preface, PrefaceError> {
    Ok(Preface::Whole { length, client: client.parse().ok() })
}

#[test]
fn a_header_is_told_from_everything_else_by_its_first_bytes() {
    use Recognised::{More, No, Yes};
    for (bytes, expected) in [
        (&b""[..], More),
        (b"P", More),
        (b"PROXY", More),
        (b"PROXY ", More),
        (b"PROXY T", Yes),
        (b"PROXY x", Yes),
        (b"PROXY  ", Yes),
        (b"PROXY / HTTP/1.1", No),
        (b"PROXY * HTTP/1.1", No),
        (b"PROXY http://a/", No),
        (b"PROXY\tTCP4", No),
        (b"PROPFIND /", No),
        (b"proxy TCP4", No),
        (b"PRI * HTTP/2.0", No),
        (b"\r\n", More),
        (b"\r\n\r\n\0", More),
        (b"\r\n\r\nGET", No),
        (b"\r\n\r\n\0\r\nQUIT\n", Yes),
        (b"\r\n\r\n\0\r\nQUIT\r", No),
        (b"\x16\x03\x01", No),
        (b"CONNECT\n", No),
    ] {
        assert_eq!(recognise(bytes), expected, "{bytes:?}");
    }
}

#[test]
fn version_1_names_a_client_or_says_that_there_is_none() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP/1.1";
    assert_eq!(read_preface(line), whole(45, "192.0.2.1:56324"));
    let line = b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n";
    assert_eq!(read_preface(line), whole(line.len(), "[2001:db8::1]:1"));
    let mapped = b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n";
    assert_eq!(read_preface(mapped), whole(mapped.len(), "192.0.2.1:1"));
    let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let longest = format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n");
    assert_eq!(longest.len(), 107);
    assert_eq!(read_preface(longest.as_bytes()), whole(107, ""));
    assert_eq!(read_preface(b"PROXY UNKNOWN\r\n"), whole(15, ""));
}

#[test]
fn version_1_that_is_malformed_is_refused_at_its_place() {
    for (line, place) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n", "end"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n", "end"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n", "end"),
        ("PROXY TCP4 192.0.2.01 198.51.100.1 1 2\r\n", "address of the client"),
        ("PROXY TCP4 ::1 198.51.100.1 1 2\r\n", "address of the client"),
        ("PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n", "address of the client"),
        ("PROXY TCP4 192.0.2.1\r\n", "address of the server"),
        ("PROXY TCP6 192.0.2.1 ::1 1 2\r\n", "address of the client"),
        ("PROXY TCP6 ::1 ::1%lo 1 2\r\n", "address of the server"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n", "port of the client"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n", "port of the client"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n", "port of the client"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1 -2\r\n", "port of the server"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n", "port of the server"),
        ("PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n", "family"),
        ("PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n", "family"),
        ("PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n", "family"),
        ("PROXY TCP4 é 198.51.100.1 1 2\r\n", "characters"),
    ] {
        assert_eq!(read_preface(line.as_bytes()), Err(PrefaceError::Malformed(place)), "{line:?}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(107));
    assert_eq!(read_preface(&endless.as_bytes()[..106]), Ok(Preface::More));
    assert_eq!(read_preface(endless.as_bytes()), Err(PrefaceError::Endless));
}

#[test]
fn version_2_names_a_client_of_tcp_and_skips_extensions() {
    let block = [&[192, 0, 2, 1, 198, 51, 100, 1, 0xDC, 4, 1, 0xBB][..], &[4, 0, 1, 0]].concat();
    let header = v2(0x21, 0x11, &block);
    assert_eq!(read_preface(&[&header[..], b"more"].concat()), whole(32, "192.0.2.1:56324"));
    let ip: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let block = [&ip.octets()[..], &[0; 16], &[0, 1, 0, 2]].concat();
    assert_eq!(read_preface(&v2(0x21, 0x21, &block)), whole(52, "[2001:db8::1]:1"));
}

#[test]
fn version_2_without_an_address_of_tcp_names_nobody() {
    for (command, family, block) in
        [(0x20, 0x00, 0), (0x20, 0x11, 3), (0x20, 0xFF, 7), (0x21, 0x00, 9), (0x21, 0x31, 216)]
    {
        let header = v2(command, family, &vec![1; block]);
        assert_eq!(read_preface(&header), whole(16 + block, ""), "{command:x} {family:x}");
    }
}

#[test]
fn version_2_that_cannot_be_read_is_refused() {
    for (header, error) in [
        (v2(0x11, 0x11, &[0; 12]), PrefaceError::Version(1)),
        (v2(0x31, 0x11, &[0; 12]), PrefaceError::Version(3)),
        (v2(0x22, 0x11, &[0; 12]), PrefaceError::Command(2)),
        (v2(0x21, 0x12, &[0; 12]), PrefaceError::Family(0x12)),
        (v2(0x21, 0x41, &[0; 12]), PrefaceError::Family(0x41)),
        (v2(0x21, 0x11, &[0; 11]), PrefaceError::TooShort(11)),
        (v2(0x21, 0x21, &[0; 35]), PrefaceError::TooShort(35)),
        (v2(0x21, 0x31, &[0; 215]), PrefaceError::TooShort(215)),
        (v2(0x21, 0x11, &[0; 537]), PrefaceError::TooLong(537)),
    ] {
        assert_eq!(read_preface(&header), Err(error));
    }
    assert_eq!(read_preface(&v2(0x21, 0x11, &[0; 536])), whole(PREFACE_BYTES_MAX, "0.0.0.0:0"));
    // Announced lengths are refused before anything of them has come.
    let announced = &v2(0x21, 0x11, &[0; 600])[..16];
    assert_eq!(read_preface(announced), Err(PrefaceError::TooLong(600)));
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written_and_not_before_it_is_whole(
        bits: u128, port: u16, is_v4: bool, is_first: bool, extensions in 0usize..500
    ) {
        let ip = if is_v4 { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() };
        let client = SocketAddr::new(ip, port);
        let header = match (is_first, client.ip()) {
            (true, ip) if is_v4 => format!("PROXY TCP4 {ip} 127.0.0.1 {port} 1\r\n").into_bytes(),
            (true, ip) => format!("PROXY TCP6 {ip} ::1 {port} 1\r\n").into_bytes(),
            (false, std::net::IpAddr::V4(ip)) => {
                let block = [&ip.octets()[..], &[0; 4], &port.to_be_bytes(), &[0; 2], &vec![4; extensions]];
                v2(0x21, 0x11, &block.concat())
            }
            (false, std::net::IpAddr::V6(ip)) => {
                let block = [&ip.octets()[..], &[0; 16], &port.to_be_bytes(), &[0; 2], &vec![4; extensions]];
                v2(0x21, 0x21, &block.concat())
            }
        };
        let length = header.len();
        let client = SocketAddr::new(client.ip().to_canonical(), port);
        let behind = [&header[..], b"PROXY UNKNOWN\r\n"].concat();
        prop_assert_eq!(read_preface(&behind), Ok(Preface::Whole { length, client: Some(client) }));
        for end in 0..length {
            let part = &header[..end];
            let waits = recognise(part) == Recognised::More || read_preface(part) == Ok(Preface::More);
            prop_assert!(waits, "{:?}", part);
        }
    }
}
