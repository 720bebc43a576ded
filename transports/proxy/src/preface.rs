//! The header of the PROXY protocol, versions 1 and 2, with which a connection of a proxy begins.
//!
//! The specification is HAProxy's `doc/proxy-protocol.txt`. Invariant: a header is recognised by its first bytes, and
//! refused as soon as it is seen to be malformed or longer than [`PREFACE_BYTES_MAX`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether bytes begin with a header, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// Too few to tell.
    More,
    /// They do.
    Yes,
    /// They do not.
    No,
}

/// What there is of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preface {
    /// It is not whole.
    More,
    /// It is.
    Whole {
        /// Bytes that it takes.
        length: usize,
        /// The proxy's client; absent if the connection is the proxy's own, or its client has no IP address.
        client: Option<SocketAddr>,
    },
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefaceError {
    /// Version 1 without its end.
    #[error("the header of the PROXY protocol has no end within {V1_BYTES_MAX} bytes")]
    Endless,
    /// Version 1 that is no `PROXY TCP4 client server port port`.
    #[error("the header of the PROXY protocol, version 1, is malformed at its {0}")]
    Malformed(&'static str),
    /// A version that nobody has written down.
    #[error("version {0} of the PROXY protocol is not known; 1 and 2 are")]
    Version(u8),
    /// A command that is neither LOCAL nor PROXY.
    #[error("command {0} of the PROXY protocol is not known; 0 and 1 are")]
    Command(u8),
    /// A family of addresses or a kind of socket that is not known.
    #[error("address family {0:#04x} of the PROXY protocol is not one of a stream")]
    Family(u8),
    /// More than is taken.
    #[error(
        "the header of the PROXY protocol announces {0} bytes, more than {V2_LENGTH_MAX}; have the proxy send fewer extensions"
    )]
    TooLong(usize),
    /// Fewer bytes than the addresses take.
    #[error("the header of the PROXY protocol announces {0} bytes, too few for its addresses")]
    TooShort(usize),
}

/// Whether a connection begins with a header. So many bytes as an answer needs are few: at most 12.
pub fn recognise(bytes: &[u8]) -> Recognised {
    if begins(bytes, V2_SIGNATURE) {
        return known(bytes.len() >= V2_SIGNATURE.len());
    }
    if !begins(bytes, V1_SIGNATURE) {
        return Recognised::No;
    }
    match bytes.get(V1_SIGNATURE.len()) {
        None => Recognised::More,
        // A request of HTTP with a method of that name.
        Some(b'/' | b'*' | b'h') => Recognised::No,
        Some(_) => Recognised::Yes,
    }
}

/// Reads the header of a connection that begins with one.
///
/// # Errors
/// Says what is wrong with it; nothing that follows may be believed.
pub fn read_preface(bytes: &[u8]) -> Result<Preface, PrefaceError> {
    if begins(bytes, V2_SIGNATURE) { read_v2(bytes) } else { read_v1(bytes) }
}

fn read_v1(bytes: &[u8]) -> Result<Preface, PrefaceError> {
    let within = bytes.get(..V1_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        let is_over = within.len() == V1_BYTES_MAX;
        return if is_over { Err(PrefaceError::Endless) } else { Ok(Preface::More) };
    };
    let length = end + 1;
    let line = within.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.ok_or(PrefaceError::Malformed("end"))?;
    let line = std::str::from_utf8(line).ok().filter(|line| line.is_ascii());
    let line = line.ok_or(PrefaceError::Malformed("characters"))?;
    let mut words = line.split(' ').skip(1);
    let malformed = PrefaceError::Malformed;
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(Preface::Whole { length, client: None });
    }
    let mut address = |place| {
        let word = words.next().unwrap_or_default();
        let address = match family {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => return Err(malformed("family")),
        };
        address.ok_or(malformed(place))
    };
    let client = address("address of the client")?;
    address("address of the server")?;
    let mut port = |place| words.next().and_then(port_of).ok_or(malformed(place));
    let client = SocketAddr::new(client.to_canonical(), port("port of the client")?);
    port("port of the server")?;
    if words.next().is_some() {
        return Err(malformed("end"));
    }
    Ok(Preface::Whole { length, client: Some(client) })
}

/// A port as the protocol writes it: decimal, without leading zeros.
fn port_of(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = word.len() > 1 && word.starts_with('0');
    word.parse().ok().filter(|_| is_plain && !has_zeros)
}

fn read_v2(bytes: &[u8]) -> Result<Preface, PrefaceError> {
    // Each of these is judged as soon as it is there.
    if let Some(byte) = bytes.get(12) {
        match (byte >> 4, byte & 15) {
            (2, LOCAL | PROXY) => {}
            (2, command) => return Err(PrefaceError::Command(command)),
            (version, _) => return Err(PrefaceError::Version(version)),
        }
    }
    let is_local = bytes.get(12).is_some_and(|byte| byte & 15 == LOCAL);
    let least = match bytes.get(13) {
        _ if is_local => 0,
        None => 0,
        Some(&UNSPEC) => 0,
        Some(&TCP4) => 12,
        Some(&TCP6) => 36,
        Some(&UNIX) => 216,
        Some(family) => return Err(PrefaceError::Family(*family)),
    };
    let Some([high, low]) = bytes.get(14..V2_BYTES) else { return Ok(Preface::More) };
    let announced = usize::from(u16::from_be_bytes([*high, *low]));
    if announced > V2_LENGTH_MAX {
        return Err(PrefaceError::TooLong(announced));
    }
    if announced < least {
        return Err(PrefaceError::TooShort(announced));
    }
    let length = V2_BYTES + announced;
    let Some(block) = bytes.get(V2_BYTES..length) else { return Ok(Preface::More) };
    let client = match bytes.get(13) {
        _ if is_local => None,
        Some(&TCP4) => socket::<4>(block, 8).map(|(ip, port)| SocketAddr::from((ip, port))),
        Some(&TCP6) => socket::<16>(block, 32).map(|(ip, port)| SocketAddr::from((ip, port))),
        _ => None,
    };
    let canonical = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
    Ok(Preface::Whole { length, client: client.map(canonical) })
}

/// The client's address at the front of a block, and its port at that place.
fn socket<const BYTES: usize>(block: &[u8], port_at: usize) -> Option<([u8; BYTES], u16)> {
    let port = block.get(port_at..)?.first_chunk::<2>()?;
    Some((*block.first_chunk::<BYTES>()?, u16::from_be_bytes(*port)))
}

/// Whether the bytes begin with the mark, or the mark with the bytes.
fn begins(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.iter().zip(mark).all(|(byte, of_mark)| byte == of_mark)
}

fn known(is_whole: bool) -> Recognised {
    if is_whole { Recognised::Yes } else { Recognised::More }
}

/// The longest header that is taken.
pub const PREFACE_BYTES_MAX: usize = V2_BYTES + V2_LENGTH_MAX;
/// The longest header of version 1: its section 2.1 counts it.
const V1_BYTES_MAX: usize = 107;
/// What is taken behind the first bytes of version 2: the longest addresses have 216, the extensions that proxies
/// usually send less than a hundred.
const V2_LENGTH_MAX: usize = 536;
const V1_SIGNATURE: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the version and command, the family, and two bytes of length.
const V2_BYTES: usize = 16;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;
