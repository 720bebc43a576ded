//! JSON Web Key Sets (RFC 7517).
//!
//! Relies on `key`. Invariants: keys that are not for signatures, or of a kind or algorithm that is not known, are left
//! out, as RFC 7517 section 5 wants it; secrets are taken only where the set itself is a secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::algorithm::Algorithm;
use super::key::Key;

/// Keys of one set at most. A token without `kid` is tried with each that has its algorithm.
pub const KEYS_MAX: usize = 64;

/// The keys of a set, for these algorithms alone if there are any. `with_secrets` takes symmetric keys as well: not those
/// of a set that anybody could fetch.
///
/// # Errors
/// Says what is wrong with the set as a whole; one without a usable key is no set.
pub fn parse_key_set(
    text: &str,
    choice: &[Algorithm],
    with_secrets: bool,
) -> Result<Vec<Key>, String> {
    let set: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("no list `keys` in it")?;
    if keys.len() > KEYS_MAX {
        return Err(format!("{} keys, and {KEYS_MAX} are taken at most", keys.len()));
    }
    let usable = |key: &Key| with_secrets || !key.is_secret();
    let keys: Vec<Key> = keys.iter().filter_map(|key| read(key, choice)).filter(usable).collect();
    if keys.is_empty() { Err("no key in it that can be used".to_owned()) } else { Ok(keys) }
}

fn read(key: &Value, choice: &[Algorithm]) -> Option<Key> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let for_signatures = text("use").is_none_or(|purpose| purpose == "sig");
    let verifies = key.get("key_ops").and_then(Value::as_array).is_none_or(|operations| {
        operations.iter().any(|operation| operation.as_str() == Some("verify"))
    });
    if !for_signatures || !verifies {
        return None;
    }
    let own;
    let choice = match text("alg") {
        None => choice,
        Some(name) => {
            own = [Algorithm::named(name)?];
            if !choice.is_empty() && !choice.contains(&own[0]) {
                return None;
            }
            &own[..]
        }
    };
    let found = match (text("kty")?, text("crv")) {
        ("RSA", _) => Key::rsa(bytes("n")?, bytes("e")?, choice),
        ("EC", Some("P-256")) => Key::public(point(&bytes, 32)?, Algorithm::Es256, choice),
        ("EC", Some("P-384")) => Key::public(point(&bytes, 48)?, Algorithm::Es384, choice),
        ("OKP", Some("Ed25519")) => Key::public(bytes("x")?, Algorithm::EdDsa, choice),
        ("oct", _) => Key::secret(&bytes("k")?, choice),
        _ => return None,
    };
    Some(found.ok()?.called(text("kid").map(str::to_owned)))
}

/// Both coordinates behind the mark of an uncompressed point.
fn point(bytes: &impl Fn(&str) -> Option<Vec<u8>>, length: usize) -> Option<Vec<u8>> {
    let (x, y) = (bytes("x")?, bytes("y")?);
    (x.len() == length && y.len() == length).then(|| [&[4], &*x, &*y].concat())
}
