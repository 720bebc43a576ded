//! rustls' buffered client at the other end of a session, with nothing but memory in between.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    RootCertStore,
};
use tiderace_tls::{
    Choices, ClientCertificates, Failure, Identity, Received, Session, Settings, Version,
    sealed_bytes,
};

/// A certificate and its key in PEM.
pub struct Pem(pub String, pub String);

/// A certificate of its own for a name.
pub fn identity(name: &str) -> (Pem, Identity) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let pem = Pem(made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(pem.0.as_bytes(), pem.1.as_bytes()).unwrap();
    (pem, identity)
}

fn own() -> &'static (Pem, Identity) {
    static OWN: OnceLock<(Pem, Identity)> = OnceLock::new();
    OWN.get_or_init(|| identity("localhost"))
}

pub fn choices() -> Choices {
    Choices {
        identities: vec![own().1.clone()],
        version_min: Version::Tls12,
        clients: ClientCertificates::Unasked,
        alpn: vec![b"http/1.1".to_vec()],
        clock: || 1_800_000_000,
    }
}

pub fn settings() -> Settings {
    Settings::new(choices()).unwrap()
}

/// A session and its client.
pub struct Peer {
    pub session: Session,
    pub client: ClientConnection,
    /// Plain bytes that the session received.
    pub heard: Vec<u8>,
    /// Plain bytes that the client received.
    pub client_heard: Vec<u8>,
    /// Bytes that the session had to send of its own.
    pub sent: usize,
    config: Arc<ClientConfig>,
    out: Vec<u8>,
}

impl Peer {
    pub fn new(
        settings: &Settings,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Peer {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(own().0.0.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.enable_secret_extraction = true;
        Peer::with(settings, Arc::new(config))
    }

    fn with(settings: &Settings, config: Arc<ClientConfig>) -> Peer {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&config), name).unwrap();
        client.set_buffer_limit(None);
        let session = Session::new(settings).unwrap();
        let (heard, client_heard, out) = Default::default();
        Peer { session, client, heard, client_heard, sent: 0, config, out }
    }

    /// A client of TLS 1.2 that takes no ticket and asks for its session by its number.
    pub fn without_tickets(settings: &Settings) -> Peer {
        let config = Arc::clone(&Peer::new(settings, &[&rustls::version::TLS12]).config);
        let mut config = Arc::unwrap_or_clone(config);
        config.resumption = rustls::client::Resumption::in_memory_sessions(4)
            .tls12_resumption(rustls::client::Tls12Resumption::SessionIdOnly);
        Peer::with(settings, Arc::new(config))
    }

    /// Another connection of the same client.
    pub fn again(&self, settings: &Settings) -> Peer {
        Peer::with(settings, Arc::clone(&self.config))
    }

    pub fn shake_hands(&mut self) {
        while self.client.is_handshaking() || !self.session.is_established() {
            let wire = self.take();
            self.give(&wire).unwrap();
        }
        // What the client's last flight was answered with.
        let out = std::mem::take(&mut self.out);
        self.deliver(&out);
    }

    /// The client writes.
    pub fn write(&mut self, plain: &[u8]) {
        self.client.writer().write_all(plain).unwrap();
    }

    pub fn say(&mut self, plain: &[u8]) {
        self.write(plain);
        let wire = self.take();
        self.give(&wire).unwrap();
    }

    /// What the client has to send, after it has been given what the session sent.
    pub fn take(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.out);
        self.deliver(&out);
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).unwrap();
        }
        wire
    }

    /// The session is given bytes of the wire.
    pub fn give(&mut self, wire: &[u8]) -> Result<Received, Failure> {
        let mut bytes = self.session.kept().to_vec();
        bytes.extend_from_slice(wire);
        let mut plain = vec![0; bytes.len()];
        let before = self.out.len();
        let outcome = self.session.receive(&mut bytes, &mut plain, &mut self.out);
        self.sent += self.out.len() - before;
        let received = outcome?;
        self.heard.extend_from_slice(&plain[..received.plain]);
        Ok(received)
    }

    /// The same in pieces.
    pub fn exchange<'a>(&mut self, pieces: &mut impl Iterator<Item = &'a usize>) {
        let wire = self.take();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*pieces.next().unwrap()));
            self.give(piece).unwrap();
            rest = behind;
        }
    }

    /// The session sends.
    pub fn answer(&mut self, plain: &[u8]) {
        let mut room = vec![0; sealed_bytes(plain.len())];
        let length = self.session.send(plain, &mut room).unwrap();
        self.deliver(&room[..length]);
    }

    /// The client is given bytes of the wire.
    pub fn deliver(&mut self, mut wire: &[u8]) {
        while !wire.is_empty() {
            self.client.read_tls(&mut wire).unwrap();
            if self.client.process_new_packets().is_err() {
                return;
            }
            let _ = self.client.reader().read_to_end(&mut self.client_heard);
        }
    }

    /// The alert that the session has sent.
    pub fn alert(&mut self) -> Option<Error> {
        let out = std::mem::take(&mut self.out);
        self.client.read_tls(&mut &out[..]).unwrap();
        self.client.process_new_packets().err()
    }

    /// The keys that the client writes with.
    pub fn secrets(&mut self) -> Box<dyn MessageEncrypter> {
        let another = self.again(&settings()).client;
        let client = std::mem::replace(&mut self.client, another);
        let suite = client.negotiated_cipher_suite().unwrap().tls13().unwrap();
        match client.dangerous_extract_secrets().unwrap().tx.1 {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                suite.aead_alg.encrypter(key, iv)
            }
            _ => panic!("another cipher"),
        }
    }
}

/// The first record under those keys.
pub fn sealed(keys: &mut dyn MessageEncrypter, kind: u8, body: &[u8]) -> Vec<u8> {
    let message = OutboundPlainMessage {
        typ: ContentType::from(kind),
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(body),
    };
    keys.encrypt(message, 0).unwrap().encode()
}
