//! `tiderace store`: looks at what a stopped server has kept; takes it along, brings it back, and makes it short.
//!
//! Relies on the store for what a server would find. Invariants: looking changes nothing; `check` fails if a server would
//! not start with the store, or could not read a message that is in it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tiderace_store::{Inspected, Look, RecoveredStream, StoredRange, StreamKind, inspect};

use super::store_transfer::{
    CompactArgs, ExportArgs, ImportArgs, run_compact, run_export, run_import,
};
use super::topics::print_line;

/// `tiderace store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read the whole store and say whether anything is damaged, and where; fails if something is.
    Check(LookArgs),
    /// Say what is in the store: segments, topics, messages, named values. Reads no messages of queues.
    Info(LookArgs),
    /// Write everything that is in the store to one file, in a form that any later version reads.
    Export(ExportArgs),
    /// Make a store of what `export` has written, in a directory that is empty or new.
    Import(ImportArgs),
    /// Write what is still needed anew and remove the rest: the store is then as long as what is in it.
    Compact(CompactArgs),
}

#[derive(Debug, Args)]
struct LookArgs {
    /// The store's directory (store.directory), of a server that is stopped, or a copy of it.
    path: PathBuf,
    /// List topics and queues by their paths.
    #[arg(long)]
    list: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<()> {
    let (args, is_check) = match &args.command {
        StoreCommand::Check(args) => (args, true),
        StoreCommand::Info(args) => (args, false),
        StoreCommand::Export(args) => return run_export(args),
        StoreCommand::Import(args) => return run_import(args),
        StoreCommand::Compact(args) => return run_compact(args),
    };
    let found = inspect(&args.path, if is_check { Look::AtAll } else { Look::AtSummaries })?;
    if args.json {
        print_line(as_json(&args.path, &found, args.list).to_string().as_bytes())?;
    } else {
        for line in as_text(&args.path, &found, !is_check, args.list) {
            print_line(line.as_bytes())?;
        }
    }
    match found.recovered.report.damage.len() {
        0 => Ok(()),
        _ if !is_check => Ok(()),
        places => bail!(
            "the store is damaged in {places} places; bring it back from a copy, or start the server \
             once with store.accept_damage = true to keep what can still be read"
        ),
    }
}

/// Streams of a kind, and the messages and bytes in them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    streams: usize,
    messages: u64,
    bytes: u64,
}

fn sum<'a>(streams: impl Iterator<Item = &'a RecoveredStream>) -> Sum {
    streams.fold(Sum::default(), |sum, stream| Sum {
        streams: sum.streams + 1,
        messages: sum.messages + messages_of(stream),
        bytes: sum.bytes + bytes_of(stream),
    })
}

fn of_kind(found: &Inspected, kind: StreamKind) -> Sum {
    sum(found.recovered.streams.iter().filter(|stream| stream.kind == kind))
}

fn messages_of(stream: &RecoveredStream) -> u64 {
    let gone = |ranges: &[(u64, u64)]| ranges.iter().map(|(from, to)| to - from + 1).sum::<u64>();
    let left = stream.messages.iter().map(|put| u64::from(put.count) - gone(&put.gone));
    left.chain(stream.stored.iter().map(StoredRange::count)).sum()
}

fn bytes_of(stream: &RecoveredStream) -> u64 {
    let put = stream.messages.iter().map(|put| put.bytes.len() as u64);
    put.chain(stream.stored.iter().map(|range| range.bytes)).sum()
}

fn kind_of(stream: &RecoveredStream) -> &'static str {
    match stream.kind {
        StreamKind::Topic => "topic",
        StreamKind::Queue => "queue",
    }
}

fn as_text(path: &Path, found: &Inspected, info: bool, list: bool) -> Vec<String> {
    let report = &found.recovered.report;
    let (topics, queues) = (of_kind(found, StreamKind::Topic), of_kind(found, StreamKind::Queue));
    let mut lines = vec![format!(
        "{}: {} segments, {} bytes, {} records",
        path.display(),
        found.segments.len(),
        found.segments.iter().map(|segment| segment.bytes).sum::<u64>(),
        report.records
    )];
    for segment in found.segments.iter().filter(|_| info) {
        let needed = segment.needed.map_or_else(String::new, |bytes| format!(", {bytes} needed"));
        lines.push(format!("  {}: {} bytes{needed}", segment.file, segment.bytes));
    }
    for (what, sum) in [("topics", topics), ("queues", queues)] {
        let Sum { streams, messages, bytes } = sum;
        lines.push(format!("{what}: {streams}, with {messages} messages of {bytes} bytes"));
    }
    if found.bodies.0 > 0 {
        let (files, bytes) = found.bodies;
        lines.push(format!("large messages: {files} files of {bytes} bytes"));
    }
    lines.push(format!("named values: {}", found.recovered.values.len()));
    if report.volatile_records > 0 {
        lines.push(format!(
            "volatile: {} records of {} bytes, of messages that are not persistent; a server drops them when it starts",
            report.volatile_records, report.volatile_bytes
        ));
    }
    if report.cut > 0 {
        lines.push(format!(
            "unfinished: {} bytes at the end were being written when the server ended, and were \
             confirmed to nobody",
            report.cut
        ));
    }
    let damage = report.damage.iter().map(|damage| {
        let path = match &found.recovered.paths_of(damage)[..] {
            [] => String::new(),
            [path] => format!(", which is {path}"),
            paths => format!(", which are {}", paths.join(", ")),
        };
        match damage.bytes {
            0 => format!("damage: {damage}{path}"),
            bytes => format!("damage: {damage}{path} ({bytes} bytes cannot be read)"),
        }
    });
    lines.extend(damage);
    if report.damage.is_empty() {
        lines.push(match report.summaries {
            0 => "damage: none".to_owned(),
            _ => "damage: none in what was read; messages of queues are read by `check`".to_owned(),
        });
    }
    let aside = found.set_aside.iter().map(|it| {
        format!(
            "set aside: {} with {} damaged bytes; remove it when nobody needs it",
            it.file, it.bytes
        )
    });
    lines.extend(aside);
    for stream in in_order(found).into_iter().filter(|_| list) {
        lines.push(format!(
            "{} {}: version {}, {} messages, {} bytes",
            kind_of(stream),
            stream.path,
            stream.mark.version,
            messages_of(stream),
            bytes_of(stream)
        ));
    }
    lines
}

fn as_json(path: &Path, found: &Inspected, list: bool) -> Value {
    let report = &found.recovered.report;
    let segments = found.segments.iter().map(
        |segment| json!({"file": segment.file, "bytes": segment.bytes, "needed": segment.needed}),
    );
    let damage = report.damage.iter().map(|damage| {
        let what = damage.what.to_string();
        let (lost, paths) = (damage.lost.as_ref(), found.recovered.paths_of(damage));
        let lost = lost.map(|lost| match paths.len() {
            0 | 1 => json!({"what": lost.to_string(), "path": paths.first()}),
            _ => json!({"what": lost.to_string(), "paths": paths}),
        });
        let (file, offset, bytes) = (&damage.file, damage.offset, damage.bytes);
        json!({"file": file, "offset": offset, "bytes": bytes, "what": what, "lost": lost})
    });
    let aside = found.set_aside.iter().map(|it| json!({"file": it.file, "bytes": it.bytes}));
    let kind = |kind| {
        let Sum { streams, messages, bytes } = of_kind(found, kind);
        json!({"count": streams, "messages": messages, "bytes": bytes})
    };
    let mut object = json!({
        "directory": path.display().to_string(),
        "segments": segments.collect::<Vec<_>>(),
        "records": report.records,
        "summaries": report.summaries,
        "unfinished": report.cut,
        "volatile": {"records": report.volatile_records, "bytes": report.volatile_bytes},
        "bodies": {"files": found.bodies.0, "bytes": found.bodies.1},
        "topics": kind(StreamKind::Topic),
        "queues": kind(StreamKind::Queue),
        "values": found.recovered.values.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        "damage": damage.collect::<Vec<_>>(),
        "set_aside": aside.collect::<Vec<_>>(),
    });
    if list {
        let streams = in_order(found).into_iter().map(|stream| {
            json!({
                "kind": kind_of(stream),
                "path": &*stream.path,
                "version": stream.mark.version,
                "messages": messages_of(stream),
                "bytes": bytes_of(stream),
            })
        });
        object["list"] = streams.collect();
    }
    object
}

/// The streams in the order of their paths.
fn in_order(found: &Inspected) -> Vec<&RecoveredStream> {
    let mut streams: Vec<&RecoveredStream> = found.recovered.streams.iter().collect();
    streams.sort_by(|a, b| tiderace_topics::order(&a.path, &b.path));
    streams
}

#[cfg(test)]
mod tests {
    use tiderace_store::{
        Damage, DamageKind, InspectedSegment, LostRecord, Mark, Recovered, RecoveredMessages,
        Report, SetAside, StreamId,
    };

    use super::*;

    fn stream(number: u64, path: &str, kind: StreamKind) -> RecoveredStream {
        let (bytes, gone) = ((&b"12345"[..]).into(), vec![(4, 5)]);
        let (sequence, count, version, body) = (4, 6, 9, None);
        let messages = RecoveredMessages { sequence, count, version, bytes, gone, body };
        let (messages, stored) = match kind {
            StreamKind::Topic => (vec![messages], Vec::new()),
            StreamKind::Queue => (Vec::new(), vec![StoredRange { first: 6, last: 9, bytes: 5 }]),
        };
        RecoveredStream {
            stream: StreamId(number),
            kind,
            path: path.into(),
            spec: Default::default(),
            mark: Mark { sequence: 9, version: 7 },
            messages,
            stored,
        }
    }

    fn found(damage: Vec<Damage>) -> Inspected {
        let streams = vec![
            stream(1, "b", StreamKind::Topic),
            stream(2, "a/b", StreamKind::Topic),
            stream(3, "a", StreamKind::Queue),
        ];
        let values = vec![("views/1".into(), Default::default())];
        let (segments, bytes, records, cut) = (1, 100, 12, 3);
        let (volatile_records, volatile_bytes) = (2, 30);
        let report = Report {
            segments,
            summaries: 0,
            bytes,
            records,
            volatile_records,
            volatile_bytes,
            cut,
            damage,
            ..Report::default()
        };
        let file = "0000000001.log".to_owned();
        let segments = vec![InspectedSegment { file, bytes: 100, needed: Some(60) }];
        let set_aside = vec![SetAside { file: "0000000001.log.9.damaged".to_owned(), bytes: 20 }];
        let recovered = Recovered { streams, values, report };
        Inspected { segments, bodies: (2, 600_000), set_aside, recovered }
    }

    #[test]
    fn the_text_says_what_is_there() {
        let damage = Damage {
            file: "0000000001.log".to_owned(),
            offset: 77,
            bytes: 20,
            what: DamageKind::Short,
            lost: Some(LostRecord::Messages { stream: StreamId(3), first: 7, last: 9 }),
        };
        let text = as_text(Path::new("store"), &found(vec![damage]), true, true).join("\n");
        let wanted = "\
store: 1 segments, 100 bytes, 12 records
  0000000001.log: 100 bytes, 60 needed
topics: 2, with 8 messages of 10 bytes
queues: 1, with 4 messages of 5 bytes
large messages: 2 files of 600000 bytes
named values: 1
volatile: 2 records of 30 bytes, of messages that are not persistent; a server drops them when it starts
unfinished: 3 bytes at the end were being written when the server ended, and were confirmed to nobody
damage: 0000000001.log is damaged at byte 77: the file ends here, though more was written; lost is messages 7 to 9 of stream 3, which is a (20 bytes cannot be read)
set aside: 0000000001.log.9.damaged with 20 damaged bytes; remove it when nobody needs it
queue a: version 7, 4 messages, 5 bytes
topic a/b: version 7, 4 messages, 5 bytes
topic b: version 7, 4 messages, 5 bytes";
        assert_eq!(text, wanted);
        let short = as_text(Path::new("store"), &found(Vec::new()), false, false);
        assert_eq!(short.len(), 9);
        assert_eq!(short.get(7).map(String::as_str), Some("damage: none"));
    }

    #[test]
    fn the_json_says_the_same() {
        let value = as_json(Path::new("store"), &found(Vec::new()), true);
        assert_eq!(value["topics"], json!({"count": 2, "messages": 8, "bytes": 10}));
        assert_eq!(value["segments"][0]["needed"], 60);
        assert_eq!(value["bodies"], json!({"files": 2, "bytes": 600_000}));
        assert_eq!(value["volatile"], json!({"records": 2, "bytes": 30}));
        assert_eq!(value["list"][1]["path"], "a/b");
        assert_eq!(value["values"], json!(["views/1"]));
        assert_eq!(value["damage"], json!([]));
        assert_eq!(as_json(Path::new("store"), &found(Vec::new()), false).get("list"), None);
    }
}
