//! Listening sockets that the process was given by the one that started it, such as systemd, which keeps them open while
//! one server ends and the next begins.
//!
//! Relies on nothing but addresses and paths. Invariant: each socket goes to one listener, and none is left over, as connections to it
//! would wait for ever.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A socket that the process was given is that of a connection, or no listener has its address.
#[derive(Debug, thiserror::Error)]
#[error("the socket for {address} that the server was given cannot be used: {problem}")]
pub struct InheritedError {
    /// Its address, or its path.
    pub address: String,
    /// What is wrong, and what to do.
    pub problem: &'static str,
}

/// Listening sockets that the process was given.
#[derive(Debug, Default)]
pub struct GivenSockets {
    /// Those with addresses.
    pub addresses: Vec<TcpListener>,
    /// Unix sockets.
    pub unix: Vec<UnixListener>,
}

/// The sockets, each with its address.
#[derive(Debug)]
pub(crate) struct Inherited {
    addresses: Vec<(SocketAddr, TcpListener)>,
    unix: Vec<(PathBuf, UnixListener)>,
}

impl Inherited {
    /// Takes sockets.
    ///
    /// # Errors
    /// When the operating system does not know one of them.
    pub(crate) fn new(sockets: GivenSockets) -> io::Result<Inherited> {
        let addresses = sockets.addresses.into_iter().map(|socket| {
            socket.set_nonblocking(true)?;
            Ok((socket.local_addr()?, socket))
        });
        let unix = sockets.unix.into_iter().map(|socket| {
            socket.set_nonblocking(true)?;
            // One without a name is nobody's.
            let path = socket.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
            Ok((path, socket))
        });
        let addresses = addresses.collect::<io::Result<_>>()?;
        Ok(Inherited { addresses, unix: unix.collect::<io::Result<_>>()? })
    }

    /// The socket with that path, if there is one.
    pub(crate) fn take_unix(&mut self, wanted: &Path) -> Option<mio::net::UnixListener> {
        let index = self.unix.iter().position(|(path, _)| path == wanted)?;
        Some(mio::net::UnixListener::from_std(self.unix.remove(index).1))
    }

    /// Whether a Unix socket is left over.
    ///
    /// # Errors
    /// When there is one.
    pub(crate) fn check_unix(&self) -> Result<(), InheritedError> {
        let Some((path, _)) = self.unix.first() else { return Ok(()) };
        let problem = "it is not the admin socket; name it in `management.socket`, or remove it from the socket unit";
        Err(InheritedError { address: path.display().to_string(), problem })
    }

    /// The socket for each of these addresses, if there is one.
    ///
    /// # Errors
    /// When a socket is that of a connection, or has none of these addresses.
    pub(crate) fn distribute(
        mut self,
        wanted: impl Iterator<Item = SocketAddr> + Clone,
    ) -> Result<Vec<Option<mio::net::TcpListener>>, InheritedError> {
        // A socket of a connection is what super-servers hand over.
        let is_connected = |it: &TcpListener| socket2::SockRef::from(it).peer_addr().is_ok();
        if let Some((address, _)) = self.addresses.iter().find(|(_, it)| is_connected(it)) {
            let problem = "it is a connection; in a socket unit, remove `Accept=yes`";
            return Err(InheritedError { address: address.to_string(), problem });
        }
        // Exact ones first: a socket for all addresses could serve several listeners.
        let mut given: Vec<_> =
            wanted.clone().map(|wanted| self.take(|has| is_same(has, wanted))).collect();
        for (given, wanted) in given.iter_mut().zip(wanted) {
            *given = given.take().or_else(|| self.take(|has| covers(has, wanted)));
        }
        match self.addresses.first() {
            None => Ok(given),
            Some((address, _)) => {
                let problem = "no listener has this address; add it to `server.listen`, or remove it \
                               from the socket unit";
                Err(InheritedError { address: address.to_string(), problem })
            }
        }
    }

    fn take(&mut self, is_it: impl Fn(SocketAddr) -> bool) -> Option<mio::net::TcpListener> {
        let index = self.addresses.iter().position(|(address, _)| is_it(*address))?;
        Some(mio::net::TcpListener::from_std(self.addresses.remove(index).1))
    }
}

fn is_same(has: SocketAddr, wanted: SocketAddr) -> bool {
    (has.ip().to_canonical(), has.port()) == (wanted.ip().to_canonical(), wanted.port())
}

/// Whether a socket takes every connection of a listener: one for all addresses of IPv6 does for those of IPv4.
fn covers(has: SocketAddr, wanted: SocketAddr) -> bool {
    let is_dual = matches!(has.ip(), IpAddr::V6(ip) if ip.is_unspecified());
    is_dual && wanted.ip().is_unspecified() && has.port() == wanted.port()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn given(addresses: Vec<TcpListener>) -> Inherited {
        Inherited::new(GivenSockets { addresses, unix: Vec::new() }).unwrap()
    }

    fn bound(text: &str) -> (TcpListener, SocketAddr) {
        let socket = TcpListener::bind(text).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[test]
    fn each_socket_goes_to_the_listener_of_its_address() {
        let (one, first) = bound("127.0.0.1:0");
        let (two, second) = bound("127.0.0.1:0");
        let free = address("127.0.0.1:1");
        let inherited = given(vec![one, two]);
        let given = inherited.distribute([second, free, first].into_iter()).unwrap();
        let got: Vec<_> =
            given.iter().map(|it| it.as_ref().map(|socket| socket.local_addr().unwrap())).collect();
        assert_eq!(got, [Some(second), None, Some(first)]);
    }

    #[test]
    fn what_nobody_listens_to_is_refused() {
        let (socket, own) = bound("127.0.0.1:0");
        let other = SocketAddr::new(own.ip(), own.port() ^ 1);
        let error = given(vec![socket]).distribute([other].into_iter()).unwrap_err();
        assert!(error.to_string().contains(&own.to_string()), "{error}");
        let (listener, own) = bound("127.0.0.1:0");
        let stream = std::net::TcpStream::connect(own).unwrap();
        let connected = TcpListener::from(std::os::fd::OwnedFd::from(stream));
        let error = given(vec![listener, connected]).distribute([own].into_iter()).unwrap_err();
        assert!(error.to_string().contains("is a connection"), "{error}");
    }

    #[test]
    fn a_socket_for_all_addresses_serves_a_listener_for_all() {
        let six = address("[::]:7800");
        assert!(covers(six, address("0.0.0.0:7800")));
        assert!(!covers(six, address("0.0.0.0:7801")));
        assert!(!covers(six, address("127.0.0.1:7800")));
        assert!(!covers(address("0.0.0.0:7800"), six));
        assert!(is_same(address("[::ffff:127.0.0.1]:7800"), address("127.0.0.1:7800")));
    }
}
