//! Addresses of copies and the caches by which they are said shortly, RFC 3284, section 5.3.
//!
//! Relies on nothing. Invariant: both sides update their caches with each address, so they agree.

use super::integer;
use super::table::FIRST_SAME;
use crate::DeltaError;

/// What is remembered of the addresses of a window.
#[derive(Debug)]
pub(super) struct Addresses {
    near: [usize; NEAR],
    next: usize,
    /// Made when the first address is remembered by a reader; a writer never looks there.
    same: Option<Box<[usize; SAME]>>,
}

impl Addresses {
    pub(super) fn new() -> Addresses {
        Addresses { near: [0; NEAR], next: 0, same: None }
    }

    /// The shortest way to say an address in front of `here`: its mode and number. The modes of the
    /// cache of same addresses are left out: they pay where the very same stretch comes often.
    #[inline]
    pub(super) fn shortest(&mut self, address: usize, here: usize) -> (u8, usize) {
        let mut best = (SELF, address);
        if here - address < best.1 {
            best = (HERE, here - address);
        }
        for (mode, near) in (FIRST_NEAR..).zip(self.near) {
            if let Some(distance) = address.checked_sub(near)
                && distance < best.1
            {
                best = (mode, distance);
            }
        }
        self.note_near(address);
        best
    }

    /// Takes an address of that mode from the front of the address section.
    #[inline]
    pub(super) fn read(
        &mut self,
        mode: u8,
        here: usize,
        bytes: &mut &[u8],
    ) -> Result<usize, DeltaError> {
        let address = if mode >= FIRST_SAME {
            let (byte, rest) = bytes.split_first().ok_or(DeltaError::Cut)?;
            *bytes = rest;
            let place = usize::from(mode - FIRST_SAME) * 256 + usize::from(*byte);
            self.same.as_ref().and_then(|same| same.get(place)).copied().unwrap_or_default()
        } else {
            let number = integer::read(bytes).ok_or(DeltaError::Cut)?;
            match mode {
                SELF => number,
                HERE => here.checked_sub(number).ok_or(DeltaError::OutOfRange)?,
                _ => {
                    let near = self.near.get(usize::from(mode - FIRST_NEAR));
                    near.and_then(|near| near.checked_add(number)).ok_or(DeltaError::OutOfRange)?
                }
            }
        };
        if address >= here {
            return Err(DeltaError::OutOfRange);
        }
        self.note_near(address);
        let same = self.same.get_or_insert_with(|| Box::new([0; SAME]));
        if let Some(place) = same.get_mut(address % SAME) {
            *place = address;
        }
        Ok(address)
    }

    #[inline]
    fn note_near(&mut self, address: usize) {
        if let Some(place) = self.near.get_mut(self.next) {
            *place = address;
        }
        self.next = (self.next + 1) % NEAR;
    }
}

const SELF: u8 = 0;
const HERE: u8 = 1;
const FIRST_NEAR: u8 = 2;
const NEAR: usize = 4;
const SAME: usize = 3 * 256;
