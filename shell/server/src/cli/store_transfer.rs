//! `tiderace store export`, `import` and `compact`: what is in a store, as one file, and back; and a log made short.
//!
//! Relies on the store for the form and for what is refused. Invariants: a file is whole or not there; standard output
//! has either the form or what is said of it, never both.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use tiderace_store::{Transferred, compact, export, import};

use super::new_file::{NewFile, progress_bar};
use super::output::output_error;
use super::topics::print_line;

/// Bytes that are read from or written to a file at once.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The store's directory (store.directory), of a server that is stopped, or a copy of it.
    directory: PathBuf,
    /// The file to write, which must not exist; without it, standard output.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Print one JSON object with what was written; with --to only.
    #[arg(long, requires = "to")]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// What `export` has written; `-` for standard input.
    file: PathBuf,
    /// The directory of the new store, which must be empty or not there.
    directory: PathBuf,
    /// Print one JSON object with what was read.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    /// The store's directory (store.directory), of a server that is stopped.
    directory: PathBuf,
    /// Print one JSON object with the bytes before and after.
    #[arg(long)]
    json: bool,
}

/// `tiderace store export`.
pub(super) fn run_export(args: &ExportArgs) -> anyhow::Result<()> {
    let bar = progress_bar("messages");
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let Some(file) = &args.to else {
        if io::stdout().is_terminal() {
            bail!("the form is not for a terminal: name a file with --to, or pipe the output");
        }
        let to = BufWriter::with_capacity(BLOCK_BYTES, io::stdout().lock());
        let result = export(&args.directory, to, progress);
        bar.finish_and_clear();
        return match result {
            Ok(_) => Ok(()),
            Err(tiderace_store::TransferError::Portable(
                tiderace_store::PortableError::System(error),
            )) => Err(output_error(error)),
            Err(error) => Err(error.into()),
        };
    };
    let exported = write_file(&args.directory, file, progress);
    bar.finish_and_clear();
    say(args.json, "exported", file, &exported?)
}

/// Writes the file, which has its name only when it is whole.
fn write_file(
    directory: &Path,
    file: &Path,
    progress: impl FnMut(u64, u64),
) -> anyhow::Result<Transferred> {
    let new = NewFile::begin(file)?;
    let exported = write_whole(directory, new.part(), progress)?;
    new.finish()?;
    Ok(exported)
}

fn write_whole(
    directory: &Path,
    file: &File,
    progress: impl FnMut(u64, u64),
) -> anyhow::Result<Transferred> {
    let mut to = BufWriter::with_capacity(BLOCK_BYTES, file);
    let exported = export(directory, &mut to, progress)?;
    to.flush()?;
    Ok(exported)
}

/// `tiderace store import`.
pub(super) fn run_import(args: &ImportArgs) -> anyhow::Result<()> {
    let bar = progress_bar("bytes");
    let imported = if args.file == Path::new("-") {
        import(io::stdin().lock(), &args.directory, |bytes| bar.set_position(bytes))
    } else {
        let file = File::open(&args.file);
        let file = file.with_context(|| format!("{} cannot be read", args.file.display()))?;
        bar.set_length(file.metadata().map_or(0, |data| data.len()));
        let from = BufReader::with_capacity(BLOCK_BYTES, file);
        import(from, &args.directory, |bytes| bar.set_position(bytes))
    };
    bar.finish_and_clear();
    say(args.json, "imported", &args.directory, &imported?)
}

/// `tiderace store compact`.
pub(super) fn run_compact(args: &CompactArgs) -> anyhow::Result<()> {
    let bar = progress_bar("segments");
    let compacted = compact(&args.directory, |done, total| {
        bar.set_length(total.into());
        bar.set_position(done.into());
    });
    bar.finish_and_clear();
    let compacted = compacted?;
    let (before, after) = (compacted.bytes_before, compacted.bytes_after);
    let line = match args.json {
        true => json!({
            "directory": args.directory.display().to_string(),
            "bytes_before": before,
            "bytes_after": after,
        })
        .to_string(),
        false => {
            format!("{}: {before} bytes before, {after} bytes now", args.directory.display())
        }
    };
    print_line(line.as_bytes())
}

fn say(is_json: bool, what: &str, to: &Path, done: &Transferred) -> anyhow::Result<()> {
    let Transferred { streams, messages, values, bytes } = done;
    let line = match is_json {
        true => json!({
            what: to.display().to_string(),
            "streams": streams,
            "messages": messages,
            "values": values,
            "bytes": bytes,
        })
        .to_string(),
        false => format!(
            "{what} {}: {streams} topics and queues with {messages} messages, {values} named values, \
             {bytes} bytes",
            to.display()
        ),
    };
    print_line(line.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tiderace_store::{Batch, Options, Store};

    use super::*;

    #[test]
    fn an_export_has_its_name_only_when_it_is_whole_and_is_for_its_owner_alone() {
        let folder = std::env::temp_dir().join(format!("tiderace-export-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let (store, file) = (folder.join("store"), folder.join("file"));
        let (mut open, _) = Store::open(&store, Options::default()).unwrap();
        let mut batch = Batch::new();
        batch.set("name", b"value").unwrap();
        assert!(open.commit(vec![batch]).1.is_none());
        open.close().unwrap();
        let names = || fs::read_dir(&folder).unwrap().count();
        write_file(&store, &file, |_, _| assert!(!file.exists())).unwrap();
        assert_eq!(names(), 2, "nothing else is left");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let before = fs::read(&file).unwrap();
        let error = write_file(&store, &file, |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("is there already"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), before);
        // What an export that was killed has left is not taken for one's own.
        let (other, part) = (folder.join("other"), folder.join("other.part"));
        fs::write(&part, b"left").unwrap();
        let error = write_file(&store, &other, |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("left of one that was stopped"), "{error}");
        assert!(!other.exists() && fs::read(&part).unwrap() == b"left");
        // Where there is no store nothing is made.
        write_file(&folder.join("none"), &other.with_file_name("third"), |_, _| {}).unwrap_err();
        assert_eq!(names(), 3);
        fs::remove_dir_all(&folder).unwrap();
    }
}
