//! How much room the disk has, and how much of it is for the log alone.
//!
//! Relies on the operating system.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

/// Bytes of the disk that copies of bodies, and files that only a backup keeps, leave free.
const LEFT_FREE_BYTES: u64 = 64 << 20;

/// Refuses to take so many bytes if that would leave the log itself, and so everybody else, without room.
///
/// # Errors
/// When there is no room, or the disk does not say.
pub(crate) fn check_room(directory: &Path, bytes: u64) -> io::Result<()> {
    let disk = statvfs(directory)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    match free < bytes.saturating_add(LEFT_FREE_BYTES) {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_disk_has_room_for_everything() {
        let error = check_room(&std::env::temp_dir(), u64::MAX);
        assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        assert!(check_room(Path::new("/there is no such directory"), 0).is_err());
    }
}
