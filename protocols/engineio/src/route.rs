//! Whose a request is, judged by its head alone.
//!
//! Relies on tickets: a session's id says where it lives and proves that the client may speak for it,
//! and the event loop finds the session. Invariant: whatever is wrong with a request that concerns no
//! session's state is found here, before a body is read.

use std::sync::Arc;

use tiderace_wire::{HttpFace, Request, Response, Route, Ticket};

use crate::answer::{self, Refusal};
use crate::options::EngineOptions;
use crate::revision::Revision;

/// The paths with and without their last slash.
pub(crate) fn spellings(paths: &[String]) -> Arc<[String]> {
    let mut all = Vec::with_capacity(paths.len() * 2);
    for path in paths {
        let bare = path.trim_end_matches('/');
        for spelling in [format!("{bare}/"), bare.to_owned()] {
            if !spelling.is_empty() && !all.contains(&spelling) {
                all.push(spelling);
            }
        }
    }
    all.into()
}

/// How the event loop sorts requests on these paths.
pub(crate) fn face(options: Arc<EngineOptions>, paths: Arc<[String]>) -> HttpFace {
    let (unknown, too_large) = (options.clone(), options.clone());
    HttpFace {
        large_body_bytes_max: 0,
        body_bytes_max: options.payload_bytes_max,
        route: Arc::new(move |request| {
            let ours = paths.iter().any(|path| path == request.path);
            ours.then(|| route(request, &options))
        }),
        unknown: Arc::new(move |request| Refusal::SessionUnknown.answer(None, request, &unknown)),
        too_large: Arc::new(move |request| {
            let reason = "the body is larger than maxPayload allows";
            let refusal = Refusal::BadRequest.answer(Some(reason), request, &too_large);
            Response { status: 413, ..refusal }
        }),
    }
}

fn route(request: &Request<'_>, options: &EngineOptions) -> Route {
    match judge(request, options) {
        Ok(route) => route,
        Err(refusal) => Route::Respond(refusal.answer(None, request, options)),
    }
}

fn judge(request: &Request<'_>, options: &EngineOptions) -> Result<Route, Refusal> {
    check_origin(request)?;
    if request.method == "OPTIONS" {
        return Ok(Route::Respond(answer::preflight(request, options)));
    }
    Revision::of(request.query_value("EIO"), options).ok_or(Refusal::UnsupportedVersion)?;
    let websocket = match request.query_value("transport") {
        Some("polling") if options.polling => false,
        Some("websocket") if options.websocket => true,
        _ => return Err(Refusal::TransportUnknown),
    };
    let sid = request.query_value("sid").filter(|sid| !sid.is_empty());
    if sid.is_none() && request.method != "GET" {
        return Err(Refusal::BadHandshakeMethod);
    }
    if websocket != wants_websocket(request) {
        return Err(Refusal::BadRequest);
    }
    if request.query_value("j").is_some() && !options.jsonp {
        return Err(Refusal::BadRequest);
    }
    if sid.is_none() {
        return Ok(Route::Open);
    }
    let ticket = ticket(sid).ok_or(Refusal::SessionUnknown)?;
    if websocket && !options.upgrades || !matches!(request.method, "GET" | "POST") {
        return Err(Refusal::BadRequest);
    }
    Ok(Route::Session(ticket))
}

/// The session that an upgrade to WebSocket is to take over, if it is one.
pub(crate) fn upgraded(request: &Request<'_>) -> Option<Ticket> {
    if request.query_value("transport") != Some("websocket") {
        return None;
    }
    ticket(request.query_value("sid"))
}

/// The origin is repeated in answers. Whether its pages may poll has been decided before. Scripts are loaded without
/// one; a page that may not poll otherwise is not let in by them either, since what it gets is a session
/// nobody has logged in to.
fn check_origin(request: &Request<'_>) -> Result<(), Refusal> {
    let mut bytes = request.field("origin").unwrap_or_default().iter().copied();
    if bytes.all(answer::is_plain) { Ok(()) } else { Err(Refusal::BadRequest) }
}

/// Whether it asks for a WebSocket; the event loop decides in the same way.
fn wants_websocket(request: &Request<'_>) -> bool {
    request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("upgrade")).any(
        |(_, value)| {
            value
                .split(|byte| *byte == b',')
                .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"websocket"))
        },
    )
}

/// The session that a request names, if it names one.
fn ticket(sid: Option<&str>) -> Option<Ticket> {
    Ticket::decode(sid?)
}
