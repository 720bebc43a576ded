//! Reading from sockets that block.

use std::io::{self, ErrorKind, Read};

/// Reads what comes next. A signal ends the waiting of a socket that has a timeout, whatever handles the signal, and so
/// does a process that was stopped and goes on; nothing is lost by it, so the read is made again.
///
/// # Errors
/// Those of the stream, its timeout included.
pub(crate) fn read(stream: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
