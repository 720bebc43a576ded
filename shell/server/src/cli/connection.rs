//! What the commands that talk to a server share: where the server is, who logs in, how destinations are spelled.
//!
//! Relies on `client` and `native`. Invariant: a path without prefix means a topic unless `--queue` says otherwise.

use std::borrow::Cow;

use clap::{ArgAction, Args};
use tiderace_topics::{Pattern, Selector};

use super::client::{Client, Login};
use super::error::ClientError;
use super::native::NativeClient;
use super::place::Place;
use super::tls::TlsArgs;

/// Where the server is and who logs in.
#[derive(Debug, Clone, Args)]
// `-h` is the host, as everywhere in messaging; help is `--help`.
pub(crate) struct ConnectionArgs {
    /// Host of the server, or its address: tls://, https:// and wss:// speak TLS, tcp://, http:// and
    /// ws:// plain text.
    #[arg(short = 'h', long, default_value = "127.0.0.1", env = "TIDERACE_HOST")]
    host: Place,
    /// Port of the server, unless its address has one [default: 7800, or that of https:// and the like].
    #[arg(short, long, env = "TIDERACE_STOMP_PORT")]
    port: Option<u16>,
    /// Login name.
    #[arg(short = 'u', long, value_name = "NAME", env = "TIDERACE_LOGIN")]
    login: Option<String>,
    /// Password, or a token if there is no login name. The environment hides it from other users.
    #[arg(
        short = 'P',
        long,
        value_name = "PASSCODE",
        env = "TIDERACE_PASSCODE",
        hide_env_values = true
    )]
    passcode: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl ConnectionArgs {
    /// Connects and logs in.
    pub(crate) fn connect(&self) -> Result<Client, ClientError> {
        let (port, tls) = self.resolve()?;
        Client::connect(&self.host.host, port, &tls, &self.login())
    }

    /// Connects by the native protocol and logs in.
    pub(crate) fn connect_native(&self) -> Result<NativeClient, ClientError> {
        let (port, tls) = self.resolve()?;
        NativeClient::connect(&self.host.host, port, &tls, &self.login())
    }

    fn login(&self) -> Login<'_> {
        Login { login: self.login.as_deref(), passcode: self.passcode.as_deref() }
    }

    /// The port, and how the connection is secured.
    fn resolve(&self) -> Result<(u16, TlsArgs), ClientError> {
        let Place { host, port, scheme } = &self.host;
        let usual = scheme.and_then(|scheme| scheme.port).unwrap_or(PORT);
        let port = port.or(self.port).unwrap_or(usual);
        match scheme {
            Some(scheme) if scheme.is_secured => Ok((port, self.tls.clone().asked())),
            // Whoever asks for TLS must not get plain text for a message that is missing.
            Some(scheme) if self.tls.is_asked() => Err(ClientError::Secure {
                place: format!("{host}:{port}"),
                reason: format!(
                    "{}:// means plain text; write tls://, or leave out --tls, --ca, --insecure and --cert",
                    scheme.name
                ),
            }),
            _ => Ok((port, self.tls.clone())),
        }
    }
}

/// The STOMP destination of a path as typed.
pub(crate) fn destination(path: &str, is_queue: bool) -> String {
    let is_complete = ["/topic/", "/queue/", "/temp-topic/", "/temp-queue/"]
        .iter()
        .any(|prefix| path.starts_with(prefix));
    if is_complete {
        return path.to_owned();
    }
    let kind = if is_queue { "queue" } else { "topic" };
    match path.starts_with(['?', '[']).then(|| Selector::parse(path)) {
        // A set is a composite destination; dots and commas are not separators there.
        Some(Ok(selector)) => {
            let spelled = |pattern: &Pattern| format!("/{kind}/{}", escaped(pattern.as_str()));
            selector.patterns().iter().map(spelled).collect::<Vec<_>>().join(",")
        }
        // The server says what is wrong with it.
        Some(Err(_)) | None => format!("/{kind}/{}", escaped(path.trim_start_matches('/'))),
    }
}

/// What separates nothing in a path, in the spelling in which it separates nothing in a destination either.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('.', "%2E").replace(',', "%2C")
}

/// The path of a STOMP destination, as all commands take it.
pub(crate) fn path(destination: &str) -> Cow<'_, str> {
    let stripped =
        destination.strip_prefix("/topic/").or_else(|| destination.strip_prefix("/queue/"));
    match stripped {
        Some(name) if name.contains('%') => {
            name.replace("%2E", ".").replace("%2C", ",").replace("%25", "%").into()
        }
        Some(name) => name.into(),
        None => destination.into(),
    }
}

/// Where servers listen unless they are told otherwise.
const PORT: u16 = 7800;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    #[test]
    fn an_address_says_which_port_and_whether_it_is_secured() {
        let resolve = |line: &str| {
            let words = ["x"].into_iter().chain(line.split(' '));
            let resolved = Line::try_parse_from(words).unwrap().connection.resolve();
            resolved.map(|(port, tls)| (port, tls.is_asked())).map_err(|error| error.to_string())
        };
        for (line, expected) in [
            ("-h a", (7800, false)),
            ("-h a -p 1", (1, false)),
            ("-h a:2 -p 1", (2, false)),
            ("-h a --ca f", (7800, true)),
            ("-h tls://a", (7800, true)),
            ("-h https://a", (443, true)),
            ("-h https://a -p 1", (1, true)),
            ("-h wss://a:2 -p 1 --ca f", (2, true)),
            ("-h http://a", (80, false)),
            ("-h tcp://a", (7800, false)),
        ] {
            assert_eq!(resolve(line), Ok(expected), "{line}");
        }
        let expected = "no secured connection with a:80: http:// means plain text; write tls://, \
                        or leave out --tls, --ca, --insecure and --cert";
        assert_eq!(resolve("-h http://a --ca f"), Err(expected.to_owned()));
    }

    #[test]
    fn paths_become_destinations_and_back() {
        let cases = [
            ("fx/EUR-USD", false, "/topic/fx/EUR-USD"),
            ("/fx/EUR-USD", false, "/topic/fx/EUR-USD"),
            ("jobs", true, "/queue/jobs"),
            ("fx/**", false, "/topic/fx/**"),
            ("fx/#", false, "/topic/fx/#"),
            ("v1.0/price", false, "/topic/v1%2E0/price"),
            ("a,b/100%", true, "/queue/a%2Cb/100%25"),
            ("10.0.0.1/load", false, "/topic/10%2E0%2E0%2E1/load"),
            ("/topic/fx.EUR-USD", false, "/topic/fx.EUR-USD"),
            ("?fx/[A-Z]{3,4}-USD/.*", false, "/topic/?fx/[A-Z]{3%2C4}-USD/%2E*"),
            ("[a/b, c.d/**]", true, "/queue/a/b,/queue/c%2Ed/**"),
            ("/queue/jobs", false, "/queue/jobs"),
            ("/temp-queue/a", false, "/temp-queue/a"),
        ];
        for (typed, is_queue, expected) in cases {
            assert_eq!(destination(typed, is_queue), expected, "{typed}");
        }
        for typed in ["v1.0/price", "a,b/100%", "100%2E/x", "fx/EUR-USD"] {
            assert_eq!(path(&destination(typed, false)), typed);
        }
        assert_eq!(path("/topic/fx/EUR-USD"), "fx/EUR-USD");
        assert_eq!(path("/queue/jobs"), "jobs");
        assert_eq!(path("/temp-queue/a"), "/temp-queue/a");
    }
}
