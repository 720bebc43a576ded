//! Which server to measure: address, credentials and its own way of naming things.
//!
//! Invariant: a parsed target can be connected to without looking anything up again.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail, ensure};

use crate::args::TargetArgs;

/// One server under test.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name in tables.
    pub name: String,
    /// Host and port as given, for the Host header.
    pub authority: String,
    /// Resolved address.
    pub address: SocketAddr,
    /// Login and passcode.
    pub credentials: Option<(String, String)>,
    /// STOMP virtual host.
    pub vhost: String,
    /// What precedes a queue's name.
    pub queue_prefix: String,
    /// What precedes a topic's name.
    pub topic_prefix: String,
    /// Request path for WebSocket.
    pub ws_path: String,
    /// Processes to account, when given.
    pub pids: Vec<u32>,
}

impl Target {
    /// All targets of a command line.
    ///
    /// # Errors
    /// A sentence naming the specification that cannot be understood.
    pub fn all(args: &TargetArgs) -> anyhow::Result<Vec<Self>> {
        args.targets
            .iter()
            .map(|spec| {
                Self::parse(spec, args).with_context(|| {
                    format!("cannot use --target {spec}; write [name=]host:port[,login:passcode][,key=value]")
                })
            })
            .collect()
    }

    /// A server on this machine whose process is known.
    pub fn local(name: &str, address: SocketAddr, pid: u32) -> Self {
        Self {
            name: name.to_owned(),
            authority: address.to_string(),
            address,
            credentials: None,
            vhost: "localhost".to_owned(),
            queue_prefix: "/queue/".to_owned(),
            topic_prefix: "/topic/".to_owned(),
            ws_path: "/stomp".to_owned(),
            pids: vec![pid],
        }
    }

    fn parse(spec: &str, defaults: &TargetArgs) -> anyhow::Result<Self> {
        let mut parts = spec.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, authority) = first.split_once('=').unwrap_or((first, first));
        let address = authority
            .to_socket_addrs()
            .with_context(|| format!("`{authority}` is not a host:port that can be resolved"))?
            .next()
            .with_context(|| format!("`{authority}` has no address"))?;
        let login = defaults.login.clone();
        let mut target = Self {
            name: name.to_owned(),
            authority: authority.to_owned(),
            address,
            credentials: login.map(|login| (login, defaults.passcode.clone().unwrap_or_default())),
            vhost: defaults.vhost.clone(),
            queue_prefix: "/queue/".to_owned(),
            topic_prefix: "/topic/".to_owned(),
            ws_path: defaults.ws_path.clone(),
            pids: defaults.server_pids.clone(),
        };
        parts.try_for_each(|part| target.apply(part))?;
        ensure!(!target.name.is_empty(), "the name before `=` is empty");
        Ok(target)
    }

    fn apply(&mut self, part: &str) -> anyhow::Result<()> {
        match part.split_once('=') {
            Some(("vhost", value)) => value.clone_into(&mut self.vhost),
            Some(("queue-prefix", value)) => value.clone_into(&mut self.queue_prefix),
            Some(("topic-prefix", value)) => value.clone_into(&mut self.topic_prefix),
            Some(("ws-path", value)) => value.clone_into(&mut self.ws_path),
            Some(("pid", value)) => {
                self.pids
                    .push(value.parse().with_context(|| format!("`{value}` is not a process id"))?);
            }
            _ => match part.split_once(':') {
                Some((login, passcode)) => {
                    self.credentials = Some((login.to_owned(), passcode.to_owned()));
                }
                None => bail!(
                    "`{part}` is neither login:passcode nor one of vhost=, queue-prefix=, topic-prefix=, ws-path=, pid="
                ),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn args(spec: &str) -> TargetArgs {
        TargetArgs {
            targets: vec![spec.to_owned()],
            login: None,
            passcode: None,
            vhost: "localhost".into(),
            server_pids: Vec::new(),
            ws_path: "/stomp".into(),
        }
    }

    #[test]
    fn full_specification() {
        let spec = "rabbit=127.0.0.1:61615,guest:gu:est,vhost=/,topic-prefix=/exchange/t/,pid=7";
        let target = Target::all(&args(spec)).unwrap().remove(0);
        assert_eq!((target.name.as_str(), target.address.port()), ("rabbit", 61615));
        assert_eq!(target.credentials, Some(("guest".into(), "gu:est".into())));
        assert_eq!((target.vhost.as_str(), target.topic_prefix.as_str()), ("/", "/exchange/t/"));
        assert_eq!(target.pids, [7]);
    }

    #[test]
    fn plain_address_names_itself() {
        assert_eq!(Target::all(&args("127.0.0.1:1")).unwrap().remove(0).name, "127.0.0.1:1");
    }

    #[test]
    fn nonsense_is_explained() {
        let error = format!("{:#}", Target::all(&args("127.0.0.1:1,vhots=/")).unwrap_err());
        assert!(error.contains("vhots=/") && error.contains("topic-prefix="), "{error}");
        assert!(Target::all(&args("nowhere")).is_err());
    }
}
