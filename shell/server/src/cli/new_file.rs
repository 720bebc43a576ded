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
        let named = give_name(&self.part, &self.name, |from, to| fs::hard_link(from, to));
        named.with_context(|| format!("{} cannot be made", self.name.display()))?;
        let folder = self.name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|it| it.sync_all());
        kept(synced).with_context(|| {
            format!(
                "{} is whole, but its name may not outlive a loss of power",
                self.name.display()
            )
        })
    }
}

/// What has come of syncing a folder. Where the file system cannot do that, as some that know no links, nothing more can be done for
/// a name: the file itself is on the disk.
fn kept(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Gives a file its name, which nothing has got meanwhile. A link leaves what has; where the file system knows none, such as FAT or
/// what some clouds mount, a name is taken that is free at this moment.
fn give_name(
    part: &Path,
    name: &Path,
    link: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    match link(part, name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if name.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(part, name),
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{ErrorKind, Write};

    use super::*;

    /// What a file system says that knows no links.
    fn no_links(_: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn a_folder_that_cannot_be_synced_keeps_its_files_all_the_same() {
        let of = |error: rustix::io::Errno| kept(Err(error.into()));
        assert!(kept(Ok(())).is_ok() && of(rustix::io::Errno::INVAL).is_ok());
        assert!(of(rustix::io::Errno::OPNOTSUPP).is_ok());
        assert!(of(rustix::io::Errno::IO).is_err() && of(rustix::io::Errno::NOSPC).is_err());
    }

    #[test]
    fn a_file_gets_its_name_also_where_there_are_no_links_and_never_one_that_is_taken() {
        let folder = std::env::temp_dir().join(format!("tiderace-new-file-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let (name, other) = (folder.join("a.tar"), folder.join("b.tar"));
        let new = NewFile::begin(&name).unwrap();
        new.part().write_all(b"whole").unwrap();
        give_name(&new.part, &name, no_links).unwrap();
        drop(new);
        assert_eq!(fs::read(&name).unwrap(), b"whole");
        let new = NewFile::begin(&other).unwrap();
        fs::write(&other, b"of somebody else").unwrap();
        let taken = give_name(&new.part, &other, no_links).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert!(new.finish().is_err());
        assert_eq!(fs::read(&other).unwrap(), b"of somebody else");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }
}
