//! HELLO and WELCOME: who this node is, and what the upstream can do.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_delta::Codec;
use tiderace_wire::{Context, FromUpstream, read_varint, shown};

use super::fault::broken;
use super::{State, UpstreamSession, say};
use crate::codec::{Auth, ClientMessage, Hello, VERSION, Welcome, feature};
use crate::limits::NODES_MAX;

impl UpstreamSession {
    pub(super) fn hello(&self, context: &mut Context<'_>) {
        let options = &*self.options;
        let credentials = &options.credentials;
        let auth = match (&credentials.token, &credentials.login) {
            (Some(token), _) => Auth::Token(token),
            (None, Some(user)) => {
                Auth::Password { user, password: credentials.passcode.as_deref().unwrap_or("") }
            }
            (None, None) => Auth::Anonymous,
        };
        let hello = Hello {
            version: VERSION,
            auth,
            codecs: Codec::numbered(CODEC).map(|_| CODEC).into_iter().collect(),
            client: &options.client,
            position: b"",
            host: credentials.host.as_deref(),
            nodes: self.nodes().take(NODES_MAX).collect(),
        };
        say(&ClientMessage::Hello(hello), &mut context.output);
    }

    /// The names of the nodes that get what comes from here, this one first.
    fn nodes(&self) -> impl Iterator<Item = &str> {
        let names = std::iter::once(&self.options.node).chain(&self.options.behind);
        names.map(String::as_str).filter(|name| !name.is_empty())
    }

    pub(super) fn welcome(
        &mut self,
        now: Now,
        welcome: &Welcome<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if welcome.version != VERSION {
            let version = welcome.version;
            let reason = format!(
                "the upstream speaks version {version} of the protocol and this node {VERSION}; run the same release on both"
            );
            return Err(Close::new(CloseCode::UnsupportedVersion, reason));
        }
        if welcome.features & NEEDED != NEEDED {
            let server = shown(welcome.server);
            let reason = format!(
                "the upstream is too old: `{server}` does not tell the numbers of messages; update it first"
            );
            return Err(Close::new(CloseCode::UnsupportedVersion, reason));
        }
        if let Some(node) = self.nodes().find(|node| *node == welcome.node) {
            let reason = format!(
                "the upstream has the name `{node}`, as this node or an edge of it; let no node be an upstream of its own \
                 upstreams, and give each a name of its own"
            );
            return Err(Close::new(CloseCode::UpstreamCircle, reason));
        }
        let mut bytes = welcome.epoch;
        let epoch = read_varint(&mut bytes).filter(|_| bytes.is_empty());
        self.epoch = epoch.ok_or_else(|| broken("the epoch of WELCOME is no number"))?;
        self.has_codec = match *welcome.codecs {
            [] => false,
            [CODEC] => true,
            _ => return Err(broken("WELCOME names a codec of deltas that was not offered")),
        };
        self.subscriptions_max = welcome.subscriptions_max;
        self.liveness.begin(now, welcome.ping_ms, self.options.ping_interval);
        self.state = State::Up;
        let upstream = self.options.upstream;
        self.tell(FromUpstream::Up { upstream, epoch: self.epoch }, context);
        let taken = welcome.features & feature::RELAY != 0;
        let most = usize::try_from(welcome.message_bytes_max).unwrap_or(usize::MAX);
        (self.relays.are_taken, self.relays.message_bytes_max) = (taken, most);
        let consumers = welcome.features & feature::QUEUES != 0;
        self.tell(FromUpstream::Requests { taken, consumers }, context);
        Ok(())
    }
}

/// The codec of deltas that is asked for, `tiderace`, if it is built in.
pub(super) const CODEC: u64 = 1;
/// What an upstream has to be able to do.
const NEEDED: u64 = feature::VALUES | feature::NUMBERED;
