//! Identities: users and tokens from the configuration, verified off the shards.
//!
//! [`Verifier`] knows the users and tokens. What it can decide at once (tokens, anonymous clients) it
//! decides on the caller's thread; a password goes to the [`AuthWorker`], because argon2id takes some
//! 20 ms and 19 MiB on purpose.
//!
//! Relies on RustCrypto's `argon2` and `sha2`. Invariants: an unknown user costs the same time as a wrong
//! password; no secret is kept in clear; the worker's queue is bounded and shared out by address and name, so a flood of logins is refused,
//! not buffered.

mod failures;
mod password;
mod principal;
mod shares;
mod token;
mod verifier;
mod worker;

pub use failures::FailurePolicy;
pub use password::{PasswordError, PasswordHash, hash_password};
pub use principal::Principal;
pub use token::{TokenDigest, generate_token};
pub use verifier::{
    AnonymousAccess, Check, LoginError, PasswordRecord, RecordError, TokenRecord, TokenSecret,
    UserRecord, Verifier,
};
pub use worker::{Answer, AuthHandle, AuthWorker, LoginRequest};
