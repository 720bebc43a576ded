//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariants: the outcome does not depend on how input is cut, and what a client adds before
//! the entry of a trusted proxy changes nothing.

use std::net::SocketAddr;

use tiderace_base::{Network, Networks};
use tiderace_proxy::{
    ClientField, PREFACE_BYTES_MAX, Preface, Recognised, client_of, read_preface, recognise,
};

/// A header, whole and growing octet by octet.
pub fn preface(data: &[u8]) {
    let whole = read(data);
    let growing = (0..=data.len()).map(|end| read(&data[..end]));
    let decided = growing.take(PREFACE_BYTES_MAX + 1).find(|read| *read != Outcome::More);
    assert_eq!(decided.unwrap_or(Outcome::More), whole, "cutting the input changes the outcome");
    match whole {
        Outcome::More => assert!(data.len() < PREFACE_BYTES_MAX, "the wait is bounded"),
        Outcome::Whole(length, client) => {
            assert!(length <= data.len().min(PREFACE_BYTES_MAX));
            assert!(client.is_none_or(|it| it.ip() == it.ip().to_canonical()));
        }
        Outcome::None | Outcome::Refused => {}
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    More,
    None,
    Refused,
    Whole(usize, Option<SocketAddr>),
}

fn read(data: &[u8]) -> Outcome {
    match recognise(data) {
        Recognised::More => Outcome::More,
        Recognised::No => Outcome::None,
        Recognised::Yes => match read_preface(data) {
            Ok(Preface::More) => Outcome::More,
            Ok(Preface::Whole { length, client }) => Outcome::Whole(length, client),
            Err(_) => Outcome::Refused,
        },
    }
}

/// A field that a client has sent, alone and behind which a trusted proxy has added the client in a field of its own.
pub fn forwarded(data: &[u8]) {
    let networks: [Network; 2] = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
    let trusted: Networks = networks.into_iter().collect();
    let peer = SocketAddr::from(([10, 0, 0, 1], 7));
    for (field, added) in [
        (ClientField::XForwardedFor, "192.0.2.7"),
        (ClientField::Forwarded, "proto=https;for=192.0.2.7"),
    ] {
        let sent = (field.name(), data);
        match client_of(field, [sent].into_iter(), &trusted, peer) {
            Ok(client) => assert!(client.ip() == client.ip().to_canonical()),
            Err(error) => assert!(error.to_string().len() < 1024),
        }
        let fields = [sent, (field.name(), added.as_bytes())];
        let client = client_of(field, fields.into_iter(), &trusted, peer);
        assert_eq!(client, Ok(SocketAddr::from(([192, 0, 2, 7], 0))));
    }
}
