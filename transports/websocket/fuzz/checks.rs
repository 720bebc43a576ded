//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariant: the outcome does not depend on how input is cut.

use tiderace_websocket::handshake::{
    OriginPattern, OriginPolicy, Policy, UpgradeRequest, accept, check_response,
};
use tiderace_websocket::{CloseError, Decoder, Event, HEADER_BYTES_MAX, Limits, Role};

const LIMITS: Limits = Limits {
    message_bytes_max: 4096,
    fragments_max: 32,
    empty_fragments_max: 4,
    control_run_max: 64,
};

/// The first byte chooses the role and the size of the pieces; the rest is the stream.
pub fn decode(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let whole = run(role, stream, stream.len().max(1));
    let pieces = run(role, stream, usize::from(choice >> 1) % 17 + 1);
    // A run of control frames is judged by what is at hand, so only it may differ.
    if whole.1 != Some(CloseError::ControlFlood) {
        assert_eq!(whole, pieces, "cutting the input changes the outcome");
    }
    let whole = run_parts(role, stream, stream.len().max(1));
    if whole.1 != Some(CloseError::ControlFlood) {
        assert_eq!(whole, run_parts(role, stream, usize::from(choice >> 1) % 17 + 1));
    }
}

/// The payload as a stream, and the error if there was one.
fn run_parts(role: Role, stream: &[u8], piece_len: usize) -> (Vec<u8>, Option<CloseError>) {
    let mut decoder = Decoder::new(role);
    let (mut payload, mut pending) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece_len) {
        pending.extend_from_slice(piece);
        loop {
            let at_hand = pending.len();
            let decoded = decoder.decode_parts(&LIMITS, LIMITS.message_bytes_max, &mut pending);
            let (consumed, is_event) = match decoded {
                Ok(decoded) => {
                    let is_event = !matches!(decoded.event, Event::Incomplete { .. });
                    match decoded.event {
                        Event::Part(part) => payload.extend_from_slice(part),
                        Event::Message { payload: whole, .. } => payload.extend_from_slice(whole),
                        Event::Reassembled { .. } => panic!("nothing is kept"),
                        _ => {}
                    }
                    (decoded.consumed, is_event)
                }
                // How much of a message is passed on before its fault is found depends on the cuts.
                Err(error) => return (Vec::new(), Some(error)),
            };
            assert!(consumed <= at_hand && decoder.heap_bytes() == 0);
            pending.drain(..consumed);
            if !is_event {
                break;
            }
        }
    }
    (payload, None)
}

/// Events in a comparable form, and the error if there was one.
fn run(role: Role, stream: &[u8], piece_len: usize) -> (Vec<String>, Option<CloseError>) {
    let mut decoder = Decoder::new(role);
    let (mut events, mut pending) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece_len) {
        pending.extend_from_slice(piece);
        loop {
            let at_hand = pending.len();
            let (consumed, event) = match decoder.decode(&LIMITS, &mut pending) {
                Ok(decoded) => (decoded.consumed, describe(&decoded.event)),
                Err(error) => return (events, Some(error)),
            };
            assert!(consumed <= at_hand, "no more is consumed than there is");
            assert!(decoder.heap_bytes() <= 2 * LIMITS.message_bytes_max + 128);
            pending.drain(..consumed);
            match event {
                Ok(event) => {
                    assert!(consumed > 0, "an event consumes its frame");
                    events.push(event);
                }
                Err(need) => {
                    assert!(need > pending.len() && need <= HEADER_BYTES_MAX + 4096);
                    break;
                }
            }
        }
    }
    (events, None)
}

fn describe(event: &Event<'_>) -> Result<String, usize> {
    match event {
        Event::Incomplete { need } => Err(*need),
        Event::Message { kind, payload } => Ok(format!("{kind:?} {payload:?}")),
        Event::Reassembled { kind, payload } => Ok(format!("{kind:?} {payload:?}")),
        other => Ok(format!("{other:?}")),
    }
}

/// Lines of `name: value` as a request, and the whole as a client's answer and as an origin.
pub fn handshake(data: &[u8]) {
    let headers = data.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((std::str::from_utf8(&line[..colon]).ok()?, &line[colon + 1..]))
    });
    let request = UpgradeRequest::new("GET", 1, headers);
    for origins in [OriginPolicy::SameHost, OriginPolicy::Any] {
        let policy = Policy { origins: &origins, subprotocols: &["v12.stomp", "mqtt"] };
        if let Ok(acceptance) = accept(&request, &policy) {
            let mut out = Vec::new();
            acceptance.write_response(&mut out);
            let ends = out.windows(4).filter(|four| four == b"\r\n\r\n").count();
            assert_eq!(ends, 1, "one head and nothing injected");
        }
    }
    let _ = check_response(data, *b"the sample nonce", &["mqtt"]);
    let _ = OriginPolicy::SameHost.allows(Some(data), data);
    if let Some(pattern) =
        std::str::from_utf8(data).ok().and_then(|text| OriginPattern::parse(text).ok())
    {
        let _ = OriginPolicy::List { patterns: vec![pattern], same_host: true, loopback: true }
            .allows(Some(data), data);
    }
}
