//! `tiderace users`, `tokens` and `rules`: who may come in, and who may do what, while the server runs.
//!
//! Relies on `client`. Invariants: a password is read from standard input and leaves this machine as its hash alone; of a token only the
//! hash leaves it, too.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tiderace_auth::{TokenDigest, generate_token, hash_password};
use tiderace_config::Moment;

use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{agrees, printable};
use super::pages::{Printing, print_list};
use super::password::read_password;
use super::publish::duration;
use super::topics::{once, print_line};

/// Entries that are asked for at once.
const PAGE: usize = 500;

/// `tiderace users`.
#[derive(Debug, Args)]
pub(crate) struct UsersArgs {
    #[command(subcommand)]
    command: UsersCommand,
}

/// `tiderace tokens`.
#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    #[command(subcommand)]
    command: TokensCommand,
}

/// `tiderace rules`.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// List users with their groups, and where each stands.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Add a user, or change one that was put: reads its password from standard input.
    #[command(disable_help_flag = true)]
    Put(PutUserArgs),
    /// Remove a user that was put, and end its sessions.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// List tokens, and whom each stands for.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Add a token and print it, or change one that was put.
    #[command(disable_help_flag = true)]
    Put(PutTokenArgs),
    /// Remove a token that was put, and end the sessions that began with it.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// List rules with their numbers.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Add a rule, or change one that was put.
    #[command(disable_help_flag = true)]
    Put(PutRuleArgs),
    /// Remove a rule that was put.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Print each as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// How something is changed.
#[derive(Debug, Args)]
struct ChangeArgs {
    /// Say what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Who a client is that logs in so.
#[derive(Debug, Args)]
struct BearerArgs {
    /// A group that it belongs to; may be given several times.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// The virtual host that it is bound to, or '*' for the whole tree.
    #[arg(long = "virtual-host", value_name = "HOST")]
    host: Option<String>,
}

#[derive(Debug, Args)]
struct PutUserArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    bearer: BearerArgs,
    /// The hash of its password, as 'tiderace password' prints it, instead of the password.
    #[arg(long, value_name = "HASH", conflicts_with = "keep_password")]
    hash: Option<String>,
    /// Leave the password as it is.
    #[arg(long)]
    keep_password: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct PutTokenArgs {
    /// Its name.
    name: String,
    /// Who its bearer is; not given: who is called like the token.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    #[command(flatten)]
    bearer: BearerArgs,
    /// For how long it is good, such as 30d; not given: until it is removed.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    lasts: Option<Duration>,
    /// 'sha256:' and the hash of a token of yours, instead of a new one.
    #[arg(long, value_name = "HASH", conflicts_with = "keep_secret")]
    secret: Option<String>,
    /// Leave the token as it is, and change what else is given.
    #[arg(long)]
    keep_secret: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct PutRuleArgs {
    /// Its name.
    name: String,
    /// An action that it allows; may be given several times.
    #[arg(long, value_name = "ACTION", required_unless_present_any = ["deny", "role"], conflicts_with = "deny")]
    allow: Vec<String>,
    /// An action that it denies; may be given several times.
    #[arg(long, value_name = "ACTION")]
    deny: Vec<String>,
    /// A role that it gives, instead of actions: viewer, operator or admin.
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["allow", "deny", "paths", "kind"])]
    role: Option<String>,
    /// Whom it concerns: user:NAME, group:NAME, anonymous or '*'; may be given several times.
    #[arg(long = "principal", value_name = "WHO", required = true)]
    principals: Vec<String>,
    /// Where, as a pattern such as 'fx/**'; may be given several times; neither this nor a role given: everywhere.
    #[arg(long = "path", value_name = "PATTERN")]
    paths: Vec<String>,
    /// For which kind of destinations: topic, queue, service or any.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// Its name.
    name: String,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Does what the command line asks for.
pub(crate) fn users(args: &UsersArgs) -> anyhow::Result<()> {
    match &args.command {
        UsersCommand::Ls(args) => {
            let row = |user: &Json| {
                vec![
                    text(user, "name"),
                    list(user, "groups"),
                    text(user, "host"),
                    text(user, "from"),
                ]
            };
            ls(args, "users", &["NAME", "GROUPS", "HOST", "FROM"], row)
        }
        UsersCommand::Put(args) => {
            let hash = match (&args.hash, args.keep_password) {
                (Some(hash), _) => Some(hash.clone()),
                (None, true) => None,
                (None, false) => Some(hash_password(&read_password()?)?),
            };
            let mut operation = args.bearer.operation("put-user", &args.name);
            add(&mut operation, "password_hash", hash.as_ref());
            change(&args.change, &operation).map(|_| ())
        }
        UsersCommand::Rm(args) => remove(args, "user"),
    }
}

/// Does what the command line asks for.
pub(crate) fn tokens(args: &TokensArgs) -> anyhow::Result<()> {
    match &args.command {
        TokensCommand::Ls(args) => {
            let head = &["NAME", "PRINCIPAL", "GROUPS", "HOST", "UNTIL", "FROM"];
            let row = |token: &Json| {
                let until = token["until"].as_u64().map(|ms| Moment::from_unix(ms / 1000));
                let until = until.map(|until| until.to_string()).unwrap_or_default();
                vec![
                    text(token, "name"),
                    text(token, "principal"),
                    list(token, "groups"),
                    text(token, "host"),
                    until,
                    text(token, "from"),
                ]
            };
            ls(args, "tokens", head, row)
        }
        TokensCommand::Put(args) => put_token(args),
        TokensCommand::Rm(args) => remove(args, "token"),
    }
}

fn put_token(args: &PutTokenArgs) -> anyhow::Result<()> {
    let made = (args.secret.is_none() && !args.keep_secret).then(generate_token);
    let made =
        made.map(|made| made.context("the operating system gave no random bytes; try again"));
    let made = made.transpose()?;
    let secret = made.as_ref().map(|token| TokenDigest::of(token).to_string());
    let mut operation = args.bearer.operation("put-token", &args.name);
    add(&mut operation, "secret", secret.as_ref().or(args.secret.as_ref()));
    add(&mut operation, "principal", args.principal.as_ref());
    if let Some(lasts) = args.lasts {
        operation["for"] = json!(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    }
    let made = made.filter(|_| !args.change.dry_run);
    if args.change.json {
        let mut result = ask(&args.change, &operation)?;
        if let Some(token) = made {
            result["secret"] = json!(token);
        }
        return print_line(result.to_string().as_bytes());
    }
    change(&args.change, &operation)?;
    match made {
        Some(token) => print_line(format!("{token}  (it is shown only here)").as_bytes()),
        None => Ok(()),
    }
}

/// Does what the command line asks for.
pub(crate) fn rules(args: &RulesArgs) -> anyhow::Result<()> {
    match &args.command {
        RulesCommand::Ls(args) => {
            let head =
                &[">NUMBER", "NAME", "EFFECT", "ACTIONS", "PRINCIPALS", "PATHS", "KIND", "FROM"];
            let row = |rule: &Json| {
                let mut effects = ["deny", "role"].into_iter();
                let effect = effects.find(|effect| !rule[*effect].is_null());
                let effect = effect.unwrap_or("allow");
                vec![
                    rule["number"].to_string(),
                    text(rule, "name"),
                    effect.to_owned(),
                    text(rule, effect) + &list(rule, effect),
                    list(rule, "principals"),
                    list(rule, "paths"),
                    text(rule, "kind"),
                    text(rule, "from"),
                ]
            };
            ls(args, "rules", head, row)
        }
        RulesCommand::Put(args) => {
            let mut operation =
                json!({"do": "put-rule", "name": args.name, "principals": args.principals});
            for (name, texts) in
                [("allow", &args.allow), ("deny", &args.deny), ("paths", &args.paths)]
            {
                if !texts.is_empty() {
                    operation[name] = json!(texts);
                }
            }
            add(&mut operation, "role", args.role.as_ref());
            add(&mut operation, "kind", args.kind.as_ref());
            change(&args.change, &operation).map(|_| ())
        }
        RulesCommand::Rm(args) => remove(args, "rule"),
    }
}

impl BearerArgs {
    /// An operation that puts who logs in so.
    fn operation(&self, verb: &str, name: &str) -> Json {
        let mut operation = json!({"do": verb, "name": name});
        if !self.groups.is_empty() {
            operation["groups"] = json!(self.groups);
        }
        add(&mut operation, "host", self.host.as_ref());
        operation
    }
}

fn add(operation: &mut Json, name: &str, value: Option<&String>) {
    if let Some(value) = value {
        operation[name] = json!(value);
    }
}

fn remove(args: &RmArgs, kind: &str) -> anyhow::Result<()> {
    let RmArgs { name, yes, change: how } = args;
    let question = format!("Remove the {kind} {}?", printable(name));
    if !yes && !how.dry_run && !agrees(&question)? {
        bail!("nothing was removed");
    }
    let result = change(how, &json!({"do": format!("remove-{kind}"), "name": name}))?;
    match result["outcome"] == "missing" {
        true => Err(ClientError::Missing(format!("no {kind} {} was put", printable(name))).into()),
        false => Ok(()),
    }
}

fn ask(how: &ChangeArgs, operation: &Json) -> anyhow::Result<Json> {
    let mut operation = operation.clone();
    operation["dry_run"] = json!(how.dry_run);
    Ok(once(&how.connection, &operation, None)?.result)
}

/// Asks for a change, and prints what has come of it.
fn change(how: &ChangeArgs, operation: &Json) -> anyhow::Result<Json> {
    let result = ask(how, operation)?;
    let line = match how.json {
        true => result.to_string(),
        false => sentence(&result),
    };
    if how.json || result["outcome"] != "missing" {
        print_line(printable(&line).as_bytes())?;
    }
    Ok(result)
}

/// What has become of a user, a token or a rule.
fn sentence(result: &Json) -> String {
    let kind = ["user", "token", "rule"].into_iter().find(|kind| result[*kind].is_string());
    let kind = kind.unwrap_or_default();
    let would = if result["dry_run"] == true { "would be " } else { "" };
    format!("{kind} {} {would}{}", text(result, kind), text(result, "outcome"))
}

fn ls(
    args: &LsArgs,
    what: &str,
    columns: &'static [&'static str],
    row: impl Fn(&Json) -> Vec<String>,
) -> anyhow::Result<()> {
    let row = |entry: &Json| Some(row(entry));
    let printing = Printing { json: args.json, columns, row, limit: None };
    let operation = json!({"do": what, "limit": PAGE});
    print_list(&args.connection, operation, what, &printing).map(|_| ())
}

fn text(entry: &Json, name: &str) -> String {
    entry[name].as_str().unwrap_or_default().to_owned()
}

fn list(entry: &Json, name: &str) -> String {
    let texts = entry[name].as_array().into_iter().flatten().filter_map(Json::as_str);
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_happened_is_a_sentence() {
        let said = |kind: &str, outcome: &str, dry_run: bool| {
            sentence(&json!({kind: "ann", "outcome": outcome, "dry_run": dry_run}))
        };
        assert_eq!(said("user", "added", false), "user ann added");
        assert_eq!(said("rule", "removed", true), "rule ann would be removed");
        let rule = json!({"allow": ["publish", "send"]});
        assert_eq!(
            (list(&rule, "allow"), list(&rule, "deny")),
            ("publish,send".into(), String::new())
        );
    }
}
