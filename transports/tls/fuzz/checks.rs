//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariant: the outcome does not depend on how input is cut.

use std::sync::OnceLock;

use tiderace_tls::{
    Certificate, Choices, ClientCertificates, Identity, KEPT_BYTES_MAX, Session, Settings, Version,
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

/// The first bytes of a connection, whole and in pieces.
pub fn session(data: &[u8]) {
    let Some((&choice, wire)) = data.split_first() else {
        return;
    };
    let whole = feed(wire, wire.len().max(1));
    let pieces = feed(wire, usize::from(choice) % 61 + 1);
    assert_eq!(whole, pieces, "cutting the input changes the outcome");
}

/// Whether the connection has come to its end by the last byte.
fn feed(wire: &[u8], piece_len: usize) -> bool {
    let Ok(mut session) = Session::new(settings()) else {
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

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("its own");
        Settings::new(Choices {
            identities: vec![identity],
            version_min: Version::Tls12,
            clients: ClientCertificates::Unasked,
            alpn: vec![b"http/1.1".to_vec()],
            clock: || 1_800_000_000,
        })
        .expect("good choices")
    })
}
