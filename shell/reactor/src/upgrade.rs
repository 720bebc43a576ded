//! WebSocket upgrades: which protocol speaks after the opening handshake.
//!
//! A pure function of request and registry. A subprotocol decides; without one the path does.

use tiderace_base::ShardId;
use tiderace_http1::RequestHead;
use tiderace_websocket::handshake::{Acceptance, OriginPolicy, Policy, UpgradeRequest, accept};
use tiderace_wire::{Protocol, Request, Response, Route};

use crate::shared::Shared;

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// It does not ask for a WebSocket.
    None,
    /// The session of this protocol begins.
    Accepted {
        protocol: u16,
        subprotocol: Option<&'static str>,
        pinned: bool,
        /// What the client is told.
        acceptance: Acceptance<'static>,
    },
    /// It is for a session of another shard.
    Elsewhere(ShardId),
    /// Its page may not connect.
    Denied,
    /// It is refused with this answer.
    Refused(Response),
}

/// Judges a request, if it is about a WebSocket. Whether its page may connect has been asked elsewhere.
pub(crate) fn upgrade(
    shared: &Shared,
    here: ShardId,
    head: &RequestHead<'_>,
    asked: &Request<'_>,
    is_page_allowed: bool,
) -> Upgrade {
    let request = UpgradeRequest::new(head.method(), head.minor_version(), head.headers());
    if !request.wants_websocket() {
        return Upgrade::None;
    }
    if !is_page_allowed {
        return Upgrade::Denied;
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
    let policy = Policy { origins: &OriginPolicy::Any, subprotocols: &names };
    let acceptance = match accept(&request, &policy) {
        Ok(acceptance) => acceptance,
        Err(rejection) => {
            let message = rejection.to_string();
            let response = Response::refusal(rejection.status(), rejection.code(), &message);
            let headers = rejection.headers().iter();
            let response = headers.fold(response, |it, (name, value)| it.with(name, *value));
            return Upgrade::Refused(response);
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
            let response = Response::refusal(400, "ws-subprotocol-unknown", &message);
            return Upgrade::Refused(response);
        }
        (None, None) => {
            let message = "no WebSocket is served on this path; name a subprotocol or use a path of a protocol";
            let response = Response::refusal(404, "ws-path-unknown", message);
            return Upgrade::Refused(response);
        }
    };
    let face = protocols.get(usize::from(protocol)).and_then(|known| known.http.as_ref());
    let pinned = match face.and_then(|face| (face.route)(asked)) {
        Some(Route::Respond(response)) => return Upgrade::Refused(response),
        Some(Route::Session(ticket))
            if ticket.shard != here && ticket.shard.index() < shared.wakers.len() =>
        {
            return Upgrade::Elsewhere(ticket.shard);
        }
        Some(Route::Session(_)) => true,
        Some(Route::Open) | None => false,
    };
    let acceptance = Acceptance {
        accept_key: acceptance.accept_key,
        subprotocol: by_name.map(|(name, _)| name),
        subprotocols_offered: acceptance.subprotocols_offered,
    };
    Upgrade::Accepted { protocol, subprotocol, pinned, acceptance }
}

fn own_names(protocols: &[Protocol], protocol: u16) -> &'static [&'static str] {
    protocols.get(usize::from(protocol)).map_or(&[], |known| known.subprotocols)
}
