//! `tiderace config running`: the configuration that a running server holds to.
//!
//! Relies on `client`; the server has masked what is secret. Invariant: what waits is shown beside what holds.

use clap::Args;
use serde_json::{Value as Json, json};

use super::connection::ConnectionArgs;
use super::output::note;
use super::pages::{Printing, print_list};
use super::reload::when;

/// Options that are asked for at once.
const PAGE: usize = 500;
/// Characters of a value that are shown to people.
const VALUE_CHARS_MAX: usize = 60;

/// `tiderace config running`.
#[derive(Debug, Args)]
pub(super) struct RunningArgs {
    /// Only that section, such as log, or that option, such as log.level.
    #[arg(value_name = "OPTION")]
    under: Option<String>,
    /// Also options that nothing sets, for which the defaults hold.
    #[arg(short, long)]
    all: bool,
    /// Print each option as one line of JSON, with what it does.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(super) fn run(args: &RunningArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "config", "changed": !args.all, "limit": PAGE});
    if let Some(under) = &args.under {
        operation["under"] = json!(under);
    }
    let printing = Printing {
        json: args.json,
        columns: &["OPTION", "VALUE", "DEFAULT", "CHANGES", "FROM", "WAITING"],
        row: |option: &Json| Some(row(option)),
        limit: None,
    };
    let shown = print_list(&args.connection, operation, "options", &printing)?;
    if !args.json && shown == 0 {
        note(match (args.all, &args.under) {
            (false, None) => "nothing is set: all options have their defaults, which --all prints",
            (false, Some(_)) => {
                "nothing of that is set, or there is no such option; --all prints the defaults"
            }
            (true, _) => "there is no option of that name",
        });
    }
    Ok(())
}

/// An option for people.
fn row(option: &Json) -> Vec<String> {
    let text = |name: &str| option[name].as_str().unwrap_or_default();
    let waiting = &option["waiting"];
    let waits = waiting.as_object().map(|_| {
        let from = waiting["from"].as_str().unwrap_or_default();
        format!("{} ({from})", shown(waiting, "value"))
    });
    vec![
        key(option),
        shown(option, "value"),
        shown(option, "default"),
        when(text("applies")).to_owned(),
        text("from").to_owned(),
        waits.unwrap_or_default(),
    ]
}

/// What an option is called among all; that of one of several tables has the table's number.
fn key(option: &Json) -> String {
    let name = option["option"].as_str().unwrap_or_default();
    match (option["number"].as_u64(), name.split_once('.')) {
        (Some(number), Some((section, name))) => format!("{section}[{number}].{name}"),
        _ => name.to_owned(),
    }
}

fn shown(option: &Json, name: &str) -> String {
    let value = &option[name];
    if value.is_null() {
        return "none".to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_line() {
        let option = json!({
            "option": "server.shards", "value": 1, "origin": "file", "from": "t.toml:1:8", "default": 0,
            "waiting": {"value": 2, "origin": "environment", "from": "environment variable X"},
            "applies": "restart", "says": "How many."
        });
        let expected = [
            "server.shards",
            "1",
            "0",
            "at the next start",
            "t.toml:1:8",
            "2 (environment variable X)",
        ];
        assert_eq!(row(&option), expected);
        let option = json!({
            "option": "rule.paths", "number": 3, "value": ["a".repeat(80)], "origin": "file",
            "from": "t.toml:1:8", "default": null, "applies": "now", "says": "Where."
        });
        let value = format!("[\"{}…", "a".repeat(58));
        assert_eq!(row(&option), ["rule[3].paths", &value, "none", "now", "t.toml:1:8", ""]);
    }
}
