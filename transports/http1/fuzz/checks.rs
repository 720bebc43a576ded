//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariant: the outcome does not depend on how input is cut.

use tiderace_http1::{
    Body, ChunkEvent, ChunkedDecoder, HeadScanner, HttpError, Limits, RequestHead, write_chunk,
    write_last_chunk,
};

/// A head, whole and growing octet by octet; an accepted one has one framing only.
pub fn head(data: &[u8]) {
    let limits = Limits { head_bytes_max: 2048, target_bytes_max: 512, ..Limits::default() };
    let whole = outcome(RequestHead::parse(&limits, &mut HeadScanner::default(), data));
    let mut scanner = HeadScanner::default();
    let mut growing = Ok(None);
    for end in 0..=data.len() {
        growing = outcome(RequestHead::parse(&limits, &mut scanner, &data[..end]));
        if growing != Ok(None) {
            break;
        }
    }
    assert_eq!(whole, growing, "cutting the input changes the outcome");
    if let Err(error) = whole {
        assert!((400..600).contains(&error.status()), "{error:?}");
    }
}

/// What matters of an accepted head, after checking what every one promises.
type Outcome = Result<Option<(String, usize, Body)>, HttpError>;

fn outcome(parsed: Result<Option<RequestHead<'_>>, HttpError>) -> Outcome {
    let Some(head) = parsed? else {
        return Ok(None);
    };
    let count = |name: &str| {
        head.headers().filter(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).count()
    };
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    match head.body() {
        Body::Chunked => assert!(lengths == 0 && codings > 0),
        Body::Length(_) => assert!(lengths == 1 && codings == 0),
        Body::None => assert!(lengths <= 1 && codings == 0),
    }
    assert!(count("host") == 1 || (count("host") == 0 && head.minor_version() == 0));
    for (name, value) in head.headers() {
        assert!(tiderace_http1::is_token(name.as_bytes()));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    assert!(head.target().bytes().all(|byte| byte.is_ascii_graphic()));
    let text = format!("{} {} {:?} {}", head.method(), head.path(), head.query(), head.host());
    Ok(Some((text, head.consumed(), head.body())))
}

/// A chunked body, whole and in pieces; a body that decodes survives being written again.
pub fn chunked(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let whole = decode(input, input.len().max(1));
    let pieces = decode(input, usize::from(choice) % 17 + 1);
    assert_eq!(whole, pieces, "cutting the input changes the outcome");
    if let Ok((body, Some(consumed))) = whole {
        assert!(consumed <= input.len());
        let mut out = Vec::new();
        for piece in body.chunks(usize::from(choice) + 1) {
            write_chunk(&mut out, piece);
        }
        write_last_chunk(&mut out);
        assert_eq!(decode(&out, 7), Ok((body, Some(out.len()))));
    }
}

/// The body so far and, if it ended, how many bytes it took.
fn decode(input: &[u8], piece_len: usize) -> Result<(Vec<u8>, Option<usize>), HttpError> {
    let limits = Limits {
        body_bytes_max: 4096,
        chunk_extension_bytes_max: 64,
        trailer_bytes_max: 64,
        ..Limits::default()
    };
    let (mut decoder, mut body, mut consumed) = (ChunkedDecoder::default(), Vec::new(), 0);
    for mut piece in input.chunks(piece_len) {
        loop {
            let decoded = decoder.decode(&limits, piece)?;
            consumed += decoded.consumed;
            piece = &piece[decoded.consumed..];
            match decoded.event {
                ChunkEvent::Data(data) => {
                    assert!(!data.is_empty() && decoder.body_bytes() <= 4096);
                    body.extend_from_slice(data);
                }
                ChunkEvent::End => return Ok((body, Some(consumed))),
                ChunkEvent::Incomplete => {
                    assert!(piece.is_empty(), "all input is taken");
                    break;
                }
            }
        }
    }
    Ok((body, None))
}
