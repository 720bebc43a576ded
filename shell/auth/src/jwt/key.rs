//! A key that verifies tokens, with the algorithms that it is for.
//!
//! Relies on `ring` and `der`. Invariant: the algorithms of a key are of one family, the one that the key's material is
//! made for, so that a public key is never taken for a secret.

use std::fmt;

use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;

use super::algorithm::Algorithm;
use super::der;
use super::sign::{SECRET_BYTES_MIN, hmac_algorithm};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A modulus of less has been factored, or soon will be; `ring` refuses it as well, but only when it verifies.
const RSA_BYTES_MIN: usize = 2048 / 8;

const OF_SECRETS: &[Algorithm] = &[Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512];
const OF_RSA: &[Algorithm] = &[
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
];

/// Why something is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// None of the algorithms is one of the key's kind.
    #[error("none of the algorithms is one for this kind of key")]
    Algorithm,
    /// Not what is expected.
    #[error("it is no public key in PEM (`-----BEGIN PUBLIC KEY-----`)")]
    Form,
    /// A kind that is not supported.
    #[error("the key is neither RSA, nor EC on P-256 or P-384, nor Ed25519")]
    Kind,
    /// A secret that could be guessed, or an RSA key that could be factored.
    #[error("the key is too short; a secret has 32 bytes or more, RSA 2048 bits or more")]
    Short,
}

/// A key with what it is for.
#[derive(Clone)]
pub struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    material: Material,
}

#[derive(Clone)]
pub(super) enum Material {
    /// An uncompressed point of a curve, or the bytes of an Ed25519 key.
    Public(Vec<u8>),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    Secret(Vec<u8>),
}

impl Key {
    /// A secret that signer and verifier share. Without a choice it is for HS256 alone.
    ///
    /// # Errors
    /// When it is too short, or no algorithm of the choice is one for secrets.
    pub fn secret(bytes: &[u8], choice: &[Algorithm]) -> Result<Key, KeyError> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(KeyError::Short);
        }
        let usual = OF_SECRETS.get(..1).unwrap_or_default();
        let from = if choice.is_empty() { usual } else { OF_SECRETS };
        Key::of(Material::Secret(bytes.to_vec()), from, choice)
    }

    /// A public key in PEM. Without a choice it is for all algorithms of its kind.
    ///
    /// # Errors
    /// When it is none, or no algorithm of the choice is one of its kind.
    pub fn from_pem(text: &[u8], choice: &[Algorithm]) -> Result<Key, KeyError> {
        let info = SubjectPublicKeyInfoDer::from_pem_slice(text).map_err(|_| KeyError::Form)?;
        let info = der::public_key_info(info.as_ref()).ok_or(KeyError::Form)?;
        match (info.algorithm, info.curve) {
            (RSA, _) => {
                let (modulus, exponent) = der::rsa_public_key(info.key).ok_or(KeyError::Form)?;
                Key::rsa(modulus.to_vec(), exponent.to_vec(), choice)
            }
            (EC, Some(P256)) => Key::public(info.key.to_vec(), Algorithm::Es256, choice),
            (EC, Some(P384)) => Key::public(info.key.to_vec(), Algorithm::Es384, choice),
            (ED25519, _) => Key::public(info.key.to_vec(), Algorithm::EdDsa, choice),
            _ => Err(KeyError::Kind),
        }
    }

    pub(super) fn rsa(
        modulus: Vec<u8>,
        exponent: Vec<u8>,
        choice: &[Algorithm],
    ) -> Result<Key, KeyError> {
        if modulus.len() < RSA_BYTES_MIN {
            return Err(KeyError::Short);
        }
        Key::of(Material::Rsa { modulus, exponent }, OF_RSA, choice)
    }

    pub(super) fn public(
        bytes: Vec<u8>,
        algorithm: Algorithm,
        choice: &[Algorithm],
    ) -> Result<Key, KeyError> {
        Key::of(Material::Public(bytes), &[algorithm], choice)
    }

    fn of(material: Material, from: &[Algorithm], choice: &[Algorithm]) -> Result<Key, KeyError> {
        let chosen = |algorithm: &Algorithm| choice.is_empty() || choice.contains(algorithm);
        let algorithms: Vec<Algorithm> = from.iter().copied().filter(chosen).collect();
        match algorithms.is_empty() {
            true => Err(KeyError::Algorithm),
            false => Ok(Key { id: None, algorithms, material }),
        }
    }

    /// The same with an id, which tokens name as `kid`.
    #[must_use]
    pub fn called(self, id: Option<String>) -> Key {
        Key { id, ..self }
    }

    /// Whether a token that names this key, or none, and this algorithm may be signed with it. A key without an id is
    /// tried for every name.
    pub(super) fn fits(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let is_named = match (id, self.id.as_deref()) {
            (Some(wanted), Some(own)) => wanted == own,
            _ => true,
        };
        is_named && self.algorithms.contains(&algorithm)
    }

    /// Whether it is the secret of a signer.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self.material, Material::Secret(_))
    }

    /// Whether the signature is that of the message. Microseconds for a secret, some hundred of them for the others.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], given: &[u8]) -> bool {
        if !self.algorithms.contains(&algorithm) {
            return false;
        }
        match &self.material {
            Material::Secret(secret) => hmac_algorithm(algorithm).is_some_and(|algorithm| {
                let key = ring::hmac::Key::new(algorithm, secret);
                ring::hmac::verify(&key, message, given).is_ok()
            }),
            Material::Rsa { modulus, exponent } => rsa_parameters(algorithm).is_some_and(|how| {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(how, message, given).is_ok()
            }),
            Material::Public(bytes) => {
                let how: &dyn signature::VerificationAlgorithm = match algorithm {
                    Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDsa => &signature::ED25519,
                    _ => return false,
                };
                UnparsedPublicKey::new(how, bytes).verify(message, given).is_ok()
            }
        }
    }
}

/// Secrets are not shown.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, algorithms) = (&self.id, &self.algorithms);
        f.debug_struct("Key")
            .field("id", id)
            .field("algorithms", algorithms)
            .finish_non_exhaustive()
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
