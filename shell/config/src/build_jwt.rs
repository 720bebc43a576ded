//! Issuers of signed tokens, with the checks that concern several of their options.
//!
//! Relies on `load` having checked each value alone. Invariant: an issuer has one source of keys, whose kind its
//! algorithms are for, and no key comes over a network in the clear.

use crate::problem::Problems;
use crate::resolve::{has_host, is_address, is_safe, resolve};
use crate::sections::auth::{JwtAlgorithm, JwtConfig, JwtKeys, JwtSection};
use crate::sources::Sources;
use crate::table::Table;

/// An issuer, unless it has a problem.
pub(crate) fn issuer(
    table: &Table,
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<JwtConfig> {
    let section = table.fill(JwtSection::from_values)?;
    check_algorithms(&section, table, problems);
    let keys = match (section.secret, section.public_key, section.keys) {
        (Some(source), None, None) => {
            let origin = table.origin_of("secret");
            JwtKeys::Secret(resolve(&source, "jwt.secret", origin, sources, problems)?)
        }
        (None, Some(file), None) => JwtKeys::PublicKey(file),
        (None, None, Some(place)) => {
            if !is_safe(&place) {
                let message = format!(
                    "jwt.keys: anybody on the way could put other keys into the answer of {place}; use https://, or a file"
                );
                problems.add(table.origin_of("keys"), message);
                return None;
            }
            if is_address(&place) && !has_host(&place) {
                let message = format!(
                    "jwt.keys: {place:?} names no host, or no port from 1 to 65535; write one such as \"https://id.example.org/keys\", or a file"
                );
                problems.add(table.origin_of("keys"), message);
                return None;
            }
            let (interval, authorities) = (section.keys_interval, section.keys_authorities);
            JwtKeys::Set { place, interval, authorities }
        }
        _ => {
            if !table.refuses(&["secret", "public_key", "keys"]) {
                let message = format!(
                    "jwt {:?} needs exactly one of `secret`, `public_key` and `keys`",
                    section.name
                );
                problems.add(table.origin.clone(), message);
            }
            return None;
        }
    };
    Some(JwtConfig {
        name: section.name,
        keys,
        algorithms: section.algorithms,
        issuer: section.issuer,
        audience: section.audience,
        leeway: section.leeway,
        name_claim: section.name_claim,
        groups_claim: section.groups_claim,
        groups: section.groups,
        host: section.host,
    })
}

fn check_algorithms(section: &JwtSection, table: &Table, problems: &mut Problems) {
    let of_secrets = [JwtAlgorithm::Hs256, JwtAlgorithm::Hs384, JwtAlgorithm::Hs512];
    for algorithm in &section.algorithms {
        let wrong = match of_secrets.contains(algorithm) {
            true if section.public_key.is_some() => "a secret, and there is a public key",
            false if section.secret.is_some() => "a public key, and there is a secret",
            _ => continue,
        };
        let message = format!("jwt.algorithms: {} is for {wrong}", algorithm.as_str());
        problems.add(table.origin_of("algorithms"), message);
    }
}
