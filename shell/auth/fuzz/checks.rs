//! What must hold for any bytes; shared by the fuzz targets and the tests that replay their corpora.

use tiderace_auth::Issuers;
use tiderace_auth::jwt::{Issuer, IssuerOptions, KEYS_MAX, Key, KeyStore, parse_key_set};
use tiderace_base::is_name;

/// The secret of the corpus' tokens, which are valid until 2100.
const SECRET: &[u8] = b"a secret of thirty-two bytes, ok";
/// 2026-01-01, in seconds since 1970.
const NOW: u64 = 1_767_225_600;

fn issuers(secret: &[u8]) -> Option<Issuers> {
    let options = IssuerOptions {
        name_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        claims: vec!["tenant".to_owned(), "org.id".to_owned()],
        credential: None,
        ..IssuerOptions::default()
    };
    let key = Key::secret(secret, &[]).ok()?;
    Some(Issuers::new(vec![Issuer::new(options, KeyStore::new(vec![key]))]))
}

/// A token: who is let in has a name that no rule takes for a wildcard, for a time that ends, and by this key alone.
pub fn token(data: &[u8]) {
    let (Ok(text), Some(issuers), Some(others)) =
        (std::str::from_utf8(data), issuers(SECRET), issuers(&[7; 32]))
    else {
        return;
    };
    assert!(others.verify(text, NOW).is_err(), "a token of somebody else");
    if let Ok(principal) = issuers.verify(text, NOW) {
        assert!(principal.name().is_some_and(|name| is_name(name)));
        assert!(principal.valid_until().is_some_and(|until| until > NOW));
        assert!(principal.groups().iter().all(|group| !group.contains(['*', '#', '+', '>'])));
        assert!(issuers.verify(text, u64::MAX).is_err(), "it ends");
    }
}

/// A key set: bounded, and one that is fetched has no secrets.
pub fn key_set(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let fetched = parse_key_set(text, &[], false);
    let own = parse_key_set(text, &[], true);
    for keys in [&fetched, &own].into_iter().flatten() {
        assert!(keys.len() <= KEYS_MAX, "{} keys", keys.len());
    }
    if let (Ok(fetched), Ok(own)) = (&fetched, &own) {
        assert!(fetched.len() <= own.len(), "secrets are left out, and nothing else");
    }
}

/// A public key in PEM, and in DER inside PEM.
pub fn public_key(data: &[u8]) {
    let _ = Key::from_pem(data, &[]);
    // Base64 by hand: the crate of the server is not this one's.
    let mut pem = b"-----BEGIN PUBLIC KEY-----\n".to_vec();
    let letter = |bits: u32| match (bits & 63) as u8 {
        value @ 0..=25 => b'A' + value,
        value @ 26..=51 => b'a' + value - 26,
        value @ 52..=61 => b'0' + value - 52,
        62 => b'+',
        _ => b'/',
    };
    for three in data.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let four = [18, 12, 6, 0].map(|shift| letter(bits >> shift));
        pem.extend_from_slice(four.get(..three.len() + 1).unwrap_or_default());
        pem.extend(std::iter::repeat_n(b'=', 3 - three.len()));
    }
    pem.extend_from_slice(b"\n-----END PUBLIC KEY-----\n");
    let _ = Key::from_pem(&pem, &[]);
}
