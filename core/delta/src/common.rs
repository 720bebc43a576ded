//! Stretches that are the same in two values, eight bytes at a time.
//!
//! Relies on nothing. Invariant: time linear in the stretch that is found.

/// Where both values run together again.
pub(crate) struct Found {
    /// In the new value.
    pub(crate) at: usize,
    /// In the old value.
    pub(crate) source: usize,
    pub(crate) len: usize,
}

/// How many bytes both values begin and end with; the ends do not overlap in either.
pub(crate) fn common_ends(old: &[u8], new: &[u8]) -> (usize, usize) {
    let prefix = common_prefix(old, new);
    let most = old.len().min(new.len()) - prefix;
    (prefix, common_suffix(old, new, most))
}

#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes| <[u8]>::get(bytes, whole..).unwrap_or_default().iter();
    whole + rest(a).zip(rest(b)).take_while(|(a, b)| a == b).count()
}

/// At most `most` bytes, which both have.
#[inline]
pub(crate) fn common_suffix(a: &[u8], b: &[u8], most: usize) -> usize {
    let tail = |bytes: &[u8]| bytes.len() - most;
    let (a, b) = (a.get(tail(a)..).unwrap_or_default(), b.get(tail(b)..).unwrap_or_default());
    let words = a.as_rchunks::<8>().1.iter().rev().zip(b.as_rchunks::<8>().1.iter().rev());
    let whole = words.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes: &'_ [u8]| bytes.len() - whole;
    let rests = (a.get(..rest(a)).unwrap_or_default(), b.get(..rest(b)).unwrap_or_default());
    whole + rests.0.iter().rev().zip(rests.1.iter().rev()).take_while(|(a, b)| a == b).count()
}
