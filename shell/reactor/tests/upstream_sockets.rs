//! Connections to other servers over real sockets: to our own, secured and not, and to one that others wrote.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::common::upstream::{HELLO, Seen, WELCOME, trusting, upstream};
use crate::common::{AtOnce, metric, services};
use socket2::{Domain, Socket, Type};
use tiderace_base::Span;
use tiderace_reactor::{
    ListenerOptions, NodeHandle, Options, UpstreamOptions, UpstreamState, UpstreamStatus, spawn,
};
use tiderace_tls::{Choices, ClientCertificates, Identity, Settings, Version};
use tungstenite::handshake::server::{Request, Response};
use tungstenite::{Message, accept_hdr};

const NAMES: &[&str] = &["tiderace.v1"];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A certificate for a name, and its key, both in PEM; it has expired if that is wanted.
fn certificate(name: &str, is_old: bool) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wanted = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    wanted.not_before = rcgen::date_time_ymd(2020, 1, 1);
    wanted.not_after = rcgen::date_time_ymd(if is_old { 2021 } else { 2120 }, 1, 1);
    (wanted.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// A node that speaks the native protocol, with that certificate if there is one.
fn source(certificate: Option<&(String, String)>) -> NodeHandle {
    let tls = certificate.map(|(chain, key)| {
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        Settings::new(Choices {
            identities: vec![identity],
            version_min: Version::Tls12,
            clients: ClientCertificates::Unasked,
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            clock: now,
        })
        .unwrap()
    });
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let mut served = services(Arc::new(AtOnce));
    let paths = Arc::from(["/tiderace".to_owned()]);
    served.protocols.push(tiderace_native::protocol(Arc::default(), paths));
    spawn(Options { shards: 2, listeners, tls, ..Options::default() }, served).unwrap()
}

/// A node that connects to an upstream and listens nowhere.
fn edge(upstream: UpstreamOptions) -> NodeHandle {
    let options = Options { upstreams: vec![upstream], ..Options::default() };
    spawn(options, services(Arc::new(AtOnce))).unwrap()
}

fn stop(node: NodeHandle) {
    let control = node.control();
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    assert_eq!(control.connections(), 0);
    assert_eq!(metric(&control.metrics(), "tiderace_write_backlog_bytes", &[]), 0);
}

fn wait(edge: &NodeHandle, what: &str, done: impl Fn(&UpstreamStatus) -> bool) -> UpstreamStatus {
    let start = Instant::now();
    loop {
        let status = edge.control().upstreams().remove(0);
        if done(&status) {
            return status;
        }
        assert!(start.elapsed() < Span::from_secs(20), "waited in vain for {what}: {status:?}");
        std::thread::yield_now();
    }
}

fn is_connected(status: &UpstreamStatus) -> bool {
    status.state == UpstreamState::Connected
}

#[test]
fn our_own_server_is_reached_by_name_and_by_address() {
    for host in ["localhost", "127.0.0.1"] {
        let source = source(None);
        let port = source.addresses[0].port();
        let url = format!("ws://{host}:{port}");
        let (upstream, seen) = upstream(&[&url], NAMES, &[HELLO], 1);
        let edge = edge(upstream);
        let status = wait(&edge, "the welcome", is_connected);
        assert_eq!(seen.heard()[0], WELCOME);
        assert_eq!(status.url, url);
        assert_eq!(status.address.map(|it| it.port()), Some(port));
        // It goes, and its goodbye is heard.
        stop(source);
        wait(&edge, "the loss", |status| status.failures > 0);
        assert_eq!(seen.closed(), 1);
        stop(edge);
    }
}

#[test]
fn a_server_with_a_certificate_of_its_own_is_trusted_by_that() {
    let made = certificate("localhost", false);
    let source = source(Some(&made));
    let url = format!("wss://localhost:{}", source.addresses[0].port());
    let (mut upstream, seen) = upstream(&[&url], NAMES, &[HELLO], 1);
    upstream.tls = Some(trusting(&made.0, now));
    let edge = edge(upstream);
    wait(&edge, "the welcome", is_connected);
    assert_eq!(seen.heard()[0], WELCOME);
    assert_eq!(metric(&edge.metrics(), "tiderace_tls_connections", &[]), 1);
    stop(edge);
    stop(source);
}

#[test]
fn a_server_that_is_not_trusted_is_not_spoken_to() {
    let good = certificate("localhost", false);
    let old = certificate("localhost", true);
    let other = certificate("elsewhere.example", false);
    for (shown, trusted, words) in [
        (&good, &certificate("localhost", false), "tls_ca_file"),
        (&other, &other, "not valid for name"),
        (&old, &old, "days ago"),
    ] {
        let source = source(Some(shown));
        let url = format!("wss://localhost:{}", source.addresses[0].port());
        let (mut upstream, seen) = upstream(&[&url], NAMES, &[HELLO], 1);
        upstream.tls = Some(trusting(&trusted.0, now));
        let edge = edge(upstream);
        let status = wait(&edge, "the failure", |status| status.last_error.is_some());
        let error = status.last_error.unwrap();
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!(seen.opened(), 0);
        assert!(metric(&edge.metrics(), "tiderace_tls_failures_total", &["certificate"]) > 0);
        stop(edge);
        stop(source);
    }
}

#[test]
fn what_is_mistaken_for_the_other_is_said() {
    let made = certificate("localhost", false);
    let secured = source(Some(&made));
    let plain = source(None);
    let [secured_port, plain_port] = [&secured, &plain].map(|node| node.addresses[0].port());
    // A plain connection to a port that speaks TLS as well is no mistake; TLS to a plain one is.
    let (mut upstream, _) =
        upstream(&[&format!("wss://localhost:{plain_port}")], NAMES, &[HELLO], 1);
    upstream.tls = Some(trusting(&made.0, now));
    let edge = edge(upstream);
    let status = wait(&edge, "the failure", |status| status.last_error.is_some());
    let error = status.last_error.unwrap();
    assert!(error.contains("TLS"), "{secured_port}: {error}");
    for node in [edge, plain, secured] {
        stop(node);
    }
}

#[test]
fn a_port_where_nobody_listens_is_tried_until_somebody_does() {
    // Bound and not listening: it refuses connections, and nobody else is given its port.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let nobody = socket.local_addr().unwrap().as_socket().unwrap();
    let (upstream, seen) = upstream(&[&format!("ws://{nobody}")], NAMES, &[b"hi"], 2);
    let edge = edge(upstream);
    let status = wait(&edge, "refusals", |status| status.failures > 2);
    assert!(status.last_error.unwrap().contains("refuses connections"));
    socket.listen(1).unwrap();
    let server = foreign(socket.into());
    wait(&edge, "the connection", is_connected);
    assert_eq!(seen.heard(), b"hi");
    stop(edge);
    assert_eq!(server.join().unwrap(), 1);
}

/// tungstenite's server: says every message back until the client closes, and says how many there were.
fn foreign(listener: TcpListener) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        #[allow(clippy::result_large_err)]
        let choose = |request: &Request, mut response: Response| {
            assert_eq!(request.uri().path(), "/tiderace");
            assert_eq!(request.headers()["sec-websocket-protocol"], "tiderace.v1");
            response.headers_mut().insert("sec-websocket-protocol", "tiderace.v1".parse().unwrap());
            Ok(response)
        };
        // A frame that is not masked is an error to it.
        let mut socket = accept_hdr(stream, choose).unwrap();
        let mut count = 0;
        loop {
            match socket.read() {
                Ok(Message::Binary(payload)) => {
                    count += 1;
                    socket.send(Message::Binary(payload)).unwrap();
                }
                // The session's goodbye, and then the close frame.
                Ok(Message::Text(text)) => assert_eq!(text.as_str(), "BYE"),
                Ok(Message::Close(frame)) => assert_eq!(u16::from(frame.unwrap().code), 1012),
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed) => return count,
                Err(error) => panic!("{error}"),
            }
        }
    })
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap()
}

#[test]
fn a_server_that_others_wrote_reads_what_we_mask() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", address(&listener));
    let server = foreign(listener);
    // Lengths around every border of headers, of blocks and of what a socket takes at once.
    let lengths = [1, 2, 3, 4, 5, 124, 125, 126, 127, 4095, 4096, 65_535, 65_536, 65_537, 900_000];
    let hello: Vec<Vec<u8>> = lengths.iter().map(|len| noise(*len)).collect();
    let frames: Vec<&[u8]> = hello.iter().map(Vec::as_slice).collect();
    let expected = hello.concat();
    let (upstream, seen) = upstream(&[&url], NAMES, &frames, 1);
    let edge = edge(upstream);
    wait(&edge, "all of it", |status| {
        assert_eq!(status.failures, 0, "{status:?}");
        Seen::heard(&seen).len() >= expected.len()
    });
    assert!(Seen::heard(&seen) == expected, "bytes differ");
    stop(edge);
    assert_eq!(server.join().unwrap(), lengths.len());
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}
