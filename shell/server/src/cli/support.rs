//! `tiderace support`: what those who look for a fault want to know of a server and its machine, in one file.
//!
//! Relies on `doctor`, on the configuration's masks and on `client`. Invariants: what is in the file was picked by what it is,
//! not cleaned of what it should not be: no secret, no message, no name or address of a client, no name of a topic or a queue
//! but what the configuration itself has; what could not be found out is said in the file.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value as Json, json};
use tar::{Builder, Header};

use super::client::{Answer, Client};
use super::config_args::ConfigArgs;
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::new_file::NewFile;
use super::output::{note, printable};
use super::table::now_ms;
use super::topics::{entries, print_line};
use super::{alarms, doctor, top};

/// Sessions and queues that are told of, at most; those for which most waits, and the first.
const MOST: u64 = 500;

/// `tiderace support`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SupportArgs {
    /// The archive, which must not be there: a tar file that only this user can read.
    file: PathBuf,
    /// The configuration file of the server.
    #[arg(short, long, value_name = "FILE", env = "TIDERACE_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The files of an archive, and what is missing in it.
#[derive(Default)]
struct Support {
    files: Vec<(String, String)>,
    missing: Map<String, Json>,
    /// Whether the server has stopped answering: what comes late would be taken for something else.
    is_lost: bool,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &SupportArgs) -> anyhow::Result<()> {
    let new = NewFile::begin(&args.file)?;
    let mut support = Support::default();
    support.machine(args);
    match args.connection.connect() {
        Ok(client) => support.server(client),
        Err(error) => support.miss("server", &reason(&error)),
    }
    support.finish(&new)?;
    new.finish()?;
    for (what, why) in &support.missing {
        note(&format!("{what} is missing: {}", why.as_str().unwrap_or_default()));
    }
    let name = printable(&args.file.display().to_string());
    print_line(format!("{name} is there; look into it before it goes to others").as_bytes())
}

impl Support {
    fn miss(&mut self, what: &str, why: &str) {
        self.missing.insert(what.to_owned(), json!(why));
    }

    /// What is known without the server: its configuration, and what the machine is like.
    fn machine(&mut self, args: &SupportArgs) {
        // Development mode's is not the server's.
        let loaded = args.config.clone().map(|file| ConfigArgs::of_file(Some(file)).load(false));
        match &loaded {
            None => self.miss("config.toml", "no file was named; name the server's with --config"),
            Some(Ok(loaded)) => {
                self.files.push(("config.toml".to_owned(), tiderace_config::show_places(loaded)));
            }
            // What is wrong is quoted, and may be a secret that stands where none should.
            Some(Err(_)) => {
                self.miss("config.toml", "it cannot be used; `tiderace config check` says why");
            }
        }
        let config = loaded.as_ref().and_then(|loaded| Some(&loaded.as_ref().ok()?.config));
        self.files.push(("doctor.json".to_owned(), doctor::report(config)));
    }

    /// What the server says of itself.
    fn server(&mut self, mut client: Client) {
        self.ask(&mut client, "stats", json!({"do": "stats"}), |stats| stats.clone());
        let sessions = json!({"do": "sessions", "sort": "backlog", "limit": MOST});
        self.ask(&mut client, "sessions", sessions, |answer| summary(answer, "sessions"));
        self.told("queues", || Ok(summary(&top::queues(&mut client)?, "queues")));
        self.told("alarms", || Ok(alarms_of(&client.operate(&alarms::all(), None)?)));
        // What was asked for is there, however the connection ends.
        let _ = client.leave();
    }

    fn ask(
        &mut self,
        client: &mut Client,
        what: &str,
        operation: Json,
        told: impl Fn(&Json) -> Json,
    ) {
        self.told(what, || Ok(told(&client.operate(&operation, None)?.result)));
    }

    /// Adds what the server tells, unless it has stopped answering.
    fn told(&mut self, what: &str, ask: impl FnOnce() -> Result<Json, ClientError>) {
        if self.is_lost {
            return self.miss(what, "the server had stopped answering");
        }
        match ask() {
            Ok(told) => self.files.push((format!("{what}.json"), format!("{told:#}\n"))),
            Err(error) => {
                self.is_lost = error.is_lost();
                self.miss(what, &reason(&error));
            }
        }
    }

    /// Writes the archive.
    fn finish(&mut self, new: &NewFile) -> anyhow::Result<()> {
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "made": now_ms(),
            "system": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "missing": self.missing,
        });
        self.files.push(("about.json".to_owned(), format!("{about:#}\n")));
        let mut archive = Builder::new(new.part());
        for (name, text) in &self.files {
            let mut header = Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(now_ms() / 1000);
            header.set_cksum();
            let added = archive.append_data(&mut header, name, text.as_bytes());
            added.with_context(|| format!("{name} cannot be written into the archive"))?;
        }
        archive.finish().context("the archive cannot be written")
    }
}

/// The alarms that there are.
fn alarms_of(answer: &Answer) -> Json {
    let values = entries(answer, "topics").into_iter();
    let alarms = values.filter_map(|(_, value)| {
        let alarm = serde_json::from_slice::<Json>(&value?.body).ok()?;
        Some(picked(&alarm, &["name", "severity", "since"]))
    });
    alarms.collect()
}

/// Why something is missing, without names.
fn reason(error: &ClientError) -> String {
    match error {
        ClientError::Refused { message, .. } => {
            let code = message.rsplit_once('(').map(|(_, code)| code.trim_end_matches(')'));
            format!("refused: {}", code.unwrap_or("the server says no"))
        }
        ClientError::Silent(_) => "the server did not answer".to_owned(),
        error if error.is_lost() => "the connection was lost".to_owned(),
        ClientError::Secure { .. } | ClientError::Unsecured { .. } => {
            "no secured connection came about; see --tls, --ca and --insecure".to_owned()
        }
        ClientError::Usage(_) => {
            "the connection was asked for in a way that makes no sense".to_owned()
        }
        ClientError::Unexpected(_) => "it is not the server that was expected".to_owned(),
        _ => "no server answers there; name it with -s".to_owned(),
    }
}

/// A list of sessions or queues without names and addresses: how each fares.
fn summary(answer: &Json, list: &str) -> Json {
    let entries = answer[list].as_array().into_iter().flatten();
    let entries: Vec<Json> = entries.map(|entry| picked(entry, FARES)).collect();
    json!({list: entries, "matched": answer["matched"], "more": answer["more"]})
}

/// What says how a session or a queue fares.
const FARES: &[&str] = &[
    "id",
    "protocol",
    "transport",
    "tls",
    "since",
    "subscriptions",
    "backlog_messages",
    "backlog_bytes",
    "conflated",
    "dropped",
    "messages",
    "in_flight",
    "delayed",
    "bytes",
    "swapped",
    "swapped_bytes",
    "consumers",
    "full",
    "paused",
    "oldest_ms",
];

/// Some members of an object.
fn picked(entry: &Json, names: &[&str]) -> Json {
    let has = |name: &&&str| entry.get(**name).is_some();
    names.iter().filter(has).map(|name| ((*name).to_owned(), entry[*name].clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_are_called_is_left_out() {
        let answer = json!({"sessions": [{"id": "0-1-1", "name": "ann", "address": "10.1.2.3", "backlog_bytes": 3}],
                            "matched": 1, "more": false});
        let expected =
            json!({"sessions": [{"id": "0-1-1", "backlog_bytes": 3}], "matched": 1, "more": false});
        assert_eq!(summary(&answer, "sessions"), expected);
    }

    #[test]
    fn reasons_name_nobody() {
        let message = "ann may not browse on queue ** (not-authorised)".to_owned();
        assert_eq!(reason(&ClientError::Refused { message, hint: "" }), "refused: not-authorised");
    }
}
