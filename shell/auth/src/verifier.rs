//! Who the bearer of these credentials is.
//!
//! Relies on `password` and `token`. Shared by shards and worker; never changes after it is made, but another one may take its
//! place.
//! Invariant: the answer to an unknown user is the one to a wrong password, in word and in time.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tiderace_wire::Credentials;

use crate::credential::{CredentialMark, CredentialMarks};
use crate::jwt::looks_signed;
use crate::password::{PasswordError, PasswordHash, hash_password};
use crate::principal::{Principal, unix_time};
use crate::token::TokenDigest;

/// Fewer characters than this could be guessed, whatever the token is made of.
const TOKEN_LENGTH_MIN: usize = 16;

/// A user as configured.
#[derive(Debug, Clone)]
pub struct UserRecord {
    /// Login name.
    pub name: String,
    /// How the password is known.
    pub password: PasswordRecord,
    /// Groups, for rules.
    pub groups: Vec<String>,
    /// The virtual host that the user is bound to, or `*` for the whole tree.
    pub host: Option<String>,
}

/// How a password is known.
#[derive(Clone)]
pub enum PasswordRecord {
    /// As an argon2id hash in PHC form.
    Hash(String),
    /// In clear; hashed and dropped when the verifier is made.
    Plain(String),
}

impl fmt::Debug for PasswordRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordRecord(***)")
    }
}

/// A token as configured.
#[derive(Debug, Clone)]
pub struct TokenRecord {
    /// Its name, for messages.
    pub name: String,
    /// How the token is known.
    pub secret: TokenSecret,
    /// Who its bearer is.
    pub principal: String,
    /// Groups of its bearer.
    pub groups: Vec<String>,
    /// The virtual host that its bearer is bound to, or `*` for the whole tree.
    pub host: Option<String>,
    /// Until when it is good, in seconds since 1970.
    pub until: Option<u64>,
}

/// How a token is known.
#[derive(Clone)]
pub enum TokenSecret {
    /// As its SHA-256.
    Digest([u8; 32]),
    /// In clear; hashed and dropped when the verifier is made.
    Plain(String),
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(***)")
    }
}

/// Whether somebody may connect without logging in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// As an anonymous principal, whose rights the rules decide.
    Accepted,
    /// Credentials are required.
    Refused,
}

/// A user or token that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The password or hash of a user.
    #[error("user `{name}`: {reason}")]
    Password {
        /// The user.
        name: String,
        /// What is wrong.
        reason: PasswordError,
    },
    /// A token in clear that could be guessed.
    #[error(
        "token `{name}` has fewer than 16 characters; make one with `tiderace password --token`"
    )]
    TokenTooShort {
        /// The token's name.
        name: String,
    },
}

/// Why somebody may not connect. The sentences reach the client: they tell nothing about which names exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// More logins are under way than the server verifies at a time.
    #[error("too many logins are under way; try again in a few seconds")]
    Busy,
    /// What was shown was valid once: a token, a certificate, or what the server that was asked has answered about.
    #[error("what you log in with has expired; log in with new credentials")]
    Expired,
    /// No credentials were given.
    #[error("this server requires a login: send a user name and password, or a token")]
    CredentialsNeeded,
    /// Unknown user, wrong password or unknown token.
    #[error("the user name or password, or the token, is wrong")]
    Refused,
    /// Refused by the server that was asked, with its reason.
    #[error("{0}")]
    RefusedFor(Arc<str>),
    /// The server that would have to be asked does not answer.
    #[error("logins cannot be checked at the moment; try again in a few seconds")]
    Unavailable,
    /// The limit of failed logins for this name and address is reached.
    #[error("too many failed logins for this user name from this address; try again later")]
    TooManyFailures,
}

/// What the verifier can say at once.
#[derive(Debug)]
pub enum Check {
    /// The answer.
    Decided(Result<Principal, LoginError>),
    /// A password has to be hashed: for the worker.
    NeedsHash(Credentials),
    /// A signature has to be verified: for the worker.
    NeedsKey(Credentials),
    /// Another server has to be asked: for the worker.
    NeedsCallout(Credentials),
}

/// Knows every user and token.
#[derive(Debug)]
pub struct Verifier {
    users: Vec<User>,
    /// Index into `users`.
    by_name: HashMap<Box<str>, usize>,
    tokens: Vec<Token>,
    anonymous: AnonymousAccess,
    /// Signed tokens are accepted, which somebody else verifies.
    takes_signed: bool,
    /// Another server is asked about those who are not known here.
    calls_out: bool,
    /// Certificates of clients say who they are, which somebody else reads.
    takes_certificates: bool,
    /// Chooses which hash an unknown name is verified against; random per process.
    decoy: RandomState,
    marks: CredentialMarks,
}

#[derive(Debug)]
struct User {
    hash: PasswordHash,
    principal: Principal,
    mark: CredentialMark,
}

#[derive(Debug)]
struct Token {
    digest: TokenDigest,
    principal: Principal,
}

impl Verifier {
    /// Checks every record; passwords in clear are hashed here, about 20 ms each.
    ///
    /// # Errors
    /// The first user or token that cannot be used.
    pub fn new(
        users: impl IntoIterator<Item = UserRecord>,
        tokens: impl IntoIterator<Item = TokenRecord>,
        anonymous: AnonymousAccess,
    ) -> Result<Verifier, RecordError> {
        Verifier::make(users, tokens, anonymous, None)
    }

    /// The one that takes this one's place: passwords that it knows are not hashed again.
    ///
    /// # Errors
    /// The first user or token that cannot be used.
    pub fn next(
        &self,
        users: impl IntoIterator<Item = UserRecord>,
        tokens: impl IntoIterator<Item = TokenRecord>,
        anonymous: AnonymousAccess,
    ) -> Result<Verifier, RecordError> {
        Verifier::make(users, tokens, anonymous, Some(self))
    }

    fn make(
        users: impl IntoIterator<Item = UserRecord>,
        tokens: impl IntoIterator<Item = TokenRecord>,
        anonymous: AnonymousAccess,
        before: Option<&Verifier>,
    ) -> Result<Verifier, RecordError> {
        let mut verifier = Verifier {
            users: Vec::new(),
            by_name: HashMap::new(),
            tokens: Vec::new(),
            anonymous,
            takes_signed: false,
            calls_out: false,
            takes_certificates: false,
            // The same as before, or a name's time would tell whether the server was told to read again.
            decoy: before.map(|before| before.decoy.clone()).unwrap_or_default(),
            marks: before.map(|before| before.marks.clone()).unwrap_or_default(),
        };
        for record in users {
            let (PasswordRecord::Hash(secret) | PasswordRecord::Plain(secret)) = &record.password;
            let mark = verifier.marks.of_user(&record.name, secret, record.host.as_deref());
            let known = before.and_then(|before| before.user(&record.name));
            let hash = match (&record.password, known.filter(|known| known.mark == mark)) {
                (_, Some(known)) => Ok(known.hash.clone()),
                (PasswordRecord::Hash(text), None) => PasswordHash::parse(text),
                (PasswordRecord::Plain(text), None) => {
                    hash_password(text).and_then(|text| PasswordHash::parse(&text))
                }
            };
            let hash =
                hash.map_err(|reason| RecordError::Password { name: record.name.clone(), reason })?;
            let principal = Principal::named(&record.name, &record.groups);
            let principal = principal.bound(record.host.as_deref()).shown_by(mark);
            verifier.by_name.insert(record.name.into(), verifier.users.len());
            verifier.users.push(User { hash, principal, mark });
        }
        for record in tokens {
            let digest = match record.secret {
                TokenSecret::Digest(bytes) => TokenDigest::from_bytes(bytes),
                TokenSecret::Plain(text) if text.chars().count() < TOKEN_LENGTH_MIN => {
                    return Err(RecordError::TokenTooShort { name: record.name });
                }
                TokenSecret::Plain(text) => TokenDigest::of(&text),
            };
            let host = record.host.as_deref();
            // Sessions end when that moment comes, so they know one that ends at another for another token.
            let shown = (digest.bytes(), record.until);
            let mark = verifier.marks.of_token(shown, &record.principal, host);
            let principal = Principal::named(&record.principal, &record.groups);
            let principal = principal.bound(record.host.as_deref()).shown_by(mark);
            let principal = match record.until {
                Some(until) => principal.until(until),
                None => principal,
            };
            verifier.tokens.push(Token { digest, principal });
        }
        Ok(verifier)
    }

    /// The same, which leaves signed tokens to the worker.
    #[must_use]
    pub fn with_signed_tokens(self) -> Verifier {
        Verifier { takes_signed: true, ..self }
    }

    /// The same, which leaves those whom it does not know to another server.
    #[must_use]
    pub fn with_callout(self) -> Verifier {
        Verifier { calls_out: true, ..self }
    }

    /// The same, for a server to which certificates say who clients are.
    #[must_use]
    pub fn with_certificates(self) -> Verifier {
        Verifier { takes_certificates: true, ..self }
    }

    /// Everybody whom the users and tokens name.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        let users = self.users.iter().map(|user| &user.principal);
        users.chain(self.tokens.iter().map(|token| &token.principal))
    }

    /// Whether somebody may come in without credentials.
    pub fn lets_anonymous_in(&self) -> bool {
        self.anonymous == AnonymousAccess::Accepted
    }

    /// Gives the numbers of what is shown.
    pub fn marks(&self) -> &CredentialMarks {
        &self.marks
    }

    fn user(&self, name: &str) -> Option<&User> {
        self.by_name.get(name).and_then(|index| self.users.get(*index))
    }

    /// Nobody is configured: everybody is anonymous, whatever they send.
    pub fn is_open(&self) -> bool {
        self.users.is_empty()
            && self.tokens.is_empty()
            && !(self.takes_signed || self.calls_out || self.takes_certificates)
    }

    /// Decides what needs neither a password hash, nor a signature, nor another server. A pass code without a login is taken for a token, and
    /// so is one with a login if it has the form of a signed token: many clients have fields for these two alone.
    pub fn check(&self, credentials: Credentials) -> Check {
        if self.is_open() && self.anonymous == AnonymousAccess::Accepted {
            return Check::Decided(Ok(Principal::anonymous()));
        }
        let token = match (&credentials.token, &credentials.login, &credentials.passcode) {
            (Some(token), _, _) => token,
            (None, Some(_), Some(token)) if self.takes_signed && looks_signed(token) => {
                return Check::NeedsKey(credentials);
            }
            (None, Some(login), _) if self.calls_out && !self.by_name.contains_key(&**login) => {
                return Check::NeedsCallout(credentials);
            }
            (None, Some(_), _) if self.users.is_empty() => {
                return Check::Decided(Err(LoginError::Refused));
            }
            (None, Some(_), _) => return Check::NeedsHash(credentials),
            (None, None, Some(token)) => token,
            (None, None, None) => {
                return Check::Decided(match self.anonymous {
                    AnonymousAccess::Accepted => Ok(Principal::anonymous()),
                    AnonymousAccess::Refused => Err(LoginError::CredentialsNeeded),
                });
            }
        };
        match self.verify_token(token) {
            Err(_) if self.takes_signed && looks_signed(token) => {
                // Beside a token the name is not asked for, as with other tokens.
                Check::NeedsKey(Credentials { login: None, ..credentials })
            }
            Err(_) if self.calls_out => {
                Check::NeedsCallout(Credentials { login: None, ..credentials })
            }
            result => Check::Decided(result),
        }
    }

    /// Verifies a name and password. Takes as long as hashing takes: for the worker, never for a shard.
    pub(crate) fn verify_password(
        &self,
        login: &str,
        password: &str,
    ) -> Result<Principal, LoginError> {
        let Some(known) = self.user(login) else {
            self.spend_the_time_of_a_hash(login, password);
            return Err(LoginError::Refused);
        };
        match known.hash.matches(password) {
            true => Ok(known.principal.clone()),
            false => Err(LoginError::Refused),
        }
    }

    /// Some configured hash, always the same one for a name, so that its parameters look like a user's.
    fn spend_the_time_of_a_hash(&self, login: &str, password: &str) {
        let choice = self.decoy.hash_one(login) % (self.users.len().max(1) as u64);
        if let Some(user) = usize::try_from(choice).ok().and_then(|index| self.users.get(index)) {
            std::hint::black_box(user.hash.matches(password));
        }
    }

    /// Compares with every token, so that the time tells nothing.
    fn verify_token(&self, token: &str) -> Result<Principal, LoginError> {
        let digest = TokenDigest::of(token);
        let mut found = None;
        for candidate in &self.tokens {
            // Of equal ones the first counts: what stands in the file goes before what was put.
            if candidate.digest.is_equal(&digest) && found.is_none() {
                found = Some(&candidate.principal);
            }
        }
        let found = found.ok_or(LoginError::Refused)?;
        match found.valid_until() {
            Some(until) if until <= unix_time() => Err(LoginError::Expired),
            _ => Ok(found.clone()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    /// Bob with the password "swordfish" and a token "0123456789abcdef" for the principal "feed".
    pub(crate) fn verifier(anonymous: AnonymousAccess) -> Verifier {
        let user = UserRecord {
            name: "bob".to_owned(),
            password: PasswordRecord::Plain("swordfish".to_owned()),
            groups: vec!["traders".to_owned()],
            host: Some("shop".to_owned()),
        };
        let token = TokenRecord {
            name: "t".to_owned(),
            secret: TokenSecret::Plain("0123456789abcdef".to_owned()),
            principal: "feed".to_owned(),
            groups: Vec::new(),
            host: None,
            until: None,
        };
        Verifier::new([user], [token], anonymous).unwrap()
    }

    pub(crate) fn login(login: &str, passcode: &str) -> Credentials {
        Credentials {
            login: Some(login.to_owned()),
            passcode: Some(passcode.to_owned()),
            ..Credentials::default()
        }
    }

    fn decided(check: Check) -> Result<String, LoginError> {
        match check {
            Check::Decided(result) => result.map(|principal| principal.to_string()),
            Check::NeedsHash(_) | Check::NeedsKey(_) | Check::NeedsCallout(_) => {
                Ok("needs the worker".to_owned())
            }
        }
    }

    fn token(token: &str) -> Credentials {
        Credentials { token: Some(token.to_owned()), ..Credentials::default() }
    }

    #[test]
    fn what_needs_no_hash_is_decided_at_once() {
        let verifier = verifier(AnonymousAccess::Refused);
        assert_eq!(decided(verifier.check(token("0123456789abcdef"))), Ok("feed".to_owned()));
        assert_eq!(decided(verifier.check(token("0123456789abcdeF"))), Err(LoginError::Refused));
        assert_eq!(
            decided(verifier.check(Credentials::default())),
            Err(LoginError::CredentialsNeeded)
        );
        let passcode_only =
            Credentials { passcode: Some("0123456789abcdef".to_owned()), ..Credentials::default() };
        assert_eq!(decided(verifier.check(passcode_only)), Ok("feed".to_owned()));
        assert_eq!(decided(verifier.check(login("bob", "x"))), Ok("needs the worker".to_owned()));
        let both = Credentials { token: Some("wrong".to_owned()), ..login("bob", "swordfish") };
        assert_eq!(
            decided(verifier.check(both)),
            Err(LoginError::Refused),
            "a wrong token is not made good"
        );
    }

    #[test]
    fn anonymous_clients_need_permission() {
        let accepting = verifier(AnonymousAccess::Accepted);
        assert_eq!(decided(accepting.check(Credentials::default())), Ok("anonymous".to_owned()));
        assert_eq!(decided(accepting.check(token("wrong"))), Err(LoginError::Refused));
        assert!(!accepting.is_open());

        let open = Verifier::new([], [], AnonymousAccess::Accepted).unwrap();
        assert!(open.is_open());
        assert_eq!(decided(open.check(login("guest", "guest"))), Ok("anonymous".to_owned()));

        let shut = Verifier::new([], [], AnonymousAccess::Refused).unwrap();
        assert_eq!(decided(shut.check(login("guest", "guest"))), Err(LoginError::Refused));
    }

    #[test]
    fn passwords_are_verified() {
        let verifier = verifier(AnonymousAccess::Refused);
        let bob = verifier.verify_password("bob", "swordfish").unwrap();
        assert_eq!(Some(&bob), verifier.principals().next());
        let name = bob.name().map(|name| &**name);
        assert_eq!((name, bob.host().map(|host| &**host)), (Some("bob"), Some("shop")));
        for (login, password) in [("bob", "Swordfish"), ("bob", ""), ("eve", "swordfish"), ("", "")]
        {
            assert_eq!(
                verifier.verify_password(login, password),
                Err(LoginError::Refused),
                "{login}"
            );
        }
    }

    #[test]
    fn unusable_records_are_refused() {
        let user = UserRecord {
            name: "bob".to_owned(),
            password: PasswordRecord::Hash("$argon2id$nonsense".to_owned()),
            groups: Vec::new(),
            host: None,
        };
        let error = Verifier::new([user], [], AnonymousAccess::Refused).unwrap_err();
        assert!(error.to_string().starts_with("user `bob`: the "), "{error}");
        let token = TokenRecord {
            name: "t".to_owned(),
            secret: TokenSecret::Plain("short".to_owned()),
            principal: "t".to_owned(),
            groups: Vec::new(),
            host: None,
            until: None,
        };
        let error = Verifier::new([], [token], AnonymousAccess::Refused).unwrap_err();
        assert_eq!(error, RecordError::TokenTooShort { name: "t".to_owned() });
    }

    #[test]
    fn who_is_known_still_is_known_by_the_same_number_without_being_hashed_again() {
        let user = |name: &str, password: &str, host: Option<&str>| UserRecord {
            name: name.to_owned(),
            password: PasswordRecord::Plain(password.to_owned()),
            groups: Vec::new(),
            host: host.map(str::to_owned),
        };
        let first =
            [user("ann", "one", None), user("bob", "two", None), user("eve", "x", Some("*"))];
        let first = Verifier::new(first, [], AnonymousAccess::Refused).unwrap();
        let next = [user("ann", "one", None), user("bob", "three", None), user("eve", "x", None)];
        let next = first.next(next, [], AnonymousAccess::Refused).unwrap();
        let marks = |of: &Verifier| -> Vec<_> {
            of.principals().map(|principal| principal.credential().unwrap()).collect()
        };
        let same: Vec<bool> =
            marks(&first).iter().zip(marks(&next)).map(|(one, other)| *one == other).collect();
        assert_eq!(same, [true, false, false]);
        assert!(next.verify_password("ann", "one").is_ok());
        assert!(next.verify_password("bob", "three").is_ok());
        assert!(next.verify_password("bob", "two").is_err());
    }

    #[test]
    fn debug_shows_no_secret() {
        let plain = PasswordRecord::Plain("swordfish".to_owned());
        let secret = TokenSecret::Plain("0123456789abcdef".to_owned());
        let shown = format!("{plain:?} {secret:?} {:?}", verifier(AnonymousAccess::Refused));
        assert!(!shown.contains("swordfish") && !shown.contains("0123456789"), "{shown}");
    }
}
