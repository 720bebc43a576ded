//! The session against the specification, sentence by sentence (Protocol.md of rsocket/rsocket).
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route, run, setup};
use tiderace_base::{CloseCode, Span};
use tiderace_rsocket::frame::{
    Body, Extension, Frame, Interaction, KeepAlive, Lease as LeaseFrame, NUMBER_MAX, Payload,
    Request, Resume, Setup, flag, kind,
};
use tiderace_rsocket::metadata::{Authentication, Mime, write_entry};
use tiderace_rsocket::{EchoOptions, Lease, RSocketOptions};
use tiderace_wire::{Command, Exchange, ExchangeKey, Kind, Reply};

fn echoing() -> RSocketOptions {
    let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1 << 20 });
    RSocketOptions { echo, ..RSocketOptions::default() }
}

/// What a first frame leads to.
fn first(options: RSocketOptions, frame: &Frame<'_>) -> (Vec<String>, Option<CloseCode>) {
    let mut rig = Rig::fresh(options);
    rig.send(frame);
    (rig.received(), rig.end.map(|close| close.code))
}

fn first_setup(setup: Setup<'_>) -> Vec<String> {
    first(RSocketOptions::default(), &Frame::connection(Body::Setup(setup))).0
}

/// "If the server rejects the contents of the SETUP frame it MUST respond with an ERROR[INVALID_SETUP]"
/// and "Stream ID MUST be 0".
#[test]
fn the_first_frame_is_setup_or_resume_on_stream_0() {
    for frame in [
        Frame::request_n(1, 1),
        Frame::cancel(1),
        Frame { stream: 1, body: Body::Setup(setup()) },
        Frame::connection(Body::KeepAlive(KeepAlive { respond: true, position: 0, data: b"" })),
        Frame::connection(Body::MetadataPush(b"x")),
    ] {
        let (received, end) = first(RSocketOptions::default(), &frame);
        assert_eq!(received, ["0 ERROR INVALID_SETUP unexpected-frame"], "{frame:?}");
        assert_eq!(end, Some(CloseCode::UnexpectedFrame));
    }
}

/// "UNSUPPORTED_SETUP: Some (or all) of the parameters specified by the client are unsupported".
#[test]
fn another_major_version_is_not_supported() {
    let received = first_setup(Setup { version: (2, 0), ..setup() });
    assert_eq!(received, ["0 ERROR UNSUPPORTED_SETUP unsupported-version"]);
    assert!(first_setup(Setup { version: (1, 9), ..setup() }).is_empty());
}

/// "Time Between KEEPALIVE Frames … Value MUST be > 0", "Max Lifetime … Value MUST be > 0".
#[test]
fn keepalive_times_are_above_zero() {
    for wrong in [Setup { interval_ms: 0, ..setup() }, Setup { lifetime_ms: 0, ..setup() }] {
        assert_eq!(first_setup(wrong), ["0 ERROR INVALID_SETUP bad-header"]);
    }
}

/// A SETUP that promises more KEEPALIVEs than may come is refused at once, and not when they have come.
#[test]
fn a_keepalive_interval_below_the_limit_is_refused() {
    for (interval_ms, allowed) in [(99, false), (10, false), (100, true)] {
        let mut rig =
            Rig::fresh(RSocketOptions { keepalives_max: 10, ..RSocketOptions::default() });
        rig.send(&Frame::connection(Body::Setup(Setup { interval_ms, ..setup() })));
        assert_eq!(rig.end.is_none(), allowed, "{interval_ms}");
        if !allowed {
            assert_eq!(rig.received(), ["0 ERROR REJECTED_SETUP too-many-signs"]);
        }
    }
}

/// "REJECTED_SETUP: The server rejected the setup, it can specify the reason in the payload."
#[test]
fn logins_that_fail_reject_the_setup() {
    let mut rig = Rig::fresh(RSocketOptions::default());
    rig.send(&Frame::connection(Body::Setup(setup())));
    rig.reply(Reply::Refused { token: None, close: CloseCode::LoginFailed.into() });
    assert_eq!(rig.received(), ["0 ERROR REJECTED_SETUP login-failed"]);
    let options = RSocketOptions { resume: None, ..RSocketOptions::default() };
    let token = Setup { token: Some(b"0123456789abcdef"), ..setup() };
    let (received, _) = first(options, &Frame::connection(Body::Setup(token)));
    assert_eq!(received, ["0 ERROR REJECTED_SETUP too-many-detached"], "resume is not supported");
}

#[test]
fn credentials_are_simple_or_bearer() {
    let login = |metadata: &[u8], mime: &'static [u8]| {
        let mut rig = Rig::fresh(RSocketOptions::default());
        let payload = Payload::new(metadata, b"");
        let setup = Setup { payload, metadata_mime: mime, ..setup() };
        rig.send(&Frame::connection(Body::Setup(setup)));
        match rig.asked().pop() {
            Some(Command::Login(credentials)) => Some((
                credentials.login.unwrap_or_default(),
                credentials.passcode.unwrap_or_default(),
                credentials.token.unwrap_or_default(),
            )),
            _ => None,
        }
    };
    let entry = |authentication: Authentication<'_>| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        authentication.write(&mut bytes);
        write_entry(Mime::AUTHENTICATION, &bytes, &mut out);
        (bytes, out)
    };
    const COMPOSITE: &[u8] = b"message/x.rsocket.composite-metadata.v0";
    let (alone, composite) = entry(Authentication::Simple { user: "ann", password: "sesame" });
    let expected = Some(("ann".to_owned(), "sesame".to_owned(), String::new()));
    assert_eq!(login(&composite, COMPOSITE), expected);
    assert_eq!(login(&alone, b"message/x.rsocket.authentication.v0"), expected);
    let (_, composite) = entry(Authentication::Bearer("t0k"));
    assert_eq!(login(&composite, COMPOSITE).unwrap().2, "t0k");
    let mut old = Vec::new();
    write_entry(Mime::Name("message/x.rsocket.authentication.bearer.v0"), b"t1k", &mut old);
    assert_eq!(login(&old, COMPOSITE).unwrap().2, "t1k");
    let (_, composite) = entry(Authentication::Named("kerberos", b"x"));
    assert_eq!(login(&composite, COMPOSITE), None);
    assert_eq!(login(b"", COMPOSITE), Some(Default::default()));
}

/// "the entry `message/x.tiderace.host` of its composite metadata"
#[test]
fn a_setup_may_name_a_host() {
    for with_login in [false, true] {
        let mut rig = Rig::fresh(RSocketOptions::default());
        let mut metadata = Vec::new();
        write_entry(Mime::Name("message/x.tiderace.host"), b"shop.example", &mut metadata);
        if with_login {
            let mut bytes = Vec::new();
            Authentication::Bearer("t").write(&mut bytes);
            write_entry(Mime::AUTHENTICATION, &bytes, &mut metadata);
        }
        let payload = Payload::new(&metadata, b"");
        let metadata_mime = b"message/x.rsocket.composite-metadata.v0";
        rig.send(&Frame::connection(Body::Setup(Setup { payload, metadata_mime, ..setup() })));
        let Some(Command::Login(who)) = rig.asked().pop() else { panic!("no login") };
        assert_eq!(who.host.as_deref(), Some("shop.example"));
        assert_eq!(who.token.is_some(), with_login);
    }
}

#[test]
fn other_credentials_of_a_request_are_refused() {
    let mut rig = Rig::with(echoing());
    let (mut bytes, mut metadata) = (Vec::new(), Vec::new());
    Authentication::Bearer("admin").write(&mut bytes);
    write_entry(Mime::AUTHENTICATION, &bytes, &mut metadata);
    rig.request(Interaction::Response, 1, 0, Some(&metadata), b"x");
    assert_eq!(rig.received(), ["1 ERROR APPLICATION_ERROR login-failed"]);
    let payload = Payload::new(&metadata, b"");
    let mut rig = Rig::set_up(echoing(), &Setup { payload, ..setup() });
    rig.request(Interaction::Response, 1, 0, Some(&metadata), b"x");
    assert_eq!(rig.received().len(), 1, "what SETUP said may be said again");
}

/// "the Requester … can immediately send requests if it wishes after sending the SETUP".
#[test]
fn requests_may_follow_setup_at_once() {
    let mut rig = Rig::fresh(echoing());
    let mut bytes = Vec::new();
    Frame::connection(Body::Setup(setup())).write(tiderace_wire::Framing::Stream, &mut bytes);
    let body = Body::Request(Request {
        interaction: Interaction::Response,
        follows: false,
        complete: false,
        credit: 0,
        payload: Payload::data(b"early"),
    });
    Frame { stream: 1, body }.write(tiderace_wire::Framing::Stream, &mut bytes);
    rig.send_bytes(&bytes);
    assert!(rig.received().is_empty() && rig.input.len() == 14, "they wait for the login");
    rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
    assert_eq!(rig.received(), ["1 PAYLOAD CN early"]);
}

/// "If a SETUP frame is received after the first … MUST be ignored"; RESUME is an error.
#[test]
fn a_second_setup_is_ignored() {
    let mut rig = Rig::with(RSocketOptions { faults_max: 2, ..echoing() });
    let again = Frame::connection(Body::Setup(setup()));
    rig.send(&again);
    rig.send(&again);
    assert!(rig.received().is_empty() && rig.end.is_none());
    rig.send(&again);
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR too-many-faults"]);
    let mut rig = Rig::new();
    let resume = Resume { version: (1, 0), token: b"x", received: 0, available: 0 };
    rig.send(&Frame::connection(Body::Resume(resume)));
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR unexpected-frame"]);
}

/// "(R)espond with KEEPALIVE … Data attached to a keepalive … MUST be echoed".
#[test]
fn keepalives_are_answered_with_their_data() {
    let mut rig = Rig::new();
    let sign = |respond, data| KeepAlive { respond, position: 0, data };
    rig.send(&Frame::connection(Body::KeepAlive(sign(true, b"hello"))));
    rig.send(&Frame::connection(Body::KeepAlive(sign(false, b"hello"))));
    assert_eq!(rig.received(), ["0 KEEPALIVE - 0 hello"]);
}

/// "the server MUST … if no KEEPALIVE within Max Lifetime assume the client is dead".
#[test]
fn a_client_that_is_silent_for_its_lifetime_is_gone() {
    let mut rig = Rig::new();
    rig.wait(Span::from_secs(80));
    rig.send(&Frame::cancel(1));
    rig.wait(Span::from_secs(80));
    assert!(rig.end.is_none(), "any frame is a sign of life");
    rig.wait(Span::from_secs(11));
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR heart-beat-timeout"]);
}

#[test]
fn lifetimes_are_clamped_and_clients_asked() {
    let mut rig = Rig::set_up(
        RSocketOptions::default(),
        &Setup { lifetime_ms: NUMBER_MAX, interval_ms: NUMBER_MAX, ..setup() },
    );
    rig.wait(Span::from_secs(151));
    assert_eq!(rig.received(), ["0 KEEPALIVE R 0"]);
    let sign = KeepAlive { respond: false, position: 0, data: b"" };
    rig.send(&Frame::connection(Body::KeepAlive(sign)));
    rig.wait(Span::from_secs(299));
    assert_eq!(rig.received(), ["0 KEEPALIVE R 0"]);
    assert!(rig.end.is_none());
    rig.wait(Span::from_secs(2));
    assert_eq!(rig.end.unwrap().code, CloseCode::HeartBeatTimeout);
    let mut rig = Rig::set_up(RSocketOptions::default(), &Setup { lifetime_ms: 1, ..setup() });
    rig.wait(Span::from_millis(1900));
    assert!(rig.end.is_none(), "the shortest lifetime is two seconds");
}

/// "Stream ID: … Client … odd", "MUST ignore … a request with an id that is in use".
#[test]
fn ids_of_requests_are_odd_and_free() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, 1, None, b"kept");
    for stream in [1, 2, 0] {
        rig.request(Interaction::Stream, stream, 1, None, b"not taken");
    }
    assert!(rig.received().is_empty());
    rig.wait(Span::from_secs(1));
    assert_eq!(rig.received(), ["1 PAYLOAD N kept"]);
}

/// "Initial Request N … Value MUST be > 0", "Request N … Value MUST be > 0".
#[test]
fn demand_of_zero_is_no_demand() {
    let mut rig = Rig::with(RSocketOptions { faults_max: 1, ..echoing() });
    rig.request(Interaction::Stream, 1, 0, None, b"x");
    assert_eq!(rig.received(), ["1 ERROR INVALID bad-frame"]);
    rig.send(&Frame::request_n(1, 0));
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR too-many-faults"]);
}

/// "REQUEST_N … credits are additive"; 2³¹-1 twice is not an overflow.
#[test]
fn demand_adds_up_beyond_31_bits() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, NUMBER_MAX, None, b"x");
    for _ in 0..4 {
        rig.send(&Frame::request_n(1, NUMBER_MAX));
    }
    rig.wait(Span::from_secs(3));
    assert_eq!(rig.received().len(), 3);
}

/// "CANCEL, ERROR, PAYLOAD … on an unknown stream: MUST be ignored".
#[test]
fn frames_for_streams_that_are_over_are_ignored() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Response, 7, 0, None, b"x");
    rig.received();
    rig.send(&Frame::cancel(7));
    rig.send(&Frame::request_n(5, 1));
    rig.send(&Frame::error(3, tiderace_rsocket::frame::ErrorCode::APPLICATION_ERROR, "x"));
    assert!(rig.received().is_empty() && rig.end.is_none());
}

/// "Request-channel: … Responder … ERROR … if it gets more than it asked for" (here: and the stream ends).
#[test]
fn items_beyond_the_demand_end_the_stream() {
    let mut rig = Rig::with(RSocketOptions { faults_max: 10, ..echoing() });
    rig.request(Interaction::Channel, 1, 2, None, b"a");
    assert_eq!(rig.received(), ["1 PAYLOAD N a", "1 REQUEST_N 1"]);
    let item = Frame::item(1, Payload::data(b"b"), false);
    rig.send(&item);
    rig.send(&item);
    assert_eq!(rig.received(), ["1 PAYLOAD N b", "1 ERROR INVALID unexpected-frame"]);
    for _ in 0..40 {
        rig.send(&item);
    }
    assert_eq!(rig.end.unwrap().code, CloseCode::TooManyFaults);
}

/// "If the LEASE flag is set … the server MUST send a LEASE".
#[test]
fn leases_are_given_honoured_and_renewed() {
    let lease = Lease { requests: 2, ttl: Span::from_secs(10) };
    let options = RSocketOptions { lease, ..echoing() };
    let mut rig = Rig::set_up(options, &Setup { lease: true, ..setup() });
    assert_eq!(rig.received(), ["0 LEASE 10000 2"]);
    for stream in [1, 3, 5] {
        rig.request(Interaction::Response, stream, 0, None, b"x");
    }
    assert_eq!(rig.received()[2], "5 ERROR REJECTED too-many-calls");
    rig.wait(Span::from_secs(5));
    assert_eq!(rig.received(), ["0 LEASE 10000 2"]);
    rig.request(Interaction::Response, 7, 0, None, b"x");
    assert_eq!(rig.received(), ["7 PAYLOAD CN x"]);
}

/// "Lease … both ways": a client that serves is asked no more than it leased.
#[test]
fn the_servers_requests_need_leases_too() {
    let mut rig = Rig::set_up(RSocketOptions::default(), &Setup { lease: true, ..setup() });
    rig.request(Interaction::Stream, 1, 9, Some(&route("serve:sum")), b"");
    rig.received();
    rig.asked();
    let call = |rig: &mut Rig, number| {
        let key = ExchangeKey::responder(number);
        let exchange = Exchange { key, first: true, last: true, bare: false, credit: None };
        rig.deliver_exchange(0, &run(Kind::Service, "sum", 1, &[b"x"]), exchange);
        rig.wait(Span::ZERO);
        rig.asked().len()
    };
    assert_eq!(call(&mut rig, 1), 1, "it is cancelled");
    assert!(rig.received().is_empty());
    let lease = LeaseFrame { ttl_ms: 1000, requests: 1, metadata: None };
    rig.send(&Frame::connection(Body::Lease(lease)));
    assert_eq!(call(&mut rig, 2), 0);
    assert_eq!(call(&mut rig, 3), 1);
    assert_eq!(rig.received().len(), 1);
    let lease = LeaseFrame { ttl_ms: 1000, requests: 5, metadata: None };
    rig.send(&Frame::connection(Body::Lease(lease)));
    rig.wait(Span::from_secs(2));
    assert_eq!(call(&mut rig, 4), 1, "it is over");
}

/// "METADATA_PUSH … is fire-and-forget"; a flood of them ends the connection.
#[test]
fn metadata_pushes_are_taken_at_a_rate() {
    let mut rig = Rig::new();
    let push = Frame::connection(Body::MetadataPush(b"note"));
    for _ in 0..10 {
        rig.send(&push);
    }
    assert!(rig.end.is_none());
    rig.send(&push);
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR too-many-signs"]);
}

/// "EXT … (I)gnore: if the extension is not understood".
#[test]
fn extensions_are_ignored_if_they_may_be() {
    let mut rig = Rig::new();
    let extension = |ignore| Extension { ignore, metadata: false, kind: 7, bytes: b"x" };
    rig.send(&Frame::connection(Body::Extension(extension(true))));
    rig.send(&Frame { stream: 9, body: Body::Extension(extension(true)) });
    assert!(rig.end.is_none());
    rig.send(&Frame::connection(Body::Extension(extension(false))));
    assert_eq!(rig.end.unwrap().code, CloseCode::UnexpectedFrame);
}

/// "Unknown frame type … if (I)gnore is not set … MAY … CONNECTION_ERROR".
#[test]
fn unknown_types_are_ignored_if_they_may_be() {
    let frame = |flags: u16| {
        let [a, b] = (u16::from(0x20u8) << 10 | flags).to_be_bytes();
        [0, 0, 6, 0, 0, 0, 1, a, b]
    };
    let mut rig = Rig::new();
    rig.send_bytes(&frame(flag::IGNORE));
    assert!(rig.end.is_none());
    rig.send_bytes(&frame(0));
    assert_eq!(rig.end.unwrap().code, CloseCode::BadFrame);
}

/// "Metadata Length … MUST … not exceed the frame": CONNECTION_ERROR.
#[test]
fn metadata_that_is_longer_than_its_frame_ends_the_connection() {
    let mut rig = Rig::new();
    let head = (u16::from(kind::REQUEST_RESPONSE) << 10 | flag::METADATA).to_be_bytes();
    rig.send_bytes(&[&[0, 0, 10, 0, 0, 0, 1][..], &head, &[0xff, 0xff, 0xff, b'x']].concat());
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_ERROR bad-frame"]);
}

/// "CONNECTION_CLOSE … the connection is being terminated", said when the server stops.
#[test]
fn a_server_that_stops_says_so() {
    let mut rig = Rig::new();
    rig.call(|_, _, _| Err(CloseCode::ShuttingDown.into()));
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_CLOSE shutting-down"]);
    let mut rig = Rig::new();
    rig.call(|_, _, _| Err(CloseCode::Draining.into()));
    assert_eq!(rig.received(), ["0 ERROR CONNECTION_CLOSE draining"]);
}

/// "ERROR on stream 0 … closes the connection".
#[test]
fn a_client_may_end_the_connection() {
    let mut rig = Rig::new();
    let code = tiderace_rsocket::frame::ErrorCode::CONNECTION_CLOSE;
    rig.send(&Frame::error(0, code, "bye"));
    assert_eq!(rig.end.unwrap().code, CloseCode::Done);
}

#[test]
fn too_many_requests_are_rejected() {
    let mut rig = Rig::with(RSocketOptions { streams_max: 2, ..echoing() });
    for stream in [1, 3, 5] {
        rig.request(Interaction::Stream, stream, 1, None, b"x");
    }
    assert_eq!(rig.received(), ["5 ERROR REJECTED too-many-calls"]);
    rig.send(&Frame::cancel(1));
    rig.request(Interaction::Stream, 7, 1, None, b"x");
    assert!(rig.received().is_empty());
}

#[test]
fn a_client_that_does_not_log_in_in_time_is_told() {
    let mut rig = Rig::fresh(RSocketOptions::default());
    rig.wait(Span::from_secs(6));
    assert_eq!(rig.received(), ["0 ERROR INVALID_SETUP login-timeout"]);
}

#[test]
fn fragments_that_do_not_come_end_the_connection() {
    let mut rig = Rig::with(echoing());
    rig.request_with(
        1,
        &Request {
            interaction: Interaction::Response,
            follows: true,
            complete: false,
            credit: 0,
            payload: Payload::data(&[b'x'; 100]),
        },
    );
    rig.wait(Span::from_secs(31));
    assert_eq!(rig.end.unwrap().code, CloseCode::FrameTimeout);
}
