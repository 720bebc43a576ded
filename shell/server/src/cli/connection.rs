//! What the commands that talk to a server share: where the server is, and who logs in.
//!
//! Relies on `client`. Invariant: an address that means TLS never leads to plain text, nor the other way round.

use clap::{ArgAction, Args};

use super::client::{At, Client, Login, Target};
use super::error::ClientError;
use super::place::{HostPlace, Place};
use super::tls::TlsArgs;

/// Where the server is and who logs in.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// The server, as host, host:port or address: tls://, https:// and wss:// speak TLS, tcp://, http:// and
    /// ws:// plain text. unix:/PATH is a server's admin socket on this machine, unix: the one of the packages; it
    /// wants no login. Of several, separated by commas, the first that answers.
    #[arg(
        short = 's',
        long = "server",
        visible_alias = "host",
        value_name = "HOST",
        default_value = "127.0.0.1",
        env = "TIDERACE_HOST",
        value_delimiter = ',',
        hide_env_values = true
    )]
    servers: Vec<Place>,
    /// Port of the server, unless its address has one [default: 7800, or that of https:// and the like].
    #[arg(short, long, env = "TIDERACE_STOMP_PORT", hide_env = true)]
    port: Option<u16>,
    /// Login name.
    #[arg(short = 'u', long, value_name = "NAME", env = "TIDERACE_LOGIN", hide_env_values = true)]
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
    #[arg(short = 'h', long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl ConnectionArgs {
    /// Connects and logs in.
    pub(super) fn connect(&self) -> Result<Client, ClientError> {
        let targets = self.servers.iter().map(|place| self.target(place));
        let login = Login { login: self.login.clone(), passcode: self.passcode.clone() };
        Client::connect(targets.collect::<Result<_, _>>()?, login)
    }

    /// Host and port, and how the connection is secured.
    fn target(&self, place: &Place) -> Result<Target, ClientError> {
        let HostPlace { host, port, scheme } = match place {
            Place::Host(place) => place,
            Place::Socket(path) if self.tls.is_asked() => {
                return Err(ClientError::Secure {
                    place: format!("unix:{}", path.display()),
                    reason:
                        "a Unix socket needs none; leave out --tls, --ca, --insecure and --cert"
                            .to_owned(),
                });
            }
            Place::Socket(path) => {
                return Ok(Target { at: At::Socket(path.clone()), tls: self.tls.clone() });
            }
        };
        let usual = scheme.and_then(|scheme| scheme.port).unwrap_or(PORT);
        let port = port.or(self.port).unwrap_or(usual);
        let tls = match scheme {
            Some(scheme) if scheme.is_secured => self.tls.clone().asked(),
            // A user who asks for TLS must not get plain text for a message that is missing.
            Some(scheme) if self.tls.is_asked() => {
                return Err(ClientError::Secure {
                    place: format!("{host}:{port}"),
                    reason: format!(
                        "{}:// means plain text; write tls://, or leave out --tls, --ca, --insecure and --cert",
                        scheme.name
                    ),
                });
            }
            _ => self.tls.clone(),
        };
        Ok(Target { at: At::Host { host: host.clone(), port }, tls })
    }
}

/// Where servers listen unless they are told otherwise.
const PORT: u16 = 7800;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
            let connection = Line::try_parse_from(words).unwrap().connection;
            let target = connection.target(&connection.servers[0]);
            let port = |it: &Target| match it.at {
                At::Host { port, .. } => port,
                At::Socket(_) => 0,
            };
            target.map(|it| (port(&it), it.tls.is_asked())).map_err(|error| error.to_string())
        };
        for (line, expected) in [
            ("-s a", (7800, false)),
            ("-s a -p 1", (1, false)),
            ("-s a:2 -p 1", (2, false)),
            ("-s a --ca f", (7800, true)),
            ("-s tls://a", (7800, true)),
            ("-s https://a", (443, true)),
            ("-s https://a -p 1", (1, true)),
            ("-s wss://a:2 -p 1 --ca f", (2, true)),
            ("-s http://a", (80, false)),
            ("-s tcp://a", (7800, false)),
            ("-s unix:/a -p 1", (0, false)),
        ] {
            assert_eq!(resolve(line), Ok(expected), "{line}");
        }
        let expected = "no secured connection with a:80: http:// means plain text; write tls://, \
                        or leave out --tls, --ca, --insecure and --cert";
        assert_eq!(resolve("-s http://a --ca f"), Err(expected.to_owned()));
        let expected = "no secured connection with unix:/a: a Unix socket needs none; leave out --tls, \
                        --ca, --insecure and --cert";
        assert_eq!(resolve("-s unix:/a --tls"), Err(expected.to_owned()));

        let line =
            Line::try_parse_from(["x", "-p", "3", "--host", "a,tls://b:2,[::1],unix:/c"]).unwrap();
        let targets = line.connection.servers.iter().map(|place| line.connection.target(place));
        let names: Vec<String> = targets.map(|target| target.unwrap().authority()).collect();
        assert_eq!(names, ["a:3", "b:2", "[::1]:3", "unix:/c"]);
    }

    #[test]
    fn help_is_asked_for_as_everywhere() {
        let error = Line::try_parse_from(["x", "-h"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp);
    }
}
