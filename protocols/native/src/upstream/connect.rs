//! HELLO and WELCOME: who this node is, and what the upstream can do.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_delta::Codec;
use tiderace_wire::{Context, FromUpstream, read_varint, shown};

use super::fault::broken;
use super::{State, UpstreamSession, say};
use crate::codec::{Auth, ClientMessage, Hello, Nodes, VERSION, Welcome, feature};
use crate::limits::HOPS_MAX;
use crate::nodes_above::Above;

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
            edge: Some(&options.node),
        };
        say(&ClientMessage::Hello(hello), &mut context.output);
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
        self.upstream_node = welcome.node.to_owned();
        self.note_above()?;
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
        let taken = welcome.features & CALLS == CALLS;
        self.tell(FromUpstream::Calls { taken }, context);
        Ok(())
    }

    /// What is above the upstream; first before WELCOME, which says who that is.
    pub(super) fn nodes(&mut self, nodes: &Nodes<'_>) -> Result<(), Close> {
        let names = nodes.names.iter().map(|name| (*name).to_owned()).collect();
        self.above_upstream = Above { hops: nodes.hops, names };
        if self.state == State::Greeting { Ok(()) } else { self.note_above() }
    }

    /// Notes what is above this node by this upstream.
    ///
    /// # Errors
    /// When the node is above itself, or too many others are.
    fn note_above(&mut self) -> Result<(), Close> {
        let own = self.options.node.as_str();
        let Above { hops, mut names } = self.above_upstream.clone();
        if !self.upstream_node.is_empty() {
            names.insert(self.upstream_node.clone());
        }
        let close = |reason| Err(Close::new(CloseCode::UpstreamCircle, reason));
        if !own.is_empty() && names.contains(own) {
            let way = names.into_iter().collect::<Vec<_>>().join("`, `");
            return close(format!(
                "this node, `{own}`, is itself among those from which the upstream has what it passes on (`{way}`); let no \
                 node be an upstream of its own upstreams, and give each a name of its own"
            ));
        }
        let hops = hops.saturating_add(1);
        if hops > HOPS_MAX {
            return close(format!(
                "topics would come to this node by {hops} connections, one behind the other; at most {HOPS_MAX} may be: \
                 let it be an edge of a node that is nearer to the source"
            ));
        }
        self.above.note(Above { hops, names });
        Ok(())
    }
}

/// The codec of deltas that is asked for, `tiderace`, if it is built in.
pub(super) const CODEC: u64 = 1;
/// What an upstream has to be able to do to be called, and to call.
const CALLS: u64 = feature::RELAY | feature::CALLS;
/// What an upstream has to be able to do.
const NEEDED: u64 = feature::VALUES | feature::NUMBERED;
