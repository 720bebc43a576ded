//! Listening sockets that the process was given by the service manager that has started it.
//!
//! Relies on `listenfd` for the protocol (`LISTEN_FDS`) and the ownership of the descriptors. Invariant: a descriptor that
//! is neither a TCP socket nor a Unix socket of streams is an error, as it could only be one of the configuration.

use anyhow::Context;
use listenfd::ListenFd;
use tiderace_reactor::GivenSockets;

/// Takes the sockets; none if nobody has given any. To be called once, before there are other threads: the variables of
/// the environment are removed.
///
/// # Errors
/// When one of them is neither a TCP socket nor a Unix socket.
pub(crate) fn take() -> anyhow::Result<GivenSockets> {
    let mut given = ListenFd::from_env();
    let mut sockets = GivenSockets::default();
    for index in 0..given.len() {
        // What is no TCP socket stays there to be asked for as something else.
        if let Ok(socket) = given.take_tcp_listener(index) {
            sockets.addresses.extend(socket);
            continue;
        }
        let socket = given.take_unix_listener(index).context(
            "the service manager has given something else than TCP sockets and Unix sockets; look at the lines \
             `ListenStream=` of the socket unit",
        )?;
        sockets.unix.extend(socket);
    }
    Ok(sockets)
}
