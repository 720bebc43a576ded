//! A file that has its name only when it is whole, and a bar that shows how far it is.
//!
//! Invariant: what has the name is whole, also if this process is killed.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A file that is being written. What has been written of it is removed if it does not get its name.
pub(super) struct NewFile {
    file: File,
    part: PathBuf,
    name: PathBuf,
}

impl NewFile {
    /// Begins a file beside its name, which nothing may have yet.
    ///
    /// # Errors
    /// When something has it, or the file cannot be made.
    pub(super) fn begin(name: &Path) -> anyhow::Result<NewFile> {
        if name.symlink_metadata().is_ok() {
            bail!("{} is there already; name a file that is not", name.display());
        }
        let Some(last) = name.file_name() else { bail!("{} is not a file's name", name.display()) };
        let mut last = last.to_owned();
        last.push(".part");
        let part = name.with_file_name(last);
        let mut options = File::options();
        // What clients say is nobody else's business on this machine.
        let made = options.write(true).create_new(true).mode(0o600).open(&part);
        let file = made.with_context(|| {
            format!("{} cannot be made; it may be left of one that was stopped", part.display())
        })?;
        Ok(NewFile { file, part, name: name.to_owned() })
    }

    /// What is written to.
    pub(super) fn part(&self) -> &File {
        &self.file
    }

    /// It is whole: gives it its name, for certain.
    ///
    /// # Errors
    /// When something has got the name meanwhile, or the disk does not take it.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.file.sync_all()?;
        // Unlike a rename, this leaves a file that has got the name meanwhile.
        let named = fs::hard_link(&self.part, &self.name);
        named.with_context(|| format!("{} cannot be made", self.name.display()))?;
        let folder = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Nothing but what was made here.
        let _ = fs::remove_file(&self.part);
    }
}

/// On a terminal only, and beside what is written to standard output.
pub(super) fn progress_bar(unit: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}}/{{len}} {unit}"));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
