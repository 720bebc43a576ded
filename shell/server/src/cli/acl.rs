//! `tiderace acl` and `tiderace explain`: which rule decides what somebody may do, by a file and by a running server.
//!
//! Relies on `explain`, by which a running server answers as well. Invariant: nothing is decided here.

use anyhow::Error;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use tiderace_base::Close;
use tiderace_wire::{ClientName, Kind, Question, parse_path};

use super::config_args::ConfigArgs;
use super::connection::ConnectionArgs;
use super::output::printable;
use super::topics::{once, print_line};
use crate::{explain, rules};

/// `tiderace acl`.
#[derive(Debug, Args)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Debug, Subcommand)]
enum AclCommand {
    /// Say whether somebody may do something by a configuration file, and which rule decides. `tiderace explain` asks a running
    /// server.
    Explain(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    config: ConfigArgs,
}

/// `tiderace explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    asked: Asked,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What is asked.
#[derive(Debug, Args)]
struct Asked {
    /// Who: a name, `anonymous`, or `uid:0` for root on the admin socket; `@HOST/` before it: by that virtual host.
    user: String,
    /// What: an action of the rules, such as `publish`.
    action: String,
    /// Where: the path of a topic, queue or service, as that client writes it.
    path: String,
    /// What is at the path; not given: what the action is for.
    #[arg(long)]
    kind: Option<KindWord>,
    /// A group of the user, besides those that the configuration gives; may be given several times.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// A claim of the user's token; may be given several times.
    #[arg(long = "claim", value_name = "NAME=VALUE")]
    claims: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Topic,
    Queue,
    Service,
}

impl Asked {
    fn kind(&self) -> Option<Kind> {
        self.kind.map(|kind| match kind {
            KindWord::Topic => Kind::Topic,
            KindWord::Queue => Kind::Queue,
            KindWord::Service => Kind::Service,
        })
    }

    /// The answer in a sentence.
    fn sentence(&self, (is_allowed, kind, says): (bool, &str, &str)) -> String {
        explain::sentence((&self.user, &self.action, &self.path), (is_allowed, kind, says))
    }
}

/// Answers by a file.
pub(crate) fn run(args: &AclArgs) -> anyhow::Result<()> {
    let AclCommand::Explain(FileArgs { asked, config }) = &args.command;
    let loaded = config.load(false)?;
    let action = explain::action(&asked.action).map_err(Error::msg)?.name();
    let who = ClientName::parse(&asked.user).map_err(Error::msg)?;
    let claims = asked.claims.iter().map(|claim| Question::claim(claim));
    let claims = claims.collect::<Result<_, _>>().map_err(Error::msg)?;
    let refused = |close: Close| Error::msg(close.reason.into_owned());
    let path = parse_path(&asked.path, who.name.as_deref()).map_err(refused)?;
    let groups = asked.groups.iter().map(|group| group.as_str().into()).collect();
    let question = Question { who, groups, claims, action, kind: asked.kind(), path };
    question.check().map_err(Error::msg)?;
    let rules = rules::rules(&loaded.config.auth);
    let told = explain::explain(&question, &rules, &loaded).map_err(refused)?;
    let text = asked.sentence((told.is_allowed, told.kind.name(), &told.says));
    print_line(printable(&text).as_bytes())
}

/// Asks a running server.
pub(crate) fn ask(args: &ExplainArgs) -> anyhow::Result<()> {
    let ExplainArgs { asked, json, connection } = args;
    let answer = once(connection, &operation(asked), None)?.result;
    if *json {
        return print_line(answer.to_string().as_bytes());
    }
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let text = asked.sentence((answer["allowed"] == true, text("kind"), text("says")));
    print_line(printable(&text).as_bytes())
}

/// The operation that asks a running server.
fn operation(asked: &Asked) -> Json {
    let Asked { user, action, path, groups, claims, .. } = asked;
    let mut operation = json!({"do": "explain", "who": user, "action": action, "path": path});
    if let Some(kind) = asked.kind() {
        operation["kind"] = json!(kind.name());
    }
    for (name, texts) in [("groups", groups), ("claims", claims)] {
        if !texts.is_empty() {
            operation[name] = json!(texts);
        }
    }
    operation
}
