//! What development mode prints: what listens where, and three commands to paste.
//!
//! Relies on nothing; pure. Invariant: the commands work as printed, in a shell in the same directory.

use std::fmt::Write;

use tiderace_config::{ListenerConfig, ListenerProtocol, UpstreamConfig};

/// The banner. `program` is how this process was called; the addresses are the ones really bound.
pub(crate) fn development_banner(
    program: &str,
    listeners: &[ListenerConfig],
    upstreams: &[UpstreamConfig],
) -> String {
    let mut out = String::from(
        "Tiderace, development mode: this machine only, everybody may do everything.\n\n",
    );
    for listener in listeners {
        let protocols = match listener.protocol {
            ListenerProtocol::Any => "native, Socket.IO, STOMP, RSocket, SSE and REST, /metrics",
            ListenerProtocol::Http => {
                "native, Socket.IO, SSE and REST, STOMP and RSocket over WebSocket, /metrics"
            }
            ListenerProtocol::RSocket => "RSocket",
            ListenerProtocol::Stomp => "STOMP",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {:<22} {protocols}", listener.address.to_string());
    }
    let speaks = |protocol: ListenerProtocol| {
        listeners.iter().find(move |listener| {
            listener.protocol == ListenerProtocol::Any || listener.protocol == protocol
        })
    };
    let web = speaks(ListenerProtocol::Http);
    if let Some(web) = web {
        let _ = writeln!(out, "\nLive quotes in a browser: http://{}/", web.address);
    }
    for upstream in upstreams {
        let topics: Vec<&str> = upstream.topics.iter().map(|pattern| pattern.as_str()).collect();
        let urls: Vec<String> = upstream.urls.iter().map(ToString::to_string).collect();
        let (topics, urls) = (topics.join(", "), urls.join(", "));
        let _ = writeln!(
            out,
            "\nTopics {topics} come from {urls}, the upstream {}; publish there.",
            upstream.name
        );
    }
    let Some(stomp) = speaks(ListenerProtocol::Stomp) else { return out };
    let port = match stomp.address.port() {
        7800 => String::new(),
        port => format!(" -p {port}"),
    };
    let program = quote(program);
    if !upstreams.is_empty() {
        let _ = write!(
            out,
            "\nIn another terminal:\n\n  \
             {program} sub{port} 'fx/**'\n  \
             {program} upstreams{port}\n\n\
             Ctrl-C stops it. `{program} serve --config FILE` with an [[upstream]] runs it for others to reach.\n",
        );
        return out;
    }
    let _ = write!(
        out,
        "\nIn another terminal:\n\n  \
         {program} sub{port} 'fx/**'\n  \
         {program} pub{port} fx/EUR-USD '{{\"bid\":1.09}}'\n  \
         {program} bench stomp --target {}\n\n\
         Ctrl-C stops it. `{program} serve --config FILE` runs it for others to reach.\n",
        stomp.address
    );
    out
}

/// For a POSIX shell.
fn quote(program: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    match program.chars().all(is_plain) && !program.is_empty() {
        true => program.to_owned(),
        false => format!("'{}'", program.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn listener(port: u16, protocol: ListenerProtocol) -> ListenerConfig {
        ListenerConfig {
            name: "x".to_owned(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            protocol,
            tls: tiderace_config::ListenerTls::Either,
            stays_open: false,
            management: false,
        }
    }

    #[test]
    fn the_usual_port_needs_no_option() {
        let listeners =
            [listener(7800, ListenerProtocol::Any), listener(61613, ListenerProtocol::Stomp)];
        let banner = development_banner("target/release/tiderace", &listeners, &[]);
        let expected = "Tiderace, development mode: this machine only, everybody may do everything.

  127.0.0.1:7800         native, Socket.IO, STOMP, RSocket, SSE and REST, /metrics
  127.0.0.1:61613        STOMP

Live quotes in a browser: http://127.0.0.1:7800/

In another terminal:

  target/release/tiderace sub 'fx/**'
  target/release/tiderace pub fx/EUR-USD '{\"bid\":1.09}'
  target/release/tiderace bench stomp --target 127.0.0.1:7800

Ctrl-C stops it. `target/release/tiderace serve --config FILE` runs it for others to reach.
";
        assert_eq!(banner, expected);
    }

    #[test]
    fn another_port_and_an_odd_path_are_spelled_out() {
        let listeners =
            [listener(80, ListenerProtocol::Http), listener(9000, ListenerProtocol::Any)];
        let banner = development_banner("/my tools/tide'race", &listeners, &[]);
        assert!(banner.contains("\n  '/my tools/tide'\\''race' sub -p 9000 'fx/**'\n"), "{banner}");
        assert!(!development_banner("tiderace", &listeners[..1], &[]).contains("another terminal"));
    }
}
