//! A connection to a server, in plain text or over TLS, that blocks.
//!
//! Relies on rustls, which the server uses as well. Invariant: nothing is sent over TLS before the server has
//! shown a certificate that is trusted, unless the person at the terminal said that anybody is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

use super::client::{ClientError, PATIENCE, open};

/// Whether and how the connection is secured.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// Speak TLS; the server's certificate must be signed by an authority that this system trusts.
    #[arg(long, env = "TIDERACE_TLS")]
    tls: bool,
    /// Speak TLS, and trust the authorities of this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", env = "TIDERACE_CA")]
    ca: Option<PathBuf>,
    /// Speak TLS with whoever answers, whatever certificate it shows: for servers on this machine.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) enum Channel {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Channel {
    /// Connects to a host.
    pub(super) fn open(host: &str, port: u16, tls: &TlsArgs) -> Result<Channel, ClientError> {
        let mut stream = open(host, port)?;
        stream.set_nodelay(true).map_err(ClientError::Io)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Io)?;
        stream.set_write_timeout(Some(PATIENCE * 6)).map_err(ClientError::Io)?;
        if !tls.tls && tls.ca.is_none() && !tls.insecure {
            return Ok(Channel::Plain(stream));
        }
        let failure =
            |reason: String| ClientError::Secure { place: format!("{host}:{port}"), reason };
        let config = tls.config().map_err(failure)?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| failure(error.to_string()))?;
        let connection = ClientConnection::new(Arc::new(config), name);
        let mut connection = connection.map_err(|error| failure(error.to_string()))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(|error| failure(error.to_string()))?;
        }
        Ok(Channel::Secured(Box::new(StreamOwned::new(connection, stream))))
    }

    /// The socket, for its deadlines.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Channel::Plain(stream) => stream,
            Channel::Secured(stream) => &stream.sock,
        }
    }

    /// Says that nothing more is sent, and closes the connection.
    pub(super) fn close(&mut self) {
        if let Channel::Secured(stream) = self {
            stream.conn.send_close_notify();
            // The connection is finished either way.
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(buffer),
            Channel::Secured(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(bytes),
            Channel::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.flush(),
            Channel::Secured(stream) => stream.flush(),
        }
    }
}

impl TlsArgs {
    fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        if self.insecure {
            let anybody = Arc::new(Anybody(provider));
            let builder = builder.dangerous().with_custom_certificate_verifier(anybody);
            return Ok(builder.with_no_client_auth());
        }
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(self.authorities()?);
        if added == 0 {
            return Err("there is no authority to trust; name a file with --ca".to_owned());
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    /// The certificates of the file, or of the system's.
    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let read = |path: &PathBuf| {
            let found = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
            found.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
        };
        match &self.ca {
            Some(path) => read(path).map_err(|error| format!("{}: {error}", path.display())),
            None => {
                let found = SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
                found.map_or(Ok(Vec::new()), |path| read(&path))
            }
        }
    }
}

/// Trusts every server.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Where systems keep their authorities: Debian and Alpine, Fedora, macOS and the BSDs.
const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
