//! Looks at the frames of a connection before `h2` does and counts what floods are made of.
//!
//! `h2` bounds what it keeps, but answers pings and settings, and works for resets, as often as they
//! come. Here each kind has a rate. Relies on the length in every frame's header (RFC 9113 section 4.1);
//! whether frames make sense is left to `h2`. Invariant: one pass over the bytes, no allocation.

use tiderace_base::{RateLimiter, Span, Time};

use crate::PREFACE;
use crate::limits::Limits;

/// What a client sends too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// CONTINUATION frames, or bytes, of one header block.
    Continuations,
    /// Frames without a body that end nothing.
    EmptyFrames,
    /// Frames of other or unknown kinds.
    OtherFrames,
    /// Pings.
    Pings,
    /// Streams begun and reset.
    Resets,
    /// Settings.
    Settings,
    /// Tiny window updates.
    SmallUpdates,
    /// What `h2` itself counts: resets before they are accepted, small frames that pile up.
    Engine,
}

/// The names of the floods, in their order.
pub const FLOODS: [&str; 8] = [
    "continuations",
    "empty-frames",
    "other-frames",
    "pings",
    "resets",
    "settings",
    "small-updates",
    "engine",
];

impl Flood {
    /// Its name.
    pub fn name(self) -> &'static str {
        FLOODS.get(self as usize).copied().unwrap_or_default()
    }
}

/// How far [`Watch::scan`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Bytes that may be given to the engine.
    pub bytes: usize,
    /// Frames that end in them.
    pub frames: u32,
    /// Streams reset in them.
    pub resets: u32,
    /// What the frame behind them is too much of: the connection is to end when they have been taken.
    pub flood: Option<Flood>,
}

/// Follows the frames of one connection.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The frame's header as far as it has come, and the first bytes of its payload behind it.
    header: [u8; HEADER_BYTES + UPDATE_BYTES],
    have: u8,
    /// Bytes of the preface still to come.
    preface: u8,
    /// Whether the frame's header has been judged.
    is_known: bool,
    /// Bytes of the payload still to come.
    left: u32,
    /// CONTINUATION frames and bytes of the header block that is open.
    block: Option<(u32, u32)>,
    limiters: [RateLimiter; 6],
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            header: [0; HEADER_BYTES + UPDATE_BYTES],
            have: 0,
            preface: PREFACE.len() as u8,
            is_known: false,
            left: 0,
            block: None,
            limiters: [RateLimiter::default(); 6],
        }
    }
}

impl Watch {
    /// Looks at bytes that follow those of the last call and says how many the engine may be given now:
    /// at most a slice of so many frames, so that they can be taken out before the next.
    pub fn scan(&mut self, bytes: &[u8], now: Time, limits: &Limits) -> Scanned {
        let mut scanned = Scanned { bytes: 0, frames: 0, resets: 0, flood: None };
        match self.scan_frames(bytes, now, limits, &mut scanned) {
            Ok(at) => scanned.bytes = at,
            Err(flood) => scanned.flood = Some(flood),
        }
        scanned
    }

    /// Counts whole frames as it goes, and says how far it got.
    fn scan_frames(
        &mut self,
        bytes: &[u8],
        now: Time,
        limits: &Limits,
        scanned: &mut Scanned,
    ) -> Result<usize, Flood> {
        let mut at = bytes.len().min(usize::from(self.preface));
        self.preface -= at as u8;
        scanned.bytes = at;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if scanned.frames == SLICE_FRAMES || at >= SLICE_BYTES {
                break;
            }
            if !self.is_known {
                at += self.gather(rest, HEADER_BYTES);
                if usize::from(self.have) < HEADER_BYTES {
                    break;
                }
                let [a, b, c, ..] = self.header;
                self.left = u32::from_be_bytes([0, a, b, c]);
                self.is_known = true;
                if !self.is_update() {
                    scanned.resets += self.judge(now, limits)?;
                }
            } else if self.is_update() && usize::from(self.have) < HEADER_BYTES + UPDATE_BYTES {
                let count = self.gather(rest, HEADER_BYTES + UPDATE_BYTES);
                (at, self.left) = (at + count, self.left - count as u32);
                if usize::from(self.have) == HEADER_BYTES + UPDATE_BYTES {
                    self.judge(now, limits)?;
                }
            } else {
                let count = rest.len().min(self.left as usize);
                (at, self.left) = (at + count, self.left - count as u32);
            }
            if self.left == 0 {
                (self.have, self.is_known) = (0, false);
                scanned.frames += 1;
                scanned.bytes = at;
            }
        }
        Ok(at)
    }

    /// Whether a frame or header block has begun and is not whole.
    pub fn is_within(&self) -> bool {
        self.preface > 0 || self.have > 0 || self.block.is_some()
    }

    /// Whether the preface has not come whole.
    pub fn is_opening(&self) -> bool {
        self.preface > 0
    }

    fn gather(&mut self, rest: &[u8], until: usize) -> usize {
        let have = usize::from(self.have);
        let space = self.header.get_mut(have..until).unwrap_or_default();
        let count = space.len().min(rest.len());
        for (slot, byte) in space.iter_mut().zip(rest) {
            *slot = *byte;
        }
        self.have += count as u8;
        count
    }

    /// Whether it is a WINDOW_UPDATE of the only length it may have: its payload is looked at.
    fn is_update(&self) -> bool {
        let [a, b, c, kind, ..] = self.header;
        kind == WINDOW_UPDATE && [a, b, c] == [0, 0, UPDATE_BYTES as u8]
    }

    /// Counts the frame; the streams it resets.
    fn judge(&mut self, now: Time, limits: &Limits) -> Result<u32, Flood> {
        let [.., kind, flags, _, _, _, _, w, x, y, z] = self.header;
        let ends_headers = flags & END_HEADERS != 0;
        match kind {
            HEADERS | CONTINUATION => {
                let (frames, bytes) = self.block.unwrap_or_default();
                let frames = frames + u32::from(kind == CONTINUATION);
                let bytes = bytes.saturating_add(self.left);
                self.block = (!ends_headers).then_some((frames, bytes));
                // What is compressed cannot be larger than what is not, but for a few bytes.
                if frames > limits.continuations_max
                    || bytes > limits.header_bytes_max.saturating_mul(2)
                {
                    return Err(Flood::Continuations);
                }
                if kind == CONTINUATION && self.left == 0 {
                    self.count(Flood::EmptyFrames, now, limits.empty_frames_max)?;
                }
            }
            DATA if self.left == 0 && flags & END_STREAM == 0 => {
                self.count(Flood::EmptyFrames, now, limits.empty_frames_max)?;
            }
            DATA => {}
            RST_STREAM => {
                self.count(Flood::Resets, now, limits.resets_max)?;
                return Ok(1);
            }
            SETTINGS if flags & ACK == 0 => {
                self.count(Flood::Settings, now, limits.settings_max)?;
            }
            PING if flags & ACK == 0 => self.count(Flood::Pings, now, limits.pings_max)?,
            // Answers are not answered.
            SETTINGS | PING => {}
            WINDOW_UPDATE if self.is_update() => {
                if u32::from_be_bytes([w & 0x7F, x, y, z]) < SMALL_UPDATE {
                    self.count(Flood::SmallUpdates, now, limits.small_updates_max)?;
                }
            }
            _ => self.count(Flood::OtherFrames, now, limits.other_frames_max)?,
        }
        Ok(0)
    }

    fn count(&mut self, flood: Flood, now: Time, most: u32) -> Result<(), Flood> {
        let place = match flood {
            Flood::EmptyFrames => 0,
            Flood::OtherFrames | Flood::Continuations | Flood::Engine => 1,
            Flood::Pings => 2,
            Flood::Resets => 3,
            Flood::Settings => 4,
            Flood::SmallUpdates => 5,
        };
        let most = most.max(1);
        let allowed = self
            .limiters
            .get_mut(place)
            .is_some_and(|limiter| limiter.allow(now, WINDOW / most, most));
        if allowed { Ok(()) } else { Err(flood) }
    }
}

/// The time in which as many frames of a kind may come as at once.
const WINDOW: Span = Span::from_secs(10);
/// Frames given to the engine at once: it keeps each by itself until it is taken out.
const SLICE_FRAMES: u32 = 256;
/// Bytes given to the engine at once.
const SLICE_BYTES: usize = 64 * 1024;
/// Smaller window updates are counted.
const SMALL_UPDATE: u32 = 64;
const HEADER_BYTES: usize = 9;
const UPDATE_BYTES: usize = 4;

// RFC 9113 section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        [&[a, b, c, kind, flags, 0, 0, 0, 1][..], payload].concat()
    }

    fn flooded(kind: u8, flags: u8, payload: &[u8], count: usize) -> Option<Flood> {
        let mut watch = Watch { preface: 0, ..Watch::default() };
        let bytes = frame(kind, flags, payload).repeat(count);
        run(&mut watch, &bytes, 7).err()
    }

    fn run(watch: &mut Watch, bytes: &[u8], piece: usize) -> Result<(), Flood> {
        for piece in bytes.chunks(piece.max(1)) {
            let mut at = 0;
            while at < piece.len() {
                let scanned = watch.scan(&piece[at..], Time::from_nanos(1), &Limits::default());
                if let Some(flood) = scanned.flood {
                    return Err(flood);
                }
                assert!(scanned.bytes > 0, "it moves on");
                at += scanned.bytes;
            }
        }
        Ok(())
    }

    #[test]
    fn each_kind_of_flood_is_found() {
        for (kind, flags, payload, most, flood) in [
            (PING, 0, &[0; 8][..], 200, Flood::Pings),
            (SETTINGS, 0, &[], 20, Flood::Settings),
            (RST_STREAM, 0, &[0; 4], 200, Flood::Resets),
            (DATA, 0, &[], 50, Flood::EmptyFrames),
            (WINDOW_UPDATE, 0, &[0, 0, 0, 1], 50_000, Flood::SmallUpdates),
            (2, 0, &[0; 5], 500, Flood::OtherFrames),
            (200, 0, &[], 500, Flood::OtherFrames),
        ] {
            assert_eq!(flooded(kind, flags, payload, most), None, "{kind}");
            assert_eq!(flooded(kind, flags, payload, most + 1), Some(flood), "{kind}");
        }
        for (kind, flags, payload) in [
            (DATA, 0, &[0; 3][..]),
            (DATA, END_STREAM, &[]),
            (PING, ACK, &[0; 8]),
            (SETTINGS, ACK, &[]),
            (WINDOW_UPDATE, 0, &[0, 0, 1, 0]),
            (HEADERS, END_HEADERS, &[0; 20]),
        ] {
            assert_eq!(flooded(kind, flags, payload, 60_000), None, "{kind} {payload:?}");
        }
    }

    #[test]
    fn a_rate_is_allowed_for_ever() {
        let mut watch = Watch { preface: 0, ..Watch::default() };
        let ping = frame(PING, 0, &[0; 8]);
        let mut now = Time::from_nanos(1);
        for _ in 0..10_000 {
            assert_eq!(watch.scan(&ping, now, &Limits::default()).flood, None);
            now = now + Span::from_millis(50);
        }
    }

    #[test]
    fn header_blocks_are_bounded_by_frames_and_bytes() {
        let begin = frame(HEADERS, 0, b"x");
        for (piece, most) in [(&b"x"[..], 4), (&[0; 16_000], 2)] {
            let mut watch = Watch { preface: 0, ..Watch::default() };
            let fine = [begin.clone(), frame(CONTINUATION, 0, piece).repeat(most)].concat();
            assert_eq!(run(&mut watch, &fine, 1000), Ok(()));
            assert!(watch.is_within());
            let more = frame(CONTINUATION, 0, piece);
            assert_eq!(run(&mut watch, &more, 1000), Err(Flood::Continuations));
        }
        let mut watch = Watch { preface: 0, ..Watch::default() };
        for _ in 0..1000 {
            let whole = [begin.clone(), frame(CONTINUATION, END_HEADERS, b"x")].concat();
            assert_eq!(run(&mut watch, &whole, 3), Ok(()));
            assert!(!watch.is_within());
        }
    }

    #[test]
    fn slices_are_bounded_by_frames() {
        let mut watch = Watch::default();
        let bytes = [PREFACE.to_vec(), frame(DATA, 0, b"x").repeat(1000)].concat();
        let scanned = watch.scan(&bytes, Time::from_nanos(1), &Limits::default());
        assert_eq!(scanned.bytes, 24 + 10 * SLICE_FRAMES as usize);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            frames in proptest::collection::vec((0u8..12, any::<u8>(), 0usize..40), 0..400),
            piece in 1usize..50,
        ) {
            let bytes: Vec<u8> = frames
                .iter()
                .flat_map(|(kind, flags, len)| frame(*kind, *flags, &vec![0; *len]))
                .collect();
            let mut whole = Watch { preface: 0, ..Watch::default() };
            let mut split = whole.clone();
            let (one, other) = (run(&mut whole, &bytes, usize::MAX), run(&mut split, &bytes, piece));
            prop_assert_eq!(one, other);
            prop_assert_eq!(whole.is_within(), split.is_within());
        }
    }
}
