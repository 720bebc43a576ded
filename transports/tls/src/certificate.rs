//! What people want to know of a certificate: for how long it holds and whom it names.
//!
//! A walk over DER (X.690) along the one path that leads there (RFC 5280 section 4.1): every step says
//! how long it is, and a length that goes beyond what is there ends the walk. Nothing here decides
//! whether a certificate is trusted; that is rustls' business.

/// Facts from a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Seconds since 1970 before which it does not hold.
    pub not_before: i64,
    /// Seconds since 1970 after which it does not hold any more.
    pub not_after: i64,
    /// The last common name of its subject, if it has one that is readable.
    pub common_name: Option<String>,
    /// Its alternative names of the kinds that name people and programs, in its order.
    pub alternative_names: Vec<AlternativeName>,
}

/// A name beside the subject (RFC 5280 section 4.2.1.6), in printable ASCII without spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// Of a host.
    Dns(String),
    /// An address of mail.
    Email(String),
    /// An address of anything, such as `spiffe://example.org/feed`.
    Uri(String),
}

impl Certificate {
    /// Reads a certificate in DER; nothing if it is none.
    pub fn read(der: &[u8]) -> Option<Certificate> {
        let mut outer = Reader(der);
        let mut certificate = Reader(outer.value(SEQUENCE)?);
        let mut fields = Reader(certificate.value(SEQUENCE)?);
        if fields.peek() == Some(VERSION) {
            fields.value(VERSION)?;
        }
        fields.value(INTEGER)?;
        fields.value(SEQUENCE)?; // signature's algorithm
        fields.value(SEQUENCE)?; // issuer
        let mut validity = Reader(fields.value(SEQUENCE)?);
        let not_before = validity.time()?;
        let not_after = validity.time()?;
        let common_name = common_name(fields.value(SEQUENCE)?);
        fields.value(SEQUENCE)?; // public key
        let alternative_names = fields.extensions().and_then(alternative_names).unwrap_or_default();
        Some(Certificate { not_before, not_after, common_name, alternative_names })
    }
}

/// The alternative names among extensions, if there are some that can be read.
fn alternative_names(extensions: &[u8]) -> Option<Vec<AlternativeName>> {
    let mut extensions = Reader(extensions);
    let value = loop {
        let mut extension = Reader(extensions.value(SEQUENCE)?);
        if extension.value(OBJECT_IDENTIFIER)? == SUBJECT_ALTERNATIVE_NAME {
            if extension.peek() == Some(BOOLEAN) {
                extension.value(BOOLEAN)?;
            }
            break extension.value(OCTET_STRING)?;
        }
    };
    let mut names = Reader(Reader(value).value(SEQUENCE)?);
    let mut found = Vec::new();
    while let Some((tag, value)) = names.any() {
        let text = std::str::from_utf8(value)
            .ok()
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
        let Some(text) = text.map(str::to_owned) else { continue };
        match tag {
            RFC822_NAME => found.push(AlternativeName::Email(text)),
            DNS_NAME => found.push(AlternativeName::Dns(text)),
            UNIFORM_RESOURCE_IDENTIFIER => found.push(AlternativeName::Uri(text)),
            _ => {}
        }
    }
    Some(found)
}

/// The last common name among the attributes of a name.
fn common_name(name: &[u8]) -> Option<String> {
    let mut sets = Reader(name);
    let mut found = None;
    while let Some(set) = sets.value(SET) {
        let mut attributes = Reader(set);
        while let Some(attribute) = attributes.value(SEQUENCE) {
            let mut attribute = Reader(attribute);
            if attribute.value(OBJECT_IDENTIFIER)? == COMMON_NAME {
                let (tag, value) = attribute.any()?;
                found = match tag {
                    UTF8_STRING | PRINTABLE_STRING | IA5_STRING => {
                        std::str::from_utf8(value).ok().map(str::to_owned)
                    }
                    _ => None,
                };
            }
        }
    }
    found.filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
}

/// A place in DER.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value, of whatever type.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first & 0x7F);
        if first & 0x80 != 0 {
            // Certificates stay below 16 MiB, and DER has no lengths without an end.
            if !(1..=3).contains(&length) {
                return None;
            }
            let (bytes, behind) = rest.split_at_checked(length)?;
            length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            rest = behind;
        }
        let (value, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((tag, value))
    }

    /// The next value, if it is of that type.
    fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek() != Some(tag) {
            return None;
        }
        self.any().map(|(_, value)| value)
    }

    /// The extensions, which may come behind identifiers that nobody uses.
    fn extensions(&mut self) -> Option<&'a [u8]> {
        while let Some((tag, value)) = self.any() {
            if tag == EXTENSIONS {
                return Reader(value).value(SEQUENCE);
            }
        }
        None
    }

    /// The next value as a moment, in seconds since 1970.
    fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.any()?;
        let number = |from: usize, len: usize| {
            let digits = text.get(from..from + len)?;
            digits.iter().try_fold(0i64, |sum, digit| {
                digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
            })
        };
        let (year, at) = match tag {
            UTC_TIME => {
                let year = number(0, 2)?;
                // RFC 5280 section 4.1.2.5.1.
                (if year < 50 { 2000 + year } else { 1900 + year }, 2)
            }
            GENERALIZED_TIME => (number(0, 4)?, 4),
            _ => return None,
        };
        let (month, day) = (number(at, 2)?, number(at + 2, 2)?);
        let (hour, minute, second) = (number(at + 4, 2)?, number(at + 6, 2)?, number(at + 8, 2)?);
        if text.get(at + 10..) != Some(b"Z") || !(1..=12).contains(&month) {
            return None;
        }
        Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. The year is taken to begin in March, so that
/// the leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + in_year
        - 719_468
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0C;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The explicit tag of the version.
const VERSION: u8 = 0xA0;
/// The explicit tag of the extensions.
const EXTENSIONS: u8 = 0xA3;
/// Context tags of the kinds of alternative names.
const RFC822_NAME: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
const UNIFORM_RESOURCE_IDENTIFIER: u8 = 0x86;
/// 2.5.29.17.
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1D, 0x11];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(name: &str) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut wanted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        wanted.distinguished_name.push(rcgen::DnType::CommonName, name);
        wanted.not_before = rcgen::date_time_ymd(2026, 2, 28);
        wanted.not_after = rcgen::date_time_ymd(2051, 3, 1);
        wanted.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_says_how_long_it_holds_and_for_whom() {
        let facts = Certificate::read(&made("Ada")).unwrap();
        // date -u -d 2026-02-28 +%s, and 2051-03-01, which is written with four digits of the year.
        assert_eq!((facts.not_before, facts.not_after), (1_772_236_800, 2_561_241_600));
        assert_eq!(facts.common_name.as_deref(), Some("Ada"));
        assert_eq!(Certificate::read(&made("a\nb")).unwrap().common_name, None);
    }

    #[test]
    fn alternative_names_are_read_in_their_order() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut wanted = rcgen::CertificateParams::new(["feed.example.org".to_owned()]).unwrap();
        let uri = rcgen::SanType::URI("spiffe://example.org/feed".try_into().unwrap());
        let mail = rcgen::SanType::Rfc822Name("ann@example.org".try_into().unwrap());
        let address = rcgen::SanType::IpAddress([127, 0, 0, 1].into());
        wanted.subject_alt_names.extend([address, uri, mail]);
        let facts = Certificate::read(wanted.self_signed(&key).unwrap().der()).unwrap();
        let names = [
            AlternativeName::Dns("feed.example.org".to_owned()),
            AlternativeName::Uri("spiffe://example.org/feed".to_owned()),
            AlternativeName::Email("ann@example.org".to_owned()),
        ];
        assert_eq!(facts.alternative_names, names);
        let plain = rcgen::CertificateParams::new(Vec::new()).unwrap();
        let facts = Certificate::read(plain.self_signed(&key).unwrap().der()).unwrap();
        assert_eq!(facts.alternative_names, []);
    }

    #[test]
    fn days_are_counted_as_calendars_do() {
        for (year, month, day, expected) in
            [(1970, 1, 1, 0), (1969, 12, 31, -1), (2000, 2, 29, 11_016), (2100, 3, 1, 47_541)]
        {
            assert_eq!(days(year, month, day), expected, "{year}-{month}-{day}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::read(&bytes);
        }

        #[test]
        fn no_change_of_a_certificate_brings_it_down(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
        ) {
            static MADE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let mut der = MADE.get_or_init(|| made("Ada")).clone();
            let at = at.index(der.len());
            der[at] = byte;
            let _ = Certificate::read(&der);
            let _ = Certificate::read(&der[..cut.index(der.len())]);
        }
    }
}
