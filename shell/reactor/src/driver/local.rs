//! The admin socket: how it comes to be, who is on the other side of a connection, and how it goes.
//!
//! ```text
//!   bind, with a mode for its owner alone ─▶ listen ─▶ connections, each with the user of its process ─▶ remove the file
//! ```
//! Invariants: at no moment may others than its owner connect; the socket of a server that runs is not taken away from it, neither
//! when another one starts nor when one ends that has lost it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::net::{TcpStream, UnixListener};
use nix::sys::socket::{getsockopt, sockopt};
use socket2::{Domain, SockAddr, Socket, Type};
use tiderace_base::local_peer;

use super::Accepted;

/// Its owner alone may connect.
const MODE: u32 = 0o600;

/// A file of a socket that this process has made: it goes with it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// By which it is known again.
    id: (u64, u64),
}

impl Drop for SocketFile {
    /// To be called when the socket is closed.
    fn drop(&mut self) {
        // Another server may have one there by now, if somebody has removed this one: perhaps of the same number.
        let is_own = identity(&self.path).is_ok_and(|id| id == self.id);
        if is_own && matches!(is_served(&self.path), Ok(false)) {
            // It is of no use to anybody; the next server removes it if this one cannot.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a server listens at a socket.
fn is_served(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // One whose server is busy has no room for connections, and nobody is to wait for that.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // One that is busy has no room.
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Opens a Unix socket to which its owner alone may connect, in place of one whose server is gone.
///
/// # Errors
/// When a server listens there, something else is there, or the directory cannot be written.
pub(super) fn listen_locally(path: &Path, backlog: i32) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The file gets the mode of the socket, less what the mask of the process takes: there is no moment in which it is another.
    let file = fs::File::from(OwnedFd::from(socket));
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile { path: path.to_owned(), id: identity(path)? };
    socket.listen(backlog)?;
    Ok((UnixListener::from_std(socket.into()), file))
}

/// Removes the socket of a server that is gone.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !metadata.file_type().is_socket() {
        let problem = "something that is no socket has that name; remove it, or name another place in `management.socket`";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    match is_served(path) {
        Ok(false) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(true) => {
            let problem = "another server listens there; stop that, or name another place in `management.socket`";
            Err(io::Error::new(io::ErrorKind::AddrInUse, problem))
        }
    }
}

/// Takes the next connection, with the user of the process that has made it.
pub(super) fn accept_locally(socket: &UnixListener) -> io::Result<Accepted<TcpStream>> {
    let (stream, _) = socket.accept()?;
    let Ok(shown) = getsockopt(&stream, sockopt::PeerCredentials) else {
        return Ok(Accepted::Failed);
    };
    // Reading, writing and ending are the same calls for every stream; a mark that tells them apart would make each record of a
    // connection larger.
    let stream = TcpStream::from_std(OwnedFd::from(stream).into());
    Ok(Accepted::Stream(stream, local_peer(shown.uid())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A directory of its own, which goes with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let directory =
                std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            Place(directory)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("admin.sock")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn its_owner_alone_may_connect_and_it_goes_with_its_server() {
        let place = Place::new("local-mode");
        let (socket, file) = listen_locally(&place.socket(), 16).unwrap();
        assert_eq!(mode(&place.socket()), 0o600);
        let client = UnixStream::connect(place.socket()).unwrap();
        let Accepted::Stream(_, peer) = accept_locally(&socket).unwrap() else {
            panic!("accepted")
        };
        let own = fs::symlink_metadata(place.socket()).unwrap().uid();
        assert_eq!(peer, local_peer(own));
        drop((client, socket, file));
        assert!(!place.socket().exists());
    }

    #[test]
    fn one_of_a_server_that_is_gone_is_replaced_and_one_that_lives_is_not() {
        let place = Place::new("local-stale");
        let (socket, file) = listen_locally(&place.socket(), 16).unwrap();
        let error = listen_locally(&place.socket(), 16).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("another server listens there"), "{error}");
        assert!(place.socket().exists());
        // A server that was killed leaves its file.
        drop(socket);
        let (other, other_file) = listen_locally(&place.socket(), 16).unwrap();
        // What it left is another's now, and stays.
        drop(file);
        assert!(UnixStream::connect(place.socket()).is_ok());
        drop((other, other_file));
        fs::write(place.socket(), "mine").unwrap();
        let error = listen_locally(&place.socket(), 16).unwrap_err();
        assert!(error.to_string().contains("no socket has that name"), "{error}");
        assert_eq!(fs::read(place.socket()).unwrap(), b"mine");
    }
}
