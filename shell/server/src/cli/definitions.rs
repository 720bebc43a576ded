//! `tiderace definitions`: what was made in a server at run time, as text, and made in another.
//!
//! Relies on `definitions_file` for the text and on `client` for the server. Invariants: an import that cannot be done as a
//! whole changes nothing, as far as that can be known before; one that was done changes nothing when it is done again.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tiderace_base::CloseCode;
use tiderace_topics::Path as TopicPath;
use tiderace_wire::{DURABLE, TopicSpec, parse_selector};

use super::client::Client;
use super::connection::ConnectionArgs;
use super::definitions_file::{Definitions, Difference, Differs, Gathers, Spec, parse_spec};
use super::error::ClientError;
use super::new_file::NewFile;
use super::topics::print_line;

/// Entries of a list that are asked for at once.
const PAGE: u64 = 1000;

/// `tiderace definitions`.
#[derive(Debug, Args)]
pub(crate) struct DefinitionsArgs {
    #[command(subcommand)]
    command: DefinitionsCommand,
}

#[derive(Debug, Subcommand)]
enum DefinitionsCommand {
    /// Write topics with their specifications, views and durable subscriptions as TOML.
    #[command(disable_help_flag = true)]
    Export(ExportArgs),
    /// Make in a server what such a text says; what is there and not in the text stays.
    #[command(disable_help_flag = true)]
    Import(ImportArgs),
    /// Say in what a server differs from such a text: `+` it lacks, `~` is another there, `-` it has besides.
    #[command(disable_help_flag = true)]
    Diff(DiffArgs),
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The file to write, which must not exist; without it, standard output.
    file: Option<PathBuf>,
    /// Which topics, such as desk/** (quote wildcards).
    #[arg(long, default_value = "**", value_name = "SELECTOR")]
    topics: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// What `export` has written, or what you have; `-` for standard input.
    file: PathBuf,
    /// Say what would be made or replaced, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct DiffArgs {
    /// What `export` has written, or what you have; `-` for standard input.
    file: PathBuf,
    /// Which topics of both are compared, such as desk/** (quote wildcards).
    #[arg(long, default_value = "**", value_name = "SELECTOR")]
    topics: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &DefinitionsArgs) -> anyhow::Result<()> {
    match &args.command {
        DefinitionsCommand::Export(args) => export(args),
        DefinitionsCommand::Import(args) => import(args),
        DefinitionsCommand::Diff(args) => {
            let wanted = read(&args.file)?;
            let mut client = args.connection.connect()?;
            let (mut wanted, who) = kept(wanted, &mut client)?;
            keep_named(&mut wanted, &args.topics, who.as_deref())?;
            let there = Server::look(&mut client, &args.topics)?;
            client.leave()?;
            say(&there.differences(&wanted)?, args.json, None)
        }
    }
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let text = Server::look(&mut client, &args.topics)?.lasting().to_text()?;
    client.leave()?;
    let Some(file) = &args.file else { return print_line(text.trim_end().as_bytes()) };
    let new = NewFile::begin(file)?;
    new.part().write_all(text.as_bytes()).context("the definitions cannot be written")?;
    new.finish()
}

fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let wanted = read(&args.file)?;
    let mut client = args.connection.connect()?;
    let (wanted, _) = kept(wanted, &mut client)?;
    let there = Server::look(&mut client, "**")?;
    let mut differences = there.differences(&wanted)?;
    differences.retain(|(difference, ..)| *difference != Difference::OnlyThere);
    let is_other_topic = |it: &&Differs| it.0 == Difference::Other && it.1 == "topic";
    let others: Vec<&str> = differences.iter().filter(is_other_topic).map(|it| &*it.2).collect();
    if !others.is_empty() {
        let message = format!(
            "nothing was changed: a topic keeps the specification that it was made with, and another one is there for {}; \
             remove them first, or take them out of the file (topic-exists)",
            others.join(", ")
        );
        return Err(ClientError::Refused { message, hint: "" }.into());
    }
    for (_, kind, name) in differences.iter().filter(|_| !args.dry_run) {
        let made = client.operate(&making(&wanted, kind, name), None);
        made.with_context(|| {
            format!("the {kind} {name} is not as in the file, nor is what stands behind it there; what stands before it is")
        })?;
    }
    client.leave()?;
    say(&differences, args.json, Some(args.dry_run))
}

/// The operation that makes something as it is wanted.
fn making(wanted: &Definitions, kind: &str, name: &str) -> Json {
    match kind {
        "topic" => json!({"do": "create", "path": name, "spec": wanted.topics.get(name)}),
        "view" => json!({"do": "view", "name": name, "text": wanted.views.get(name)}),
        _ => {
            let gathers = wanted.subscriptions.get(name).cloned().unwrap_or_default();
            let mut operation =
                json!({"do": "create-subscription", "name": name, "topics": gathers.topics});
            if let Some(selector) = gathers.selector {
                operation["selector"] = json!(selector);
            }
            operation
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Definitions> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
    };
    let read = Definitions::parse(&text)?;
    // Before anything is asked for or changed.
    read.check()?;
    Ok(read)
}

/// What is wanted as the server would keep it, and who asks, as far as the server says so. Who that is stands for `~/`.
fn kept(wanted: Definitions, client: &mut Client) -> anyhow::Result<(Definitions, Option<String>)> {
    let session = client.operate(&json!({"do": "session"}), None)?.result;
    let who = session["name"].as_str().map(str::to_owned);
    match wanted.kept(who.as_deref()) {
        Err(close) if who.is_none() && close.code == CloseCode::LoginRequired => {
            bail!(
                "the server does not say what `~/` stands for; it may be an older version: write the paths out"
            )
        }
        kept => Ok((kept?, who)),
    }
}

/// Prints what differs; with `dry_run` what was made, or would be.
fn say(differences: &[Differs], is_json: bool, dry_run: Option<bool>) -> anyhow::Result<()> {
    if is_json {
        let changes = differences.iter().map(|(difference, kind, name)| {
            json!({"change": difference.word(), "kind": kind, "name": name})
        });
        let mut line = json!({"changes": changes.collect::<Vec<_>>()});
        if let Some(dry_run) = dry_run {
            line["dry_run"] = json!(dry_run);
        }
        return print_line(line.to_string().as_bytes());
    }
    if differences.is_empty() {
        return print_line(b"no difference");
    }
    differences.iter().try_for_each(|(difference, kind, name)| {
        print_line(format!("{} {kind} {name}", difference.sign()).as_bytes())
    })
}

/// What is in a server.
struct Server {
    found: Definitions,
}

impl Server {
    /// Reads all of it, a page at a time.
    fn look(client: &mut Client, topics: &str) -> anyhow::Result<Server> {
        let mut found = Definitions::default();
        let mut operation =
            json!({"do": "fetch", "selector": topics, "specs": true, "limit": PAGE});
        pages(client, &mut operation, "topics", |topic| {
            let path = topic["path"].as_str().unwrap_or_default().to_owned();
            let mut spec = topic["spec"].as_object().cloned().unwrap_or_default();
            spec.retain(|_, value| !value.is_null());
            found.topics.insert(path, spec);
            Ok(())
        })?;
        let views = client.operate(&json!({"do": "views"}), None)?.result;
        for view in views["views"].as_array().into_iter().flatten() {
            let text = |name: &str| view[name].as_str().unwrap_or_default().to_owned();
            found.views.insert(text("name"), text("text"));
        }
        let mut operation = json!({"do": "queues", "pattern": format!("{DURABLE}/**")});
        pages(client, &mut operation, "queues", |queue| {
            found.subscriptions.extend(subscription(queue)?);
            Ok(())
        })?;
        Ok(Server { found })
    }

    /// What of it outlives the server. Topics that do not are made by views, or by who publishes.
    fn lasting(&self) -> Definitions {
        let mut lasting = self.found.clone();
        lasting.topics.retain(|_, spec| spec.get("persistent") == Some(&json!(true)));
        lasting
    }

    /// In what it differs from what is wanted. Nothing is asked of it for that: a look changes nothing, and stands in no record.
    fn differences(&self, wanted: &Definitions) -> anyhow::Result<Vec<Differs>> {
        let mut differences = Vec::new();
        for (difference, kind, name) in wanted.differences(&self.lasting()) {
            let wanted = wanted.topics.get(&name).filter(|_| kind == "topic");
            let Some((wanted, there)) = wanted.zip(self.found.topics.get(&name)) else {
                differences.push((difference, kind, name));
                continue;
            };
            if !is_same(wanted, there).with_context(|| format!("topic {name}"))? {
                // It may be one that does not last, too.
                differences.push((Difference::Other, kind, name));
            }
        }
        Ok(differences)
    }
}

/// The durable subscription that an entry of a list of queues is, with its name; none if it is a queue that nothing feeds, to which
/// somebody has sent under such a name.
fn subscription(queue: &Json) -> anyhow::Result<Option<(String, Gathers)>> {
    let path = queue["path"].as_str().unwrap_or_default();
    let name = path.strip_prefix(DURABLE).and_then(|path| path.strip_prefix('/'));
    let name = name.unwrap_or_default().to_owned();
    let Some(topics) = queue["patterns"].as_array() else {
        if queue["topics"].is_null() {
            return Ok(None);
        }
        bail!(
            "the server does not say what the durable subscription {name} gathers pattern by pattern; it may be an older version"
        );
    };
    let topics = topics.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    let selector = queue["selector"].as_str().map(str::to_owned);
    Ok(Some((name, Gathers { topics, selector })))
}

/// Whether a topic that is there is as it is wanted: there is more than one way to say the same, and what is not said may be
/// as it is.
fn is_same(wanted: &Spec, there: &Spec) -> anyhow::Result<bool> {
    let there = parse_spec(there, &TopicSpec::default())
        .context("what the server says of it is not understood; it may be a newer version")?;
    Ok(parse_spec(wanted, &there)? == there)
}

/// Leaves out topics that a selector does not name.
fn keep_named(wanted: &mut Definitions, selector: &str, who: Option<&str>) -> anyhow::Result<()> {
    let selector = parse_selector(selector, who);
    let selector = selector.map_err(|close| anyhow!("--topics is not understood: {close}"))?;
    wanted.topics.retain(|path, _| {
        let path = TopicPath::parse(path);
        path.is_ok_and(|path| selector.patterns().iter().any(|pattern| pattern.matches(&path)))
    });
    Ok(())
}

/// Passes on the entries of a list of any length.
fn pages(
    client: &mut Client,
    operation: &mut Json,
    list: &str,
    mut take: impl FnMut(&Json) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let result = client.operate(operation, None)?.result;
        result[list].as_array().into_iter().flatten().try_for_each(&mut take)?;
        if result["more"] != json!(true) {
            return Ok(());
        }
        operation["after"] = result["next"].clone();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn spec(spec: Json) -> Spec {
        spec.as_object().unwrap().clone()
    }

    #[test]
    fn there_is_more_than_one_way_to_say_the_same() {
        let there =
            spec(json!({"type": "json", "history": {"age": 0, "count": 9}, "retain": true}));
        for wanted in [json!({}), json!({"history": 9}), json!({"retain": true, "type": "json"})] {
            assert!(is_same(&spec(wanted.clone()), &there).unwrap(), "{wanted}");
        }
        for wanted in
            [json!({"history": 8}), json!({"type": "string"}), json!({"persistent": true})]
        {
            assert!(!is_same(&spec(wanted.clone()), &there).unwrap(), "{wanted}");
        }
    }

    #[test]
    fn a_specification_that_is_not_understood_is_not_another_one() {
        let there = spec(json!({"type": "json"}));
        assert!(is_same(&spec(json!({"typ": "json"})), &there).is_err());
        let newer = is_same(&there, &spec(json!({"unheard_of": 1}))).unwrap_err();
        assert!(format!("{newer:#}").contains("newer version"), "{newer:#}");
    }

    #[test]
    fn a_subscription_without_its_patterns_is_an_error_and_a_queue_that_nothing_feeds_is_none() {
        let fed =
            json!({"path": "dsub/a/b", "topics": "x,y", "patterns": ["x", "y"], "selector": null});
        let (name, gathers) = subscription(&fed).unwrap().unwrap();
        assert_eq!((&*name, gathers.topics), ("a/b", vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(subscription(&json!({"path": "dsub/a"})).unwrap(), None);
        let older = subscription(&json!({"path": "dsub/a", "topics": "x,y"})).unwrap_err();
        assert!(older.to_string().contains("durable subscription a "), "{older}");
    }

    #[test]
    fn a_selector_leaves_out_what_it_does_not_name() {
        let mut wanted = Definitions::default();
        for path in ["a/b", "c/d", "e"] {
            wanted.topics.insert(path.to_owned(), Spec::new());
        }
        keep_named(&mut wanted, "[a/**, e]", None).unwrap();
        assert_eq!(wanted.topics.keys().collect::<Vec<_>>(), ["a/b", "e"]);
        assert!(keep_named(&mut wanted, "[a", None).is_err());
        keep_named(&mut wanted, "~/**", Some("b")).unwrap();
        assert!(wanted.topics.is_empty());
    }
}
