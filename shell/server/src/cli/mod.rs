//! The command line: which commands there are, and what each needs to run.
//!
//! Relies on the table of options for every flag that sets one. Runs on the main thread. Invariant: a
//! command that fails says in one sentence what failed and what to do, and exits with the code that `error`
//! has for that.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output and error are the interface here"
)]

mod acl;
mod alarms;
mod audit;
mod backup;
mod banner;
mod blocks;
mod browse;
mod call;
mod channel;
mod client;
mod completions;
mod config;
mod config_args;
mod config_running;
mod connection;
mod connections;
mod definitions;
mod definitions_file;
mod destination;
mod doctor;
mod drain;
mod edge;
mod error;
mod help;
mod identities;
mod jobs;
mod man;
mod new_file;
mod output;
mod pages;
mod password;
mod place;
mod publish;
mod queues;
mod reload;
mod render;
mod respond;
mod services;
mod store;
mod store_transfer;
mod subscribe;
mod subscriptions;
mod support;
mod table;
mod tls;
mod token;
mod top;
mod topics;
mod traces;
mod upstreams;
mod views;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tiderace_config::Loaded;

pub(crate) use banner::development_banner;
use config_args::ConfigArgs;
pub(crate) use doctor::port_owner;

use crate::control::Load;

/// Pushes live data to everyone who is connected.
///
/// Without a command: development mode, which listens on this machine only and lets everybody in.
#[derive(Debug, Parser)]
#[command(name = "tiderace", version, max_term_width = 100, subcommand_help_heading = "Commands")]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Development mode takes the options of `serve`.
    #[command(flatten)]
    development: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    Serve(ConfigArgs),
    /// Run a server in front of another one, some of whose topics it passes on.
    Edge(edge::EdgeArgs),
    /// Publish messages to a topic, or send them to a queue.
    Pub(publish::PublishArgs),
    /// Print the messages of topics or queues.
    Sub(subscribe::SubscribeArgs),
    /// List, read, set, create and remove topics.
    Topics(topics::TopicsArgs),
    /// List, put and remove views: topics that the server makes of others.
    Views(views::ViewsArgs),
    /// Send to queues and receive from them; list them, look into them, purge them, move their messages, pause them.
    #[command(visible_alias = "queue")]
    Queues(queues::QueuesArgs),
    /// Call a service and print what it answers.
    #[command(disable_help_flag = true)]
    Call(call::CallArgs),
    /// Answer the calls of a service, each by a run of a command.
    #[command(disable_help_flag = true)]
    Respond(respond::RespondArgs),
    /// List what serves, and how busy it is.
    Services(services::ServicesArgs),
    /// List, make and remove durable subscriptions: queues that topics feed.
    Subscriptions(subscriptions::SubscriptionsArgs),
    /// List sessions, queues and services, and how they fare.
    #[command(disable_help_flag = true)]
    Browse(browse::BrowseArgs),
    /// Show how a running server fares, drawn anew every other second.
    #[command(disable_help_flag = true)]
    Top(top::TopArgs),
    /// List the sessions of a server, look at one, end some, and keep clients out.
    Connections(connections::ConnectionsArgs),
    /// Send the clients of a server to other servers, before it is stopped.
    #[command(disable_help_flag = true)]
    Drain(drain::DrainArgs),
    /// Have a server read its configuration again, and say what that changes.
    #[command(disable_help_flag = true)]
    Reload(reload::ReloadArgs),
    /// Say which lines a server writes to its log.
    #[command(disable_help_flag = true)]
    Log(reload::LogArgs),
    /// Show what is wrong with a server, and what to do.
    #[command(disable_help_flag = true)]
    Alarms(alarms::AlarmsArgs),
    /// Show who has changed a server, and who was not to.
    #[command(disable_help_flag = true)]
    Audit(audit::AuditArgs),
    /// List, put and remove users while the server runs.
    Users(identities::UsersArgs),
    /// List, make and remove tokens while the server runs.
    Tokens(identities::TokensArgs),
    /// List, put and remove rules while the server runs.
    Rules(identities::RulesArgs),
    /// Copy what a running server has stored into one file, from any machine.
    #[command(disable_help_flag = true)]
    Backup(backup::BackupArgs),
    /// Make a store of a backup, for a server to start with.
    Restore(backup::RestoreArgs),
    /// Take topics, views and durable subscriptions from one server to another, as text.
    Definitions(definitions::DefinitionsArgs),
    /// Show how a server stands with those whose topics it passes on.
    #[command(disable_help_flag = true)]
    Upstreams(upstreams::UpstreamsArgs),
    /// Look at what a stopped server has kept: what is in its store, and whether it is damaged.
    Store(store::StoreArgs),
    /// Measure this server, or others beside it, and what this machine can do at best.
    Bench(tiderace_bench::BenchArgs),
    /// Check, show and describe the configuration.
    Config(config::ConfigCommandArgs),
    /// Examine this machine: what would hold the server back, and the command that mends it.
    Doctor(doctor::DoctorArgs),
    /// Gather what those who look for a fault want to know, without secrets, in one file.
    #[command(disable_help_flag = true)]
    Support(support::SupportArgs),
    /// Say which rule decides what somebody may do.
    Acl(acl::AclArgs),
    /// Ask a server whether somebody may do something, and which rule decides.
    #[command(disable_help_flag = true)]
    Explain(acl::ExplainArgs),
    /// Make a signed token, to try things out.
    Token(token::TokenArgs),
    /// Hash a password, or make a token, for the configuration.
    Password(password::PasswordArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Print or write the pages of the manual.
    Man(man::ManArgs),
}

/// What the server is asked to do.
pub(crate) struct ServeRequest {
    /// The configuration with the origins of its values.
    pub(crate) loaded: Loaded,
    /// Reads the configuration again.
    pub(crate) load: Load,
    /// No command was given: print the banner of development mode.
    pub(crate) development: bool,
}

/// Runs the command of this process's arguments; `serve` runs the server until it stops.
pub(crate) fn run(serve: impl FnOnce(ServeRequest) -> anyhow::Result<()>) -> ExitCode {
    let matches = help::grouped(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        None => run_server(&cli.development, true, serve),
        Some(Command::Serve(args)) => run_server(&args, false, serve),
        Some(Command::Edge(args)) => run_server(&args.config(), true, serve),
        Some(Command::Pub(args)) => publish::run(&args),
        Some(Command::Sub(args)) => subscribe::run(&args),
        Some(Command::Topics(args)) => topics::run(&args),
        Some(Command::Views(args)) => views::run(&args),
        Some(Command::Queues(args)) => queues::run(&args),
        Some(Command::Call(args)) => call::run(&args),
        Some(Command::Respond(args)) => respond::run(&args),
        Some(Command::Services(args)) => services::run(&args),
        Some(Command::Subscriptions(args)) => subscriptions::run(&args),
        Some(Command::Browse(args)) => browse::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Connections(args)) => connections::run(&args),
        Some(Command::Drain(args)) => drain::run(&args),
        Some(Command::Reload(args)) => reload::run(&args),
        Some(Command::Log(args)) => reload::run_log(&args),
        Some(Command::Alarms(args)) => alarms::run(&args),
        Some(Command::Audit(args)) => audit::run(&args),
        Some(Command::Users(args)) => identities::users(&args),
        Some(Command::Tokens(args)) => identities::tokens(&args),
        Some(Command::Rules(args)) => identities::rules(&args),
        Some(Command::Backup(args)) => backup::run(&args),
        Some(Command::Restore(args)) => backup::run_restore(&args),
        Some(Command::Definitions(args)) => definitions::run(&args),
        Some(Command::Upstreams(args)) => upstreams::run(&args),
        Some(Command::Store(args)) => store::run(&args),
        Some(Command::Bench(args)) => tiderace_bench::run(&args),
        Some(Command::Config(args)) => config::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Support(args)) => support::run(&args),
        Some(Command::Acl(args)) => acl::run(&args),
        Some(Command::Explain(args)) => acl::ask(&args),
        Some(Command::Token(args)) => token::run(&args),
        Some(Command::Password(args)) => password::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => man::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough: `tiderace sub … | head -1`.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody would see it behind a log that nobody reads, and writing it would wait for ever. A closed
            // or full standard error must not hide the exit code behind a panic.
            if crate::logging::finish() {
                let _ = writeln!(io::stderr(), "tiderace: {error:#}");
            }
            ExitCode::from(error::Exit::of(&error) as u8)
        }
    }
}

fn run_server(
    args: &ConfigArgs,
    development: bool,
    serve: impl FnOnce(ServeRequest) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let loaded = args.load(development)?;
    let again = args.clone();
    let load = Box::new(move || again.load(development));
    serve(ServeRequest { loaded, load, development })?;
    crate::logging::finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use tiderace_manage::{Danger, VERBS, Verb};

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// The command that a verb's words lead to.
    fn command_of<'a>(whole: &'a clap::Command, verb: &Verb) -> &'a clap::Command {
        let mut command = whole;
        for word in verb.command.split(' ') {
            // Words in upper case stand for what is given.
            let is_given = word.chars().all(|it| it.is_ascii_uppercase());
            let is_option = word.strip_prefix("--").is_some_and(|name| {
                command.get_arguments().any(|known| known.get_long() == Some(name))
            });
            let is_value = command.get_positionals().any(|known| {
                known.get_possible_values().iter().any(|value| value.get_name() == word)
            });
            match command.find_subcommand(word) {
                Some(inner) => command = inner,
                None => assert!(is_given || is_option || is_value, "{}: {word}", verb.name),
            }
        }
        assert!(command.get_subcommands().next().is_none(), "{}", verb.name);
        command
    }

    /// Fields that commands give by themselves.
    fn is_given_by_itself(verb: &Verb, field: &str) -> bool {
        match field {
            // Lists are asked for a page at a time, and what is long is done in pieces.
            "after" | "limit" | "up_to" => true,
            "from" => verb.name == "backup-read",
            // It comes from standard input, and its hash alone is sent.
            "password" | "password_hash" => verb.name == "put-user",
            // `--all` says the opposite.
            "changed" => verb.name == "config",
            "specs" => verb.name == "topics",
            _ => false,
        }
    }

    #[test]
    fn each_verb_is_a_command_that_takes_its_fields_and_has_yes_where_people_are_asked() {
        let whole = Cli::command();
        for verb in VERBS {
            let command = command_of(&whole, verb);
            let has = |name: &str| command.get_arguments().any(|it| it.get_long() == Some(name));
            let mut places = command.get_positionals().count();
            for field in verb.fields.iter().filter(|it| !is_given_by_itself(verb, it.name)) {
                let name = match field.name {
                    // `--host` would be taken for the server's.
                    "host" => "virtual-host".to_owned(),
                    name => name.replace('_', "-"),
                };
                if !has(&name) && !has(name.strip_suffix('s').unwrap_or(&name)) {
                    assert!(places > 0, "`tiderace {}` takes no `{}`", verb.command, field.name);
                    places -= 1;
                }
            }
            let asks = verb.danger == Danger::Confirm;
            assert!(!asks || has("yes"), "`tiderace {}` asks nobody", verb.command);
        }
    }
}
