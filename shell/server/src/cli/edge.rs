//! `tiderace edge`: development mode in front of another server, some of whose topics it passes on.
//!
//! Relies on `config_args` for all else that `serve` takes. Invariant: what is said here is a `[[upstream]]` like one of a
//! file, with the same checks.

use clap::Args;
use tiderace_config::{FlagSource, FlagTable};

use super::config_args::ConfigArgs;

/// `tiderace edge`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EdgeArgs {
    /// Where the server is whose topics are passed on: wss://, https:// and tls:// are secured, ws://, http://,
    /// tcp:// and none are plain text. Of several, for servers of which each has all topics, one is used at a time.
    #[arg(required = true, value_name = "ADDRESS")]
    urls: Vec<String>,
    /// Which topics are passed on, by patterns; all others are this server's own [default: **, all].
    #[arg(long, value_name = "PATTERN")]
    topics: Vec<String>,
    /// Which services it is called for, by patterns, while no client here serves them; what clients here serve of them is
    /// called from there as well. Takes the right `relay` there [default: none].
    #[arg(long, value_name = "PATTERN")]
    services: Vec<String>,
    /// Which queues live there, by patterns; all others are this server's own [default: none]. What clients here send to
    /// them and consume from them is passed on; takes the right `relay` there.
    #[arg(long, value_name = "PATTERN")]
    queues: Vec<String>,
    /// Its name here, for logs, metrics and $sys/upstreams/NAME.
    #[arg(long, value_name = "NAME", default_value = "source")]
    name: String,
    /// Log in there with this token, from file:PATH or env:NAME.
    #[arg(long, value_name = "SOURCE")]
    token: Option<String>,
    /// Log in there with this name; needs --password.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The password, from file:PATH or env:NAME.
    #[arg(long, value_name = "SOURCE")]
    password: Option<String>,
    /// Trust the authorities of this file (PEM) instead of those of the system.
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
    /// Show the certificate of this file (PEM) where one is asked for; needs --key.
    #[arg(long, value_name = "FILE")]
    cert: Option<String>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE")]
    key: Option<String>,
    /// Subscribe to all of these topics, whether clients here ask for them or not.
    #[arg(long)]
    eager: bool,
    /// Pass on what clients here publish to these topics and do with them; takes the right `relay` there.
    #[arg(long)]
    write: bool,
    /// An edge takes the options of `serve`.
    #[command(flatten)]
    config: ConfigArgs,
}

impl EdgeArgs {
    /// The configuration of a server that is such an edge.
    pub(super) fn config(&self) -> ConfigArgs {
        let mut config = self.config.clone();
        config.add_table(self.upstream());
        // They would be topics of the source's.
        config.set_default("edge", "development.quotes", "false");
        config
    }

    fn upstream(&self) -> FlagTable {
        let setting = |flag: &str, name: &str, value: &str| FlagSource {
            flag: flag.to_owned(),
            key: format!("upstream.{name}"),
            value: value.to_owned(),
        };
        let urls: Vec<String> = self.urls.iter().map(|url| with_scheme(url)).collect();
        let topics = if self.topics.is_empty() { "**".to_owned() } else { self.topics.join(",") };
        let mut settings = vec![
            setting("edge", "urls", &urls.join(",")),
            setting("--topics", "topics", &topics),
            setting("--name", "name", &self.name),
        ];
        if !self.queues.is_empty() {
            settings.push(setting("--queues", "queues", &self.queues.join(",")));
        }
        for (flag, name, value) in [
            ("--token", "token", &self.token),
            ("--user", "user", &self.user),
            ("--password", "password", &self.password),
            ("--ca", "tls_ca_file", &self.ca),
            ("--cert", "tls_certificate", &self.cert),
            ("--key", "tls_key", &self.key),
        ] {
            settings.extend(value.as_ref().map(|value| setting(flag, name, value)));
        }
        if !self.services.is_empty() {
            settings.push(setting("--services", "services", &self.services.join(",")));
        }
        if self.eager {
            settings.push(setting("--eager", "eager", "true"));
        }
        if self.write {
            settings.push(setting("--write", "write", "true"));
        }
        FlagTable { section: "upstream", settings }
    }
}

/// As other commands take them: a host alone is meant in plain text.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("tcp://{url}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        edge: EdgeArgs,
    }

    fn load(line: &str) -> Result<tiderace_config::Config, String> {
        let edge = Line::try_parse_from(line.split(' ')).unwrap().edge;
        let loaded = edge.config().load(true).map_err(|error| error.to_string())?;
        Ok(loaded.config)
    }

    #[test]
    fn an_address_is_enough() {
        let config = load("edge source.example").unwrap();
        let [upstream] = &config.upstreams[..] else { panic!("{:?}", config.upstreams) };
        let urls: Vec<String> = upstream.urls.iter().map(ToString::to_string).collect();
        assert_eq!(
            (&*upstream.name, &urls[..]),
            ("source", &["tcp://source.example".to_owned()][..])
        );
        let topics: Vec<&str> = upstream.topics.iter().map(|pattern| pattern.as_str()).collect();
        assert_eq!((&topics[..], upstream.eager), (&["**"][..], false));
        assert!(!config.development.quotes);
        assert_eq!(config.listeners.len(), 2, "{:?}", config.listeners);
    }

    #[test]
    fn all_else_can_be_said_and_what_is_wrong_is_told_by_its_flag() {
        let config = load(
            "edge wss://a wss://b:1 --topics fx/** --topics news/* --services pricing/** --name london --eager --write --listen 127.0.0.1:1",
        );
        let config = config.unwrap();
        let [upstream] = &config.upstreams[..] else { panic!("{:?}", config.upstreams) };
        assert_eq!((upstream.urls.len(), upstream.topics.len(), upstream.eager), (2, 2, true));
        assert!(upstream.write);
        assert_eq!(upstream.services.len(), 1);
        let error = load("edge ftp://a --topics $sys/**").unwrap_err();
        assert!(
            error.contains("edge: upstream.urls: \"ftp://a\" begins with none of wss://"),
            "{error}"
        );
        assert!(
            error.contains("--topics: upstream.topics: \"$sys/**\" names topics below `$`"),
            "{error}"
        );
        let error = load("edge 127.0.0.1").unwrap_err();
        assert!(
            error.contains(
                "\"tcp://127.0.0.1\" leads to this server itself, which listens on 127.0.0.1:7800"
            ),
            "{error}"
        );
    }
}
