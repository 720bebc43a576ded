//! A client's sessions against a server's, over memory: bytes come in order whatever is cut where, and of a server that
//! is not to be trusted it is said why.

use proptest::prelude::*;
use tiderace_tls::{
    Authorities, Choices, ClientCertificates, ClientChoices, ClientSettings, Failure, FailureKind,
    Identity, Session, Settings, Version, sealed_bytes,
};

use crate::peer::Pem;

/// 2027-01-15.
const NOW: u64 = 1_800_000_000;

/// A certificate that signs for itself, valid in those years.
fn made(name: &str, years: std::ops::Range<i32>) -> Pem {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wanted = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    wanted.not_before = rcgen::date_time_ymd(years.start, 1, 1);
    wanted.not_after = rcgen::date_time_ymd(years.end, 1, 1);
    Pem(wanted.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// The certificate of an authority that has signed nothing.
fn authority(name: &str) -> Pem {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wanted = rcgen::CertificateParams::new(Vec::new()).unwrap();
    wanted.distinguished_name.push(rcgen::DnType::CommonName, name);
    wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Pem(wanted.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn server(pem: &Pem, version_min: Version, clients: ClientCertificates) -> Settings {
    let identity = Identity::from_pem(pem.0.as_bytes(), pem.1.as_bytes()).unwrap();
    let identities = vec![identity];
    let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Settings::new(Choices { identities, version_min, clients, alpn, clock: || NOW }).unwrap()
}

fn client(trusted: &Pem) -> ClientSettings {
    let authorities = Authorities::from_pem(trusted.0.as_bytes()).unwrap();
    let alpn = vec![b"http/1.1".to_vec()];
    let version_min = Version::Tls12;
    ClientSettings::new(ClientChoices {
        authorities,
        identity: None,
        version_min,
        alpn,
        clock: || NOW,
    })
    .unwrap()
}

/// Two sessions and what is on its way between them.
struct Pair {
    client: Session,
    server: Session,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    heard: [Vec<u8>; 2],
}

impl Pair {
    fn new(settings: &ClientSettings, host: &str, server: &Settings) -> Pair {
        let client = Session::connect(settings, host).unwrap();
        let server = Session::new(server).unwrap();
        let mut pair = Pair {
            client,
            server,
            to_server: Vec::new(),
            to_client: Vec::new(),
            heard: Default::default(),
        };
        pair.client.receive(&mut [], &mut [], &mut pair.to_server).unwrap();
        assert!(!pair.to_server.is_empty(), "the client has the first word");
        pair
    }

    /// Moves up to so many bytes each way; the client's failure comes first.
    fn step(&mut self, most: usize) -> Result<(), Failure> {
        let Pair { client, server, to_server, to_client, heard: [to, back] } = self;
        let at_client = give(client, most, to_client, to_server, to);
        at_client.and(give(server, most, to_server, to_client, back))
    }

    fn shake_hands(&mut self, most: usize) -> Result<(), Failure> {
        while !self.client.is_established() || !self.server.is_established() {
            self.step(most)?;
        }
        Ok(())
    }

    fn run(&mut self, most: usize) {
        while !self.to_client.is_empty() || !self.to_server.is_empty() {
            self.step(most).unwrap();
        }
    }
}

/// Gives a session up to so many bytes of the wire.
fn give(
    session: &mut Session,
    most: usize,
    wire: &mut Vec<u8>,
    out: &mut Vec<u8>,
    heard: &mut Vec<u8>,
) -> Result<(), Failure> {
    let mut bytes = session.kept().to_vec();
    let count = wire.len().min(most);
    bytes.extend(wire.drain(..count));
    let mut plain = vec![0; bytes.len()];
    let received = session.receive(&mut bytes, &mut plain, out)?;
    heard.extend_from_slice(&plain[..received.plain]);
    Ok(())
}

fn say(session: &mut Session, plain: &[u8], wire: &mut Vec<u8>) {
    let mut sealed = vec![0; sealed_bytes(plain.len())];
    let count = session.send(plain, &mut sealed).unwrap();
    wire.extend_from_slice(&sealed[..count]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_conversation_with_ourselves_in_both_versions(
        most in prop_oneof![1usize..80, 4000usize..40_000],
        is_new in any::<bool>(),
        question in prop::collection::vec(any::<u8>(), 1..40_000),
    ) {
        let pem = made("localhost", 2026..2030);
        let version = if is_new { Version::Tls13 } else { Version::Tls12 };
        let server = server(&pem, version, ClientCertificates::Unasked);
        let settings = client(&pem);
        for is_again in [false, true] {
            let mut pair = Pair::new(&settings, "localhost", &server);
            pair.shake_hands(most).unwrap();
            prop_assert_eq!(pair.client.alpn(), Some(&b"http/1.1"[..]));
            let established = pair.client.established().unwrap();
            prop_assert_eq!(established.is_resumed, is_again);
            say(&mut pair.client, &question, &mut pair.to_server);
            pair.run(most);
            say(&mut pair.server, b"an answer", &mut pair.to_client);
            pair.run(most);
            prop_assert_eq!(&pair.heard, &[b"an answer".to_vec(), question.clone()]);
            prop_assert!(pair.client.kept().is_empty() && pair.server.kept().is_empty());
            prop_assert!(pair.client.finish(&mut pair.to_server));
            prop_assert!(pair.server.finish(&mut pair.to_client));
            pair.run(most);
        }
    }
}

/// Why a client does not go on with a server, and whom the server says it was.
fn refusal(trusted: &Pem, shown: &Pem, host: &str) -> Failure {
    let server = server(shown, Version::Tls12, ClientCertificates::Unasked);
    let mut pair = Pair::new(&client(trusted), host, &server);
    let failure = pair.shake_hands(usize::MAX).unwrap_err();
    assert!(!pair.client.is_established());
    assert!(pair.client.send(b"secret", &mut [0; 500]).is_err(), "nothing is said to it");
    // The server hears the reason as an alert.
    let told = pair.step(usize::MAX).and_then(|()| pair.step(usize::MAX));
    assert!(told.is_err());
    failure
}

#[test]
fn of_a_server_that_is_not_trusted_it_is_said_why() {
    let good = made("localhost", 2026..2030);
    for (trusted, shown, host, words) in [
        (&made("localhost", 2026..2030), &good, "localhost", ["not signed by", "tls_ca_file"]),
        (&good, &good, "london.example", ["valid for name", "london.example"]),
        (&good, &good, "127.0.0.1", ["valid for name", "127.0.0.1"]),
        (&authority("somebody else"), &good, "localhost", ["not known here", "tls_ca_file"]),
    ] {
        let failure = refusal(trusted, shown, host);
        assert_eq!(failure.kind, FailureKind::Certificate);
        for word in words {
            assert!(failure.sentence.contains(word), "{word}: {failure}");
        }
    }
    let authority = authority("localhost");
    let failure = refusal(&authority, &authority, "localhost");
    assert!(failure.sentence.contains("CA:FALSE"), "{failure}");
    let old = made("localhost", 2020..2027);
    let failure = refusal(&old, &old, "localhost");
    assert!(failure.sentence.contains("expired 14 days ago"), "{failure}");
    let young = made("localhost", 2028..2030);
    let failure = refusal(&young, &young, "localhost");
    assert!(failure.sentence.contains("not valid yet"), "{failure}");
}

#[test]
fn an_address_is_a_name_as_well() {
    let pem = made("127.0.0.1", 2026..2030);
    let server = server(&pem, Version::Tls12, ClientCertificates::Unasked);
    Pair::new(&client(&pem), "127.0.0.1", &server).shake_hands(usize::MAX).unwrap();
    let failure = Session::connect(&client(&pem), "not a name").unwrap_err();
    assert!(failure.sentence.contains("\"not a name\""), "{failure}");
}

#[test]
fn who_does_not_speak_tls_or_wants_a_certificate_is_told_apart() {
    let pem = made("localhost", 2026..2030);
    let mut session = Session::connect(&client(&pem), "localhost").unwrap();
    let (mut plain, mut out) = (vec![0; 100], Vec::new());
    session.receive(&mut [], &mut [], &mut out).unwrap();
    let mut answer = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let failure = session.receive(&mut answer, &mut plain, &mut out).unwrap_err();
    assert!(failure.sentence.contains("ws://"), "{failure}");
    assert!(session.receive(&mut [], &mut plain, &mut out).is_err(), "it is of no more use");

    let clients = ClientCertificates::from_pem(pem.0.as_bytes(), true).unwrap();
    let mut pair = Pair::new(&client(&pem), "localhost", &server(&pem, Version::Tls13, clients));
    // The client is established before it hears that it may not come in.
    let (mut failure, mut steps) = (None, 0);
    while failure.is_none() && steps < 20 {
        let Pair { client, server, to_server, to_client, .. } = &mut pair;
        let mut bytes = server.kept().to_vec();
        bytes.append(to_server);
        let _ = server.receive(&mut bytes, &mut [0; 70_000], to_client);
        let mut bytes = client.kept().to_vec();
        bytes.append(to_client);
        failure = client.receive(&mut bytes, &mut [0; 70_000], to_server).err();
        steps += 1;
    }
    assert!(failure.unwrap().sentence.contains("client's certificate"));
}
