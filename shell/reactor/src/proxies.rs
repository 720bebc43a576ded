//! Clients behind proxies: whose address counts, for limits, logins, blocks and logs alike.
//!
//! ```text
//!   accept ─▶ socket's address ─┬─ trusted, and a PROXY header ─▶ the address in it
//!                               └─ else ─▶ stays
//!   request ─┬─ by a trusted address, and a field names its client ─▶ that one, for this request
//!            └─ else ─▶ that of the connection
//!   request becomes a WebSocket or a stream ─▶ its connection is that client's from then on
//! ```
//! All else that asks for an address reads that of the record ([`crate::connection::Connection::peer`]) or of the
//! request, and never asks how it came to be. Invariants: only what a trusted address says is believed, and a trusted
//! address says so of one header, before any other byte; a trusted address is not limited as if it was one client, and
//! a client that it names is.

use std::net::{IpAddr, SocketAddr};

use tiderace_base::{Close, CloseCode, Key, Time, is_local, local_user};
use tiderace_proxy::{Preface, Recognised, client_of, read_preface, recognise};

use crate::connection::{Connection, Flags, Peer};
use crate::departure::Step;
use crate::driver::Driver;
use crate::metrics::Rejected;
use crate::options::{Proxies, ProxyProtocol};
use crate::outcome::Farewell;
use crate::shard::Shard;
use crate::shared::Shared;

impl Proxies {
    /// Whether what that address says of its clients is believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        !is_local(address) && self.trusted.contains(address)
    }

    /// What a connection from that address may begin with.
    fn expects(&self, address: IpAddr) -> ProxyProtocol {
        if self.trusts(address) { self.protocol } else { ProxyProtocol::Off }
    }
}

impl Shared {
    /// Whether connections from that address are refused as they come. Of a trusted proxy's it is known later whose they are.
    pub(crate) fn is_blocked(&self, now: Time, peer: SocketAddr) -> bool {
        // Who may not use the admin socket is told so.
        local_user(peer).is_none()
            && self.kept_out(now, peer).is_some()
            && !self.options.proxies.trusts(peer.ip())
    }

    /// The client of a request with these fields that a connection of that address has brought.
    ///
    /// # Errors
    /// If a trusted proxy names one that is no address, or the client is kept out.
    pub(crate) fn client_of<'a>(
        &self,
        now: Time,
        peer: SocketAddr,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<SocketAddr, Close> {
        let client = self.named_client(peer, fields)?;
        // Also of a connection that was there before.
        match self.kept_out(now, client) {
            Some(close) => Err(close),
            None => Ok(client),
        }
    }

    fn named_client<'a>(
        &self,
        peer: SocketAddr,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<SocketAddr, Close> {
        let proxies = &self.options.proxies;
        match proxies.field {
            Some(field) if proxies.trusts(peer.ip()) => {
                let invalid = |error: String| {
                    Close::new(CloseCode::ForwardedInvalid, format!("{error} (by {})", peer.ip()))
                };
                let client = client_of(field, fields, &proxies.trusted, peer);
                match client.map_err(|error| invalid(error.to_string())) {
                    Ok(client) if is_local(client.ip()) => Err(invalid(NO_CLIENT.to_owned())),
                    client => client,
                }
            }
            _ => Ok(peer),
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Reads the header of the PROXY protocol that a connection begins with, if there is one; absent if other bytes come
    /// first, or it is not to come.
    pub(crate) fn sniff_proxy(&mut self, key: Key, bytes: &[u8]) -> Option<Step> {
        let connection = self.connections.get_mut(key)?;
        let address = connection.peer.address();
        let is_past = connection.flags.has(Flags::PREFACED);
        match (recognise(bytes), self.shared.options.proxies.expects(address)) {
            (Recognised::No | Recognised::More, _) if is_past => None,
            (Recognised::More, _) => Some(Step::Wait(0)),
            (Recognised::No, ProxyProtocol::Require) => {
                let reason = format!(
                    "connections of {address} have to begin with a header of the PROXY protocol"
                );
                Some(self.refuse_preface(key, CloseCode::ProxyHeaderMissing, reason, bytes.len()))
            }
            (Recognised::No, _) => {
                connection.flags.set(Flags::PREFACED);
                None
            }
            (Recognised::Yes, _) if is_past => {
                let reason = "a header of the PROXY protocol comes once, before everything else";
                let code = CloseCode::ProxyHeaderInvalid;
                Some(self.refuse_preface(key, code, reason.to_owned(), bytes.len()))
            }
            (Recognised::Yes, ProxyProtocol::Off) => {
                let reason = format!("a header of the PROXY protocol is not taken from {address}");
                Some(self.refuse_preface(key, CloseCode::ProxyNotTrusted, reason, bytes.len()))
            }
            (Recognised::Yes, _) => Some(self.take_preface(key, bytes)),
        }
    }

    fn take_preface(&mut self, key: Key, bytes: &[u8]) -> Step {
        let (length, client) = match read_preface(bytes) {
            Ok(Preface::More) => return Step::Wait(0),
            Ok(Preface::Whole { client: Some(client), .. }) if is_local(client.ip()) => {
                let code = CloseCode::ProxyHeaderInvalid;
                return self.refuse_preface(key, code, NO_CLIENT.to_owned(), bytes.len());
            }
            Ok(Preface::Whole { length, client }) => (length, client),
            Err(error) => {
                let code = CloseCode::ProxyHeaderInvalid;
                return self.refuse_preface(key, code, error.to_string(), bytes.len());
            }
        };
        if let Some(close) = client.and_then(|client| self.blocked_client(client)) {
            // Nobody knows yet which protocol would have words for it.
            self.end(key, &close, Farewell::Silent);
            return Step::Wait(bytes.len());
        }
        if let Some(client) = client
            && !self.assign_client(key, client)
        {
            let close = too_many(client.ip());
            self.end(key, &close, Farewell::Silent);
            return Step::Wait(bytes.len());
        }
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::PREFACED);
        }
        Step::Next(length)
    }

    /// A connection does not begin as it has to: it ends with a line that says so.
    fn refuse_preface(
        &mut self,
        key: Key,
        code: CloseCode,
        reason: String,
        available: usize,
    ) -> Step {
        if let Some(connection) = self.connections.get_mut(key) {
            let queue = self.pool.queue(&mut connection.outgoing);
            queue.tail().extend_from_slice(reason.as_bytes());
            queue.tail().push(b'\n');
            self.end(key, &Close::new(code, reason), Farewell::Full);
        }
        Step::Wait(available)
    }

    /// The connection of a request becomes that of the request's client, if a proxy has brought it. False if that client
    /// has as many connections as it may.
    pub(crate) fn claim(&mut self, key: Key, client: SocketAddr) -> bool {
        let proxies = &self.shared.options.proxies;
        let is_proxys = |it: &Connection<D::Stream>| {
            proxies.field.is_some() && proxies.trusts(it.peer.address())
        };
        !self.connections.get(key).is_some_and(is_proxys) || self.assign_client(key, client)
    }

    /// Counts a proxy's connection as one of the proxy's client from now on; false if that has as many as it may.
    fn assign_client(&mut self, key: Key, client: SocketAddr) -> bool {
        let client = Peer::from(client);
        let Some(connection) = self.connections.get_mut(key) else { return true };
        if !self.shared.admit_client(client.address()) {
            self.metrics.count_rejected(Rejected::AddressLimit);
            return false;
        }
        connection.peer = client;
        if connection.flags.is_h2_stream() {
            // It has no socket of its own, which would be counted when it goes.
            connection.flags.set(Flags::CLAIMED);
        }
        true
    }
}

/// A proxy names what stands for clients that have no address.
const NO_CLIENT: &str = "no client has the address that is named";

/// A client behind a proxy has as many connections as it may.
pub(crate) fn too_many(client: IpAddr) -> Close {
    let reason = format!(
        "{client} has as many connections as `limits.connections_per_ip_max` allows; close one and try again"
    );
    Close::new(CloseCode::TooManyConnections, reason)
}

/// The end of a connection over a request of another than its own address.
pub(crate) fn over_client(close: &Close, peer: SocketAddr, client: SocketAddr) -> Close {
    if peer == client {
        return close.clone();
    }
    Close::new(close.code, format!("{} (a request of {client})", close.reason))
}
