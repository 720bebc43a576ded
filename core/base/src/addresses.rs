//! Addresses of servers that a client is told to go to when its own server has no place for it any more.
//!
//! Invariant: what is in an [`Addresses`] fits into a header, a field and a line of text as it is, in every
//! protocol: visible ASCII without quotes, commas and the like, few of them and short.

use std::sync::Arc;

use crate::limits::{ADDRESS_BYTES_MAX, ADDRESSES_MAX};

/// Where to go: at least one address, the best first, shared by all that are told the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Arc<Vec<Box<str>>>);

/// Why texts are no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressesError {
    /// There are more than [`ADDRESSES_MAX`].
    #[error("there are {0} addresses; at most {ADDRESSES_MAX} can be named")]
    TooMany(usize),
    /// One has more than [`ADDRESS_BYTES_MAX`] bytes.
    #[error("the address that begins with {0:?} is longer than {ADDRESS_BYTES_MAX} bytes")]
    TooLong(String),
    /// One is not of that form.
    #[error(
        "{0:?} is no address; write SCHEME://HOST and what follows, such as wss://b.example.org:7800/tiderace, without spaces, quotes and commas"
    )]
    Malformed(String),
}

impl Addresses {
    /// Addresses of these texts, or none if there are none.
    ///
    /// # Errors
    /// When there are too many, or one is no address.
    pub fn new<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Option<Addresses>, AddressesError> {
        let texts: Vec<Box<str>> = texts.into_iter().map(|it| it.as_ref().into()).collect();
        if texts.len() > ADDRESSES_MAX {
            return Err(AddressesError::TooMany(texts.len()));
        }
        texts.iter().try_for_each(|text| check(text))?;
        Ok((!texts.is_empty()).then(|| Addresses(Arc::new(texts))))
    }

    /// Each of them, the best first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The best.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", AsRef::as_ref)
    }
}

impl std::fmt::Display for Addresses {
    /// All, with commas between them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, address) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            f.write_str(address)?;
        }
        Ok(())
    }
}

fn check(text: &str) -> Result<(), AddressesError> {
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(AddressesError::TooLong(text.chars().take(40).collect()));
    }
    let is_usable = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\,;<>`".contains(&byte);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    };
    let is_address = text.bytes().all(is_usable)
        && text.split_once("://").is_some_and(|(scheme, rest)| {
            is_scheme(scheme) && rest.starts_with(|first: char| !"/?#:".contains(first))
        });
    if is_address { Ok(()) } else { Err(AddressesError::Malformed(text.to_owned())) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_with_commas_between_them() {
        let both = ["wss://b.example.org:7800/tiderace", "tcp://[::1]:1"];
        let addresses = Addresses::new(both).unwrap().unwrap();
        assert_eq!(addresses.to_string(), both.join(","));
        assert_eq!(addresses.iter().collect::<Vec<_>>(), both);
        assert_eq!(addresses.first(), both[0]);
        assert_eq!(Addresses::new([""; 0]), Ok(None));
    }

    #[test]
    fn what_would_break_a_header_is_no_address() {
        for wrong in [
            "",
            "b.example.org",
            "://b",
            "a://",
            "a:///b",
            "1a://b",
            "a://b c",
            "a://b,c",
            "a://b\r\nx:y",
            "a://\"b",
            "a://ä",
        ] {
            let refused = Addresses::new([wrong]);
            assert_eq!(refused, Err(AddressesError::Malformed(wrong.to_owned())), "{wrong:?}");
        }
        let long = format!("a://{}", "b".repeat(ADDRESS_BYTES_MAX - 4));
        assert!(Addresses::new([&long]).is_ok());
        let refused = Addresses::new([format!("{long}b")]).unwrap_err();
        assert!(matches!(refused, AddressesError::TooLong(_)));
        let refused = Addresses::new(vec!["a://b"; ADDRESSES_MAX + 1]).unwrap_err();
        assert_eq!(refused, AddressesError::TooMany(ADDRESSES_MAX + 1));
    }
}
