//! Tracing metadata (Zipkin): what a request is part of.
//!
//! Relies on nothing. The server has no tracer of its own and hands on what it is given: as these
//! bytes to RSocket clients, and as the one-line form of B3 headers to everybody else. Invariant: what
//! is written is read back as it was, in both forms.

use super::MetadataError;

/// Whether a trace is to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Not decided.
    #[default]
    Undecided,
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It must be.
    Debug,
}

/// What a request is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracing {
    /// Whether it is to be recorded.
    pub sampling: Sampling,
    /// Which trace and span, if that is said.
    pub ids: Option<Ids>,
}

/// Which trace and span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The trace; the upper half is not there if it is short.
    pub trace: u128,
    /// Whether the trace's id has 128 bits on the wire.
    pub long: bool,
    /// The span.
    pub span: u64,
    /// The span it is part of.
    pub parent: Option<u64>,
}

const IDS: u8 = 0x80;
const DEBUG: u8 = 0x40;
const SAMPLE: u8 = 0x20;
const NOT_SAMPLED: u8 = 0x10;
const LONG: u8 = 0x08;
const PARENT: u8 = 0x04;

impl Tracing {
    /// Reads it from a stretch of metadata.
    ///
    /// # Errors
    /// When it is cut off.
    pub fn read(bytes: &[u8]) -> Result<Tracing, MetadataError> {
        let mut rest = bytes;
        let [flags] = chunk(&mut rest)?;
        let sampling = match flags {
            flags if flags & DEBUG != 0 => Sampling::Debug,
            flags if flags & SAMPLE != 0 => Sampling::Yes,
            flags if flags & NOT_SAMPLED != 0 => Sampling::No,
            _ => Sampling::Undecided,
        };
        if flags & IDS == 0 {
            return Ok(Tracing { sampling, ids: None });
        }
        let long = flags & LONG != 0;
        let trace = if long {
            u128::from_be_bytes(chunk(&mut rest)?)
        } else {
            u64::from_be_bytes(chunk(&mut rest)?).into()
        };
        let span = u64::from_be_bytes(chunk(&mut rest)?);
        let parent = match flags & PARENT {
            0 => None,
            _ => Some(u64::from_be_bytes(chunk(&mut rest)?)),
        };
        Ok(Tracing { sampling, ids: Some(Ids { trace, long, span, parent }) })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let sampling = match self.sampling {
            Sampling::Undecided => 0,
            Sampling::No => NOT_SAMPLED,
            Sampling::Yes => SAMPLE,
            Sampling::Debug => DEBUG,
        };
        let Some(ids) = &self.ids else { return out.push(sampling) };
        let long = if ids.long { LONG } else { 0 };
        let parent = if ids.parent.is_some() { PARENT } else { 0 };
        out.push(IDS | sampling | long | parent);
        if ids.long {
            out.extend_from_slice(&ids.trace.to_be_bytes());
        } else {
            out.extend_from_slice(&(ids.trace as u64).to_be_bytes());
        }
        out.extend_from_slice(&ids.span.to_be_bytes());
        if let Some(parent) = ids.parent {
            out.extend_from_slice(&parent.to_be_bytes());
        }
    }

    /// As the one header `b3`: `trace-span-sampling-parent`, or the sampling alone; empty if there is
    /// nothing to say.
    pub fn to_b3(&self) -> String {
        let sampling = match self.sampling {
            Sampling::Undecided => "",
            Sampling::No => "0",
            Sampling::Yes => "1",
            Sampling::Debug => "d",
        };
        let Some(ids) = &self.ids else { return sampling.to_owned() };
        let mut text = match ids.long {
            true => format!("{:032x}-{:016x}", ids.trace, ids.span),
            false => format!("{:016x}-{:016x}", ids.trace as u64, ids.span),
        };
        // A parent stands behind a decision, so one that is missing there cannot be told.
        if !sampling.is_empty() {
            text.push('-');
            text.push_str(sampling);
            if let Some(parent) = ids.parent {
                text.push_str(&format!("-{parent:016x}"));
            }
        }
        text
    }

    /// Reads the one header `b3`; none if it is not one.
    pub fn from_b3(text: &str) -> Option<Tracing> {
        let mut parts = text.split('-');
        let first = parts.next()?;
        if let Some(sampling) = decision(first) {
            return parts.next().is_none().then_some(Tracing { sampling, ids: None });
        }
        let long = first.len() == 32;
        let trace = hexadecimal(first, if long { 32 } else { 16 })?;
        let span = hexadecimal(parts.next()?, 16)? as u64;
        let sampling = parts.next().map_or(Some(Sampling::Undecided), decision)?;
        let parent = match parts.next() {
            Some(text) => Some(hexadecimal(text, 16)? as u64),
            None => None,
        };
        let ids = Some(Ids { trace, long, span, parent });
        parts.next().is_none().then_some(Tracing { sampling, ids })
    }
}

fn chunk<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], MetadataError> {
    let cut = MetadataError::Cut("the tracing ids");
    let (chunk, rest) = bytes.split_first_chunk::<N>().ok_or(cut)?;
    *bytes = rest;
    Ok(*chunk)
}

fn decision(text: &str) -> Option<Sampling> {
    match text {
        "0" => Some(Sampling::No),
        "1" => Some(Sampling::Yes),
        "d" => Some(Sampling::Debug),
        _ => None,
    }
}

fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let all = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all { u128::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_tracing() -> impl Strategy<Value = Tracing> {
        let sampling = prop_oneof![
            Just(Sampling::Undecided),
            Just(Sampling::No),
            Just(Sampling::Yes),
            Just(Sampling::Debug)
        ];
        let ids = (any::<u128>(), any::<bool>(), any::<u64>(), any::<Option<u64>>()).prop_map(
            |(trace, long, span, parent)| {
                let trace = if long { trace } else { trace as u64 as u128 };
                Ids { trace, long, span, parent }
            },
        );
        (sampling, proptest::option::of(ids)).prop_map(|(sampling, ids)| Tracing { sampling, ids })
    }

    proptest! {
        #[test]
        fn both_forms_say_the_same(tracing in any_tracing()) {
            let mut bytes = Vec::new();
            tracing.write(&mut bytes);
            prop_assert_eq!(Tracing::read(&bytes), Ok(tracing));
            for cut in 0..bytes.len() {
                prop_assert!(Tracing::read(&bytes[..cut]).is_err());
            }
            let text = tracing.to_b3();
            if tracing.sampling != Sampling::Undecided {
                prop_assert_eq!(Tracing::from_b3(&text), Some(tracing));
            } else if let Some(ids) = tracing.ids {
                let ids = Some(Ids { parent: None, ..ids });
                prop_assert_eq!(Tracing::from_b3(&text), Some(Tracing { ids, ..tracing }));
            } else {
                prop_assert_eq!(text, "");
            }
        }
    }

    #[test]
    fn the_stronger_flag_holds() {
        assert_eq!(Tracing::read(&[0x70]).unwrap().sampling, Sampling::Debug);
        assert_eq!(Tracing::read(&[0x30]).unwrap().sampling, Sampling::Yes);
        assert_eq!(Tracing::read(&[0x13]).unwrap().sampling, Sampling::No);
    }

    #[test]
    fn what_is_no_b3_header_is_none() {
        for text in
            ["", "2", "1-1", "abc-def", "0000000000000001", "+000000000000001-0000000000000001"]
        {
            assert_eq!(Tracing::from_b3(text), None, "{text}");
        }
        let text = "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90";
        assert_eq!(Tracing::from_b3(text).unwrap().to_b3(), text);
    }
}
