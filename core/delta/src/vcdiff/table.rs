//! The default code table, RFC 3284, section 5.6: what each byte of an instruction section means.
//!
//! Relies on nothing. Invariant: the table is made from the standard's rules when compiling, and what
//! the encoder writes is looked for in the same rules.

/// One instruction; a length of 0 says that the length follows, except for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    None,
    /// So many bytes of the data section.
    Add(u8),
    /// One byte of the data section, repeated.
    Run,
    /// So many bytes of what is known, at an address of that mode.
    Copy(u8, u8),
}

use Instruction as Do;

/// What a code stands for: one instruction after the other.
pub(super) static TABLE: [(Instruction, Instruction); 256] = build();

#[allow(clippy::indexing_slicing, reason = "evaluated when compiling")]
const fn build() -> [(Instruction, Instruction); 256] {
    let mut table = [(Do::None, Do::None); 256];
    table[0] = (Do::Run, Do::None);
    let mut code = 1;
    let mut size = 0;
    while size <= ADD_MAX {
        table[code] = (Do::Add(size), Do::None);
        code += 1;
        size += 1;
    }
    let mut mode = 0;
    while mode < MODES {
        table[code] = (Do::Copy(0, mode), Do::None);
        code += 1;
        let mut size = COPY_MIN;
        while size <= COPY_MAX {
            table[code] = (Do::Copy(size, mode), Do::None);
            code += 1;
            size += 1;
        }
        mode += 1;
    }
    let mut mode = 0;
    while mode < MODES {
        let most = if mode < FIRST_SAME { PAIR_COPY_MAX } else { COPY_MIN };
        let mut add = 1;
        while add <= PAIR_ADD_MAX {
            let mut size = COPY_MIN;
            while size <= most {
                table[code] = (Do::Add(add), Do::Copy(size, mode));
                code += 1;
                size += 1;
            }
            add += 1;
        }
        mode += 1;
    }
    let mut mode = 0;
    while mode < MODES {
        table[code] = (Do::Copy(COPY_MIN, mode), Do::Add(1));
        code += 1;
        mode += 1;
    }
    assert!(code == 256);
    table
}

/// The code of an addition, and whether its length follows.
#[inline]
pub(super) fn add(len: usize) -> (u8, bool) {
    if len <= ADD_MAX as usize { (1 + len as u8, len == 0) } else { (1, true) }
}

/// The code of a copy, and whether its length follows.
#[inline]
pub(super) fn copy(len: usize, mode: u8) -> (u8, bool) {
    let first = FIRST_COPY + mode * (COPY_MAX - COPY_MIN + 2);
    match (COPY_MIN as usize..=COPY_MAX as usize).contains(&len) {
        true => (first + 1 + (len as u8 - COPY_MIN), false),
        false => (first, true),
    }
}

/// The code of a short addition and a short copy after it, if there is one.
#[inline]
pub(super) fn add_and_copy(add: usize, len: usize, mode: u8) -> Option<u8> {
    let fits = (1..=PAIR_ADD_MAX as usize).contains(&add)
        && (COPY_MIN as usize..=PAIR_COPY_MAX as usize).contains(&len)
        && mode < FIRST_SAME;
    fits.then(|| FIRST_PAIR + mode * 12 + (add as u8 - 1) * 3 + (len as u8 - COPY_MIN))
}

/// Ways to say an address.
pub(super) const MODES: u8 = 9;
/// The first of those that look into the cache of same addresses.
pub(super) const FIRST_SAME: u8 = 6;
const ADD_MAX: u8 = 17;
const COPY_MIN: u8 = 4;
const COPY_MAX: u8 = 18;
const PAIR_ADD_MAX: u8 = 4;
const PAIR_COPY_MAX: u8 = 6;
const FIRST_COPY: u8 = 2 + ADD_MAX;
const FIRST_PAIR: u8 = FIRST_COPY + MODES * (COPY_MAX - COPY_MIN + 2);

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_table_is_the_standards() {
        // The rows at the borders of section 5.6's groups.
        for (code, row) in [
            (0, (Do::Run, Do::None)),
            (1, (Do::Add(0), Do::None)),
            (18, (Do::Add(17), Do::None)),
            (19, (Do::Copy(0, 0), Do::None)),
            (20, (Do::Copy(4, 0), Do::None)),
            (34, (Do::Copy(18, 0), Do::None)),
            (35, (Do::Copy(0, 1), Do::None)),
            (147, (Do::Copy(0, 8), Do::None)),
            (162, (Do::Copy(18, 8), Do::None)),
            (163, (Do::Add(1), Do::Copy(4, 0))),
            (174, (Do::Add(4), Do::Copy(6, 0))),
            (175, (Do::Add(1), Do::Copy(4, 1))),
            (234, (Do::Add(4), Do::Copy(6, 5))),
            (235, (Do::Add(1), Do::Copy(4, 6))),
            (246, (Do::Add(4), Do::Copy(4, 8))),
            (247, (Do::Copy(4, 0), Do::Add(1))),
            (255, (Do::Copy(4, 8), Do::Add(1))),
        ] {
            assert_eq!(TABLE[code], row, "{code}");
        }
    }

    #[test]
    fn what_is_written_means_what_was_meant() {
        for len in 0..40 {
            let (code, follows) = add(len);
            assert_eq!(
                TABLE[usize::from(code)],
                (Do::Add(if follows { 0 } else { len as u8 }), Do::None)
            );
            for mode in 0..MODES {
                let (code, follows) = copy(len, mode);
                let size = if follows { 0 } else { len as u8 };
                assert_eq!(TABLE[usize::from(code)], (Do::Copy(size, mode), Do::None));
                for added in 0..8 {
                    if let Some(code) = add_and_copy(added, len, mode) {
                        let row = (Do::Add(added as u8), Do::Copy(len as u8, mode));
                        assert_eq!(TABLE[usize::from(code)], row);
                    }
                }
            }
        }
    }
}
