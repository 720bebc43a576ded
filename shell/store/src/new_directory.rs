//! A directory that gets its name only when it is whole.
//!
//! Relies on the file system to rename in one step. Invariant: under the final name stands the whole, or what stood there
//! before: nothing, or an empty directory.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::transfer_error::TransferError;

/// A directory that is being filled. It is removed with all that is in it if it does not get its name.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    /// The name that it gets.
    directory: PathBuf,
    unfinished: PathBuf,
    is_finished: bool,
}

impl NewDirectory {
    /// Whether a new directory can have that name.
    ///
    /// # Errors
    /// When there is something in it, or it is a mount point.
    pub(crate) fn check(directory: &Path) -> Result<(), TransferError> {
        match fs::read_dir(directory) {
            Ok(mut entries) => {
                if is_mount_point(directory).map_err(failed("look into", directory))? {
                    return Err(TransferError::MountPoint { directory: directory.to_owned() });
                }
                if entries.next().is_some() {
                    return Err(TransferError::NotEmpty { directory: directory.to_owned() });
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("look into", directory)(error)),
        }
    }

    /// Makes the directory that is filled, beside the one whose name it gets and with `ending` behind that. It is nobody
    /// else's: one that is there has something else's work in it, or what is left of it.
    ///
    /// # Errors
    /// When there is one, or it cannot be made.
    pub(crate) fn begin(directory: &Path, ending: &str) -> Result<NewDirectory, TransferError> {
        // One that is named by its parts, such as `.`, has a name as well.
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let mut name = directory.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        let unfinished = directory.with_file_name(name);
        if let Some(parent) = unfinished.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(failed("make the directory", parent))?;
        }
        match fs::DirBuilder::new().mode(0o700).create(&unfinished) {
            Ok(()) => Ok(NewDirectory { directory, unfinished, is_finished: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(TransferError::Unfinished { directory: unfinished })
            }
            Err(error) => Err(failed("make the directory", &unfinished)(error)),
        }
    }

    /// Where it is filled.
    pub(crate) fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Gives it its name, for certain.
    ///
    /// # Errors
    /// When that is not possible.
    pub(crate) fn finish(mut self) -> Result<(), TransferError> {
        // An empty directory gives its name to the new one, in one step.
        fs::rename(&self.unfinished, &self.directory).map_err(failed("name", &self.directory))?;
        self.is_finished = true;
        let whole = self.directory.canonicalize().ok();
        if let Some(parent) = whole.as_deref().and_then(Path::parent) {
            let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(failed("sync", parent))?;
        }
        Ok(())
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing but what was made here.
            let _ = fs::remove_dir_all(&self.unfinished);
        }
    }
}

/// Whether the directory lies on another file system than the one it is in.
fn is_mount_point(directory: &Path) -> io::Result<bool> {
    let directory = directory.canonicalize()?;
    let Some(parent) = directory.parent() else { return Ok(true) };
    Ok(fs::metadata(&directory)?.dev() != fs::metadata(parent)?.dev())
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.to_owned();
    move |error| TransferError::System { what, path, error }
}
