//! Tokens that other software has signed: by OpenSSL, through Python's `cryptography`, with keys that were thrown away.

use serde_json::{Value, json};
use tiderace_auth::Issuers;
use tiderace_auth::jwt::{Issuer, IssuerOptions, Key, KeyStore, parse_key_set};

/// 2026-01-01, in seconds since 1970; the tokens hold until 2100.
const NOW: u64 = 1_767_225_600;

fn issuers(keys: Vec<Key>) -> Issuers {
    let options = IssuerOptions {
        name_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        ..IssuerOptions::default()
    };
    Issuers::new(vec![Issuer::new(options, KeyStore::new(keys))])
}

#[test]
fn each_algorithm_is_verified_as_others_sign_it() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("foreign_tokens.json")).unwrap();
    assert_eq!(vectors.len(), 9);
    let text = |vector: &Value, name: &str| vector[name].as_str().unwrap().to_owned();
    for vector in &vectors {
        let (name, token) = (text(vector, "alg"), text(vector, "token"));
        let in_pem = Key::from_pem(text(vector, "pem").as_bytes(), &[]).unwrap();
        let set = json!({ "keys": [vector["jwk"]] }).to_string();
        for keys in [vec![in_pem], parse_key_set(&set, &[], false).unwrap()] {
            let issuers = issuers(keys);
            let ann = issuers.verify(&token, NOW).unwrap();
            assert_eq!(ann.to_string(), "ann", "{name}");
            // A signature that differs anywhere is none. The last character has bits that mean nothing.
            let start = token.rfind('.').unwrap() + 1;
            for at in [start, (start + token.len()) / 2, token.len() - 2] {
                let mut forged = token.clone();
                let other = if &token[at..=at] == "A" { "B" } else { "A" };
                forged.replace_range(at..=at, other);
                assert!(issuers.verify(&forged, NOW).is_err(), "{name} at {at}");
            }
            // A key verifies the tokens of its own kind alone.
            for other in &vectors {
                let is_own = other["jwk"] == vector["jwk"];
                let verdict = issuers.verify(&text(other, "token"), NOW);
                assert_eq!(verdict.is_ok(), is_own, "{name} and {}", other["alg"]);
            }
        }
    }
}
