//! What the commands that talk to a server share: where the server is, who logs in, how destinations are spelled.
//!
//! Relies on `client` and `native`. Invariant: a path without prefix means a topic unless `--queue` says otherwise.

use clap::{ArgAction, Args};
use tiderace_topics::{Pattern, Selector};

use super::client::{Client, ClientError, Login};
use super::native::NativeClient;
use super::tls::TlsArgs;

/// Where the server is and who logs in.
#[derive(Debug, Clone, Args)]
// `-h` is the host, as everywhere in messaging; help is `--help`.
pub(crate) struct ConnectionArgs {
    /// Host of the server.
    #[arg(short = 'h', long, default_value = "127.0.0.1", env = "TIDERACE_HOST")]
    host: String,
    /// Port of the server.
    #[arg(short, long, default_value_t = 7800, env = "TIDERACE_STOMP_PORT")]
    port: u16,
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
        let login = Login { login: self.login.as_deref(), passcode: self.passcode.as_deref() };
        Client::connect(&self.host, self.port, &self.tls, &login)
    }

    /// Connects by the native protocol and logs in.
    pub(crate) fn connect_native(&self) -> Result<NativeClient, ClientError> {
        let login = Login { login: self.login.as_deref(), passcode: self.passcode.as_deref() };
        NativeClient::connect(&self.host, self.port, &self.tls, &login)
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
            let spelled = |pattern: &Pattern| {
                let name = pattern.as_str().replace('%', "%25").replace('.', "%2E");
                format!("/{kind}/{}", name.replace(',', "%2C"))
            };
            selector.patterns().iter().map(spelled).collect::<Vec<_>>().join(",")
        }
        // The server says what is wrong with it.
        Some(Err(_)) | None => format!("/{kind}/{}", path.trim_start_matches('/')),
    }
}

/// The path of a STOMP destination, as `pub` and `sub` take it.
pub(crate) fn path(destination: &str) -> &str {
    let stripped =
        destination.strip_prefix("/topic/").or_else(|| destination.strip_prefix("/queue/"));
    stripped.unwrap_or(destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_destinations_and_back() {
        let cases = [
            ("fx/EUR-USD", false, "/topic/fx/EUR-USD"),
            ("/fx/EUR-USD", false, "/topic/fx/EUR-USD"),
            ("jobs", true, "/queue/jobs"),
            ("fx/**", false, "/topic/fx/**"),
            ("fx/#", false, "/topic/fx/#"),
            ("?fx/[A-Z]{3,4}-USD/.*", false, "/topic/?fx/[A-Z]{3%2C4}-USD/%2E*"),
            ("[a/b, c.d/**]", true, "/queue/a/b,/queue/c%2Ed/**"),
            ("/queue/jobs", false, "/queue/jobs"),
            ("/temp-queue/a", false, "/temp-queue/a"),
        ];
        for (typed, is_queue, expected) in cases {
            assert_eq!(destination(typed, is_queue), expected, "{typed}");
        }
        assert_eq!(path("/topic/fx/EUR-USD"), "fx/EUR-USD");
        assert_eq!(path("/queue/jobs"), "jobs");
        assert_eq!(path("/temp-queue/a"), "/temp-queue/a");
    }
}
