//! What holds of all frames, fragments and positions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::seeds;
use proptest::prelude::*;
use tiderace_base::Time;
use tiderace_rsocket::fragment::{
    Assemblies, FRAGMENT_BYTES_MIN, FragmentLimits, Fragments, Taken,
};
use tiderace_rsocket::frame::{Body, Frame, Header, PREFIX_BYTES, Split, kind, split};
use tiderace_rsocket::position::{Received, Retained};
use tiderace_wire::{Framing, MessageFraming};

static LENGTHS: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| panic!("frames are binary"),
    binary: |len, out| out.extend_from_slice(&(len as u32).to_le_bytes()),
    armour: None,
};
static DOUBLED: MessageFraming = MessageFraming {
    id: 2,
    text: |_, _| {},
    binary: |_, _| {},
    armour: Some(|out, start, _| {
        let frame = out.split_off(start);
        out.extend(frame.iter().flat_map(|byte| [*byte, *byte]));
    }),
};

const LIMITS: FragmentLimits = FragmentLimits {
    message_bytes_max: 10_000,
    total_bytes_max: 20_000,
    messages_max: 4,
    fragments_max: 1000,
    fragment_bytes_min: FRAGMENT_BYTES_MIN - PREFIX_BYTES,
};

fn bare(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write_bare(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written(seed in seeds(200)) {
        let frame = seed.frame();
        let bytes = bare(&frame);
        prop_assert_eq!(bytes.len(), frame.len());
        prop_assert_eq!(Header::read(&bytes).unwrap().0, frame.header());
        prop_assert_eq!(Frame::read(&bytes).unwrap(), frame);
    }

    #[test]
    fn every_transport_marks_frames_in_its_way(seed in seeds(200), following in 0usize..100) {
        let frame = seed.frame();
        let bytes = bare(&frame);
        let mut out = b"before".to_vec();
        frame.write(Framing::Stream, &mut out);
        prop_assert_eq!(split(&out[6..], bytes.len()).unwrap(), Split::Frame(&bytes));
        prop_assert_eq!(out.len(), 6 + PREFIX_BYTES + bytes.len());
        out.clear();
        frame.write_head(following, Framing::Stream, &mut out);
        prop_assert_eq!(split(&out, 1 << 20).unwrap(), Split::Need(out.len() + following).min_of(&bytes, following));
        out.clear();
        frame.write(Framing::Messages(&LENGTHS), &mut out);
        prop_assert_eq!(&out[..4], (bytes.len() as u32).to_le_bytes());
        prop_assert_eq!(&out[4..], &bytes);
        out.clear();
        frame.write(Framing::Messages(&DOUBLED), &mut out);
        prop_assert_eq!(out.len(), 2 * bytes.len());
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(frame) = Frame::read(&bytes) {
            let again = bare(&frame);
            prop_assert_eq!(Frame::read(&again).unwrap(), frame);
        }
        let _ = split(&bytes, 1000);
    }

    #[test]
    fn a_frame_that_is_cut_off_is_none_or_says_less(seed in seeds(40), cut in any::<prop::sample::Index>()) {
        let bytes = bare(&seed.frame());
        let cut = cut.index(bytes.len());
        if let Ok(frame) = Frame::read(&bytes[..cut]) {
            prop_assert!(frame.len() <= cut || matches!(frame.body, Body::Ignored));
        }
    }

    #[test]
    fn fragments_are_put_together_again(seed in seeds(2000), bytes_max in 0usize..700) {
        let frame = seed.message();
        let mut assemblies = Assemblies::new();
        let mut whole = false;
        let (mut sent, count) = (Vec::new(), Fragments::new(frame, bytes_max).count());
        for (place, fragment) in Fragments::new(frame, bytes_max).enumerate() {
            prop_assert!(!whole);
            let last = place + 1 == count;
            let len = fragment.len();
            prop_assert!(len <= bytes_max.max(FRAGMENT_BYTES_MIN));
            if !last {
                prop_assert_eq!(len, bytes_max.max(FRAGMENT_BYTES_MIN), "all but the last are full");
            }
            if place > 0 {
                let Body::Payload(item) = fragment.body else { panic!("{fragment:?}") };
                prop_assert!(item.next, "rsocket-java drops others");
                prop_assert!(last || !item.complete);
            }
            sent.push(bare(&fragment));
            match assemblies.take(Time::ZERO, &Frame::read(&sent[place]).unwrap(), &LIMITS).unwrap() {
                Taken::Whole => {
                    prop_assert_eq!(count, 1);
                    prop_assert_eq!(fragment, frame);
                }
                Taken::Kept => prop_assert!(!last && assemblies.is_open(frame.stream)),
                Taken::Complete(assembled) => {
                    prop_assert!(last);
                    prop_assert_eq!(assembled.frame(), frame);
                    whole = true;
                }
            }
        }
        prop_assert!(whole || count == 1);
        prop_assert!(assemblies.is_empty());
        prop_assert_eq!(assemblies.bytes(), 0);
    }

    #[test]
    fn what_is_retained_is_what_was_sent_last(
        lens in proptest::collection::vec((0usize..40, any::<bool>()), 0..40),
        bytes_max in 0usize..800,
        trims in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut retained = Retained::new();
        let mut received = Received::default();
        // Every frame that counts, with the position behind it.
        let mut model: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, (len, counts)) in lens.iter().enumerate() {
            let stream = number as u32 + 1;
            let data = vec![number as u8; *len];
            let item = tiderace_rsocket::frame::Payload::data(&data);
            let frame = match counts {
                true => Frame::item(stream, item, false),
                false => Frame::connection(Body::MetadataPush(&data)),
            };
            let bytes = bare(&frame);
            retained.keep(&bytes, bytes_max);
            received.count(frame.header(), bytes.len());
            if *counts {
                model.push((received.position(), bytes));
            }
            if number % 10 == 9 && let Some(trim) = trims.get(number / 10) && !model.is_empty() {
                retained.trim(model[trim.index(model.len())].0);
            }
            prop_assert!(retained.bytes() <= bytes_max);
            prop_assert_eq!(retained.next(), received.position());
        }
        let mut kept = Vec::new();
        retained.each(|frame| kept.push(frame.to_vec()));
        let expected: Vec<_> =
            model.iter().skip(model.len() - kept.len()).map(|(_, bytes)| bytes.clone()).collect();
        prop_assert_eq!(&kept, &expected);
        let ends: Vec<u64> = std::iter::once(0).chain(model.iter().map(|(end, _)| *end)).collect();
        for position in 0..=retained.next() + 1 {
            let there = ends.contains(&position) && position >= retained.first();
            prop_assert_eq!(retained.reaches(position), there, "{}", position);
        }
    }
}

/// What a split says when so many bytes are still missing.
trait MinOf<'a> {
    fn min_of(self, bytes: &'a [u8], following: usize) -> Split<'a>;
}

impl<'a> MinOf<'a> for Split<'a> {
    fn min_of(self, bytes: &'a [u8], following: usize) -> Split<'a> {
        if following == 0 { Split::Frame(bytes) } else { self }
    }
}

#[test]
fn frames_of_streams_count_and_others_do_not() {
    for (number, counted) in [
        (kind::REQUEST_RESPONSE, true),
        (kind::REQUEST_FNF, true),
        (kind::REQUEST_STREAM, true),
        (kind::REQUEST_CHANNEL, true),
        (kind::REQUEST_N, true),
        (kind::CANCEL, true),
        (kind::PAYLOAD, true),
        (kind::ERROR, true),
        (kind::SETUP, false),
        (kind::LEASE, false),
        (kind::KEEPALIVE, false),
        (kind::METADATA_PUSH, false),
        (kind::RESUME, false),
        (kind::RESUME_OK, false),
        (kind::EXT, false),
    ] {
        let header = |stream| Header { stream, kind: number, flags: 0 };
        assert_eq!(header(1).counts(), counted, "{number:#x}");
        assert!(!header(0).counts(), "{number:#x}");
    }
}
