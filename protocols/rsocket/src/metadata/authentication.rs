//! Authentication metadata: who asks.
//!
//! Relies on slices. Invariant: passwords and tokens are shown by no debug output.

use std::fmt;

use super::MetadataError;
use super::mime::{ascii, write_name};

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// By name and password.
    Simple {
        /// At most 65,535 bytes.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
    /// By a token.
    Bearer(&'a str),
    /// By a well-known means that is not known here: its number, of 7 bits, and what it says.
    Numbered(u8, &'a [u8]),
    /// By a means of this name, of 1 to 128 ASCII bytes, and what it says.
    Named(&'a str, &'a [u8]),
}

const SIMPLE: u8 = 0x00;
const BEARER: u8 = 0x01;

impl<'a> Authentication<'a> {
    /// Reads it from a stretch of metadata.
    ///
    /// # Errors
    /// When it is cut off or not text.
    pub fn read(bytes: &'a [u8]) -> Result<Authentication<'a>, MetadataError> {
        let cut = MetadataError::Cut("the authentication type");
        let (first, rest) = bytes.split_first().ok_or(cut)?;
        if first & 0x80 != 0 {
            return match first & 0x7f {
                SIMPLE => simple(rest),
                BEARER => bearer(rest),
                other => Ok(Authentication::Numbered(other, rest)),
            };
        }
        // One less is said than there are, as for MIME types.
        let (name, rest) = rest.split_at_checked(usize::from(*first) + 1).ok_or(cut)?;
        match ascii(name).map_err(|_| MetadataError::BadText("the authentication type"))? {
            "simple" => simple(rest),
            "bearer" => bearer(rest),
            other => Ok(Authentication::Named(other, rest)),
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Authentication::Simple { user, password } => {
                let len = user.len();
                assert!(len <= 65_535, "a user's name has at most 65,535 bytes, not {len}");
                out.push(SIMPLE | 0x80);
                out.extend_from_slice(&(len as u16).to_be_bytes());
                out.extend_from_slice(user.as_bytes());
                out.extend_from_slice(password.as_bytes());
            }
            Authentication::Bearer(token) => {
                out.push(BEARER | 0x80);
                out.extend_from_slice(token.as_bytes());
            }
            Authentication::Numbered(number, bytes) => {
                out.push(number | 0x80);
                out.extend_from_slice(bytes);
            }
            Authentication::Named(name, bytes) => {
                write_name(name, out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn simple(bytes: &[u8]) -> Result<Authentication<'_>, MetadataError> {
    let cut = MetadataError::Cut("the user's name");
    let (len, rest) = bytes.split_first_chunk::<2>().ok_or(cut)?;
    let len = usize::from(u16::from_be_bytes(*len));
    let (user, password) = rest.split_at_checked(len).ok_or(cut)?;
    Ok(Authentication::Simple {
        user: text(user, "the user's name")?,
        password: text(password, "the password")?,
    })
}

fn bearer(bytes: &[u8]) -> Result<Authentication<'_>, MetadataError> {
    text(bytes, "the bearer token").map(Authentication::Bearer)
}

fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, MetadataError> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| MetadataError::BadText(what))
}

impl fmt::Debug for Authentication<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Authentication::Simple { user, .. } => {
                f.debug_struct("Simple").field("user", user).finish_non_exhaustive()
            }
            Authentication::Bearer(_) => f.write_str("Bearer(..)"),
            Authentication::Numbered(number, _) => write!(f, "Numbered({number}, ..)"),
            Authentication::Named(name, _) => write!(f, "Named({name:?}, ..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Authentication<'static>; 5] = [
        Authentication::Simple { user: "ann", password: "sesame" },
        Authentication::Simple { user: "", password: "" },
        Authentication::Bearer("abc.def"),
        Authentication::Numbered(0x40, b"xyz"),
        Authentication::Named("kerberos", b"\xff"),
    ];

    #[test]
    fn it_is_read_as_it_was_written() {
        for authentication in ALL {
            let mut bytes = Vec::new();
            authentication.write(&mut bytes);
            assert_eq!(Authentication::read(&bytes), Ok(authentication));
        }
        assert_eq!(
            Authentication::read(b"\x05simple\0\x03annsesame"),
            Ok(ALL[0]),
            "well-known types may be named"
        );
        assert_eq!(Authentication::read(b"\x05bearerabc.def"), Ok(ALL[2]));
    }

    #[test]
    fn what_is_cut_off_or_no_text_is_refused() {
        for bytes in [&b""[..], b"\x80", b"\x80\0", b"\x80\0\x04ann", b"\x05simpl", b"\0"] {
            assert!(matches!(Authentication::read(bytes), Err(MetadataError::Cut(_))), "{bytes:?}");
        }
        for bytes in [&b"\x80\0\x01\xff"[..], b"\x80\0\0\xff", b"\x81\xff", b"\0\xff"] {
            let read = Authentication::read(bytes);
            assert!(matches!(read, Err(MetadataError::BadText(_))), "{bytes:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for authentication in ALL {
            let shown = format!("{authentication:?}");
            assert!(!shown.contains("sesame") && !shown.contains("abc") && !shown.contains("xyz"));
        }
    }
}
