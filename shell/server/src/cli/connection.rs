//! What the commands that talk to a server share: where the server is, and who logs in.
//!
//! Relies on `client`. Invariant: an address that means TLS never leads to plain text, nor the other way round.

use clap::{ArgAction, Args};

use super::client::{Client, Login};
use super::error::ClientError;
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
    pub(super) fn connect(&self) -> Result<Client, ClientError> {
        let (port, tls) = self.resolve()?;
        Client::connect(&self.host.host, port, &tls, &self.login())
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
            // A user who asks for TLS must not get plain text for a message that is missing.
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
}
