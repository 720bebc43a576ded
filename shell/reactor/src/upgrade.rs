//! WebSocket upgrades: which protocol speaks after the opening handshake.
//!
//! A pure function of request and registry. A subprotocol decides; without one the path does.

use tiderace_base::{Now, ShardId};
use tiderace_http1::{Connection, RequestHead, Response};
use tiderace_websocket::handshake::{Policy, Rejection, UpgradeRequest, accept};
use tiderace_wire::{Protocol, Request, Route};

use crate::date::http_date;
use crate::shared::Shared;

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// It does not ask for a WebSocket.
    None,
    /// The session of this protocol begins; the answer has been written.
    Accepted { protocol: u16, subprotocol: Option<&'static str>, pinned: bool },
    /// It is for a session of another shard; nothing has been written.
    Elsewhere(ShardId),
    /// It was refused; the answer has been written.
    Refused(Rejected),
}

/// Why an upgrade was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    Origin,
    Request,
}

/// Judges a request and appends the answer, if it is about a WebSocket.
pub(crate) fn upgrade(
    shared: &Shared,
    here: ShardId,
    now: Now,
    head: &RequestHead<'_>,
    asked: &Request<'_>,
    out: &mut Vec<u8>,
) -> Upgrade {
    let request = UpgradeRequest::new(head.method(), head.minor_version(), head.headers());
    if !request.wants_websocket() {
        return Upgrade::None;
    }
    let protocols = &shared.services.protocols;
    let by_path = protocols
        .iter()
        .position(|protocol| protocol.websocket_paths.iter().any(|path| path == head.path()))
        .map(|index| index as u16);
    // The path's own protocol comes first, so that it is preferred if names are shared.
    let (own, others): (Vec<_>, Vec<_>) =
        shared.subprotocols.iter().partition(|(_, protocol)| Some(*protocol) == by_path);
    let known: Vec<(&'static str, u16)> = own.into_iter().chain(others).copied().collect();
    let names: Vec<&'static str> = known.iter().map(|(name, _)| *name).collect();
    let policy = Policy { origins: &shared.options.origins, subprotocols: &names };
    let acceptance = match accept(&request, &policy) {
        Ok(acceptance) => acceptance,
        Err(rejection) => {
            refuse(
                out,
                now,
                rejection.status(),
                rejection.headers(),
                rejection.code(),
                &rejection.to_string(),
            );
            let origin = rejection == Rejection::OriginForbidden;
            return Upgrade::Refused(if origin { Rejected::Origin } else { Rejected::Request });
        }
    };
    let by_name = acceptance
        .subprotocol
        .and_then(|chosen| known.iter().find(|(name, _)| *name == chosen).copied());
    let (subprotocol, protocol) = match (by_name, by_path) {
        (Some((name, protocol)), _) => (Some(name), protocol),
        (None, Some(protocol))
            if !acceptance.subprotocols_offered || own_names(protocols, protocol).is_empty() =>
        {
            (own_names(protocols, protocol).first().copied(), protocol)
        }
        (None, Some(_)) => {
            let message = format!(
                "none of the offered subprotocols is spoken here; known: {}",
                names.join(", ")
            );
            refuse(out, now, 400, &[], "ws-subprotocol-unknown", &message);
            return Upgrade::Refused(Rejected::Request);
        }
        (None, None) => {
            let message = "no WebSocket is served on this path; name a subprotocol or use a path of a protocol";
            refuse(out, now, 404, &[], "ws-path-unknown", message);
            return Upgrade::Refused(Rejected::Request);
        }
    };
    let face = protocols.get(usize::from(protocol)).and_then(|known| known.http.as_ref());
    let pinned = match face.and_then(|face| (face.route)(asked)) {
        Some(Route::Respond(response)) => {
            let headers: Vec<(&str, &str)> =
                response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let date = http_date(now.wall_ms);
            let (status, date) = (response.status, Some(&*date));
            let head = Response { status, headers: &headers, date, connection: Connection::Close };
            let written = head.write(out, &response.body);
            debug_assert!(written.is_ok(), "protocols answer with headers that can be written");
            return Upgrade::Refused(Rejected::Request);
        }
        Some(Route::Session(ticket))
            if ticket.shard != here && ticket.shard.index() < shared.wakers.len() =>
        {
            return Upgrade::Elsewhere(ticket.shard);
        }
        Some(Route::Session(_)) => true,
        Some(Route::Open) | None => false,
    };
    acceptance.write_response(out);
    Upgrade::Accepted { protocol, subprotocol, pinned }
}

fn own_names(protocols: &[Protocol], protocol: u16) -> &'static [&'static str] {
    protocols.get(usize::from(protocol)).map_or(&[], |known| known.subprotocols)
}

fn refuse(
    out: &mut Vec<u8>,
    now: Now,
    status: u16,
    headers: &[(&str, &str)],
    code: &str,
    message: &str,
) {
    let date = http_date(now.wall_ms);
    let response = Response { status, headers, date: Some(&date), connection: Connection::Close };
    let written = response.write_json_error(out, code, message);
    debug_assert!(written.is_ok(), "all parts are constants");
}
