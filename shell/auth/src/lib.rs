//! Identities: users and tokens from the configuration, verified off the shards.
//!
//! [`Verifier`] knows the users and tokens. What it can decide at once (tokens, anonymous clients) it
//! decides on the caller's thread; a password goes to the [`AuthWorker`], because argon2id takes some
//! 20 ms and 19 MiB on purpose.
//!
//! [`jwt`] verifies signed tokens, by keys that are configured or fetched, on another thread. [`callout`] asks another
//! server about those that nobody here knows, on threads of its own.
//!
//! Relies on RustCrypto's `argon2` and `sha2`, and on `ring` for signatures. Invariants: an unknown user costs the same
//! time as a wrong password; no secret is kept in clear but those that sign tokens; the queues are bounded and shared out
//! by address and name, so a flood of logins is refused, not buffered.

pub mod callout;
mod claims;
mod credential;
mod current;
mod failures;
pub mod jwt;
mod lane;
mod password;
mod principal;
mod priority;
mod shares;
mod signed;
mod token;
mod verifier;
mod worker;

pub use credential::{CredentialMark, CredentialMarks};
pub use failures::FailurePolicy;
pub use lane::{Answer, LoginRequest};
pub use password::{PasswordError, PasswordHash, hash_password};
pub use principal::Principal;
pub use signed::Issuers;
pub use token::{TokenDigest, generate_token};
pub use verifier::{
    AnonymousAccess, Check, LoginError, PasswordRecord, RecordError, TokenRecord, TokenSecret,
    UserRecord, Verifier,
};
pub use worker::{AuthHandle, AuthWorker};
