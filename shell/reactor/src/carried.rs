//! Sessions that begin with a request and have no connection of their own.
//!
//! Invariant: such a session counts as one of its client's, whatever has brought the request.

use tiderace_base::{CloseCode, Key};
use tiderace_wire::{Request, Response};

use crate::connection::{Connection, Live, Origin, Peer, Pending, Requests, Transport};
use crate::driver::Driver;
use crate::http_answer::refusal;
use crate::metrics::Rejected;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Begins a session for a request whose body has yet to come: what it says until then is the answer.
    pub(crate) fn open_for_request(
        &mut self,
        key: Key,
        protocol: u16,
        request: &Request<'_>,
    ) -> Result<Key, Response> {
        let session = self.open_carried(key, protocol, request)?;
        let record = self.connections.get_mut(session);
        if let Some(Live { transport: Transport::Requests(requests), .. }) =
            record.and_then(|record| record.live())
        {
            requests.pending = Some(Pending { connection: key, held: None });
        }
        Ok(session)
    }

    /// Begins a session for a request, or says why not.
    pub(crate) fn open_carried(
        &mut self,
        key: Key,
        protocol: u16,
        request: &Request<'_>,
    ) -> Result<Key, Response> {
        if let Err(reason) = self.admit_carried(request) {
            self.metrics.count_rejected(reason);
            let close = CloseCode::TooManyConnections.into();
            return Err(refusal(&close).with("Retry-After", "5"));
        }
        let Some(asking) = self.connections.get_mut(key) else {
            return Err(self.unknown(protocol, request));
        };
        let (peer, listener) = (Peer::from(request.peer), asking.listener);
        let deadline = self.now.time + self.shared.options.deadlines.login;
        let tls = self.client_tls(key);
        let record = Connection::carried(peer, listener, deadline);
        let session = self.connections.insert(record);
        self.change_gauge(None, Some(crate::metrics::Gauge::UNKNOWN));
        self.shared.gain(self.id, listener);
        self.metrics.opened.add(1);
        let transport = Transport::Requests(Box::new(Requests { tls, ..Requests::default() }));
        let origin = Origin { subprotocol: None, request: Some(request), unknown: false };
        self.open_session(session, protocol, transport, origin);
        Ok(session)
    }

    /// Counts a session that a request is to open, unless there are too many: each
    /// connection may have brought one besides itself, and an address as many as connections. Without
    /// a limit one connection could open any number.
    fn admit_carried(&mut self, request: &Request<'_>) -> Result<(), Rejected> {
        if self.shared.connections() >= self.shared.options.connections_max.saturating_mul(2) {
            return Err(Rejected::Limit);
        }
        let is_admitted = self.shared.admit_carried(request.peer.ip().to_canonical());
        is_admitted.then_some(()).ok_or(Rejected::AddressLimit)
    }
}
