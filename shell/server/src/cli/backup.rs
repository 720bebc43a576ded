//! `tiderace backup` copies what a running server has stored into one file; `tiderace restore` makes a store of that.
//!
//! Relies on `client` for the bytes and on the store for what is in them. Invariants: the file has its name only when it is
//! whole, and the directory its own only when the store in it was examined.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value as Json, json};
use tiderace_store::{BackupContents, check_backup, restore};

use super::client::{Answer, Client};
use super::connection::ConnectionArgs;
use super::new_file::{NewFile, progress_bar};
use super::output::output_error;
use super::topics::{once, print_line};

/// Bytes that are read from or written to a file at once.
const BLOCK_BYTES: usize = 1 << 20;

/// `tiderace backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write on this machine, which must not exist; `-` for standard output.
    #[arg(required_unless_present = "dry_run")]
    file: Option<PathBuf>,
    /// Say what would be in it and how large it would be, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `tiderace restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// What `backup` has written; `-` for standard input.
    file: PathBuf,
    /// The directory of the new store (store.directory), which must be empty or not there.
    directory: PathBuf,
    /// Read and check the whole file, and make nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Copies what a server has stored.
pub(crate) fn run(args: &BackupArgs) -> anyhow::Result<()> {
    let file = args.file.as_deref().filter(|_| !args.dry_run);
    let Some(file) = file else {
        let answer = once(&args.connection, &json!({"do": "backup", "dry_run": true}), None)?;
        let line = match args.json {
            true => answer.result.to_string(),
            false => format!("a backup would have {}", size(&answer.result)),
        };
        return print_line(line.as_bytes());
    };
    if file == Path::new("-") {
        let out = BufWriter::with_capacity(BLOCK_BYTES, io::stdout().lock());
        // Standard output has the backup and nothing else.
        return copy(args, out).map(drop);
    }
    let new = NewFile::begin(file)?;
    let begun = copy(args, BufWriter::with_capacity(BLOCK_BYTES, new.part()))?;
    new.finish()?;
    let line = match args.json {
        true => {
            let mut line = begun;
            line["file"] = json!(file.display().to_string());
            line.to_string()
        }
        false => format!("{}: {}", file.display(), size(&begun)),
    };
    print_line(line.as_bytes())
}

/// Writes a backup there; what the server has said of it.
fn copy(args: &BackupArgs, mut to: impl Write) -> anyhow::Result<Json> {
    let mut client = args.connection.connect()?;
    let begun = client.operate(&json!({"do": "backup", "dry_run": false}), None)?.result;
    let bar = progress_bar("bytes");
    bar.set_length(begun["bytes"].as_u64().unwrap_or(0));
    let copied = copy_pieces(&mut client, &begun, &mut to, |at| bar.set_position(at));
    bar.finish_and_clear();
    copied?;
    client.leave()?;
    Ok(begun)
}

fn copy_pieces(
    client: &mut Client,
    begun: &Json,
    to: &mut impl Write,
    progress: impl Fn(u64),
) -> anyhow::Result<()> {
    let mut at = 0;
    loop {
        let operation = json!({"do": "backup-read", "backup": begun["backup"], "from": at});
        let Answer { result, values } = client.operate(&operation, None)?;
        let piece = values.first().map_or(&[][..], |value| &value.body);
        to.write_all(piece).map_err(output_error).context("the backup cannot be written")?;
        at += piece.len() as u64;
        progress(at);
        match result["more"].as_bool() {
            Some(true) if !piece.is_empty() => {}
            Some(false) if Some(at) == begun["bytes"].as_u64() => break,
            _ => bail!(
                "the server has sent {at} bytes, and the backup was to have {}",
                begun["bytes"]
            ),
        }
    }
    to.flush().map_err(output_error).context("the backup cannot be written")
}

/// Makes a store of a backup.
pub(crate) fn run_restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let bar = progress_bar("bytes");
    let contents = if args.file == Path::new("-") {
        take(args, bar.wrap_read(io::stdin().lock()))
    } else {
        let file = File::open(&args.file);
        let file = file.with_context(|| format!("{} cannot be read", args.file.display()))?;
        bar.set_length(file.metadata().map_or(0, |data| data.len()));
        take(args, bar.wrap_read(BufReader::with_capacity(BLOCK_BYTES, file)))
    };
    bar.finish_and_clear();
    let BackupContents { version, time_ms, segments, bodies, bytes } = contents?;
    let said = json!({
        "dry_run": args.dry_run, "directory": args.directory.display().to_string(), "version": version,
        "time_ms": time_ms, "bytes": bytes, "segments": segments, "bodies": bodies,
    });
    let line = match args.json {
        true => said.to_string(),
        false if args.dry_run => format!("{}: whole, with {}", args.file.display(), size(&said)),
        false => format!("{}: {}", args.directory.display(), size(&said)),
    };
    print_line(line.as_bytes())
}

fn take(args: &RestoreArgs, from: impl Read) -> anyhow::Result<BackupContents> {
    Ok(match args.dry_run {
        true => check_backup(from, &args.directory)?,
        false => restore(from, &args.directory)?,
    })
}

/// What is in a backup.
fn size(said: &Json) -> String {
    let number = |name: &str| said[name].as_u64().unwrap_or(0);
    let (bytes, segments, bodies) = (number("bytes"), number("segments"), number("bodies"));
    format!("{bytes} bytes, {segments} segments of the log and {bodies} large messages")
}
