//! Clients that speak TLS on the simulated network.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tiderace_reactor::driver::sim::Client;
use tiderace_tls::{Choices, ClientCertificates, Identity, Settings, Version};

use super::world::World;

/// A server's settings with a certificate made for the test, and what its clients need.
pub fn certified(version_min: Version) -> (Settings, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let settings = Settings::new(Choices {
        identities: vec![identity],
        version_min,
        clients: ClientCertificates::Unasked,
        alpn: vec![b"http/1.1".to_vec()],
        clock: || 1_800_000_000,
    });
    (settings.unwrap(), trusting(made.cert.der().clone(), rustls::ALL_VERSIONS))
}

/// A client that trusts the certificate and speaks the versions.
pub fn trusting(
    certificate: CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// A secured client.
pub struct Secured {
    pub client: Client,
    pub connection: ClientConnection,
    /// Plain bytes received.
    pub received: Vec<u8>,
    /// Why its own side failed.
    pub error: Option<rustls::Error>,
    read: usize,
}

impl Secured {
    /// Begins to connect; the handshake goes on with [`Secured::pump`].
    pub fn connect(world: &World, config: &Arc<ClientConfig>) -> Secured {
        let client = world.network.connect(0);
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        Secured { client, connection, received: Vec::new(), error: None, read: 0 }
    }

    pub fn send(&mut self, plain: &[u8]) {
        self.connection.set_buffer_limit(None);
        self.connection.writer().write_all(plain).unwrap();
    }

    /// Takes what has come and sends what there is.
    pub fn pump(&mut self, world: &World) {
        let wire = self.pull(world);
        world.network.send(self.client, &wire);
    }

    /// Takes what has come, and gives what there is to send.
    pub fn pull(&mut self, world: &World) -> Vec<u8> {
        let all = world.network.received(self.client);
        let mut fresh = &all[self.read..];
        while !fresh.is_empty() && self.error.is_none() {
            self.connection.read_tls(&mut fresh).unwrap();
            match self.connection.process_new_packets() {
                Ok(_) => {
                    let _ = self.connection.reader().read_to_end(&mut self.received);
                }
                Err(error) => self.error = Some(error),
            }
        }
        self.read = all.len();
        let mut wire = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut wire).unwrap();
        }
        wire
    }
}
