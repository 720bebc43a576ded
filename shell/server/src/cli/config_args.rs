//! The flags that set options, made from the table of options.
//!
//! Relies on `tiderace_config`. Invariant: every option with a flag of its own has it here, and every
//! other option can be set with `--set`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use tiderace_config::{
    FileSource, FlagSource, FlagTable, Kind, Loaded, OptionSpec, Sources, single_options,
};

/// The environment variable that names the configuration file.
const CONFIG_VARIABLE: &str = "TIDERACE_CONFIG";

/// A configuration file and options set on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigArgs {
    file: Option<PathBuf>,
    flags: Vec<FlagSource>,
    tables: Vec<FlagTable>,
}

impl ConfigArgs {
    /// Reads the file and the environment and lays the flags over them.
    pub(crate) fn load(&self, development: bool) -> anyhow::Result<Loaded> {
        let sources = Sources {
            file: self.file.as_deref().map(read_file).transpose()?,
            // What is not Unicode cannot be one of our options.
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            flags: self.flags.clone(),
            tables: self.tables.clone(),
            development,
            read_secret: &|path: &Path| std::fs::read_to_string(path),
        };
        tiderace_config::load(&sources).map_err(|problems| {
            let count = problems.0.len();
            let what =
                if count == 1 { "a problem".to_owned() } else { format!("{count} problems") };
            anyhow::anyhow!("the configuration has {what}:\n{problems}")
        })
    }

    /// With nothing set but by a file, if there is one, and the environment.
    pub(super) fn of_file(file: Option<PathBuf>) -> ConfigArgs {
        ConfigArgs { file, ..ConfigArgs::default() }
    }

    /// Adds a table of a list of tables.
    pub(super) fn add_table(&mut self, table: FlagTable) {
        self.tables.push(table);
    }

    /// Sets an option, unless a flag has done so.
    pub(super) fn set_default(&mut self, flag: &str, key: &str, value: &str) {
        if !self.flags.iter().any(|set| set.key == key) {
            let [flag, key, value] = [flag, key, value].map(str::to_owned);
            self.flags.push(FlagSource { flag, key, value });
        }
    }

    /// Nothing was set.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.is_none() && self.flags.is_empty()
    }

    /// How the file was called, for messages.
    pub(crate) fn file_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string())
    }
}

fn read_file(path: &Path) -> anyhow::Result<FileSource> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the configuration file {name}; name another one with --config")
    })?;
    Ok(FileSource { name, text })
}

impl Args for ConfigArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .short('c')
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The configuration file (TOML) [env: TIDERACE_CONFIG=]");
        let set = Arg::new("set")
            .long("set")
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .help("Set any option, such as limits.message_bytes_max=\"1 MiB\"");
        let flags = single_options().filter(|option| option.flag.is_some()).map(option_arg);
        command.arg(config).args(flags).arg(set)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flag of one option.
fn option_arg(option: &'static OptionSpec) -> Arg {
    let arg = Arg::new(option.key).long(option.flag.unwrap_or_default()).help(option.doc.trim());
    match option.kind {
        Kind::Boolean => arg.action(ArgAction::SetTrue),
        Kind::List(element) => arg.action(ArgAction::Append).value_name(value_name(element)),
        _ => arg.action(ArgAction::Set).value_name(value_name(&option.kind)),
    }
}

/// What the help shows for the value.
fn value_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Boolean => "BOOLEAN",
        Kind::Bytes { .. } | Kind::Memory => "SIZE",
        Kind::Choice(_) => "WORD",
        Kind::Duration { .. } => "DURATION",
        Kind::Integer { .. } => "NUMBER",
        Kind::List(element) => value_name(element),
        Kind::Listen | Kind::Network => "ADDRESS",
        Kind::Moment => "MOMENT",
        Kind::Name => "NAME",
        Kind::Pattern => "PATTERN",
        Kind::Secret { .. } | Kind::Text => "TEXT",
        Kind::UrlPath => "PATH",
    }
}

impl FromArgMatches for ConfigArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ConfigArgs, Error> {
        let mut args = ConfigArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        // Read here and not by the parser, for which it would be a flag that no command may follow.
        let of_environment = || std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from);
        self.file = matches.get_one::<PathBuf>("config").cloned().or_else(of_environment);
        for option in single_options() {
            let Some(flag) = option.flag else { continue };
            let value = match option.kind {
                Kind::Boolean => matches.get_flag(option.key).then(|| "true".to_owned()),
                // A list given by several flags is one value.
                Kind::List(_) => matches.get_many::<String>(option.key).map(join),
                _ => matches.get_one::<String>(option.key).cloned(),
            };
            self.flags.extend(value.map(|value| FlagSource {
                flag: format!("--{flag}"),
                key: option.key.to_owned(),
                value,
            }));
        }
        for text in matches.get_many::<String>("set").into_iter().flatten() {
            let Some((key, value)) = text.split_once('=') else {
                let message = format!(
                    "--set needs KEY=VALUE, such as --set server.shards=2, but found {text:?}\n"
                );
                return Err(Error::raw(clap::error::ErrorKind::ValueValidation, message));
            };
            let (key, value) = (key.trim().to_owned(), value.to_owned());
            self.flags.push(FlagSource { flag: "--set".to_owned(), key, value });
        }
        Ok(())
    }
}

fn join<'a>(values: impl Iterator<Item = &'a String>) -> String {
    values.map(String::as_str).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Test {
        #[command(flatten)]
        args: ConfigArgs,
    }

    fn flags(line: &str) -> Vec<(String, String)> {
        let args = Test::try_parse_from(line.split_whitespace()).unwrap().args;
        args.flags.into_iter().map(|flag| (flag.key, flag.value)).collect()
    }

    #[test]
    fn flags_become_settings_of_their_options() {
        let line = "tiderace --listen 127.0.0.1:1 --listen stomp://[::1]:2 --shards 3 \
                    --insecure-allow-anonymous --set limits.headers_max=9 --set a=b=c";
        let expected = [
            ("server.listen", "127.0.0.1:1,stomp://[::1]:2"),
            ("server.shards", "3"),
            ("auth.allow_anonymous", "true"),
            ("limits.headers_max", "9"),
            ("a", "b=c"),
        ];
        assert_eq!(flags(line), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(flags("tiderace").is_empty());
    }

    #[test]
    fn a_setting_without_value_is_refused() {
        let error = Test::try_parse_from(["tiderace", "--set", "server.shards"]).err().unwrap();
        assert!(error.to_string().contains("--set needs KEY=VALUE"), "{error}");
    }
}
