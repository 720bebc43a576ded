//! `tiderace acl`: which rule decides what somebody may do.
//!
//! Relies on the rules as the server has them: the same code decides. Invariant: nothing is decided here.

use std::io::Write;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use tiderace_broker::{Action, Decision, LOCAL, Principal};
use tiderace_config::{Loaded, Table};
use tiderace_topics::Path;
use tiderace_wire::Kind;

use super::config_args::ConfigArgs;
use super::output::output_error;
use crate::compose;

/// `tiderace acl`.
#[derive(Debug, Args)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Debug, Subcommand)]
enum AclCommand {
    /// Say whether somebody may do something, and which rule decides.
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// Who: a name; `anonymous` for somebody who does not log in, `uid:0` for root on the admin socket.
    user: String,
    /// What: an action of the rules, such as `publish`.
    action: String,
    /// Where: the path of a topic, queue or service.
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
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Topic,
    Queue,
    Service,
}

/// Prints the answer.
pub(crate) fn run(args: &AclArgs) -> anyhow::Result<()> {
    let AclCommand::Explain(args) = &args.command;
    let loaded = args.config.load(false)?;
    let (_, action) =
        Action::ALL.iter().find(|(name, _)| *name == args.action).with_context(|| {
            let names: Vec<&str> = Action::ALL.iter().map(|(name, _)| *name).collect();
            format!("{:?} is no action; the actions are {}", args.action, names.join(", "))
        })?;
    let kind = match (args.kind, action) {
        (Some(KindWord::Queue), _) => Kind::Queue,
        (Some(KindWord::Service), _) => Kind::Service,
        (Some(KindWord::Topic), _) => Kind::Topic,
        (None, Action::Manage | Action::Receive | Action::Send) => Kind::Queue,
        (None, Action::Call | Action::Serve) => Kind::Service,
        (None, _) => Kind::Topic,
    };
    let path = Path::parse(&args.path).with_context(|| format!("{:?} is no path", args.path))?;
    let principal = principal(args, &loaded)?;
    let decision = compose::rules(&loaded.config.auth).explain(&principal, *action, kind, &path);
    let may = if decision.is_allowed() { "may" } else { "may not" };
    let reason = reason(&decision, &loaded);
    let text = format!(
        "{} {may} {} on {} {path}: {reason}.\n",
        principal.name,
        action.name(),
        kind.name()
    );
    std::io::stdout().write_all(text.as_bytes()).map_err(output_error)
}

/// Who it is: groups are those of all users and tokens of that name in the configuration, and those of the command.
fn principal(args: &ExplainArgs, loaded: &Loaded) -> anyhow::Result<Principal> {
    if args.user == "anonymous" {
        return Ok(Principal::anonymous());
    }
    if let Some(user) = args.user.strip_prefix(LOCAL).and_then(|user| user.parse().ok()) {
        return Ok(Principal::local(user));
    }
    let auth = &loaded.config.auth;
    let users = auth.users.iter().filter(|user| user.name == args.user);
    let tokens = auth.tokens.iter().filter(|token| token.principal == args.user);
    let groups = users.flat_map(|user| &user.groups).chain(tokens.flat_map(|token| &token.groups));
    let groups = groups.chain(&args.groups).map(|group| group.as_str().into()).collect();
    let claim = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("{text:?} is no claim; write --claim NAME=VALUE"))?;
        Ok((name.into(), value.into()))
    };
    let claims = args.claims.iter().map(claim).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Principal {
        groups,
        claims: claims.into_iter().collect(),
        ..Principal::named(args.user.as_str())
    })
}

fn reason(decision: &Decision, loaded: &Loaded) -> String {
    match decision {
        Decision::NoRules => {
            "the configuration has neither users nor rules, so everything is allowed".to_owned()
        }
        Decision::Server => "it is the server".to_owned(),
        Decision::Local => "who has come by the admin socket may what admins may".to_owned(),
        Decision::Elsewhere => {
            "the server is looked after at other listeners, or on its admin socket".to_owned()
        }
        Decision::Reserved => "nobody but the server changes what is below $sys".to_owned(),
        Decision::Temporary => {
            "a temporary destination belongs to the session that made it".to_owned()
        }
        Decision::Private => "the path is private to somebody else".to_owned(),
        Decision::Own => "the path is its own, and no rule denies it".to_owned(),
        Decision::Nothing => "no rule allows it".to_owned(),
        Decision::Subject(subject) => {
            format!("who subscribes to {subject} is shown to those who may subscribe to it")
        }
        Decision::Rule { number, allows } => {
            let rules = loaded.tables.iter().filter(|table| table.section.name == "rule");
            let rule = rules.into_iter().nth(*number);
            let verb = if *allows { "allows" } else { "denies" };
            rule.map_or_else(
                || format!("rule {} {verb} it", number + 1),
                |rule| format!("the [[rule]] at {} {verb} it ({})", rule.origin, shown(rule)),
            )
        }
    }
}

/// The rule in one line, as it stands in the file.
fn shown(rule: &Table) -> String {
    let settings = rule.settings.iter().filter(|setting| {
        matches!(setting.spec.name(), "allow" | "deny" | "principals" | "paths" | "kind")
    });
    let parts: Vec<String> =
        settings.map(|setting| format!("{} = {}", setting.spec.name(), setting.value)).collect();
    parts.join(", ")
}
