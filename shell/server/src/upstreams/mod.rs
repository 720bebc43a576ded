//! The servers whose topics this one passes on, from the configuration to the options of the parts: the broker, which
//! stands in for their topics, and the event loop, which keeps the connections.
//!
//! Invariant: both parts have the upstreams in the same order and on the same shards.

mod above;
mod shown;
mod state;

use std::sync::Arc;

use anyhow::Context;
use tiderace_base::ShardId;
use tiderace_broker::UpstreamTopics;
use tiderace_config::{Config, UpstreamConfig};
use tiderace_native::{NodesAbove, SUBPROTOCOLS};
use tiderace_reactor::{UpstreamOptions, system_authorities};
use tiderace_tls::{Authorities, ClientChoices, ClientSettings, Version};
use tiderace_wire::{Credentials, Detect, Opening, Protocol};

use crate::compose::shards;
use crate::tls::{identity, seconds};
use above::AboveByUpstream;
pub(crate) use shown::shown;
pub(crate) use state::degraded;

/// Which topics are those of upstreams, for the broker.
pub(crate) fn topics(config: &Config) -> Vec<UpstreamTopics> {
    let topics = |(place, upstream): (u16, &UpstreamConfig)| UpstreamTopics {
        name: upstream.name.as_str().into(),
        topics: upstream.topics.clone(),
        queues: upstream.queues.clone(),
        shard: shard(config, place),
        linger: upstream.linger,
        timeout: upstream.timeout,
        remove_after: upstream.remove_after,
        eager: upstream.eager,
        write: upstream.write,
        services: upstream.services.clone(),
    };
    (0..).zip(&config.upstreams).map(topics).collect()
}

/// What other servers are told of this one.
pub(crate) struct Identity {
    /// Its name.
    pub(crate) node: String,
    /// From where it has what it passes on.
    pub(crate) above: Arc<dyn NodesAbove>,
}

impl Identity {
    /// Of a server with this name, none of whose upstreams has said anything yet.
    pub(crate) fn new(node: String) -> Identity {
        Identity { node, above: Arc::new(AboveByUpstream::default()) }
    }
}

/// The connections to upstreams, for the event loop.
///
/// # Errors
/// When authorities that are to be trusted cannot be read.
pub(crate) fn connections(
    config: &Config,
    identity: &Identity,
) -> anyhow::Result<Vec<UpstreamOptions>> {
    let connection = |(place, upstream): (u16, &UpstreamConfig)| {
        let is_secured = upstream.urls.iter().any(|url| url.is_secure());
        anyhow::Ok(UpstreamOptions {
            name: upstream.name.clone(),
            urls: upstream.urls.clone(),
            protocol: protocol(config, (place, upstream), identity),
            tls: is_secured.then(|| secured(upstream)).transpose()?,
            shard: shard(config, place),
        })
    };
    (0..).zip(&config.upstreams).map(connection).collect()
}

/// The shard that stands in for the topics of an upstream and keeps the connection. The first shard accepts the
/// connections of all, so it comes last.
fn shard(config: &Config, place: u16) -> ShardId {
    let shards = shards(config);
    ShardId(((usize::from(place) + 1) % shards) as u16)
}

/// The native protocol in the role of the client.
fn protocol(
    config: &Config,
    (place, upstream): (u16, &UpstreamConfig),
    identity: &Identity,
) -> Protocol {
    let login = upstream.login.as_ref();
    let options = Arc::new(tiderace_native::UpstreamOptions {
        upstream: place,
        credentials: Credentials {
            login: login.map(|(name, _)| name.clone()),
            passcode: login.map(|(_, password)| password.expose().to_owned()),
            token: upstream.token.as_ref().map(|token| token.expose().to_owned()),
            host: None,
        },
        node: identity.node.clone(),
        above: Arc::clone(&identity.above),
        message_bytes_max: config.limits.message_bytes_max,
        ..tiderace_native::UpstreamOptions::default()
    });
    Protocol {
        name: "native",
        detect: |_| Detect::No,
        subprotocols: SUBPROTOCOLS,
        websocket_paths: [PATH.to_owned()].into(),
        stream_paths: [].into(),
        http: None,
        open: Arc::new(move |opening: &Opening<'_>| {
            tiderace_native::open_upstream(&options, opening)
        }),
    }
}

/// Where the native protocol is at a server, unless an address says otherwise.
const PATH: &str = "/tiderace";

/// How secured connections are made.
fn secured(upstream: &UpstreamConfig) -> anyhow::Result<ClientSettings> {
    let what = || format!("upstream {:?}", upstream.name);
    let authorities = match &upstream.tls_ca_file {
        None => system_authorities().with_context(what)?,
        Some(file) => {
            let pem = std::fs::read(file)
                .with_context(|| format!("{}: the authorities {file} cannot be read", what()))?;
            Authorities::from_pem(&pem).map_err(|problem| {
                anyhow::anyhow!("{}: the file of authorities {file} {problem}", what())
            })?
        }
    };
    let shown = upstream.tls_identity.as_ref();
    let identity = shown.map(|(chain, key)| identity(chain, key)).transpose().with_context(what)?;
    let choices = ClientChoices {
        authorities,
        identity,
        version_min: Version::Tls12,
        alpn: vec![b"http/1.1".to_vec()],
        clock: seconds,
    };
    ClientSettings::new(choices).with_context(what)
}
