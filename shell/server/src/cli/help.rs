//! What `tiderace --help` prints: the commands by what they are for.
//!
//! Relies on `error` for the exit codes. Invariant: every command stands there once, also one that no group names.

use std::fmt::Write;

use clap::Command;

use super::error::EXIT_CODES;

/// Commands by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Topics", &["sub", "pub", "topics", "views"]),
    ("Queues", &["queues", "subscriptions"]),
    ("Services", &["call", "respond", "services"]),
    (
        "The server",
        &[
            "serve",
            "edge",
            "upstreams",
            "top",
            "alarms",
            "audit",
            "connections",
            "drain",
            "reload",
            "log",
            "explain",
            "users",
            "tokens",
            "rules",
            "backup",
            "restore",
            "definitions",
            "config",
            "doctor",
            "support",
            "browse",
            "store",
            "bench",
        ],
    ),
    ("Besides", &["password", "token", "acl", "completions", "man"]),
];

/// Gives a command line its help.
pub(super) fn grouped(command: Command) -> Command {
    let text = text(&command);
    command.override_help(text)
}

fn text(command: &Command) -> String {
    let about = |of: &Command| of.get_about().map(ToString::to_string).unwrap_or_default();
    let mut out =
        format!("{}\n\nUsage: tiderace [OPTIONS]\n       tiderace COMMAND\n", about(command));
    let is_in_group = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let visible = || command.get_subcommands().filter(|known| !known.is_hide_set());
    let others: Vec<&str> =
        visible().map(Command::get_name).filter(|name| !is_in_group(name)).collect();
    let groups = GROUPS.iter().map(|(title, names)| (*title, *names));
    // Behind what is for the server, ahead of the rest.
    for (title, names) in groups.chain([("Further", others.as_slice())]) {
        let found: Vec<&Command> = names
            .iter()
            .filter_map(|name| visible().find(|known| known.get_name() == *name))
            .collect();
        if found.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = write!(out, "\n{title}:\n");
        for known in found {
            let short = about(known);
            let short = short.split(&['.', ':', ';'][..]).next().unwrap_or_default();
            let _ = writeln!(out, "  {:<14} {short}", known.get_name());
        }
    }
    let _ = write!(
        out,
        "\nWithout a command: development mode, which listens on this machine only and lets everybody in;\n\
         it takes the options of `serve`, such as --listen, -c and --log-format.\n\n\
         {EXIT_CODES}\n\n\
         `tiderace COMMAND --help` says more, docs/cli.md all of it.\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_stands_there_once_and_groups_name_no_other() {
        let command = Cli::command();
        let text = text(&command);
        for known in command.get_subcommands() {
            let line = format!("\n  {} ", known.get_name());
            assert_eq!(text.matches(&line).count(), 1, "{line}: {text}");
        }
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
