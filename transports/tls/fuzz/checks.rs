//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariant: the outcome does not depend on how input is cut.

use std::sync::OnceLock;

use tiderace_tls::{
    Authorities, Certificate, Choices, ClientCertificates, ClientChoices, ClientSettings, Identity,
    KEPT_BYTES_MAX, Session, Settings, Version,
};

/// A certificate, whole and cut.
pub fn certificate(data: &[u8]) {
    let whole = Certificate::read(data);
    for end in 0..data.len().min(64) {
        let _ = Certificate::read(&data[..end]);
    }
    if let Some(facts) = whole {
        // What stands behind it is nobody's business.
        let mut longer = data.to_vec();
        longer.push(0);
        assert_eq!(Certificate::read(&longer).as_ref(), Some(&facts));
        assert!(!facts.common_name.is_some_and(|name| name.contains(char::is_control)));
    }
}

/// The first bytes of a client, whole and in pieces.
pub fn session(data: &[u8]) {
    both_ways(data, || Session::new(&settings().0).ok());
}

/// The first bytes of a server, whole and in pieces.
pub fn client(data: &[u8]) {
    both_ways(data, || {
        let mut session = Session::connect(&settings().1, "localhost").ok()?;
        let mut hello = Vec::new();
        session.receive(&mut [], &mut [], &mut hello).ok()?;
        assert!(!hello.is_empty(), "a client has the first word");
        Some(session)
    });
}

fn both_ways(data: &[u8], begin: impl Fn() -> Option<Session>) {
    let Some((&choice, wire)) = data.split_first() else {
        return;
    };
    let whole = feed(begin(), wire, wire.len().max(1));
    let pieces = feed(begin(), wire, usize::from(choice) % 61 + 1);
    assert_eq!(whole, pieces, "cutting the input changes the outcome");
}

/// Whether the connection has come to its end by the last byte.
fn feed(session: Option<Session>, wire: &[u8], piece_len: usize) -> bool {
    let Some(mut session) = session else {
        return true;
    };
    let mut out = Vec::new();
    for piece in wire.chunks(piece_len) {
        let mut bytes = session.kept().to_vec();
        bytes.extend_from_slice(piece);
        let mut plain = vec![0; bytes.len()];
        let outcome = session.receive(&mut bytes, &mut plain, &mut out);
        assert!(session.kept().len() <= KEPT_BYTES_MAX);
        // One flight and one alert.
        assert!(out.len() < 16 * 1024, "{} bytes for {}", out.len(), wire.len());
        match outcome {
            Err(_) => {
                assert!(session.receive(&mut bytes, &mut plain, &mut out).is_err());
                assert!(!session.finish(&mut out));
                return true;
            }
            Ok(received) => {
                assert_eq!(received.plain, 0, "nobody has shown that it has the keys");
                assert!(!session.is_established());
                if received.is_ended {
                    return true;
                }
            }
        }
    }
    false
}

/// Those of a server, and those of a client that trusts it.
fn settings() -> &'static (Settings, ClientSettings) {
    static SETTINGS: OnceLock<(Settings, ClientSettings)> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("its own");
        let (version_min, clock) = (Version::Tls12, (|| 1_800_000_000) as fn() -> u64);
        let alpn = vec![b"http/1.1".to_vec()];
        let authorities = Authorities::from_pem(chain.as_bytes()).expect("its own");
        let trusting =
            ClientChoices { authorities, identity: None, version_min, alpn: alpn.clone(), clock };
        let choices = Choices {
            identities: vec![identity],
            version_min,
            clients: ClientCertificates::Unasked,
            alpn,
            clock,
        };
        let settings = Settings::new(choices).expect("good choices");
        (settings, ClientSettings::new(trusting).expect("good choices"))
    })
}
