//! Listening sockets that the process was given by the service manager that has started it.
//!
//! Relies on `listenfd` for the protocol (`LISTEN_FDS`) and the ownership of the descriptors. Invariant: a descriptor that
//! is no TCP socket is an error, as it could only be one of the configuration.

use std::net::TcpListener;

use anyhow::Context;
use listenfd::ListenFd;

/// Takes the sockets; none if nobody has given any. To be called once, before there are other threads: the variables of
/// the environment are removed.
///
/// # Errors
/// When one of them is no TCP socket.
pub(crate) fn take() -> anyhow::Result<Vec<TcpListener>> {
    let mut given = ListenFd::from_env();
    let sockets = (0..given.len()).filter_map(|index| given.take_tcp_listener(index).transpose());
    sockets.collect::<Result<_, _>>().context(
        "the service manager has given something else than TCP sockets; look at the lines \
         `ListenStream=` of the socket unit",
    )
}
